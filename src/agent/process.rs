//! Starting a program on the host, and what comes out of it.
//!
//! Changing the root of a forked child needs code between fork and exec, which Rust cannot do
//! safely. So the agent starts itself again as `agent exec-step ROOT FOLDER PROGRAM ARGUMENTS…`,
//! which changes its own root and then becomes the program.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;

use super::error::AgentError;
use super::log::StepLog;
use super::output::Output;
use super::stop::{STOP_POLL, Stop};
use super::summary::Tail;

/// The hidden mode that becomes the program.
pub(super) const EXEC_STEP: &str = "exec-step";

/// Stands for "do not change the root" in the arguments of that mode.
const SAME_ROOT: &str = "-";

/// Exit code of a shell for a program that is not there; `exec-step` keeps to it.
const NOT_FOUND: u8 = 127;

/// Exit code of a shell for a program that cannot be started.
const NOT_STARTED: u8 = 126;

/// How much of a program's output is read at once.
const CHUNK_BYTES: usize = 8 * 1024;

/// How many pieces may wait to be written: bounds memory when a step prints faster than the pod's
/// log takes it; the step then waits, as it would on any pipe.
const CHUNKS_WAITING: usize = 16;

/// How many pieces are still taken after the program ended: more than what the pipe (64 KiB) and
/// the queue can hold, so only a process left in the background can exceed it.
const CHUNKS_AFTER_EXIT: usize = 64;

/// How many polls an ended program's output may stay open without anything in it: one second.
const QUIET_POLLS_AFTER_EXIT: usize = 10;

/// A program to start.
pub(super) struct Task<'a> {
    /// Our own program.
    pub(super) executable: &'a Path,
    /// The root it runs under; `None` for the agent's own.
    pub(super) root: Option<&'a Path>,
    /// Its working folder under that root.
    pub(super) folder: &'a Path,
    /// A path under that root, or a name to look for in `PATH`.
    pub(super) program: &'a str,
    pub(super) arguments: &'a [String],
    /// The whole environment.
    pub(super) env: &'a BTreeMap<String, String>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    /// Returns the number upstream prints: a signal as a negative code.
    pub(super) fn printed(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => -signal,
        }
    }

    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Signal(0),
        }
    }
}

/// Runs a program to its end, its output going to the pod's log, the host's log and the tail.
///
/// A stop does not end it: it has a process group of its own, and is waited for.
pub(super) fn run(
    task: &Task<'_>,
    stop: &Stop,
    log: &mut Option<StepLog>,
    out: &mut Output<'_>,
) -> Result<(Exit, Tail), AgentError> {
    let refused = AgentError::io("start", Path::new(task.program));
    let (mut child, output) = start(task).map_err(refused)?;
    let (sender, receiver) = mpsc::sync_channel(CHUNKS_WAITING);
    thread::spawn(move || forward(output, &sender));
    let mut tail = Tail::default();
    let (mut chunks_left, mut polls_left) = (CHUNKS_AFTER_EXIT, QUIET_POLLS_AFTER_EXIT);
    let mut told_stop = stop.is_requested();
    loop {
        match receiver.recv_timeout(STOP_POLL) {
            Ok(chunk) => {
                tail.push(&chunk);
                out.raw(&chunk);
                if let Some(log) = log {
                    log.write(&chunk, out);
                }
                if child.try_wait().is_ok_and(|status| status.is_some()) {
                    chunks_left -= 1;
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if child.try_wait().is_ok_and(|status| status.is_some()) {
                    polls_left -= 1;
                }
            }
        }
        if !told_stop && stop.is_requested() {
            told_stop = true;
            out.line("SIGTERM received, the running step may finish, no other is started");
        }
        if chunks_left == 0 || polls_left == 0 {
            out.line(format_args!(
                "WARNING: {} ended but left a process behind that keeps its output open; \
                 that output is not followed",
                task.program
            ));
            break;
        }
    }
    let status = child.wait().map_err(AgentError::io("wait for", Path::new(task.program)))?;
    Ok((Exit::of(status), tail))
}

fn start(task: &Task<'_>) -> io::Result<(std::process::Child, PipeReader)> {
    let (output, input) = io::pipe()?;
    let root = task.root.map_or(OsStr::new(SAME_ROOT), Path::as_os_str);
    // The command holds the writing end of the pipe: it must be gone before the output is read.
    let child = Command::new(task.executable)
        .args(["agent", EXEC_STEP])
        .arg(root)
        .arg(task.folder)
        .arg(task.program)
        .args(task.arguments)
        .env_clear()
        .envs(task.env)
        .process_group(0)
        .stdout(input.try_clone()?)
        .stderr(input)
        .spawn()?;
    Ok((child, output))
}

fn forward(mut output: PipeReader, sender: &SyncSender<Vec<u8>>) {
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        match output.read(&mut chunk) {
            Ok(0) => return,
            Ok(length) => {
                if sender.send(chunk[..length].to_vec()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Becomes the program named by the arguments after `exec-step`; returns only if it cannot.
///
/// What went wrong goes to standard error, which is the step's output, and so into its tail.
pub(super) fn exec_step(arguments: &[String]) -> u8 {
    let [root, folder, program, arguments @ ..] = arguments else {
        complain(format_args!("expected ROOT FOLDER PROGRAM ARGUMENTS…"));
        return NOT_STARTED;
    };
    if root != SAME_ROOT
        && let Err(error) = std::os::unix::fs::chroot(root)
    {
        complain(format_args!("cannot change the root to {root}: {error}; is the pod privileged?"));
        return NOT_STARTED;
    }
    if let Err(error) = std::env::set_current_dir(folder) {
        complain(format_args!("cannot change to {folder}: {error}"));
        return NOT_STARTED;
    }
    let error = Command::new(program).args(arguments).exec();
    if error.kind() == io::ErrorKind::NotFound {
        complain(format_args!(
            "cannot start {program}: {error}; the host lacks it or the interpreter in its first \
             line"
        ));
        return NOT_FOUND;
    }
    complain(format_args!("cannot start {program}: {error}; does its first line start with #!?"));
    NOT_STARTED
}

fn complain(text: std::fmt::Arguments<'_>) {
    // There is nowhere else to complain to.
    drop(writeln!(io::stderr(), "nodewright: {text}"));
}
