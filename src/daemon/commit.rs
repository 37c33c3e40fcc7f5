//! The manifests of one commit, in the words of `manifest`: for the daemon and for `validate`.

use std::path::Path;

use crate::git::{self, CommitId, Folder, TreeError};
use crate::manifest::{Problem, ProblemKind, SourceFile};

/// Reads the manifests of a commit: all below the path, or with `clusters/` only what clusters are
/// made of, so that a repository may hold much besides. Blocking: reads disk.
///
/// # Errors
/// An object of the commit cannot be read; nothing is returned then, so that a damaged clone never
/// looks like a commit that removed something.
pub fn files_of_commit(
    cache: &Path,
    commit: &CommitId,
    path: &str,
) -> Result<(Vec<SourceFile>, Vec<Problem>), TreeError> {
    let path = path.trim_matches('/');
    let under = |folder: &str| match path {
        "" => folder.to_owned(),
        path => format!("{path}/{folder}"),
    };
    let wanted = match git::list_folders(cache, commit, &under("clusters"))? {
        Some(_) => vec![under("clusters"), under("base")],
        None => vec![path.to_owned()],
    };
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for folder in git::read_tree(cache, commit, &wanted)?.into_values() {
        match folder {
            Folder::Found(found) => {
                files.extend(
                    found
                        .files
                        .into_iter()
                        .map(|git::File { path, bytes }| SourceFile { path, bytes }),
                );
                problems.extend(found.problems.into_iter().map(of_git));
            }
            Folder::Missing | Folder::Empty => {}
        }
    }
    Ok((files, problems))
}

fn of_git(problem: git::Problem) -> Problem {
    let git::Problem { path, what } = problem;
    let kind = match what {
        git::ProblemKind::Symlink => ProblemKind::Symlink { target: String::new() },
        git::ProblemKind::Submodule => ProblemKind::Submodule,
        git::ProblemKind::LfsPointer => ProblemKind::LfsPointer,
        git::ProblemKind::NameNotText => ProblemKind::NameNotUtf8,
        git::ProblemKind::TooMany => ProblemKind::TooManyFiles,
        git::ProblemKind::FileTooLarge
        | git::ProblemKind::TooDeep
        | git::ProblemKind::NotAFolder => {
            ProblemKind::Unreadable { error: format!("it is {what}") }
        }
    };
    Problem { path, kind }
}
