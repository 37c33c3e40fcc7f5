//! Watches the executors of a visit: what runs, why one does not start, when the next attempt may
//! begin.
//!
//! In: a visit and an executor of it. Out: a verdict, the time of the next look, and the removal of
//! pods that cannot start any more.
//! Must never: replace a pod that may have done something on the host.

use super::super::limits::{START_DEADLINE, START_NOTICE, after, back_off};
use super::super::wake;
use super::Visit;
use crate::model::{Action, Entry, Executor, ExecutorPhase, Group, Plan, Reason, State, Verdict};

/// Takes a pod away that cannot start and that the target has left behind: a corrected image would
/// otherwise wait until the wrong one's deadline.
pub(crate) fn replace_stuck(
    visit: &Visit<'_>,
    executor: &Executor,
    entry: &Entry,
    plan: &mut Plan,
) {
    let left_behind = entry.snapshot.as_ref() != Some(&executor.snapshot);
    if left_behind && executor.is_stuck() && !executor.terminating {
        plan.actions.push(Action::DeleteExecutor {
            rollout: visit.scope.rollout.name.clone(),
            node: visit.node.name.clone(),
            pod: executor.reference.clone(),
        });
    }
}

/// Says that an executor runs, or why it does not: soon to those who look, and after
/// [`START_DEADLINE`] to whoever must act. The kubelet goes on trying.
pub(crate) fn running(
    visit: &Visit<'_>,
    executor: &Executor,
    entry: &Entry,
    plan: &mut Plan,
) -> Verdict {
    let package = executor.package.clone();
    let stage = executor.running.unwrap_or(entry.stage);
    let since = executor.created;
    let (why, notice) = match &executor.waiting {
        Some(waiting) => {
            (format!("{} {}", waiting.reason, waiting.message).trim().to_owned(), since)
        }
        None if executor.phase == ExecutorPhase::Pending => {
            ("the kubelet has not started it".to_owned(), after(since, START_NOTICE))
        }
        None => return Verdict::act(Reason::Running { package, stage, since }),
    };
    let reason = Reason::NotStarted { package, stage, why, since };
    let deadline = after(since, START_DEADLINE);
    if visit.now() >= deadline {
        return Verdict::blocked(reason);
    }
    if visit.now() >= notice {
        wake(plan, deadline);
        return Verdict::wait(reason);
    }
    wake(plan, notice);
    Verdict::act(reason)
}

pub(crate) fn backing_off(
    visit: &Visit<'_>,
    entry: &Entry,
    group: Group,
    plan: &mut Plan,
) -> Option<Verdict> {
    let failures = entry.restarts.unwrap_or(0);
    if failures == 0 || entry.state != State::Erroring {
        return None;
    }
    let newest = visit.newest(group, &entry.name);
    let ended = newest.and_then(|executor| executor.finished).or(entry.since)?;
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
