//! Takes in what executors did and what the node's boot ID proves.
//!
//! An executor's end counts once: the record keeps the last attempt it has taken in. Only an entry
//! that is at the executor's stages is changed, and none is ever created (design §4 rule 6).

use jiff::Timestamp;

use super::super::due::last_stage;
use super::super::limits::{MESSAGE_BYTES_MAX, cut};
use super::{Draft, Visit, attempt_key};
use crate::model::{
    Entry, Executor, ExecutorPhase, Failure, Group, InterruptKind, Phase, Stage, State,
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
        match executor.group {
            // Neither is begun by a visit of this version.
            Group::Pull | Group::Uninstall => {}
            Group::Install => install_ended(visit, draft, executor),
            Group::Verify => verify_ended(visit, draft, executor),
            Group::Interrupt => interrupt_ended(visit, draft, executor),
        }
    }
    reboot_proven(visit, draft);
}

fn is_news(executor: &Executor, draft: &Draft) -> bool {
    let key = attempt_key(executor.group, &executor.package.name);
    executor.attempt > draft.record.attempts.get(&key).copied().unwrap_or(0)
}

/// Marks the attempt as taken in, and returns the entry it was for if that is at its stages.
fn take<'d>(
    draft: &'d mut Draft,
    executor: &Executor,
    is_at: impl Fn(&Entry) -> bool,
) -> Option<&'d mut Entry> {
    let entry = draft.entries.get_mut(&executor.package).filter(|entry| is_at(entry))?;
    let key = attempt_key(executor.group, &executor.package.name);
    draft.record.attempts.insert(key, executor.attempt);
    draft.because = Some(executor.group);
    Some(entry)
}

fn install_ended(visit: &Visit<'_>, draft: &mut Draft, executor: &Executor) {
    let now = visit.now();
    let owed = draft.record.interrupts_due.contains_key(&executor.package.name);
    let installing = |entry: &Entry| {
        matches!(entry.stage, Stage::Apply | Stage::Upgrade | Stage::Config)
            && entry.state != State::Complete
    };
    let Some(entry) = take(draft, executor, installing) else { return };
    let succeeded =
        executor.phase == ExecutorPhase::Succeeded || executor.completed.contains(&Stage::Config);
    if succeeded {
        let end = visit
            .scope
            .input
            .observed
            .snapshots
            .get(&executor.snapshot)
            .map_or(Stage::Config, |snapshot| last_stage(&snapshot.package));
        let (stage, state) =
            if owed { (Stage::Interrupt, State::Skipped) } else { (end, State::Complete) };
        reach(entry, stage, state, now);
        entry.snapshot = Some(executor.snapshot.clone());
        // The older version's files are this version's now (upstream contract B.14).
        let this = executor.package.clone();
        draft.entries.retain(|id, _| id.name != this.name || *id == this);
        draft.record.message = None;
        draft.record.reason = None;
        return;
    }
    if let Some(last) = executor.completed.iter().filter(|stage| **stage != Stage::Config).max()
        && *last == entry.stage
    {
        reach(entry, Stage::Config, State::InProgress, now);
        entry.restarts = None;
    }
    failed(draft, executor, now);
}

fn verify_ended(visit: &Visit<'_>, draft: &mut Draft, executor: &Executor) {
    let now = visit.now();
    let verifying =
        |entry: &Entry| entry.stage == Stage::PostInterrupt && entry.state != State::Complete;
    let Some(entry) = take(draft, executor, verifying) else { return };
    if executor.phase == ExecutorPhase::Succeeded {
        reach(entry, Stage::PostInterrupt, State::Complete, now);
        draft.record.message = None;
        draft.record.reason = None;
    } else {
        failed(draft, executor, now);
    }
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
    let at_interrupt =
        |entry: &Entry| entry.stage == Stage::Interrupt && entry.state != State::Complete;
    if take(draft, executor, at_interrupt).is_none() {
        return;
    }
    if executor.phase == ExecutorPhase::Succeeded {
        interrupted(visit, draft);
    } else {
        failed(draft, executor, visit.now());
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
        interrupted(visit, draft);
    }
}

/// The interrupt is done: for the package that carried it and for all that waited for it.
fn interrupted(visit: &Visit<'_>, draft: &mut Draft) {
    let now = visit.now();
    draft.record.phase = Phase::Interrupted;
    draft.because = Some(Group::Interrupt);
    for entry in draft.entries.values_mut() {
        let owed = draft.record.interrupts_due.contains_key(&entry.name);
        if owed && entry.stage == Stage::Interrupt {
            reach(entry, Stage::PostInterrupt, State::InProgress, now);
            entry.restarts = None;
            draft.record.interrupts_due.remove(&entry.name);
        }
    }
    draft.record.message = None;
    draft.record.reason = None;
}

/// Counts a failed attempt, unless it was lost to a disruption.
fn failed(draft: &mut Draft, executor: &Executor, now: Timestamp) {
    let Some(entry) = draft.entries.get_mut(&executor.package) else { return };
    let failure = executor.failure.as_ref();
    if failure.is_some_and(|failure| failure.disrupted) {
        return;
    }
    entry.restarts = Some(entry.restarts.unwrap_or(0).saturating_add(1));
    let stage = entry.stage;
    reach(entry, stage, State::Erroring, now);
    draft.record.reason = Some("Failed".to_owned());
    draft.record.message = Some(cut(&sentence(stage, executor, failure), MESSAGE_BYTES_MAX));
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
