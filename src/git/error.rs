//! What goes wrong between us and a Git server, one kind for each thing that a person would do
//! differently about it.
//!
//! The errors travel from the child process to the daemon as JSON, so they hold texts, not
//! sources; the texts are redacted before they get here.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::known_hosts::HostKeyProblem;
use super::revision::CommitId;

/// Says what to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disposition {
    /// Try again later with the same input.
    Retry,
    /// Look at the world again and plan again.
    Conflict,
    /// Someone else must act first (a branch must be pushed); ask again at the usual pace.
    Wait,
    /// A person must change a setting or a secret; ask again at the slowest pace.
    GiveUp,
}

/// Is a fetch or a push that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum TransportError {
    /// No connection: refused, no route, no such name, connect timed out.
    #[error("{remote} cannot be reached: {detail}")]
    Unreachable {
        /// The address.
        remote: String,
        /// What the system said.
        detail: String,
    },
    /// The child process was killed at its deadline.
    #[error("{remote} gave no answer within {seconds} s; the transfer was stopped")]
    Deadline {
        /// The address.
        remote: String,
        /// The deadline.
        seconds: u64,
    },
    /// The server refused the credentials, or wants some and there are none.
    #[error("{remote} refused us: {detail}")]
    Authentication {
        /// The address.
        remote: String,
        /// Which credential was tried.
        detail: String,
    },
    /// The credentials folder lacks a file, or one cannot be used.
    #[error("the credentials for {remote} cannot be used: {detail}")]
    Credentials {
        /// The address.
        remote: String,
        /// Which file, and why.
        detail: String,
    },
    /// The SSH host key is not one that we were given.
    #[error("the {key_type} host key {fingerprint} of {host}:{port} is refused: {problem}")]
    HostKey {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The type of the key that was shown.
        key_type: String,
        /// The fingerprint of the key that was shown.
        fingerprint: String,
        /// Why it is refused.
        problem: HostKeyProblem,
    },
    /// The TLS certificate is not valid for this host, or nobody we trust signed it.
    #[error("the TLS certificate of {remote} is refused: {detail}")]
    Certificate {
        /// The address.
        remote: String,
        /// What the TLS library said.
        detail: String,
    },
    /// There is no repository there, or we may not see it.
    #[error("{remote} is not a repository, or these credentials may not see it: {detail}")]
    RepositoryMissing {
        /// The address.
        remote: String,
        /// What the server said.
        detail: String,
    },
    /// The repository has no branch at all.
    #[error("{remote} is an empty repository: it has no branch")]
    RepositoryEmpty {
        /// The address.
        remote: String,
    },
    /// The repository has branches, but not this one.
    #[error("{remote} has no branch `{branch}`; it has {}", list(present))]
    BranchMissing {
        /// The address.
        remote: String,
        /// The branch we follow.
        branch: String,
        /// Some of the branches that are there.
        present: Vec<String>,
    },
    /// The transfer was stopped because it grew over a bound.
    #[error("{remote} sent more than we take: {detail}")]
    TooLarge {
        /// The address.
        remote: String,
        /// Which bound.
        detail: String,
    },
    /// What the server sent does not hold together.
    #[error("{remote} sent something that is not a proper Git answer: {detail}")]
    Corrupt {
        /// The address.
        remote: String,
        /// What libgit2 said.
        detail: String,
    },
    /// The server answered with an error of its own.
    #[error("{remote} answered with an error: {detail}")]
    Server {
        /// The address.
        remote: String,
        /// What it said.
        detail: String,
    },
    /// The server took the push, but refused this reference.
    #[error("{remote} refused the push to {reference}: {message}")]
    PushRefused {
        /// The address.
        remote: String,
        /// The reference.
        reference: String,
        /// The server's own words, or its hook's.
        message: String,
    },
    /// The reference is not where we thought it was; nothing was pushed.
    #[error("{reference} of {remote} moved while we were writing")]
    TipMoved {
        /// The address.
        remote: String,
        /// The reference.
        reference: String,
        /// Where we thought it was; `None`: nowhere.
        expected: Option<CommitId>,
    },
    /// The push ended without a word about the reference, which is no success.
    #[error("{remote} did not confirm the push to {reference}")]
    PushUnconfirmed {
        /// The address.
        remote: String,
        /// The reference.
        reference: String,
    },
    /// Our own cache folder does not work.
    #[error("the cache folder {folder} does not work: {detail}")]
    Cache {
        /// The folder.
        folder: String,
        /// Why.
        detail: String,
    },
    /// The child process could not be started.
    #[error("the transport process {executable} cannot be started: {detail}")]
    ChildStart {
        /// The program.
        executable: String,
        /// Why.
        detail: String,
    },
    /// The child process died or answered nonsense.
    #[error("the transport process for {remote} died: {detail}")]
    ChildFailed {
        /// The address.
        remote: String,
        /// How it ended, and its last words.
        detail: String,
    },
}

