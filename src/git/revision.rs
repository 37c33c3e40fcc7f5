//! Commit ids and revisions, each written and read in one place.
//!
//! A revision is written `main@sha1:<40 hex>` everywhere: status, trailers, events, logs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The length of a SHA-1 object id as text.
const COMMIT_ID_LEN_CHARS: usize = 40;

/// Is the id of a commit: forty lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitId(String);

/// Is a commit together with the branch it was seen on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Revision {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The commit.
    pub commit: CommitId,
}

/// Says why a text is no commit id or no revision.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RevisionError {
    /// Not forty hexadecimal digits.
    #[error("`{text}` is not a full commit id: forty hexadecimal digits are expected")]
    CommitId {
        /// What was given.
        text: String,
    },
    /// Nothing that Git takes as a branch, or a reference of another kind.
    #[error("`{text}` cannot be followed: a branch name is expected, such as `main`")]
    Branch {
        /// What was given.
        text: String,
    },
    /// Not `branch@sha1:<40 hex>`.
    #[error("`{text}` is not a revision: `<branch>@sha1:<40 hex>` is expected")]
    Revision {
        /// What was given.
        text: String,
    },
}

impl CommitId {
    /// Returns the forty digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first twelve digits, for lines that people read.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }

    pub(super) fn from_oid(oid: git2::Oid) -> Self {
        Self(oid.to_string())
    }

    pub(super) fn to_oid(&self) -> Result<git2::Oid, git2::Error> {
        git2::Oid::from_str(&self.0)
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for CommitId {
    type Err = RevisionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if text.len() != COMMIT_ID_LEN_CHARS || !hex {
            return Err(RevisionError::CommitId { text: text.escape_debug().to_string() });
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl TryFrom<String> for CommitId {
    type Error = RevisionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CommitId> for String {
    fn from(commit: CommitId) -> Self {
        commit.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { branch, commit } = self;
        write!(formatter, "{branch}@sha1:{commit}")
    }
}

impl FromStr for Revision {
    type Err = RevisionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || RevisionError::Revision { text: text.escape_debug().to_string() };
        let (branch, commit) = text.rsplit_once("@sha1:").ok_or_else(wrong)?;
        if branch.is_empty() {
            return Err(wrong());
        }
        Ok(Self { branch: branch.to_owned(), commit: commit.parse().map_err(|_| wrong())? })
    }
}

impl TryFrom<String> for Revision {
    type Error = RevisionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Revision> for String {
    fn from(revision: Revision) -> Self {
        revision.to_string()
    }
}
