//! The demo as a process of its own, with its own folder for temporary files.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Nodes and speed with which a debug build needs some twenty seconds.
const SMALL: [&str; 5] = ["demo", "--nodes", "4", "--speed", "25"];

fn demo(temporary: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodewright"));
    command.env_clear().env("TMPDIR", temporary).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn git(repository: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(repository).args(arguments).output();
    let output = output.expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    text(&output.stdout)
}

fn assert_empty(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).expect("a folder").collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn the_story_comes_out_and_stays_in_the_folder_that_was_named() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let kept = tempfile::tempdir().expect("a temporary folder");
    let keep = ["--seed", "7", "--keep", kept.path().to_str().expect("a path as text")];
    let output: Output = demo(temporary.path()).args(SMALL).args(keep).output().expect("it runs");
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    assert_eq!(complained, "");
    for expected in [
        "4 nodes, seed 7",
        "== Chapter 1",
        "== Chapter 2",
        "== Chapter 3",
        "== Chapter 4",
        "== The end",
        "(JobSet llama-70b)",
        "refused at base/general/general.yaml:15:16",
        "general is still at its last good state, generation 1",
        "each of the 2 training nodes has now been rebooted 3 times, no other node ever",
        "# demo · complete · nothing needs a person",
        "Every step came out.",
    ] {
        assert!(said.contains(expected), "{expected:?} is missing in:\n{said}");
    }
    let wide = said.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None, "too wide");
    assert!(!said.contains('\x1b'), "no colour");
    assert_empty(temporary.path());

    let repository = kept.path().join("fleet.git");
    let subjects = git(&repository, &["log", "--format=%s", "main"]);
    assert!(subjects.starts_with("Revert \"h200-train: kernel-tuning 1.1.5\"\n"), "{subjects}");
    let status = git(&repository, &["log", "--stat", "nodewright-status/demo"]);
    assert!(status.contains("refused NodeWright general"), "{status}");
    let tuned = git(&repository, &["show", "main:base/h200-train/h200-train.yaml"]);
    assert!(!tuned.contains("numa_balancing"), "reverted: {tuned}");
    assert!(tuned.contains("version: 1.1.2"), "what others changed stays: {tuned}");
    let logged = std::fs::read_to_string(kept.path().join("requests.log")).expect("the log");
    assert!(logged.contains("nodewright create pods/eviction"), "every request is there");
    assert!(!kept.path().join("cache").exists(), "the daemon's clone is of no use to anyone");
}

#[test]
fn a_folder_that_holds_something_is_refused() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let full = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(full.path().join("mine"), "text").expect("written");
    let mut command = demo(temporary.path());
    let output = command.args(["demo", "--keep"]).arg(full.path()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("is not empty\nhint: name a folder that is empty"), "{said}");
    assert_eq!(std::fs::read_to_string(full.path().join("mine")).expect("still there"), "text");
}

#[test]
fn an_interrupt_ends_it_and_leaves_nothing() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let mut command = demo(temporary.path());
    let command = command.args(SMALL).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().expect("it starts");
    let mut lines = BufReader::new(running.stdout.take().expect("a pipe")).lines();
    let began = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(" done")));
    assert!(began.is_some(), "the first rollout begins");
    let kill = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
    assert!(kill.expect("kill").success());
    // Read on, or it would block on a full pipe.
    for line in lines {
        assert!(!line.expect("text").starts_with("== The end"), "it ended by itself before");
    }
    let status = running.wait().expect("it ends");
    let mut said = String::new();
    running.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(status.code(), Some(130), "{said}");
    assert_eq!(said, "error: stopped on request\n");
    assert_empty(temporary.path());
}
