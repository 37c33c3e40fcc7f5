//! Fetch and push over SSH, against a real OpenSSH server.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nodewright::git::{Disposition, HostKeyProblem, Remote, StatusBranch, TransportError, Written};

use super::status::{BRANCH, UID, status, write};
use super::{Cache, Origin, remote};

const KEY_TYPES: [&str; 3] = ["ed25519", "ecdsa", "rsa"];

/// A server on loopback for whoever runs the test.
struct Sshd {
    process: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Sshd {
    fn start(host_keys: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let mut config = String::new();
        for key_type in host_keys {
            make_key(&path.join(key_type), key_type, "");
            config.push_str(&format!("HostKey {}\n", path.join(key_type).display()));
        }
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        config.push_str(&format!(
            "Port {port}\nListenAddress 127.0.0.1\nPidFile none\nAuthorizedKeysFile {}\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n",
            path.join("authorized_keys").display()
        ));
        fs::write(path.join("config"), config).expect("written");
        // Wanted by sshd when root starts it; others cannot make it and do not need it.
        drop(fs::create_dir_all("/run/sshd"));
        let mut process = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(path.join("config"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("sshd starts");
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let listening =
            lines.by_ref().map_while(Result::ok).find(|line| line.contains("listening"));
        assert!(listening.is_some(), "sshd listens");
        // Its log must go on being read, or it stops at a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, port, folder }
    }

    /// A line of known_hosts for one of the host keys.
    fn known(&self, key_type: &str) -> String {
        let public = self.folder.path().join(key_type).with_extension("pub");
        let key = fs::read_to_string(public).expect("a key");
        format!("[127.0.0.1]:{} {key}", self.port)
    }

    /// Makes a key that may log in; returns the private part.
    fn allow(&self, key_type: &str, passphrase: &str) -> String {
        let path = self.folder.path().join(format!("client-{key_type}-{}", passphrase.len()));
        make_key(&path, key_type, passphrase);
        let list = self.folder.path().join("authorized_keys");
        let before = fs::read_to_string(&list).unwrap_or_default();
        let key = fs::read_to_string(path.with_extension("pub")).expect("a key");
        fs::write(list, before + &key).expect("written");
        fs::read_to_string(path).expect("a key")
    }

    fn remote(&self, origin: &Origin, files: &[(&str, &str)]) -> Remote {
        let credentials = self.folder.path().join(format!("credentials-{}", fastrand::u64(..)));
        fs::create_dir_all(&credentials).expect("a folder");
        for (name, content) in files {
            fs::write(credentials.join(name), content).expect("written");
        }
        let user = run("id", &["-un"]);
        let path = origin.path();
        let address = format!("ssh://{}@127.0.0.1:{}{}", user.trim(), self.port, path.display());
        remote(&address, Some(credentials))
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the program runs");
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn make_key(path: &Path, key_type: &str, passphrase: &str) {
    let path = path.to_str().expect("text");
    let bits: &[&str] = if key_type == "rsa" { &["-b", "2048"] } else { &[] };
    let rest = ["-q", "-t", key_type, "-N", passphrase, "-C", "test", "-f", path];
    run("ssh-keygen", &[bits, &rest].concat());
}

#[tokio::test]
#[cfg_attr(
    not(sshd),
    ignore = "needs an OpenSSH server: apt-get install openssh-server, then cargo test"
)]
async fn fetch_and_push_work_with_a_key_and_a_known_host() {
    let origin = Origin::new();
    let tip = origin.commit("main", &[("a.yaml", "a: 1")]);
    let sshd = Sshd::start(&["ed25519"]);
    let cache = Cache::new();
    let identity = sshd.allow("ed25519", "");
    let known = sshd.known("ed25519");
    let remote = sshd.remote(&origin, &[("identity", &identity), ("known_hosts", &known)]);
    let fetched = cache.fetch(&remote, "main").expect("fetched");
    assert_eq!(fetched.source, Some(tip));

    let source = cache.source(&remote);
    let mut branch =
        StatusBranch::new(remote, cache.path(), "prod-a", UID, Some(&source)).expect("a branch");
    let written = write(&mut branch, &cache, &status("Opened"), 1).await.expect("written");
    let Written::Pushed { commit, .. } = &written else { panic!("{written:?}") };
    assert_eq!(origin.tip(BRANCH).as_ref(), Some(commit));
}

#[test]
#[cfg_attr(
    not(sshd),
    ignore = "needs an OpenSSH server: apt-get install openssh-server, then cargo test"
)]
fn every_key_type_works_on_both_sides_also_hashed_and_with_a_passphrase() {
    let origin = Origin::new();
    let tip = Some(origin.commit("main", &[("a.yaml", "a: 1")]));
    let sshd = Sshd::start(&KEY_TYPES);
    let identity = sshd.allow("ed25519", "");
    // The server would rather show another type than the one we know: it must be asked for that.
    for host_key in KEY_TYPES {
        let known = sshd.known(host_key);
        let remote = sshd.remote(&origin, &[("identity", &identity), ("known_hosts", &known)]);
        let fetched = Cache::new().fetch(&remote, "main").expect(host_key);
        assert_eq!(fetched.source, tip, "{host_key}");
    }
    let hashed = sshd.folder.path().join("hashed");
    fs::write(&hashed, KEY_TYPES.map(|it| sshd.known(it)).concat()).expect("written");
    run("ssh-keygen", &["-q", "-H", "-f", hashed.to_str().expect("text")]);
    let hashed = fs::read_to_string(hashed).expect("read");
    assert!(hashed.starts_with("|1|"), "{hashed}");
    for (client_key, passphrase) in [
        ("ed25519", ""),
        ("ecdsa", ""),
        ("rsa", ""),
        ("ed25519", "open sesame"),
        ("rsa", "open it"),
    ] {
        let identity = match (client_key, passphrase) {
            ("ed25519", "") => identity.clone(),
            _ => sshd.allow(client_key, passphrase),
        };
        let mut files = vec![("identity", identity.as_str()), ("known_hosts", &hashed)];
        if !passphrase.is_empty() {
            files.push(("password", passphrase));
        }
        let remote = sshd.remote(&origin, &files);
        let fetched = Cache::new().fetch(&remote, "main").expect(client_key);
        assert_eq!(fetched.source, tip, "{client_key}");
    }
}

#[test]
#[cfg_attr(
    not(sshd),
    ignore = "needs an OpenSSH server: apt-get install openssh-server, then cargo test"
)]
fn a_host_key_we_were_not_given_is_refused_with_type_fingerprint_and_way_out() {
    let origin = Origin::new();
    origin.commit("main", &[("a.yaml", "a: 1")]);
    let sshd = Sshd::start(&["ed25519", "ecdsa"]);
    let identity = sshd.allow("ed25519", "");
    let right = sshd.known("ed25519");
    let imposter = sshd.folder.path().join("imposter");
    make_key(&imposter, "ed25519", "");
    let other = fs::read_to_string(imposter.with_extension("pub")).expect("a key");
    let changed = format!("[127.0.0.1]:{} {other}", sshd.port);
    let elsewhere = format!("[git.example.org]:{} {other}", sshd.port);
    let revoked = format!("{right}@revoked {right}");
    let cases = [
        (changed.as_str(), HostKeyProblem::Changed),
        (elsewhere.as_str(), HostKeyProblem::UnknownHost { unread_lines: 0 }),
        (revoked.as_str(), HostKeyProblem::Revoked),
    ];
    for (known, wanted) in cases {
        let remote = sshd.remote(&origin, &[("identity", &identity), ("known_hosts", known)]);
        let error = Cache::new().fetch(&remote, "main").expect_err("refused");
        let TransportError::HostKey { host, port, key_type, fingerprint, problem } = &error else {
            panic!("{error:?}");
        };
        assert_eq!((host.as_str(), *port, problem), ("127.0.0.1", sshd.port, &wanted));
        let shown = sshd.folder.path().join(key_type.trim_start_matches("ssh-"));
        let file = match key_type.as_str() {
            "ecdsa-sha2-nistp256" => sshd.folder.path().join("ecdsa"),
            _ => shown,
        };
        let printed = run("ssh-keygen", &["-lf", file.to_str().expect("text")]);
        assert!(printed.contains(fingerprint.as_str()), "{fingerprint} is not in {printed}");
        assert!(error.way_out().contains("known_hosts"), "{}", error.way_out());
        assert_eq!(error.disposition(), Disposition::GiveUp);
    }
}

