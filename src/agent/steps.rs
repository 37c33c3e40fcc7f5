//! The steps of one mode (upstream contract E.4 and E.5).

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::config::{Config, Place, Step, Versions};
use super::error::AgentError;
use super::flags::{CheckResult, Decision, Flags};
use super::history::History;
use super::log::StepLog;
use super::output::Output;
use super::process::{self, Exit, Task};
use super::python;
use super::run::{End, Session};
use super::summary::Summary;

/// The versions an upgrade is between.
struct VersionPair {
    previous: String,
    current: String,
}

/// Runs the mode's steps, keeps flags and history.
pub(super) fn run_mode(
    session: &Session<'_>,
    config: &Config,
    summary: &mut Summary,
    out: &mut Output<'_>,
) -> Result<End, AgentError> {
    let mode = session.request.mode;
    let flags = Flags::new(session.host, &session.settings.state_folder, config);
    let history = History::new(session.host, &session.settings.state_folder, config);
    flags.touch_start()?;
    if config.steps(mode).is_empty() {
        out.line(format_args!(
            "WARNING: There are no {mode} steps defined. This will be ran as a no-op."
        ));
    }
    let versions = if mode.is_upgrade() && !config.steps(mode).is_empty() {
        let previous = history.previous_version(out)?;
        Some(VersionPair { previous, current: config.package_version.clone() })
    } else {
        None
    };
    let mut runner = Runner { session, config, versions, flags, summary, out };
    let end = if mode.is_check() { runner.run_checks()? } else { runner.run_steps()? };
    if end == End::Success && mode.records_history() {
        if mode.is_uninstall() {
            // Before the history: a crash in between must not leave flags of what is gone.
            runner.flags.forget_package()?;
        }
        history.record(mode, (session.invocation.now)(), out)?;
    }
    Ok(end)
}

struct Runner<'r, 'a, 'w> {
    session: &'r Session<'a>,
    config: &'r Config,
    versions: Option<VersionPair>,
    flags: Flags<'r>,
    summary: &'r mut Summary,
    out: &'r mut Output<'w>,
}

/// What a step needs to start, once its `env:` arguments are known.
struct Prepared {
    arguments: Vec<String>,
    env: BTreeMap<String, String>,
    script: PathBuf,
    folder: PathBuf,
}

