//! Reads the files of one commit straight from the object database.
//!
//! In: a commit and the folders that concern us. Out: the manifests in them as bytes, and what is
//! in the way. A folder that is missing, one that holds no manifest, and one that cannot be read
//! are three different results, because only the first two may ever mean "remove".
//!
//! Never: a work tree, a symbolic link followed, a submodule opened, an LFS object fetched, or an
//! unbounded read: a tree of a few kilobytes can name itself millions of times.

use std::collections::BTreeMap;
use std::path::Path;

use git2::{ObjectType, Oid, Repository, TreeEntry};
use thiserror::Error;

use super::cache::{self, CacheError};
use super::revision::CommitId;

/// The largest manifest we read (gitops 1.5).
const FILE_MAX_BYTES: usize = 1024 * 1024;

/// The most manifests of one commit (gitops 1.5).
const FILES_MAX: usize = 5_000;

/// The most bytes of all manifests of one commit; bounds the daemon's memory.
const FILES_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The most entries of all folders we look at, so that a tree that repeats itself ends.
const ENTRIES_MAX: usize = 100_000;

/// The deepest folder we enter.
const DEPTH_MAX: usize = 32;

/// The largest tree object we load: about ten times what `ENTRIES_MAX` entries need at most.
const TREE_MAX_BYTES: usize = 16 * 1024 * 1024;

const MODE_SYMLINK: i32 = 0o120_000;
const MODE_GITLINK: i32 = 0o160_000;

const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Is one manifest file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The path from the root of the repository, with `/`.
    pub path: String,
    /// The content, as it is.
    pub bytes: Vec<u8>,
}

/// Is something in a folder that we will not read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The path from the root of the repository; escaped where it is not text.
    pub path: String,
    /// What it is.
    pub what: ProblemKind,
}

/// Says why something is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum ProblemKind {
    /// A symbolic link.
    #[error("a symbolic link; links are never followed, put the file itself here")]
    Symlink,
    /// A submodule.
    #[error("a submodule; they are not supported, put the files themselves here")]
    Submodule,
    /// A pointer of Git LFS.
    #[error("a Git LFS pointer; take manifests out of LFS with `git lfs untrack`")]
    LfsPointer,
    /// A name that is not UTF-8.
    #[error("a name that is not UTF-8; rename it")]
    NameNotText,
    /// A file over 1 MiB.
    #[error("larger than 1 MiB; split it")]
    FileTooLarge,
    /// More files, bytes or entries than we read; the rest was left out.
    #[error("beyond 5000 manifests, 64 MiB or 100000 entries; the rest is not read")]
    TooMany,
    /// A folder nested too deeply.
    #[error("nested deeper than 32 folders; it is not read")]
    TooDeep,
    /// The path we were told to read is a file.
    #[error("a file where a folder is expected; name the folder")]
    NotAFolder,
}

/// Is what a folder holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// The manifests, in the order of their paths.
    pub files: Vec<File>,
    /// What was not read, in the order of their paths.
    pub problems: Vec<Problem>,
}

/// Says what is at a path of a commit. What cannot be read is a [`TreeError`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Folder {
    /// The commit has no such path.
    Missing,
    /// The folder is there, and holds no manifest and no problem.
    Empty,
    /// The folder holds this.
    Found(Files),
}

/// Says that a commit cannot be read; what was accepted before stays in force.
#[derive(Debug, Error)]
pub enum TreeError {
    /// The clone cannot be opened.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The commit is not there or is damaged.
    #[error("commit {commit} cannot be read")]
    Commit {
        /// Which.
        commit: CommitId,
        /// Why.
        #[source]
        source: git2::Error,
    },
    /// A folder or file of the commit is not there or is damaged.
    #[error("`{path}` of commit {commit} cannot be read")]
    Object {
        /// Which commit.
        commit: CommitId,
        /// Which path.
        path: String,
        /// Why.
        #[source]
        source: git2::Error,
    },
}

