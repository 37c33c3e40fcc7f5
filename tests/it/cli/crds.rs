//! `nodewright crds`: the committed files are current, and stale ones are told.

use std::fs;

use super::{Shell, nodewright};

#[test]
fn the_committed_files_are_current() {
    let ran = nodewright(&["crds", "--check"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert_eq!(ran.out, "schemas: current\n");
}

#[test]
fn a_stale_file_and_a_missing_one_are_named_and_then_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let shell = Shell::new().in_folder(folder.path());
    let ran = shell.run(&["crds", "made/here"]);
    assert_eq!((ran.code, ran.out.matches(": written\n").count()), (Some(0), 4), "{}", ran.out);

    let made = folder.path().join("made/here");
    fs::write(made.join("nodewright.schema.json"), "{}\n").expect("it can be written");
    fs::remove_file(made.join("nodewright.nvidia.com_nodewrights.yaml")).expect("it is there");
    let ran = shell.run(&["crds", "--check", "made/here"]);
    assert_eq!(ran.code, Some(3));
    assert_eq!(
        ran.out,
        "made/here/nodewright.nvidia.com_nodewrights.yaml: is missing\n\
         made/here/nodewright.schema.json: is not what this version writes\n"
    );
    assert_eq!(ran.err, "hint: run nodewright crds made/here, and commit what it changes\n");
    let stale = fs::read_to_string(made.join("nodewright.schema.json")).expect("it is there");
    assert_eq!(stale, "{}\n", "--check writes nothing");

    let ran = shell.run(&["crds", "made/here"]);
    assert_eq!((ran.code, ran.out.matches(": written\n").count()), (Some(0), 2), "{}", ran.out);
    assert_eq!(shell.run(&["crds", "--check", "made/here"]).code, Some(0));
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_its_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("schemas"), "a file").expect("it can be written");
    let ran = Shell::new().in_folder(folder.path()).run(&["crds"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.starts_with("error: schemas cannot be made: "), "{}", ran.err);
}
