//! Findings as a terminal shows them, in the way of a compiler.
//!
//! In: findings in any order. Out: text, grouped by file, with one summary line. Never here: a
//! judgement of its own; what refuses an object was decided where the finding was made.

use std::fmt::Write as _;

use crate::model::{Finding, Severity};

use super::wording::{clean, counted};

/// Longest message in a terminal; findings quote what a person wrote.
const MESSAGE_MAX_BYTES: usize = 1024;

/// Returns the findings, or an empty text when there are none.
pub fn text(findings: &[Finding]) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort();
    sorted.dedup();
    let mut text = String::new();
    let mut file: Option<&str> = None;
    for finding in &sorted {
        if file.is_some_and(|before| before != finding.file) {
            text.push('\n');
        }
        file = Some(&finding.file);
        text.push_str(&one(finding));
    }
    if !sorted.is_empty() {
        let _ = writeln!(text, "\n{}", summary(&sorted));
    }
    text
}

fn one(finding: &Finding) -> String {
    let Finding { file: _, line: _, column: _, severity, code, object, path, message, way_out } =
        finding;
    let place = clean(&finding.place(), MESSAGE_MAX_BYTES);
    let object = object.as_ref().map(ToString::to_string);
    let inside: Vec<String> = object.into_iter().chain(path.clone()).collect();
    let mut text = format!("{place}: {severity} {code}: {}\n", clean(message, MESSAGE_MAX_BYTES));
    if !inside.is_empty() {
        let _ = writeln!(text, "  in: {}", clean(&inside.join(", "), MESSAGE_MAX_BYTES));
    }
    let _ = writeln!(text, "  way out: {}", clean(way_out, MESSAGE_MAX_BYTES));
    text
}

/// Returns `2 errors, 1 warning in 2 files`.
fn summary(sorted: &[&Finding]) -> String {
    let count = |severity| sorted.iter().filter(|f| f.severity == severity).count();
    let counts = [
        (count(Severity::Error), "error", "errors"),
        (count(Severity::Warning), "warning", "warnings"),
        (count(Severity::Note), "note", "notes"),
    ];
    let named = counts.into_iter().filter(|(count, _, _)| *count > 0);
    let counts: Vec<String> = named.map(|(count, one, many)| counted(count, one, many)).collect();
    let mut files: Vec<&str> = sorted.iter().map(|finding| finding.file.as_str()).collect();
    files.dedup();
    format!("{} in {}", counts.join(", "), counted(files.len(), "file", "files"))
}
