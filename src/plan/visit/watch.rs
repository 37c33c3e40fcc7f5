//! Watches the executors of a visit: what runs, why one does not start, when the next attempt may
//! begin, and what has taken too long.
//!
//! In: a visit and its executors. Out: a verdict, the time of the next look, attempts that count as
//! failed, and the removal of pods that must not go on.
//! Must never: replace an interrupt that has begun. An attempt is recorded as failed first; only
//! then is its pod taken away, so that a crash between the two counts it once.

use jiff::Timestamp;

use super::super::limits::{
    CREATE_DEADLINE, MESSAGE_BYTES_MAX, START_DEADLINE, START_NOTICE, after, back_off, cut,
};
use super::super::wake;
use super::{Draft, Visit, absorb, attempt_key};
use crate::model::{
    Action, Entry, Executor, ExecutorPhase, Failure, Group, Input, Node, Phase, Plan, Reason,
    Record, Stage, State, Verdict,
};

/// The record's reason when a pod could not be started in time: what it lacks is not mended by
/// another attempt.
pub(crate) const NOT_STARTED: &str = "NotStarted";

/// Takes away a pod that the target has left behind before it began: a corrected image, or a
/// changed configuration, would otherwise wait for the wrong one (upstream contract D.5).
pub(crate) fn replace_stuck(executor: &Executor, entry: Option<&Entry>, plan: &mut Plan) {
    let recorded = entry.and_then(|entry| entry.snapshot.as_ref());
    let left_behind = recorded != Some(&executor.snapshot);
    if left_behind && executor.is_replaceable() && !executor.terminating {
        plan.actions.push(delete(executor));
    }
}

/// Deletes what runs in a paused visit, gracefully; the stage starts again from its beginning when
/// the pause ends, and no attempt is lost.
///
/// Differs from upstream: an interrupt that has begun is never suspended, since half a restart is
/// no state to leave a node in.
pub(crate) fn suspend(visit: &Visit<'_>, plan: &mut Plan) {
    let running = visit.executors.iter().filter(|executor| {
        executor.is_active()
            && !executor.terminating
            && (executor.group != Group::Interrupt || executor.is_replaceable())
    });
    plan.actions.extend(running.map(|executor| delete(executor)));
}

fn delete(executor: &Executor) -> Action {
    Action::DeleteExecutor {
        rollout: executor.visit.rollout.clone(),
        node: executor.visit.node.clone(),
        pod: executor.reference.clone(),
    }
}

/// Returns the executors that have taken too long, as if they had ended, and sets the next alarm.
pub(crate) fn overdue(visit: &Visit<'_>) -> Vec<Executor> {
    let late = visit.executors.iter().filter_map(|executor| {
        let lapse = lapse(visit, executor).filter(|lapse| lapse.at <= visit.now())?;
        let failure = Failure {
            stage: executor.running,
            in_check: false,
            // What tells a reboot's pod that gave up from one that died with its node.
            step: (executor.group == Group::Interrupt).then(|| "start".to_owned()),
            exit_code: None,
            message: lapse.message,
            disrupted: false,
        };
        Some(Executor {
            phase: ExecutorPhase::Failed,
            failure: Some(failure),
            ..(*executor).clone()
        })
    });
    late.collect()
}

/// Returns pods that were deleted before they ended well and that a finalizer of others keeps from
/// going, as lost: their names are taken, so the next attempt has another number.
pub(crate) fn lingering(visit: &Visit<'_>) -> Vec<Executor> {
    let lingers = |executor: &&&Executor| {
        let ended = executor.finished.unwrap_or(executor.created);
        executor.terminating
            && executor.phase == ExecutorPhase::Failed
            && executor.group != Group::Interrupt
            && after(ended, START_NOTICE) <= visit.now()
            && !is_counted(visit.record, executor)
    };
    let as_lost = |executor: &&Executor| {
        let failure = executor.failure.clone().map(|it| Failure { disrupted: true, ..it });
        Executor { failure, ..(*executor).clone() }
    };
    visit.executors.iter().filter(lingers).map(as_lost).collect()
}

