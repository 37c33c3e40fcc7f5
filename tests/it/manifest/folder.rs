//! Plain folders: links are never followed, and nothing that is skipped goes unsaid.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use nodewright::manifest::{
    FILE_MAX_BYTES, Layout, Parsed, Problem, ProblemKind, SourceFile, read, read_folder,
};

use super::{codes, files, names, parsed, refused, resource};

fn read_all(root: &Path) -> Parsed {
    let (files, problems) = read_folder(root);
    read(&files, &problems, &Layout::default())
}

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("it can be made");
    fs::write(file, text).expect("it can be written");
}

#[test]
fn t25_a_folder_of_odd_files_gives_what_is_sound_and_names_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let secret = tempfile::NamedTempFile::new().expect("a file");
    fs::write(secret.path(), resource("leaked-secret", "1.0.0")).expect("it can be written");
    write(root, "1.yaml", &resource("p1", "1.0.0"));
    write(root, "2.yaml", &format!("# only a comment\n---\n{}---\n", resource("p2", "1.0.0")));
    let two = format!("{}---\n{}", resource("p3", "1.0.0"), resource("p4", "1.0.0"));
    write(root, "3.yaml", &two);
    write(root, "4.yaml", "kind: NodeWright\nmetadata:\n\tname: tab\n");
    write(root, "5a.yaml", &resource("p5", "1.0.0"));
    write(root, "5b.yaml", &resource("p5", "1.0.0"));
    symlink(secret.path(), root.join("6.yaml")).expect("a link");
    symlink("1.yaml", root.join("7.yaml")).expect("a link");
    write(root, "8.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    write(root, "9.yaml", &resource("p9", "1.0.0").replace("version", "verison"));
    write(
        root,
        "a.json",
        &fs::read_to_string(super::repository("tests/manifests/good/as-json.json"))
            .expect("it is there"),
    );
    write(root, "README.md", "# not a manifest: {{ }}\n");
    write(root, ".github/workflow.yaml", "on: [push]\n");

    let parsed = read_all(root);
    assert_eq!(names(&parsed), ["as-json", "p1", "p2", "p3", "p4"]);
    assert_eq!(
        codes(&parsed),
        [
            "NW0111 4.yaml:3:2",
            "NW0127 5a.yaml:1:1",
            "NW0127 5b.yaml:1:1",
            "NW0103 6.yaml",
            "NW0104 7.yaml",
            "NW0106 8.yaml",
            "NW0132 9.yaml:10:5",
            "NW0131 9.yaml:11:7",
        ]
    );
    assert!(parsed.unreadable, "nothing may be removed because of this revision");
    assert!(refused(&parsed).contains(&"NodeWright p5".to_owned()));
    assert!(refused(&parsed).contains(&"NodeWright p9".to_owned()));
    assert!(!format!("{parsed:?}").contains("leaked-secret"), "a link is never followed");
}

#[test]
fn a_link_to_a_folder_is_reported_and_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "real/a.yaml", &resource("a", "1.0.0"));
    symlink("real", folder.path().join("linked")).expect("a link");
    symlink("../../real/a.yaml", folder.path().join("real/out.yaml")).expect("a link");
    symlink("real/a.yaml", folder.path().join("NOTES.md")).expect("a link");
    let parsed = read_all(folder.path());
    assert_eq!(names(&parsed), ["a"]);
    assert_eq!(codes(&parsed), ["NW0104 NOTES.md", "NW0103 linked", "NW0103 real/out.yaml"]);
    assert!(parsed.unreadable);
}

#[test]
fn t26_empty_missing_and_unreadable_are_three_results() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), ".gitkeep", "");
    let empty = read_all(folder.path());
    assert_eq!((empty.findings.len(), empty.unreadable, empty.is_empty()), (0, false, true));

    let missing = read_all(&folder.path().join("gone"));
    assert_eq!(codes(&missing), ["NW0109 "]);
    assert!(missing.unreadable && !missing.is_empty());

    let layout = Layout { cluster: None, path: "fleet".to_owned() };
    let other = read(&files(&[("other/a.yaml", "")]), &[], &layout);
    assert_eq!(codes(&other), ["NW0109 fleet"]);
    assert!(other.unreadable);
    let kept = read(&files(&[("fleet/.gitkeep", ""), ("fleet/keep", "")]), &[], &layout);
    assert!(kept.is_empty() && kept.findings.is_empty());

    let damaged = parsed(&[("a.yaml", "{")]);
    assert_eq!(codes(&damaged).len(), 1);
    assert!(damaged.unreadable && !damaged.is_empty());
}

#[test]
fn each_problem_of_a_reader_is_said_and_stops_removals() {
    let kinds = [
        (ProblemKind::Symlink { target: "/etc/passwd".to_owned() }, "NW0103"),
        (ProblemKind::Submodule, "NW0105"),
        (ProblemKind::LfsPointer, "NW0106"),
        (ProblemKind::NameNotUtf8, "NW0107"),
        (ProblemKind::TooLarge { bytes: FILE_MAX_BYTES + 1 }, "NW0101"),
        (ProblemKind::TooManyFiles, "NW0102"),
        (ProblemKind::PathMissing, "NW0109"),
        (ProblemKind::Unreadable { error: "permission denied".to_owned() }, "NW0110"),
    ];
    for (kind, code) in kinds {
        let problem = Problem { path: "bad.yaml".to_owned(), kind };
        let good = files(&[("good.yaml", &resource("good", "1.0.0"))]);
        let parsed = read(&good, &[problem], &Layout::default());
        assert_eq!(codes(&parsed), [format!("{code} bad.yaml")]);
        assert_eq!(names(&parsed), ["good"], "{code} does not hide the others");
        assert!(parsed.unreadable, "{code} stops removals");
    }
}

#[test]
fn names_and_contents_that_are_no_text_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.yaml");
    fs::write(folder.path().join(name), "a: 1\n").expect("it can be written");
    fs::write(folder.path().join("latin.yaml"), b"# ok\n# caf\xe9\n").expect("it can be written");
    let large = folder.path().join("large.yaml");
    fs::write(large, vec![b' '; 1024 * 1024 + 1]).expect("it can be written");
    let parsed = read_all(folder.path());
    assert_eq!(
        codes(&parsed),
        ["NW0107 caf\u{fffd}.yaml", "NW0101 large.yaml", "NW0108 latin.yaml",]
    );
    assert!(parsed.findings[2].message.contains("line 2"));
}

#[test]
fn a_file_given_too_large_is_refused_even_if_its_reader_let_it_through() {
    let bytes = vec![b'#'; 1024 * 1024 + 1];
    let parsed = read(&[SourceFile { path: "a.yaml".to_owned(), bytes }], &[], &Layout::default());
    assert_eq!(codes(&parsed), ["NW0101 a.yaml"]);
    let empty = "a: 1\n---\n".repeat(1_001);
    let parsed = super::parsed(&[("many.yaml", &empty)]);
    assert!(codes(&parsed).iter().any(|code| code.starts_with("NW0114 many.yaml:")));
}
