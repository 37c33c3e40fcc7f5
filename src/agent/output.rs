//! The agent's voice: what `kubectl logs` shows.

use std::fmt;
use std::io::Write;

/// Writes lines and step output to the given writer.
///
/// A closed or full standard output must not leave a host half configured, so failures to write
/// are ignored here and nowhere else.
pub(super) struct Output<'a> {
    writer: &'a mut dyn Write,
    /// Whether a step's last piece ended within a line, which ours must not go on with.
    is_within_line: bool,
}

impl<'a> Output<'a> {
    pub(super) fn new(writer: &'a mut dyn Write) -> Self {
        Self { writer, is_within_line: false }
    }

    /// Writes one line of its own and flushes it, so that it stands before what a step prints.
    pub(super) fn line(&mut self, text: impl fmt::Display) {
        let start = if self.is_within_line { "\n" } else { "" };
        self.is_within_line = false;
        // See the type: nothing to do about a broken standard output.
        drop(writeln!(self.writer, "{start}{text}").and_then(|()| self.writer.flush()));
    }

    /// Passes a piece of a step's output on as it is.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.is_within_line = *last != b'\n';
        }
        // See the type: nothing to do about a broken standard output.
        drop(self.writer.write_all(bytes).and_then(|()| self.writer.flush()));
    }
}
