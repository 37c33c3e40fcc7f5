//! A push to a local repository wakes us within a second; the poll is elsewhere.

use std::process::Command;
use std::time::Duration;

use nodewright::git::{WatchError, watch};

use super::{Cache, Origin, remote};

const SECOND: Duration = Duration::from_secs(1);

fn run_git(arguments: &[&str]) {
    let output = Command::new("git").args(arguments).output().expect("git runs");
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn a_push_to_a_bare_repository_wakes_within_a_second_and_reading_does_not() {
    let origin = Origin::new();
    origin.commit("main", &[("a.yaml", "a: 1")]);
    let watched = watch(&origin.remote().address).expect("a watch").expect("a local repository");
    for branch in ["main", "a/new/folder"] {
        origin.commit(branch, &[("a.yaml", branch)]);
        tokio::time::timeout(SECOND, watched.changed()).await.expect("woken within a second");
    }
    run_git(&["--git-dir", origin.path().to_str().expect("text"), "pack-refs", "--all"]);
    tokio::time::timeout(SECOND, watched.changed()).await.expect("packed references wake too");

    // Drain what belongs to the pack, then only read: nothing may come.
    while tokio::time::timeout(SECOND / 4, watched.changed()).await.is_ok() {}
    origin.git(&["log", "main"]);
    origin.git(&["ls-tree", "main"]);
    let cache = Cache::new();
    let transport = cache.transport.clone();
    transport.fetch(cache.request(&origin.remote(), "main")).await.expect("fetched");
    let woken = tokio::time::timeout(SECOND / 4, watched.changed()).await;
    assert!(woken.is_err(), "reading is no change");
}

#[tokio::test]
async fn a_commit_in_a_work_tree_wakes_too_also_through_a_linked_work_tree() {
    let folder = tempfile::tempdir().expect("a folder");
    let work = folder.path().join("work");
    let linked = folder.path().join("linked");
    let (work, linked) = (work.to_str().expect("text"), linked.to_str().expect("text"));
    let who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    let commit = ["commit", "-q", "--allow-empty", "-m", "x"];
    run_git(&["init", "-q", "-b", "main", work]);
    run_git(&[&["-C", work], &who[..], &commit[..]].concat());
    run_git(&["-C", work, "worktree", "add", "-q", "-b", "side", linked]);
    for path in [work, linked] {
        let watched = watch(&remote(path, None).address).expect("a watch").expect("local");
        run_git(&[&["-C", work], &who[..], &commit[..]].concat());
        tokio::time::timeout(SECOND, watched.changed()).await.expect("woken within a second");
    }
}

#[test]
fn what_cannot_be_watched_says_so_and_remote_repositories_are_only_polled() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = remote(folder.path().to_str().expect("text"), None).address;
    assert!(matches!(watch(&address), Err(WatchError::NotARepository { .. })));
    let address = remote("https://git.example.org/fleet", None).address;
    assert!(watch(&address).expect("no error").is_none());
}