impl TransportError {
    /// Returns what to do about it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Unreachable { .. }
            | Self::Deadline { .. }
            | Self::Corrupt { .. }
            | Self::Server { .. }
            | Self::PushUnconfirmed { .. }
            | Self::ChildFailed { .. } => Disposition::Retry,
            Self::TipMoved { .. } => Disposition::Conflict,
            Self::RepositoryEmpty { .. } | Self::BranchMissing { .. } => Disposition::Wait,
            Self::Authentication { .. }
            | Self::Credentials { .. }
            | Self::HostKey { .. }
            | Self::Certificate { .. }
            | Self::RepositoryMissing { .. }
            | Self::TooLarge { .. }
            | Self::Cache { .. }
            | Self::ChildStart { .. } => Disposition::GiveUp,
            Self::PushRefused { message, .. } => match super::verdict::classify(message) {
                super::verdict::PushVerdict::Conflict => Disposition::Conflict,
                super::verdict::PushVerdict::Retry => Disposition::Retry,
                super::verdict::PushVerdict::Permanent => Disposition::GiveUp,
            },
        }
    }

    /// Returns what a person can do about it, as one sentence.
    pub fn way_out(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => {
                "check the host name, the network policy and the proxy; we go on asking"
            }
            Self::Deadline { .. } => "check the server's load; we go on asking",
            Self::Authentication { .. } => {
                "check `username` and `password` (tokens go there too), or `identity`, in the \
                 credentials folder, and that the token or key is not expired"
            }
            Self::Credentials { .. } => {
                "put the file into the Secret that is mounted as credentials folder; the names are \
                 those of a Flux Git secret"
            }
            Self::HostKey { problem, .. } => host_key_way_out(problem),
            Self::Certificate { .. } => {
                "put the CA that signed it as `ca.crt` into the credentials folder; there is no \
                 setting that skips the check"
            }
            Self::RepositoryMissing { .. } => {
                "check the address, and that the credentials may read this repository"
            }
            Self::RepositoryEmpty { .. } => "push a first commit; we go on asking",
            Self::BranchMissing { .. } => "push the branch, or name another one with --revision",
            Self::TooLarge { .. } => {
                "move large files out of the repository's history, or use a repository that holds \
                 only configuration"
            }
            Self::Corrupt { .. } => "run `git fsck` on the server; we go on asking",
            Self::Server { .. } => "look at the server's log; we go on asking",
            Self::PushRefused { .. } => {
                "allow this credential to push to nodewright-status/*, or name another repository \
                 with --status-repo; rollouts go on meanwhile"
            }
            Self::TipMoved { .. } => "nothing: the commit is made again on the new tip",
            Self::PushUnconfirmed { .. } => {
                "nothing: the branch is read again before the next push"
            }
            Self::Cache { .. } => "make the folder writable, or delete it: it is filled again",
            Self::ChildStart { .. } => "check that the program is there and may be run",
            Self::ChildFailed { .. } => "check the memory limit; we go on asking",
        }
    }
}

fn host_key_way_out(problem: &HostKeyProblem) -> &'static str {
    match problem {
        HostKeyProblem::Changed => {
            "ask the server's operator for the fingerprint; if the key was really changed, replace \
             its line in `known_hosts` in the credentials folder"
        }
        HostKeyProblem::Revoked => {
            "do not trust this server; if the revocation is a mistake, take the line out of \
             `known_hosts`"
        }
        HostKeyProblem::UnknownHost { .. }
        | HostKeyProblem::UnknownType { .. }
        | HostKeyProblem::NoKey => {
            "compare the fingerprint with what the server's operator publishes, then add the line \
             that `ssh-keyscan` prints to `known_hosts` in the credentials folder"
        }
    }
}

fn list(branches: &[String]) -> String {
    if branches.is_empty() { "none".to_owned() } else { branches.join(", ") }
}
