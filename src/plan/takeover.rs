//! What upstream's operator left behind, taken over with nothing run again.
//!
//! Its Jobs and pods go on by themselves when it is stopped. Nothing of ours starts on a node that
//! has one: it is waited for, its end is credited to the entry it ran for, and only then is the
//! object deleted. The credit is a patch of the entries alone, before any visit: a crash between
//! credit and deletion finds an entry that is past the stage, and credits nothing twice.
//!
//! An entry of upstream's is one without a snapshot; what a visit of ours has begun is never
//! credited from an object of theirs.

use std::collections::BTreeSet;

use super::limits::{START_DEADLINE, after};
use super::rollout::has_other_owner;
use super::select::Scope;
use super::wake;
use crate::model::{
    Action, Entries, Entry, ExecutorPhase, Group, Input, Interrupt, InterruptKind, Memory, Node,
    NodePatch, Outcome, Package, PackageId, Plan, Reason, Stage, State, StatusWord, UpstreamKind,
    UpstreamMaps, UpstreamStatus, UpstreamWork, Verdict, VerdictKind,
};

/// Takes the next step with what upstream left on the node; `None` when nothing of it is in the
/// way.
pub(crate) fn settle<'a>(scope: &Scope<'a>, node: &'a Node, plan: &mut Plan) -> Option<Verdict> {
    let state = scope.rollout_state(node);
    if state.is_some_and(|state| state.malformed.is_some()) {
        return None;
    }
    if let Some(rollout) = patched_for(node, plan) {
        return Some(Verdict::wait(Reason::OtherRollout { rollout }));
    }
    let works = works_on(scope, node);
    let is_own = |work: &&&UpstreamWork| work.rollout == scope.rollout.name;
    let own: Vec<&UpstreamWork> = works.iter().filter(is_own).copied().collect();
    if let Some(entries) = credited(scope, node, &own) {
        let patch = NodePatch { entries: Some(entries), ..scope.progress(node) };
        plan.actions.push(Action::PatchNode(patch));
        return Some(Verdict::act(Reason::Recording { group: Group::Install }));
    }
    let over = own.iter().filter(|work| is_over(scope.input, work));
    let mut over = over.filter(|work| !work.terminating).peekable();
    if over.peek().is_some() {
        plan.actions.extend(over.map(|work| Action::DeleteUpstreamWork {
            rollout: scope.rollout.name.clone(),
            node: node.name.clone(),
            work: work.reference.clone(),
        }));
        return Some(Verdict::act(Reason::Recording { group: Group::Install }));
    }
    // What is over is in the way of others until its own rollout has taken it in.
    let rollouts = &scope.input.desired.rollouts;
    let first = works.iter().find(|work| {
        let owner = rollouts.get(&work.rollout);
        !is_over(scope.input, work) || owner.is_some_and(|owner| owner.selects(&node.labels))
    })?;
    if first.phase == ExecutorPhase::Pending && first.reference.kind == UpstreamKind::Pod {
        wake(plan, after(first.seen, START_DEADLINE));
    }
    Some(Verdict::wait(waits_for(first)))
}

/// Lets go of a node that is complete as upstream left it, and that upstream's mark for this very
/// rollout keeps cordoned or whose status word says that it is worked on: upstream was stopped
/// between its last stage and the release.
pub(crate) fn let_go<'a>(
    scope: &Scope<'a>,
    node: &'a Node,
    verdict: Option<&Verdict>,
    plan: &mut Plan,
) -> Option<Verdict> {
    let rollout = &scope.rollout.name;
    let state = scope.rollout_state(node);
    let is_done = verdict.is_some_and(|verdict| verdict.kind == VerdictKind::Done);
    let record = scope.record(node);
    let is_ours_to_end = record.is_none_or(|record| record.outcome == Some(Outcome::Complete));
    let is_marked = node.is_cordoned_by(rollout);
    let says_working = state.and_then(|state| state.status).is_some_and(|word| {
        matches!(word, StatusWord::InProgress | StatusWord::Erroring) && record.is_none()
    });
    if !is_done || !is_ours_to_end || !(is_marked || says_working) || !node.ready {
        return None;
    }
    let free = is_marked && !has_other_owner(node, rollout) && node.unschedulable;
    plan.actions.push(Action::PatchNode(NodePatch {
        status: Some(StatusWord::Complete),
        cordon_mark: is_marked.then_some(false),
        drain_start: state.and_then(|state| state.drain_start).map(|_began| None),
        unschedulable: free.then_some(false),
        ..NodePatch::release(node, rollout)
    }));
    Some(Verdict::act(Reason::Releasing))
}

