//! What is to come of a compartment, from where it stands: what every surface says of it.
//!
//! In: a compartment with its counters, the verdicts of this tick and the members of the open
//! batch. Out: an [`Outlook`], and the cause of a stop. It decides nothing. Must never: count a
//! node that cannot be picked, or promise what the counters do not give.

use std::collections::{BTreeMap, BTreeSet};

use super::batch::places_left;
use super::compartments::{Compartment, Told, is_done};
use super::conditions::{CONDITION_BYTES_MAX, condition, first_names};
use super::first_use::{Ahead, FirstUse};
use super::limits::cut;
use super::pace::{Assumption, Ended, Pacing};
use super::select::Scope;
use super::{count, repair};
use crate::model::{
    BatchNow, Batches, CompartmentStatus, Condition, DEFAULT_COMPARTMENT, FAILED_NAMES_MAX, Node,
    OpenBatch, Outcome, Outlook, Reason, Record, StopCause, StopRule, StopRuleBy, Stopped, Verdict,
    VerdictKind, stopped_way_out,
};

/// Longest text of what stopped a compartment: it stands in the verdict of every node that waits.
const WHY_BYTES_MAX: usize = 512;

/// Returns what is to come; `members` are the nodes of the open batch, and `room` the places of
/// first users that no compartment before this one needs.
pub(crate) fn outlook<'a>(
    scope: &Scope<'a>,
    compartment: &Compartment<'a>,
    status: &CompartmentStatus,
    members: &[(&'a Node, &'a Record)],
    told: &Told<'_, 'a>,
    (first, room): (&FirstUse<'a>, &mut u32),
) -> Outlook {
    let pacing = &compartment.pacing;
    let now = standing(scope, compartment, told);
    // One of nodes that join what was stopped is none of the rollout.
    let own = |open: &OpenBatch| open.target == scope.target;
    let beside = status.open_batch.as_ref().is_some_and(|open| !own(open));
    let without = CompartmentStatus { open_batch: None, ..status.clone() };
    let (status, members) = if beside { (&without, &[][..]) } else { (status, members) };
    let of_batch: BTreeSet<&str> = members.iter().map(|(node, _)| node.name.as_str()).collect();
    let left = told.all().filter(|(node, verdict)| {
        verdict.is_some_and(can_be_picked) && !of_batch.contains(node.name.as_str())
    });
    let left: Vec<&Node> = left.map(|(node, _)| node).collect();
    let ahead = first.ahead(&left, status.open_batch.as_ref(), room);
    let from = From { pacing, status, members, now, left: count(left.len()), ahead };
    let Course { open, to_come, .. } = course(&from, Assumption::Success);
    let failing = course(&from, Assumption::Failure);
    let state = &status.batch_state;
    Outlook {
        nodes: pacing.nodes,
        complete: now.complete,
        failed: now.failed,
        number: open.map_or(state.current_batch, |open| open.number),
        open,
        to_come,
        if_failing: failing.to_come,
        failing_stops: failing.stops,
        rule: rule(pacing),
        failures: state.consecutive_failures,
        stopped: stopped(scope, compartment, status, told),
    }
}

/// Returns why a compartment opens no more batches.
pub(crate) fn stopped(
    scope: &Scope<'_>,
    compartment: &Compartment<'_>,
    status: &CompartmentStatus,
    told: &Told<'_, '_>,
) -> Option<Stopped> {
    let state = &status.batch_state;
    let batch = state.current_batch.saturating_sub(1);
    state.should_stop.then(|| Stopped {
        batch,
        failures: state.consecutive_failures,
        cause: cause(scope, compartment, batch, told),
    })
}