#[test]
#[cfg_attr(
    not(sshd),
    ignore = "needs an OpenSSH server: apt-get install openssh-server, then cargo test"
)]
fn missing_and_wrong_keys_are_told_apart() {
    let origin = Origin::new();
    origin.commit("main", &[("a.yaml", "a: 1")]);
    let sshd = Sshd::start(&["ed25519"]);
    let identity = sshd.allow("ed25519", "");
    let locked = sshd.allow("ed25519", "open sesame");
    let stranger = sshd.folder.path().join("stranger");
    make_key(&stranger, "ed25519", "");
    let stranger = fs::read_to_string(stranger).expect("a key");
    let known = sshd.known("ed25519");
    let known = known.as_str();
    let locked = locked.as_str();
    let cases = [
        ("no known_hosts", vec![("identity", identity.as_str())], "credentials"),
        ("no identity", vec![("known_hosts", known)], "credentials"),
        ("a stranger", vec![("identity", &stranger), ("known_hosts", known)], "authentication"),
        ("no key at all", vec![("identity", "nonsense"), ("known_hosts", known)], "credentials"),
        ("no passphrase", vec![("identity", locked), ("known_hosts", known)], "credentials"),
        (
            "a wrong passphrase",
            vec![("identity", locked), ("known_hosts", known), ("password", "wr0ng")],
            "credentials",
        ),
    ];
    for (case, files, kind) in cases {
        let remote = sshd.remote(&origin, &files);
        let error = Cache::new().fetch(&remote, "main").expect_err(case);
        let json = serde_json::to_value(&error).expect("an error as JSON");
        assert_eq!(json["kind"], kind, "{case}: {error:?}");
        assert!(!format!("{error:?}").contains("wr0ng"), "{case}: {error:?}");
    }
    let identity = [("identity", identity.as_str()), ("known_hosts", known)];
    let mut remote = sshd.remote(&origin, &identity);
    let elsewhere = format!("{}-not", remote.address);
    remote.address = super::remote(&elsewhere, None).address;
    let error = Cache::new().fetch(&remote, "main").expect_err("no repository");
    assert!(matches!(error, TransportError::RepositoryMissing { .. }), "{error:?}");
}