/// Returns the interrupt that upstream would end this entry of its own with: while config updates
/// are recorded they alone say so (upstream contract B.2).
pub(crate) fn interrupt_in_scope(
    scope: &Scope<'_>,
    package: &Package,
    entry: &Entry,
) -> Option<Interrupt> {
    // One that had not come to its configuration is installed: older updates are not about it.
    let is_configured = !matches!(entry.stage, Stage::Apply | Stage::Upgrade);
    match changed_keys(scope, package).filter(|_| is_upstreams(entry) && is_configured) {
        Some(keys) => package.interrupt_for(keys),
        None => package.interrupt.clone(),
    }
}

/// Returns whether the node belongs to the batch that upstream was running: it goes first.
pub(crate) fn is_of_running_batch<'a>(scope: &Scope<'a>, node: &'a Node) -> bool {
    let upstream = scope.resource.upstream.as_ref();
    upstream.is_some_and(|upstream| upstream.node_priority.contains_key(&node.name))
        || is_left_unfinished(scope, node)
}

/// Brings what upstream remembers into a memory: its counters where there are none of ours yet,
/// and order numbers that begin above every one it gave away.
pub(crate) fn import(scope: &Scope<'_>, memory: &mut Memory) {
    let Some(upstream) = &scope.resource.upstream else { return };
    memory.order_next = memory.order_next.max(upstream.order_next());
    let before = scope.resource.status.as_ref().map(|status| &status.memory);
    if before.is_some_and(|before| !before.target.is_empty()) {
        return;
    }
    for (name, batch) in &upstream.batches {
        let compartment = memory.compartments.entry(name.clone()).or_default();
        compartment.batch_state = batch.clone();
    }
}

/// Returns what becomes of upstream's maps with the next write of the status.
///
/// They go once what is imported from them has been written, and every node they speak of is
/// complete or has a record of ours. A node that cannot be reached keeps them that long.
pub(crate) fn maps(scope: &Scope<'_>) -> UpstreamMaps {
    let (Some(upstream), Some(status)) = (&scope.resource.upstream, &scope.resource.status) else {
        return UpstreamMaps::Keep;
    };
    let is_imported =
        !status.memory.target.is_empty() && status.memory.order_next >= upstream.order_next();
    let is_settled = |node: &&Node| {
        let in_batch = upstream.node_priority.contains_key(&node.name);
        let by_reboot = scope.input.rules.reapply_on_reboot;
        scope.record(node).is_some()
            || (!is_left_unfinished(scope, node)
                && !by_reboot
                && (!in_batch || scope.needs(node).is_empty()))
    };
    let mut works = scope.input.observed.upstream.values();
    let is_running = works.any(|work| work.rollout == scope.rollout.name);
    if is_imported && !is_running && scope.nodes.iter().all(is_settled) {
        UpstreamMaps::Drop
    } else {
        UpstreamMaps::Keep
    }
}

/// Returns the rollout whose patch of a node with work of upstream's is already planned: two in one
/// tick would be one too many.
fn patched_for(node: &Node, plan: &Plan) -> Option<String> {
    let mut entries = node.rollouts.values().flat_map(|state| state.entries.values());
    if !entries.any(is_upstreams) {
        return None;
    }
    plan.actions.iter().find_map(|action| {
        let Action::PatchNode(patch) = action else { return None };
        (patch.node == node.name).then(|| patch.rollout.clone())
    })
}

fn works_on<'a>(scope: &Scope<'a>, node: &Node) -> Vec<&'a UpstreamWork> {
    let all = scope.input.observed.upstream.values();
    // What ran on an earlier machine of this name says nothing of this one.
    all.filter(|work| work.node == node.name && work.created >= node.created).collect()
}

fn waits_for(work: &UpstreamWork) -> Reason {
    let kind = match work.reference.kind {
        UpstreamKind::Job => "Job",
        UpstreamKind::Pod => "pod",
    };
    Reason::UpstreamWork {
        package: work.package.clone(),
        stage: work.stage,
        object: format!("{kind} {}/{}", work.reference.namespace, work.reference.name),
        since: work.created,
    }
}

