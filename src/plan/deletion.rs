//! Leaving: a resource that is being deleted, and nodes that go away in the middle of a visit.
//!
//! In: the scope of a rollout. Out: visits brought to a safe end, cordons released, nodes cleaned,
//! and last of all the finalizer removed. A deleting resource is a target of its own: what it still
//! has to uninstall is paced like every change, and everything else is let go.
//!
//! Must never: let a resource go while a node is held for it or work of it may still run there, nor
//! wait for something that nobody can bring about. Differs from upstream, where an install that
//! fails blocks the deletion for ever (upstream contract B.15): here only a package whose uninstall
//! itself failed, or may not begin, holds it, and says so.

use jiff::Timestamp;

use super::cleanup::release;
use super::leave;
use super::limits::{REBOOT_DEADLINE, START_DEADLINE, after};
use super::names::Named;
use super::select::Scope;
use super::visit::{Draft, Visit, attempt_key};
use super::{visit, wake};
use crate::model::{
    Action, Executor, FinalizerWrite, Group, Input, InterruptKind, Node, NodeCleaning, NodePatch,
    Opening, Outcome, Phase, Plan, Reason, Record, Resource, Rollout, Stage, Verdict, VerdictKind,
};

/// Returns what the resource moves nodes to: a target of its own while it is being deleted, so that
/// stops and counts of failures belong to what came before (design §7).
pub(crate) fn target(rollout: &Rollout, resource: &Resource, named: &Named) -> String {
    if resource.deleting { rollout.leaving_target() } else { named.target.clone() }
}

/// Puts our finalizer on a resource before its first pick; returns whether picks must wait for it.
pub(crate) fn await_finalizer(scope: &Scope<'_>, plan: &mut Plan) -> bool {
    // A finalizer cannot be added to an object that is going.
    if scope.resource.finalizer || scope.resource.deleting {
        return false;
    }
    plan.actions.push(finalizer(&scope.rollout.name, scope.resource, true));
    true
}

/// Returns why the packages that a deleted resource still has to uninstall may not begin.
///
/// A revision that is still being applied does not hold it: it may be waiting for this very
/// deletion. A missing policy does not either: nodes are then taken one at a time.
pub(crate) fn hold(scope: &Scope<'_>) -> Option<Verdict> {
    let Scope { input, rollout, resource, .. } = scope;
    let blocked = |why: &str| Some(Verdict::blocked(Reason::DeletionBlocked { why: why.into() }));
    if resource.disabled {
        return blocked("it is disabled, with packages still to be uninstalled");
    }
    if resource.paused {
        return blocked("it is paused, with packages still to be uninstalled");
    }
    if rollout.budget.is_some_and(|budget| input.floor.budget(budget).is_zero()) {
        return blocked("its interruptionBudget is zero, with packages still to be uninstalled");
    }
    match input.opening.get(&rollout.name) {
        Some(Opening::Held(Reason::ApplyingRevision { .. }) | Opening::Allowed) | None => None,
        Some(Opening::Held(reason)) => Some(Verdict::wait(reason.clone())),
    }
}

/// Returns whether the visit only comes to its safe end: what it was for is not wanted any more, or
/// the node goes away.
pub(crate) fn winds_down(scope: &Scope<'_>, node: &Node, record: &Record) -> bool {
    let Scope { rollout, resource, target, .. } = scope;
    let held = resource.paused || resource.disabled;
    let outdated = resource.deleting && (held || record.target != *target);
    outdated || node.deleting || !rollout.selects(&node.labels)
}

/// Ends the visit once nothing of it runs on the node.
pub(crate) fn wind_down(visit: &Visit<'_>, draft: &mut Draft) {
    let Visit { scope, node, active, .. } = visit;
    let record = &draft.record;
    let obstacle =
        obstacle(scope.input, node, &scope.rollout.name, Some(record), active, &visit.executors);
    if obstacle.is_none() {
        draft.record.outcome = Some(Outcome::Released);
        draft.record.phase = Phase::Released;
    }
}

