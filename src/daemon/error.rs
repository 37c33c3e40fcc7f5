//! What ends the daemon. Everything else is reported and tried again.

use thiserror::Error;

use super::http::HttpError;
use crate::git::StatusError;

/// Why the daemon cannot run.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The API server refuses us before anything began.
    #[error(
        "the API server refuses to say which cluster this is ({}): give the service account \
         `get` on the namespace kube-system", status.message
    )]
    Forbidden {
        /// Its answer.
        status: Box<kube::core::Status>,
    },
    /// The status branch cannot be written with these settings.
    #[error("the status branch cannot be used")]
    Status(#[source] StatusError),
    /// Probes or metrics cannot be served.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A task of ours ended as it never should.
    #[error("the {task} task failed: this is a defect, please report it")]
    Task {
        /// Which.
        task: &'static str,
        /// How.
        #[source]
        source: tokio::task::JoinError,
    },
}
