//! Servers that hang, lie, or send too much: an error each, and no process left behind.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nodewright::git::{Disposition, TRANSPORT_VERB, Transport, TransportError, transport_main};

use super::{Cache, Origin, remote};

/// A credentials folder that ssh accepts as complete; no connection gets as far as using it.
fn ssh_credentials(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("credentials");
    fs::create_dir_all(&path).expect("a folder");
    fs::write(path.join("identity"), "not a key").expect("written");
    fs::write(path.join("known_hosts"), "# none").expect("written");
    path
}

/// Whether a process still has this folder as its home.
fn processes_at_home(home: &Path) -> usize {
    let wanted = format!("HOME={}", home.display());
    let environments = fs::read_dir("/proc").expect("proc").flatten();
    let texts = environments.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    texts.filter(|text| text.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes())).count()
}

#[test]
fn a_server_that_accepts_and_never_answers_is_given_up_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("a connection");
        let mut bytes = Vec::new();
        // Ends when the killed client's connection closes.
        let _length = connection.read_to_end(&mut bytes);
    });
    let mut cache = Cache::new();
    cache.transport.deadline = Duration::from_secs(1);
    let error = cache
        .fetch(&remote(&format!("https://127.0.0.1:{port}/fleet"), None), "main")
        .expect_err("no answer");
    let TransportError::Deadline { seconds: 1, .. } = &error else { panic!("{error:?}") };
    assert_eq!(error.disposition(), Disposition::Retry);
    server.join().expect("the connection was closed");
    assert_eq!(processes_at_home(&cache.path()), 0, "a transport process is left");
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let cache = Cache::new();
    let folder = tempfile::tempdir().expect("a folder");
    let credentials = ssh_credentials(folder.path());
    for (scheme, credentials) in [("https", None), ("ssh", Some(credentials))] {
        let error = cache
            .fetch(&remote(&format!("{scheme}://127.0.0.1:{port}/fleet"), credentials), "main")
            .expect_err("refused");
        assert!(matches!(error, TransportError::Unreachable { .. }), "{scheme}: {error:?}");
        assert_eq!(error.disposition(), Disposition::Retry);
    }
}

#[test]
fn a_server_that_talks_nonsense_is_an_error_and_nothing_worse() {
    for greeting in [&b"SSH-2.0-x\r\n\0\0\0\x0cgarbage-garbage"[..], b"\xff\xfe\0\0", b""] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let greeting = greeting.to_owned();
        let server = thread::spawn(move || {
            let (mut connection, _): (TcpStream, _) = listener.accept().expect("a connection");
            connection.write_all(&greeting).expect("sent");
        });
        let folder = tempfile::tempdir().expect("a folder");
        let mut cache = Cache::new();
        cache.transport.deadline = Duration::from_secs(10);
        let credentials = Some(ssh_credentials(folder.path()));
        let error = cache
            .fetch(&remote(&format!("ssh://127.0.0.1:{port}/fleet"), credentials), "main")
            .expect_err("nonsense");
        assert_ne!(error.disposition(), Disposition::Conflict, "{error:?}");
        server.join().expect("served");
    }
}

#[test]
fn a_transfer_over_a_bound_is_stopped_and_leaves_no_tip() {
    let origin = Origin::new();
    let noise: String = (0..200_000).map(|_| fastrand::alphanumeric()).collect();
    origin.commit("main", &[("big.txt", &noise), ("a.yaml", "a: 1")]);
    for (bytes, objects, word) in [(10_000, 1_000, "bytes"), (10_000_000, 2, "objects")] {
        let cache = Cache::new();
        let mut request = cache.request(&origin.remote(), "main");
        request.limits.received_max_bytes = bytes;
        request.limits.objects_max = objects;
        let error = cache.transport.fetch_blocking(request).expect_err("too large");
        let TransportError::TooLarge { detail, .. } = &error else { panic!("{error:?}") };
        assert!(detail.contains(word), "{detail}");
        assert!(cache.repository().refname_to_id("refs/nodewright/source/main").is_err());
    }
}

