//! A stopped compartment takes nobody further but nodes that join, to what was complete before.

use std::collections::BTreeSet;

use super::{Audit, Invariant};
use crate::model::{CompartmentStatus, Memory, Node, NodePatch};

/// Returns whether nodes may be picked into the open batch of a compartment: none to what stopped
/// it.
pub(super) fn may_fill(memory: &Memory, compartment: &CompartmentStatus) -> bool {
    let open = compartment.open_batch.as_ref();
    open.is_some_and(|open| !compartment.batch_state.should_stop || open.target != memory.target)
}

impl Audit<'_> {
    /// A pick into a batch beside the rollout: the node has nothing of it, and gets nothing but
    /// what is remembered as complete.
    pub(super) fn joins(&mut self, memory: Option<&Memory>, patch: &NodePatch) {
        let Some((record, memory)) = patch.record.as_ref().zip(memory) else { return };
        if record.target == memory.target {
            return;
        }
        let sets =
            memory.completed.iter().filter(|set| set.compartments.contains(&record.compartment));
        let complete: BTreeSet<&String> = sets.flat_map(|set| set.packages.values()).collect();
        let mut named = patch.entries.iter().flat_map(|entries| entries.values());
        let is_complete = named.all(|entry| {
            entry.snapshot.as_ref().is_none_or(|snapshot| complete.contains(snapshot))
        });
        let node = self.input.observed.nodes.get(&patch.node);
        let before = |node: &Node| {
            let state = node.rollouts.get(&patch.rollout);
            let known = state.and_then(|state| state.record.as_ref());
            // What another machine had says nothing of this one.
            let same_host = known.is_none_or(|it| it.machine_id == node.machine_id);
            same_host && !node.entries(&patch.rollout).is_empty()
        };
        if !is_complete || node.is_some_and(before) {
            self.breach(&patch.rollout, Invariant::OpenBatch, &patch.node);
        }
    }
}