/// Returns when something of this visit becomes overdue next.
pub(crate) fn next_lapse(visit: &Visit<'_>) -> Option<Timestamp> {
    let lapses = visit.executors.iter().filter_map(|executor| lapse(visit, executor));
    lapses.map(|lapse| lapse.at).filter(|at| *at > visit.now()).min()
}

/// When an executor has taken too long, and what is then said of it.
struct Lapse {
    at: Timestamp,
    message: String,
}

fn lapse(visit: &Visit<'_>, executor: &Executor) -> Option<Lapse> {
    if !executor.is_active() || is_counted(visit.record, executor) {
        return None;
    }
    if executor.running.is_some() {
        return stage_timeout(visit, executor);
    }
    let node = visit.node;
    let (since, limit, why) = match &executor.waiting {
        Some(waiting) if waiting.is_being_created() => {
            let why = "it is still being created, look at its events".to_owned();
            (waiting.since, CREATE_DEADLINE, why)
        }
        Some(waiting) => {
            let words = format!("{}: {}", waiting.reason, waiting.message);
            (waiting.since, START_DEADLINE, words)
        }
        // The kubelet has not said a word: on a node that is not ready that is no news.
        None if executor.phase == ExecutorPhase::Pending && node.ready => {
            let since = node.ready_since.map_or(executor.created, |it| it.max(executor.created));
            let why = "the kubelet has not started it, look at the kubelet".to_owned();
            (since, START_DEADLINE, why)
        }
        None => return None,
    };
    let place = &node.name;
    let image = executor.waiting.as_ref().map(|waiting| waiting.image.as_str());
    let image = image.filter(|image| !image.is_empty() && !why.contains(image));
    let image = image.map(|image| format!(" (image {image})")).unwrap_or_default();
    let message = format!("not started on {place} since {since:.0}{image}: {why}");
    Some(Lapse { at: after(since, limit), message })
}

/// `stageTimeout`: the stage and its check together, from the start of the stage's container. The
/// pod's own deadline is only the backstop for a daemon that is gone.
fn stage_timeout(visit: &Visit<'_>, executor: &Executor) -> Option<Lapse> {
    // An interrupt that has begun is not ended by us; a reboot has a deadline of its own.
    if executor.group == Group::Interrupt {
        return None;
    }
    let input = visit.scope.input;
    let own = input.observed.snapshots.get(&executor.snapshot);
    let own = own.and_then(|snapshot| snapshot.package.stage_timeout);
    let timeout = own.unwrap_or(input.rules.default_stage_timeout);
    let since = executor.stage_since?;
    let message = format!("stage timeout of {timeout:?} passed, it ran since {since:.0}");
    (!timeout.is_zero()).then(|| Lapse { at: after(since, timeout), message })
}

/// Returns whether the record has taken in this attempt already.
fn is_counted(record: &Record, executor: &Executor) -> bool {
    let key = attempt_key(executor.group, &executor.package.name);
    record.visit == executor.visit.visit
        && executor.attempt <= record.attempts.get(&key).copied().unwrap_or(0)
}

/// Returns whether an executor of the visit is at work; one that was given up is not.
pub(crate) fn is_busy(visit: &Visit<'_>, draft: &Draft) -> bool {
    let at_work = |executor: &&Executor| {
        let begun = executor.group == Group::Interrupt && executor.begun;
        executor.is_active() && (begun || !is_counted(&draft.record, executor))
    };
    visit.executors.iter().any(at_work)
}

/// Takes in what the ends of pods do not tell: work that is cut short by the deletion of its pod,
/// attempts that never started, and interrupts that were refused before any of their containers
/// began, which were not issued.
pub(crate) fn take_in(visit: &Visit<'_>, overdue: &[Executor], draft: &mut Draft) {
    for executor in visit.executors.iter().filter(|executor| executor.terminating) {
        absorb::tried(draft, executor);
    }
    for executor in overdue {
        let key = attempt_key(executor.group, &executor.package.name);
        let counted = draft.record.attempts.get(&key) == Some(&executor.attempt);
        let Some(entry) = draft.entries.get_mut(&executor.package).filter(|_| counted) else {
            continue;
        };
        entry.since = Some(visit.now());
        if executor.running.is_none() {
            draft.record.reason = Some(NOT_STARTED.to_owned());
        }
    }
    let refused = visit.executors.iter().filter(|executor| {
        executor.group == Group::Interrupt
            && executor.phase == ExecutorPhase::Failed
            && !executor.begun
            && draft.record.phase == Phase::Interrupting
            && !is_counted(&draft.record, executor)
    });
    let refused: Vec<&Executor> = refused.copied().collect();
    for executor in refused {
        let key = attempt_key(executor.group, &executor.package.name);
        draft.record.attempts.insert(key, executor.attempt);
        draft.because = Some(Group::Interrupt);
    }
    rejected(visit, draft);
}