/// Returns whether the object will do nothing more: it ended, or it never started. A bare pod
/// whose image cannot be pulled waits for ever, and nothing of it ran.
pub(crate) fn is_over(input: &Input, work: &UpstreamWork) -> bool {
    match work.phase {
        ExecutorPhase::Succeeded | ExecutorPhase::Failed => true,
        ExecutorPhase::Running => false,
        ExecutorPhase::Pending => {
            work.reference.kind == UpstreamKind::Pod
                && input.now >= after(work.seen, START_DEADLINE)
        }
    }
}

/// Returns whether the entry was written by upstream and not begun by a visit of ours since.
fn is_upstreams(entry: &Entry) -> bool {
    entry.snapshot.is_none()
}

/// Returns whether upstream began something on the node that neither of us has ended.
fn is_left_unfinished<'a>(scope: &Scope<'a>, node: &'a Node) -> bool {
    let entries = scope.entries(node);
    entries.values().any(|entry| {
        is_upstreams(entry)
            && entry.state != State::Complete
            && scope.rollout.package(&entry.id()).is_some()
    })
}

fn changed_keys<'a>(scope: &Scope<'a>, package: &Package) -> Option<&'a BTreeSet<String>> {
    let upstream: &'a UpstreamStatus = scope.resource.upstream.as_ref()?;
    upstream.config_updates.get(&package.name).filter(|keys| !keys.is_empty())
}

/// Returns the entries with everything credited that is due, `None` when nothing is.
fn credited<'a>(scope: &Scope<'a>, node: &'a Node, own: &[&UpstreamWork]) -> Option<Entries> {
    let before = scope.entries(node);
    if !before.values().any(is_upstreams) {
        return None;
    }
    let mut entries = before.clone();
    rebooted(scope, node, own, &mut entries);
    for work in own.iter().filter(|work| !work.terminating) {
        match work.phase {
            ExecutorPhase::Succeeded => succeeded(scope, work, &mut entries),
            ExecutorPhase::Failed => failed(work, &mut entries),
            ExecutorPhase::Pending | ExecutorPhase::Running => {}
        }
    }
    promote_left_behind(scope, &mut entries);
    complete_without_interrupt(scope, node, &mut entries);
    (entries != *before).then_some(entries)
}

/// Returns the entry the work is for, if that still is at its stage.
fn entry_of<'e>(work: &UpstreamWork, entries: &'e mut Entries) -> Option<&'e mut Entry> {
    let entry = entries.get_mut(&work.package)?;
    let is_at = is_upstreams(entry) && entry.stage == work.stage && entry.state != State::Complete;
    is_at.then_some(entry)
}

fn succeeded(scope: &Scope<'_>, work: &UpstreamWork, entries: &mut Entries) {
    let Some(entry) = entry_of(work, entries) else { return };
    match work.stage {
        Stage::Apply | Stage::Config | Stage::PostInterrupt => complete(scope, entry),
        Stage::Upgrade => {
            complete(scope, entry);
            // The lower version's files are this one's now (upstream contract B.14).
            let this = work.package.clone();
            entries.retain(|id, entry| id.name != this.name || *id == this || !is_upstreams(entry));
        }
        Stage::Interrupt => interrupted(scope, &work.package, entries),
        Stage::Uninstall => {
            let package = scope.rollout.packages.get(&work.package.name);
            if package.is_some_and(|package| package.interrupt.is_some()) {
                entry.stage = Stage::UninstallInterrupt;
                entry.state = State::InProgress;
                entry.since = Some(scope.input.now);
            } else {
                entries.remove(&work.package);
            }
        }
        Stage::UninstallInterrupt => {
            entries.remove(&work.package);
        }
    }
}

/// A genuine failure is shown with upstream's attempts; our own begin anew with the pick. What was
/// disrupted is simply run again, unless the stage had failed before (upstream contract B.16).
fn failed(work: &UpstreamWork, entries: &mut Entries) {
    let Some(entry) = entry_of(work, entries) else { return };
    let is_genuine = work.failure.as_ref().is_none_or(|failure| !failure.disrupted);
    if is_genuine && entry.state != State::Erroring {
        let attempts = i32::try_from(work.restarts).unwrap_or(i32::MAX);
        entry.state = State::Erroring;
        entry.restarts = Some(entry.restarts.unwrap_or(0).max(attempts));
        // `since` stays: no visit of ours has touched it.
    }
}

