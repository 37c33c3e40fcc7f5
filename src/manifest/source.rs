//! What a reader of files hands over, from a Git tree or a folder.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use super::layout;

/// Largest file that is read, in bytes (gitops 1.5).
pub const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// Most manifests that are read (gitops 1.5).
pub const FILES_MAX: usize = 5_000;

/// Most names that are listed; a repository may hold much besides manifests.
const NAMES_MAX: usize = 100_000;

/// Deepest folder that is read; Git trees of configuration stay below ten.
const FOLDER_DEPTH_MAX: usize = 32;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path relative to the root, with `/`.
    pub path: String,
    /// What is in it; may be left empty where [`is_manifest_name`] says no.
    pub bytes: Vec<u8>,
}

/// Something that is there but was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path relative to the root, with `/`; bytes that are not UTF-8 replaced.
    pub path: String,
    /// Why it was not read.
    pub kind: ProblemKind,
}

/// Why something was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// A symbolic link, with its target as written; never followed.
    Symlink {
        /// The text of the link.
        target: String,
    },
    /// A Git submodule.
    Submodule,
    /// A pointer to a file in Git LFS.
    LfsPointer,
    /// The name is not UTF-8.
    NameNotUtf8,
    /// Over [`FILE_MAX_BYTES`].
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// More than [`FILES_MAX`] files; the rest was not read.
    TooManyFiles,
    /// The wanted folder does not exist.
    PathMissing,
    /// It could not be opened.
    Unreadable {
        /// The system's words for it.
        error: String,
    },
}

/// Whether a file of this name may hold manifests.
#[must_use]
pub fn is_manifest_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, "yaml" | "yml" | "json")) => !stem.is_empty(),
        Some(_) | None => false,
    }
}

/// Reads a plain folder; never follows a symbolic link.
///
/// Of files that cannot hold manifests the name is read and the content is not.
#[must_use]
pub fn read_folder(root: &Path) -> (Vec<SourceFile>, Vec<Problem>) {
    let mut reading = Reading::default();
    match fs::symlink_metadata(root) {
        // The root itself was named by the caller, who may name a link.
        Ok(_) => reading.folder(root, "", 0),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            reading.problem("", ProblemKind::PathMissing);
        }
        Err(error) => reading.unreadable("", &error),
    }
    let Reading { mut files, mut problems, .. } = reading;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    problems.sort_by(|a, b| a.path.cmp(&b.path));
    (files, problems)
}

#[derive(Default)]
struct Reading {
    files: Vec<SourceFile>,
    problems: Vec<Problem>,
    manifests: usize,
}

impl Reading {
    fn problem(&mut self, path: &str, kind: ProblemKind) {
        self.problems.push(Problem { path: path.to_owned(), kind });
    }

    fn unreadable(&mut self, path: &str, error: &std::io::Error) {
        self.problem(path, ProblemKind::Unreadable { error: error.to_string() });
    }

    fn folder(&mut self, folder: &Path, prefix: &str, depth: usize) {
        if depth > FOLDER_DEPTH_MAX {
            let error = format!("folders are nested more than {FOLDER_DEPTH_MAX} deep");
            return self.problem(prefix, ProblemKind::Unreadable { error });
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(prefix, &error),
        };
        let mut found: Vec<fs::DirEntry> = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) => found.push(entry),
                Err(error) => self.unreadable(prefix, &error),
            }
        }
        found.sort_by_key(fs::DirEntry::file_name);
        for entry in found {
            if self.manifests >= FILES_MAX || self.files.len() >= NAMES_MAX {
                if !self.problems.iter().any(|one| one.kind == ProblemKind::TooManyFiles) {
                    self.problem(prefix, ProblemKind::TooManyFiles);
                }
                return;
            }
            self.entry(&entry, prefix, depth);
        }
    }

    fn entry(&mut self, entry: &fs::DirEntry, prefix: &str, depth: usize) {
        let name = entry.file_name();
        let path = layout::joined(prefix, &name.to_string_lossy());
        if name.to_string_lossy().starts_with('.') {
            return;
        }
        if name.to_str().is_none() {
            return self.problem(&path, ProblemKind::NameNotUtf8);
        }
        // The type of the entry itself, not of what a link points to.
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(error) => return self.unreadable(&path, &error),
        };
        if kind.is_symlink() {
            let target = fs::read_link(entry.path());
            let target = target.map_or_else(|_| String::new(), |to| to.display().to_string());
            self.problem(&path, ProblemKind::Symlink { target });
        } else if kind.is_dir() {
            self.folder(&entry.path(), &path, depth + 1);
        } else if kind.is_file() {
            self.file(&entry.path(), path);
        } else if is_manifest_name(&path) {
            let error = "it is neither a file nor a folder".to_owned();
            self.problem(&path, ProblemKind::Unreadable { error });
        }
    }

    fn file(&mut self, on_disk: &Path, path: String) {
        let mut bytes = Vec::new();
        if is_manifest_name(&path) {
            self.manifests += 1;
            let read = fs::File::open(on_disk)
                .and_then(|file| file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes));
            if let Err(error) = read {
                return self.unreadable(&path, &error);
            }
            if bytes.len() as u64 > FILE_MAX_BYTES {
                let bytes = fs::metadata(on_disk).map_or(bytes.len() as u64, |found| found.len());
                return self.problem(&path, ProblemKind::TooLarge { bytes });
            }
        }
        self.files.push(SourceFile { path, bytes });
    }
}
