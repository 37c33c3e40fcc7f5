//! Reading a commit: what is handed out, what is a problem, what is an error.

use std::fs;

use nodewright::git::{
    CommitId, Folder, ProblemKind, TreeError, list_folders, read_tree, scope_ids,
};

use super::{Cache, Origin, TreeOf};

fn read(cache: &Cache, commit: &CommitId, folder: &str) -> Folder {
    let mut folders =
        read_tree(&cache.path(), commit, &[folder.to_owned()]).expect("a readable commit");
    folders.remove(folder).expect("an answer for the folder")
}

fn paths(folder: &Folder) -> Vec<&str> {
    match folder {
        Folder::Missing | Folder::Empty => Vec::new(),
        Folder::Found(files) => files.files.iter().map(|file| file.path.as_str()).collect(),
    }
}

fn problems(folder: &Folder) -> Vec<(&str, ProblemKind)> {
    match folder {
        Folder::Missing | Folder::Empty => Vec::new(),
        Folder::Found(files) => {
            files.problems.iter().map(|it| (it.path.as_str(), it.what)).collect()
        }
    }
}

fn fetched(origin: &Origin) -> Cache {
    let cache = Cache::new();
    cache.fetch(&origin.remote(), "main").expect("fetched");
    cache
}

#[test]
fn only_manifests_of_the_folders_asked_for_are_handed_out() {
    let origin = Origin::new();
    let commit = origin.commit(
        "main",
        &[
            ("README.md", "# fleet"),
            (".gitlab-ci.yml", "a: 1"),
            (".github/workflows/x.yaml", "a: 1"),
            ("base/gpu/b.yaml", "b: 1"),
            ("base/gpu/deep/a.json", "{}"),
            ("base/gpu/run.sh", "true"),
            ("base/cpu/c.yml", "c: 1"),
            ("clusters/prod-a/cluster.yaml", "uses: [gpu]"),
            ("clusters/prod-b/cluster.yaml", "uses: []"),
            ("docs/only.md", "text"),
        ],
    );
    let cache = fetched(&origin);
    assert_eq!(
        paths(&read(&cache, &commit, "base/gpu")),
        ["base/gpu/b.yaml", "base/gpu/deep/a.json"]
    );
    assert_eq!(paths(&read(&cache, &commit, "./base/cpu/")), ["base/cpu/c.yml"]);
    assert_eq!(
        paths(&read(&cache, &commit, "")),
        [
            "base/cpu/c.yml",
            "base/gpu/b.yaml",
            "base/gpu/deep/a.json",
            "clusters/prod-a/cluster.yaml",
            "clusters/prod-b/cluster.yaml"
        ]
    );
    let Folder::Found(files) = read(&cache, &commit, "base/cpu") else { panic!("files") };
    assert_eq!(files.files[0].bytes, b"c: 1");

    assert_eq!(read(&cache, &commit, "docs"), Folder::Empty);
    assert_eq!(read(&cache, &commit, "nowhere/at/all"), Folder::Missing);
    let clusters = list_folders(&cache.path(), &commit, "clusters").expect("read");
    assert_eq!(clusters, Some(vec!["prod-a".to_owned(), "prod-b".to_owned()]));
    assert_eq!(list_folders(&cache.path(), &commit, "nowhere").expect("read"), None);
}

#[test]
fn what_must_not_be_followed_or_read_is_a_problem_and_hides_nothing() {
    let origin = Origin::new();
    let repository = &origin.repository;
    let blob = |bytes: &[u8]| repository.blob(bytes).expect("a blob");
    let mut tree = TreeOf::default();
    tree.put("good.yaml", blob(b"a: 1"), 0o100_644);
    tree.put("link.yaml", blob(b"/etc/shadow"), 0o120_000);
    tree.put("link-without-ending", blob(b"../../.."), 0o120_000);
    tree.put("big.yaml", blob(&vec![b'#'; 1024 * 1024 + 1]), 0o100_644);
    tree.put("just.yaml", blob(&vec![b'#'; 1024 * 1024]), 0o100_755);
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    tree.put("lfs.yaml", blob(pointer), 0o100_644);
    tree.put_bytes(b"caf\xe9.yaml", blob(b"a: 1"), 0o100_644);
    let deep = format!("{}deep.yaml", "d/".repeat(40));
    tree.put(&deep, blob(b"a: 1"), 0o100_644);
    let inner = origin.commit("sub", &[("x.yaml", "x: 1")]);
    tree.put("module", super::oid(&inner), 0o160_000);
    let tree = tree.write(repository);
    let commit = origin.commit_tree("main", None, tree, "all kinds\n");
    let cache = fetched(&origin);

    let root = read(&cache, &commit, ".");
    assert_eq!(paths(&root), ["good.yaml", "just.yaml"]);
    let deepest = "d/".repeat(32);
    assert_eq!(
        problems(&root),
        [
            ("big.yaml", ProblemKind::FileTooLarge),
            ("caf\u{fffd}.yaml", ProblemKind::NameNotText),
            (deepest.trim_end_matches('/'), ProblemKind::TooDeep),
            ("lfs.yaml", ProblemKind::LfsPointer),
            ("link-without-ending", ProblemKind::Symlink),
            ("link.yaml", ProblemKind::Symlink),
            ("module", ProblemKind::Submodule),
        ]
    );
    assert_eq!(
        problems(&read(&cache, &commit, "link.yaml")),
        [("link.yaml", ProblemKind::Symlink)]
    );
    assert_eq!(
        problems(&read(&cache, &commit, "good.yaml")),
        [("good.yaml", ProblemKind::NotAFolder)]
    );
}

