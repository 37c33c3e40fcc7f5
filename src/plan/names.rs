//! Digests of what is wanted: targets and names of snapshots, worked out again only when that
//! changes.
//!
//! A digest reads all of a package, its files too, so it costs more than everything else that is
//! asked about a rollout at rest; a comparison of equal packages costs next to nothing. What is
//! remembered never changes an answer.

use std::collections::BTreeMap;

use crate::model::{Desired, Package, Rollout};

/// Names made from digests, by rollout. Worth keeping from one call of the planner to the next.
#[derive(Debug, Clone, Default)]
pub struct Names {
    rollouts: BTreeMap<String, Named>,
}

/// The names of one rollout.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    packages: BTreeMap<String, Package>,
    /// See [`Rollout::target`].
    pub target: String,
    /// Names of the wanted snapshots, by package.
    pub snapshots: BTreeMap<String, String>,
}

impl Names {
    /// Takes in what is wanted now, and forgets the rest.
    pub(crate) fn learn(&mut self, desired: &Desired) {
        self.rollouts.retain(|name, named| {
            desired.rollouts.get(name).is_some_and(|wanted| wanted.packages == named.packages)
        });
        for (name, wanted) in &desired.rollouts {
            if !self.rollouts.contains_key(name) {
                self.rollouts.insert(name.clone(), Named::new(wanted));
            }
        }
    }

    /// Returns the names of a rollout that was learned.
    pub(crate) fn of(&self, rollout: &str) -> Option<&Named> {
        self.rollouts.get(rollout)
    }

    /// Returns the names of all wanted snapshots.
    pub(crate) fn snapshots(&self) -> impl Iterator<Item = &str> {
        self.rollouts.values().flat_map(Named::snapshots)
    }
}

impl Named {
    /// Names a rollout whose snapshots are known.
    pub(crate) fn known(rollout: &Rollout, snapshots: BTreeMap<String, String>) -> Self {
        Self { snapshots, target: rollout.target(), packages: rollout.packages.clone() }
    }

    fn new(rollout: &Rollout) -> Self {
        let names = rollout.packages.iter().map(|(name, package)| {
            let snapshot = package.snapshot_name(&rollout.name);
            (name.clone(), snapshot)
        });
        Self {
            snapshots: names.collect(),
            target: rollout.target(),
            packages: rollout.packages.clone(),
        }
    }

    /// Returns the names of the wanted snapshots.
    pub(crate) fn snapshots(&self) -> impl Iterator<Item = &str> {
        self.snapshots.values().map(String::as_str)
    }
}
