//! Fetching over the file transport: tips, history, and each thing that is not there.

use std::fs;

use nodewright::git::{
    Accepted, Ancestry, Candidate, Decision, Disposition, Transport, TransportError, ancestry,
    judge,
};

use super::{Cache, Origin, oid, remote};

#[test]
fn a_fetch_brings_the_tip_and_its_whole_history_and_follows_pushes() {
    let origin = Origin::new();
    let cache = Cache::new();
    let first = origin.commit("main", &[("a.yaml", "a: 1")]);
    let second = origin.commit("main", &[("a.yaml", "a: 2")]);
    origin.commit("other", &[("b.yaml", "b: 1")]);

    let fetched = cache.fetch(&origin.remote(), "main").expect("fetched");
    assert_eq!(fetched.source.as_ref(), Some(&second));
    assert_eq!(fetched.status, None);
    assert!(fetched.received_bytes > 0);
    assert!(cache.repository().find_commit(oid(&first)).is_ok(), "history is there");
    let references: Vec<String> = cache
        .repository()
        .references()
        .expect("references")
        .map(|it| it.expect("one").name().expect("text").to_owned())
        .collect();
    assert_eq!(references, ["refs/nodewright/source/main"], "only the branch that was asked for");

    let again = cache.fetch(&origin.remote(), "main").expect("fetched");
    assert_eq!((again.source.as_ref(), again.received_bytes), (Some(&second), 0));

    let third = origin.commit("main", &[("a.yaml", "a: 3")]);
    let fetched = cache.fetch(&origin.remote(), "main").expect("fetched");
    assert_eq!(fetched.source, Some(third));
}

#[test]
fn status_branches_are_counted_and_ours_is_fetched_and_forgotten_when_it_goes() {
    let origin = Origin::new();
    let cache = Cache::new();
    origin.commit("main", &[("a.yaml", "a: 1")]);
    let status = origin.commit("nodewright-status/prod-a", &[("status.json", "{}")]);
    origin.commit("nodewright-status/prod-b", &[("status.json", "{}")]);
    let fetched = cache.fetch(&origin.remote(), "main").expect("fetched");
    assert_eq!((fetched.status, fetched.status_branches), (Some(status), 2));

    let mut branch = origin
        .repository
        .find_reference("refs/heads/nodewright-status/prod-a")
        .expect("the branch");
    branch.delete().expect("deleted");
    let fetched = cache.fetch(&origin.remote(), "main").expect("fetched");
    assert_eq!((fetched.status, fetched.status_branches), (None, 1));
}

#[test]
fn t24_rewritten_history_is_fetched_but_held() {
    let origin = Origin::new();
    let cache = Cache::new();
    let remote = origin.remote();
    let first = origin.commit("main", &[("a.yaml", "a: 1")]);
    let second = origin.commit("main", &[("a.yaml", "a: 2")]);
    cache.fetch(&remote, "main").expect("fetched");
    let path = cache.path();
    assert_eq!(ancestry(&path, &first, &second).expect("read"), Ancestry::Descends);
    assert_eq!(ancestry(&path, &second, &second).expect("read"), Ancestry::Same);

    origin.repository.reference("refs/heads/main", oid(&first), true, "rewind").expect("moved");
    let fetched = cache.fetch(&remote, "main").expect("a rewind is no error");
    assert_eq!(fetched.source.as_ref(), Some(&first));
    assert_eq!(ancestry(&path, &second, &first).expect("read"), Ancestry::Rewound);

    let forced = origin.commit_on("main", Some(&first), &[("a.yaml", "a: 9")], "forced\n");
    cache.fetch(&remote, "main").expect("a forced push is no error");
    let how = ancestry(&path, &second, &forced).expect("read");
    assert_eq!(how, Ancestry::Diverged);
    let accepted = Accepted { commit: second.clone(), resources: 1 };
    let candidate = Candidate { commit: forced.clone(), ancestry: how, resources: 1 };
    let Decision::Held(hold) = judge(Some(&accepted), &candidate, None) else {
        panic!("a forced push must be held");
    };
    assert_eq!(hold.reason(), "HistoryRewritten");
    assert_eq!(judge(Some(&accepted), &candidate, Some(&forced)), Decision::Accept);

    fs::remove_dir_all(&path).expect("the cache is lost");
    cache.fetch(&remote, "main").expect("fetched anew");
    assert_eq!(ancestry(&path, &second, &forced).expect("read"), Ancestry::AcceptedUnknown);
}

