//! Every file in `tests/manifests/bad` gives exactly the findings that its first lines name.
//!
//! A line is `# expect: CODE LINE:COLUMN words of the message`.

use std::collections::BTreeSet;
use std::fs;

use nodewright::manifest::{Layout, Rule, SourceFile, read};
use nodewright::model::Severity;

use super::repository;

struct Bad {
    name: String,
    bytes: Vec<u8>,
    expected: Vec<Expected>,
}

struct Expected {
    code: String,
    place: String,
    words: String,
}

fn bad_files() -> Vec<Bad> {
    let mut found = Vec::new();
    for entry in fs::read_dir(repository("tests/manifests/bad")).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let bytes = fs::read(&path).expect("it can be read");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let expected = text
            .lines()
            .map_while(|line| line.strip_prefix("# expect: "))
            .map(|line| {
                let mut words = line.splitn(3, ' ').map(str::to_owned);
                let mut next = || words.next().unwrap_or_default();
                Expected { code: next(), place: next(), words: next() }
            })
            .collect();
        found.push(Bad { name, bytes, expected });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(found.len() >= 25, "only {} bad manifests were found", found.len());
    found
}

#[test]
fn each_gives_exactly_the_findings_it_names() {
    let mut differences = String::new();
    for Bad { name, bytes, expected } in bad_files() {
        let file = SourceFile { path: name.clone(), bytes };
        let parsed = read(&[file], &[], &Layout::default());
        let expected_text: Vec<String> =
            expected.iter().map(|one| format!("{} {name}:{}", one.code, one.place)).collect();
        let found: Vec<String> = super::codes(&parsed);
        let words_found = expected
            .iter()
            .zip(&parsed.findings)
            .all(|(one, finding)| !one.words.is_empty() && finding.message.contains(&one.words));
        if found != expected_text || !words_found || expected.is_empty() {
            differences.push_str(&format!("{name}\n"));
            for finding in &parsed.findings {
                let place = finding.place();
                let place = place.trim_start_matches(&format!("{name}:"));
                differences.push_str(&format!(
                    "# expect: {} {place} {}\n      ({:?}) {}\n",
                    finding.code, finding.message, finding.path, finding.way_out
                ));
            }
        }
    }
    assert!(differences.is_empty(), "findings differ from what the files name:\n{differences}");
}

#[test]
fn each_error_refuses_and_says_the_way_out() {
    for Bad { name, bytes, expected } in bad_files() {
        let file = SourceFile { path: name.clone(), bytes };
        let parsed = read(&[file], &[], &Layout::default());
        let has_errors = expected.iter().any(|one| severity(&one.code) == Severity::Error);
        let is_refused = parsed.unreadable || !parsed.refused.is_empty();
        assert_eq!(has_errors, is_refused, "{name}: an error refuses, and only an error");
        for finding in &parsed.findings {
            assert!(!finding.way_out.is_empty(), "{name}: {} has a way out", finding.code);
            assert!(!finding.message.ends_with('.'), "{name}: {}", finding.message);
        }
    }
}

fn severity(code: &str) -> Severity {
    let rule = Rule::ALL.iter().find(|rule| rule.code() == code);
    rule.map_or(Severity::Note, |rule| rule.severity())
}

#[test]
fn codes_are_unique_and_in_order() {
    let codes: Vec<&str> = Rule::ALL.iter().map(|rule| rule.code()).collect();
    let unique: BTreeSet<&str> = codes.iter().copied().collect();
    assert_eq!(codes, unique.into_iter().collect::<Vec<_>>());
    for rule in Rule::ALL {
        assert!(rule.code().starts_with("NW01"), "{} is of this room", rule.code());
        assert!(!rule.title().is_empty());
    }
}

#[test]
fn each_rule_about_objects_has_a_bad_manifest() {
    let covered: BTreeSet<String> =
        bad_files().into_iter().flat_map(|bad| bad.expected).map(|one| one.code).collect();
    // These are about files, layers and amounts, or a fallback; other tests show them.
    let elsewhere = [
        Rule::FileTooLarge,
        Rule::TooManyFiles,
        Rule::Symlink,
        Rule::SymlinkSkipped,
        Rule::Submodule,
        Rule::LfsPointer,
        Rule::FileName,
        Rule::NotText,
        Rule::PathMissing,
        Rule::Unreadable,
        Rule::TooManyDocuments,
        Rule::NotAnObject,
        Rule::ForeignKind,
        Rule::BaseUnreadable,
        Rule::TooManyEntries,
        Rule::FieldUnreadable,
        Rule::UnknownCluster,
        Rule::ClusterFile,
        Rule::UnknownPool,
        Rule::ClusterName,
        Rule::ConfigSize,
        Rule::OverlayWithoutBase,
        Rule::MoreFindings,
    ];
    for rule in Rule::ALL.iter().filter(|rule| !elsewhere.contains(rule)) {
        assert!(covered.contains(rule.code()), "no bad manifest shows {}", rule.code());
    }
}