/// Says what the end of the visit waits for, and takes pods away that will never start.
pub(crate) fn awaiting_end(visit: &Visit<'_>, plan: &mut Plan) -> Verdict {
    let Visit { scope, node, record, active, .. } = visit;
    let name = &scope.rollout.name;
    let obstacle = obstacle(scope.input, node, name, Some(record), active, &visit.executors);
    match obstacle {
        Some(obstacle) => obstacle.tell(node, name, plan),
        None => Verdict::act(Reason::Releasing),
    }
}

/// Why a node cannot be left now.
pub(crate) struct Obstacle<'a> {
    reason: Reason,
    /// When time alone takes it away.
    until: Option<Timestamp>,
    /// Pods that never started and never will.
    stuck: Vec<&'a Executor>,
}

impl Obstacle<'_> {
    /// Adds what brings it forward to the plan.
    pub(crate) fn tell(self, node: &Node, rollout: &str, plan: &mut Plan) -> Verdict {
        if let Some(until) = self.until {
            wake(plan, until);
        }
        for executor in self.stuck {
            plan.actions.push(Action::DeleteExecutor {
                rollout: rollout.to_owned(),
                node: node.name.clone(),
                pod: executor.reference.clone(),
            });
        }
        Verdict { kind: VerdictKind::Act, reason: self.reason }
    }
}

/// Returns what must end before the node is left: a running executor, or a reboot that was issued
/// and has not happened. A host that is down for longer than any reboot takes is not waited for.
///
/// `active` are the executors that may still do something here, of any rollout; `visited` those of
/// the record's visit.
pub(crate) fn obstacle<'a>(
    input: &Input,
    node: &Node,
    rollout: &str,
    record: Option<&Record>,
    active: &[&'a Executor],
    visited: &[&Executor],
) -> Option<Obstacle<'a>> {
    let lost_at = node.ready_since.filter(|_| !node.ready);
    let lost_at = lost_at.map(|since| after(since, REBOOT_DEADLINE));
    let lost = lost_at.is_some_and(|at| at <= input.now);
    let own = active.iter().filter(|executor| {
        // A pull touches nothing on the host, and goes with its resource.
        executor.visit.rollout == rollout && executor.group != Group::Pull && !lost
    });
    let own: Vec<&'a Executor> = own.copied().collect();
    if let Some(first) = own.first() {
        let stuck = own.iter().filter(|executor| never_starts(input, executor)).copied().collect();
        let running = first.running.unwrap_or(first_stage(first.group));
        let reason = Reason::Running {
            package: first.package.clone(),
            stage: running,
            since: first.created,
        };
        let starts = own.iter().filter(|executor| !executor.begun && !executor.terminating);
        let starts = starts.map(|executor| after(executor.created, START_DEADLINE));
        let until = starts.chain(lost_at).filter(|at| *at > input.now).min();
        return Some(Obstacle { reason, until, stuck });
    }
    let record = record?;
    let since = reboot_issued(node, record, visited)?;
    let deadline = after(since, REBOOT_DEADLINE);
    (input.now < deadline).then(|| Obstacle {
        reason: Reason::Rebooting { since },
        until: Some(deadline),
        stuck: Vec::new(),
    })
}

/// Returns whether nothing of the executor ran on the host, and nothing is going to.
fn never_starts(input: &Input, executor: &Executor) -> bool {
    let overdue = !executor.begun && input.now >= after(executor.created, START_DEADLINE);
    (executor.is_stuck() || overdue) && !executor.terminating
}

fn first_stage(group: Group) -> Stage {
    match group {
        Group::Pull | Group::Install => Stage::Apply,
        Group::Uninstall => Stage::Uninstall,
        Group::Interrupt => Stage::Interrupt,
        Group::Verify => Stage::PostInterrupt,
    }
}

