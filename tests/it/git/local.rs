//! A repository written without a work tree, as `git commit` and `git revert` would.

use nodewright::git::{CommitId, LocalError, LocalRepository, Person};

const ADA: Person<'static> = Person { name: "Ada", mail: "ada@example.org" };

struct Repository {
    _folder: tempfile::TempDir,
    local: LocalRepository,
}

impl Repository {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let local = LocalRepository::init(&folder.path().join("fleet.git"), "main");
        Self { local: local.expect("a repository"), _folder: folder }
    }

    fn commit(&self, message: &str, files: &[(&str, &str)]) -> CommitId {
        let time = "2026-03-01T08:00:00Z".parse().expect("a time");
        self.local.commit("main", (ADA, time), message, files).expect("a commit")
    }

    fn revert(&self, commit: &CommitId) -> Result<CommitId, LocalError> {
        self.local.revert("main", (ADA, "2026-03-01T09:00:00Z".parse().expect("a time")), commit)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.local.text("main", path).expect("readable")
    }
}

#[test]
fn a_commit_changes_only_the_files_it_names() {
    let repository = Repository::new();
    assert_eq!(repository.local.history("main").expect("readable"), []);
    repository.commit("first\n", &[("a/one.yaml", "1"), ("two.yaml", "2")]);
    repository.commit("second\n\nbody\n", &[("a/one.yaml", "one")]);
    assert_eq!(repository.text("a/one.yaml").as_deref(), Some("one"));
    assert_eq!(repository.text("two.yaml").as_deref(), Some("2"));
    assert_eq!(repository.text("three.yaml"), None);
    let history = repository.local.history("main").expect("readable");
    let subjects: Vec<&str> = history.iter().map(nodewright::git::Told::subject).collect();
    assert_eq!(subjects, ["second", "first"]);
}

#[test]
fn a_revert_takes_back_one_commit_and_keeps_what_came_after() {
    let repository = Repository::new();
    repository.commit("first\n", &[("one.yaml", "a\nb\nc\nd\ne\n")]);
    let upgrade = repository.commit("upgrade\n", &[("one.yaml", "A\nb\nc\nd\ne\n")]);
    repository.commit("other\n", &[("one.yaml", "A\nb\nc\nd\nE\n")]);
    repository.revert(&upgrade).expect("no conflict");
    assert_eq!(repository.text("one.yaml").as_deref(), Some("a\nb\nc\nd\nE\n"));
    let history = repository.local.history("main").expect("readable");
    let wanted = format!("Revert \"upgrade\"\n\nThis reverts commit {upgrade}.\n");
    assert_eq!(history[0].message, wanted);
}

#[test]
fn a_revert_of_lines_that_changed_again_is_refused_and_changes_nothing() {
    let repository = Repository::new();
    repository.commit("first\n", &[("one.yaml", "a\n")]);
    let upgrade = repository.commit("upgrade\n", &[("one.yaml", "b\n")]);
    repository.commit("again\n", &[("one.yaml", "c\n")]);
    let refused = repository.revert(&upgrade).expect_err("a conflict");
    assert!(matches!(refused, LocalError::RevertConflicts { commit } if commit == upgrade));
    assert_eq!(repository.text("one.yaml").as_deref(), Some("c\n"));
}

#[test]
fn a_repository_that_is_there_is_not_taken_for_a_new_one() {
    let repository = Repository::new();
    assert!(LocalRepository::init(repository.local.folder(), "main").is_err());
}