/// Reads the manifests (`.yaml`, `.yml`, `.json`) below each of `folders`. Blocking: reads disk.
///
/// `""` and `"."` are the root. Names that begin with a dot are skipped, folders and files alike:
/// they configure tools. A file below two folders is read for both. Bounds count over all folders.
///
/// # Errors
///
/// The commit, or an object below one of the folders, cannot be read. Nothing is returned then,
/// so that a damaged clone never looks like a commit that removed something.
pub fn read_tree(
    cache: &Path,
    commit: &CommitId,
    folders: &[String],
) -> Result<BTreeMap<String, Folder>, TreeError> {
    let repository = cache::open(cache)?;
    let mut reader =
        Reader { repository: &repository, commit, entries: 0, files: 0, bytes: 0, is_full: false };
    let root = reader.root()?;
    let read = folders.iter().map(|folder| Ok((folder.clone(), reader.folder(root, folder)?)));
    read.collect()
}

/// Returns the names of the folders directly below `path`, sorted; `None` when it is missing.
///
/// For the layout: `clusters` says which clusters there are. Blocking: reads disk.
///
/// # Errors
///
/// The commit or the folder cannot be read.
pub fn list_folders(
    cache: &Path,
    commit: &CommitId,
    path: &str,
) -> Result<Option<Vec<String>>, TreeError> {
    let repository = cache::open(cache)?;
    let reader =
        Reader { repository: &repository, commit, entries: 0, files: 0, bytes: 0, is_full: false };
    let Place::Tree(id) = reader.find(reader.root()?, path)? else { return Ok(None) };
    let tree = reader.tree(id, path)?;
    let folders = tree.iter().filter(|entry| entry.kind() == Some(ObjectType::Tree));
    let named = folders.filter_map(|entry| entry.name().ok().map(str::to_owned));
    Ok(Some(named.filter(|name| !name.starts_with('.')).take(ENTRIES_MAX).collect()))
}

/// Returns the object id at each path, `None` where it is missing. Blocking: reads disk.
///
/// Two commits with equal answers hold the same below these paths: nothing to parse, nothing to
/// roll out.
///
/// # Errors
///
/// The commit, or a folder on the way, cannot be read.
pub fn scope_ids(
    cache: &Path,
    commit: &CommitId,
    paths: &[String],
) -> Result<BTreeMap<String, Option<String>>, TreeError> {
    let repository = cache::open(cache)?;
    let reader =
        Reader { repository: &repository, commit, entries: 0, files: 0, bytes: 0, is_full: false };
    let root = reader.root()?;
    let ids = paths.iter().map(|path| {
        let id = match reader.find(root, path)? {
            Place::Missing => None,
            Place::Tree(id) | Place::Other { id, .. } => Some(id.to_string()),
        };
        Ok((path.clone(), id))
    });
    ids.collect()
}

struct Reader<'a> {
    repository: &'a Repository,
    commit: &'a CommitId,
    entries: usize,
    files: usize,
    bytes: usize,
    is_full: bool,
}

enum Place {
    Missing,
    Tree(Oid),
    Other { id: Oid, mode: i32 },
}

impl<'a> Reader<'a> {
    fn root(&self) -> Result<Oid, TreeError> {
        let found = self.commit.to_oid().and_then(|id| self.repository.find_commit(id));
        found
            .map(|commit| commit.tree_id())
            .map_err(|source| TreeError::Commit { commit: self.commit.clone(), source })
    }

    fn folder(&mut self, root: Oid, folder: &str) -> Result<Folder, TreeError> {
        let mut found = Files::default();
        match self.find(root, folder)? {
            Place::Missing => return Ok(Folder::Missing),
            Place::Tree(id) => {
                let prefix = parts(folder).collect::<Vec<_>>().join("/");
                self.read(id, &prefix, 0, &mut found)?;
            }
            Place::Other { mode, .. } => {
                let what = special(mode).unwrap_or(ProblemKind::NotAFolder);
                found.problems.push(Problem { path: folder.to_owned(), what });
            }
        }
        found.files.sort_by(|one, other| one.path.cmp(&other.path));
        found.problems.sort();
        let empty = found.files.is_empty() && found.problems.is_empty();
        Ok(if empty { Folder::Empty } else { Folder::Found(found) })
    }

    /// Walks down to a path; stops at the first part that is no folder.
    fn find(&self, root: Oid, path: &str) -> Result<Place, TreeError> {
        let mut at = root;
        for part in parts(path) {
            let tree = self.tree(at, path)?;
            let Some(entry) = tree.get_name_bytes(part.as_bytes()) else {
                return Ok(Place::Missing);
            };
            if entry.kind() != Some(ObjectType::Tree) {
                return Ok(Place::Other { id: entry.id(), mode: entry.filemode_raw() });
            }
            at = entry.id();
        }
        Ok(Place::Tree(at))
    }

