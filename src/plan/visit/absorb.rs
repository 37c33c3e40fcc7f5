//! Takes in what executors did and what the node's boot ID proves.
//!
//! An executor's end counts once: the record keeps the last attempt it has taken in. Only an entry
//! that is at the executor's stages is changed, and none is ever created (design §4 rule 6).

use jiff::Timestamp;

use super::super::due::{self, last_stage};
use super::super::lifecycle::{self, Ending, Owes, Seen, Step};
use super::super::limits::{ATTEMPTS_MAX, MESSAGE_BYTES_MAX, cut};
use super::advance::is_final;
use super::seen::group_of;
use super::{Draft, Visit, attempt_key};
use crate::model::{
    Entry, Executor, ExecutorPhase, Failure, Group, Interrupt, InterruptKind, PackageId, Phase,
    Stage, State,
};

/// Takes in everything that has ended since the record was written.
pub(crate) fn absorb(visit: &Visit<'_>, draft: &mut Draft) {
    let mut ended: Vec<&Executor> = visit
        .executors
        .iter()
        .filter(|executor| !executor.is_active() && is_news(executor, draft))
        .copied()
        .collect();
    ended.sort_by_key(|executor| (executor.group, executor.package.clone(), executor.attempt));
    for executor in ended {
        tried(draft, executor);
        if executor.group == Group::Interrupt {
            interrupt_ended(visit, draft, executor);
        } else {
            executor_ended(visit, draft, executor);
        }
    }
    reboot_proven(visit, draft);
}

/// Notes that something of an executor's version ran on the host, whatever becomes of it. A version
/// that was put there before, and not finished, has lost its host to this one.
pub(crate) fn tried(draft: &mut Draft, executor: &Executor) {
    let id = &executor.package;
    let puts_there = executor.group == Group::Install && executor.begun;
    let Some(entry) = draft.entries.get_mut(id).filter(|it| puts_there && it.untried) else {
        return;
    };
    entry.untried = false;
    draft.entries.retain(|other, entry| {
        other.name != id.name || other == id || entry.state == State::Complete
    });
}

fn is_news(executor: &Executor, draft: &Draft) -> bool {
    let key = attempt_key(executor.group, &executor.package.name);
    executor.attempt > draft.record.attempts.get(&key).copied().unwrap_or(0)
}

/// Marks the attempt as taken in if its entry stands at a stage of the executor's group.
fn take(draft: &mut Draft, executor: &Executor) -> bool {
    let taken = draft.entries.get(&executor.package).is_some_and(|entry| {
        group_of(entry.stage) == executor.group && entry.state != State::Complete
    });
    if taken {
        let key = attempt_key(executor.group, &executor.package.name);
        draft.record.attempts.insert(key, executor.attempt);
        draft.because = Some(executor.group);
    }
    taken
}

fn executor_ended(visit: &Visit<'_>, draft: &mut Draft, executor: &Executor) {
    if !take(draft, executor) {
        return;
    }
    let last = match executor.group {
        Group::Install => Stage::Config,
        Group::Verify => Stage::PostInterrupt,
        Group::Uninstall => Stage::Uninstall,
        Group::Interrupt | Group::Pull => return,
    };
    if executor.phase == ExecutorPhase::Succeeded || executor.completed.contains(&last) {
        return record(visit, draft, executor, Seen::Succeeded);
    }
    let at = draft.entries.get(&executor.package).map(|entry| entry.stage);
    if executor.completed.iter().filter(|stage| **stage != last).max().copied() == at {
        record(visit, draft, executor, Seen::FirstStageDone);
    }
    record(visit, draft, executor, failure_seen(draft, executor));
}

fn failure_seen(draft: &Draft, executor: &Executor) -> Seen {
    let restarts = draft.entries.get(&executor.package).and_then(|entry| entry.restarts);
    if executor.failure.as_ref().is_some_and(|failure| failure.disrupted) {
        Seen::Disrupted
    } else if restarts.unwrap_or(0).saturating_add(1) >= ATTEMPTS_MAX {
        Seen::FailedForGood
    } else {
        Seen::Failed
    }
}

