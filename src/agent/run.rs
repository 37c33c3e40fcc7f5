//! One call of the agent from arguments to exit code.

use std::io::Write;
use std::path::Path;

use super::banner;
use super::config::{self, Config};
use super::error::AgentError;
use super::host::HostRoot;
use super::interrupt;
use super::invocation::Invocation;
use super::output::Output;
use super::overlay;
use super::process;
use super::request::{Asked, Request, Settings};
use super::steps;
use super::summary::Summary;

/// Everything went as it should.
const SUCCESS: u8 = 0;

/// A step or the agent failed.
const FAILURE: u8 = 1;

/// The arguments were wrong.
const USAGE: u8 = 2;

/// Files of an operator from before packages were images; still copied where they exist.
const LEGACY_NODE_FILES: &str = "/etc/nvidia-bootstrap/node-files";

/// The resolver's configuration, in the container and on the host.
const RESOLVER: &str = "/etc/resolv.conf";

/// What every part of a run needs to know.
#[derive(Clone, Copy)]
pub(super) struct Session<'a> {
    pub(super) invocation: &'a Invocation,
    pub(super) request: &'a Request,
    pub(super) settings: &'a Settings,
    pub(super) host: &'a HostRoot,
}

/// How a mode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Success,
    Failure,
}

/// Does what the arguments ask for and returns the exit code: 0 done, 1 failed, 2 wrong usage.
///
/// Blocks until the last step ended. Writes the [`Summary`] in every case; `out` is the pod's log.
pub fn run(invocation: &Invocation, out: &mut dyn Write) -> u8 {
    if let [exec_step, rest @ ..] = invocation.args.as_slice()
        && exec_step == process::EXEC_STEP
    {
        return process::exec_step(rest);
    }
    let mut out = Output::new(out);
    let started = (invocation.now)();
    let mode = invocation.args.first().cloned().unwrap_or_default();
    let mut summary = Summary { v: Summary::VERSION, mode, ..Summary::default() };
    let code = match dispatch(invocation, &mut summary, &mut out) {
        Ok(End::Success) => SUCCESS,
        Ok(End::Failure) => FAILURE,
        Err(error) => {
            summary.tail = error.chain();
            (summary.exit_code, summary.signal) = (None, None);
            out.line(format_args!("ERROR: {}", summary.tail));
            if matches!(error, AgentError::Usage { .. }) { USAGE } else { FAILURE }
        }
    };
    let elapsed = (invocation.now)().as_millisecond() - started.as_millisecond();
    summary.elapsed_ms = u64::try_from(elapsed).unwrap_or(0);
    if let Err(error) = summary.write(&invocation.termination_log) {
        let path = invocation.termination_log.display();
        out.line(format_args!("WARNING: cannot write the termination message {path}: {error}"));
    }
    code
}

fn dispatch(
    invocation: &Invocation,
    summary: &mut Summary,
    out: &mut Output<'_>,
) -> Result<End, AgentError> {
    let request = match Asked::parse(&invocation.args)? {
        Asked::Run(request) => request,
        Asked::Version => {
            out.line(env!("CARGO_PKG_VERSION"));
            return Ok(End::Success);
        }
        Asked::UnknownMode(mode) => {
            out.line(format_args!(
                "WARNING: This version of the Agent doesn't support the {mode} mode; nothing is \
                 done"
            ));
            return Ok(End::Success);
        }
    };
    let settings = Settings::read(&invocation.env);
    let host = HostRoot::new(&request.root);
    banner::print(&request, &settings, out)?;
    let session = Session { invocation, request: &request, settings: &settings, host: &host };
    if !request.root.is_dir() {
        return Err(AgentError::NoRoot { root: request.root });
    }
    if settings.copies_resolver {
        overlay::copy_file(Path::new(RESOLVER), &host, Path::new(RESOLVER))?;
    }
    ensure_package(session)?;
    if let Some(payload) = &request.interrupt {
        return interrupt::run_interrupt(&session, payload, summary, out);
    }
    let config = config::load(&host, &request.copy_dir)?;
    for warning in &config.warnings {
        out.line(format_args!("WARNING: {warning}"));
    }
    if !request.mode.is_uninstall() {
        prepare_host(session, &config)?;
    }
    steps::run_mode(&session, &config, summary, out)
}

/// Copies the package out of the agent's own container if no init container did.
///
/// An interrupt needs no package: after an edit of the resource its copy directory never existed.
fn ensure_package(session: Session<'_>) -> Result<(), AgentError> {
    let Session { invocation: _, request, settings, host } = session;
    if host.exists(&request.copy_dir)? {
        return Ok(());
    }
    let container = &settings.container_package;
    if container.is_dir() {
        overlay::copy_tree(container, host, &request.copy_dir)?;
    } else if request.interrupt.is_none() {
        let (copy_dir, container) = (request.copy_dir.clone(), container.clone());
        return Err(AgentError::NoPackage { copy_dir, container });
    }
    let node_files = Path::new(LEGACY_NODE_FILES);
    if node_files.is_dir() {
        overlay::copy_tree(node_files, host, &request.copy_dir)?;
    }
    Ok(())
}

/// Lays the package's `root_dir` over the host, then checks that its configuration is complete.
fn prepare_host(session: Session<'_>, config: &Config) -> Result<(), AgentError> {
    let Session { invocation: _, request, settings: _, host } = session;
    let root_dir = host.resolve(&request.copy_dir.join("root_dir"))?;
    if root_dir.is_dir() {
        overlay::copy_tree(&root_dir, host, Path::new("/"))?;
    }
    let folder = request.copy_dir.join("configmaps");
    let mut missing = Vec::new();
    for file in &config.expected_config_files {
        if !host.exists(&folder.join(file))? {
            missing.push(file.clone());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(AgentError::ExpectedFiles { package: config.package_name.clone(), missing, folder })
}
