//! What is left over: pods of visits that are over, snapshots nobody names, nodes whose rollout
//! has gone.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::deletion::{obstacle, release_mark};
use super::limits::{CLEAN_UP_EVERY, TOMBSTONE, after};
use super::names::Names;
use super::rollout::has_other_owner;
use super::{claims, takeover, wake};
use crate::model::{
    Action, ConfigMapRef, CordonMark, Executor, Group, Input, Node, NodePatch, Outcome, Phase,
    Plan, Record, Snapshot, StatusWord, VisitRef,
};

/// Plans the removal of everything that is left over.
pub(crate) fn plan_cleanup(input: &Input, names: &Names, plan: &mut Plan) {
    clean_executors(input, plan);
    super::pull::plan_cleanup(input, names, plan);
    super::visit::remove_given_up(input, plan);
    clean_snapshots(input, names, plan);
    let_go_of_strays(input, plan);
}

/// Deletes the pods of a visit together, some time after it ended (design §4 rule 6). Those of a
/// visit that ended erroring stay for their logs, until the node's next visit.
fn clean_executors(input: &Input, plan: &mut Plan) {
    let mut visits: BTreeMap<&VisitRef, Vec<&Executor>> = BTreeMap::new();
    let all = input.observed.executors.values();
    for executor in all.filter(|executor| executor.group != Group::Pull) {
        visits.entry(&executor.visit).or_default().push(executor);
    }
    let mut over: BTreeMap<&str, Vec<VisitRef>> = BTreeMap::new();
    for (visit, executors) in visits {
        if !is_over(input, visit) {
            continue;
        }
        let Some(due) = clean_up_due(&executors) else { continue };
        if due <= input.now {
            let visits = over.entry(&visit.rollout).or_default();
            visits.extend(super::pull::served_with(input, visit));
            visits.push(visit.clone());
        } else {
            wake(plan, due);
        }
    }
    for (rollout, visits) in over {
        plan.actions.push(Action::DeleteExecutors { rollout: rollout.to_owned(), visits });
    }
}

/// Returns whether nothing will ever ask for the pods of this visit again.
fn is_over(input: &Input, visit: &VisitRef) -> bool {
    let node = input.observed.nodes.get(&visit.node).filter(|node| node.uid == visit.node_uid);
    let Some(record) = node
        .and_then(|node| node.rollouts.get(&visit.rollout))
        .and_then(|state| state.record.as_ref())
    else {
        return true;
    };
    match record.visit.cmp(&visit.visit) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => {
            matches!(record.outcome, Some(Outcome::Complete | Outcome::Released))
        }
        // A visit the record does not know yet: somebody put back an older record.
        std::cmp::Ordering::Less => false,
    }
}

/// Returns when the pods of a visit that is over go: `None` while they still do something or are
/// already going.
fn clean_up_due(executors: &[&Executor]) -> Option<Timestamp> {
    if executors.iter().any(|executor| executor.is_active())
        || executors.iter().all(|executor| executor.terminating)
    {
        return None;
    }
    let ended = executors.iter().map(|executor| executor.finished.unwrap_or(executor.created));
    let due = after(ended.max()?, TOMBSTONE);
    let every = i64::try_from(CLEAN_UP_EVERY.as_secs()).unwrap_or(1);
    let rounded = (due.as_second() + every - 1) / every * every;
    Timestamp::from_second(rounded).ok()
}

/// Deletes snapshots that no node, no executor, no status and no wanted package names.
fn clean_snapshots(input: &Input, names: &Names, plan: &mut Plan) {
    let readable = |snapshot: &&Snapshot| !input.desired.invalid.contains_key(&snapshot.rollout);
    let all = input.observed.snapshots.iter().filter(|(_, snapshot)| readable(snapshot));
    let mut unnamed: BTreeMap<&str, &Snapshot> =
        all.map(|(name, snapshot)| (name.as_str(), snapshot)).collect();
    for name in names.snapshots() {
        unnamed.remove(name);
    }
    for executor in input.observed.executors.values() {
        unnamed.remove(executor.snapshot.as_str());
    }
    for status in input.observed.resources.values().filter_map(|it| it.status.as_ref()) {
        for name in status.memory.completed.iter().flat_map(|set| set.packages.values()) {
            unnamed.remove(name.as_str());
        }
    }
    let states = input.observed.nodes.values().flat_map(|node| node.rollouts.values());
    for state in states {
        if unnamed.is_empty() || state.malformed.is_some() {
            return; // What a malformed one names is not known, so nothing is safe to delete.
        }
        for entry in state.entries.values() {
            for name in [entry.snapshot.as_ref(), entry.applied.as_ref()].into_iter().flatten() {
                unnamed.remove(name.as_str());
            }
        }
    }
    for (name, snapshot) in unnamed {
        plan.actions.push(Action::DeleteSnapshot(ConfigMapRef {
            rollout: snapshot.rollout.clone(),
            name: name.to_owned(),
            uid: snapshot.uid.clone(),
        }));
    }
}

