//! Help texts, broken into lines that a terminal and a README can show.
//!
//! In: the command as its doc comments make it, one line a paragraph. Out: the same with line
//! breaks. The width is fixed, so that help is the same everywhere.

use clap::Command;
use clap::builder::StyledStr;

/// Widest line, in characters; clap indents what belongs to a flag by ten.
const LINE_MAX_CHARS: usize = 88;

/// Breaks the long texts of a command, of its flags and of its verbs.
pub(super) fn wrapped(mut command: Command) -> Command {
    if let Some(about) = command.get_long_about().map(wrap) {
        command = command.long_about(about);
    }
    command = command.mut_args(|arg| match arg.get_long_help().map(wrap) {
        Some(help) => arg.long_help(help),
        None => arg,
    });
    let verbs = command.get_subcommands().map(|verb| verb.get_name().to_owned());
    for verb in verbs.collect::<Vec<_>>() {
        command = command.mut_subcommand(verb, wrapped);
    }
    command
}

fn wrap(text: &StyledStr) -> String {
    let text = text.to_string();
    text.lines().map(wrap_line).collect::<Vec<_>>().join("\n")
}

fn wrap_line(line: &str) -> String {
    let mut wrapped = String::new();
    let mut width = 0;
    for word in line.split_whitespace() {
        let word_width = word.chars().count();
        if width > 0 && width + 1 + word_width > LINE_MAX_CHARS {
            wrapped.push('\n');
            width = 0;
        } else if width > 0 {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(word);
        width += word_width;
    }
    wrapped
}
