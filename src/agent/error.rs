//! What can keep the agent from running a mode at all. A failing step is a result, not an error.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use super::config::ConfigError;

/// Why the agent gave up before, between or after steps.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The arguments fit none of the accepted forms; exit code 2.
    #[error("{message}\nusage: nodewright agent MODE [ROOT] COPYDIR [INTERRUPT]")]
    Usage {
        /// What is wrong with them.
        message: String,
    },
    /// `SKYHOOK_RESOURCE_ID` is missing or malformed.
    #[error(
        "SKYHOOK_RESOURCE_ID is {value:?}, expected RESOURCE-UID-GENERATION_PACKAGE_VERSION; \
         the daemon sets it on every executor, set it when you run the agent by hand"
    )]
    ResourceId {
        /// The value found; empty when unset.
        value: String,
    },
    /// `config.json` breaks the package format.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file the package needs from its ConfigMap is not there.
    #[error(
        "expected_config_files of {package}: {} not found in {}; add the keys to the package's \
         configMap, or remove them from expected_config_files",
        missing.join(", "),
        folder.display()
    )]
    ExpectedFiles {
        /// The package's name in `config.json`.
        package: String,
        /// The keys that are missing, in the order of `config.json`.
        missing: Vec<String>,
        /// Where they were looked for, as a host path.
        folder: PathBuf,
    },
    /// The host's root is not mounted.
    #[error(
        "there is no folder {}, where the host's root should be; mount the host's / there, or name \
         where it is in the argument ROOT",
        root.display()
    )]
    NoRoot {
        /// The argument.
        root: PathBuf,
    },
    /// Neither the copy directory nor the package inside the container exists.
    #[error(
        "there is no package: neither {} on the host nor {} in the container exists; the first \
         init container copies the package, look at its log",
        copy_dir.display(),
        container.display()
    )]
    NoPackage {
        /// The copy directory, as a host path.
        copy_dir: PathBuf,
        /// `SKYHOOK_DATA_DIR`.
        container: PathBuf,
    },
    /// The interrupt payload is not base64 of the expected JSON.
    #[error("the interrupt payload is {what}; the daemon writes it, this is not a package's fault")]
    InterruptPayload {
        /// What is wrong with it.
        what: String,
    },
    /// A host path leads through more symbolic links than any sane host has.
    #[error("{}: more than {limit} symbolic links under {}", path.display(), root.display())]
    SymlinkLoop {
        /// The host path.
        path: PathBuf,
        /// The mounted root.
        root: PathBuf,
        /// How many were followed.
        limit: usize,
    },
    /// The operating system refused.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On what, as the agent sees it.
        path: PathBuf,
        /// The refusal.
        #[source]
        source: io::Error,
    },
}

impl AgentError {
    /// Returns a function that wraps an I/O error with what was tried on which path.
    pub(super) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { operation, path, source }
    }

    /// Returns the error and its causes on one line each level, separated by colons.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
