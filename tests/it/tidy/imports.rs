//! Who may import whom: the rooms of the house, and which room alone uses which outside crate.

use super::assert_tidy;
use super::paths::paths;
use super::source::{Source, root, rust_files};

/// Each room with the rooms it may import; its own is understood.
const ROOMS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("api", &["model"]),
    ("manifest", &["api", "model"]),
    ("plan", &["model"]),
    ("report", &["model"]),
    ("git", &["model", "clock"]),
    ("cluster", &["api", "model", "clock"]),
    ("agent", &[]),
    ("sim", &["api", "model", "clock"]),
    ("daemon", &["api", "cluster", "git", "manifest", "model", "plan", "report", "clock"]),
    (
        "cli",
        &[
            "agent", "api", "cluster", "daemon", "git", "manifest", "model", "plan", "report",
            "sim", "clock",
        ],
    ),
    ("clock", &[]),
    ("lib", &[]),
    ("main", &["cli"]),
];

/// Paths outside that only these rooms may name. The longest that fits counts.
const OUTSIDE: &[(&str, &[&str])] = &[
    ("axum", &["daemon"]),
    ("clap", &["cli"]),
    ("git2", &["git"]),
    ("kube", &["cluster", "sim", "daemon", "cli"]),
    ("kube::CustomResource", &["api"]),
    ("kube::CustomResourceExt", &["api"]),
    ("kube::KubeSchema", &["api"]),
    // Plain types of the API, no client behind them.
    ("kube::ResourceExt", &["api", "manifest", "cluster", "sim", "daemon", "cli"]),
    ("kube::core", &["model", "api", "manifest", "cluster", "sim", "daemon", "cli"]),
    ("notify", &["git"]),
    ("prometheus_client", &["daemon"]),
    ("saphyr_parser", &["manifest"]),
    ("schemars", &["api"]),
    ("serde_yaml", &["manifest"]),
    // A decision, a noun and a sentence are pure: what happens to them is logged by who asked.
    ("tokio", &["clock", "agent", "git", "cluster", "sim", "daemon", "cli", "main"]),
    ("tracing", &["agent", "git", "cluster", "sim", "daemon", "cli", "main"]),
];

/// Rooms that use no outside crate but these.
const ONLY: &[(&str, &[&str])] = &[("plan", &["jiff", "k8s_openapi", "serde_json"])];

fn allowed(room: &str) -> Option<&'static [&'static str]> {
    ROOMS.iter().find(|(name, _)| *name == room).map(|(_, rooms)| *rooms)
}

/// Returns the names, as code spells them, of the crates that `Cargo.toml` asks for.
fn crates(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut crates = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        } else if inside && let Some((name, _)) = line.split_once('=') {
            crates.push(name.trim().replace('-', "_"));
        }
    }
    crates
}

fn complaints(source: &Source, crates: &[String]) -> Vec<String> {
    let Some(room) = source.room() else { return Vec::new() };
    let Some(rooms) = allowed(room) else {
        return vec![source.complain(1, &format!("the room {room} is not in the table"))];
    };
    let mut complaints = Vec::new();
    for named in paths(source) {
        let Some(segments) = absolute(source, &named.segments) else { continue };
        let wrong = match segments.first().map(String::as_str) {
            Some("crate") => segments.get(1).and_then(|other| ours(room, rooms, other)),
            Some(name) if crates.iter().any(|known| known == name) => outside(room, &segments),
            Some(_) | None => None,
        };
        if let Some(wrong) = wrong {
            let text = format!("{wrong}: {}", segments.join("::"));
            complaints.push(source.complain(named.line, &text));
        }
    }
    complaints
}

fn ours(room: &str, rooms: &[&str], other: &str) -> Option<String> {
    let is_room = allowed(other).is_some();
    let fine = !is_room || other == room || rooms.contains(&other);
    (!fine).then(|| format!("{room} may not import {other}, only {rooms:?}"))
}

fn outside(room: &str, segments: &[String]) -> Option<String> {
    let path = segments.join("::");
    if let Some((_, only)) = ONLY.iter().find(|(name, _)| *name == room)
        && !only.contains(&segments[0].as_str())
    {
        return Some(format!("{room} uses no outside crate but {only:?}"));
    }
    let fits = |rule: &str| path == rule || path.starts_with(&format!("{rule}::"));
    let (rule, rooms) =
        OUTSIDE.iter().filter(|(rule, _)| fits(rule)).max_by_key(|(rule, _)| rule.len())?;
    (!rooms.contains(&room)).then(|| format!("{rule} is for {rooms:?}"))
}

