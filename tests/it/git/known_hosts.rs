//! Host keys: every form of a known_hosts line, and every reason to refuse.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use nodewright::git::{HostKeyProblem, KnownHosts, fingerprint};
use sha1::Sha1;

/// A key in wire form: its type, then something that differs.
fn key(key_type: &str, content: &str) -> Vec<u8> {
    let mut key = Vec::new();
    for part in [key_type, content] {
        key.extend(u32::try_from(part.len()).expect("short").to_be_bytes());
        key.extend(part.as_bytes());
    }
    key
}

fn line(names: &str, key_type: &str, content: &str) -> String {
    format!("{names} {key_type} {} a comment", STANDARD.encode(key(key_type, content)))
}

fn hashed(name: &str) -> String {
    let salt = [7_u8; 20];
    let mac = Hmac::<Sha1>::new_from_slice(&salt).expect("any length").chain_update(name);
    format!("|1|{}|{}", STANDARD.encode(salt), STANDARD.encode(mac.finalize().into_bytes()))
}

#[test]
fn a_key_is_accepted_only_for_a_name_and_port_that_its_line_gives() {
    let ed = "ssh-ed25519";
    let cases = [
        ("git.example.org", "git.example.org", 22, true),
        ("git.example.org", "GIT.example.org", 22, true),
        ("other,git.example.org", "git.example.org", 22, true),
        ("git.example.org", "git.example.org", 2222, false),
        ("[git.example.org]:2222", "git.example.org", 2222, true),
        ("[git.example.org]:2222", "git.example.org", 22, false),
        ("*.example.org", "git.example.org", 22, true),
        ("*.example.org", "example.org", 22, false),
        ("git.exampl?.org", "git.example.org", 22, true),
        ("*.example.org,!git.example.org", "git.example.org", 22, false),
        ("[*]:2222", "git.example.org", 2222, true),
        ("git", "git.example.org", 22, false),
    ];
    for (names, host, port, accepted) in cases {
        let known = KnownHosts::parse(&line(names, ed, "one"));
        let outcome = known.check(host, port, &key(ed, "one"));
        assert_eq!(outcome.is_ok(), accepted, "{names} for {host}:{port}: {outcome:?}");
    }
}

#[test]
fn hashed_names_match_with_and_without_a_port() {
    let text = format!(
        "{}\n{}",
        line(&hashed("git.example.org"), "ssh-ed25519", "one"),
        line(&hashed("[git.example.org]:2222"), "ssh-ed25519", "two")
    );
    let known = KnownHosts::parse(&text);
    assert_eq!(known.check("git.example.org", 22, &key("ssh-ed25519", "one")), Ok(()));
    assert_eq!(known.check("git.example.org", 2222, &key("ssh-ed25519", "two")), Ok(()));
    assert_eq!(
        known.check("git.example.org", 22, &key("ssh-ed25519", "two")),
        Err(HostKeyProblem::Changed)
    );
}

#[test]
fn each_reason_to_refuse_is_told_apart() {
    let text = [
        line("git.example.org", "ssh-ed25519", "one"),
        line("git.example.org", "ecdsa-sha2-nistp256", "one"),
        format!("@revoked {}", line("*", "ssh-rsa", "stolen")),
        format!("@cert-authority {}", line("*.org", "ssh-rsa", "ca")),
        "# a comment".to_owned(),
        "not a line".to_owned(),
        line("git.example.org", "ssh-rsa", "x").replace("ssh-rsa", "ssh-dss"),
    ]
    .join("\n");
    let known = KnownHosts::parse(&text);
    let check = |host, key: &[u8]| known.check(host, 22, key).expect_err("refused");
    assert_eq!(check("git.example.org", &key("ssh-ed25519", "two")), HostKeyProblem::Changed);
    assert_eq!(
        check("git.example.org", &key("ssh-rsa", "one")),
        HostKeyProblem::UnknownType {
            known: vec!["ecdsa-sha2-nistp256".to_owned(), "ssh-ed25519".to_owned()]
        }
    );
    assert_eq!(check("git.example.org", &key("ssh-rsa", "stolen")), HostKeyProblem::Revoked);
    assert_eq!(
        check("elsewhere.org", &key("ssh-ed25519", "one")),
        HostKeyProblem::UnknownHost { unread_lines: 3 }
    );
    for garbage in [&b""[..], b"\xff\xff\xff\xff", b"\0\0\0\x05abc", b"\0\0\0\0"] {
        assert_eq!(check("git.example.org", garbage), HostKeyProblem::NoKey);
    }
}

#[test]
fn the_fingerprint_is_what_ssh_keygen_prints() {
    // `ssh-keygen -lf` on GitHub's published ed25519 key.
    let github = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
    let key = STANDARD.decode(github).expect("base64");
    assert_eq!(fingerprint(&key), "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU");
}
