//! What is still to come on a node: packages with their versions, and what each does to it.
//!
//! In: what is wanted and what the node's entries say. Out: one line a package. The planner decides
//! what runs; this names it from the same facts, and leaves out what they do not tell.

use crate::model::{
    Entry, Input, Node, Package, Rollout, Stage, State, Verdict, VerdictKind, Version,
};

/// Returns what is still to come, in the order of the packages' names.
pub(super) fn steps(
    input: &Input,
    node: &Node,
    rollout: &Rollout,
    verdict: &Verdict,
) -> Vec<String> {
    if verdict.kind == VerdictKind::Done {
        return Vec::new();
    }
    let deleting = input.observed.resources.get(&rollout.name).is_some_and(|it| it.deleting);
    let entries = node.entries(&rollout.name);
    if deleting {
        return entries.values().map(|entry| leaving(rollout, entry)).collect();
    }
    let wanted = rollout.packages.values();
    wanted.filter_map(|package| step(input, node, rollout, package)).collect()
}

fn leaving(rollout: &Rollout, entry: &Entry) -> String {
    let enabled =
        rollout.packages.get(&entry.name).is_some_and(|package| package.uninstall.enabled);
    let what = if enabled { "uninstall" } else { "stays on the host, has no uninstall" };
    format!("{} {}: {what}", entry.name, entry.version)
}

fn step(input: &Input, node: &Node, rollout: &Rollout, package: &Package) -> Option<String> {
    let entries = node.entries(&rollout.name);
    let name = &package.name;
    let version = &package.version;
    let entry = entries.get(&package.id());
    if package.uninstall.apply {
        let there = entries.values().find(|entry| entry.name == *name)?;
        return Some(format!("{name} {}: uninstall", there.version));
    }
    let before = entries.values().find(|other| other.name == *name && Some(*other) != entry);
    let Some(entry) = entry else {
        let (from, first) = match before {
            Some(before) => (format!("{} → ", before.version), first_stage(before, package)),
            None => (String::new(), Stage::Apply),
        };
        let interrupt = package.interrupt.as_ref().map(|interrupt| interrupt.kind.as_str());
        let held = if interrupt.is_some() { "cordon, drain, " } else { "" };
        let then = interrupt.map(|kind| format!(", {kind}, post-interrupt")).unwrap_or_default();
        return Some(format!("{name} {from}{version}: {held}{first}, config{then}"));
    };
    let rest = rest(input, rollout, package, entry);
    (!rest.is_empty()).then(|| format!("{name} {version}: {}", rest.join(", ")))
}

fn first_stage(before: &Entry, package: &Package) -> Stage {
    let lower = before
        .version
        .parse::<Version>()
        .is_ok_and(|version| version.precedence(&package.version) == std::cmp::Ordering::Less);
    if lower { Stage::Upgrade } else { Stage::Apply }
}

/// Returns the stages after the ones that are complete, for a version that has begun.
fn rest(input: &Input, rollout: &Rollout, package: &Package, entry: &Entry) -> Vec<String> {
    let interrupt = package.interrupt.as_ref();
    let complete = entry.state == State::Complete;
    let ended = entry.stage == Stage::PostInterrupt
        || (entry.stage == Stage::Config && package.interrupt.is_none());
    if complete && ended {
        return changed(input, rollout, package, entry);
    }
    let mut stages = match entry.stage {
        Stage::Apply | Stage::Upgrade => vec![entry.stage, Stage::Config],
        Stage::Config => vec![Stage::Config],
        Stage::Interrupt | Stage::PostInterrupt => Vec::new(),
        Stage::Uninstall | Stage::UninstallInterrupt => vec![entry.stage],
    };
    if complete && !stages.is_empty() {
        stages.remove(0);
    }
    let mut words: Vec<String> = stages.iter().map(ToString::to_string).collect();
    let interrupted =
        entry.stage == Stage::PostInterrupt || (entry.stage == Stage::Interrupt && complete);
    if let Some(interrupt) = interrupt.filter(|_| !interrupted) {
        words.push(interrupt.kind.as_str().to_owned());
    }
    if interrupt.is_some() {
        words.push(Stage::PostInterrupt.to_string());
    }
    words
}

/// Returns what a changed configuration of a complete package leads to.
fn changed(input: &Input, rollout: &Rollout, package: &Package, entry: &Entry) -> Vec<String> {
    let put = entry.snapshot.as_ref();
    let wanted = package.snapshot_name(&rollout.name);
    let Some(put) = put.filter(|name| **name != wanted) else { return Vec::new() };
    let Some(snapshot) = input.observed.snapshots.get(put) else {
        return vec!["config (what was put there is not known any more)".to_owned()];
    };
    let keys = package.changed_keys(&snapshot.package);
    if keys.is_empty() {
        return Vec::new();
    }
    let named: Vec<&str> = keys.iter().map(String::as_str).collect();
    let config = format!("config ({})", named.join(", "));
    match package.interrupt_for(&keys) {
        Some(interrupt) => vec![
            "cordon".to_owned(),
            "drain".to_owned(),
            config,
            interrupt.kind.as_str().to_owned(),
            Stage::PostInterrupt.to_string(),
        ],
        None => vec![config],
    }
}
