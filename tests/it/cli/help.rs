//! The help is the manual: it names every verb, and fits a terminal.

use super::nodewright;

/// A terminal of usual width, with some room for clap's indentation.
const LINE_MAX_CHARS: usize = 100;

#[test]
fn the_verbs_in_the_order_in_which_a_person_meets_them() {
    let ran = nodewright(&["-h"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    insta::assert_snapshot!(ran.out);
}

#[test]
fn every_help_fits_and_tells_more_than_the_name() {
    for verb in [
        &["run"][..],
        &["validate"],
        &["crds"],
        &["accept"],
        &["approve"],
        &["adopt"],
        &["explain"],
        &["retry"],
        &["forget"],
        &["sim"],
        &["sim", "kubelet"],
    ] {
        let ran = nodewright(&[verb, &["--help"]].concat());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{verb:?}");
        assert!(ran.out.lines().count() > 10, "{verb:?}: {}", ran.out);
        let long = ran.out.lines().find(|line| line.chars().count() > LINE_MAX_CHARS);
        assert_eq!(long, None, "{verb:?}");
    }
}

#[test]
fn run_names_the_variables_of_each_flag() {
    let ran = nodewright(&["run", "--help"]);
    for names in [
        "[env: NODEWRIGHT_REPO]",
        "[env: NODEWRIGHT_NAMESPACE, NAMESPACE]",
        "[env: NODEWRIGHT_STAGE_TIMEOUT, JOB_STAGE_TIMEOUT]",
        "[env: NODEWRIGHT_LOG_FORMAT]",
    ] {
        assert!(ran.out.contains(names), "{names}: {}", ran.out);
    }
}

#[test]
fn the_hidden_verb_is_hidden_and_the_version_is_told() {
    assert!(!nodewright(&["--help"]).out.contains("git-transport"));
    let ran = nodewright(&["--version"]);
    assert_eq!(ran.out, format!("nodewright {}\n", env!("CARGO_PKG_VERSION")));
}
