//! A package that is new to the cluster begins on as few nodes as the floor says.

use std::collections::BTreeSet;

use super::{Audit, Invariant, Picks};
use crate::model::{Entries, Entry, Node, Package, Record, Resource, Rollout, Stage, State};

impl Audit<'_> {
    /// Counts for each wanted package who gets it now, where nobody has had it to the end.
    pub(super) fn first_use(
        &mut self,
        (wanted, resource): (&Rollout, &Resource),
        picks: &Picks<'_>,
    ) {
        let Some(limit) = self.input.floor.first_use else { return };
        if resource.deleting {
            return;
        }
        for package in wanted.packages.values().filter(|package| !package.uninstall.apply) {
            let snapshots = self.input.observed.snapshots.iter();
            let same = snapshots.filter(|(_, snapshot)| snapshot.package == *package);
            let same: BTreeSet<&str> = same.map(|(name, _)| name.as_str()).collect();
            let begins = |entries: &Entries| {
                entries.values().any(|entry| {
                    let named = entry.snapshot.as_deref().is_some_and(|name| same.contains(name));
                    named && entry.state != State::Complete
                })
            };
            let own = picks.own.iter().filter(|patch| patch.entries.as_ref().is_some_and(begins));
            let picked: BTreeSet<&str> = own.map(|patch| patch.node.as_str()).collect();
            let mut at_work = picked.len();
            let mut proven = false;
            for node in self.input.observed.nodes.values() {
                let open = |name: &&String| self.is_open(node, name);
                let mut rollouts = node.rollouts.keys();
                proven |=
                    rollouts.any(|name| !open(&name) && has(package, &same, node.entries(name)));
                let busy = node.rollouts.keys().filter(open).any(|it| begins(node.entries(it)));
                at_work += usize::from(busy && !picked.contains(node.name.as_str()));
            }
            if !picked.is_empty() && !proven && at_work > limit as usize {
                let detail = format!("{} on {at_work} nodes of {limit}", package.id());
                self.breach(&wanted.name, Invariant::FirstUse, &detail);
            }
        }
    }

    fn is_open(&self, node: &Node, rollout: &str) -> bool {
        let resource = self.input.observed.resources.get(rollout);
        let record = resource.and_then(|resource| node.record(rollout, &resource.uid));
        record.is_some_and(Record::is_open)
    }
}

/// Returns whether the package is complete there in exactly this form.
fn has(package: &Package, same: &BTreeSet<&str>, entries: &Entries) -> bool {
    let ended = |entry: &Entry| matches!(entry.stage, Stage::Config | Stage::PostInterrupt);
    entries.get(&package.id()).is_some_and(|entry| {
        let is_same = entry.snapshot.as_deref().is_none_or(|name| same.contains(name));
        is_same && ended(entry) && entry.state == State::Complete
    })
}
