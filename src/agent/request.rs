//! What is asked of the agent: arguments, environment settings, resource id (upstream contract
//! E.3).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::config::check::is_file_name;
use super::error::AgentError;
use super::mode::Mode;

/// Root of the forms without `ROOT`, from before the executor mounted it by argument.
const LEGACY_ROOT: &str = "/root";

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) mode: Mode,
    pub(super) root: PathBuf,
    pub(super) copy_dir: PathBuf,
    pub(super) interrupt: Option<String>,
}

/// What the arguments ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    Run(Request),
    /// A mode of a newer daemon: by contract a warning and success.
    UnknownMode(String),
    Version,
}

impl Asked {
    pub(super) fn parse(args: &[String]) -> Result<Self, AgentError> {
        let texts: Vec<&str> = args.iter().map(String::as_str).collect();
        let (mode, root, copy_dir, interrupt) = match texts.as_slice() {
            ["--version"] => return Ok(Self::Version),
            [mode, copy_dir] => (*mode, LEGACY_ROOT, *copy_dir, None),
            ["interrupt", copy_dir, payload] => {
                ("interrupt", LEGACY_ROOT, *copy_dir, Some(*payload))
            }
            [mode, root, copy_dir] => (*mode, *root, *copy_dir, None),
            [mode, root, copy_dir, payload] => (*mode, *root, *copy_dir, Some(*payload)),
            other => return Err(usage(format!("expected 2 to 4 arguments, got {}", other.len()))),
        };
        let Some(mode) = Mode::parse(mode) else { return Ok(Self::UnknownMode(mode.to_owned())) };
        for (what, path) in [("ROOT", root), ("COPYDIR", copy_dir)] {
            let is_plain = !Path::new(path).components().any(|part| part.as_os_str() == "..");
            if !path.starts_with('/') || !is_plain {
                return Err(usage(format!("{what} {path:?} must be absolute, without ..")));
            }
        }
        match (mode == Mode::Interrupt, interrupt.is_some_and(|payload| !payload.is_empty())) {
            (true, false) => return Err(usage("interrupt needs a payload".to_owned())),
            (false, true) => return Err(usage(format!("{mode} takes no interrupt payload"))),
            (true, true) | (false, false) => {}
        }
        let interrupt = interrupt.filter(|payload| !payload.is_empty()).map(str::to_owned);
        Ok(Self::Run(Request { mode, root: root.into(), copy_dir: copy_dir.into(), interrupt }))
    }
}

/// The settings in the container's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) resource_id: String,
    pub(super) container_package: PathBuf,
    pub(super) state_folder: PathBuf,
    pub(super) log_folder: PathBuf,
    /// Printed in the banner only: output is read in pieces of our own size.
    pub(super) buffer_limit: String,
    pub(super) writes_logs: bool,
    pub(super) always_runs_steps: bool,
    pub(super) copies_resolver: bool,
}

impl Settings {
    pub(super) fn read(env: &BTreeMap<String, String>) -> Self {
        let text = |name: &str, default: &str| {
            let value = env.get(name).filter(|value| !value.is_empty());
            value.map_or_else(|| default.to_owned(), Clone::clone)
        };
        let flag = |name: &str, default: bool| {
            env.get(name).map_or(default, |value| value.eq_ignore_ascii_case("true"))
        };
        Self {
            resource_id: text("SKYHOOK_RESOURCE_ID", ""),
            container_package: text("SKYHOOK_DATA_DIR", "/skyhook-package").into(),
            state_folder: text("SKYHOOK_ROOT_DIR", "/etc/skyhook").into(),
            log_folder: text("SKYHOOK_LOG_DIR", "/var/log/skyhook").into(),
            buffer_limit: text("SKYHOOK_AGENT_BUFFER_LIMIT", "8192"),
            writes_logs: flag("SKYHOOK_AGENT_WRITE_LOGS", true),
            always_runs_steps: flag("OVERLAY_ALWAYS_RUN_STEP", false),
            copies_resolver: flag("COPY_RESOLV", true),
        }
    }
}

/// The parts of `SKYHOOK_RESOURCE_ID`: `<cr>-<uid>-<generation>_<package>_<version>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceId {
    /// `<cr>-<uid>-<generation>`.
    pub resource: String,
    /// The package's name in the cluster; may contain `_` for us, never for upstream's first agent.
    pub package: String,
    /// The package's version.
    pub version: String,
}

impl ResourceId {
    /// Splits at the first and the last `_`.
    pub fn parse(value: &str) -> Result<Self, AgentError> {
        let parts = value.split_once('_').and_then(|(resource, rest)| {
            let (package, version) = rest.rsplit_once('_')?;
            Some(Self {
                resource: resource.to_owned(),
                package: package.to_owned(),
                version: version.to_owned(),
            })
        });
        parts
            .filter(|Self { resource, package, version }| {
                // All three become names of files and folders on the host.
                [resource, package, version].into_iter().all(|part| is_file_name(part))
            })
            .ok_or_else(|| AgentError::ResourceId { value: value.to_owned() })
    }
}

fn usage(message: String) -> AgentError {
    AgentError::Usage { message }
}