#[test]
fn damaged_objects_and_references_of_a_server_are_errors() {
    let origin = Origin::new();
    origin.commit("main", &[("a.yaml", "a: 1")]);
    let blob = origin.repository.blob(b"a: 1").expect("the id").to_string();
    let object = origin.path().join("objects").join(&blob[..2]).join(&blob[2..]);
    fs::remove_file(&object).expect("removed");
    fs::write(&object, b"x\x01 not zlib").expect("damaged");
    let error = Cache::new().fetch(&origin.remote(), "main").expect_err("a damaged object");
    assert_ne!(error.disposition(), Disposition::Conflict, "{error:?}");

    let origin = Origin::new();
    origin.commit("other", &[("a.yaml", "a: 1")]);
    fs::write(origin.path().join("refs/heads/main"), "\u{0}garbage\n").expect("written");
    let error = Cache::new().fetch(&origin.remote(), "main").expect_err("a garbage reference");
    assert_ne!(error.disposition(), Disposition::Conflict, "{error:?}");
}

#[test]
fn a_child_that_dies_or_babbles_is_told_with_its_last_words() {
    let origin = Origin::new();
    let cache = Cache::new();
    let folder = tempfile::tempdir().expect("a folder");
    let script = |name: &str, body: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).expect("made a program");
        Transport::new(path)
    };
    let cases = [
        (script("dies", "echo see https://u:p@h/x >&2; exit 9"), "9: see https://***@h/x"),
        (script("babbles", "echo hello"), "not JSON"),
        (script("lies", "echo '{\"answer\":\"pushed\"}'"), "something else"),
    ];
    for (transport, wanted) in cases {
        let error = transport
            .fetch_blocking(cache.request(&origin.remote(), "main"))
            .expect_err("no answer");
        let TransportError::ChildFailed { detail, .. } = &error else { panic!("{error:?}") };
        assert!(detail.contains(wanted), "{detail}");
    }
}

#[test]
fn a_transport_whose_daemon_died_ends_by_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let cache = Cache::new();
    let fetch = cache.request(&remote(&format!("https://127.0.0.1:{port}/fleet"), None), "main");
    let request = serde_json::json!({ "verb": "fetch", "fetch": fetch, "end_after_seconds": 1 });
    let mut child = Command::new(env!("CARGO_BIN_EXE_nodewright"))
        .arg(TRANSPORT_VERB)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    let input = serde_json::to_vec(&request).expect("JSON");
    child.stdin.take().expect("a pipe").write_all(&input).expect("sent");
    assert_eq!(child.wait().expect("ended").code(), Some(3));
}

#[test]
fn neither_our_environment_nor_configuration_at_home_reaches_the_transport() {
    let origin = Origin::new();
    let tip = origin.commit("main", &[("a.yaml", "a: 1")]);
    let cache = Cache::new();
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("environment");
    fs::write(&program, "#!/bin/sh\nenv >&2\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).expect("made a program");
    let error = Transport::new(program)
        .fetch_blocking(cache.request(&origin.remote(), "main"))
        .expect_err("no answer");
    let text = error.to_string();
    assert!(text.contains(&format!("HOME={}", cache.path().display())), "{text}");
    assert!(!text.contains("CARGO") && !text.contains("KUBERNETES"), "{text}");

    let elsewhere = "[url \"file:///nowhere/\"]\n\tinsteadOf = file:///\n";
    fs::write(cache.path().join(".gitconfig"), elsewhere).expect("written");
    let fetched = cache.fetch(&origin.remote(), "main").expect("fetched from where we asked");
    assert_eq!(fetched.source, Some(tip));
}

#[test]
fn a_request_that_is_none_is_refused() {
    for request in ["", "{}", "{\"verb\":\"fetch\"}", "\u{0}"] {
        let mut answer = Vec::new();
        assert!(transport_main(request.as_bytes(), &mut answer).is_err(), "{request}");
        assert!(answer.is_empty());
    }
}