fn complete(scope: &Scope<'_>, entry: &mut Entry) {
    entry.state = State::Complete;
    entry.since = Some(scope.input.now);
    entry.restarts = None;
}

/// One interrupt ran for all: whoever was skipped for it goes on as well (upstream contract B.5).
fn interrupted(scope: &Scope<'_>, winner: &PackageId, entries: &mut Entries) {
    for (id, entry) in entries.iter_mut() {
        let waited = entry.is(Stage::Interrupt, State::Skipped) && is_upstreams(entry);
        if waited || id == winner {
            complete(scope, entry);
        }
    }
}

/// A reboot that upstream issued and did not live to record: the node has another boot ID than
/// upstream last saw, and nothing of it runs any more.
fn rebooted<'a>(scope: &Scope<'a>, node: &'a Node, own: &[&UpstreamWork], entries: &mut Entries) {
    let seen = scope.resource.upstream.as_ref();
    let seen = seen.and_then(|upstream| upstream.node_boot_ids.get(&node.name));
    if !node.ready || seen.is_none_or(|seen| *seen == node.boot_id) {
        return;
    }
    let runs =
        |id: &PackageId| own.iter().any(|work| work.package == *id && !is_over(scope.input, work));
    let winner = entries.iter().find(|(id, entry)| {
        let package = scope.rollout.package(id);
        let interrupt = package.and_then(|package| interrupt_in_scope(scope, package, entry));
        is_upstreams(entry)
            && entry.stage == Stage::Interrupt
            && matches!(entry.state, State::InProgress | State::Erroring)
            && interrupt.is_some_and(|interrupt| interrupt.kind == InterruptKind::Reboot)
            && !runs(id)
    });
    if let Some((id, _)) = winner {
        let id = id.clone();
        interrupted(scope, &id, entries);
    }
}

/// A package that was skipped for the interrupt of another, which is past it, while no other is
/// still on its way there: upstream promotes it without a second interrupt (B.5).
///
/// Differs from upstream: without such another, whose interrupt it shared is not known, and it
/// gets one of its own.
fn promote_left_behind(scope: &Scope<'_>, entries: &mut Entries) {
    let is_skipped = |entry: &Entry| entry.is(Stage::Interrupt, State::Skipped);
    let mut interrupting = entries.values().filter(|entry| {
        let package = scope.rollout.package(&entry.id());
        package.is_some_and(|package| interrupt_in_scope(scope, package, entry).is_some())
            && !is_skipped(entry)
    });
    let is_past = |entry: &Entry| {
        entry.stage == Stage::PostInterrupt || entry.is(Stage::Interrupt, State::Complete)
    };
    let all_past = interrupting.clone().all(is_past) && interrupting.next().is_some();
    let none_to_come = scope
        .rollout
        .packages
        .values()
        .all(|package| package.interrupt.is_none() || entries.contains_key(&package.id()));
    if !all_past || !none_to_come {
        return;
    }
    for entry in entries.values_mut() {
        if is_skipped(entry) && is_upstreams(entry) {
            complete(scope, entry);
        }
    }
}

/// A package with an interrupt that upstream ended at config, because no changed key asked for it,
/// is complete for upstream. We end it where we end such packages, so that it stays so when what
/// upstream remembers is gone (upstream contract B.2).
fn complete_without_interrupt<'a>(scope: &Scope<'a>, node: &'a Node, entries: &mut Entries) {
    let status = scope.rollout_state(node).and_then(|state| state.status);
    let was_complete = status == Some(StatusWord::Complete) && scope.record(node).is_none();
    for entry in entries.values_mut() {
        let Some(package) = scope.rollout.package(&entry.id()) else { continue };
        let not_in_scope = interrupt_in_scope(scope, package, entry).is_none();
        if is_upstreams(entry)
            && entry.is(Stage::Config, State::Complete)
            && package.interrupt.is_some()
            && (was_complete || not_in_scope)
        {
            entry.stage = Stage::PostInterrupt;
            entry.since = Some(scope.input.now);
        }
    }
}
