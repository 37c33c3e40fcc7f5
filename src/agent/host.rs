//! The host's files as the agent sees them: a mounted root whose symbolic links stay inside it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use super::error::AgentError;

/// The kernel's own limit on links in one path.
const SYMLINKS_MAX: usize = 40;

/// The most that is read of one file of ours or of the package's `config.json`: far above any real
/// one, so that a wrong file costs an error instead of the node's memory.
const FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The host's root as it is mounted into the executor.
#[derive(Debug, Clone)]
pub struct HostRoot {
    mount: PathBuf,
}

impl HostRoot {
    /// Returns the root mounted at `mount`.
    pub fn new(mount: impl Into<PathBuf>) -> Self {
        Self { mount: mount.into() }
    }

    /// Returns where it is mounted.
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// Returns the root to change to for a program of the host; `None` when the agent runs on the
    /// host itself, as when an author tries a package, where it takes no privilege then.
    pub fn to_change_to(&self) -> Option<&Path> {
        (self.mount != Path::new("/")).then_some(&self.mount)
    }

    /// Returns where a host path is under the mount, links resolved as the host would.
    ///
    /// An absolute link (`/etc/resolv.conf` → `/run/…`) means the host's file, not the container's,
    /// and `..` ends at the host's root. What does not exist yet is kept as it is.
    pub fn resolve(&self, host_path: &Path) -> Result<PathBuf, AgentError> {
        let mut todo = parts(host_path);
        let mut done = PathBuf::new();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            if part == ".." {
                done.pop();
                continue;
            }
            let candidate = self.mount.join(&done).join(&part);
            match fs::read_link(&candidate) {
                Ok(target) => {
                    links += 1;
                    if links > SYMLINKS_MAX {
                        let (path, root) = (host_path.to_owned(), self.mount.clone());
                        return Err(AgentError::SymlinkLoop { path, root, limit: SYMLINKS_MAX });
                    }
                    if target.is_absolute() {
                        done.clear();
                    }
                    todo.extend(parts(&target));
                }
                Err(error) if is_no_link(&error) => done.push(part),
                Err(error) => return Err(AgentError::io("resolve", &candidate)(error)),
            }
        }
        Ok(self.mount.join(done))
    }

    /// Tells whether a host path leads to something.
    pub fn exists(&self, host_path: &Path) -> Result<bool, AgentError> {
        let path = self.resolve(host_path)?;
        path.try_exists().map_err(AgentError::io("look at", &path))
    }

    /// Returns a file's content, `None` when there is no such file.
    pub fn read(&self, host_path: &Path) -> Result<Option<Vec<u8>>, AgentError> {
        let path = self.resolve(host_path)?;
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(AgentError::io("open", &path)(error)),
        };
        let mut content = Vec::new();
        let mut limited = file.take(FILE_MAX_BYTES + 1);
        limited.read_to_end(&mut content).map_err(AgentError::io("read", &path))?;
        if content.len() as u64 > FILE_MAX_BYTES {
            return Err(AgentError::io("read", &path)(io::Error::from(
                io::ErrorKind::FileTooLarge,
            )));
        }
        Ok(Some(content))
    }

    /// Puts a file in place whole or not at all, also across a power cut.
    pub fn write(&self, host_path: &Path, content: &[u8]) -> Result<(), AgentError> {
        let path = self.resolve(host_path)?;
        ensure_folder(parent(&path))?;
        replace_file(&path, STATE_MODE, |file| file.write_all(content))
    }

    /// Removes a file, durably; one that is not there is removed already.
    pub fn remove_file(&self, host_path: &Path) -> Result<(), AgentError> {
        let path = self.resolve(host_path)?;
        match fs::remove_file(&path) {
            Ok(()) => sync_folder(parent(&path)),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(AgentError::io("remove", &path)(error)),
        }
    }

    /// Removes a folder with all it holds, durably.
    pub fn remove_folder(&self, host_path: &Path) -> Result<(), AgentError> {
        let path = self.resolve(host_path)?;
        match fs::remove_dir_all(&path) {
            Ok(()) => sync_folder(parent(&path)),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(AgentError::io("remove", &path)(error)),
        }
    }

    /// Gives a file another name in place, durably.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), AgentError> {
        let (from, to) = (self.resolve(from)?, self.resolve(to)?);
        fs::rename(&from, &to).map_err(AgentError::io("rename", &from))?;
        sync_folder(parent(&to))
    }
}

/// Permissions of what the agent writes for itself, as upstream's.
const STATE_MODE: u32 = 0o600;

/// Makes a folder and those above it, each durable before something is put into it.
pub(super) fn ensure_folder(path: &Path) -> Result<(), AgentError> {
    if path.is_dir() {
        return Ok(());
    }
    ensure_folder(parent(path))?;
    match fs::create_dir(path) {
        Ok(()) => sync_folder(parent(path)),
        // Another package's executor on this node was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(AgentError::io("create folder", path)(error)),
    }
}

/// Writes a file beside `path` and renames it over it, so that readers see the old or the new.
pub(super) fn replace_file(
    path: &Path,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), AgentError> {
    let folder = parent(path);
    let (temporary, file) = create_beside(path, mode)?;
    let written = fill_and_sync(file, mode, fill).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // The first error is the one to tell; a left-over is only a small file too many.
        drop(fs::remove_file(&temporary));
        return Err(AgentError::io("write", path)(error));
    }
    sync_folder(folder)
}

/// Makes a file nobody else has: two executors may work in one folder, each as process 1.
fn create_beside(path: &Path, mode: u32) -> Result<(PathBuf, File), AgentError> {
    let folder = parent(path);
    let mut number = 0_u32;
    loop {
        let name = format!(".nodewright-{}-{number}.tmp", std::process::id());
        let temporary = folder.join(name);
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(AgentError::io("write", path)(error)),
        }
    }
}

fn fill_and_sync(
    mut file: File,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    fill(&mut file)?;
    // The mode given at creation is cut by the umask.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

pub(super) fn sync_folder(path: &Path) -> Result<(), AgentError> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(AgentError::io("sync folder", path))
}

pub(super) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Returns the parts of a path that matter, last first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect()
}

fn is_no_link(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput || is_missing(error)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
