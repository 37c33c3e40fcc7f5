//! Small pieces of wording that several surfaces share.
//!
//! In: names, times and texts of others. Out: bounded, printable text. Never here: a sentence that
//! only one surface uses, or trust in text that came from a package or a cluster.

use jiff::{SignedDuration, Timestamp};

use super::NamedNodes;

/// Longest text of others on the status branch (gitops 3.3): a forge shows it in one line.
pub(super) const MESSAGE_MAX_BYTES: usize = 256;

/// Names shown before "and n more": what fits in a line of a table.
const NAMES_SHOWN_MAX: usize = 5;

/// Digits of a commit that people read, as Git itself shortens.
const COMMIT_SHOWN_DIGITS: usize = 7;

/// Returns `text` on one line without control characters, at most `bytes_max` long.
pub fn clean(text: &str, bytes_max: usize) -> String {
    const CUT: &str = "…";
    let printable: String =
        text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c }).collect();
    let line = printable.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() <= bytes_max {
        return line;
    }
    let end = line.floor_char_boundary(bytes_max.saturating_sub(CUT.len()));
    format!("{}{CUT}", line[..end].trim_end())
}

/// Returns whether `c` reorders or hides its neighbours on a screen.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
        || c == '\u{feff}'
}

/// Returns `text` as plain words in a cell of a Markdown table.
pub(super) fn markdown_cell(text: &str) -> String {
    markdown(text).replace('|', "\\|")
}

/// Returns `text` as plain words in Markdown, outside tables.
pub(super) fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '[' | ']' | '~' => {
                escaped.push('\\');
                escaped.push(c);
            }
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Returns `text` as code in Markdown, outside tables. Nothing in it can end the code.
pub(super) fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

/// Returns `main@e4f5a6b` for `main@sha1:<40 hex>`; any other text as it is.
pub fn short_revision(revision: &str) -> String {
    match revision.split_once("@sha1:") {
        Some((reference, commit)) if commit.is_ascii() => {
            format!("{reference}@{}", &commit[..commit.len().min(COMMIT_SHOWN_DIGITS)])
        }
        Some(_) | None => revision.to_owned(),
    }
}

/// Returns a time to the second, in UTC, as every reason writes it.
pub(super) fn moment(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// Returns a length of time in its two greatest units, for example `6 d 3 h`.
pub(super) fn age(length: SignedDuration) -> String {
    let seconds = length.as_secs().max(0);
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        (_, _, _) => format!("{days} d {hours} h"),
    }
}

/// Returns `1 node` or `3 nodes`.
pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// Returns the first names, and how many more there are.
pub(super) fn node_names(nodes: &NamedNodes) -> String {
    let shown = nodes.first.iter().take(NAMES_SHOWN_MAX).cloned().collect::<Vec<_>>();
    let total = usize::try_from(nodes.total).unwrap_or(usize::MAX);
    match total.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
