//! `nodewright validate`: what is wrong with manifests, before they are merged.
//!
//! In: a folder, one file, or a branch of a repository. Out: findings with file, line and column.
//! It is the same reading as the daemon's, so what passes here is not refused there.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::json;

use super::Exit;
use super::environment::Environment;
use super::error::{CliError, ErrorKind};
use super::out::stdout;
use super::run::cache_folder;
use crate::daemon::files_of_commit;
use crate::git::{self, Address, Remote, Source, Transport};
use crate::manifest::{
    self, FILE_MAX_BYTES, Layout, Parsed, Problem, ProblemKind, SourceFile, is_manifest_name,
};
use crate::model::ObjectRef;
use crate::report::findings;

/// Checks manifests, and says file, line, the rule broken and the way out.
///
/// Ends with exit code 3 when something would be refused. Reads what the daemon would read: with a
/// folder `clusters`, name the cluster with --cluster. Warnings and notes do not fail.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ValidateArgs {
    /// Reads this folder, or this one file.
    #[arg(value_name = "FOLDER", default_value = ".", hide_default_value = true)]
    folder: PathBuf,
    /// Reads a branch of this repository instead.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "folder")]
    repo: Option<String>,
    /// Reads this branch of it.
    #[arg(long, value_name = "BRANCH", default_value = git::BRANCH_DEFAULT, requires = "repo")]
    revision: String,
    /// Reads the credentials of --repo from this folder.
    #[arg(long, value_name = "FOLDER", requires = "repo")]
    credentials: Option<PathBuf>,
    /// Reads what this cluster would get: its folder in `clusters`, and the pools it uses.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Reads only this folder of the repository.
    #[arg(long, value_name = "FOLDER", default_value = "", hide_default_value = true)]
    path: String,
    /// Prints text for people, or one JSON object for programs.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
}

/// How findings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// In the way of a compiler.
    Text,
    /// With every field of every finding.
    Json,
}

/// The files, and what stands in front of their names.
struct Found {
    files: Vec<SourceFile>,
    problems: Vec<Problem>,
    /// Folder as it was typed; empty where names are complete.
    prefix: PathBuf,
    /// What was read, for a sentence.
    what: String,
}

pub(super) fn main(args: &ValidateArgs, environment: &Environment) -> Result<Exit, CliError> {
    let ValidateArgs { folder, repo, revision, credentials, cluster, path, format } = args;
    let found = match repo {
        Some(repo) => from_git(repo, revision, credentials.as_deref(), path, environment)?,
        None => from_disk(folder)?,
    };
    let Found { files, problems, prefix, what } = found;
    if problems.is_empty() && !files.iter().any(|file| is_manifest_name(&file.path)) {
        return Err(CliError::usage(format!("there is no manifest in {what}"))
            .hint("manifests end in .yaml, .yml or .json")
            .hint("name the folder that holds them: nodewright validate FOLDER"));
    }
    let layout = Layout { cluster: cluster.clone(), path: path.clone() };
    let mut parsed = manifest::read(&files, &problems, &layout);
    for finding in &mut parsed.findings {
        finding.file = prefix.join(&finding.file).display().to_string();
    }
    let mut out = stdout();
    match format {
        Format::Text => out.text(&text(&parsed))?,
        Format::Json => out.line(json(&parsed))?,
    }
    Ok(if parsed.has_errors() { Exit::Invalid } else { Exit::Success })
}

fn from_disk(folder: &Path) -> Result<Found, CliError> {
    let shown = folder.display().to_string();
    let metadata = fs::metadata(folder).map_err(|error| {
        let message = match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no folder {shown}"),
            _ => format!("{shown} cannot be read: {error}"),
        };
        CliError::usage(message)
            .hint("name the folder that holds the manifests: nodewright validate FOLDER")
    })?;
    if metadata.is_dir() {
        let (files, problems) = manifest::read_folder(folder);
        let prefix = if shown == "." { PathBuf::new() } else { folder.to_owned() };
        return Ok(Found { files, problems, prefix, what: shown });
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let prefix = folder.parent().map(Path::to_owned).unwrap_or_default();
    let mut found = Found { files: Vec::new(), problems: Vec::new(), prefix, what: shown };
    match one_file(folder) {
        Ok(bytes) => found.files.push(SourceFile { path: name, bytes }),
        Err(kind) => found.problems.push(Problem { path: name, kind }),
    }
    Ok(found)
}

/// Reads one file, with the bound that holds for each file of a folder.
fn one_file(file: &Path) -> Result<Vec<u8>, ProblemKind> {
    let mut bytes = Vec::new();
    let read = fs::File::open(file)
        .and_then(|opened| opened.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(ProblemKind::Unreadable { error: error.to_string() }),
        Ok(_) if bytes.len() as u64 > FILE_MAX_BYTES => {
            let bytes = fs::metadata(file).map_or(FILE_MAX_BYTES + 1, |metadata| metadata.len());
            Err(ProblemKind::TooLarge { bytes })
        }
        Ok(_) => Ok(bytes),
    }
}

fn from_git(
    repo: &str,
    branch: &str,
    credentials: Option<&Path>,
    path: &str,
    environment: &Environment,
) -> Result<Found, CliError> {
    let address = Address::parse("--repo", repo)?;
    let remote = Remote { address, credentials: credentials.map(Path::to_owned) };
    let cache = cache_folder(environment).join("validate");
    let source = Source::new(remote, cache).following(branch)?;
    let executable = env::current_exe().map_err(|error| {
        CliError::new(ErrorKind::Internal, error).hint("start nodewright by its full path")
    })?;
    let fetched = Transport::new(executable).fetch_blocking(source.fetch_request(None))?;
    let commit = fetched.source.expect("a fetch that asks for a branch answers with its tip");
    let what = format!("{} at {} of {branch}", path_shown(path), commit.short());
    let (files, problems) = files_of_commit(&source.cache, &commit, path)?;
    Ok(Found { files, problems, prefix: PathBuf::new(), what })
}

fn path_shown(path: &str) -> &str {
    if path.is_empty() { "the repository" } else { path }
}

fn text(parsed: &Parsed) -> String {
    let mut text = findings::text(&parsed.findings);
    let Parsed { nodewrights, policies, foreign, findings: _, unreadable, refused } = parsed;
    let mut parts = vec![
        format!("{} NodeWright", nodewrights.len()),
        format!("{} DeploymentPolicy", policies.len()),
    ];
    if !foreign.is_empty() {
        parts.push(format!("{} of other kinds, not looked at", foreign.len()));
    }
    let _ = writeln!(text, "accepted: {}", parts.join(", "));
    if !refused.is_empty() {
        let refused: Vec<String> = refused.iter().map(ObjectRef::to_string).collect();
        let _ = writeln!(text, "refused: {}", refused.join(", "));
    }
    if *unreadable {
        text.push_str("not all could be read, so this revision would remove nothing\n");
    }
    text
}

fn json(parsed: &Parsed) -> serde_json::Value {
    let Parsed { nodewrights, policies, foreign, findings, unreadable, refused } = parsed;
    json!({
        "valid": !parsed.has_errors(),
        "nodewrights": nodewrights.keys().collect::<Vec<_>>(),
        "deploymentPolicies": policies.keys().collect::<Vec<_>>(),
        "refused": refused,
        "otherKinds": foreign.len(),
        "unreadable": unreadable,
        "findings": findings,
    })
}
