//! The first use of a package input in this cluster: one node has it before others get it.
//!
//! In: what is wanted, and what every node of the cluster says. Out: which packages no node has
//! had to the end, who has them at work, and how many more may begin. A package input is what a
//! snapshot holds: version, configuration, environment, image. Decided from the nodes each time,
//! so nothing is remembered and nothing can be forgotten. Must never: hold a node that needs
//! nothing new, or take an uninstall for a first use.

use std::collections::{BTreeMap, BTreeSet};

use super::count;
use super::due;
use super::select::Scope;
use crate::model::{
    Action, Entry, Input, Node, Package, PackageId, PatchKind, Plan, Record, State,
};

/// The packages of a rollout that are new to the cluster.
pub(crate) struct FirstUse<'a> {
    scope: &'a Scope<'a>,
    /// Nodes that may have one at work at once.
    limit: u32,
    /// By name: the snapshots that hold the same input, of whichever rollout.
    unproven: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> FirstUse<'a> {
    /// Looks at all nodes for every wanted package.
    pub(crate) fn new(scope: &'a Scope<'a>) -> Self {
        let limit = scope.input.floor.first_use.filter(|_| !scope.resource.deleting);
        let wanted = scope.rollout.packages.values().filter(|package| !package.uninstall.apply);
        let wanted = wanted.filter(|_| limit.is_some());
        let unproven = wanted.filter_map(|package| {
            let same = same_input(scope, package);
            let proven = scope.input.observed.nodes.values().any(|node| {
                node.rollouts.keys().any(|rollout| {
                    let has = |entry: &Entry| is_proof(package, &same, entry);
                    node.entries(rollout).values().any(has)
                        && !is_at_work(scope.input, node, rollout)
                })
            });
            (!proven).then_some((package.name.as_str(), same))
        });
        Self { scope, limit: limit.unwrap_or(u32::MAX), unproven: unproven.collect() }
    }

    /// Returns the package that the node would be among the first to get.
    pub(crate) fn on(&self, node: &'a Node) -> Option<PackageId> {
        if self.unproven.is_empty() {
            return None;
        }
        let needs = self.scope.needs(node);
        let mut names = needs.keys().map(String::as_str);
        let name = names.find(|name| self.unproven.contains_key(name))?;
        self.scope.rollout.packages.get(name).map(Package::id)
    }

    /// Returns the nodes that have one of them at work, what this tick picks among them.
    pub(crate) fn at_work(&self, plan: &Plan) -> Vec<String> {
        if self.unproven.is_empty() {
            return Vec::new();
        }
        let names_one = |entries: &crate::model::Entries| {
            let mut named = entries.values().filter_map(|entry| entry.snapshot.as_deref());
            named.any(|name| self.unproven.values().any(|same| same.contains(name)))
        };
        let Scope { input, rollout, .. } = self.scope;
        let mut nodes = BTreeSet::new();
        for node in input.observed.nodes.values() {
            let mut open = node.rollouts.keys().filter(|name| is_at_work(input, node, name));
            let is_one = open.any(|name| {
                let own = *name == rollout.name && self.on(node).is_some();
                own || names_one(node.entries(name))
            });
            if is_one {
                nodes.insert(node.name.clone());
            }
        }
        for action in &plan.actions {
            if let Action::PatchNode(patch) = action
                && matches!(patch.kind, PatchKind::Pick { .. })
                && patch.entries.as_ref().is_some_and(names_one)
            {
                nodes.insert(patch.node.clone());
            }
        }
        nodes.into_iter().collect()
    }

    /// Returns how many more nodes may begin with one of them beside these.
    pub(crate) fn room(&self, at_work: &[String]) -> u32 {
        self.limit.saturating_sub(count(at_work.len()))
    }
}

/// Returns the snapshots that hold exactly this package, whichever rollout made them.
fn same_input<'a>(scope: &'a Scope<'a>, package: &Package) -> BTreeSet<&'a str> {
    let snapshots = scope.input.observed.snapshots.iter();
    let same = snapshots.filter(|(_, snapshot)| snapshot.package == *package);
    let mut same: BTreeSet<&str> = same.map(|(name, _)| name.as_str()).collect();
    same.insert(scope.snapshot_name(package));
    same
}

/// Returns whether the entry says that the package is there, to its last stage. One without a
/// snapshot was put there by upstream, and counts as wanted.
fn is_proof(package: &Package, same: &BTreeSet<&str>, entry: &Entry) -> bool {
    entry.name == package.name
        && entry.version == package.version.as_str()
        && entry.is(due::last_stage(package), State::Complete)
        && entry.snapshot.as_deref().is_none_or(|name| same.contains(name))
}

/// Returns whether a visit of the rollout goes on there: what it did is not proven before it ends.
fn is_at_work(input: &Input, node: &Node, rollout: &str) -> bool {
    let resource = input.observed.resources.get(rollout);
    let record = resource.and_then(|resource| node.record(rollout, &resource.uid));
    record.is_some_and(Record::is_open)
}
