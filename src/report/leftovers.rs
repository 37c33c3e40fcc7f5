//! Packages on hosts that nothing looks after any more.
//!
//! In: what the planner saw. Out: package versions with their nodes, and why they stay. A package
//! that will be uninstalled is not among them, nor one whose resource cannot be read: that one is
//! frozen, not left.

use std::collections::BTreeMap;

use crate::model::{Entry, Input, Node, PackageId, Rollout};

use super::needs::NAMES_MAX;
use super::state::{LeftBehind, NamedNodes};

/// Package versions told; a fleet with more of them has been without care for years.
const LEFT_MAX: usize = 200;

/// Why a package stays on a host, as what is said of its rollout.
const DESELECTED: &str = "no longer selects the node: what it installed stays there";
const GONE: &str = "is gone: what it installed stays; a NodeWright of that name takes it up again";
const UNREADABLE: &str =
    "cannot be read: what it installed stays as it is until its resource is mended";
pub(super) const FORGOTTEN: &str =
    "let the node go when somebody asked (nodewright forget): what it installed may still be there";
const REMOVED: &str = "names it no more, and it has no uninstall";

/// Returns what is left, by rollout, package and version.
pub(super) fn find(input: &Input) -> Vec<LeftBehind> {
    let mut found: BTreeMap<(&str, PackageId, &'static str), NamedNodes> = BTreeMap::new();
    for node in input.observed.nodes.values() {
        for (rollout, state) in &node.rollouts {
            if state.entries.is_empty() && state.left.is_empty() {
                continue;
            }
            let wanted = selecting(input, node, rollout);
            let cared_for = |entry: &Entry| {
                let unreadable = input.desired.invalid.contains_key(rollout);
                unreadable || wanted.is_some_and(|it| is_cared_for(input, it, entry))
            };
            let why = wanted.map_or_else(|| because(input, rollout), |_| REMOVED);
            let kept = state.entries.values().filter(|entry| !cared_for(entry));
            let forgotten = state.left.values().map(|entry| (entry, FORGOTTEN));
            for (entry, why) in kept.map(|entry| (entry, why)).chain(forgotten) {
                let nodes = found.entry((rollout, entry.id(), why)).or_default();
                nodes.total += 1;
                if nodes.first.len() < NAMES_MAX {
                    nodes.first.push(node.name.clone());
                }
            }
        }
    }
    let told =
        found.into_iter().take(LEFT_MAX).map(|((rollout, package, why), nodes)| LeftBehind {
            rollout: rollout.to_owned(),
            package: package.name,
            version: package.version,
            why,
            nodes,
        });
    told.collect()
}

/// Returns why nothing looks after what a rollout put on a node that it does not work on.
pub(super) fn because(input: &Input, rollout: &str) -> &'static str {
    if input.desired.invalid.contains_key(rollout) {
        UNREADABLE
    } else if input.observed.resources.contains_key(rollout) {
        DESELECTED
    } else {
        GONE
    }
}

/// Returns the rollout as it is wanted, if it works on the node.
fn selecting<'a>(input: &'a Input, node: &Node, rollout: &str) -> Option<&'a Rollout> {
    let live = input.observed.resources.contains_key(rollout);
    let wanted = input.desired.rollouts.get(rollout).filter(|_| live);
    wanted.filter(|wanted| wanted.selects(&node.labels))
}

/// Returns whether the package is wanted, or will be uninstalled with what it was installed with.
fn is_cared_for(input: &Input, wanted: &Rollout, entry: &Entry) -> bool {
    let snapshot = entry.snapshot.as_ref().and_then(|it| input.observed.snapshots.get(it));
    let goes = snapshot.is_some_and(|snapshot| snapshot.package.uninstall.enabled);
    wanted.packages.contains_key(&entry.name) || goes
}