/// Lets go of nodes that a rollout holds but no longer selects, or whose resource is gone: our
/// cordon never outlives its reason.
fn let_go_of_strays(input: &Input, plan: &mut Plan) {
    let patched = super::rollout::busy_nodes(plan);
    for node in input.observed.nodes.values().filter(|node| !patched.contains(&node.name)) {
        let before = plan.actions.len();
        for (name, state) in &node.rollouts {
            let Some(record) = &state.record else { continue };
            let holds = record.is_open() || node.is_left_cordoned_by(name, record);
            if state.malformed.is_some() || !holds || !is_stray(input, node, name, record) {
                continue;
            }
            leave_stray(input, node, name, record, plan);
        }
        // One patch of a node a tick: two would be one and a Conflict.
        if plan.actions.len() > before {
            continue;
        }
        let unmarked = node.cordons.iter().find_map(|mark| match mark {
            CordonMark::Rollout(name) => is_stray_mark(input, node, name).then_some(name),
            CordonMark::RuntimeRequired => None,
        });
        plan.actions.extend(unmarked.map(|name| release_mark(node, name)));
    }
}

/// Returns whether our mark is all that is left of a visit: a person took its record away, and the
/// node is not selected any more, so that no visit will follow.
fn is_stray_mark(input: &Input, node: &Node, rollout: &str) -> bool {
    let state = node.rollouts.get(rollout);
    let read = state.is_none_or(|state| state.record.is_none() && state.malformed.is_none());
    let unselected = input.observed.resources.contains_key(rollout)
        && input.desired.rollouts.get(rollout).is_some_and(|it| !it.selects(&node.labels));
    let mut executors = input.observed.executors.values();
    let runs = executors.any(|it| {
        let here = it.visit.node == node.name && it.visit.rollout == rollout;
        here && it.group != Group::Pull && it.is_active()
    });
    // Nor under what upstream's operator began and has not ended.
    let mut works = input.observed.upstream.values();
    let runs = runs
        || works.any(|work| {
            let here = work.node == node.name && work.rollout == rollout;
            here && !takeover::is_over(input, work)
        });
    read && unselected && !runs && claims::delays_release(node).is_none()
}

fn leave_stray(input: &Input, node: &Node, rollout: &str, record: &Record, plan: &mut Plan) {
    let executors = input.observed.executors.values();
    let here: Vec<&Executor> = executors
        .filter(|executor| executor.visit.node == node.name && executor.visit.rollout == *rollout)
        .filter(|executor| executor.group != Group::Pull)
        .collect();
    let active: Vec<&Executor> =
        here.iter().filter(|executor| executor.is_active()).copied().collect();
    let visited: Vec<&Executor> =
        here.iter().filter(|executor| executor.visit.visit == record.visit).copied().collect();
    let record_here = (record.node_uid == node.uid).then_some(record);
    match obstacle(input, node, rollout, record_here, &active, &visited) {
        Some(obstacle) => {
            let _nobody_counts_it = obstacle.tell(node, rollout, plan);
        }
        None if claims::delays_release(node).is_some() => {}
        None => plan.actions.push(release(node, rollout, record)),
    }
}

fn is_stray(input: &Input, node: &Node, rollout: &str, record: &Record) -> bool {
    let resource = input.observed.resources.get(rollout);
    if input.desired.invalid.contains_key(rollout) {
        return resource.is_some_and(|resource| resource.deleting);
    }
    match (input.desired.rollouts.get(rollout), resource) {
        (Some(wanted), Some(resource)) => {
            // An open visit outside the selection is brought to its end by its rollout.
            let live = resource.uid == record.cr_uid && node.uid == record.node_uid;
            !live || (!record.is_open() && !wanted.selects(&node.labels))
        }
        (Some(_), None) | (None, _) => true,
    }
}

/// Lets go of a node that a failed visit left cordoned, when nothing of it is wanted any more: no
/// visit will follow that would do so.
pub(crate) fn let_go_of_failed(
    node: &Node,
    rollout: &str,
    record: &Record,
    executors: &[&Executor],
) -> Option<Action> {
    let busy =
        executors.iter().any(|executor| executor.is_active() && executor.visit.rollout == rollout);
    let holds = !record.is_open() && node.is_left_cordoned_by(rollout, record);
    (holds && !busy && node.ready).then(|| release(node, rollout, record))
}

/// Lets go of a node: its record closed, our mark gone, schedulable if nobody else says otherwise.
pub(crate) fn release(node: &Node, rollout: &str, record: &Record) -> Action {
    let others = has_other_owner(node, rollout);
    let ours = node.is_cordoned_by(rollout);
    let mut record = record.clone();
    record.outcome = Some(Outcome::Released);
    record.phase = Phase::Released;
    record.held = false;
    let free = ours && !others && !record.prior_unschedulable && node.unschedulable;
    Action::PatchNode(NodePatch {
        record: Some(record),
        status: Some(StatusWord::Unknown),
        cordon_mark: ours.then_some(false),
        unschedulable: free.then_some(false),
        ..NodePatch::release(node, rollout)
    })
}
