//! Never more nodes disturbed at once than the ceiling of their compartment allows.
//!
//! Which compartment a node is in is worked out here once more, node by node, from the text of
//! upstream contract B.10.

use std::collections::BTreeMap;

use super::{Audit, Picks};
use crate::model::{
    Budget, Compartment, DEFAULT_COMPARTMENT, Growth, Node, Outcome, Policy, Resource, Rollout,
};
use crate::plan::audit::Invariant;

impl Audit<'_> {
    /// Counts in each compartment who is down and who would be after these picks.
    pub(super) fn ceilings(
        &mut self,
        (wanted, resource): (&Rollout, &Resource),
        selected: &[&Node],
        picks: &Picks<'_>,
    ) {
        let policy = wanted.policy.as_ref().and_then(|name| self.input.desired.policies.get(name));
        let mut compartments: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        let cautious = policy.map(|policy| by_caution(policy, selected)).unwrap_or_default();
        for node in selected {
            let matching = cautious.iter().filter(|(_, own)| own.selects(&node.labels));
            let own = matching.min_by_key(|(caution, _)| *caution);
            let name = own.map_or(DEFAULT_COMPARTMENT, |(_, own)| own.name.as_str());
            compartments.entry(name).or_default().push(node);
        }
        for (name, nodes) in compartments {
            let budget = match policy {
                Some(policy) => policy
                    .compartments
                    .iter()
                    .find(|compartment| compartment.name == name)
                    .map_or(policy.fallback.budget, |compartment| compartment.pace.budget),
                None if resource.deleting && wanted.policy.is_some() => Budget::Count(1),
                None => {
                    wanted.budget.unwrap_or(Budget::Percent(self.input.floor.max_disturbed_percent))
                }
            };
            let budget = self.input.floor.budget(budget);
            let counted = nodes.iter().filter(|node| !self.is_in_repair(node)).count();
            let total = u32::try_from(counted).unwrap_or(u32::MAX);
            self.ceiling(wanted, (name, budget.ceiling(total) as usize), &nodes, picks);
        }
    }

    fn ceiling(
        &mut self,
        wanted: &Rollout,
        (compartment, ceiling): (&str, usize),
        nodes: &[&Node],
        picks: &Picks<'_>,
    ) {
        let working = |node: &Node| {
            node.rollouts.iter().any(|(name, state)| {
                let resource = self.input.observed.resources.get(name);
                let record = state.record.as_ref().filter(|record| record.is_open());
                record.zip(resource).is_some_and(|(record, live)| record.cr_uid == live.uid)
            })
        };
        let down = |node: &Node| {
            let earlier = picks.earlier.contains(&node.name.as_str());
            let is_down = node.unschedulable || !node.ready || working(node) || earlier;
            is_down && !self.is_in_repair(node)
        };
        let before = nodes.iter().filter(|node| down(node)).count();
        let picked = |node: &&&Node| picks.own.iter().any(|patch| patch.node == node.name);
        let newly = nodes.iter().filter(picked).filter(|node| !down(node)).count();
        if newly > 0 && before + newly > ceiling {
            let detail = format!("{compartment}: {before} down and {newly} more of {ceiling}");
            self.breach(&wanted.name, Invariant::Ceiling, &detail);
        }
    }

    /// Down for longer than a repair takes to be noticed, while no visit of anybody held it.
    fn is_in_repair(&self, node: &Node) -> bool {
        let Some(since) = node.ready_since.filter(|_| !node.ready) else { return false };
        let down = self.input.now.duration_since(since);
        let held = node.rollouts.iter().any(|(name, state)| {
            let Some(record) = &state.record else { return false };
            let holds = record.held || node.is_cordoned_by(name);
            let failed = holds && record.outcome == Some(Outcome::Erroring);
            record.node_uid == node.uid && (record.is_open() || failed)
        });
        !held && down.unsigned_abs() >= self.input.floor.repair_after && !down.is_negative()
    }
}

/// Returns the compartments with how cautious each is: the least has the node.
fn by_caution<'p>(
    policy: &'p Policy,
    nodes: &[&Node],
) -> Vec<((u32, u32, &'p str), &'p Compartment)> {
    let mut all = Vec::new();
    for compartment in &policy.compartments {
        let caution = match &compartment.pace.strategy {
            Some(strategy) => match strategy.growth {
                Growth::Fixed => 1,
                Growth::Linear(_) => 2,
                Growth::Exponential(_) => 3,
            },
            None => 4,
        };
        let matching = nodes.iter().filter(|node| compartment.selects(&node.labels)).count();
        let matching = u32::try_from(matching.max(1)).unwrap_or(u32::MAX);
        let ceiling = compartment.pace.budget.ceiling(matching);
        all.push(((caution, ceiling, compartment.name.as_str()), compartment));
    }
    all
}
