//! What a pull pod was good for, and its end.
//!
//! In: the pull pods that are there and the visits since. Out: the deletion of those that nothing
//! waits for any more. Must never: take one away that tells people why an image is not there.

use std::collections::BTreeMap;

use super::super::limits::after;
use super::super::names::{Named, Names};
use super::super::wake;
use super::{SUCCESS_KEPT, delete};
use crate::model::{Executor, ExecutorPhase, Group, Input, PULL_VISIT, Plan, VisitRef};

/// Deletes pull pods that nothing waits for any more: at once, since nothing of them runs on a
/// host. Those that served a visit go in one request with its pods, see [`served_with`].
pub(crate) fn plan_cleanup(input: &Input, names: &Names, plan: &mut Plan) {
    let pulls = || input.observed.executors.values().filter(|it| it.group == Group::Pull);
    let mut attempts: BTreeMap<(&VisitRef, &str), (u32, u32)> = BTreeMap::new();
    // Before a third attempt none stands between two others.
    let again = pulls().any(|executor| executor.attempt > 2);
    for executor in pulls().filter(|_| again) {
        let range = attempts
            .entry((&executor.visit, &executor.snapshot))
            .or_insert((executor.attempt, executor.attempt));
        *range = (range.0.min(executor.attempt), range.1.max(executor.attempt));
    }
    for executor in pulls().filter(|executor| !executor.terminating) {
        let is_named = || {
            let wanted = names.of(&executor.visit.rollout);
            let wanted = wanted.into_iter().flat_map(Named::snapshots);
            let all = wanted.chain(of_joiners(input, &executor.visit.rollout));
            all.into_iter().any(|name| name == executor.snapshot)
        };
        let is_wanted =
            || may_pull(input, executor) && (is_uninstalled(input, executor) || is_named());
        // The first says since when, the last what is wrong now.
        let is_between = || {
            let range = attempts.get(&(&executor.visit, executor.snapshot.as_str()));
            range.is_some_and(|(first, last)| (first + 1..*last).contains(&executor.attempt))
        };
        let succeeded = executor.phase == ExecutorPhase::Succeeded;
        let limit = after(executor.finished.unwrap_or(executor.created), SUCCESS_KEPT);
        let is_over = match service(input, executor) {
            Service::None => !is_wanted() || is_between() || (succeeded && limit <= input.now),
            // Its node was picked without it: nobody waits for it any more.
            Service::UnderWay | Service::Ended if executor.is_active() => true,
            Service::Ended => limit <= input.now,
            Service::UnderWay => false,
        };
        let is_readable = !input.desired.invalid.contains_key(&executor.visit.rollout);
        if is_over && is_readable {
            plan.actions.push(delete(executor));
        } else if succeeded && limit > input.now {
            wake(plan, limit);
        }
    }
}

/// Returns the snapshots that nodes get which join a stopped compartment.
fn of_joiners<'a>(input: &'a Input, rollout: &str) -> impl Iterator<Item = &'a str> {
    let status = input.observed.resources.get(rollout).and_then(|it| it.status.as_ref());
    let stopped = status
        .filter(|status| status.memory.compartments.values().any(|it| it.batch_state.should_stop));
    let sets = stopped.into_iter().flat_map(|status| &status.memory.completed);
    sets.flat_map(|set| set.packages.values()).map(String::as_str)
}

/// Returns whether the pull is of what stands on its node: an uninstall would run it.
fn is_uninstalled(input: &Input, executor: &Executor) -> bool {
    let node = input.observed.nodes.get(&executor.visit.node);
    node.is_some_and(|node| node.entries(&executor.visit.rollout).contains_key(&executor.package))
}

/// Returns whether the rollout still wants anything on the node of this pull. One that is being
/// deleted wants what it uninstalls, and nothing else.
fn may_pull(input: &Input, executor: &Executor) -> bool {
    let VisitRef { rollout, node, node_uid, .. } = &executor.visit;
    let resource = input.observed.resources.get(rollout);
    let node = input.observed.nodes.get(node).filter(|node| node.uid == *node_uid);
    let wanted = input.desired.rollouts.get(rollout);
    resource.is_some_and(|it| !it.paused && !it.disabled)
        && resource.is_some_and(|it| !it.deleting || is_uninstalled(input, executor))
        && node.zip(wanted).is_some_and(|(node, wanted)| wanted.selects(&node.labels))
}

/// What a pull pod was good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    /// The node has not been picked since.
    None,
    /// Its visit is under way.
    UnderWay,
    /// Its visit is over.
    Ended,
}

fn service(input: &Input, executor: &Executor) -> Service {
    let VisitRef { rollout, node, node_uid, .. } = &executor.visit;
    let node = input.observed.nodes.get(node).filter(|node| node.uid == *node_uid);
    let record = node.and_then(|node| node.rollouts.get(rollout)?.record.as_ref());
    match record.filter(|record| executor.created <= record.picked) {
        None => Service::None,
        Some(record) if record.is_open() => Service::UnderWay,
        Some(_) => Service::Ended,
    }
}

/// Returns the pulls that go with the pods of a visit that is over, if all of them have served.
pub(crate) fn served_with(input: &Input, visit: &VisitRef) -> Option<VisitRef> {
    let pull = VisitRef { visit: PULL_VISIT, ..visit.clone() };
    let mut pods = input.observed.executors.values().filter(|it| it.visit == pull).peekable();
    pods.peek()?;
    pods.all(|executor| service(input, executor) == Service::Ended).then_some(pull)
}
