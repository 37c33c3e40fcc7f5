//! The first use of a package input in this cluster: one node has it before others get it.
//!
//! In: what is wanted, and what every node of the cluster says. Out: which packages no node has
//! had to the end, who has them at work, how many more may begin, and what a forecast must know of
//! it. A package input is what a
//! snapshot holds: version, configuration, environment, image. Decided from the nodes each time,
//! so nothing is remembered and nothing can be forgotten. Must never: hold a node that needs
//! nothing new, or take an uninstall for a first use.

use std::collections::{BTreeMap, BTreeSet};

use super::batch::places_left;
use super::count;
use super::due;
use super::select::Scope;
use crate::model::{
    Action, Entry, Input, Node, OpenBatch, Package, PackageId, PatchKind, Plan, Record, State,
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
    pub(crate) fn on(&self, node: &Node) -> Option<PackageId> {
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

/// How a first use cuts the batches to come of a compartment down.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ahead {
    /// The next batch has at most so many nodes; after it the package is proven.
    pub next: Option<u32>,
    /// Every batch has at most so many while all fail.
    pub failing: Option<u32>,
}

impl FirstUse<'_> {
    /// Returns what a first use means for a compartment in which these nodes are left after the
    /// open batch. `room` are the first places of the cluster that no batch has yet: it takes its
    /// share. Where others have them all, it waits until the package is proven.
    pub(crate) fn ahead(&self, left: &[&Node], open: Option<&OpenBatch>, room: &mut u32) -> Ahead {
        if self.unproven.is_empty() {
            return Ahead::default();
        }
        let new = count(left.iter().filter(|node| self.on(node).is_some()).count());
        let failing = Some(self.limit);
        if let Some(open) = open {
            *room = room.saturating_sub(places_left(open));
            return Ahead { next: None, failing };
        }
        let first = new.min(*room);
        *room -= first;
        let next = count(left.len()).saturating_sub(new).saturating_add(first);
        Ahead { next: (0 < next && first < new).then_some(next), failing }
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
