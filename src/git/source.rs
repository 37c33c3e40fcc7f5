//! What to follow, and with which credentials.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::address::Address;
use super::protocol::{FetchRequest, Limits};
use super::revision::RevisionError;

/// The branch that is followed when nobody says otherwise.
pub const BRANCH_DEFAULT: &str = "main";

/// How often we ask when nobody says otherwise; a webhook or a watcher only asks earlier.
pub const POLL_DEFAULT: Duration = Duration::from_secs(60);

/// The shortest poll we agree to: forges count requests.
pub const POLL_MIN: Duration = Duration::from_secs(10);

/// Is a repository and the folder with the credentials for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// The address, free of credentials.
    pub address: Address,
    /// The folder that holds the keys of a Flux Git secret as files; `None`: no credentials.
    ///
    /// It is read again at every fetch and push, so a rotated secret needs no restart.
    pub credentials: Option<PathBuf>,
}

/// Is the source of desired state: one branch of one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it is.
    pub remote: Remote,
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The folder for our bare clone; made when missing, safe to delete at any time.
    pub cache: PathBuf,
    /// How often to ask, at least [`POLL_MIN`].
    pub poll: Duration,
}

impl Source {
    /// Returns a source that follows `main` of `remote`, asked every 60 s.
    pub fn new(remote: Remote, cache: PathBuf) -> Self {
        Self { remote, branch: BRANCH_DEFAULT.to_owned(), cache, poll: POLL_DEFAULT }
    }

    /// Returns the same source on another branch; a `refs/heads/` in front is taken off.
    ///
    /// # Errors
    ///
    /// Git has no such branch name, or it is a reference that is no branch: a pull request's can
    /// be written by anyone who can open one.
    pub fn following(mut self, branch: &str) -> Result<Self, RevisionError> {
        let name = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        let is_branch = git2::Reference::is_valid_name(&format!("refs/heads/{name}"));
        if !is_branch || name.starts_with("refs/") {
            return Err(RevisionError::Branch { text: branch.escape_debug().to_string() });
        }
        name.clone_into(&mut self.branch);
        Ok(self)
    }

    /// Returns the same source asked every `poll`, but not more often than [`POLL_MIN`].
    #[must_use]
    pub fn polled_every(mut self, poll: Duration) -> Self {
        self.poll = poll.max(POLL_MIN);
        self
    }

    /// Returns the request that fetches the branch and, from the same repository, the status
    /// branch of `cluster`.
    pub fn fetch_request(&self, status_branch_of: Option<&str>) -> FetchRequest {
        FetchRequest {
            remote: self.remote.clone(),
            cache: self.cache.clone(),
            source_branch: Some(self.branch.clone()),
            status_cluster: status_branch_of.map(str::to_owned),
            limits: Limits::default(),
        }
    }
}
