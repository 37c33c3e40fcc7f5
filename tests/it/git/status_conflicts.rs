//! Who else wrote the status branch, and what becomes of our commit then.

use nodewright::git::{Disposition, StatusError, StatusMarks, Written, compose_message};

use super::status::{BRANCH, UID, branch, status, write};
use super::{Cache, Origin};

fn message(uid: &str, epoch: u64, seq: u64) -> String {
    let marks =
        StatusMarks { cluster: "prod-a".to_owned(), cluster_uid: uid.to_owned(), epoch, seq };
    compose_message("status(prod-a): from elsewhere", &[], &marks)
}

#[tokio::test]
async fn a_foreign_push_between_two_writes_is_built_upon_and_reported() {
    let origin = Origin::new();
    let cache = Cache::new();
    let mut status_branch = branch(&origin, &cache);
    write(&mut status_branch, &cache, &status("Opened"), 1).await.expect("written");
    let foreign = origin.commit(BRANCH, &[("README.md", "a person was here"), ("x.txt", "x")]);

    // Our knowledge of the tip is old: the first push is refused, the second builds on the new tip.
    let written = write(&mut status_branch, &cache, &status("Done"), 1).await.expect("written");
    let Written::Pushed { commit, seq: 2, attempts: 2, foreign: Some(reported) } = &written else {
        panic!("{written:?}");
    };
    assert_eq!(reported, &foreign);
    assert_eq!(origin.tip(BRANCH).as_ref(), Some(commit));
    let parent = origin.git(&["rev-parse", &format!("{BRANCH}^")]);
    assert_eq!(parent.trim(), foreign.as_str(), "the foreign commit is kept as parent");
    let files = origin.git(&["ls-tree", "-r", "--name-only", BRANCH]);
    assert!(!files.contains("x.txt"), "the content is ours again: {files}");
}

#[tokio::test]
async fn a_commit_of_our_own_earlier_term_is_built_upon_and_the_count_goes_on() {
    let origin = Origin::new();
    let cache = Cache::new();
    origin.commit_on(BRANCH, None, &[("README.md", "old")], &message(UID, 3, 41));
    let mut status_branch = branch(&origin, &cache);
    let written = write(&mut status_branch, &cache, &status("Done"), 4).await.expect("written");
    assert!(matches!(written, Written::Pushed { seq: 42, foreign: None, .. }), "{written:?}");
}

#[tokio::test]
async fn a_later_term_fences_us_and_nothing_is_written() {
    let origin = Origin::new();
    let cache = Cache::new();
    let mut status_branch = branch(&origin, &cache);
    write(&mut status_branch, &cache, &status("Opened"), 3).await.expect("written");
    let parent = origin.tip(BRANCH);
    let theirs =
        origin.commit_on(BRANCH, parent.as_ref(), &[("README.md", "new")], &message(UID, 4, 2));
    let error = write(&mut status_branch, &cache, &status("Done"), 3).await.expect_err("fenced");
    assert!(matches!(error, StatusError::Fenced { ours: 3, theirs: 4 }), "{error:?}");
    assert_eq!(error.disposition(), Disposition::Conflict);
    assert_eq!(origin.tip(BRANCH), Some(theirs));
}

#[tokio::test]
async fn another_cluster_under_our_name_is_never_overwritten() {
    let origin = Origin::new();
    let cache = Cache::new();
    let theirs = origin.commit_on(BRANCH, None, &[("README.md", "x")], &message("other", 1, 1));
    let mut status_branch = branch(&origin, &cache);
    let error = write(&mut status_branch, &cache, &status("Done"), 9).await.expect_err("refused");
    assert!(matches!(error, StatusError::ClusterNameConflict { .. }), "{error:?}");
    assert_eq!(error.disposition(), Disposition::GiveUp);
    assert_eq!(origin.tip(BRANCH), Some(theirs));
}

#[tokio::test]
async fn a_branch_that_was_moved_back_or_deleted_is_seen_before_it_is_written() {
    let origin = Origin::new();
    let cache = Cache::new();
    let mut status_branch = branch(&origin, &cache);
    write(&mut status_branch, &cache, &status("Opened"), 1).await.expect("written");
    let first = origin.tip(BRANCH).expect("a tip");
    write(&mut status_branch, &cache, &status("Half"), 1).await.expect("written");
    let name = format!("refs/heads/{BRANCH}");
    origin.repository.reference(&name, super::oid(&first), true, "rewind").expect("moved back");
    let written = write(&mut status_branch, &cache, &status("Done"), 1).await.expect("written");
    assert!(matches!(written, Written::Pushed { seq: 2, attempts: 2, .. }), "{written:?}");

    origin.repository.find_reference(&name).expect("it").delete().expect("deleted");
    let written = write(&mut status_branch, &cache, &status("Anew"), 1).await.expect("written");
    assert!(matches!(written, Written::Pushed { seq: 1, attempts: 2, .. }), "{written:?}");
    assert_eq!(origin.git(&["rev-list", "--count", BRANCH]).trim(), "1");
}

#[tokio::test]
async fn a_repository_with_a_work_tree_takes_our_branch_unless_it_is_checked_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let repository = git2::Repository::init(folder.path()).expect("a repository");
    let cache = Cache::new();
    let remote = super::remote(folder.path().to_str().expect("text"), None);
    let source = cache.source(&remote);
    let mut status_branch =
        nodewright::git::StatusBranch::new(remote, cache.path(), "prod-a", UID, Some(&source))
            .expect("a status branch");
    let written = write(&mut status_branch, &cache, &status("Opened"), 1).await.expect("written");
    assert!(matches!(written, Written::Pushed { seq: 1, .. }), "{written:?}");

    repository.set_head(&format!("refs/heads/{BRANCH}")).expect("checked out");
    let error = write(&mut status_branch, &cache, &status("Done"), 1).await.expect_err("refused");
    let StatusError::Transport { source, attempts: 1, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains("checked out"), "{source}");
    assert_eq!(error.disposition(), Disposition::GiveUp);
}

#[tokio::test]
async fn two_writers_of_one_branch_on_disk_lose_no_commit() {
    let origin = Origin::new();
    let caches = [Cache::new(), Cache::new()];
    let mut branches = [branch(&origin, &caches[0]), branch(&origin, &caches[1])];
    let [first, second] = &mut branches;
    let writes = |branch, cache, name: &'static str| async move {
        let branch: &mut nodewright::git::StatusBranch = branch;
        for round in 0..5 {
            let commit = status(&format!("{name}-{round}"));
            let written = write(branch, cache, &commit, 1).await.expect("written");
            assert!(matches!(written, Written::Pushed { .. }), "{written:?}");
        }
    };
    tokio::join!(writes(first, &caches[0], "one"), writes(second, &caches[1], "two"));
    let subjects = origin.git(&["log", "--format=%s", BRANCH]);
    assert_eq!(subjects.lines().count(), 10, "{subjects}");
    let seqs = origin.git(&["log", "--format=%(trailers:key=Nodewright-Seq,valueonly)", BRANCH]);
    let seqs: Vec<&str> = seqs.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(seqs, ["10", "9", "8", "7", "6", "5", "4", "3", "2", "1"]);
    origin.git(&["fsck", "--strict"]);
}
