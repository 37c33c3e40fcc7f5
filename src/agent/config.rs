//! `config.json` of a package, schema `v1` (upstream contract E.2).
//!
//! In: the copy directory on the host. Out: the steps per mode and warnings, or every rule that is
//! broken, each with its JSON path and the way out. Never starts anything.

pub(super) mod check;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::AgentError;
use super::host::HostRoot;
use super::mode::Mode;
use check::Checker;

/// A package's `config.json`, checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// Names the package in flags, history and logs; may differ from the name in the cluster.
    pub package_name: String,
    /// Strict semantic version.
    pub package_version: String,
    /// Keys that must be in `configmaps/` for every mode but the uninstalls.
    pub expected_config_files: Vec<String>,
    /// The steps of each mode that has some.
    pub modes: BTreeMap<Mode, Vec<Step>>,
    /// What is allowed but probably not meant.
    pub warnings: Vec<String>,
}

impl Config {
    /// Returns the steps of a mode, in order.
    pub fn steps(&self, mode: Mode) -> &[Step] {
        self.modes.get(&mode).map_or(&[], Vec::as_slice)
    }
}

/// One script of a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// For people.
    pub name: String,
    /// The script, relative to `skyhook_dir`.
    pub path: String,
    /// Arguments; `env:NAME` stands for the container's variable of that name.
    pub arguments: Vec<String>,
    /// Exit codes that mean success.
    pub returncodes: Vec<i32>,
    /// Where it runs.
    pub place: Place,
    /// Whether it runs again although it succeeded before.
    pub idempotence: Idempotence,
    /// What the upgrade passes to it.
    pub versions: Versions,
    /// Its own environment, over the container's.
    pub env: BTreeMap<String, String>,
}

/// Where a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Chrooted into the host.
    Host,
    /// In the agent's container, with paths under the mounted root.
    Container,
}

/// Who makes repeating a step harmless. In `config.json` the sense is inverted: `true` means that
/// the step does it by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotence {
    /// The agent: once it succeeded, its flag lets it be skipped.
    Auto,
    /// The step: it always runs.
    Disabled,
}

impl Idempotence {
    /// Returns the name in log lines, which upstream's tests match.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "Auto",
            Self::Disabled => "Disabled",
        }
    }
}

/// How an upgrade step learns the versions; the environment has them in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// In the environment only.
    Environment,
    /// Also as two arguments, previous and current (`upgrade_step: true`).
    Arguments,
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file: `$.modes.apply[0].path`.
    pub path: String,
    /// The rule and what was found.
    pub rule: String,
    /// What to do about it.
    pub way_out: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, rule, way_out } = self;
        write!(formatter, "{path}: {rule}; {way_out}")
    }
}

/// Every broken rule of one `config.json`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a valid package description:{}", file.display(), list(problems))]
pub struct ConfigError {
    /// The file, as a host path.
    pub file: PathBuf,
    /// At least one.
    pub problems: Vec<Problem>,
}

/// Reads and checks `config.json` of the package at the host path `copy_dir`.
pub fn load(host: &HostRoot, copy_dir: &Path) -> Result<Config, AgentError> {
    let file = copy_dir.join("config.json");
    let refuse = |path: &str, rule: String, way_out: &str| {
        let problem = Problem { path: path.to_owned(), rule, way_out: way_out.to_owned() };
        ConfigError { file: file.clone(), problems: vec![problem] }
    };
    let Some(content) = host.read(&file)? else {
        let way_out = "every package image needs /skyhook-package/config.json";
        return Err(refuse("$", "the file does not exist".to_owned(), way_out).into());
    };
    let document: Value = match serde_json::from_slice(&content) {
        Ok(document) => document,
        Err(error) => {
            let way_out = "write plain JSON, without comments and trailing commas";
            return Err(refuse("$", format!("not JSON: {error}"), way_out).into());
        }
    };
    let mut checker = Checker::default();
    let mut config = checker.document(&document);
    checker.files(&mut config, |path| {
        let path = host.resolve(&copy_dir.join("skyhook_dir").join(path))?;
        Ok(path.is_file())
    })?;
    let problems = checker.into_problems();
    if problems.is_empty() { Ok(config) } else { Err(ConfigError { file, problems }.into()) }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
