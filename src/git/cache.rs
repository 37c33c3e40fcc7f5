//! The cache: a bare clone, and who may touch what in it.
//!
//! References are written by the transport process only, under a file lock; the daemon reads, and
//! writes loose objects. The whole folder may be deleted at any time: it is filled again. A killed
//! transport process leaves lock files and half a pack behind, which the next one clears.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use git2::Repository;
use thiserror::Error;

/// Where the tips we fetched are kept, out of the way of what a person might look for.
const SOURCE_PREFIX: &str = "refs/nodewright/source/";
const STATUS_PREFIX: &str = "refs/nodewright/status/";

/// How many packs the clone may gather, one for each fetch that brought something.
///
/// libgit2 cannot repack; with thousands of packs every look-up gets slow.
const PACKS_MAX: usize = 500;

/// How many loose objects one of the 256 folders may gather: about 50,000 in all.
const LOOSE_PER_FOLDER_MAX: usize = 200;

/// Says that our own clone cannot be used.
#[derive(Debug, Error)]
pub enum CacheError {
    /// A file or folder of it cannot be read or written.
    #[error("{} cannot be used", path.display())]
    Files {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// libgit2 cannot open it.
    #[error("{} is not a repository that can be opened", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: git2::Error,
    },
}

/// Holds the cache for one transport process; nobody else writes references meanwhile.
pub(super) struct Locked {
    pub(super) repository: Repository,
    _lock: File,
}

/// Opens the clone for reading, and for writing objects.
pub(super) fn open(cache: &Path) -> Result<Repository, CacheError> {
    let path = repository_path(cache);
    Repository::open_bare(&path).map_err(|source| CacheError::Open { path, source })
}

/// Opens the clone for a transfer: makes it when missing, makes it anew when broken.
///
/// Waits for another transport process that has it; the deadline bounds that.
pub(super) fn open_locked(cache: &Path) -> Result<Locked, CacheError> {
    open_locked_as(cache, Growth::Kept)
}

/// As [`open_locked`], but a clone that has grown too large is made anew: the fetch that follows
/// fills it in one pack. Not for a push, whose commit would be lost.
pub(super) fn open_locked_for_fetch(cache: &Path) -> Result<Locked, CacheError> {
    open_locked_as(cache, Growth::Bounded)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Growth {
    Kept,
    Bounded,
}

fn open_locked_as(cache: &Path, growth: Growth) -> Result<Locked, CacheError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CacheError::Files { path, source }
    };
    fs::create_dir_all(cache).map_err(failed(cache))?;
    let lock_path = cache.join("lock");
    let lock = File::create(&lock_path).map_err(failed(&lock_path))?;
    lock.lock().map_err(failed(&lock_path))?;

    let path = repository_path(cache);
    if path.exists() {
        clear_leftovers(&path).map_err(failed(&path))?;
        let too_large = growth == Growth::Bounded && is_overgrown(&path).map_err(failed(&path))?;
        match Repository::open_bare(&path) {
            Ok(repository) if !too_large => return Ok(Locked { repository, _lock: lock }),
            // Broken or overgrown.
            Ok(_) | Err(_) => {}
        }
        fs::remove_dir_all(&path).map_err(failed(&path))?;
    }
    let repository =
        Repository::init_bare(&path).map_err(|source| CacheError::Open { path, source })?;
    Ok(Locked { repository, _lock: lock })
}

/// Returns the reference of our clone that holds the tip of a source branch.
pub(super) fn source_tip_reference(branch: &str) -> String {
    format!("{SOURCE_PREFIX}{branch}")
}

/// Returns the reference of our clone that holds the tip of a status branch.
pub(super) fn status_tip_reference(cluster: &str) -> String {
    format!("{STATUS_PREFIX}{cluster}")
}

fn repository_path(cache: &Path) -> PathBuf {
    cache.join("repository.git")
}

/// Removes what a killed process left: `*.lock` of references, and packs that never got a name.
fn clear_leftovers(repository: &Path) -> io::Result<()> {
    for name in ["HEAD.lock", "config.lock", "packed-refs.lock"] {
        remove_if_there(&repository.join(name))?;
    }
    clear_locks(&repository.join("refs"))?;
    for path in entries(&repository.join("objects/pack"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("pack-") && !name.starts_with("multi-pack-index") {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

/// Estimates loose objects from one folder, as Git's own housekeeping does.
fn is_overgrown(repository: &Path) -> io::Result<bool> {
    let packs = entries(&repository.join("objects/pack"))?;
    let packs = packs.iter().filter(|path| path.extension().is_some_and(|it| it == "pack"));
    let loose = entries(&repository.join("objects/17"))?;
    Ok(packs.count() > PACKS_MAX || loose.len() > LOOSE_PER_FOLDER_MAX)
}

fn clear_locks(folder: &Path) -> io::Result<()> {
    for path in entries(folder)? {
        if path.is_dir() {
            clear_locks(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|it| it.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
