//! Log files on the host: one per run of a step, the newest five kept (upstream contract E.5).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::error::AgentError;
use super::host::{HostRoot, ensure_folder, parent};
use super::output::Output;

/// How many logs of one step are kept, the current one included.
const LOGS_KEPT: usize = 5;

/// How upstream writes the time into a log's name, in UTC.
const TIME_FORMAT: &str = "%Y-%m-%d-%H%M%S";

/// Length of a time in that format.
const TIME_LENGTH: usize = "2026-01-31-235959".len();

/// An open log file; output and errors share it, raw, in the order they came.
pub(super) struct StepLog {
    /// `None` once a write failed: the step goes on, its output is in the pod's log too.
    file: Option<File>,
    path: PathBuf,
}

impl StepLog {
    /// Opens `<folder>/<step>-<time>.log` on the host and removes older ones.
    ///
    /// Two runs within a second share a file, because the name has no finer time.
    pub(super) fn open(
        host: &HostRoot,
        folder: &Path,
        step: &str,
        now: Timestamp,
    ) -> Result<Self, AgentError> {
        let name = format!("{step}-{}.log", now.strftime(TIME_FORMAT));
        let path = host.resolve(&folder.join(name))?;
        ensure_folder(parent(&path))?;
        let opened = OpenOptions::new().append(true).create(true).mode(0o644).open(&path);
        let file = opened.map_err(AgentError::io("open log", &path))?;
        prune(&path)?;
        Ok(Self { file: Some(file), path })
    }

    pub(super) fn write(&mut self, bytes: &[u8], out: &mut Output<'_>) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.write_all(bytes) {
            self.file = None;
            let path = self.path.display();
            out.line(format_args!("WARNING: cannot write log {path}: {error}; the log ends here."));
        }
    }
}

/// Removes all but the newest logs of the same step. Times in names sort as text.
fn prune(current: &Path) -> Result<(), AgentError> {
    let folder = parent(current);
    let Some(prefix) = current.file_name().and_then(|name| step_of(name.to_str()?)) else {
        return Ok(());
    };
    let entries = fs::read_dir(folder).map_err(AgentError::io("list", folder))?;
    let mut logs: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| step_of(name) == Some(prefix))
        .collect();
    logs.sort_unstable_by(|left, right| right.cmp(left));
    for name in logs.iter().skip(LOGS_KEPT) {
        match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(AgentError::io("remove old log", &folder.join(name))(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Returns the step part of a log's name, `None` when it is not one.
fn step_of(name: &str) -> Option<&str> {
    let stem = name.strip_suffix(".log")?;
    let (step, time) = stem.split_at_checked(stem.len().checked_sub(TIME_LENGTH)?)?;
    let is_time = time.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    step.strip_suffix('-').filter(|_| is_time)
}
