//! Nobody is picked for a selector that is too broad, unless a person approved it.

use super::{Audit, Invariant};
use crate::model::{Breadth, Guards, Resource, Rollout, approval};

impl Audit<'_> {
    /// Looks at the selector of a rollout that picks.
    pub(super) fn approved(&mut self, (wanted, resource): (&Rollout, &Resource)) {
        if self.input.floor.guards == Guards::Upstream || resource.deleting {
            return;
        }
        let nodes = self.input.observed.nodes.values();
        let nodes = nodes.map(|node| (node.name.as_str(), &node.labels));
        let Some(breadth) = Breadth::of(&wanted.nodes, nodes) else { return };
        let approved = self.input.approvals.get(&wanted.name);
        if approved != Some(&approval(&resource.uid, &wanted.nodes)) {
            self.breach(&wanted.name, Invariant::Approved, &breadth.to_string());
        }
    }
}
