//! Hygiene of the tree, as tests: no tool to install, no job to forget.
//!
//! A check is a function from a [`source::Source`] to complaints. Each is run on the whole tree,
//! and each is shown to fail on a snippet that is wrong on purpose. The rules are data at the top
//! of their file; a failure prints the line and what to do instead.

mod catalogues;
mod durations;
mod errors;
mod imports;
mod layout;
mod lengths;
mod mutants;
mod paths;
mod places;
mod source;
mod words;

/// Fails with one complaint a line.
fn assert_tidy(complaints: &[String], rule: &str) {
    assert!(complaints.is_empty(), "{rule}\n\n{}\n", complaints.join("\n"));
}
