//! What the daemon and its transport process say to each other: one JSON request, one JSON answer.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::TransportError;
use super::revision::CommitId;
use super::source::Remote;

/// Bounds what a server may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The most bytes of one transfer.
    pub received_max_bytes: u64,
    /// The most objects of one transfer.
    pub objects_max: u64,
}

impl Default for Limits {
    /// 256 MiB and a million objects: a thousand times what a configuration repository has.
    fn default() -> Self {
        Self { received_max_bytes: 256 * 1024 * 1024, objects_max: 1_000_000 }
    }
}

/// Asks for the tips of one source branch and one status branch, with their full history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchRequest {
    /// From where.
    pub remote: Remote,
    /// The folder of our bare clone.
    pub cache: PathBuf,
    /// The branch to follow; it must be there.
    pub source_branch: Option<String>,
    /// The cluster whose status branch to fetch; it may be missing.
    pub status_cluster: Option<String>,
    /// What the server may send.
    pub limits: Limits,
}

/// Says where the branches are now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// The tip of the source branch; `None` only when none was asked for.
    pub source: Option<CommitId>,
    /// The tip of the status branch; `None` when it does not exist.
    pub status: Option<CommitId>,
    /// How many status branches the repository has; it spaces our pushes ([`super::Pacer`]).
    pub status_branches: u32,
    /// How many bytes came over the wire.
    pub received_bytes: u64,
}

/// Asks to move one status branch, without force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushRequest {
    /// To where.
    pub remote: Remote,
    /// The folder of our bare clone, which holds the commit.
    pub cache: PathBuf,
    /// The cluster whose status branch it is.
    pub status_cluster: String,
    /// The commit.
    pub commit: CommitId,
    /// Where the branch must be now; `None`: it must not exist.
    pub expected: Option<CommitId>,
}

/// Is what goes to the child's standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "camelCase")]
pub(super) enum Request {
    Fetch {
        fetch: FetchRequest,
        /// When the child ends itself, should nobody be left to kill it.
        end_after_seconds: u64,
    },
    Push {
        push: PushRequest,
        end_after_seconds: u64,
    },
}

/// Is what comes back on its standard output.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "camelCase")]
pub(super) enum Answer {
    Fetched { fetched: Fetched },
    Pushed,
    Failed { error: TransportError },
}

impl Request {
    pub(super) fn remote(&self) -> &Remote {
        match self {
            Self::Fetch { fetch, .. } => &fetch.remote,
            Self::Push { push, .. } => &push.remote,
        }
    }

    pub(super) fn cache(&self) -> &std::path::Path {
        match self {
            Self::Fetch { fetch, .. } => &fetch.cache,
            Self::Push { push, .. } => &push.cache,
        }
    }

    pub(super) fn end_after_seconds(&self) -> u64 {
        match self {
            Self::Fetch { end_after_seconds, .. } | Self::Push { end_after_seconds, .. } => {
                *end_after_seconds
            }
        }
    }
}

/// Returns the full name of a cluster's status branch.
pub(super) fn status_reference(cluster: &str) -> String {
    format!("refs/heads/nodewright-status/{cluster}")
}
