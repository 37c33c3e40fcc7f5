//! Nodes that join a compartment that was stopped: they get the packages that were complete there
//! last, not those that stopped it (design §7).
//!
//! In: a rollout, what its status remembers of complete packages, and its nodes. Out: what earlier
//! packages each stopped compartment has, and which nodes get them. Must never: put anything but
//! what is wanted on a node of a compartment that goes on, or on one that has anything of the
//! rollout: that one stays as it is until the stop is lifted.
//!
//! Differs from upstream, where a node that joins a stopped rollout has nothing until it goes on.

use std::collections::{BTreeMap, BTreeSet};

use super::compartments::{self, Compartment, Told};
use super::names::Named;
use super::select::Scope;
use crate::model::{
    CompletedPackages, Executor, Input, Memory, Node, Outcome, Package, Record, Resource, Rollout,
    Verdict,
};

/// Text of all sets of complete packages that are remembered, so that a status stays below 64 KiB:
/// about 80 packages. Compartments mostly have the same set, and each is kept once.
const SETS_BYTES_MAX: usize = 4096;

/// What was complete in the compartments of a rollout that were stopped.
pub(crate) struct Earlier {
    by_compartment: BTreeMap<String, (Rollout, Named)>,
}

impl Earlier {
    /// Looks for what the status remembers and the cluster still has.
    pub(crate) fn of(
        input: &Input,
        rollout: &Rollout,
        resource: &Resource,
        wanted: &Named,
    ) -> Self {
        let mut by_compartment = BTreeMap::new();
        let memory = resource.status.as_ref().map(|status| &status.memory);
        let memory = memory.filter(|it| it.target == wanted.target && !resource.deleting);
        for (name, status) in memory.into_iter().flat_map(|memory| &memory.compartments) {
            if !status.batch_state.should_stop {
                continue;
            }
            let set = memory.into_iter().flat_map(|memory| &memory.completed);
            let Some(set) = set.into_iter().find(|set| set.compartments.contains(name)) else {
                continue;
            };
            let Some(packages) = packages(input, rollout, set) else { continue };
            let earlier = Rollout { packages, ..rollout.clone() };
            let named = Named::known(&earlier, set.packages.clone());
            if named.target != wanted.target {
                by_compartment.insert(name.clone(), (earlier, named));
            }
        }
        Self { by_compartment }
    }

    /// Returns what the planner asks of them, as if they were wanted, by compartment.
    pub(crate) fn scopes<'a>(
        &'a self,
        input: &'a Input,
        resource: &'a Resource,
        executors: &'a BTreeMap<&'a str, Vec<&'a Executor>>,
    ) -> BTreeMap<&'a str, Scope<'a>> {
        let all = self.by_compartment.iter();
        all.map(|(name, (rollout, named))| {
            (name.as_str(), Scope::new(input, rollout, resource, named, executors))
        })
        .collect()
    }
}

/// Returns the packages of a set; `None` where one of its snapshots is gone.
fn packages(
    input: &Input,
    rollout: &Rollout,
    set: &CompletedPackages,
) -> Option<BTreeMap<String, Package>> {
    let packages = set.packages.iter().map(|(name, snapshot)| {
        let snapshot = input.observed.snapshots.get(snapshot)?;
        let fits = snapshot.rollout == rollout.name && snapshot.package.name == *name;
        fits.then(|| (name.clone(), snapshot.package.clone()))
    });
    packages.collect()
}

/// The nodes that join stopped compartments.
pub(crate) struct Joiners<'s, 'a> {
    scopes: &'s BTreeMap<&'a str, Scope<'a>>,
    by_node: BTreeMap<&'a str, &'s Scope<'a>>,
    /// Compartments in which one of them failed: no other begins.
    failed: BTreeSet<String>,
}

