//! The first use of a package input in this cluster: one node has it before others get it.
//!
//! In: what is wanted, and what every node of the cluster says. Out: which packages no node has
//! had to the end, who has them at work, how many more may begin, and what a forecast must know of
//! it. A package input is what a snapshot holds: version, configuration, environment, image.
//! Decided from the nodes each time, so nothing is remembered and nothing can be forgotten. Must
//! never: hold a node that needs nothing new, or take an uninstall for a first use.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::batch::places_left;
use super::count;
use super::due;
use super::select::Scope;
use crate::model::{
    Action, Entries, Entry, Input, Node, OpenBatch, Package, PatchKind, Plan, Record, State,
};

/// The packages of a rollout that are new to the cluster.
pub(crate) struct FirstUse<'a> {
    scope: &'a Scope<'a>,
    /// Nodes that may have one at work at once.
    limit: u32,
    /// By name: the snapshots that hold the same input, of whichever rollout.
    unproven: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Nodes that have one at work since before this tick: asked for by every compartment.
    at_work: OnceCell<Vec<String>>,
}

impl<'a> FirstUse<'a> {
    /// Looks at all nodes for every wanted package.
    pub(crate) fn new(scope: &'a Scope<'a>) -> Self {
        let limit = scope.input.floor.first_use.filter(|_| !scope.resource.deleting);
        let wanted = scope.rollout.packages.values().filter(|package| !package.uninstall.apply);
        let wanted = wanted.filter(|_| limit.is_some());
        let mut unproven: BTreeMap<&str, BTreeSet<&str>> =
            wanted.map(|package| (package.name.as_str(), same_input(scope, package))).collect();
        let nodes = scope.input.observed.nodes.values();
        for (node, rollout, state) in
            nodes.flat_map(|node| node.rollouts.iter().map(move |(name, it)| (node, name, it)))
        {
            if unproven.is_empty() {
                break;
            }
            let proofs = state.entries.values().filter(|entry| {
                let package = scope.rollout.packages.get(&entry.name);
                let same = unproven.get(entry.name.as_str());
                package.zip(same).is_some_and(|(package, same)| is_proof(package, same, entry))
            });
            let proofs: Vec<&Entry> = proofs.collect();
            if !proofs.is_empty() && !is_at_work(scope.input, node, rollout) {
                for entry in proofs {
                    unproven.remove(entry.name.as_str());
                }
            }
        }
        let at_work = OnceCell::new();
        Self { scope, limit: limit.unwrap_or(u32::MAX), unproven, at_work }
    }

    /// Returns the package that the node would be among the first to get.
    pub(crate) fn on(&self, node: &Node) -> Option<&'a Package> {
        let packages = &self.scope.rollout.packages;
        let mut unproven = self.unproven.keys().filter_map(|name| packages.get(*name));
        unproven.find(|package| self.scope.is_due(node, package))
    }

    /// Returns the nodes that have one of them at work, what this tick picks among them.
    pub(crate) fn at_work(&self, plan: &Plan) -> Vec<String> {
        if self.unproven.is_empty() {
            return Vec::new();
        }
        let already = self.at_work.get_or_init(|| self.at_work_already());
        let mut nodes: BTreeSet<&str> = already.iter().map(String::as_str).collect();
        for action in &plan.actions {
            if let Action::PatchNode(patch) = action
                && matches!(patch.kind, PatchKind::Pick { .. })
                && patch.entries.as_ref().is_some_and(|entries| self.names_one(entries))
            {
                nodes.insert(&patch.node);
            }
        }
        nodes.into_iter().map(str::to_owned).collect()
    }

    fn at_work_already(&self) -> Vec<String> {
        let Scope { input, rollout, .. } = self.scope;
        let is_one = |node: &&'a Node| {
            let mut open = node.rollouts.iter().filter(|(name, _)| is_at_work(input, node, name));
            open.any(|(name, state)| {
                let own = *name == rollout.name && self.on(node).is_some();
                own || self.names_one(&state.entries)
            })
        };
        input.observed.nodes.values().filter(is_one).map(|node| node.name.clone()).collect()
    }

    /// Returns whether any of the entries is of one of them.
    fn names_one(&self, entries: &Entries) -> bool {
        let mut named = entries.values().filter_map(|entry| entry.snapshot.as_deref());
        named.any(|name| self.unproven.values().any(|same| same.contains(name)))
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
