//! Where the demo keeps its repository and its logs: a temporary folder, or the one of `--keep`.
//!
//! Must never: write into a folder that holds anything, or leave a temporary one behind, unless
//! there is something in it that explains a failure.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::error::DemoError;

/// Temporary folders that are tried before giving up; others belong to earlier processes.
const NAMES_TRIED_MAX: u32 = 100;

/// A folder with everything of one demo.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    fate: Fate,
}

/// What becomes of the folder at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Removed,
}

impl Folder {
    /// Takes the folder that a person named, or makes a temporary one.
    pub fn new(keep: Option<&Path>) -> Result<Self, DemoError> {
        match keep {
            Some(path) => Self::named(path),
            None => Self::temporary(),
        }
    }

    fn named(path: &Path) -> Result<Self, DemoError> {
        let failed = |source| DemoError::Folder { path: path.to_owned(), source };
        let path = std::path::absolute(path).map_err(failed)?;
        fs::create_dir_all(&path).map_err(failed)?;
        if fs::read_dir(&path).map_err(failed)?.next().is_some() {
            return Err(DemoError::FolderNotEmpty { path });
        }
        Ok(Self { path, fate: Fate::Kept })
    }

    fn temporary() -> Result<Self, DemoError> {
        let mut tried = 0;
        loop {
            let name = format!("nodewright-demo-{}-{tried}", std::process::id());
            let path = std::env::temp_dir().join(name);
            tried += 1;
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path, fate: Fate::Removed }),
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && tried < NAMES_TRIED_MAX => {}
                Err(source) => return Err(DemoError::Folder { path, source }),
            }
        }
    }

    /// Returns whether a person will find it.
    pub fn is_kept(&self) -> bool {
        self.fate == Fate::Kept
    }

    /// Returns the bare repository.
    pub fn repository(&self) -> PathBuf {
        self.path.join("fleet.git")
    }

    /// Returns the daemon's own clone.
    pub fn cache(&self) -> PathBuf {
        self.path.join("cache")
    }

    /// Returns the daemon's log.
    pub fn daemon_log(&self) -> PathBuf {
        self.path.join("daemon.log")
    }

    /// Returns the list of every request to the cluster.
    pub fn request_log(&self) -> PathBuf {
        self.path.join("requests.log")
    }

    /// Leaves the folder where it is, whatever was meant before.
    pub fn keep(&mut self) {
        self.fate = Fate::Kept;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The clone is of no use to anyone; where removing fails the system cleans up its own.
        let gone = match self.fate {
            Fate::Kept => fs::remove_dir_all(self.cache()),
            Fate::Removed => fs::remove_dir_all(&self.path),
        };
        drop(gone);
    }
}
