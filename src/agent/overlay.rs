//! Files copied onto the host: a package's `root_dir`, the legacy copy of the package itself, the
//! resolver's configuration.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::AgentError;
use super::host::{HostRoot, ensure_folder, parent, replace_file};

/// Copies what is in the folder `from` (a path of the agent's own) over the host folder `to`.
///
/// Existing files are replaced whole, nothing is deleted, links are copied as links, folders that
/// are links on the host (`/lib`) are followed inside the host.
pub(super) fn copy_tree(from: &Path, host: &HostRoot, to: &Path) -> Result<(), AgentError> {
    ensure_folder(&host.resolve(to)?)?;
    let entries = fs::read_dir(from).map_err(AgentError::io("list", from))?;
    for entry in entries {
        let entry = entry.map_err(AgentError::io("list", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(AgentError::io("look at", &source))?;
        if kind.is_dir() {
            copy_tree(&source, host, &target)?;
        } else if kind.is_symlink() {
            copy_link(&source, host, &target)?;
        } else if kind.is_file() {
            copy_file(&source, host, &target)?;
        }
        // Sockets, pipes and devices do not come out of an image's files; there is nothing to copy.
    }
    Ok(())
}

/// Copies one file of the agent's own onto the host, with its permissions.
pub(super) fn copy_file(from: &Path, host: &HostRoot, to: &Path) -> Result<(), AgentError> {
    let target = host.resolve(to)?;
    ensure_folder(parent(&target))?;
    let mut source = File::open(from).map_err(AgentError::io("open", from))?;
    let mode = source.metadata().map_err(AgentError::io("look at", from))?.permissions().mode();
    replace_file(&target, mode & 0o7777, |file| io::copy(&mut source, file).map(|_| ()))
}

fn copy_link(from: &Path, host: &HostRoot, to: &Path) -> Result<(), AgentError> {
    let content = fs::read_link(from).map_err(AgentError::io("read link", from))?;
    let folder = host.resolve(parent(to))?;
    let target = folder.join(to.file_name().unwrap_or_default());
    match fs::remove_file(&target) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(AgentError::io("replace by a link", &target)(error)),
    }
    std::os::unix::fs::symlink(&content, &target).map_err(AgentError::io("link", &target))
}
