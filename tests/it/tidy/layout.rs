//! Every file is compiled, and says at its top what it is.

use std::collections::BTreeSet;

use super::assert_tidy;
use super::source::{Source, rust_files, words};

/// Files that cargo finds by itself.
const ROOTS: &[&str] = &[
    "src/lib.rs",
    "src/main.rs",
    "tests/it/main.rs",
    "benches/planning/main.rs",
    "benches/rollout/main.rs",
    "build.rs",
];

/// A header of fewer words says no more than the name of the file.
const HEADER_WORDS_MIN: usize = 3;

/// Returns the files that no `mod` declares: they are not compiled, and rot unseen.
fn undeclared(sources: &[Source]) -> Vec<String> {
    let declared: BTreeSet<String> = sources.iter().flat_map(declared_by).collect();
    let ours = sources.iter().filter(|source| !ROOTS.contains(&source.path.as_str()));
    ours.filter(|source| !declared.contains(&source.path))
        .map(|source| source.complain(1, "no mod declares this file, so it is never compiled"))
        .collect()
}

/// Returns where the modules that a file declares may be.
fn declared_by(source: &Source) -> Vec<String> {
    let words = words(&source.code);
    let names = words.windows(2).filter(|pair| pair[0].1 == "mod").filter(|pair| {
        let (byte, name) = pair[1];
        source.code[byte + name.len()..].trim_start().starts_with(';')
    });
    let folder = module_folder(&source.path);
    names
        .flat_map(|pair| {
            let name = pair[1].1;
            [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")]
        })
        .collect()
}

fn module_folder(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let name = file.strip_suffix(".rs").unwrap_or(file);
    match name {
        "mod" | "lib" | "main" => format!("{folder}/"),
        _ => format!("{folder}/{name}/"),
    }
}

fn headless(source: &Source) -> Vec<String> {
    let header: Vec<&str> =
        source.text.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let words = header.iter().flat_map(|line| line.split_whitespace()).count();
    let first = header.first().map_or("", |line| line.trim());
    let text = if first.is_empty() {
        "opens with //! and a sentence: what it is, what goes in and out, what it must never do"
    } else if words < HEADER_WORDS_MIN || first.split_whitespace().count() < 2 {
        "its header says nothing: what is it for?"
    } else {
        return Vec::new();
    };
    vec![source.complain(1, text)]
}

#[test]
fn every_file_is_compiled() {
    assert_tidy(&undeclared(&rust_files()), "A file that no mod declares is dead.");
}

#[test]
fn every_file_says_what_it_is() {
    let found: Vec<String> = rust_files().iter().flat_map(headless).collect();
    assert_tidy(&found, "Every file opens with what it is.");
}

#[test]
fn dead_files_are_found() {
    let tree = |declaration: &str| {
        vec![
            Source::new("src/lib.rs", "pub mod plan;"),
            Source::new("src/plan/mod.rs", declaration),
            Source::new("src/plan/due.rs", "//! x"),
        ]
    };
    assert_eq!(undeclared(&tree("mod due;")), Vec::<String>::new());
    assert_eq!(undeclared(&tree("// mod due;\nmod due2;")).len(), 1);
    assert_eq!(undeclared(&tree("mod due {}")).len(), 1);
    let nested = [
        Source::new("tests/it/main.rs", "mod git;"),
        Source::new("tests/it/git.rs", "mod https;"),
        Source::new("tests/it/git/https.rs", ""),
        Source::new("tests/it/git/ssh.rs", ""),
    ];
    assert_eq!(
        undeclared(&nested),
        ["tests/it/git/ssh.rs:1: no mod declares this file, so it is never compiled"]
    );
}

#[test]
fn files_without_a_header_are_found() {
    for bad in ["use x;", "// The plan, as text.", "//!\n//! The plan, as text.", "//! x"] {
        assert_eq!(headless(&Source::new("src/x.rs", bad)).len(), 1, "{bad}");
    }
    let good = Source::new("src/x.rs", "//! The plan, as text.");
    assert_eq!(headless(&good), Vec::<String>::new());
}
