//! What must hold of nodes that others have a say in: their taints, their work, their cordons.

use super::{Audit, Invariant};
use crate::model::{CordonMark, Node, Package, Rollout, State, Taint, TaintPatch};

/// Taints that are gone or added, compared by what identifies one.
fn missing<'t>(from: &'t [Taint], other: &[Taint]) -> Vec<&'t Taint> {
    from.iter().filter(|taint| !other.contains(taint)).collect()
}

impl Audit<'_> {
    /// Touches the runtime-required taints alone, and takes them off a node that has everything.
    pub(super) fn taints(&mut self, patch: &TaintPatch) {
        let Some(node) = self.input.observed.nodes.get(&patch.node) else { return };
        let rules = &self.input.rules;
        let removed = missing(&node.taints, &patch.after);
        let added = missing(&patch.after, &node.taints);
        let foreign = removed.iter().any(|taint| !rules.is_runtime_taint(taint))
            || added.iter().any(|taint| **taint != rules.runtime_taint)
            || patch.before != node.taints;
        let runtime = removed.iter().any(|taint| rules.is_runtime_taint(taint));
        let opens = runtime && self.is_unfinished(node);
        let stale = !node.unschedulable && node.cordons.contains(&CordonMark::RuntimeRequired);
        let drops_owner = patch.cordon_after == Some(false) && !stale;
        if foreign {
            self.breach(&patch.rollout, Invariant::ForeignTaint, &patch.node);
        }
        if opens {
            self.breach(&patch.rollout, Invariant::Order, &patch.node);
        }
        if drops_owner {
            self.breach(&patch.rollout, Invariant::ForeignCordon, &patch.node);
        }
    }

    /// Returns whether a runtime-required rollout that selects the node is at work there, or has a
    /// package that the node does not name as complete.
    fn is_unfinished(&self, node: &Node) -> bool {
        let selecting = self.input.desired.rollouts.values().filter(|rollout| {
            rollout.runtime_required
                && rollout.selects(&node.labels)
                && self.input.observed.resources.contains_key(&rollout.name)
        });
        let unfinished = |rollout: &Rollout| {
            let installed = |package: &Package| {
                let entry = node.entries(&rollout.name).get(&package.id());
                entry.is_some_and(|entry| entry.state == State::Complete)
            };
            self.open_record(&rollout.name, node).is_some()
                || rollout
                    .packages
                    .values()
                    .any(|package| !package.uninstall.apply && !installed(package))
        };
        selecting.into_iter().any(unfinished)
    }

    /// Nothing is begun on a node that another operator works on, or that a person holds.
    pub(super) fn hands_off(&mut self, rollout: &str, name: &str) {
        let Some(node) = self.input.observed.nodes.get(name) else { return };
        if !node.claims.is_empty() || node.hold.is_some() {
            self.breach(rollout, Invariant::HandsOff, name);
        }
    }
}
