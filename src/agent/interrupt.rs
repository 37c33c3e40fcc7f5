//! Reboots and service restarts, once per resource id (upstream contract B.5 and E.6).
//!
//! A marker per command says what was done for this resource id. A reboot is done when the boot id
//! changed after it was asked for, and only then; until that it is pending, so that neither a
//! crash of the executor nor a second executor can reboot a host twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::error::AgentError;
use super::log::StepLog;
use super::output::Output;
use super::process::{self, Exit, Task};
use super::request::ResourceId;
use super::run::{End, Session};
use super::summary::Summary;

/// Where a host tells which boot it is in.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What a pending marker starts with, as upstream's second agent writes it.
const BOOT_ID_PREFIX: &str = "boot-id:";

/// Where a host's administrative commands are, if the image's own `PATH` does not say.
const COMMAND_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What SIGTERM is called by number: how a shutdown ends the reboot command itself.
const SIGTERM: i32 = signal_hook::consts::SIGTERM;

/// The kinds of interrupt, by the names in the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    NodeRestart,
    ServiceRestart,
    RestartAllServices,
    NoOp,
    ScriptInterrupt,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::NodeRestart => "node_restart",
            Self::ServiceRestart => "service_restart",
            Self::RestartAllServices => "restart_all_services",
            Self::NoOp => "no_op",
            Self::ScriptInterrupt => "script_interrupt",
        }
    }
}

/// The payload: base64 of this as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Payload {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default)]
    services: Option<Vec<String>>,
}

impl Payload {
    fn parse(text: &str) -> Result<Self, AgentError> {
        let refuse = |what: String| AgentError::InterruptPayload { what };
        let json = STANDARD
            .decode(text.trim())
            .map_err(|error| refuse(format!("not base64 ({error})")))?;
        let payload: Self = serde_json::from_slice(&json)
            .map_err(|error| refuse(format!("not an interrupt this agent knows ({error})")))?;
        for service in payload.services.iter().flatten() {
            if service.is_empty() || service.starts_with('-') || service.contains('\0') {
                return Err(refuse(format!("naming a service {service:?}, which is none")));
            }
        }
        Ok(payload)
    }

    /// Returns the commands of upstream contract B.5, in order.
    fn commands(&self) -> Vec<Vec<String>> {
        let words = |command: &str| command.split(' ').map(str::to_owned).collect::<Vec<_>>();
        match self.kind {
            Kind::NodeRestart => vec![words("reboot")],
            Kind::RestartAllServices => vec![words("service procps force-reload")],
            Kind::NoOp | Kind::ScriptInterrupt => Vec::new(),
            Kind::ServiceRestart => {
                let mut commands = vec![words("systemctl daemon-reload")];
                commands.extend(self.services.iter().flatten().map(|service| {
                    let mut command = words("systemctl restart");
                    command.push(service.clone());
                    command
                }));
                commands
            }
        }
    }
}

/// Runs the interrupt of the payload.
pub(super) fn run_interrupt(
    session: &Session<'_>,
    payload: &str,
    summary: &mut Summary,
    out: &mut Output<'_>,
) -> Result<End, AgentError> {
    let settings = session.settings;
    let id = ResourceId::parse(&settings.resource_id)?;
    let payload = Payload::parse(payload)?;
    let markers =
        settings.state_folder.join("interrupts").join("flags").join(&settings.resource_id);
    let mut interrupt = Interrupt { session, kind: payload.kind, id, markers, summary, out };
    if payload.kind == Kind::NoOp {
        interrupt.complete(&interrupt.markers.join("no_op.complete"))?;
        return Ok(End::Success);
    }
    for (index, command) in payload.commands().iter().enumerate() {
        if session.invocation.stop.is_requested() {
            interrupt.out.line("SIGTERM received, no further interrupt command is started");
            "stopped by SIGTERM before the next command".clone_into(&mut interrupt.summary.tail);
            return Ok(End::Failure);
        }
        if interrupt.run_command(index, command)? == End::Failure {
            return Ok(End::Failure);
        }
    }
    Ok(End::Success)
}

struct Interrupt<'r, 'a, 'w> {
    session: &'r Session<'a>,
    kind: Kind,
    id: ResourceId,
    markers: PathBuf,
    summary: &'r mut Summary,
    out: &'r mut Output<'w>,
}

