//! Builds a status commit in memory on a given tip, and says whose tip it is.
//!
//! Only objects are written here, never a reference: the transport process moves the branch.

use std::collections::BTreeMap;
use std::path::Path;

use git2::{Commit, Oid, Repository, Signature, Time};

use super::cache;
use super::message::{StatusMarks, compose_message, parse_marks};
use super::revision::CommitId;
use super::status_branch::{StatusCommit, StatusError};

/// How far back the last commit of ours is looked for under commits of others.
const FOREIGN_COMMITS_MAX: usize = 1_000;

const MODE_FILE: i32 = 0o100_644;
const MODE_FOLDER: i32 = 0o040_000;

/// Is the one that writes a status branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The cluster's name.
    pub cluster: String,
    /// The UID of its kube-system namespace.
    pub cluster_uid: String,
    /// The term of the writer: how often the Lease changed hands.
    pub epoch: u64,
}

/// Says whose commit is at the tip of a status branch (conflict classes of gitops 3.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TipOwner {
    /// There is no branch yet.
    Nobody,
    /// Ours, of this term or an earlier one.
    Ours,
    /// Ours, of a later term: another replica leads.
    Fenced {
        /// Its term.
        epoch: u64,
    },
    /// Another cluster uses our name.
    OtherCluster {
        /// Its UID.
        cluster_uid: String,
    },
    /// A person, or another program.
    Foreign,
}

/// Is a commit that is ready to be pushed, or the finding that none is needed.
pub(super) enum Built {
    Unchanged,
    Commit { commit: CommitId, seq: u64, foreign: Option<CommitId> },
}

/// Says whose tip it is; `tip` is the marks of the commit at the tip, if there is one.
pub fn judge_tip(writer: &Writer, tip: Option<Option<&StatusMarks>>) -> TipOwner {
    match tip {
        None => TipOwner::Nobody,
        Some(None) => TipOwner::Foreign,
        Some(Some(marks)) if marks.cluster_uid != writer.cluster_uid => {
            TipOwner::OtherCluster { cluster_uid: marks.cluster_uid.clone() }
        }
        Some(Some(marks)) if marks.epoch > writer.epoch => TipOwner::Fenced { epoch: marks.epoch },
        Some(Some(_)) => TipOwner::Ours,
    }
}

/// Builds the commit on `tip`. Blocking: reads and writes objects.
pub(super) fn build(
    cache: &Path,
    writer: &Writer,
    wanted: &StatusCommit,
    tip: Option<&CommitId>,
) -> Result<Built, StatusError> {
    let repository = cache::open(cache).map_err(StatusError::Cache)?;
    let failed = |doing: &'static str| move |source| StatusError::Objects { doing, source };
    let parent = tip
        .map(|id| id.to_oid().and_then(|id| repository.find_commit(id)))
        .transpose()
        .map_err(failed("reading the tip"))?;
    let marks = parent.as_ref().map(|commit| marks_of(commit));
    let foreign = match judge_tip(writer, marks.as_ref().map(Option::as_ref)) {
        TipOwner::Nobody | TipOwner::Ours => None,
        TipOwner::Foreign => tip.cloned(),
        TipOwner::Fenced { epoch } => {
            return Err(StatusError::Fenced { ours: writer.epoch, theirs: epoch });
        }
        TipOwner::OtherCluster { cluster_uid } => {
            let cluster = writer.cluster.clone();
            return Err(StatusError::ClusterNameConflict { cluster, theirs: cluster_uid });
        }
    };
    let tree = write_tree(&repository, &wanted.files)?;
    if parent.as_ref().is_some_and(|parent| parent.tree_id() == tree) {
        return Ok(Built::Unchanged);
    }
    let seq = match (&parent, foreign.is_some()) {
        (None, _) => 1,
        (Some(parent), false) => marks_of(parent).map_or(0, |marks| marks.seq) + 1,
        (Some(parent), true) => last_seq_below(writer, parent)? + 1,
    };
    let marks = StatusMarks {
        cluster: writer.cluster.clone(),
        cluster_uid: writer.cluster_uid.clone(),
        epoch: writer.epoch,
        seq,
    };
    let message = compose_message(&wanted.subject, &wanted.trailers, &marks);
    let mail = format!("nodewright@{}.invalid", writer.cluster);
    let time = Time::new(wanted.time.as_second(), 0);
    let commit = Signature::new("nodewright[bot]", &mail, &time)
        .and_then(|author| {
            let tree = repository.find_tree(tree)?;
            let parents: Vec<&Commit<'_>> = parent.iter().collect();
            repository.commit(None, &author, &author, &message, &tree, &parents)
        })
        .map_err(failed("writing the commit"))?;
    Ok(Built::Commit { commit: CommitId::from_oid(commit), seq, foreign })
}

fn marks_of(commit: &Commit<'_>) -> Option<StatusMarks> {
    commit.message().ok().and_then(parse_marks)
}

/// Finds the number of our last commit under commits of others.
fn last_seq_below(writer: &Writer, tip: &Commit<'_>) -> Result<u64, StatusError> {
    let failed = |source| StatusError::Objects { doing: "reading the history", source };
    let mut at = tip.clone();
    for _ in 0..FOREIGN_COMMITS_MAX {
        match marks_of(&at) {
            Some(marks) if marks.cluster_uid == writer.cluster_uid => return Ok(marks.seq),
            Some(_) | None if at.parent_count() == 0 => return Ok(0),
            Some(_) | None => at = at.parent(0).map_err(failed)?,
        }
    }
    Ok(0)
}

/// Is a folder to be written: files, and folders with files in them.
#[derive(Default)]
struct Layer<'a> {
    files: BTreeMap<&'a str, &'a [u8]>,
    folders: BTreeMap<&'a str, Self>,
}

fn write_tree(
    repository: &Repository,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Oid, StatusError> {
    let mut root = Layer::default();
    for (path, bytes) in files {
        root.put(path, bytes).ok_or_else(|| StatusError::Path { path: path.clone() })?;
    }
    root.write(repository)
        .map_err(|source| StatusError::Objects { doing: "writing the tree", source })
}

impl<'a> Layer<'a> {
    /// Adds a file; `None` when the path is not one that Git can hold.
    fn put(&mut self, path: &'a str, bytes: &'a [u8]) -> Option<()> {
        let (folder, rest) = match path.split_once('/') {
            Some((folder, rest)) => (folder, Some(rest)),
            None => (path, None),
        };
        let plain = !["", ".", ".."].contains(&folder)
            && !folder.eq_ignore_ascii_case(".git")
            && !folder.chars().any(char::is_control);
        if !plain {
            return None;
        }
        match rest {
            Some(_) if self.files.contains_key(folder) => None,
            Some(rest) => self.folders.entry(folder).or_default().put(rest, bytes),
            None if self.folders.contains_key(folder) => None,
            None => {
                self.files.insert(folder, bytes);
                Some(())
            }
        }
    }

    fn write(&self, repository: &Repository) -> Result<Oid, git2::Error> {
        let Self { files, folders } = self;
        let mut builder = repository.treebuilder(None)?;
        for (name, bytes) in files {
            builder.insert(*name, repository.blob(bytes)?, MODE_FILE)?;
        }
        for (name, layer) in folders {
            builder.insert(*name, layer.write(repository)?, MODE_FOLDER)?;
        }
        builder.write()
    }
}
