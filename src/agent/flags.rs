//! Flags on the host: what was done before, so that a step runs once (upstream contract E.5).
//!
//! Two names per step are honoured and written: that of upstream's first agent
//! (`<path>_<base64 of the arguments and return codes as Python prints them>`) and that of its
//! second (`<file name>-<sha256>.flag`). A host can so go from either to us and back.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::config::{Config, Idempotence, Place, Step};
use super::error::AgentError;
use super::host::HostRoot;
use super::mode::Mode;
use super::output::Output;
use super::python;

/// The longest name of a file on any file system a host has.
const FILE_NAME_MAX_BYTES: usize = 255;

/// Whether a step is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Run,
    Skip,
}

/// The flags of one package version on one host.
pub(super) struct Flags<'a> {
    host: &'a HostRoot,
    folder: PathBuf,
    package: PathBuf,
    version: PathBuf,
}

impl<'a> Flags<'a> {
    pub(super) fn new(host: &'a HostRoot, state_folder: &Path, config: &Config) -> Self {
        let folder = state_folder.join("flags");
        let package = folder.join(&config.package_name);
        let version = package.join(&config.package_version);
        Self { host, folder, package, version }
    }

    /// Notes that the agent ran.
    pub(super) fn touch_start(&self) -> Result<(), AgentError> {
        self.host.write(&self.folder.join("START"), b"")
    }

    /// Decides about a step, and prints why where upstream does.
    pub(super) fn decide(
        &self,
        mode: Mode,
        step: &Step,
        always_runs_steps: bool,
        out: &mut Output<'_>,
    ) -> Result<Decision, AgentError> {
        let Some(flag) = self.existing(step)? else { return Ok(Decision::Run) };
        if always_runs_steps {
            out.line(format_args!(
                "WARNING: {} exists for {} but OVERLAY_ALWAYS_RUN_STEP flag is set so running \
                 anyway.",
                flag.display(),
                step.path
            ));
        } else if mode.ignores_flags() {
            out.line(
                "Flag exists but CONFIG, UNINSTALL, and UPGRADE mode don't support idempotence so \
                 running step anyway.",
            );
        } else if step.idempotence == Idempotence::Disabled {
            out.line("Flag exists but idempotence is Idempotence.Disabled so running step.");
        } else {
            out.line(format_args!("Skipping {} because {} exists.", step.path, flag.display()));
            return Ok(Decision::Skip);
        }
        Ok(Decision::Run)
    }

    /// Notes that a step succeeded.
    ///
    /// The second agent's name must be there, or the step would run again; the first agent's is
    /// for a host that is handed back to it, and its slashes can collide with another flag.
    pub(super) fn mark(
        &self,
        step: &Step,
        now: Timestamp,
        out: &mut Output<'_>,
    ) -> Result<(), AgentError> {
        let always = python::boolean(step.idempotence == Idempotence::Disabled);
        let content = format!("last_run: {now}\nstep_always_runs: {always}");
        let [first, second] = flag_names(step);
        self.host.write(&self.version.join(second), content.as_bytes())?;
        if is_nameable(&first)
            && let Err(error) = self.host.write(&self.version.join(first), content.as_bytes())
        {
            out.line(format_args!("WARNING: no flag for older agents: {}", error.chain()));
        }
        Ok(())
    }

    /// Forgets what an earlier run of this check mode found.
    pub(super) fn clear_all_checked(&self, mode: Mode) -> Result<(), AgentError> {
        self.host.remove_file(&self.all_checked(mode))
    }

    /// Writes the results of all checks, and that all passed if so.
    pub(super) fn write_check_results(
        &self,
        mode: Mode,
        results: &[(&str, CheckResult)],
    ) -> Result<(), AgentError> {
        let line = |(path, result): &(&str, CheckResult)| {
            format!("{path} {}", python::boolean(*result == CheckResult::Failed))
        };
        let lines: Vec<String> = results.iter().map(line).collect();
        self.host.write(&self.folder.join("check_results"), lines.join("\n").as_bytes())?;
        if results.iter().all(|(_, result)| *result == CheckResult::Passed) {
            self.host.write(&self.all_checked(mode), b"")?;
        }
        Ok(())
    }

    /// Forgets every step of the package, of every version.
    ///
    /// Upstream forgets the uninstalled version only, so that going back to an older version later
    /// skips its Auto steps although nothing of it is left.
    pub(super) fn forget_package(&self) -> Result<(), AgentError> {
        self.host.remove_folder(&self.package)
    }

    fn existing(&self, step: &Step) -> Result<Option<PathBuf>, AgentError> {
        for name in flag_names(step) {
            let path = self.version.join(&name);
            if is_nameable(&name) && self.host.resolve(&path)?.is_file() {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    fn all_checked(&self, mode: Mode) -> PathBuf {
        self.folder.join(format!("{mode}_ALL_CHECKED"))
    }
}

/// How one check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckResult {
    Passed,
    Failed,
}

/// Returns a step's flag names below `flags/<package>/<version>/`: first agent, second agent.
///
/// Base64 may contain `/`: the first name then lies in folders of its own, as upstream's does.
pub fn flag_names(step: &Step) -> [String; 2] {
    let arguments = python::list_of_strings(&step.arguments);
    let text = format!("{arguments}_{}", python::list_of_integers(&step.returncodes));
    let first = format!("{}_{}", step.path, STANDARD.encode(text));
    let file = Path::new(&step.path).file_name().unwrap_or_default().to_string_lossy();
    [first, format!("{file}-{}.flag", fingerprint(step))]
}

/// Returns the second agent's fingerprint: SHA-256 over Go's JSON of what matters for a run.
pub fn fingerprint(step: &Step) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Payload<'a> {
        path: &'a str,
        arguments: &'a [String],
        return_codes: &'a [i32],
        env: &'a std::collections::BTreeMap<String, String>,
        on_host: bool,
    }
    let payload = Payload {
        path: &step.path,
        arguments: &step.arguments,
        return_codes: &step.returncodes,
        env: &step.env,
        on_host: step.place == Place::Host,
    };
    let json = serde_json::to_string(&payload).expect("a step is strings and numbers");
    let digest = Sha256::digest(as_go_writes(&json));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Go escapes these five for the sake of HTML; outside strings JSON has none of them.
fn as_go_writes(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Long arguments make a first-agent name that no file system takes; the second name then counts.
fn is_nameable(name: &str) -> bool {
    name.split('/').all(|part| part.len() <= FILE_NAME_MAX_BYTES)
}
