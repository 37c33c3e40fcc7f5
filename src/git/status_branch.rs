//! Writes the status branch of one cluster: `nodewright-status/<cluster>`.
//!
//! In: the files that state amounts to, and who writes. Out: a commit on the remote, or the finding
//! that it is there already. One writer, never forced; a branch that moved is built upon; a branch
//! that belongs to somebody else is left alone. It never slows a rollout: every wait is bounded,
//! and a push that fails is tried again at the next flush with whatever the state is then.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use thiserror::Error;

use super::cache::CacheError;
use super::error::{Disposition, TransportError};
use super::protocol::{FetchRequest, Limits, PushRequest};
use super::revision::CommitId;
use super::source::{Remote, Source};
use super::status_tree::{self, Built, Writer};
use super::transport::Transport;
use super::verdict::pause_before;
use crate::clock::Clock;

/// Every status branch begins with this, so that one rule on the forge covers them all.
pub const STATUS_BRANCH_PREFIX: &str = "nodewright-status/";

/// Is the content of a status commit: a full replacement of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCommit {
    /// Every file of the branch; a pure function of state, so that equal state is an equal tree.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The subject; cut at 72 characters.
    pub subject: String,
    /// The trailers besides cluster, cluster UID, epoch and number, which are added.
    pub trailers: Vec<(String, String)>,
    /// The time of the commit.
    pub time: Timestamp,
}

/// Says what came of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The branch holds exactly this content already; nothing was pushed.
    Unchanged,
    /// The commit is on the remote.
    Pushed {
        /// The commit.
        commit: CommitId,
        /// Its number.
        seq: u64,
        /// How many pushes it took.
        attempts: u32,
        /// A commit by somebody else that ours builds on; to be reported as `ForeignCommit`.
        foreign: Option<CommitId>,
    },
}

/// Says why the status was not written.
#[derive(Debug, Error)]
pub enum StatusError {
    /// The source branch is the status branch, or one would be a folder of the other.
    #[error("status branch `{status}` cannot live beside source branch `{source_branch}`")]
    SourceBranch {
        /// The status branch.
        status: String,
        /// The branch we follow.
        source_branch: String,
    },
    /// The cluster's name cannot be part of a branch name.
    #[error("`{cluster}` cannot be part of a branch name")]
    ClusterName {
        /// The name.
        cluster: String,
    },
    /// Another replica with a later term has written.
    #[error("another replica leads: its term is {theirs}, ours is {ours}")]
    Fenced {
        /// Our term.
        ours: u64,
        /// The term at the tip.
        theirs: u64,
    },
    /// Another cluster writes under our name.
    #[error("another cluster ({theirs}) writes the status branch of `{cluster}`")]
    ClusterNameConflict {
        /// The name both use.
        cluster: String,
        /// The UID at the tip.
        theirs: String,
    },
    /// A path that Git cannot hold.
    #[error("`{path}` cannot be a path in the status branch")]
    Path {
        /// The path.
        path: String,
    },
    /// The clone cannot be opened.
    #[error("the clone for the status branch cannot be used")]
    Cache(#[source] CacheError),
    /// An object cannot be read or written.
    #[error("{doing} of the status branch failed")]
    Objects {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: git2::Error,
    },
    /// The work was cancelled: the process is going down.
    #[error("the work on the status branch was cancelled")]
    Cancelled,
    /// The remote could not be read or written.
    #[error("the status branch could not be {doing} after {attempts} attempts")]
    Transport {
        /// `read` or `written`.
        doing: &'static str,
        /// How many pushes were tried.
        attempts: u32,
        /// The last error.
        #[source]
        source: Box<TransportError>,
    },
}

/// Is the status branch of one cluster, and what we know of its tip.
#[derive(Debug)]
pub struct StatusBranch {
    remote: Remote,
    cache: PathBuf,
    cluster: String,
    cluster_uid: String,
    tip: Tip,
    status_branches: u32,
}

#[derive(Debug, Clone)]
enum Tip {
    /// Not read yet, or a push ended without a word: read it before anything else.
    Unknown,
    Known(Option<CommitId>),
}

impl StatusBranch {
    /// Returns the status branch of `cluster` in `remote`; `source` is what must not be touched,
    /// `None` when desired state does not come from Git.
    ///
    /// `cluster_uid` is the UID of the kube-system namespace. Nothing is read yet.
    ///
    /// # Errors
    ///
    /// The branch would be the source branch, or cannot be a branch at all.
    pub fn new(
        remote: Remote,
        cache: PathBuf,
        cluster: &str,
        cluster_uid: &str,
        source: Option<&Source>,
    ) -> Result<Self, StatusError> {
        let status = format!("{STATUS_BRANCH_PREFIX}{cluster}");
        if cluster.contains('/') || !git2::Reference::is_valid_name(&format!("refs/heads/{status}"))
        {
            return Err(StatusError::ClusterName { cluster: cluster.to_owned() });
        }
        if let Some(source) = source.filter(|source| source.remote.address == remote.address) {
            let followed = source.branch.as_str();
            // A file cannot be a folder: Git refuses `a` beside `a/b`.
            let collides = followed == status
                || status.strip_prefix(followed).is_some_and(|rest| rest.starts_with('/'))
                || followed.strip_prefix(&status).is_some_and(|rest| rest.starts_with('/'));
            if collides {
                let source_branch = followed.to_owned();
                return Err(StatusError::SourceBranch { status, source_branch });
            }
        }
        Ok(Self {
            remote,
            cache,
            cluster: cluster.to_owned(),
            cluster_uid: cluster_uid.to_owned(),
            tip: Tip::Unknown,
            status_branches: 1,
        })
    }

