//! What the demo shows: chapters, sentences, progress with the time of the simulated clock.
//!
//! In: text. Out: lines of at most 100 characters, without colour. Must never: cut a text that
//! people need; long lines are broken between words.

use std::io::Stdout;

use crate::cli::out::{Out, OutError, stdout};
use crate::clock::Clock;

/// Widest line, in characters: fits a terminal beside a README.
const WIDTH_MAX_CHARS: usize = 100;

/// How far what belongs to a line above is indented.
const INDENT: &str = "    ";

/// Standard output, with the clock of the story.
pub(super) struct Screen {
    out: Out<Stdout>,
    clock: Clock,
}

impl Screen {
    pub fn new(clock: Clock) -> Self {
        Self { out: stdout(), clock }
    }

    /// Begins a chapter: its number, its title, and what happens in it in plain sentences.
    pub fn chapter(&mut self, title: &str, sentences: &str) -> Result<(), OutError> {
        self.out.line("")?;
        self.out.line(format!("== {title}"))?;
        self.say(sentences)
    }

    /// Says something in plain sentences.
    pub fn say(&mut self, sentences: &str) -> Result<(), OutError> {
        for line in wrapped(sentences, "", "") {
            self.out.line(line)?;
        }
        Ok(())
    }

    /// Shows that something happened now.
    pub fn progress(&mut self, text: &str) -> Result<(), OutError> {
        let now = self.clock.now();
        let time = format!("  {}  ", now.strftime("%H:%M:%S"));
        let below = " ".repeat(time.chars().count() + 2);
        // Times of today need no date.
        let text = text.replace(&now.strftime("%Y-%m-%dT").to_string(), "");
        for line in wrapped(&text, &time, &below) {
            self.out.line(line)?;
        }
        Ok(())
    }

    /// Shows that something was looked at and is as it should be.
    pub fn proven(&mut self, text: &str) -> Result<(), OutError> {
        for line in wrapped(text, "  proven    ", "            ") {
            self.out.line(line)?;
        }
        Ok(())
    }

    /// Shows a text of others, line by line.
    pub fn quote(&mut self, text: &str) -> Result<(), OutError> {
        for line in text.lines() {
            for line in wrapped(line, INDENT, "      ") {
                self.out.line(line)?;
            }
        }
        Ok(())
    }
}

/// Breaks a line between words. Spaces inside it stay as they are.
fn wrapped(text: &str, first: &str, below: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        let width = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if !is_empty && width > WIDTH_MAX_CHARS {
            lines.push(line.trim_end().to_owned());
            below.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line.trim_end().to_owned());
    lines
}