/// Returns what the table says of an entry, with what this visit owes it.
fn step_of(visit: &Visit<'_>, draft: &Draft, id: &PackageId, seen: Seen) -> Step {
    let entry = draft.entries.get(id);
    let wanted = visit.scope.rollout.packages.get(&id.name);
    let wish = due::wish(visit.scope, wanted, entry);
    let owed = draft.record.interrupts_due.contains_key(&id.name);
    let owes = if owed { Owes::Interrupt } else { Owes::Nothing };
    lifecycle::step(due::at(entry), owes, wish, seen)
}

/// Records what the table says of an executor's end.
fn record(visit: &Visit<'_>, draft: &mut Draft, executor: &Executor, seen: Seen) {
    let now = visit.now();
    let step = step_of(visit, draft, &executor.package, seen);
    let Some(entry) = draft.entries.get_mut(&executor.package) else { return };
    let Some(ending) = step.ending() else {
        debug_assert!(false, "{step:?} is no record of an end");
        return;
    };
    match ending {
        Ending::At(stage, state) => {
            reach(entry, stage, state, now);
            entry.restarts = None;
            if seen == Seen::Succeeded {
                well_ended(draft, executor);
            }
        }
        Ending::Complete => {
            let snapshot = visit.scope.input.observed.snapshots.get(&executor.snapshot);
            let end = match executor.group {
                Group::Verify => Stage::PostInterrupt,
                Group::Install | Group::Interrupt | Group::Uninstall | Group::Pull => {
                    snapshot.map_or(Stage::Config, |snapshot| last_stage(&snapshot.package))
                }
            };
            reach(entry, end, State::Complete, now);
            well_ended(draft, executor);
        }
        Ending::Gone => {
            due::remove(visit.scope, &executor.package, &mut draft.entries);
            well_ended(draft, executor);
        }
        Ending::Failed(stage) => failed(draft, executor, stage, now),
        Ending::Nothing => {}
    }
}

/// An install that ended well is what is on the host from now on.
fn well_ended(draft: &mut Draft, executor: &Executor) {
    // What another package was given up for stays said, and stays given up.
    if !is_final(&draft.record) {
        draft.record.message = None;
        draft.record.reason = None;
    }
    if executor.group != Group::Install {
        return;
    }
    if let Some(entry) = draft.entries.get_mut(&executor.package) {
        entry.snapshot = Some(executor.snapshot.clone());
        entry.applied = None;
    }
    // The older version's files are this version's now (upstream contract B.14). Differs from
    // upstream: so are a higher version's after a downgrade, whose entry would otherwise be taken
    // for what is on the host when the downgrade is reverted.
    let this = &executor.package;
    draft.entries.retain(|id, _| id.name != this.name || id == this);
}

/// Takes in the end of an interrupt pod. A reboot's pod proves nothing when it ends: it dies with
/// the node. Only the agent's own word that the command could not be issued is a failure.
fn interrupt_ended(visit: &Visit<'_>, draft: &mut Draft, executor: &Executor) {
    let Some(interrupt) = draft.record.interrupt.clone() else { return };
    let reboot = interrupt.kind == InterruptKind::Reboot;
    let agent_failed = executor.failure.as_ref().is_some_and(|failure| failure.step.is_some());
    if draft.record.phase != Phase::Interrupting || (reboot && !agent_failed) {
        return;
    }
    let carried = take(draft, executor);
    if !carried {
        // The package that carried it was reset meanwhile. What ran has run all the same: for those
        // that waited for it, and as an attempt.
        let key = attempt_key(Group::Interrupt, &executor.package.name);
        draft.record.attempts.insert(key, executor.attempt);
        draft.because = Some(Group::Interrupt);
    }
    if executor.phase == ExecutorPhase::Succeeded {
        interrupted(visit, draft);
    } else if carried {
        record(visit, draft, executor, failure_seen(draft, executor));
    }
}

/// A changed boot ID on a ready node, and only that, proves a reboot (design §4 rule 5).
fn reboot_proven(visit: &Visit<'_>, draft: &mut Draft) {
    let waiting = draft.record.phase == Phase::Interrupting
        && draft
            .record
            .interrupt
            .as_ref()
            .is_some_and(|interrupt| interrupt.kind == InterruptKind::Reboot);
    let before = draft.record.boot_before.as_deref();
    let changed = before.is_some_and(|before| before != visit.node.boot_id);
    if waiting && changed && visit.node.ready {
        draft.record.boot_last = Some(visit.node.boot_id.clone());
        take_in_reboot(visit, draft);
        interrupted(visit, draft);
    }
}

