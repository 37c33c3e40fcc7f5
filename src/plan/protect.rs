//! Nodes that wait for a protected pod: let go after a while, and put last (design §6).
//!
//! In: the nodes that may be picked, and those that are being visited. Out: the patch that lets a
//! node go, and who is not picked before the others.
//! Must never: let go of a node on which something was moved or run, or of the last ones.

use std::collections::BTreeMap;

use super::drain::{first_protected, protected_pods};
use super::limits::{MESSAGE_BYTES_MAX, PROTECTED_PATIENCE, after, cut};
use super::select::Scope;
use super::{cleanup, wake};
use crate::model::{Lane, Node, Phase, Plan, Reason, Record, Verdict};

/// The record's reason on a node that was let go for this.
const PROTECTED_LAST: &str = "ProtectedLast";

/// Takes nodes that were let go out of the candidates while any without a protected pod is left.
pub(crate) fn put_last<'a>(
    scope: &Scope<'a>,
    candidates: &mut Vec<&'a Node>,
    verdicts: &mut BTreeMap<String, Verdict>,
) {
    if !has_unprotected(scope, candidates) {
        return;
    }
    candidates.retain(|node| {
        let reason = was_let_go(scope, node).then(|| reason(scope, node)).flatten();
        let Some(reason) = reason else { return true };
        verdicts.insert(node.name.clone(), Verdict::wait(reason));
        false
    });
}

/// Returns whether the node's last visit was ended to wait for a protected pod without a cordon.
pub(crate) fn was_let_go(scope: &Scope<'_>, node: &Node) -> bool {
    let record = scope.record(node).filter(|record| !record.is_open());
    record.is_some_and(|record| record.reason.as_deref() == Some(PROTECTED_LAST))
}

/// Lets go of nodes that have waited for a protected pod for [`PROTECTED_PATIENCE`], while other
/// nodes could be worked on meanwhile. Where none are left the wait goes on, cordoned.
pub(crate) fn let_go<'a>(
    scope: &Scope<'a>,
    candidates: &[&'a Node],
    verdicts: &mut BTreeMap<String, Verdict>,
    plan: &mut Plan,
) {
    for &(node, record) in scope.records.iter().filter(|(_, record)| record.is_open()) {
        let waits = verdicts
            .get(&node.name)
            .is_some_and(|verdict| matches!(verdict.reason, Reason::ProtectedPod { .. }));
        if !waits || !is_untouched(scope, node, record, plan) {
            continue;
        }
        let due = after(record.picked, PROTECTED_PATIENCE);
        if due > scope.input.now {
            wake(plan, due);
        } else if has_unprotected(scope, candidates)
            && let Some(reason) = reason(scope, node)
        {
            let mut record = record.clone();
            record.reason = Some(PROTECTED_LAST.to_owned());
            record.message = Some(cut(&reason.to_string(), MESSAGE_BYTES_MAX));
            plan.actions.push(cleanup::release(node, &scope.rollout.name, &record));
            verdicts.insert(node.name.clone(), Verdict::act(reason));
        }
    }
}

/// Returns whether the visit has done nothing yet but hold the node. A protected pod that was
/// there at the pick has kept every eviction back since.
fn is_untouched(scope: &Scope<'_>, node: &Node, record: &Record, plan: &Plan) -> bool {
    let here = scope.executors.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
    let ran = here.iter().any(|executor| {
        executor.visit.rollout == scope.rollout.name && executor.visit.visit == record.visit
    });
    let lane = Lane::Node(node.name.clone());
    let acted = plan.actions.iter().any(|action| action.lane() == lane);
    let since_the_pick = protected_pods(scope, node).iter().any(|pod| pod.since <= record.picked);
    let fresh = record.phase == Phase::Picked && record.attempts.is_empty();
    fresh && since_the_pick && !ran && !acted
}

fn has_unprotected(scope: &Scope<'_>, candidates: &[&Node]) -> bool {
    candidates.iter().any(|node| protected_pods(scope, node).is_empty())
}

fn reason(scope: &Scope<'_>, node: &Node) -> Option<Reason> {
    let first = first_protected(scope, node)?;
    Some(Reason::ProtectedLast { first: first.reference.clone(), since: first.since })
}
