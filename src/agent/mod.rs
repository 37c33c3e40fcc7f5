//! Runs in the executor pod: the steps of a package, chrooted into the host.
//!
//! In: the arguments and environment of the executor container ([`Invocation`]), the package under
//! `ROOT/COPYDIR` with its `config.json`. Out: what the package's scripts do to the host; flags,
//! history, interrupt markers and logs on the host; one [`Summary`] in the termination message; an
//! exit code. Arguments, paths, texts and codes are those of upstream contract E, so published
//! packages run unchanged and a host can be taken over and handed back with nothing run again.
//!
//! Never talks to the cluster, never reads the process environment or the clock by itself, never
//! follows a symbolic link out of the mounted root, never reports a step as done that did not end
//! with one of its return codes.

mod banner;
mod config;
mod error;
mod flags;
mod history;
mod host;
mod interrupt;
mod invocation;
mod log;
mod mode;
mod output;
mod overlay;
mod process;
mod python;
mod request;
mod run;
mod steps;
mod stop;
mod summary;

pub use config::{Config, ConfigError, Problem, Step, load as load_config};
pub use error::AgentError;
pub use flags::{fingerprint, flag_names};
pub use host::HostRoot;
pub use invocation::Invocation;
pub use mode::Mode;
pub use python::{list_of_integers, list_of_strings};
pub use request::ResourceId;
pub use run::run;
pub use stop::Stop;
pub use summary::{SUMMARY_MAX_BYTES, Summary};
