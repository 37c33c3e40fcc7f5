//! The status branch over the file transport: what is written, and when nothing is.

use nodewright::clock::Clock;
use std::collections::BTreeMap;

use nodewright::git::{Disposition, StatusBranch, StatusCommit, StatusError, Written};

use super::{Cache, Origin};

pub const BRANCH: &str = "nodewright-status/prod-a";
pub const UID: &str = "6f0c-uid";

pub fn status(phase: &str) -> StatusCommit {
    let files = BTreeMap::from([
        ("README.md".to_owned(), format!("# prod-a: {phase}\n").into_bytes()),
        ("nodes/gpu-01.json".to_owned(), b"{}\n".to_vec()),
        ("status.json".to_owned(), format!("{{\"phase\":\"{phase}\"}}\n").into_bytes()),
    ]);
    StatusCommit {
        files,
        subject: format!("status(prod-a): {phase}"),
        trailers: vec![("Nodewright-Phase".to_owned(), phase.to_owned())],
        time: "2026-08-22T10:00:00Z".parse().expect("a time"),
    }
}

pub fn branch(origin: &Origin, cache: &Cache) -> StatusBranch {
    let remote = origin.remote();
    let source = cache.source(&remote);
    StatusBranch::new(remote, cache.path(), "prod-a", UID, Some(&source)).expect("a status branch")
}

/// A clock on which the pauses between tries take no time.
pub fn quick() -> Clock {
    Clock::starting_at(jiff::Timestamp::UNIX_EPOCH, 10_000)
}

pub async fn write(
    branch: &mut StatusBranch,
    cache: &Cache,
    commit: &StatusCommit,
    epoch: u64,
) -> Result<Written, StatusError> {
    branch.write(&cache.transport, commit, epoch, quick()).await
}

#[tokio::test]
async fn the_first_write_makes_an_orphan_branch_and_the_next_ones_append() {
    let origin = Origin::new();
    let cache = Cache::new();
    origin.commit("main", &[("a.yaml", "a: 1")]);
    let mut status_branch = branch(&origin, &cache);
    let first = write(&mut status_branch, &cache, &status("Opened"), 1).await.expect("written");
    let Written::Pushed { commit, seq: 1, attempts: 1, foreign: None } = &first else {
        panic!("{first:?}");
    };
    assert_eq!(origin.tip(BRANCH).as_ref(), Some(commit));
    let second = write(&mut status_branch, &cache, &status("Done"), 1).await.expect("written");
    assert!(matches!(second, Written::Pushed { seq: 2, .. }), "{second:?}");

    assert_eq!(origin.git(&["rev-list", "--count", BRANCH]).trim(), "2");
    assert_eq!(origin.git(&["log", "-1", "--format=%s", BRANCH]).trim(), "status(prod-a): Done");
    let who = origin.git(&["log", "-1", "--format=%an <%ae> %cn <%ce> %aI", BRANCH]);
    let bot = "nodewright[bot] <nodewright@prod-a.invalid>";
    assert_eq!(who.trim(), format!("{bot} {bot} 2026-08-22T10:00:00+00:00"));
    let trailers = origin.git(&["log", "-1", "--format=%(trailers:only)", BRANCH]);
    assert!(trailers.contains("Nodewright-Epoch: 1\nNodewright-Seq: 2"), "{trailers}");
    let files = origin.git(&["ls-tree", "-r", "--name-only", BRANCH]);
    assert_eq!(
        files.lines().collect::<Vec<_>>(),
        ["README.md", "nodes/gpu-01.json", "status.json"]
    );
    assert_eq!(origin.git(&["show", &format!("{BRANCH}:README.md")]), "# prod-a: Done\n");
    origin.git(&["fsck", "--strict"]);
}