impl Runner<'_, '_, '_> {
    /// Runs steps until one fails.
    fn run_steps(&mut self) -> Result<End, AgentError> {
        let Session { invocation, request, settings, host: _ } = *self.session;
        for step in self.config.steps(request.mode) {
            if self.stops() {
                return Ok(End::Failure);
            }
            let always = settings.always_runs_steps;
            match self.flags.decide(request.mode, step, always, self.out)? {
                Decision::Skip => self.summary.steps_skipped += 1,
                Decision::Run => {
                    if self.run_step(step)? == CheckResult::Failed {
                        return Ok(End::Failure);
                    }
                    self.flags.mark(step, (invocation.now)(), self.out)?;
                }
            }
        }
        Ok(if self.stops() { End::Failure } else { End::Success })
    }

    /// Runs every check, then tells whether all passed.
    fn run_checks(&mut self) -> Result<End, AgentError> {
        let mode = self.session.request.mode;
        let steps = self.config.steps(mode);
        if steps.is_empty() {
            return Ok(End::Success);
        }
        self.flags.clear_all_checked(mode)?;
        let mut results = Vec::new();
        let mut first_failure = None;
        for step in steps {
            if self.stops() {
                return Ok(End::Failure);
            }
            let result = self.run_step(step)?;
            if result == CheckResult::Failed && first_failure.is_none() {
                first_failure = Some(self.summary.clone());
            }
            results.push((step.path.as_str(), result));
        }
        if let Some(first) = first_failure {
            *self.summary = Summary { steps_run: self.summary.steps_run, ..first };
        }
        if self.stops() {
            return Ok(End::Failure);
        }
        self.flags.write_check_results(mode, &results)?;
        let failed = results.iter().any(|(_, result)| *result == CheckResult::Failed);
        Ok(if failed { End::Failure } else { End::Success })
    }

    /// Tells whether the pod is going away, and says so.
    fn stops(&mut self) -> bool {
        let stops = self.session.invocation.stop.is_requested();
        if stops {
            let text = "SIGTERM received, stopping step execution";
            self.out.line(text);
            (self.summary.exit_code, self.summary.signal) = (None, None);
            text.clone_into(&mut self.summary.tail);
        }
        stops
    }

    fn run_step(&mut self, step: &Step) -> Result<CheckResult, AgentError> {
        let Session { invocation, request, settings, host } = *self.session;
        let mut printed = step.arguments.clone();
        self.push_versions(step, &mut printed);
        self.out.line(format_args!(
            "{} {} {} {} Idempotence.{} {}",
            request.mode,
            step.path,
            python::list_of_strings(&printed),
            python::list_of_integers(&step.returncodes),
            step.idempotence.as_str(),
            python::boolean(step.place == Place::Host),
        ));
        self.summary.step = Some(step.path.clone());
        let Some(prepared) = self.prepare(step)? else { return Ok(CheckResult::Failed) };
        let mut log = if settings.writes_logs {
            let Config { package_name, package_version, .. } = self.config;
            let folder = settings.log_folder.join(package_name).join(package_version);
            Some(StepLog::open(host, &folder, &step.path, (invocation.now)())?)
        } else {
            None
        };
        let Prepared { arguments, env, script, folder } = &prepared;
        let program = script.to_string_lossy();
        let task = Task {
            executable: &invocation.executable,
            root: host.to_change_to().filter(|_| step.place == Place::Host),
            folder,
            program: &program,
            arguments,
            env,
        };
        let (exit, tail) = process::run(&task, &invocation.stop, &mut log, self.out)?;
        self.summary.steps_run += 1;
        self.summary.tail = tail.text();
        (self.summary.exit_code, self.summary.signal) = match exit {
            Exit::Code(code) => (Some(code), None),
            Exit::Signal(signal) => (None, Some(signal)),
        };
        let arguments = arguments.join(" ");
        match exit {
            Exit::Code(code) if step.returncodes.contains(&code) => {
                self.out.line(format_args!("SUCEEDED: {} {arguments}", step.path));
                Ok(CheckResult::Passed)
            }
            Exit::Code(_) | Exit::Signal(_) => {
                let code = exit.printed();
                self.out.line(format_args!("FAILED: {} {arguments} {code}", step.path));
                Ok(CheckResult::Failed)
            }
        }
    }

    /// Returns what the step needs; `None` when variables are missing, all of which were printed.
    fn prepare(&mut self, step: &Step) -> Result<Option<Prepared>, AgentError> {
        let Session { invocation, request, settings: _, host } = *self.session;
        let (mut arguments, missing) = substitute(&step.arguments, &invocation.env);
        if !missing.is_empty() {
            let lines: Vec<String> = missing
                .iter()
                .map(|name| {
                    let path = &step.path;
                    format!("{path}: Expected environment variable did not exist: {name}")
                })
                .collect();
            self.summary.tail = lines.join("\n");
            (self.summary.exit_code, self.summary.signal) = (None, None);
            self.out.line(&self.summary.tail);
            return Ok(None);
        }
        self.push_versions(step, &mut arguments);
        let scripts = request.copy_dir.join("skyhook_dir");
        make_executable(&host.resolve(&scripts.join(&step.path))?)?;
        let (folder, scripts) = match step.place {
            Place::Host => (request.copy_dir.clone(), scripts),
            Place::Container => (host.resolve(&request.copy_dir)?, host.resolve(&scripts)?),
        };
        let mut env = invocation.env.clone();
        env.extend(step.env.clone());
        if let Some(VersionPair { previous, current }) = &self.versions {
            env.insert("PREVIOUS_VERSION".to_owned(), previous.clone());
            env.insert("CURRENT_VERSION".to_owned(), current.clone());
        }
        env.insert("STEP_ROOT".to_owned(), scripts.to_string_lossy().into_owned());
        env.insert("SKYHOOK_DIR".to_owned(), folder.to_string_lossy().into_owned());
        Ok(Some(Prepared { arguments, env, script: scripts.join(&step.path), folder }))
    }

    fn push_versions(&self, step: &Step, arguments: &mut Vec<String>) {
        if let (Versions::Arguments, Some(pair)) = (step.versions, &self.versions) {
            arguments.extend([pair.previous.clone(), pair.current.clone()]);
        }
    }
}

/// Replaces `env:NAME` arguments; returns the names that are not set beside the result.
fn substitute(arguments: &[String], env: &BTreeMap<String, String>) -> (Vec<String>, Vec<String>) {
    let (mut replaced, mut missing) = (Vec::new(), Vec::new());
    for argument in arguments {
        match argument.strip_prefix("env:") {
            None => replaced.push(argument.clone()),
            Some(name) => match env.get(name) {
                Some(value) => replaced.push(value.clone()),
                None if missing.iter().any(|known| known == name) => {}
                None => missing.push(name.to_owned()),
            },
        }
    }
    (replaced, missing)
}

/// Adds the execute permission for everybody, as image builds tend to lose it.
fn make_executable(script: &Path) -> Result<(), AgentError> {
    let metadata = fs::metadata(script).map_err(AgentError::io("look at", script))?;
    let mode = metadata.permissions().mode();
    if mode & 0o111 == 0o111 {
        return Ok(());
    }
    fs::set_permissions(script, Permissions::from_mode(mode | 0o111))
        .map_err(AgentError::io("make executable", script))
}
