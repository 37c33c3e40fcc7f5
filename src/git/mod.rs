//! Git in and Git out.
//!
//! In: an address, a branch, a folder of credentials. Out: the files of one commit, read straight
//! from the object database, and a status branch that tells what happened.
//!
//! Two halves. What talks to the network ([`transport_main`]: fetch and push with libgit2) runs in
//! a child process that [`Transport`] starts and kills at its deadline, so that a server that
//! hangs, or a pack that lies, never reaches the daemon. What only reads and writes objects of our
//! own cache runs in the daemon: [`read_tree`], [`ancestry`], [`StatusBranch`].
//!
//! This room never makes a work tree, never follows a symbolic link, never runs a hook, never
//! forces a push, never accepts a host key it was not given, and never prints or logs a credential.

mod address;
mod ancestry;
mod cache;
mod child;
mod credentials;
mod error;
mod guard;
mod known_hosts;
mod local;
mod message;
mod options;
mod pacer;
mod protocol;
mod revision;
mod source;
mod status_branch;
mod status_tree;
mod transport;
mod tree;
mod verdict;
mod watch;

pub use address::{Address, AddressError, AddressProblem, Scheme, redact};
pub use ancestry::{Ancestry, ancestry};
pub use cache::CacheError;
pub use child::{TransportMainError, transport_main};
pub use credentials::{Credentials, CredentialsError};
pub use error::{Disposition, TransportError};
pub use guard::{Accepted, Candidate, Decision, Hold, judge};
pub use known_hosts::{HostKeyProblem, KnownHosts, fingerprint};
pub use local::{LocalError, LocalRepository, Person, Told};
pub use message::{StatusMarks, compose_message, parse_marks};
pub use pacer::{Pacer, Urgency};
pub use protocol::{FetchRequest, Fetched, Limits, PushRequest};
pub use revision::{CommitId, Revision, RevisionError};
pub use source::{BRANCH_DEFAULT, POLL_DEFAULT, POLL_MIN, Remote, Source};
pub use status_branch::{STATUS_BRANCH_PREFIX, StatusBranch, StatusCommit, StatusError, Written};
pub use status_tree::{TipOwner, Writer, judge_tip};
pub use transport::{Transport, VERB as TRANSPORT_VERB};
pub use tree::{
    File, Files, Folder, Problem, ProblemKind, TreeError, list_folders, read_tree, scope_ids,
};
pub use verdict::{ATTEMPTS_MAX, PushVerdict, classify, pause_before};
pub use watch::{RefWatch, WatchError, watch};
