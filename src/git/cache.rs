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
        if let Ok(repository) = Repository::open_bare(&path) {
            return Ok(Locked { repository, _lock: lock });
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
