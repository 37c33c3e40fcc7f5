//! The deliberate bugs of `tests/mutants` still fit the planner they are bugs of.
//!
//! Whether the tests catch them is for `tests/mutants/run` to say, which builds the planner once
//! for each. Here each is only compared with the file it changes, so that it cannot rot unseen.

use std::collections::BTreeMap;

use super::assert_tidy;
use super::source::files;

/// So many bugs are kept at least.
const BUGS_MIN: usize = 20;

/// A first line of fewer words does not say what an operator would suffer.
const WORDS_MIN: usize = 6;

/// Files that a bug may be in.
const PLANNER: &str = "src/plan/";

/// One place that a patch changes.
struct Hunk {
    file: String,
    /// What must stand there, once.
    before: String,
    after: String,
}

/// Returns the hunks of a unified diff.
fn hunks(patch: &str) -> Vec<Hunk> {
    let mut file = "";
    let mut hunks: Vec<Hunk> = Vec::new();
    for line in patch.lines() {
        if let Some(path) = line.strip_prefix("+++ b/") {
            file = path;
        } else if line.starts_with("@@ ") {
            let (before, after) = (String::new(), String::new());
            hunks.push(Hunk { file: file.to_owned(), before, after });
        } else if let Some(hunk) = hunks.last_mut().filter(|_| !line.starts_with("--- ")) {
            let (sign, text) = line.split_at(line.len().min(1));
            if sign != "+" {
                hunk.before.push_str(&format!("{text}\n"));
            }
            if sign != "-" {
                hunk.after.push_str(&format!("{text}\n"));
            }
        }
    }
    hunks
}

/// Returns what is wrong with a patch.
fn complaints(path: &str, patch: &str, tree: &BTreeMap<String, String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let first = patch.lines().next().unwrap_or_default();
    if first.split_whitespace().count() < WORDS_MIN || !first.ends_with('.') {
        complaints.push(format!("{path}:1: says in a sentence what an operator would suffer"));
    }
    let hunks = hunks(patch);
    if hunks.is_empty() {
        complaints.push(format!("{path}: changes nothing"));
    }
    for Hunk { file, before, after } in hunks {
        let text = tree.get(&file).filter(|_| file.starts_with(PLANNER));
        // Whole lines only: the first line of the file has none before it.
        let text = text.map(|text| format!("\n{text}")).unwrap_or_default();
        let times = text.matches(&format!("\n{before}")).count();
        if before == after || times != 1 {
            complaints.push(format!(
                "{path}: what it changes stands {times} times in {file}, not once: put the bug \
                 into the file as it is now, and write the difference anew:\n{before}"
            ));
        }
    }
    complaints
}

#[test]
fn every_deliberate_bug_fits_the_planner() {
    let tree: BTreeMap<String, String> = files().into_iter().collect();
    let is_bug = |path: &str| path.starts_with("tests/mutants/") && path.ends_with(".patch");
    let bugs: Vec<(&String, &String)> = tree.iter().filter(|(path, _)| is_bug(path)).collect();
    assert!(bugs.len() >= BUGS_MIN, "{} bugs are kept, not {BUGS_MIN}", bugs.len());
    let found: Vec<String> =
        bugs.iter().flat_map(|(path, patch)| complaints(path, patch, &tree)).collect();
    assert_tidy(&found, "Each deliberate bug of tests/mutants fits the planner as it is.");
}

#[test]
fn bugs_that_do_not_fit_are_found() {
    let text = "fn a() {\n    1;\n    2;\n}\n\nfn b() {\n    2;\n}\n";
    let tree = BTreeMap::from([
        ("src/plan/x.rs".to_owned(), text.to_owned()),
        ("src/git/x.rs".to_owned(), text.to_owned()),
    ]);
    let patch = |file: &str, hunk: &str| {
        let why = "A node is opened under somebody's hands.";
        format!("{why}\n\n--- a/{file}\n+++ b/{file}\n@@ -2,2 +2,1 @@\n{hunk}")
    };
    let fits = patch("src/plan/x.rs", "     1;\n-    2;\n+    3;\n");
    assert_eq!(complaints("x.patch", &fits, &tree), Vec::<String>::new());
    let two = format!("{fits}@@ -6,2 +6,1 @@\n fn b() {{\n-    2;\n");
    assert_eq!(complaints("x.patch", &two, &tree), Vec::<String>::new());
    let bad = [
        patch("src/plan/x.rs", "     1;\n-    4;\n+    3;\n"),
        patch("src/plan/x.rs", "-    2;\n+    3;\n"),
        patch("src/plan/x.rs", "-;\n+    3;\n"),
        patch("src/plan/x.rs", "     1;\n     2;\n"),
        patch("src/plan/y.rs", "     1;\n-    2;\n"),
        patch("src/git/x.rs", "     1;\n-    2;\n"),
        fits.replace("A node is opened under somebody's hands.", "A bug."),
        "A node is opened under somebody's hands.\n".to_owned(),
    ];
    for patch in bad {
        assert_eq!(complaints("x.patch", &patch, &tree).len(), 1, "{patch}");
    }
}