/// Returns since when a reboot is on its way that the boot ID does not prove yet: its pod ends
/// before the host goes down, and pods that come in between would be killed.
fn reboot_issued(node: &Node, record: &Record, visited: &[&Executor]) -> Option<Timestamp> {
    let interrupt = record.interrupt.as_ref()?;
    let unproven = record.phase == Phase::Interrupting
        && record.boot_before.as_ref() == Some(&node.boot_id)
        && interrupt.kind == InterruptKind::Reboot;
    let key = attempt_key(Group::Interrupt, &interrupt.package.name);
    let recorded = record.attempts.get(&key).copied().unwrap_or(0);
    let issued = visited.iter().any(|executor| {
        executor.group == Group::Interrupt && executor.begun && executor.attempt > recorded
    });
    (unproven && issued).then_some(interrupt.since)
}

/// Brings visits to an end on nodes that the rollout does not select any more.
///
/// What their executors did is still taken in, so that the node's annotations stay true.
pub(crate) fn leave_unselected<'a>(scope: &'a Scope<'a>, plan: &mut Plan) {
    for &(node, record) in scope.elsewhere.iter().filter(|(_, record)| record.is_open()) {
        let _nobody_counts_it = visit::drive(scope, node, record, plan);
    }
}

/// Lets go of a node without an open visit that still has our cordon, for a deleted resource.
///
/// One on which an uninstall failed stays as it is until somebody looks at it, as after every
/// failure; not while the resource is paused or disabled, when nobody would.
pub(crate) fn let_go<'a>(
    scope: &Scope<'a>,
    node: &'a Node,
    verdict: Option<&Verdict>,
    plan: &mut Plan,
) -> Option<Verdict> {
    let Scope { rollout, resource, target, .. } = scope;
    let record = scope.record(node);
    let done = verdict.is_some_and(|verdict| verdict.kind == VerdictKind::Done);
    let failed = record.is_some_and(|record| {
        record.outcome == Some(Outcome::Erroring) && record.target == *target
    });
    let for_people = failed && !done && !resource.paused && !resource.disabled;
    if !node.is_cordoned_by(&rollout.name) || for_people {
        return None;
    }
    let here = scope.executors.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
    release_when_safe(scope.input, node, &rollout.name, record, here, plan)
}

/// Releases our cordon on a node whose annotations cannot be read: the mark alone says that it is
/// ours.
pub(crate) fn release_unreadable<'a>(scope: &Scope<'a>, node: &'a Node, plan: &mut Plan) {
    let name = &scope.rollout.name;
    if scope.resource.deleting && node.is_cordoned_by(name) {
        let here = scope.executors.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
        let record = scope.record(node);
        let _said_elsewhere = release_when_safe(scope.input, node, name, record, here, plan);
    }
}

pub(crate) fn release_when_safe(
    input: &Input,
    node: &Node,
    rollout: &str,
    record: Option<&Record>,
    here: &[&Executor],
    plan: &mut Plan,
) -> Option<Verdict> {
    let active: Vec<&Executor> =
        here.iter().filter(|executor| executor.is_active()).copied().collect();
    if let Some(obstacle) = obstacle(input, node, rollout, record, &active, here) {
        return Some(obstacle.tell(node, rollout, plan));
    }
    let malformed = node.rollouts.get(rollout).is_some_and(|state| state.malformed.is_some());
    plan.actions.push(match record.filter(|_| !malformed) {
        Some(record) => release(node, rollout, record),
        None => release_mark(node, rollout),
    });
    Some(Verdict::act(Reason::Releasing))
}

/// Takes our mark off, and the cordon with it where nobody else holds it; says nothing else.
pub(crate) fn release_mark(node: &Node, rollout: &str) -> Action {
    let others = super::rollout::has_other_owner(node, rollout);
    Action::PatchNode(NodePatch {
        cordon_mark: Some(false),
        unschedulable: (!others && node.unschedulable).then_some(false),
        ..NodePatch::release(node, rollout)
    })
}