/// Gives up on a pod that the API server has refused for [`START_DEADLINE`].
fn rejected(visit: &Visit<'_>, draft: &mut Draft) {
    let input = visit.scope.input;
    let now = visit.now();
    for entry in draft.entries.values_mut() {
        let Some(group) = group_of(entry.stage).filter(|_| entry.state != State::Complete) else {
            continue;
        };
        let key = visit.visit_ref().executor_key(group, &entry.name);
        let Some(rejection) = input.observed.rejections.get(&key) else { continue };
        if after(rejection.since, START_DEADLINE) > now
            || draft.record.reason.as_deref() == Some(NOT_STARTED)
        {
            continue;
        }
        entry.restarts = Some(entry.restarts.unwrap_or(0).saturating_add(1));
        entry.state = State::Erroring;
        entry.since = Some(now);
        draft.record.reason = Some(NOT_STARTED.to_owned());
        let why = format!("{} not started: {}", entry.stage, rejection.message);
        draft.record.message = Some(cut(&why, MESSAGE_BYTES_MAX));
        draft.because = Some(group);
    }
}

/// Returns the group of the executor that brings an entry on from this stage.
fn group_of(stage: Stage) -> Option<Group> {
    Some(match stage {
        Stage::Apply | Stage::Upgrade | Stage::Config => Group::Install,
        Stage::Interrupt => Group::Interrupt,
        Stage::PostInterrupt => Group::Verify,
        Stage::Uninstall => Group::Uninstall,
        Stage::UninstallInterrupt => return None,
    })
}

/// Takes away pods whose attempt is recorded as over, and those of earlier visits that have not
/// begun: nothing waits for them any more.
pub(crate) fn remove_given_up(input: &Input, plan: &mut Plan) {
    for executor in input.observed.executors.values() {
        if !executor.is_active() || executor.terminating || executor.group == Group::Pull {
            continue;
        }
        let node: Option<&Node> = input.observed.nodes.get(&executor.visit.node);
        let state = node.and_then(|node| node.rollouts.get(&executor.visit.rollout));
        let Some(record) = state.and_then(|state| state.record.as_ref()) else { continue };
        let left_behind = record.visit > executor.visit.visit && executor.is_replaceable();
        let counted = is_counted(record, executor) && executor.group != Group::Interrupt;
        let refused = is_counted(record, executor) && executor.is_replaceable();
        if left_behind || counted || refused {
            plan.actions.push(delete(executor));
        }
    }
}

/// Says that an executor runs, or why it does not: soon to those who look, and after
/// [`START_DEADLINE`] the attempt is over.
pub(crate) fn running(
    visit: &Visit<'_>,
    executor: &Executor,
    entry: &Entry,
    plan: &mut Plan,
) -> Verdict {
    let package = executor.package.clone();
    let stage = executor.running.unwrap_or(entry.stage);
    if executor.terminating || is_counted(visit.record, executor) {
        let (why, since) = ("its last pod is being taken away".to_owned(), executor.created);
        return Verdict::wait(Reason::NotStarted { package, stage, why, since });
    }
    if let Some(at) = next_lapse(visit) {
        wake(plan, at);
    }
    let (why, since, notice) = match &executor.waiting {
        Some(waiting) => {
            let since = waiting.since;
            let notice =
                if waiting.is_being_created() { after(since, START_NOTICE) } else { since };
            let words = format!("{} {}", waiting.reason, waiting.message);
            (words.trim().to_owned(), since, notice)
        }
        None if executor.phase == ExecutorPhase::Pending => {
            let since = executor.created;
            ("the kubelet has not started it".to_owned(), since, after(since, START_NOTICE))
        }
        None => {
            return Verdict::act(Reason::Running { package, stage, since: executor.created });
        }
    };
    let reason = Reason::NotStarted { package, stage, why, since };
    if visit.now() >= notice {
        return Verdict::wait(reason);
    }
    wake(plan, notice);
    Verdict::act(reason)
}