#[tokio::test]
async fn equal_state_makes_no_commit_also_after_a_restart_with_an_empty_cache() {
    let origin = Origin::new();
    let cache = Cache::new();
    let mut status_branch = branch(&origin, &cache);
    write(&mut status_branch, &cache, &status("Done"), 1).await.expect("written");
    let tip = origin.tip(BRANCH);
    let again = write(&mut status_branch, &cache, &status("Done"), 1).await.expect("compared");
    assert_eq!(again, Written::Unchanged);

    let fresh = Cache::new();
    let mut restarted = branch(&origin, &fresh);
    let again = write(&mut restarted, &fresh, &status("Done"), 2).await.expect("compared");
    assert_eq!(again, Written::Unchanged);
    assert_eq!(origin.tip(BRANCH), tip);
    assert_eq!(restarted.status_branches(), 1);

    let next = write(&mut restarted, &fresh, &status("More"), 2).await.expect("written");
    assert!(matches!(next, Written::Pushed { seq: 2, .. }), "{next:?}");
}

#[tokio::test]
async fn a_cache_that_was_deleted_under_us_is_filled_again() {
    let origin = Origin::new();
    let cache = Cache::new();
    let mut status_branch = branch(&origin, &cache);
    write(&mut status_branch, &cache, &status("Opened"), 1).await.expect("written");
    std::fs::remove_dir_all(cache.path()).expect("deleted");
    let written = write(&mut status_branch, &cache, &status("Done"), 1).await.expect("written");
    assert!(matches!(written, Written::Pushed { seq: 2, attempts: 1, .. }), "{written:?}");
}

#[tokio::test]
async fn files_that_are_gone_from_the_state_are_gone_from_the_branch() {
    let origin = Origin::new();
    let cache = Cache::new();
    let mut status_branch = branch(&origin, &cache);
    write(&mut status_branch, &cache, &status("Done"), 1).await.expect("written");
    let mut smaller = status("Done");
    smaller.files.remove("nodes/gpu-01.json");
    write(&mut status_branch, &cache, &smaller, 1).await.expect("written");
    let files = origin.git(&["ls-tree", "-r", "--name-only", BRANCH]);
    assert_eq!(files.lines().collect::<Vec<_>>(), ["README.md", "status.json"]);
}

#[tokio::test]
async fn a_path_that_git_cannot_hold_is_refused_before_anything_is_written() {
    let origin = Origin::new();
    let cache = Cache::new();
    let mut status_branch = branch(&origin, &cache);
    write(&mut status_branch, &cache, &status("Done"), 1).await.expect("written");
    for path in ["../x", "/x", "a//b", ".git/config", "a/.GIT/x", "nodes", "status.json/x", "a\nb"]
    {
        let mut bad = status("Bad");
        bad.files.insert(path.to_owned(), Vec::new());
        let error = write(&mut status_branch, &cache, &bad, 1).await.expect_err(path);
        assert!(matches!(error, StatusError::Path { .. }), "{path}: {error:?}");
        assert_eq!(error.disposition(), Disposition::GiveUp);
    }
    assert_eq!(origin.git(&["rev-list", "--count", BRANCH]).trim(), "1");
}

#[test]
fn a_status_branch_that_would_touch_the_source_is_refused() {
    let cache = Cache::new();
    let origin = Origin::new();
    let other = Origin::new();
    let new = |followed: &str, cluster: &str, remote| {
        let source = cache.source(&origin.remote()).following(followed).expect(followed);
        StatusBranch::new(remote, cache.path(), cluster, UID, Some(&source))
    };
    for followed in [BRANCH, "refs/heads/nodewright-status/prod-a", "nodewright-status"] {
        let error = new(followed, "prod-a", origin.remote()).expect_err(followed);
        assert!(matches!(error, StatusError::SourceBranch { .. }), "{error:?}");
    }
    assert!(new(&format!("{BRANCH}/x"), "prod-a", origin.remote()).is_err());
    assert!(new("main", "prod-a", origin.remote()).is_ok());
    assert!(new(BRANCH, "prod-a", other.remote()).is_ok(), "another repository");
    let unfollowed = StatusBranch::new(origin.remote(), cache.path(), "prod-a", UID, None);
    assert!(unfollowed.is_ok(), "no source in Git");
    for cluster in ["", "a b", "a..b", "a/b", "x.lock"] {
        let error = new("main", cluster, origin.remote()).expect_err(cluster);
        assert!(matches!(error, StatusError::ClusterName { .. }), "{error:?}");
    }
}