#[test]
fn too_many_files_end_the_reading_and_a_tree_that_repeats_itself_ends_too() {
    let origin = Origin::new();
    let repository = &origin.repository;
    let blob = repository.blob(b"a: 1").expect("a blob");
    let mut tree = TreeOf::default();
    for number in 0..5_001 {
        tree.put(&format!("{number:04}.yaml"), blob, 0o100_644);
    }
    let many = origin.commit_tree("main", None, tree.write(repository), "many\n");
    // 12^12 paths in twelve small objects.
    let mut bomb = repository.treebuilder(None).expect("a builder").write().expect("a tree");
    for _ in 0..12 {
        let mut layer = repository.treebuilder(None).expect("a builder");
        for name in 0..12 {
            layer.insert(format!("d{name}"), bomb, 0o040_000).expect("an entry");
        }
        bomb = layer.write().expect("a tree");
    }
    let bomb = origin.commit_tree("main", Some(&many), bomb, "a bomb\n");
    let cache = fetched(&origin);

    let root = read(&cache, &many, "");
    assert_eq!(paths(&root).len(), 5_000);
    assert_eq!(problems(&root), [("5000.yaml", ProblemKind::TooMany)]);
    let root = read(&cache, &bomb, "");
    assert_eq!(problems(&root).len(), 1, "{:?}", problems(&root));
    assert_eq!(problems(&root)[0].1, ProblemKind::TooMany);
}

#[test]
fn a_commit_that_cannot_be_read_is_neither_empty_nor_missing() {
    let origin = Origin::new();
    let commit = origin.commit("main", &[("pool/a.yaml", "a: 1"), ("other/b.yaml", "b: 1")]);
    let cache = fetched(&origin);
    let never: CommitId = "12".repeat(20).parse().expect("an id");
    let error = read_tree(&cache.path(), &never, &[String::new()]).expect_err("no such commit");
    assert!(matches!(error, TreeError::Commit { .. }), "{error:?}");
    let empty = Cache::new();
    let error = read_tree(&empty.path(), &commit, &[String::new()]).expect_err("no clone");
    assert!(matches!(error, TreeError::Cache(_)), "{error:?}");

    // Loose copies of all objects but one: the blob of pool/a.yaml is lost.
    let clone = cache.path().join("repository.git");
    fs::remove_dir_all(clone.join("objects")).expect("removed");
    fs::create_dir_all(clone.join("objects/pack")).expect("made");
    for folder in fs::read_dir(origin.path().join("objects")).expect("listed") {
        let folder = folder.expect("one").path();
        let to = clone.join("objects").join(folder.file_name().expect("a name"));
        fs::create_dir_all(&to).expect("made");
        for file in fs::read_dir(folder).expect("listed") {
            let file = file.expect("one").path();
            fs::copy(&file, to.join(file.file_name().expect("a name"))).expect("copied");
        }
    }
    let blob = origin.repository.blob(b"a: 1").expect("the id").to_string();
    fs::remove_file(clone.join("objects").join(&blob[..2]).join(&blob[2..])).expect("removed");
    let error =
        read_tree(&cache.path(), &commit, &["pool".to_owned()]).expect_err("a blob is lost");
    let TreeError::Object { path, .. } = &error else { panic!("{error:?}") };
    assert_eq!(path, "pool/a.yaml");
    assert_eq!(paths(&read(&cache, &commit, "other")), ["other/b.yaml"], "the others can be read");
}

#[test]
fn a_commit_that_touches_nothing_of_ours_has_the_same_scope() {
    let origin = Origin::new();
    let first = origin.commit("main", &[("pool/a.yaml", "a: 1"), ("README.md", "one")]);
    let second = origin.commit("main", &[("pool/a.yaml", "a: 1"), ("README.md", "two")]);
    let third = origin.commit("main", &[("pool/a.yaml", "a: 2"), ("README.md", "two")]);
    let cache = fetched(&origin);
    let scope = |commit| {
        let paths = ["pool".to_owned(), "clusters/prod-a".to_owned()];
        scope_ids(&cache.path(), commit, &paths).expect("read")
    };
    assert_eq!(scope(&first), scope(&second));
    assert_ne!(scope(&second), scope(&third));
    assert_eq!(scope(&first)["clusters/prod-a"], None);
}