#[test]
fn what_is_not_there_is_told_apart() {
    let cache = Cache::new();
    let origin = Origin::new();
    let error = cache.fetch(&origin.remote(), "main").expect_err("empty");
    assert!(matches!(error, TransportError::RepositoryEmpty { .. }), "{error:?}");
    assert_eq!(error.disposition(), Disposition::Wait);

    origin.commit("trunk", &[("a.yaml", "a: 1")]);
    let error = cache.fetch(&origin.remote(), "main").expect_err("no such branch");
    let TransportError::BranchMissing { branch, present, .. } = &error else { panic!("{error:?}") };
    assert_eq!((branch.as_str(), present.as_slice()), ("main", &["trunk".to_owned()][..]));
    assert!(error.to_string().contains("has no branch `main`; it has trunk"), "{error}");

    let nowhere = remote(origin.root().join("nowhere.git").to_str().expect("text"), None);
    let error = cache.fetch(&nowhere, "main").expect_err("no repository");
    assert!(matches!(error, TransportError::RepositoryMissing { .. }), "{error:?}");
    assert_eq!(error.disposition(), Disposition::GiveUp);

    let missing = Transport::new(origin.root().join("no-such-program"));
    let error = missing.fetch_blocking(cache.request(&origin.remote(), "trunk")).expect_err("none");
    assert!(matches!(error, TransportError::ChildStart { .. }), "{error:?}");
}

#[test]
fn a_repository_with_a_work_tree_can_be_followed_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let repository = git2::Repository::init(folder.path()).expect("a repository");
    let author = git2::Signature::now("Ada", "ada@example.org").expect("a name");
    let tree = repository.treebuilder(None).expect("a builder").write().expect("a tree");
    let tree = repository.find_tree(tree).expect("the tree");
    let tip = repository
        .commit(Some("refs/heads/main"), &author, &author, "first", &tree, &[])
        .expect("a commit");
    let fetched = Cache::new()
        .fetch(&remote(folder.path().to_str().expect("text"), None), "main")
        .expect("fetched");
    assert_eq!(fetched.source.map(|it| it.to_string()), Some(tip.to_string()));
}

#[test]
fn what_a_killed_transport_left_behind_is_cleared() {
    let origin = Origin::new();
    let cache = Cache::new();
    origin.commit("main", &[("a.yaml", "a: 1")]);
    cache.fetch(&origin.remote(), "main").expect("fetched");
    let clone = cache.path().join("repository.git");
    let lock = clone.join("refs/nodewright/source/main.lock");
    let pack = clone.join("objects/pack/pack_git2_0000");
    fs::write(&lock, "").expect("a lock");
    fs::write(&pack, "half").expect("half a pack");
    let tip = origin.commit("main", &[("a.yaml", "a: 2")]);
    let fetched = cache.fetch(&origin.remote(), "main").expect("fetched all the same");
    assert_eq!(fetched.source, Some(tip.clone()));
    assert!(!lock.exists() && !pack.exists());

    fs::write(clone.join("HEAD"), "nonsense").expect("broken");
    fs::remove_dir_all(clone.join("objects")).expect("broken");
    let fetched = cache.fetch(&origin.remote(), "main").expect("a broken clone is made anew");
    assert_eq!(fetched.source, Some(tip));
}

#[test]
fn a_clone_that_has_grown_too_large_is_made_anew_by_a_fetch() {
    let origin = Origin::new();
    let cache = Cache::new();
    let tip = origin.commit("main", &[("a.yaml", "a: 1")]);
    cache.fetch(&origin.remote(), "main").expect("fetched");
    let clone = cache.path().join("repository.git");
    let folder = clone.join("objects/17");
    fs::create_dir_all(&folder).expect("made");
    for number in 0..201 {
        fs::write(folder.join(format!("{number:038x}")), "").expect("written");
    }
    let fetched = cache.fetch(&origin.remote(), "main").expect("fetched");
    assert_eq!(fetched.source, Some(tip));
    assert!(fetched.received_bytes > 0, "everything came anew");
    assert!(!folder.exists());
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_run_ahead_of_a_transfer() {
    let origin = Origin::new();
    let cache = Cache::new();
    let tip = origin.commit("main", &[("a.yaml", "a: 1")]);
    let request = cache.request(&origin.remote(), "main");
    let hour = std::time::Duration::from_secs(3600);
    let fetched = tokio::time::timeout(hour, cache.transport.fetch(request)).await;
    assert_eq!(fetched.expect("no time passes").expect("fetched").source, Some(tip));
}
