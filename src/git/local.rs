//! A bare repository on this machine that is written without a work tree: what people do with
//! `git commit` and `git revert`, for the demo.
//!
//! In: files, a person, a message. Out: commits on a branch, and what is on one. Must never: touch
//! a repository that the daemon follows for somebody else; the daemon itself never uses this.

use std::path::{Path, PathBuf};

use git2::build::TreeUpdateBuilder;
use git2::{Commit, FileMode, Oid, Repository, RepositoryInitOptions, Signature, Time};
use jiff::Timestamp;
use thiserror::Error;

use super::revision::CommitId;

/// Is a bare repository in a folder.
pub struct LocalRepository {
    folder: PathBuf,
    repository: Repository,
}

/// Who commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Person<'a> {
    /// The name.
    pub name: &'a str,
    /// The mail address.
    pub mail: &'a str,
}

/// Is a commit of a branch, as its message tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Which one.
    pub commit: CommitId,
    /// Its whole message.
    pub message: String,
}

/// Says what could not be done with the repository.
#[derive(Debug, Error)]
pub enum LocalError {
    /// libgit2 could not do it.
    #[error("{doing} in {} failed", folder.display())]
    Git {
        /// What was tried.
        doing: &'static str,
        /// The repository.
        folder: PathBuf,
        /// Why it failed.
        #[source]
        source: git2::Error,
    },
    /// The lines that a commit changed have been changed again since.
    #[error("{commit} cannot be reverted: the same lines were changed after it")]
    RevertConflicts {
        /// The commit.
        commit: CommitId,
    },
}

impl Told {
    /// Returns the first line of the message.
    pub fn subject(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }
}

impl LocalRepository {
    /// Makes an empty bare repository in a folder that does not exist yet or is empty.
    ///
    /// # Errors
    /// There is a repository already, or the folder cannot be written.
    pub fn init(folder: &Path, branch: &str) -> Result<Self, LocalError> {
        let mut options = RepositoryInitOptions::new();
        // No template of the user: it could bring hooks.
        options.bare(true).no_reinit(true).mkpath(true).external_template(false);
        options.initial_head(branch);
        let made = Repository::init_opts(folder, &options);
        let repository = made.map_err(|source| LocalError::Git {
            doing: "making a repository",
            folder: folder.to_owned(),
            source,
        })?;
        Ok(Self { folder: folder.to_owned(), repository })
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Commits files, by path, over what the branch holds, and moves the branch there.
    ///
    /// # Errors
    /// The repository cannot be written, or a path is none that Git can hold.
    pub fn commit(
        &self,
        branch: &str,
        (person, time): (Person<'_>, Timestamp),
        message: &str,
        files: &[(&str, &str)],
    ) -> Result<CommitId, LocalError> {
        self.doing("committing", || {
            let tip = self.tip(branch)?;
            let baseline = match &tip {
                Some(tip) => tip.tree()?,
                None => {
                    let empty = self.repository.treebuilder(None)?.write()?;
                    self.repository.find_tree(empty)?
                }
            };
            let mut update = TreeUpdateBuilder::new();
            for (path, content) in files {
                let blob = self.repository.blob(content.as_bytes())?;
                update.upsert(*path, blob, FileMode::Blob);
            }
            let tree = update.create_updated(&self.repository, &baseline)?;
            self.commit_tree(branch, tip.as_ref(), tree, (person, time), message)
        })
    }

    /// Reverts a commit on top of the branch, as `git revert` does, with its message.
    ///
    /// # Errors
    /// The repository cannot be written, or later commits changed the same lines.
    pub fn revert(
        &self,
        branch: &str,
        (person, time): (Person<'_>, Timestamp),
        commit: &CommitId,
    ) -> Result<CommitId, LocalError> {
        let tree = self.doing("reverting", || {
            let reverted = self.repository.find_commit(commit.to_oid()?)?;
            let tip = self.repository.find_reference(&reference(branch))?.peel_to_commit()?;
            let mut index = self.repository.revert_commit(&reverted, &tip, 0, None)?;
            if index.has_conflicts() {
                return Ok(None);
            }
            Ok(Some(index.write_tree_to(&self.repository)?))
        })?;
        let Some(tree) = tree else {
            return Err(LocalError::RevertConflicts { commit: commit.clone() });
        };
        self.doing("reverting", || {
            let reverted = self.repository.find_commit(commit.to_oid()?)?;
            let subject = reverted.summary()?.unwrap_or_default().to_owned();
            let message = format!("Revert \"{subject}\"\n\nThis reverts commit {commit}.\n");
            self.commit_tree(branch, self.tip(branch)?.as_ref(), tree, (person, time), &message)
        })
    }

    /// Returns the commits of a branch, newest first; none when there is no such branch.
    ///
    /// # Errors
    /// The repository cannot be read.
    pub fn history(&self, branch: &str) -> Result<Vec<Told>, LocalError> {
        self.doing("reading a branch", || {
            let mut told = Vec::new();
            let mut next = self.tip(branch)?;
            while let Some(commit) = next {
                let message = String::from_utf8_lossy(commit.message_bytes()).into_owned();
                told.push(Told { commit: CommitId::from_oid(commit.id()), message });
                next = commit.parents().next();
            }
            Ok(told)
        })
    }

    /// Returns a file of a branch as text; `None` when there is no such branch or file.
    ///
    /// # Errors
    /// The repository cannot be read.
    pub fn text(&self, branch: &str, path: &str) -> Result<Option<String>, LocalError> {
        self.doing("reading a file", || {
            let Some(tip) = self.tip(branch)? else { return Ok(None) };
            let entry = match tip.tree()?.get_path(Path::new(path)) {
                Err(error) if error.code() == git2::ErrorCode::NotFound => return Ok(None),
                other => other?,
            };
            let blob = self.repository.find_blob(entry.id())?;
            Ok(Some(String::from_utf8_lossy(blob.content()).into_owned()))
        })
    }

    fn tip(&self, branch: &str) -> Result<Option<Commit<'_>>, git2::Error> {
        match self.repository.find_reference(&reference(branch)) {
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
            other => other?.peel_to_commit().map(Some),
        }
    }

    fn commit_tree(
        &self,
        branch: &str,
        parent: Option<&Commit<'_>>,
        tree: Oid,
        (person, time): (Person<'_>, Timestamp),
        message: &str,
    ) -> Result<CommitId, git2::Error> {
        let author = Signature::new(person.name, person.mail, &Time::new(time.as_second(), 0))?;
        let tree = self.repository.find_tree(tree)?;
        let parents: Vec<&Commit<'_>> = parent.into_iter().collect();
        let to = reference(branch);
        let made = self.repository.commit(Some(&to), &author, &author, message, &tree, &parents)?;
        Ok(CommitId::from_oid(made))
    }

    fn doing<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce() -> Result<T, git2::Error>,
    ) -> Result<T, LocalError> {
        let folder = || self.folder.clone();
        work().map_err(|source| LocalError::Git { doing, folder: folder(), source })
    }
}

fn reference(branch: &str) -> String {
    format!("refs/heads/{branch}")
}
