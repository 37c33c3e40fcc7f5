//! The termination message: what the daemon, and through it people, learn of a run.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The most a summary may take: half of what the kubelet keeps per container (4096 bytes).
pub const SUMMARY_MAX_BYTES: usize = 2048;

/// The most output of the decisive step that is kept, before JSON escapes.
pub(super) const TAIL_MAX_BYTES: usize = 1400;

/// The longest step path that is kept: a name, not a place to hide a novel.
const STEP_MAX_BYTES: usize = 200;

/// How a run of the agent ended, as JSON in the termination message; always written, also on
/// success.
///
/// How to read it: the container's exit code says whether the run succeeded. `step` is the step
/// that decided it: the one that failed, else the last that ran; `null` when no step ran.
/// `exit_code` is that step's true code, `null` when it was ended by a signal (`signal` is set)
/// or when the agent gave up by itself (both `null`, `tail` is the agent's own error).
///
/// For an interrupt, `step` is the command (`reboot`, `systemctl restart kubelet`). A reboot whose
/// `exit_code` is 0 or whose `signal` is set was issued; any other could not be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Version of this shape: 1.
    pub v: u32,
    /// The mode asked for, as given.
    pub mode: String,
    /// The step or interrupt command that decided the outcome.
    pub step: Option<String>,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its last lines of output, or the agent's own error.
    pub tail: String,
    /// From start to end, in milliseconds.
    pub elapsed_ms: u64,
    /// Steps that ran, failed ones included.
    pub steps_run: u32,
    /// Steps not run because their flag says they were done before.
    pub steps_skipped: u32,
}

impl Summary {
    /// Version of the shape written here.
    pub const VERSION: u32 = 1;

    /// Returns the JSON text, at most [`SUMMARY_MAX_BYTES`] long; the tail loses its start first.
    pub fn to_message(&self) -> String {
        let mut kept = self.clone();
        kept.step = self.step.as_deref().map(|step| head(step, STEP_MAX_BYTES).to_owned());
        kept.mode = head(&self.mode, STEP_MAX_BYTES).to_owned();
        let mut budget = TAIL_MAX_BYTES;
        loop {
            kept.tail = last(&self.tail, budget).to_owned();
            let text = serde_json::to_string(&kept).expect("a summary is strings and numbers");
            if text.len() <= SUMMARY_MAX_BYTES {
                return text;
            }
            // An escape makes up to six bytes of one, so at least a sixth of the excess must go;
            // the right length is found by trying.
            budget = budget.saturating_sub((text.len() - SUMMARY_MAX_BYTES).div_ceil(6));
        }
    }

    /// Writes the message over the file at `path`, which must exist.
    ///
    /// The file is bind-mounted by the kubelet, so it cannot be replaced by a rename, and outside
    /// a pod there is none: nothing is created then.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        match OpenOptions::new().write(true).truncate(true).open(path) {
            Ok(mut file) => file.write_all(self.to_message().as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The last bytes of a stream, bounded however long the stream is.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
        let excess = self.bytes.len().saturating_sub(TAIL_MAX_BYTES);
        self.bytes.drain(..excess);
    }

    /// Returns the end of the stream as text, without the blank space around it.
    pub(super) fn text(&self) -> String {
        // A cut inside a character would show as a replacement mark: start at the next one.
        let start = self.bytes.iter().position(|byte| byte & 0b1100_0000 != 0b1000_0000);
        String::from_utf8_lossy(&self.bytes[start.unwrap_or(0)..]).trim().to_owned()
    }
}

fn head(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

fn last(text: &str, limit: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(limit))..]
}
