//! Nodes in repair: down for so long that the rollout goes on without them (design §7).
//!
//! In: a node, and how long it may be down. Out: since when it is in repair. Such a node is outside
//! ceilings and completion, is not picked, and is caught up when it returns. Must never: let a node
//! out of the count that broke under us, or a rollout would eat its way through a fleet.

use jiff::Timestamp;

use super::limits::after;
use super::select::{Scope, working_rollout};
use super::wake;
use crate::model::{Input, Node, Outcome, Plan};

/// Returns since when the node is in repair, if it is.
///
/// Down is what its kubelet, or who misses it, says: a node that is only cordoned works on and
/// counts, whoever cordoned it and however long ago.
pub(crate) fn since(input: &Input, node: &Node) -> Option<Timestamp> {
    let since = node.ready_since.filter(|_| !node.ready)?;
    let is_due = after(since, input.floor.repair_after) <= input.now;
    (is_due && !is_ours(input, node)).then_some(since)
}

/// Returns whether a visit is at work there, or ended in a failure while it held the node.
fn is_ours(input: &Input, node: &Node) -> bool {
    let failed = node.rollouts.iter().any(|(name, state)| {
        let Some(record) = &state.record else { return false };
        // One that took no hold itself keeps that of the failure before it.
        let held = record.held || node.is_cordoned_by(name);
        record.node_uid == node.uid && held && record.outcome == Some(Outcome::Erroring)
    });
    failed || working_rollout(input, node).is_some()
}

/// Wakes the plan when the next node of the rollout becomes one in repair.
pub(crate) fn wake_for_next(scope: &Scope<'_>, plan: &mut Plan) {
    let down = scope.nodes.iter().filter(|node| !node.ready && !is_ours(scope.input, node));
    let due =
        down.filter_map(|node| Some(after(node.ready_since?, scope.input.floor.repair_after)));
    if let Some(next) = due.filter(|due| *due > scope.input.now).min() {
        wake(plan, next);
    }
}