/// Returns the path from the root of the crate, or from an outside crate; `None` for one that
/// stays in its module.
fn absolute(source: &Source, segments: &[String]) -> Option<Vec<String>> {
    let first = segments.first()?.as_str();
    if first == "nodewright" {
        let rest = segments[1..].iter().cloned();
        return Some(std::iter::once("crate".to_owned()).chain(rest).collect());
    }
    if first != "super" {
        return Some(segments.to_vec());
    }
    let mut module: Vec<&str> = source.path.strip_prefix("src/")?.split('/').collect();
    let file = module.pop()?.strip_suffix(".rs")?;
    if !["mod", "lib", "main"].contains(&file) {
        module.push(file);
    }
    let up = segments.iter().take_while(|segment| *segment == "super").count();
    module.truncate(module.len().saturating_sub(up));
    let full = std::iter::once("crate").chain(module).map(str::to_owned);
    Some(full.chain(segments[up..].iter().cloned()).collect())
}

fn table() -> String {
    let rooms = ROOMS.iter().map(|(room, rooms)| format!("  {room} → {}", rooms.join(", ")));
    let outside = OUTSIDE.iter().map(|(path, rooms)| format!("  {path} in {}", rooms.join(", ")));
    let only = ONLY.iter().map(|(room, crates)| format!("  {room} only {}", crates.join(", ")));
    let lines: Vec<String> = rooms.chain(outside).chain(only).collect();
    format!("An import against the table (tests/it/tidy/imports.rs):\n{}", lines.join("\n"))
}

fn our_crates() -> Vec<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    crates(&manifest)
}

#[test]
fn rooms_import_only_what_the_table_says() {
    let crates = our_crates();
    for (rule, _) in OUTSIDE {
        let name = rule.split(':').next().unwrap_or_default();
        assert!(crates.iter().any(|known| known == name), "{rule} is no dependency any more");
    }
    let found: Vec<String> =
        rust_files().iter().flat_map(|source| complaints(source, &crates)).collect();
    assert_tidy(&found, &table());
}

#[test]
fn every_room_of_the_table_exists() {
    for (room, _) in ROOMS {
        let folder = root().join("src").join(room);
        assert!(folder.is_dir() || folder.with_extension("rs").is_file(), "{room} is gone");
    }
}

#[test]
fn imports_against_the_table_are_found() {
    let crates = our_crates();
    let bad = [
        ("src/model/x.rs", "use crate::api::Spec;"),
        ("src/plan/x.rs", "use crate::{model::Node, clock::Clock};"),
        ("src/plan/x.rs", "fn now() { super::super::git::fetch() }"),
        ("src/plan/visit/x.rs", "use tracing::info;"),
        ("src/plan/x.rs", "let r = regex::Regex::new(text);"),
        ("src/cluster/act.rs", "use crate::plan;"),
        ("src/daemon/mod.rs", "use super::{sim, agent};"),
        ("src/report/x.rs", "use serde_yaml as yaml;"),
        ("src/manifest/x.rs", "use kube::{core::Selector, Client};"),
        ("src/main.rs", "use nodewright::daemon;"),
        ("src/shed/x.rs", ""),
    ];
    for (path, text) in bad {
        let found = complaints(&Source::new(path, text), &crates);
        assert!(!found.is_empty(), "{path} may not say {text}");
    }
    let good = [
        ("src/plan/x.rs", "use super::Done; use crate::model::{Node, Pod}; use jiff::Timestamp;"),
        ("src/plan/visit/x.rs", "use super::super::due::{self, Need}; // crate::git::fetch"),
        ("src/api/x.rs", "#[derive(kube::CustomResource, schemars::JsonSchema)] struct S;"),
        ("src/manifest/x.rs", "use kube::core::Selector;"),
        ("src/cli/x.rs", "use crate::{sim, agent, daemon}; use kube::Client;"),
        ("tests/it/x.rs", "use git2::Repository;"),
    ];
    for (path, text) in good {
        let found = complaints(&Source::new(path, text), &crates);
        assert_eq!(found, Vec::<String>::new(), "{text}");
    }
}