impl<'s, 'a> Joiners<'s, 'a> {
    /// Looks at the nodes of stopped compartments.
    pub(crate) fn new(scope: &Scope<'a>, scopes: &'s BTreeMap<&'a str, Scope<'a>>) -> Self {
        let mut joiners = Self { scopes, by_node: BTreeMap::new(), failed: BTreeSet::new() };
        if scopes.is_empty() {
            return joiners;
        }
        let status = scope.resource.status.as_ref();
        let remembered = status.map(|status| status.memory.compartments.clone());
        for compartment in compartments::of(scope, &[], &remembered.unwrap_or_default()) {
            let Some(earlier) = scopes.get(compartment.name.as_str()) else { continue };
            for node in compartment.nodes {
                if has_failed(earlier, node) {
                    joiners.failed.insert(compartment.name.clone());
                }
                if joins(earlier, node) {
                    joiners.by_node.insert(&node.name, earlier);
                }
            }
        }
        joiners
    }

    /// Returns what a node that joins is moved to; `None` for every other node.
    pub(crate) fn scope_of(&self, node: &Node) -> Option<&'s Scope<'a>> {
        self.by_node.get(node.name.as_str()).copied()
    }

    /// Returns what the nodes that join a compartment are moved to.
    pub(crate) fn scope_in(&self, compartment: &str) -> Option<&'s Scope<'a>> {
        self.scopes.get(compartment)
    }

    /// Returns whether one of them failed there: what was complete before fails now, too, and a
    /// person must look before it is put on another node.
    pub(crate) fn failed_in(&self, compartment: &str) -> bool {
        self.failed.contains(compartment)
    }
}

/// Returns whether the node has nothing of the rollout yet, or is on its way to the earlier
/// packages, or failed at them.
fn joins<'a>(earlier: &Scope<'a>, node: &'a Node) -> bool {
    let is_to_earlier = |record: &Record| {
        let ended_well = matches!(record.outcome, Some(Outcome::Complete | Outcome::Released));
        record.target == earlier.target && !ended_well
    };
    match earlier.record(node) {
        Some(record) if is_to_earlier(record) => true,
        Some(record) if record.is_open() => false,
        Some(_) | None => earlier.entries(node).is_empty(),
    }
}

fn has_failed<'a>(earlier: &Scope<'a>, node: &'a Node) -> bool {
    earlier.record(node).is_some_and(|record| {
        record.outcome == Some(Outcome::Erroring) && record.target == earlier.target
    })
}

/// Remembers what a compartment has, once every node of it has what is wanted.
pub(crate) fn remember(
    scope: &Scope<'_>,
    compartment: &Compartment<'_>,
    told: &Told<'_, '_>,
    memory: &mut Memory,
) {
    let through = told.all().all(|(_, verdict)| verdict.is_some_and(Verdict::is_through));
    if scope.resource.deleting || !through || told.done() == 0 {
        return;
    }
    let wanted = scope.rollout.packages.values().filter(|package| !package.uninstall.apply);
    let packages: BTreeMap<String, String> = wanted
        .map(|package| (package.name.clone(), scope.snapshot_name(package).to_owned()))
        .collect();
    let sets = &mut memory.completed;
    for set in sets.iter_mut().filter(|set| set.packages != packages) {
        set.compartments.remove(&compartment.name);
    }
    if let Some(set) = sets.iter_mut().find(|set| set.packages == packages) {
        set.compartments.insert(compartment.name.clone());
    } else if !packages.is_empty() {
        let compartments = BTreeSet::from([compartment.name.clone()]);
        sets.push(CompletedPackages { compartments, packages });
    }
}

/// Forgets what no compartment has any more, and the oldest of too many.
pub(crate) fn tidy(memory: &mut Memory) {
    for set in &mut memory.completed {
        set.compartments.retain(|name| memory.compartments.contains_key(name));
    }
    memory.completed.retain(|set| !set.compartments.is_empty());
    let mut bytes: usize = memory.completed.iter().map(text_bytes).sum();
    memory.completed.retain(|set| {
        let fits = bytes <= SETS_BYTES_MAX;
        if !fits {
            bytes -= text_bytes(set);
        }
        fits
    });
}

/// Returns what a set takes up in a status, with the marks around each name.
fn text_bytes(set: &CompletedPackages) -> usize {
    const MARKS_BYTES: usize = 3;
    let compartments = set.compartments.iter().map(|name| name.len() + MARKS_BYTES);
    let packages =
        set.packages.iter().map(|(name, snapshot)| name.len() + snapshot.len() + 2 * MARKS_BYTES);
    compartments.chain(packages).sum()
}
