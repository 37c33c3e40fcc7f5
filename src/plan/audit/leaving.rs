//! What must hold before a resource, or our keys on a node, go: nobody is left behind.

use super::{Audit, Invariant};
use crate::model::{FinalizerWrite, Group, Node, NodeCleaning, NodePatch, Record};

impl Audit<'_> {
    /// A resource goes when no node is held for it and nothing of it runs.
    pub(super) fn finalizer(&mut self, write: &FinalizerWrite) {
        if write.present {
            return;
        }
        for node in self.input.observed.nodes.values() {
            if is_in_use(node, &write.rollout, &write.rollout_uid) || self.runs_on(node, write) {
                self.breach(&write.rollout, Invariant::Leaving, &node.name);
            }
        }
    }

    /// A node's keys go after its visit and its cordon, and only with the resource.
    pub(super) fn cleaning(&mut self, cleaning: &NodeCleaning) {
        let resource = self.input.observed.resources.get(&cleaning.rollout);
        let Some(resource) = resource.filter(|resource| resource.deleting) else {
            self.breach(&cleaning.rollout, Invariant::Leaving, "the resource is not being deleted");
            return;
        };
        let node = self.input.observed.nodes.get(&cleaning.node);
        let in_use = node.is_some_and(|node| is_in_use(node, &cleaning.rollout, &resource.uid));
        if in_use {
            self.breach(&cleaning.rollout, Invariant::Leaving, &cleaning.node);
        }
    }

    /// Nobody is picked for a resource that could go without being asked for its nodes.
    pub(super) fn pick_under_finalizer(&mut self, pick: &NodePatch) {
        let resource = self.input.observed.resources.get(&pick.rollout);
        if resource.is_some_and(|resource| !resource.finalizer) {
            let detail = format!("{} is picked without the finalizer", pick.node);
            self.breach(&pick.rollout, Invariant::Leaving, &detail);
        }
    }

    /// A host that is down runs nothing we could wait for, and a pull touches nothing.
    fn runs_on(&self, node: &Node, write: &FinalizerWrite) -> bool {
        node.ready
            && self.input.observed.executors.values().any(|executor| {
                executor.visit.node == node.name
                    && executor.visit.rollout == write.rollout
                    && executor.group != Group::Pull
                    && executor.is_active()
            })
    }
}

fn is_in_use(node: &Node, rollout: &str, uid: &str) -> bool {
    let open = node.record(rollout, uid).is_some_and(Record::is_open);
    open || node.is_cordoned_by(rollout)
}