/// Whatever becomes of the pod that issued the reboot, it is taken in: a later interrupt of the
/// same package in this visit is another one.
fn take_in_reboot(visit: &Visit<'_>, draft: &mut Draft) {
    let Some(interrupt) = &draft.record.interrupt else { return };
    let name = &interrupt.package.name;
    if let Some(executor) = visit.newest(Group::Interrupt, name) {
        let key = attempt_key(Group::Interrupt, name);
        draft.record.attempts.insert(key, executor.attempt);
    }
}

/// The interrupt is done: for the package that carried it and for all that waited for it.
fn interrupted(visit: &Visit<'_>, draft: &mut Draft) {
    draft.record.phase = Phase::Interrupted;
    draft.because = Some(Group::Interrupt);
    draft.record.message = None;
    draft.record.reason = None;
    let ids: Vec<PackageId> = draft.entries.keys().cloned().collect();
    for id in ids {
        if !is_done_for(draft, &id) {
            continue;
        }
        match step_of(visit, draft, &id, Seen::InterruptDone).ending() {
            Some(Ending::At(stage, state)) => {
                if let Some(entry) = draft.entries.get_mut(&id) {
                    reach(entry, stage, state, visit.now());
                    entry.restarts = None;
                }
            }
            Some(Ending::Gone) => due::remove(visit.scope, &id, &mut draft.entries),
            Some(Ending::Complete | Ending::Failed(_) | Ending::Nothing) | None => continue,
        }
        draft.record.interrupts_due.remove(&id.name);
    }
}

/// Returns whether what was issued does for a package, too: for one that owes more, a reboot where
/// services were restarted, it was not its interrupt, and it waits for its own.
fn is_done_for(draft: &Draft, id: &PackageId) -> bool {
    let owed = draft.record.interrupts_due.get(&id.name);
    let Some((issued, owed)) = draft.record.interrupt.as_ref().zip(owed) else { return true };
    if issued.package == *id {
        return true;
    }
    let issued = Interrupt { kind: issued.kind, services: issued.services.clone() };
    Interrupt::merge([&issued, owed]).as_ref() == Some(&issued)
}

/// Records on the package that carried it that the node did not come back from its reboot; no
/// attempt is counted, for none failed by itself.
pub(crate) fn reboot_overdue(visit: &Visit<'_>, draft: &mut Draft, carrier: &PackageId) {
    let step = step_of(visit, draft, carrier, Seen::RebootOverdue);
    let Some(Ending::Failed(stage)) = step.ending() else { return };
    if let Some(entry) = draft.entries.get_mut(carrier) {
        reach(entry, stage, State::Erroring, visit.now());
    }
}

/// Counts a failed attempt.
fn failed(draft: &mut Draft, executor: &Executor, stage: Stage, now: Timestamp) {
    let Some(entry) = draft.entries.get_mut(&executor.package) else { return };
    entry.restarts = Some(entry.restarts.unwrap_or(0).saturating_add(1));
    reach(entry, stage, State::Erroring, now);
    draft.record.reason = Some("Failed".to_owned());
    let why = sentence(stage, executor, executor.failure.as_ref());
    draft.record.message = Some(cut(&why, MESSAGE_BYTES_MAX));
}

fn sentence(stage: Stage, executor: &Executor, failure: Option<&Failure>) -> String {
    let pod = &executor.reference.name;
    let Some(failure) = failure else { return format!("{stage} failed, see pod {pod}") };
    let check = if failure.in_check { " check" } else { "" };
    let step = failure.step.as_ref().map(|step| format!(", step {step}")).unwrap_or_default();
    let code =
        failure.exit_code.map(|code| format!(" ended with exit code {code}")).unwrap_or_default();
    format!("{stage}{check}{step}{code} in pod {pod}: {}", failure.message.trim())
}

fn reach(entry: &mut Entry, stage: Stage, state: State, now: Timestamp) {
    if !entry.is(stage, state) {
        entry.since = Some(now);
    }
    entry.stage = stage;
    entry.state = state;
}
