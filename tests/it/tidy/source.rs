//! The files of the tree, and Rust text split into code and comments.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Folders that no commit holds, see `.gitignore`.
const NOT_OURS: &[&str] = &[".git", "target"];

/// A file with its text, and for Rust the text again without comments and strings.
pub struct Source {
    /// Relative to the root of the repository, with `/`.
    pub path: String,
    /// The text as it is.
    pub text: String,
    /// The same bytes with comments, strings and characters blanked out.
    pub code: String,
    /// The same bytes with everything but comments blanked out.
    pub comments: String,
    /// Where raw strings are: text that is as it must be.
    pub raw: Vec<Range<usize>>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let (code, comments, raw) = split(text);
        Self { path: path.to_owned(), text: text.to_owned(), code, comments, raw }
    }

    /// Returns the room under `src/` that the file belongs to, `lib` and `main` included.
    pub fn room(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("src/")?;
        let first = inside.split('/').next()?;
        Some(first.strip_suffix(".rs").unwrap_or(first))
    }

    /// Returns the line number of a byte, from 1.
    pub fn line_of(&self, byte: usize) -> usize {
        self.text.as_bytes()[..byte].iter().filter(|other| **other == b'\n').count() + 1
    }

    /// Returns `path:line: ` and the complaint.
    pub fn complain(&self, line: usize, complaint: &str) -> String {
        format!("{}:{line}: {complaint}", self.path)
    }
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every file that is text, sorted by path.
pub fn files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(&root(), &mut found);
    found.sort();
    assert!(found.len() > 100, "the tree has {} files: the walk is wrong", found.len());
    found
}

/// Returns every Rust file of ours.
pub fn rust_files() -> Vec<Source> {
    let rust = files().into_iter().filter(|(path, _)| path.ends_with(".rs"));
    rust.map(|(path, text)| Source::new(&path, &text)).collect()
}

fn walk(folder: &Path, found: &mut Vec<(String, String)>) {
    let entries = fs::read_dir(folder).expect("a folder of the repository");
    for entry in entries.map(|entry| entry.expect("an entry of the repository")) {
        let path = entry.path();
        let kind = entry.file_type().expect("the type of an entry");
        let name = entry.file_name();
        if kind.is_dir() && !NOT_OURS.iter().any(|other| name == *other) {
            walk(&path, found);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
        {
            let inside = path.strip_prefix(root()).expect("below the root");
            found.push((inside.to_string_lossy().replace('\\', "/"), text));
        }
    }
}

/// What the bytes at a place belong to, and how many they are.
enum Piece {
    Code(usize),
    Comment(usize),
    Literal(usize),
}

fn split(text: &str) -> (String, String, Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let (mut code, mut comments, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        let (length, to_code, to_comments) = match piece(bytes, at) {
            Piece::Code(length) => (length, true, false),
            Piece::Comment(length) => (length, false, true),
            Piece::Literal(length) => (length, false, false),
        };
        let end = (at + length).min(bytes.len());
        if bytes[at] == b'r' && !to_code {
            raw.push(at..end);
        }
        for byte in &bytes[at..end] {
            let blank = if *byte == b'\n' { b'\n' } else { b' ' };
            code.push(if to_code { *byte } else { blank });
            comments.push(if to_comments { *byte } else { blank });
        }
        at = end;
    }
    let text = |bytes| String::from_utf8(bytes).expect("whole characters are blanked");
    (text(code), text(comments), raw)
}

fn piece(bytes: &[u8], at: usize) -> Piece {
    let rest = &bytes[at..];
    let inside_word = at > 0 && is_word(bytes[at - 1]);
    if rest.starts_with(b"//") {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        return Piece::Comment(end);
    }
    if rest.starts_with(b"/*") {
        return Piece::Comment(block_comment(rest));
    }
    match rest[0] {
        b'"' => Piece::Literal(string(rest)),
        b'r' if !inside_word || bytes[at - 1] == b'b' => {
            raw_string(rest).map_or(Piece::Code(1), Piece::Literal)
        }
        b'\'' => character(rest).map_or(Piece::Code(1), Piece::Literal),
        _ => Piece::Code(1),
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let body = 2 + hashes;
    let length = rest[body..].windows(end.len()).position(|window| window == end);
    Some(body + length.unwrap_or(rest.len()) + end.len())
}

/// Returns the length of a character literal; `None` for a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return rest[3..].iter().position(|byte| *byte == b'\'').map(|end| 3 + end + 1);
    }
    // A character has at most four bytes; a lifetime is followed by no quote that soon.
    let end = rest.iter().take(6).skip(2).position(|byte| *byte == b'\'')?;
    let text = std::str::from_utf8(&rest[1..end + 2]).ok()?;
    (text.chars().count() == 1).then_some(end + 3)
}

pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns every word of `code` with the byte where it begins.
pub fn words(code: &str) -> Vec<(usize, &str)> {
    let bytes = code.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
        if length > 0 {
            words.push((at, &code[at..at + length]));
        }
        at += length.max(1);
    }
    words
}

#[test]
fn code_and_comments_are_told_apart() {
    let text = r###"let a = "x // \" y"; // note's "end"
let b = r#"raw " // "#; /* block /* nested */ 'still' */ let c = 'q'; fn f<'a>() { '\'' }
let é = b"x";"###;
    let source = Source::new("src/x.rs", text);
    assert_eq!(source.code.len(), text.len());
    assert_eq!(
        source.code.split_whitespace().collect::<Vec<_>>().join(" "),
        "let a = ; let b = ; let c = ; fn f<'a>() { } let é = b ;"
    );
    assert_eq!(
        source.comments.split_whitespace().collect::<Vec<_>>().join(" "),
        "// note's \"end\" /* block /* nested */ 'still' */"
    );
}