impl Interrupt<'_, '_, '_> {
    fn run_command(&mut self, index: usize, command: &[String]) -> Result<End, AgentError> {
        let name = format!("{}_{index}", self.kind.as_str());
        let complete = self.markers.join(format!("{name}.complete"));
        if self.session.host.exists(&complete)? {
            self.out.line(format_args!(
                "Skipping interrupt {name} because it was already run for {}",
                self.session.settings.resource_id
            ));
            self.summary.steps_skipped += 1;
            return Ok(End::Success);
        }
        if self.kind == Kind::NodeRestart {
            return self.reboot(&name, &complete, command);
        }
        match self.issue(&name, command)? {
            Exit::Code(0) => {
                self.complete(&complete)?;
                Ok(End::Success)
            }
            exit @ (Exit::Code(_) | Exit::Signal(_)) => {
                self.tell_failure(command, exit);
                Ok(End::Failure)
            }
        }
    }

    fn reboot(
        &mut self,
        name: &str,
        complete: &Path,
        command: &[String],
    ) -> Result<End, AgentError> {
        let host = self.session.host;
        let pending = self.markers.join(format!("{name}.pending"));
        let boot_id = self.boot_id()?;
        if let Some(marker) = host.read(&pending)? {
            let text = String::from_utf8_lossy(&marker);
            let before = text.trim().strip_prefix(BOOT_ID_PREFIX).unwrap_or_default();
            if !before.is_empty() && before != boot_id {
                host.rename(&pending, complete)?;
                self.out.line(format_args!(
                    "The host rebooted: boot id {before} became {boot_id}, {name} is complete"
                ));
                self.summary.steps_skipped += 1;
                return Ok(End::Success);
            }
        }
        host.write(&pending, format!("{BOOT_ID_PREFIX}{boot_id}\n").as_bytes())?;
        let exit = self.issue(name, command)?;
        match exit {
            // The shutdown reached the command itself: there is no better sign that it began.
            Exit::Signal(SIGTERM) => Ok(End::Success),
            Exit::Code(0) => {
                let wait = self.session.invocation.reboot_wait;
                self.session.invocation.stop.wait(wait);
                self.out.line(format_args!(
                    "The reboot was accepted; boot id {boot_id} must change before {name} is \
                     complete"
                ));
                Ok(End::Failure)
            }
            Exit::Code(_) | Exit::Signal(_) => {
                self.tell_failure(command, exit);
                Ok(End::Failure)
            }
        }
    }

    /// Runs a command under the host's root, looked for in `PATH` there.
    fn issue(&mut self, name: &str, command: &[String]) -> Result<Exit, AgentError> {
        let Session { invocation, request, settings, host } = *self.session;
        let (program, arguments) = command.split_first().expect("every command has a program");
        let mut log = if settings.writes_logs {
            let ResourceId { resource: _, package, version } = &self.id;
            let folder = settings.log_folder.join(package).join(version).join("interrupts");
            Some(StepLog::open(host, &folder, name, (invocation.now)())?)
        } else {
            None
        };
        let line = command.join(" ");
        self.out.line(&line);
        if let Some(log) = &mut log {
            log.write(format!("{line}\n").as_bytes(), self.out);
        }
        let is_folder = host.resolve(&request.copy_dir)?.is_dir();
        let task = Task {
            executable: &invocation.executable,
            root: host.to_change_to(),
            folder: if is_folder { &request.copy_dir } else { Path::new("/") },
            program,
            arguments,
            env: &with_path(&invocation.env),
        };
        self.summary.step = Some(line);
        let (exit, tail) = process::run(&task, &invocation.stop, &mut log, self.out)?;
        self.summary.steps_run += 1;
        self.summary.tail = tail.text();
        (self.summary.exit_code, self.summary.signal) = match exit {
            Exit::Code(code) => (Some(code), None),
            Exit::Signal(signal) => (None, Some(signal)),
        };
        Ok(exit)
    }

    fn tell_failure(&mut self, command: &[String], exit: Exit) {
        self.out.line(format_args!(
            "INTERRUPT FAILED: {} return_code: {}",
            super::python::list_of_strings(command),
            exit.printed()
        ));
    }

    fn complete(&self, marker: &Path) -> Result<(), AgentError> {
        let now = (self.session.invocation.now)();
        self.session.host.write(marker, now.to_string().as_bytes())
    }

    fn boot_id(&self) -> Result<String, AgentError> {
        let content = self.session.host.read(Path::new(BOOT_ID))?.unwrap_or_default();
        let boot_id = String::from_utf8_lossy(&content).trim().to_owned();
        if boot_id.is_empty() {
            let path = self.session.host.mount().join(BOOT_ID.trim_start_matches('/'));
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(AgentError::io("read the boot id from", &path)(missing));
        }
        Ok(boot_id)
    }
}

fn with_path(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut env = env.clone();
    let path = match env.get("PATH") {
        Some(path) if !path.is_empty() => format!("{path}:{COMMAND_PATH}"),
        Some(_) | None => COMMAND_PATH.to_owned(),
    };
    env.insert("PATH".to_owned(), path);
    env
}