    fn read(
        &mut self,
        id: Oid,
        prefix: &str,
        depth: usize,
        found: &mut Files,
    ) -> Result<(), TreeError> {
        let tree = self.tree(id, prefix)?;
        for entry in &tree {
            let path = join(prefix, &String::from_utf8_lossy(entry.name_bytes()));
            self.entries += 1;
            if self.entries > ENTRIES_MAX && !self.is_full {
                self.stop(path, found);
            } else if !self.is_full {
                self.read_entry(&entry, path, depth, found)?;
            }
            if self.is_full {
                return Ok(());
            }
        }
        Ok(())
    }

    fn read_entry(
        &mut self,
        entry: &TreeEntry<'_>,
        path: String,
        depth: usize,
        found: &mut Files,
    ) -> Result<(), TreeError> {
        let Ok(name) = std::str::from_utf8(entry.name_bytes()) else {
            let path = path.escape_debug().to_string();
            found.problems.push(Problem { path, what: ProblemKind::NameNotText });
            return Ok(());
        };
        if name.starts_with('.') {
            return Ok(());
        }
        if let Some(what) = special(entry.filemode_raw()) {
            found.problems.push(Problem { path, what });
            return Ok(());
        }
        match entry.kind() {
            Some(ObjectType::Tree) if depth + 1 >= DEPTH_MAX => {
                found.problems.push(Problem { path, what: ProblemKind::TooDeep });
                Ok(())
            }
            Some(ObjectType::Tree) => self.read(entry.id(), &path, depth + 1, found),
            Some(ObjectType::Blob) if is_manifest(name) => self.read_file(entry.id(), path, found),
            Some(_) | None => Ok(()),
        }
    }

    fn read_file(&mut self, id: Oid, path: String, found: &mut Files) -> Result<(), TreeError> {
        let size = self.size(id, ObjectType::Blob, &path)?;
        if size > FILE_MAX_BYTES {
            found.problems.push(Problem { path, what: ProblemKind::FileTooLarge });
            return Ok(());
        }
        if self.files >= FILES_MAX || self.bytes + size > FILES_MAX_BYTES {
            self.stop(path, found);
            return Ok(());
        }
        let blob =
            self.repository.find_blob(id).map_err(|source| self.unreadable(&path, source))?;
        if blob.content().starts_with(LFS_POINTER) {
            found.problems.push(Problem { path, what: ProblemKind::LfsPointer });
            return Ok(());
        }
        self.files += 1;
        self.bytes += size;
        found.files.push(File { path, bytes: blob.content().to_owned() });
        Ok(())
    }

    fn stop(&mut self, path: String, found: &mut Files) {
        self.is_full = true;
        found.problems.push(Problem { path, what: ProblemKind::TooMany });
    }

    fn tree(&self, id: Oid, path: &str) -> Result<git2::Tree<'a>, TreeError> {
        let size = self.size(id, ObjectType::Tree, path)?;
        if size > TREE_MAX_BYTES {
            let source = git2::Error::from_str("the folder has too many entries");
            return Err(self.unreadable(path, source));
        }
        self.repository.find_tree(id).map_err(|source| self.unreadable(path, source))
    }

    /// Asks for kind and size of an object before any of it is unpacked.
    fn size(&self, id: Oid, wanted: ObjectType, path: &str) -> Result<usize, TreeError> {
        let header = self.repository.odb().and_then(|odb| odb.read_header(id));
        match header {
            Ok((size, kind)) if kind == wanted => Ok(size),
            Ok((_, kind)) => {
                let text = format!("object {id} is a {kind}, not a {wanted}");
                Err(self.unreadable(path, git2::Error::from_str(&text)))
            }
            Err(source) => Err(self.unreadable(path, source)),
        }
    }

    fn unreadable(&self, path: &str, source: git2::Error) -> TreeError {
        TreeError::Object { commit: self.commit.clone(), path: path.to_owned(), source }
    }
}

fn special(mode: i32) -> Option<ProblemKind> {
    match mode {
        MODE_SYMLINK => Some(ProblemKind::Symlink),
        MODE_GITLINK => Some(ProblemKind::Submodule),
        _ => None,
    }
}

fn is_manifest(name: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending))
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") }
}
