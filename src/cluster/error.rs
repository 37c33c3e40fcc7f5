//! What can go wrong between us and the API server, and what to do about each.
//!
//! In: answers and failures of requests. Out: errors that say which request, and a disposition.
//! Must never: hide whether a change may have been made; an answer that was lost says so.

use std::time::Duration;

use kube::core::Status;

use crate::api::annotations::TooLarge;

/// Why a request or an action did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The lease ran out, or was never ours.
    #[error("{request}: not sent, this process does not hold the lease any more")]
    NotLeader {
        /// What was to be done.
        request: String,
    },
    /// The API server answered with a refusal.
    #[error(
        "{request}: the API server answered {} {}: {}",
        status.code, status.reason, status.message
    )]
    Refused {
        /// What was asked.
        request: String,
        /// Its answer.
        status: Box<Status>,
    },
    /// No answer in time: the change may have been made.
    #[error("{request}: no answer within {after:?}, so it may or may not have been done")]
    TimedOut {
        /// What was asked.
        request: String,
        /// How long we waited.
        after: Duration,
    },
    /// The connection failed: the change may have been made.
    #[error("{request}: the connection failed, so it may or may not have been done")]
    Broken {
        /// What was asked.
        request: String,
        /// How.
        #[source]
        source: Box<kube::Error>,
    },
    /// The change was made, but its answer makes no sense to us.
    #[error("{request}: done, but the answer cannot be read")]
    Unreadable {
        /// What was asked.
        request: String,
        /// Where it stops making sense.
        #[source]
        source: serde_json::Error,
    },
    /// What was to be written does not fit.
    #[error("{request}: not sent, it would not fit")]
    TooLarge {
        /// What was to be written.
        request: String,
        /// By how much.
        #[source]
        source: TooLarge,
    },
    /// Something else has the name of what was to be created.
    #[error("{request}: {object} is there with other content: delete it, if nobody needs it")]
    InTheWay {
        /// What was asked.
        request: String,
        /// What is in the way, with its namespace.
        object: String,
    },
    /// The configuration of the client cannot be used.
    #[error("no client for {server}: check the kubeconfig and the files it names")]
    Unusable {
        /// The API server.
        server: String,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// The request could not be built: a defect.
    #[error("{request}: not a valid request")]
    Unbuildable {
        /// What was to be asked.
        request: String,
        /// Why not.
        #[source]
        source: http::Error,
    },
}

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The same again later.
    Retry,
    /// Look again, plan again.
    Conflict,
    /// Somebody else must act first; asking again later is right.
    Wait,
    /// Read back what was done before anything else.
    ReadBack,
    /// Report; a person must act.
    GiveUp,
}

impl ClusterError {
    /// Returns what to do about it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::NotLeader { .. } => Disposition::Retry,
            Self::TimedOut { .. } | Self::Broken { .. } | Self::Unreadable { .. } => {
                Disposition::ReadBack
            }
            Self::TooLarge { .. }
            | Self::InTheWay { .. }
            | Self::Unusable { .. }
            | Self::Unbuildable { .. } => Disposition::GiveUp,
            Self::Refused { status, .. } => match status.code {
                409 => Disposition::Conflict,
                422 if is_failed_test(status) => Disposition::Conflict,
                429 => Disposition::Wait,
                code if code >= 500 => Disposition::Retry,
                _ => Disposition::GiveUp,
            },
        }
    }

    /// Returns the HTTP status of a refusal.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(status.code),
            Self::NotLeader { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::Unreadable { .. }
            | Self::TooLarge { .. }
            | Self::InTheWay { .. }
            | Self::Unusable { .. }
            | Self::Unbuildable { .. } => None,
        }
    }

    /// Returns whether the object to create is there already.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.is_already_exists())
    }

    /// Returns whether the right to do it is missing.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Returns whether the object was not as the request said.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Returns whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }
}

/// Returns whether a 422 comes from a `test` of a JSON patch rather than from validation.
///
/// A validation names the fields it refuses; the patch itself names none.
fn is_failed_test(status: &Status) -> bool {
    status
        .details
        .as_ref()
        .is_none_or(|details| details.causes.iter().all(|cause| cause.field.is_empty()))
}