/// Returns the condition of a rollout with a compartment that was stopped: which batch, which
/// nodes, what they said, and how it goes on.
pub(crate) fn stopped_condition(
    rollout: &str,
    outlooks: &BTreeMap<String, Outlook>,
) -> Option<Condition> {
    let stopped = outlooks.iter().filter_map(|(name, it)| Some((name, it.stopped.clone()?)));
    let mut stopped = stopped.collect::<Vec<_>>().into_iter();
    let (name, first) = stopped.next()?;
    let way_out = stopped_way_out(rollout, first.cause.as_ref());
    let reason = first.reason(name);
    let others: Vec<&str> = stopped.map(|(name, _)| name.as_str()).collect();
    let also = match others.is_empty() {
        true => String::new(),
        false => format!("; stopped too: {}", first_names(&others)),
    };
    // The way out is kept whatever the package has said.
    let room = CONDITION_BYTES_MAX.saturating_sub(way_out.len() + also.len() + "; way out: ".len());
    let what = cut(&reason.to_string(), room);
    Some(condition("Stopped", true, reason.word(), &format!("{what}{also}; way out: {way_out}")))
}

/// Returns the condition of a rollout in which nodes failed and that goes on all the same, with
/// why.
pub(crate) fn failures_condition(outlooks: &BTreeMap<String, Outlook>) -> Option<Condition> {
    let going_on = outlooks.iter().filter_map(|(name, it)| Some((name, it, it.goes_on()?)));
    let going_on: Vec<_> = going_on.collect();
    let (_, first, _) = going_on.first()?;
    let told = going_on.iter().map(|(name, _, why)| match name.as_str() {
        DEFAULT_COMPARTMENT => why.clone(),
        name => format!("compartment {name}: {why}"),
    });
    let message = told.collect::<Vec<_>>().join("; ");
    Some(condition("FailuresTolerated", true, first.goes_on_word(), &message))
}

/// Returns whether the node with this record failed for what is wanted now.
fn has_failed(scope: &Scope<'_>, record: &Record) -> bool {
    record.outcome == Some(Outcome::Erroring) && record.target == scope.target
}

/// Returns which nodes failed and what they said; `None` where no node says so any more.
fn cause(
    scope: &Scope<'_>,
    compartment: &Compartment<'_>,
    batch: u32,
    told: &Told<'_, '_>,
) -> Option<StopCause> {
    let failed = compartment.records.iter().filter(|(_, record)| has_failed(scope, record));
    let failed: Vec<(&Node, &Record)> = failed.copied().collect();
    let last = failed.iter().filter(|(_, record)| record.batch == batch);
    let last: Vec<(&Node, &Record)> = last.copied().collect();
    // Those of the last batch may have left since.
    let named = if last.is_empty() { &failed } else { &last };
    let (first, record) = *named.first()?;
    let message = || record.message.clone();
    let why = match told.of(first).map(|verdict| &verdict.reason) {
        Some(reason) if is_failure(reason) => reason.to_string(),
        Some(_) | None => message().unwrap_or_else(|| "no message was recorded".to_owned()),
    };
    Some(StopCause {
        nodes: named.iter().take(FAILED_NAMES_MAX).map(|(node, _)| node.name.clone()).collect(),
        in_batch: count(named.len()),
        total: count(failed.len()),
        why: cut(&why, WHY_BYTES_MAX),
    })
}

fn is_failure(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Failed { .. } | Reason::InterruptFailed { .. } | Reason::DrainTimedOut { .. }
    )
}

/// Returns how the nodes of a compartment stand, those in repair aside: they are no part of its
/// size either, and would make it look further than it is.
pub(crate) fn standing(
    scope: &Scope<'_>,
    compartment: &Compartment<'_>,
    told: &Told<'_, '_>,
) -> Ended {
    let counts = |node: &Node| repair::since(scope.input, node).is_none();
    let done = told.all().filter(|(_, verdict)| verdict.is_some_and(is_done));
    let records = compartment.records.iter();
    let failed = records.filter(|(node, record)| has_failed(scope, record) && counts(node));
    Ended {
        complete: count(done.filter(|(node, _)| counts(node)).count()),
        failed: count(failed.count()),
    }
}