/// Lets a deleted resource go once every node is through. Returns whether it is on its way out, so
/// that nothing else is written to it.
pub(crate) fn finish(
    input: &Input,
    rollout: &str,
    resource: &Resource,
    through: bool,
    plan: &mut Plan,
) -> bool {
    if !resource.deleting || !through {
        return false;
    }
    let nodes = || input.observed.nodes.values();
    let held = nodes().any(|node| {
        let open = node.record(rollout, &resource.uid).is_some_and(Record::is_open);
        open || node.is_cordoned_by(rollout)
    });
    if held || still_runs(input, rollout, plan) {
        return false;
    }
    let dirty: Vec<Action> = nodes().filter_map(|node| cleaning(node, rollout)).collect();
    if !dirty.is_empty() {
        plan.actions.extend(dirty);
        return false;
    }
    if resource.finalizer {
        plan.actions.push(finalizer(rollout, resource, false));
    }
    true
}

/// Returns whether an executor of the rollout may still do something on a host, whatever visit it
/// is of; one that will never start is taken away, for no visit is left that would do so.
fn still_runs(input: &Input, rollout: &str, plan: &mut Plan) -> bool {
    let mut runs = false;
    for executor in input.observed.executors.values() {
        let node = input.observed.nodes.get(&executor.visit.node);
        if executor.visit.rollout == rollout
            && executor.is_active()
            && let Some(node) = node
            && let Some(obstacle) = obstacle(input, node, rollout, None, &[executor], &[])
        {
            let _nobody_counts_it = obstacle.tell(node, rollout, plan);
            runs = true;
        }
    }
    runs
}

/// Returns what takes our keys off the node; `None` where there are none. What a package left on
/// the host stays named, so that a resource of this name that comes back finds it; not where the
/// host is another one since: nothing of it is there.
fn cleaning(node: &Node, rollout: &str) -> Option<Action> {
    let state = node.rollouts.get(rollout)?;
    let record = state.record.as_ref();
    let is_replaced = record.is_some_and(|record| leave::replaced(record, node).is_some());
    let is_empty = state.entries.is_empty() && state.left.is_empty();
    let keep_entries = (!is_empty && !is_replaced) || state.malformed.is_some();
    let dirty = state.record_text.is_some()
        || state.status.is_some()
        || state.drain_start.is_some()
        || (!keep_entries && state.entries_text.is_some());
    dirty.then(|| {
        Action::CleanNode(NodeCleaning {
            node: node.name.clone(),
            node_uid: node.uid.clone(),
            resource_version: node.resource_version.clone(),
            rollout: rollout.to_owned(),
            keep_entries,
        })
    })
}

fn finalizer(rollout: &str, resource: &Resource, present: bool) -> Action {
    Action::SetFinalizer(FinalizerWrite {
        rollout: rollout.to_owned(),
        rollout_uid: resource.uid.clone(),
        resource_version: resource.resource_version.clone(),
        present,
    })
}

/// Lets deleted resources go that cannot be read, as far as nothing is to be uninstalled: what the
/// nodes still name says so. The clean-up releases their nodes before.
pub(crate) fn leave_unreadable(input: &Input, plan: &mut Plan) {
    for (name, resource) in &input.observed.resources {
        if resource.deleting && input.desired.invalid.contains_key(name) {
            let through = !has_uninstalls(input, name);
            finish(input, name, resource, through, plan);
        }
    }
}

/// Returns whether a node has a package of the rollout that was put there with an uninstall.
fn has_uninstalls(input: &Input, rollout: &str) -> bool {
    let entries = input.observed.nodes.values().flat_map(|node| node.entries(rollout).values());
    entries.filter_map(|entry| entry.snapshot.as_ref()).any(|name| {
        let snapshot = input.observed.snapshots.get(name);
        snapshot.is_some_and(|snapshot| snapshot.package.uninstall.enabled)
    })
}
