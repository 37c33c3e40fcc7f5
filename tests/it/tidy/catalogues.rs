//! Every scenario of upstream and every input of the failure catalogue is played here, or
//! `tests/README.md` says why not.

use std::collections::BTreeSet;
use std::path::Path;

use super::assert_tidy;

/// Upstream's end-to-end scenarios by the names of their files here (upstream contract, appendix).
const SCENARIOS: &[&str] = &[
    "auto-taint-new-nodes",
    "cleanup-pods",
    "config-skyhook",
    "delete-blocked-when-disabled",
    "delete-blocked-when-paused",
    "delete-skyhook",
    "depends-on",
    "downgrade-after-uninstall",
    "downgrade-enabled-false-preserves-state",
    "explicit-uninstall",
    "failure-skyhook",
    "hello-world",
    "interrupt",
    "interrupt-grouping",
    "malformed-node-state",
    "package-upgrade",
    "pod-finalizer",
    "runtime-required",
    "simple-skyhook",
    "simple-update-skyhook",
    "skyhook-upgrade",
    "strict-order",
    "taint-scheduling",
    "uninstall-cancel",
    "uninstall-cancel-during-interrupt",
    "uninstall-fix-config",
    "uninstall-mixed-packages",
    "uninstall-on-delete",
    "validate-packages",
    "cli-deployment-policy",
    "cli-lifecycle",
    "cli-node",
    "cli-package",
    "cli-reset",
];

/// The test inputs of the failure catalogue, part 2.
const INPUTS: &[&str] = &[
    "T01", "T03", "T04", "T06", "T07", "T09", "T13", "T14", "T15", "T16", "T17", "T19", "T20",
    "T21", "T22", "T24", "T25", "T26", "T27", "T28",
];

/// Returns what is neither there nor has a row `| NAME | … |` with a reason in the text.
fn complaints(wanted: &[&str], there: &BTreeSet<String>, text: &str) -> Vec<String> {
    let has_reason = |name: &str| {
        let row = text.lines().find(|line| line.starts_with(&format!("| {name} | – |")));
        row.is_some_and(|row| row.split('|').nth(3).is_some_and(|why| why.trim().len() > 10))
    };
    let mut complaints: Vec<String> = wanted
        .iter()
        .filter(|name| !there.contains(**name) && !has_reason(name))
        .map(|name| format!("{name}: there is no test, and tests/README.md gives no reason"))
        .collect();
    let unsaid = wanted.iter().filter(|name| !text.contains(&format!("| {name} |")));
    complaints.extend(unsaid.map(|name| format!("{name}: tests/README.md does not name it")));
    complaints
}

fn read_me() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/README.md");
    std::fs::read_to_string(path).expect("tests/README.md")
}

/// Names of the scenario files.
fn files() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let entries = std::fs::read_dir(folder).expect("tests/scenarios");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
}

/// The codes in the names of tests: `fn t04_a_budget…` has T04, `fn a_budget_t04` too.
fn codes(text: &str) -> BTreeSet<String> {
    let functions = text.split("fn ").skip(1);
    let names = functions.filter_map(|rest| rest.split('(').next());
    let parts = names.flat_map(|name| name.split('_'));
    parts
        .filter(|part| {
            let digits = part.strip_prefix('t').unwrap_or_default();
            digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
        .map(str::to_uppercase)
        .collect()
}

#[test]
fn every_scenario_of_upstream_has_a_file_or_a_reason() {
    let found = complaints(SCENARIOS, &files(), &read_me());
    assert_tidy(&found, "Each scenario of upstream is played, or it is said why not.");
}

#[test]
fn every_input_of_the_failure_catalogue_has_a_test_or_a_reason() {
    let sources = super::source::rust_files();
    let there: BTreeSet<String> = sources.iter().flat_map(|source| codes(&source.code)).collect();
    let found = complaints(INPUTS, &there, &read_me());
    assert_tidy(&found, "Each input of the failure catalogue is a test with its code in its name.");
}

#[test]
fn what_is_missing_or_said_wrongly_is_found() {
    let there = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    let text = "| a | a.txt | same |\n| b | – | comes with the next version |\n| c | – | later |\n";
    let found = complaints(&["a", "b", "c", "d"], &there, text);
    assert_eq!(
        found,
        [
            "c: there is no test, and tests/README.md gives no reason",
            "d: there is no test, and tests/README.md gives no reason",
            "d: tests/README.md does not name it",
        ]
    );
    let code = "async fn t04_a_budget() {}\nfn of_two_t17(x: u8) {}\nfn at05() {}";
    assert_eq!(codes(code), BTreeSet::from(["T04".to_owned(), "T17".to_owned()]));
}