/// Returns whether a node with this verdict is one of a batch to come.
fn can_be_picked(verdict: &Verdict) -> bool {
    let stays_out = is_failure(&verdict.reason)
        || matches!(
            verdict.reason,
            Reason::Ignored
                | Reason::TaintNotTolerated { .. }
                | Reason::NodeNotReady { .. }
                | Reason::InRepair { .. }
                | Reason::NodeDeleting
                | Reason::MalformedState { .. }
                | Reason::DependencyMissing { .. }
        );
    verdict.kind != VerdictKind::Done && !stays_out
}

/// Where a compartment stands.
struct From<'f, 'a> {
    pacing: &'f Pacing,
    status: &'f CompartmentStatus,
    members: &'f [(&'a Node, &'a Record)],
    now: Ended,
    left: u32,
    ahead: Ahead,
}

/// What becomes of a compartment under an assumption.
struct Course {
    open: Option<BatchNow>,
    to_come: Batches,
    stops: bool,
}

fn course(from: &From<'_, '_>, assumed: Assumption) -> Course {
    let From { pacing, status, members, now, left, ahead } = *from;
    let mut state = status.batch_state.clone();
    let (mut now, mut left) = (now, left);
    let open = status.open_batch.as_ref().map(|open| {
        let (batch, joining) = ended(open, members, left, assumed);
        left -= joining;
        let had = |outcome| {
            let had = members.iter().filter(|(_, record)| record.outcome == Some(outcome));
            count(had.count())
        };
        let (was_complete, was_failed) = (had(Outcome::Complete), had(Outcome::Erroring));
        now.complete = now.complete.saturating_add(batch.complete.saturating_sub(was_complete));
        now.failed = now.failed.saturating_add(batch.failed.saturating_sub(was_failed));
        pacing.judge_open(open, &mut state, batch, now);
        let size = batch.complete.saturating_add(batch.failed);
        BatchNow { number: open.number, size, failed: was_failed }
    });
    let cut = match assumed {
        Assumption::Success => ahead.next,
        Assumption::Failure => ahead.failing,
    };
    let forecast = pacing.forecast_from(&state, now, left, assumed, cut);
    Course { open, to_come: forecast.batches.into_iter().collect(), stops: forecast.stops }
}

/// Returns how the open batch ends under an assumption, and how many nodes still join it.
fn ended(
    open: &OpenBatch,
    members: &[(&Node, &Record)],
    left: u32,
    assumed: Assumption,
) -> (Ended, u32) {
    let with = |wanted: Option<Outcome>| {
        count(members.iter().filter(|(_, record)| record.outcome == wanted).count())
    };
    let joining = places_left(open).min(left);
    let under_way = with(None).saturating_add(joining);
    let (complete, failed) = match assumed {
        Assumption::Success => (under_way, 0),
        Assumption::Failure => (0, under_way),
    };
    let batch = Ended {
        complete: with(Some(Outcome::Complete)).saturating_add(complete),
        failed: with(Some(Outcome::Erroring)).saturating_add(failed),
    };
    (batch, joining)
}

/// Returns what stops a compartment with this pace (upstream contract B.10; design §7).
fn rule(pacing: &Pacing) -> StopRule {
    let strategy = pacing.pace.strategy;
    let named = strategy.and_then(|strategy| strategy.failure_threshold);
    let safe_from = strategy.filter(|strategy| strategy.failure_threshold.is_some());
    StopRule {
        succeed_percent: strategy.map_or(100, |strategy| strategy.batch_threshold),
        after: named.or(pacing.stop_after),
        by: if named.is_some() { StopRuleBy::Policy } else { StopRuleBy::Floor },
        safe_from: safe_from.map(|strategy| {
            let percent = strategy.safety_limit;
            // Progress is rounded down, so the limit is met by the first whole node above it.
            let nodes = (u64::from(pacing.nodes) * u64::from(percent)).div_ceil(100);
            (u32::try_from(nodes).unwrap_or(u32::MAX), percent)
        }),
    }
}
