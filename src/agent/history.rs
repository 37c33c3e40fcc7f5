//! `history/<package_name>.json` on the host: which version was installed when (contract E.5).

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::error::AgentError;
use super::host::HostRoot;
use super::mode::Mode;
use super::output::Output;

/// What upgrade steps see as previous version when the host has no history of the package.
const UNKNOWN: &str = "unknown";

/// What the history says after an uninstall.
const UNINSTALLED: &str = "uninstalled";

/// How many entries are kept, as upstream's second agent keeps: years of upgrades.
const ENTRIES_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Ledger {
    #[serde(rename = "current-version")]
    current_version: String,
    history: Vec<Entry>,
}

/// The time stays the text it was: three agents write three precisions, and nobody computes with
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    version: String,
    time: String,
}

/// The history of one package on one host.
pub(super) struct History<'a> {
    host: &'a HostRoot,
    file: PathBuf,
    package: &'a str,
    version: &'a str,
}

impl<'a> History<'a> {
    pub(super) fn new(host: &'a HostRoot, state_folder: &Path, config: &'a Config) -> Self {
        let file = state_folder.join("history").join(format!("{}.json", config.package_name));
        Self { host, file, package: &config.package_name, version: &config.package_version }
    }

    /// Returns the version on the host before this run: `unknown` without a history, empty after a
    /// corrupt one, which is moved aside.
    pub(super) fn previous_version(&self, out: &mut Output<'_>) -> Result<String, AgentError> {
        Ok(self.load(out)?.current_version)
    }

    /// Adds what a successful check mode proved.
    pub(super) fn record(
        &self,
        mode: Mode,
        now: Timestamp,
        out: &mut Output<'_>,
    ) -> Result<(), AgentError> {
        let version = if mode.is_uninstall() { UNINSTALLED } else { self.version };
        let mut ledger = self.load(out)?;
        version.clone_into(&mut ledger.current_version);
        let entry = Entry { version: version.to_owned(), time: now.to_string() };
        ledger.history.insert(0, entry);
        ledger.history.truncate(ENTRIES_MAX);
        let mut text = serde_json::to_vec_pretty(&ledger).expect("a ledger is strings");
        text.push(b'\n');
        self.host.write(&self.file, &text)
    }

    fn load(&self, out: &mut Output<'_>) -> Result<Ledger, AgentError> {
        let Some(content) = self.host.read(&self.file)? else {
            out.line(format_args!(
                "no existing history found for {}, could be first installation...",
                self.package
            ));
            return Ok(Ledger { current_version: UNKNOWN.to_owned(), history: Vec::new() });
        };
        if let Ok(ledger) = serde_json::from_slice(&content) {
            return Ok(ledger);
        }
        let backup = self.file.with_extension("json.backup");
        self.host.rename(&self.file, &backup)?;
        out.line(format_args!(
            "Failed to load existing history, corrupt history file moved to {}...",
            backup.display()
        ));
        Ok(Ledger { current_version: String::new(), history: Vec::new() })
    }
}
