//! `nodewright crds`: the CRDs and the JSON Schemas for editors, as files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Exit;
use super::error::{CliError, ErrorKind};
use super::out::{stderr, stdout};
use crate::manifest::yaml::schema_files;

/// Writes the CRDs, and the JSON Schemas for editors, into a folder.
///
/// Apply both CRDs, the files that end in .yaml, before the daemon starts: kubectl apply -f FILE.
/// The others check manifests while they are written. A file that is current is not touched.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct CrdsArgs {
    /// Writes into this folder.
    #[arg(value_name = "FOLDER", default_value = "schemas")]
    folder: PathBuf,
    /// Writes nothing; ends with exit code 3 where a file is missing or differs.
    ///
    /// For CI, where the committed files must be those of this version.
    #[arg(long)]
    check: bool,
}

/// How a file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Current,
    Differs,
    Missing,
}

pub(super) fn main(args: &CrdsArgs) -> Result<Exit, CliError> {
    let CrdsArgs { folder, check } = args;
    if *check { look(folder) } else { write(folder) }
}

fn look(folder: &Path) -> Result<Exit, CliError> {
    let mut out = stdout();
    let mut exit = Exit::Success;
    for (name, text) in schema_files() {
        let file = folder.join(name);
        let what = match standing(&file, &text)? {
            Standing::Current => continue,
            Standing::Differs => "is not what this version writes",
            Standing::Missing => "is missing",
        };
        exit = Exit::Invalid;
        out.line(format_args!("{}: {what}", file.display()))?;
    }
    match exit {
        Exit::Success => out.line(format_args!("{}: current", folder.display()))?,
        Exit::Invalid => {
            let command = format!("nodewright crds {}", folder.display());
            stderr().line(format_args!("hint: run {command}, and commit what it changes"))?;
        }
    }
    Ok(exit)
}

fn write(folder: &Path) -> Result<Exit, CliError> {
    fs::create_dir_all(folder).map_err(|error| on_disk(folder, "cannot be made", error))?;
    let mut out = stdout();
    for (name, text) in schema_files() {
        let file = folder.join(name);
        match standing(&file, &text)? {
            Standing::Current => out.line(format_args!("{}: current", file.display()))?,
            Standing::Differs | Standing::Missing => {
                fs::write(&file, text)
                    .map_err(|error| on_disk(&file, "cannot be written", error))?;
                out.line(format_args!("{}: written", file.display()))?;
            }
        }
    }
    Ok(Exit::Success)
}

fn standing(file: &Path, wanted: &str) -> Result<Standing, CliError> {
    match fs::read(file) {
        Ok(found) if found == wanted.as_bytes() => Ok(Standing::Current),
        Ok(_) => Ok(Standing::Differs),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Standing::Missing),
        Err(error) => Err(on_disk(file, "cannot be read", error)),
    }
}

/// Says what cannot be done with a file or folder.
fn on_disk(file: &Path, what: &str, error: io::Error) -> CliError {
    let message = format!("{} {what}: {error}", file.display());
    CliError::new(ErrorKind::Internal, message).hint("check its permissions and the disk")
}
