//! Nothing in the tree names the machine it was written on, or where it got its crates.

use super::assert_tidy;
use super::source::files;

/// Folders of a machine; split, so that this file does not name them either.
const MACHINE: &[&str] = &[concat!("/wo", "rk/"), concat!("/tmp", "/h/"), concat!("/ro", "ot/")];

/// The one source of crates.
const CRATES: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The one source of Go modules, with no replacement on a disk or another host.
const GO_REPLACE: &str = "replace ";

/// Upstream mounts the host's root there in the executor (upstream contract D.2).
const MOUNT: &str = concat!("/ro", "ot/${SKYHOOK_DIR}");

fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.replace(MOUNT, "");
        for place in MACHINE {
            if line.contains(place) {
                complaints.push(format!("{path}:{}: names {place}: {line}", index + 1));
            }
        }
    }
    complaints
}

fn registries(path: &str, text: &str) -> Vec<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let wrong = |line: &str| match name {
        "Cargo.lock" => line.starts_with("source = ") && line != format!("source = \"{CRATES}\""),
        "Cargo.toml" => ["registry", "git =", "[source", "[patch", "http://"].iter().any(|word| {
            line.trim_start().starts_with(word) || line.contains(&format!(" {word} ="))
        }),
        "config.toml" => path.contains(".cargo/") && line.contains("://"),
        "go.mod" => line.trim_start().starts_with(GO_REPLACE) && line.contains("=> ."),
        _ => false,
    };
    let lines = text.lines().enumerate().filter(|(_, line)| wrong(line));
    lines.map(|(index, line)| format!("{path}:{}: {line}", index + 1)).collect()
}

#[test]
fn nothing_names_a_machine() {
    let found: Vec<String> =
        files().iter().flat_map(|(path, text)| machine_paths(path, text)).collect();
    assert_tidy(&found, "The tree says nothing of the machine it was written on.");
}

#[test]
fn crates_come_from_the_one_registry() {
    let found: Vec<String> =
        files().iter().flat_map(|(path, text)| registries(path, text)).collect();
    assert_tidy(&found, "Crates come from crates.io; where from exactly is the machine's matter.");
}

#[test]
fn machine_paths_are_found() {
    for place in MACHINE {
        let text = format!("first\nsee {place}notes.md");
        assert_eq!(machine_paths("README.md", &text).len(), 1, "{place}");
    }
    assert_eq!(machine_paths("README.md", "see rework/notes.md"), Vec::<String>::new());
}

#[test]
fn other_registries_are_found() {
    let bad = [
        ("Cargo.lock", "source = \"registry+https://mirror.example/index\""),
        ("Cargo.lock", "source = \"sparse+https://mirror.example/\""),
        ("Cargo.toml", "registry = \"mirror\""),
        ("Cargo.toml", "serde = { version = \"1\", registry = \"mirror\" }"),
        ("Cargo.toml", "[source.crates-io]"),
        (".cargo/config.toml", "registry = \"https://mirror.example\""),
        ("tests/control-plane/go.mod", "replace k8s.io/kubernetes => ../kubernetes"),
    ];
    for (path, text) in bad {
        assert_eq!(registries(path, text).len(), 1, "{path}: {text}");
    }
    let good = [
        ("Cargo.lock", format!("source = \"{CRATES}\"")),
        ("Cargo.toml", "serde = \"1\"".to_owned()),
        ("src/manifest/x.rs", "registry = 1".to_owned()),
    ];
    for (path, text) in good {
        assert_eq!(registries(path, &text), Vec::<String>::new(), "{path}: {text}");
    }
}
