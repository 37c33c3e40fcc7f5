//! Python's `repr` of lists, which upstream's first agent put into flag names and log lines.
//!
//! A flag written by it counts for us, so the text must be the same to the byte.

use std::fmt::Write as _;

/// Returns `repr(['a', "it's"])` of Python 3.
pub fn list_of_strings(values: &[String]) -> String {
    let parts: Vec<String> = values.iter().map(|value| string(value)).collect();
    format!("[{}]", parts.join(", "))
}

/// Returns `repr([0, 2])` of Python 3.
pub fn list_of_integers(values: &[i32]) -> String {
    let parts: Vec<String> = values.iter().map(ToString::to_string).collect();
    format!("[{}]", parts.join(", "))
}

/// Returns `True` or `False`.
pub(super) fn boolean(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

fn string(value: &str) -> String {
    // Python prefers single quotes, and changes over only when that avoids every escape.
    let quote = if value.contains('\'') && !value.contains('"') { '"' } else { '\'' };
    let mut text = String::with_capacity(value.len() + 2);
    text.push(quote);
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ if character == quote => {
                text.push('\\');
                text.push(character);
            }
            _ if is_printable(character) => text.push(character),
            _ => push_escape(&mut text, u32::from(character)),
        }
    }
    text.push(quote);
    text
}

fn push_escape(text: &mut String, code: u32) {
    // Writing to a String cannot fail.
    let _ = match code {
        0..=0xff => write!(text, "\\x{code:02x}"),
        0x100..=0xffff => write!(text, "\\u{code:04x}"),
        _ => write!(text, "\\U{code:08x}"),
    };
}

/// Python escapes the Unicode categories "other" and "separator" but for the space.
///
/// Rust's `escape_debug` draws the same line, except that it also escapes combining marks at the
/// start of a string and quotes, which are handled before; unassigned code points follow the
/// Unicode version of the standard library.
fn is_printable(character: char) -> bool {
    if character == ' ' || character.is_ascii_graphic() {
        return true;
    }
    if character.is_ascii() || character.is_control() || character.is_whitespace() {
        return false;
    }
    // A leading letter keeps a combining mark from being escaped as the first of its string.
    let mut text = String::from("a");
    text.push(character);
    text.escape_debug().count() == 2
}
