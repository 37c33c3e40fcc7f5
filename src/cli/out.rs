//! Standard output and standard error, the only places where this program prints.
//!
//! In: text. Out: the text, or nothing when the reader has gone away: `nodewright … | head` is a
//! wish, not an error. Must never: lose text for another reason without saying so.

use std::fmt;
use std::io::{self, Write};

/// A stream that people or programs read.
#[derive(Debug)]
pub(super) struct Out<W> {
    stream: W,
    reader: Reader,
}

/// Whether somebody still reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    There,
    Gone,
}

/// Output that could not be written, for another reason than a reader that went away.
#[derive(Debug, thiserror::Error)]
#[error("the output cannot be written")]
pub struct OutError {
    #[from]
    source: io::Error,
}

/// Returns standard output.
pub(super) fn stdout() -> Out<io::Stdout> {
    Out { stream: io::stdout(), reader: Reader::There }
}

/// Returns standard error.
pub(super) fn stderr() -> Out<io::Stderr> {
    Out { stream: io::stderr(), reader: Reader::There }
}

impl<W: Write> Out<W> {
    /// Writes a text as it is.
    pub fn text(&mut self, text: &str) -> Result<(), OutError> {
        self.all(text.as_bytes())
    }

    /// Writes one line.
    pub fn line(&mut self, line: impl fmt::Display) -> Result<(), OutError> {
        self.all(format!("{line}\n").as_bytes())
    }

    fn all(&mut self, bytes: &[u8]) -> Result<(), OutError> {
        if self.reader == Reader::Gone {
            return Ok(());
        }
        match self.stream.write_all(bytes).and_then(|()| self.stream.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.reader = Reader::Gone;
                Ok(())
            }
            result => Ok(result?),
        }
    }
}
