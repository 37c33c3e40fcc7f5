//! While everything is stopped, nothing new is disturbed: no pick, no cordon, no eviction, no
//! executor, no batch.

use super::{Audit, Invariant};
use crate::model::{Action, PatchKind, Plan, Status};

impl Audit<'_> {
    /// Looks at every action of the plan.
    pub(super) fn halted(&mut self, plan: &Plan) {
        if self.input.halt.is_none() {
            return;
        }
        for action in &plan.actions {
            let (rollout, what) = match action {
                Action::PatchNode(patch)
                    if matches!(patch.kind, PatchKind::Pick { .. })
                        || patch.unschedulable == Some(true) =>
                {
                    (&patch.rollout, &patch.node)
                }
                Action::Evict(eviction) => (&eviction.rollout, &eviction.node),
                Action::CreateExecutor(executor) => (&executor.visit.rollout, &executor.visit.node),
                Action::WriteStatus(write) if self.opens(&write.rollout, &write.status) => {
                    (&write.rollout, &write.rollout)
                }
                Action::PatchNode(_)
                | Action::WriteStatus(_)
                | Action::CreateSnapshot(_)
                | Action::DeleteSnapshot(_)
                | Action::WriteNodeMetadata(_)
                | Action::DeleteExecutors { .. }
                | Action::PatchTaints(_)
                | Action::SetFinalizer(_)
                | Action::CleanNode(_)
                | Action::DeleteUpstreamWork { .. }
                | Action::DeleteExecutor { .. } => continue,
            };
            self.breach(rollout, Invariant::Halted, what);
        }
    }

    fn opens(&self, rollout: &str, status: &Status) -> bool {
        let before = self.input.observed.resources.get(rollout);
        let before = before.and_then(|resource| resource.status.as_ref());
        status.memory.compartments.iter().any(|(name, compartment)| {
            let known = before.and_then(|before| before.memory.compartments.get(name));
            let known = known.and_then(|known| known.open_batch.as_ref()).map(|open| open.number);
            let open = compartment.open_batch.as_ref().map(|open| open.number);
            open.is_some() && open != known
        })
    }
}
