//! `nodewright validate`: places, exit codes, and the sources it reads.

use std::fs;

use serde_json::Value;

use super::{Shell, nodewright, repository};
use crate::git::Origin;

/// Ten that people really write; all others are tried without a process in `manifest::bad`.
const BAD: [&str; 10] = [
    "bad-selector.yaml",
    "cyclic-dependency.yaml",
    "duplicate-key.yaml",
    "interrupt-type.yaml",
    "missing-dependency.yaml",
    "percent-and-count.yaml",
    "policy-and-budget.yaml",
    "unknown-field.yaml",
    "unquoted-version.yaml",
    "yaml-bomb.yaml",
];

/// The first finding that a bad file names, as `place: ` and ` CODE: `.
fn expected(file: &str) -> (String, String) {
    let text = fs::read_to_string(repository(file)).expect("it is there");
    let line = text.lines().find_map(|line| line.strip_prefix("# expect: ")).expect("a finding");
    let mut words = line.split(' ');
    let (code, place) = (words.next().expect("a code"), words.next().expect("a place"));
    (format!("{file}:{place}: "), format!(" {code}: "))
}

#[test]
fn a_good_folder_passes_and_says_what_it_holds() {
    let ran = nodewright(&["validate", "tests/manifests/good"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.ends_with("accepted: 5 NodeWright, 1 DeploymentPolicy\n"), "{}", ran.out);
}

#[test]
fn each_of_ten_bad_manifests_is_refused_with_its_place_and_the_way_out() {
    for name in BAD {
        let file = format!("tests/manifests/bad/{name}");
        let ran = nodewright(&["validate", &file]);
        let (place, code) = expected(&file);
        assert_eq!(ran.code, Some(3), "{name}: {}{}", ran.out, ran.err);
        let line = ran.out.lines().find(|line| line.starts_with(&place));
        assert!(line.is_some_and(|line| line.contains(&code)), "{name}: {}", ran.out);
        assert!(ran.out.contains("  way out: "), "{name}: {}", ran.out);
    }
}

#[test]
fn a_finding_reads_like_a_compilers() {
    let shell = Shell::new().in_folder(&repository("tests/manifests/bad"));
    let ran = shell.run(&["validate", "unquoted-version.yaml"]);
    assert_eq!(
        ran.out,
        "unquoted-version.yaml:13:16: error NW0134: without quotes 1.10 is the number 1.1, not a \
         version\n  \
         in: NodeWright gpu-node-tuning, spec.packages.tuning.version\n  \
         way out: put it in quotes: \"1.10\"\n\
         \n\
         1 error in 1 file\n\
         accepted: 0 NodeWright, 0 DeploymentPolicy\n\
         refused: NodeWright gpu-node-tuning\n"
    );
}

#[test]
fn json_has_every_field_and_the_same_exit_code() {
    let file = "tests/manifests/bad/unquoted-version.yaml";
    let ran = nodewright(&["validate", "--format", "json", file]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(3), ""));
    let said: Value = serde_json::from_str(&ran.out).expect("one JSON object");
    assert_eq!(said["valid"], false);
    assert_eq!(said["refused"][0]["name"], "gpu-node-tuning");
    let finding = &said["findings"][0];
    assert_eq!((&finding["file"], &finding["line"]), (&file.into(), &13.into()));
    assert_eq!((&finding["severity"], &finding["code"]), (&"error".into(), &"NW0134".into()));
    assert!(finding["wayOut"].as_str().is_some_and(|text| text.contains("quotes")));

    let ran = nodewright(&["validate", "--format=json", "tests/manifests/good"]);
    let said: Value = serde_json::from_str(&ran.out).expect("one JSON object");
    assert_eq!((ran.code, &said["valid"]), (Some(0), &true.into()));
}

#[test]
fn a_warning_is_told_and_does_not_fail() {
    let ran = nodewright(&["validate", "tests/manifests/bad/selects-everything.yaml"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.contains("\n1 warning in 1 file\n"), "{}", ran.out);
}

#[test]
fn a_folder_of_clusters_wants_to_know_which() {
    let ran = nodewright(&["validate", "examples-repo"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.out.contains("name one with --cluster: demo"), "{}", ran.out);

    let ran = nodewright(&["validate", "examples-repo", "--cluster", "demo"]);
    assert_eq!(ran.code, Some(0), "{}", ran.out);
}

#[test]
fn what_is_missing_or_empty_is_no_success() {
    let ran = nodewright(&["validate", "no/such/folder"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert_eq!(
        ran.err,
        "error: there is no folder no/such/folder\n\
         hint: name the folder that holds the manifests: nodewright validate FOLDER\n"
    );

    let empty = tempfile::tempdir().expect("a temporary folder");
    fs::write(empty.path().join("notes.txt"), "nothing").expect("it can be written");
    let ran = Shell::new().in_folder(empty.path()).run(&["validate"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.starts_with("error: there is no manifest in .\nhint: "), "{}", ran.err);
}

#[test]
fn a_branch_of_a_repository_is_read_without_a_work_tree() {
    let read = |name: &str| {
        fs::read_to_string(repository("tests/manifests").join(name)).expect("it is there")
    };
    let origin = Origin::new();
    origin.commit("main", &[("fleet/tuning.yaml", &read("good/gpu-node-tuning.yaml"))]);
    origin.commit("change", &[("fleet/tuning.yaml", &read("bad/unquoted-version.yaml"))]);
    let address = format!("file://{}", origin.path().display());
    let shell = Shell::new();

    let ran = shell.run(&["validate", "--repo", &address]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    assert_eq!(ran.out, "accepted: 1 NodeWright, 0 DeploymentPolicy\n");

    let ran = shell.run(&["validate", "--repo", &address, "--revision=change", "--path=fleet"]);
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(ran.out.starts_with("fleet/tuning.yaml:13:16: error NW0134: "), "{}", ran.out);

    let ran = shell.run(&["validate", "--repo", &address, "--path=flaat"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.starts_with("error: there is no manifest in flaat at "), "{}", ran.err);

    let ran = shell.run(&["validate", "--repo", &address, "--revision=chnage"]);
    assert_eq!(ran.code, Some(6));
    assert!(ran.err.contains("has no branch `chnage`; it has "), "{}", ran.err);
    assert!(ran.err.contains("\nhint: push the branch, or name another"), "{}", ran.err);
}

#[test]
fn a_variable_left_over_in_the_shell_sends_it_nowhere_else() {
    let shell = Shell::new().with("NODEWRIGHT_REPO", "https://example.invalid/fleet.git");
    let ran = shell.run(&["validate", "tests/manifests/good"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}
