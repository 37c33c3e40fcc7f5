//! Stages a package goes through on a node, and how far each has come.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A stage of a package on a node, in upstream's words (upstream contract A.6, B.2).
///
/// Each stage runs its steps and then its checks; it is complete only when both succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Takes the package off the host.
    Uninstall,
    /// The interrupt that an uninstall needs.
    UninstallInterrupt,
    /// From a lower version to this one, in place of `apply`.
    Upgrade,
    /// Puts the package on the host.
    Apply,
    /// Configures it from its config map.
    Config,
    /// Restarts what must be restarted.
    Interrupt,
    /// Verifies the result after the interrupt.
    PostInterrupt,
}

impl Stage {
    /// Returns the word used in annotations, labels, container names and by the agent.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Uninstall => "uninstall",
            Self::UninstallInterrupt => "uninstall-interrupt",
            Self::Upgrade => "upgrade",
            Self::Apply => "apply",
            Self::Config => "config",
            Self::Interrupt => "interrupt",
            Self::PostInterrupt => "post-interrupt",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How far a stage has come, in upstream's words (upstream contract A.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Recorded as begun; its executor may or may not exist yet.
    InProgress,
    /// Stage and check succeeded.
    Complete,
    /// Waits for the interrupt of another package of the same visit.
    Skipped,
    /// The last attempt failed.
    Erroring,
    /// Not known, or a word of a newer version.
    #[serde(other)]
    Unknown,
}

impl State {
    /// Returns the word used in annotations and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::InProgress => "in_progress",
            Self::Complete => "complete",
            Self::Skipped => "skipped",
            Self::Erroring => "erroring",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