    /// Returns how many status branches the repository had when it was last read.
    pub fn status_branches(&self) -> u32 {
        self.status_branches
    }

    /// Writes the commit, if the branch does not hold this content already.
    ///
    /// Builds in the background, pushes through `transport`; on a conflict reads the branch and
    /// builds anew on its tip. Waits between tries on `clock`, 15 s in all at most. `epoch` is the
    /// writer's term.
    ///
    /// # Errors
    ///
    /// See [`StatusError::disposition`]; `Retry` means: at the next flush, with the state of then.
    pub async fn write(
        &mut self,
        transport: &Transport,
        commit: &StatusCommit,
        epoch: u64,
        clock: Clock,
    ) -> Result<Written, StatusError> {
        let mut attempts = 0;
        loop {
            let was_known = matches!(self.tip, Tip::Known(_));
            let tip = self.read_tip(transport, attempts).await?;
            let built = self.build(commit, epoch, tip.clone()).await;
            let (built, seq, foreign) = match built {
                Ok(Built::Unchanged) => return Ok(Written::Unchanged),
                Ok(Built::Commit { commit, seq, foreign }) => (commit, seq, foreign),
                Err(StatusError::Cache(_) | StatusError::Objects { .. }) if was_known => {
                    // Somebody deleted the cache, as they may: fill it again.
                    self.tip = Tip::Unknown;
                    continue;
                }
                Err(error) => {
                    self.tip = Tip::Unknown;
                    return Err(error);
                }
            };
            attempts += 1;
            // Until the push is confirmed nobody knows where the branch is.
            self.tip = Tip::Unknown;
            let request = PushRequest {
                remote: self.remote.clone(),
                cache: self.cache.clone(),
                status_cluster: self.cluster.clone(),
                commit: built.clone(),
                expected: tip,
            };
            let error = match transport.push(request).await {
                Ok(()) => {
                    self.tip = Tip::Known(Some(built.clone()));
                    return Ok(Written::Pushed { commit: built, seq, attempts, foreign });
                }
                Err(error) => error,
            };
            let wait = pause_before(attempts + 1, fastrand::f64()).filter(|_| is_worth_it(&error));
            let Some(wait) = wait else {
                let source = Box::new(error);
                return Err(StatusError::Transport { doing: "written", attempts, source });
            };
            clock.sleep(wait).await;
        }
    }