/// Returns why the next attempt may not begin yet: the one before it failed, was lost, or was
/// refused a short time ago.
pub(crate) fn backing_off(
    visit: &Visit<'_>,
    entry: &Entry,
    group: Group,
    plan: &mut Plan,
) -> Option<Verdict> {
    leaving(visit, entry, group, plan)
        .or_else(|| refused(visit, entry, group, plan))
        .or_else(|| lost(visit, entry, group, plan))
        .or_else(|| failed(visit, entry, group, plan))
}

/// The next attempt may have the name of a pod that was deleted and is still there.
fn leaving(visit: &Visit<'_>, entry: &Entry, group: Group, plan: &mut Plan) -> Option<Verdict> {
    let leaving = visit.executors.iter().find(|executor| {
        executor.group == group
            && executor.package.name == entry.name
            && executor.terminating
            && !is_counted(visit.record, executor)
    })?;
    wake(plan, after(leaving.finished.unwrap_or(leaving.created), START_NOTICE));
    let (why, since) = ("its last pod is being taken away".to_owned(), leaving.created);
    Some(Verdict::wait(Reason::NotStarted { package: entry.id(), stage: entry.stage, why, since }))
}

/// The API server does not take the pod: admission, quota, or something that is in its place.
fn refused(visit: &Visit<'_>, entry: &Entry, group: Group, plan: &mut Plan) -> Option<Verdict> {
    let key = visit.visit_ref().executor_key(group, &entry.name);
    let rejection = visit.scope.input.observed.rejections.get(&key)?;
    let until = after(rejection.at, START_NOTICE);
    wake(plan, until.min(after(rejection.since, START_DEADLINE)));
    (until > visit.now()).then(|| {
        let (why, since) = (rejection.message.clone(), rejection.since);
        let (package, stage) = (entry.id(), entry.stage);
        Verdict::wait(Reason::NotStarted { package, stage, why, since })
    })
}

/// A pod lost to a disruption, or refused by a full kubelet, costs no attempt; but what happens
/// again and again is tried ever more slowly.
fn lost(visit: &Visit<'_>, entry: &Entry, group: Group, plan: &mut Plan) -> Option<Verdict> {
    let newest = visit.newest(group, &entry.name)?;
    // A reboot takes its pod along: that of an earlier interrupt of the visit was not lost.
    let interrupt = visit.record.interrupt.as_ref();
    if group == Group::Interrupt && interrupt.is_some_and(|it| newest.created < it.since) {
        return None;
    }
    let failure = newest.failure.as_ref().filter(|failure| failure.disrupted || !newest.begun)?;
    let ended = newest.finished.unwrap_or(newest.created);
    let until = after(ended, back_off(i32::try_from(newest.attempt).unwrap_or(i32::MAX)));
    let why = format!("its pod was lost: {}; tried again at {until:.0}", failure.message);
    (until > visit.now()).then(|| {
        wake(plan, until);
        let (package, stage, since) = (entry.id(), entry.stage, ended);
        Verdict::wait(Reason::NotStarted { package, stage, why, since })
    })
}

fn failed(visit: &Visit<'_>, entry: &Entry, group: Group, plan: &mut Plan) -> Option<Verdict> {
    let failures = entry.restarts.unwrap_or(0);
    if failures == 0 || entry.state != State::Erroring {
        return None;
    }
    let ended = visit.newest(group, &entry.name).and_then(|executor| executor.finished);
    // A pod that was taken away tells no end; the entry says when it was given up.
    let ended = ended.max(entry.since)?;
    let until = after(ended, back_off(failures));
    (until > visit.now()).then(|| {
        wake(plan, until);
        Verdict::wait(Reason::BackingOff {
            package: entry.id(),
            stage: entry.stage,
            attempt: u32::try_from(failures).unwrap_or(0),
            until,
        })
    })
}
