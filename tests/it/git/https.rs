//! Fetch and push over HTTPS with a private CA, against Git's own `http-backend`.

mod server;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nodewright::git::{Disposition, Remote, StatusBranch, StatusError, TransportError, Written};

use self::server::{Authority, PASSWORD, Server, TOKEN, USER};
use super::status::{BRANCH, UID, status, write};
use super::{Cache, Origin, remote};

/// A credentials folder with these files.
fn credentials(folder: &Path, files: &[(&str, &str)]) -> PathBuf {
    let name: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let path = folder.join(format!("{}-{}", name.join("-"), fastrand::u32(..)));
    fs::create_dir_all(&path).expect("a folder");
    for (name, content) in files {
        fs::write(path.join(name), content).expect("written");
    }
    path
}

struct World {
    origin: Origin,
    server: Server,
    ca: String,
    folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let origin = Origin::new();
        origin.commit("main", &[("a.yaml", "a: 1")]);
        let authority = Authority::new();
        let server = Server::start(origin.root(), &authority, "127.0.0.1").await;
        let folder = tempfile::tempdir().expect("a folder");
        Self { origin, server, ca: authority.pem, folder }
    }

    fn remote(&self, files: &[(&str, &str)]) -> Remote {
        let folder = credentials(self.folder.path(), files);
        remote(&self.server.address("fleet.git"), Some(folder))
    }

    fn trusted(&self) -> Remote {
        self.remote(&[("username", USER), ("password", PASSWORD), ("ca.crt", &self.ca)])
    }

    fn status_branch(&self, cache: &Cache) -> StatusBranch {
        let remote = self.trusted();
        let source = cache.source(&remote);
        StatusBranch::new(remote, cache.path(), "prod-a", UID, Some(&source))
            .expect("a status branch")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fetch_and_push_work_with_a_password_and_a_private_ca() {
    let world = World::new().await;
    let cache = Cache::new();
    let fetched =
        cache.transport.fetch(cache.request(&world.trusted(), "main")).await.expect("fetched");
    assert_eq!(fetched.source, world.origin.tip("main"));

    let mut branch = world.status_branch(&cache);
    let written = write(&mut branch, &cache, &status("Opened"), 1).await.expect("written");
    let Written::Pushed { commit, seq: 1, attempts: 1, .. } = &written else {
        panic!("{written:?}")
    };
    assert_eq!(world.origin.tip(BRANCH).as_ref(), Some(commit));
    let again = write(&mut branch, &cache, &status("Opened"), 1).await.expect("compared");
    assert_eq!(again, Written::Unchanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bearer_token_works_where_the_server_takes_one_and_old_key_names_too() {
    let world = World::new().await;
    let cache = Cache::new();
    let remote = world.remote(&[("bearerToken", TOKEN), ("caFile", &world.ca)]);
    let fetched = cache.transport.fetch(cache.request(&remote, "main")).await.expect("fetched");
    assert_eq!(fetched.source, world.origin.tip("main"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_has_its_own_kind_and_shows_no_secret() {
    let world = World::new().await;
    let ca = world.ca.as_str();
    let other = Authority::new();
    let cases: BTreeMap<&str, (&str, Remote)> = BTreeMap::from([
        (
            "a wrong password",
            (
                "authentication",
                world.remote(&[("username", USER), ("password", "wr0ng\n"), ("ca.crt", ca)]),
            ),
        ),
        ("no credentials", ("authentication", world.remote(&[("ca.crt", ca)]))),
        (
            "a wrong token",
            ("authentication", world.remote(&[("bearerToken", "wr0ng"), ("ca.crt", ca)])),
        ),
        (
            "an unknown CA",
            ("certificate", world.remote(&[("username", USER), ("password", PASSWORD)])),
        ),
        (
            "another CA",
            ("certificate", world.remote(&[("password", PASSWORD), ("ca.crt", &other.pem)])),
        ),
        (
            "a CA file that holds none",
            ("credentials", world.remote(&[("password", PASSWORD), ("ca.crt", "nothing")])),
        ),
        (
            "an empty password",
            ("credentials", world.remote(&[("password", " \n"), ("ca.crt", ca)])),
        ),
        (
            "no credentials folder",
            (
                "credentials",
                remote(&world.server.address("fleet.git"), Some("/nowhere/at/all".into())),
            ),
        ),
        (
            "no such repository",
            (
                "repositoryMissing",
                remote(&world.server.address("other.git"), world.trusted().credentials),
            ),
        ),
        (
            "a redirect to another host",
            (
                "repositoryMissing",
                remote(&world.server.address("moved.git"), world.trusted().credentials),
            ),
        ),
        (
            "a broken server",
            ("server", remote(&world.server.address("broken.git"), world.trusted().credentials)),
        ),
    ]);
    for (case, (kind, remote)) in cases {
        let cache = Cache::new();
        let error = cache.transport.fetch(cache.request(&remote, "main")).await.expect_err(case);
        let json = serde_json::to_value(&error).expect("an error as JSON");
        assert_eq!(json["kind"], kind, "{case}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("wr0ng"), "{case}: {error:?}");
        assert!(!error.way_out().is_empty());
        let retried = error.disposition() == Disposition::Retry;
        assert_eq!(retried, kind == "server", "{case}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_is_cut_short_or_damaged_is_an_error_and_leaves_no_tip() {
    let world = World::new().await;
    let noise: String = (0..50_000).map(|_| fastrand::alphanumeric()).collect();
    let tip = world.origin.commit("main", &[("a.yaml", "a: 1"), ("noise.txt", &noise)]);
    let cache = Cache::new();
    for name in ["cut.git", "bent.git"] {
        let remote = remote(&world.server.address(name), world.trusted().credentials);
        let error = cache.transport.fetch(cache.request(&remote, "main")).await.expect_err(name);
        assert_eq!(error.disposition(), Disposition::Retry, "{name}: {error:?}");
        assert!(cache.repository().refname_to_id("refs/nodewright/source/main").is_err());
    }
    let fetched = cache.transport.fetch(cache.request(&world.trusted(), "main")).await;
    assert_eq!(fetched.expect("the same cache works").source, Some(tip));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_name_is_refused() {
    let origin = Origin::new();
    origin.commit("main", &[("a.yaml", "a: 1")]);
    let authority = Authority::new();
    let server = Server::start(origin.root(), &authority, "git.example.org").await;
    let folder = tempfile::tempdir().expect("a folder");
    let files = [("username", USER), ("password", PASSWORD), ("ca.crt", &authority.pem)];
    let remote = remote(&server.address("fleet.git"), Some(credentials(folder.path(), &files)));
    let cache = Cache::new();
    let error = cache.transport.fetch(cache.request(&remote, "main")).await.expect_err("refused");
    assert!(matches!(error, TransportError::Certificate { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t27_a_push_that_a_hook_refuses_is_permanent_and_tried_once() {
    let world = World::new().await;
    let cache = Cache::new();
    let mut branch = world.status_branch(&cache);
    let hook = world.origin.path().join("hooks/pre-receive");
    fs::create_dir_all(hook.parent().expect("a folder")).expect("made");
    fs::write(&hook, "#!/bin/sh\necho not today >&2\nexit 1\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&hook, mode).expect("made a program");

    let error = write(&mut branch, &cache, &status("Done"), 1).await.expect_err("refused");
    let StatusError::Transport { attempts: 1, source, .. } = &error else { panic!("{error:?}") };
    let TransportError::PushRefused { message, .. } = &**source else { panic!("{source:?}") };
    assert_eq!(message, "pre-receive hook declined");
    assert_eq!(error.disposition(), Disposition::GiveUp);
    assert_eq!(world.origin.tip(BRANCH), None);

    fs::remove_file(&hook).expect("the rule is gone");
    let written = write(&mut branch, &cache, &status("Done"), 1).await.expect("written");
    assert!(matches!(written, Written::Pushed { seq: 1, attempts: 1, .. }), "{written:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_lost_the_race_on_the_server_is_built_again_on_the_new_tip() {
    let world = World::new().await;
    let cache = Cache::new();
    let mut branch = world.status_branch(&cache);
    write(&mut branch, &cache, &status("Opened"), 1).await.expect("written");

    // Between what the server advertised to us and our push, somebody else's push lands.
    let path = world.origin.path();
    world.server.before_next_push(move || {
        let repository = git2::Repository::open_bare(&path).expect("the repository");
        let name = format!("refs/heads/{BRANCH}");
        let tip = repository.find_reference(&name).expect("it").peel_to_commit().expect("a tip");
        let who = git2::Signature::now("Eve", "eve@example.org").expect("a name");
        let tree = tip.tree().expect("a tree");
        repository.commit(Some(&name), &who, &who, "mine\n", &tree, &[&tip]).expect("a commit");
    });
    let written = write(&mut branch, &cache, &status("Done"), 1).await.expect("written");
    let Written::Pushed { seq: 2, attempts: 2, foreign: Some(foreign), .. } = &written else {
        panic!("{written:?}");
    };
    let subjects = world.origin.git(&["log", "--format=%s", BRANCH]);
    let subjects: Vec<&str> = subjects.lines().collect();
    assert_eq!(subjects, ["status(prod-a): Done", "mine", "status(prod-a): Opened"], "{foreign}");
}