    async fn read_tip(
        &mut self,
        transport: &Transport,
        attempts: u32,
    ) -> Result<Option<CommitId>, StatusError> {
        if let Tip::Known(tip) = &self.tip {
            return Ok(tip.clone());
        }
        let request = FetchRequest {
            remote: self.remote.clone(),
            cache: self.cache.clone(),
            source_branch: None,
            status_cluster: Some(self.cluster.clone()),
            limits: Limits::default(),
        };
        let fetched = transport.fetch(request).await.map_err(|source| StatusError::Transport {
            doing: "read",
            attempts,
            source: Box::new(source),
        })?;
        self.tip = Tip::Known(fetched.status.clone());
        self.status_branches = fetched.status_branches.max(1);
        Ok(fetched.status)
    }

    async fn build(
        &self,
        commit: &StatusCommit,
        epoch: u64,
        tip: Option<CommitId>,
    ) -> Result<Built, StatusError> {
        let cache = self.cache.clone();
        let writer =
            Writer { cluster: self.cluster.clone(), cluster_uid: self.cluster_uid.clone(), epoch };
        let commit = commit.clone();
        tokio::task::spawn_blocking(move || {
            status_tree::build(&cache, &writer, &commit, tip.as_ref())
        })
        .await
        .unwrap_or(Err(StatusError::Cancelled))
    }
}

impl StatusError {
    /// Returns what to do about it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Fenced { .. } => Disposition::Conflict,
            Self::Cancelled | Self::Objects { .. } => Disposition::Retry,
            Self::SourceBranch { .. }
            | Self::ClusterName { .. }
            | Self::ClusterNameConflict { .. }
            | Self::Path { .. }
            | Self::Cache(_) => Disposition::GiveUp,
            Self::Transport { source, .. } => match source.disposition() {
                // Conflicts were tried again until we gave up for this flush.
                Disposition::Conflict | Disposition::Retry => Disposition::Retry,
                other @ (Disposition::Wait | Disposition::GiveUp) => other,
            },
        }
    }

    /// Returns what a person can do about it, as one sentence.
    pub fn way_out(&self) -> &'static str {
        match self {
            Self::SourceBranch { .. } => {
                "follow another branch with --revision, or name another repository with \
                 --status-repo"
            }
            Self::ClusterName { .. } => "give --cluster a name of letters, digits, - and .",
            Self::Fenced { .. } => "nothing: this replica stops writing",
            Self::ClusterNameConflict { .. } => {
                "give one of the two clusters another --cluster name; nothing was overwritten. If \
                 the cluster was made anew under its old name, delete the status branch"
            }
            Self::Path { .. } => "this is a mistake in nodewright: please report it",
            Self::Cache(_) | Self::Objects { .. } => {
                "make the cache folder writable, or delete it: it is filled again"
            }
            Self::Cancelled => "nothing: the next start writes the state",
            Self::Transport { source, .. } => source.way_out(),
        }
    }
}

/// Says whether pushing again within this flush may help; time-outs wait for the next flush.
fn is_worth_it(error: &TransportError) -> bool {
    match error {
        TransportError::TipMoved { .. } | TransportError::PushUnconfirmed { .. } => true,
        TransportError::PushRefused { .. } | TransportError::Server { .. } => {
            matches!(error.disposition(), Disposition::Conflict | Disposition::Retry)
        }
        TransportError::Unreachable { .. }
        | TransportError::Deadline { .. }
        | TransportError::Authentication { .. }
        | TransportError::Credentials { .. }
        | TransportError::HostKey { .. }
        | TransportError::Certificate { .. }
        | TransportError::RepositoryMissing { .. }
        | TransportError::RepositoryEmpty { .. }
        | TransportError::BranchMissing { .. }
        | TransportError::TooLarge { .. }
        | TransportError::Corrupt { .. }
        | TransportError::Cache { .. }
        | TransportError::ChildStart { .. }
        | TransportError::ChildFailed { .. } => false,
    }
}
