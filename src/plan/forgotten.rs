//! A node that a person let go of, with `nodewright forget` (design §7).
//!
//! In: a node whose last visit was closed by hand, and what still seems to run there. Out: our
//! cordon lifted, and the pods of that visit ended, for the kubelet of a host that comes back after
//! all would go on with them. What the node said of packages is in [`NodeRollout::left`] by then,
//! so that nothing counts on it and a deletion goes on without the node; if the host is back it is
//! installed as one on which nothing ever ran.
//!
//! Must never: let go while something of ours may still do its work on a host that is up.
//!
//! [`NodeRollout::left`]: crate::model::NodeRollout::left

use super::select::Scope;
use super::{claims, deletion};
use crate::model::{Action, Executor, Node, Plan, Reason, Verdict};

/// Ends what the forgotten visit began, then takes off our mark.
///
/// `None` where nothing of it is left.
pub(crate) fn let_go<'a>(scope: &Scope<'a>, node: &'a Node, plan: &mut Plan) -> Option<Verdict> {
    let name = &scope.rollout.name;
    let record = scope.record(node).filter(|record| record.is_forgotten())?;
    let here = scope.executors.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
    let own = here.iter().filter(|executor| {
        let visit = &executor.visit;
        visit.rollout == *name && visit.node_uid == node.uid && visit.visit == record.visit
    });
    let own: Vec<&Executor> = own.copied().collect();
    let running = own.iter().filter(|executor| executor.is_active() && !executor.terminating);
    let ended: Vec<Action> = running.map(|executor| end(name, node, executor)).collect();
    if !ended.is_empty() {
        plan.actions.extend(ended);
        return Some(Verdict::act(Reason::Releasing));
    }
    if !node.is_cordoned_by(name) || claims::delays_release(node).is_some() {
        return None;
    }
    deletion::release_when_safe(scope.input, node, name, Some(record), here, plan)
}

fn end(rollout: &str, node: &Node, executor: &Executor) -> Action {
    Action::DeleteExecutor {
        rollout: rollout.to_owned(),
        node: node.name.clone(),
        pod: executor.reference.clone(),
    }
}
