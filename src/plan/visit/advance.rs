//! What begins next in a visit: more packages, the interrupt, or the end.

use std::collections::BTreeMap;

use super::super::drain::{Drain, drain};
use super::super::due::{self, Need};
use super::super::limits::{ATTEMPTS_MAX, MESSAGE_BYTES_MAX, REBOOT_DEADLINE, after, cut};
use super::super::select::Scope;
use super::{Draft, Visit};
use crate::model::{
    Entry, Group, Interrupt, InterruptRecord, Node, Outcome, Package, Phase, Reason, Record,
    Rollout, Stage, State,
};

/// The record's reason when a node did not come back in time.
const REBOOT_OVERDUE: &str = "RebootOverdue";

/// The record's reason when pods did not leave in time.
pub(crate) const DRAIN_TIMED_OUT: &str = "DrainTimedOut";

/// Begins what may begin now.
pub(crate) fn advance(visit: &Visit<'_>, draft: &mut Draft) {
    if draft.record.phase == Phase::Interrupting {
        reboot_overdue(visit, draft);
        return;
    }
    if given_up(visit, draft) {
        return;
    }
    follow_target(visit, draft);
    let needs = needs(visit, draft);
    begin_ready(visit.scope, visit.node, &needs, draft);
    if visit.record.held && draft.record.phase == Phase::Picked {
        drain_clock(visit, draft);
    }
    begin_interrupt(visit, draft);
}

/// Ends the visit when nothing is left to do, or nothing can be done.
pub(crate) fn finish(visit: &Visit<'_>, draft: &mut Draft) {
    // The pod of a reboot that never came back says "running" for as long as its node is gone.
    let overdue = draft.record.reason.as_deref() == Some(REBOOT_OVERDUE);
    let busy = !overdue && visit.executors.iter().any(|executor| executor.is_active());
    if busy || draft.record.outcome.is_some() {
        return;
    }
    let needs = needs(visit, draft);
    let ready = due::ready(visit.scope.rollout, &needs, &draft.entries);
    let is_ready = |name: &String| ready.iter().any(|package| package.name == *name);
    if given_up(visit, draft) {
        end(draft, Outcome::Erroring);
    } else if draft.record.phase != Phase::Interrupting
        && !rest_may_run(visit, draft)
        && needs.iter().all(|(name, need)| {
            !is_ready(name)
                || ((!need.begun || !is_under_way(visit, draft, name))
                    && is_for_later(visit, draft, name))
        })
    {
        if needs.is_empty() {
            draft.record.target.clone_from(&visit.scope.target);
        }
        end(draft, Outcome::Complete);
    }
}

fn end(draft: &mut Draft, outcome: Outcome) {
    draft.record.outcome = Some(outcome);
    draft.record.phase = Phase::Released;
}

fn needs(visit: &Visit<'_>, draft: &Draft) -> BTreeMap<String, Need> {
    due::needs(visit.scope, &draft.entries, Some(&draft.record))
}

/// Returns whether this visit works on the entry: a version wanted now, or one that had reached
/// its interrupt when the target changed and ends under its own snapshot (design §7).
pub(crate) fn is_driven(rollout: &Rollout, record: &Record, entry: &Entry) -> bool {
    let frozen = matches!(entry.stage, Stage::Interrupt | Stage::PostInterrupt)
        && entry.state != State::Skipped
        && is_touched(record, entry);
    rollout.package(&entry.id()).is_some() || frozen
}

/// Returns whether this visit has changed the entry.
fn is_touched(record: &Record, entry: &Entry) -> bool {
    entry.since.is_some_and(|since| since >= record.picked)
}

/// Returns whether a stage failed for good in this visit.
fn given_up(visit: &Visit<'_>, draft: &Draft) -> bool {
    let out_of_attempts = draft.entries.values().any(|entry| {
        entry.state == State::Erroring
            && entry.restarts.unwrap_or(0) >= ATTEMPTS_MAX
            && is_touched(&draft.record, entry)
            && is_driven(visit.scope.rollout, &draft.record, entry)
    });
    let reason = draft.record.reason.as_deref();
    out_of_attempts || [Some(REBOOT_OVERDUE), Some(DRAIN_TIMED_OUT)].contains(&reason)
}

/// A package that this visit already brought through its interrupt is not begun again in it: a
/// change that came after the interrupt waits for the next visit, so that no spec edit ever causes
/// a second reboot (design §7).
fn is_for_later(visit: &Visit<'_>, draft: &Draft, package: &str) -> bool {
    let Some(wanted) = visit.scope.rollout.packages.get(package) else { return true };
    let touched = draft
        .entries
        .values()
        .any(|entry| entry.name == wanted.name && is_touched(&draft.record, entry));
    draft.record.phase == Phase::Interrupted && touched
}

fn is_under_way(visit: &Visit<'_>, draft: &Draft, package: &str) -> bool {
    let wanted = visit.scope.rollout.packages.get(package);
    let entry = wanted.and_then(|wanted| draft.entries.get(&wanted.id()));
    entry.is_some_and(|entry| due::is_under_way(&draft.record, entry))
}

/// Brings entries that have begun, but run no pod now, to the packages wanted now.
fn follow_target(visit: &Visit<'_>, draft: &mut Draft) {
    let new_target = draft.record.target != visit.scope.target;
    for package in visit.scope.rollout.packages.values() {
        let running = visit
            .newest(Group::Install, &package.name)
            .is_some_and(|executor| executor.is_active() && !executor.is_stuck());
        let wanted = visit.scope.snapshot_name(package);
        let known = visit.scope.input.observed.snapshots.contains_key(wanted);
        let Some(entry) = draft.entries.get_mut(&package.id()) else { continue };
        let begun = draft.record.phase == Phase::Picked
            && !due::is_complete(entry, package)
            && entry.stage != Stage::PostInterrupt;
        if running || !begun || !known || entry.snapshot.as_deref() == Some(wanted) {
            continue;
        }
        let changed = due::changed_keys(visit.scope, package, entry);
        let owed = draft.record.interrupts_due.get(&package.name);
        let merged = Interrupt::merge(owed.into_iter().chain(&package.interrupt_for(&changed)));
        if let Some(merged) = merged {
            draft.record.interrupts_due.insert(package.name.clone(), merged);
            hold(visit.scope, visit.node, &mut draft.record);
        }
        if entry.stage == Stage::Interrupt && !changed.is_empty() {
            entry.stage = Stage::Config;
            entry.state = State::InProgress;
            entry.since = Some(visit.now());
        }
        entry.snapshot = Some(wanted.to_owned());
        entry.restarts = None;
        entry.image.clone_from(&package.image);
        entry.container_sha.clone_from(&package.container_sha);
    }
    if new_target && draft.record.phase == Phase::Picked {
        draft.record.target.clone_from(&visit.scope.target);
    }
}

/// Begins every package whose turn it is; also used to make the entries of a pick.
pub(crate) fn begin_ready(
    scope: &Scope<'_>,
    node: &Node,
    needs: &BTreeMap<String, Need>,
    draft: &mut Draft,
) {
    let ready: Vec<&Package> = due::ready(scope.rollout, needs, &draft.entries);
    for package in ready {
        let Some(need) = needs.get(&package.name) else { continue };
        let snapshot = scope.snapshot_name(package);
        let known = scope.input.observed.snapshots.contains_key(snapshot);
        let entry = draft.entries.get(&package.id());
        let under_way = entry.is_some_and(|entry| {
            is_touched(&draft.record, entry) && due::is_under_way(&draft.record, entry)
        });
        let later = draft.record.phase == Phase::Interrupted
            && draft
                .entries
                .values()
                .any(|entry| entry.name == package.name && is_touched(&draft.record, entry));
        let busy = scope.executors.get(node.name.as_str()).is_some_and(|here| {
            here.iter().any(|executor| {
                executor.is_active()
                    && !executor.is_stuck()
                    && executor.visit.rollout == scope.rollout.name
                    && executor.package.name == package.name
            })
        });
        if !known || later || busy || (need.begun && under_way) {
            continue;
        }
        begin(draft, package, need, snapshot.to_owned(), scope.input.now);
        if need.interrupt.is_some() {
            hold(scope, node, &mut draft.record);
        }
    }
}

/// Takes hold of the node: cordoned by us, or found cordoned and then left so afterwards.
pub(crate) fn hold(scope: &Scope<'_>, node: &Node, record: &mut Record) {
    if !record.held {
        record.held = true;
        record.prior_unschedulable = scope.is_foreign_cordon(node);
        record.cordoned = (!node.unschedulable).then_some(scope.input.now);
    }
}

fn begin(
    draft: &mut Draft,
    package: &Package,
    need: &Need,
    snapshot: String,
    now: jiff::Timestamp,
) {
    let id = package.id();
    let before = draft.entries.get(&id);
    let other = before.map(|entry| entry.other.clone()).unwrap_or_default();
    // A version that was begun and not finished has lost its host to this one.
    draft.entries.retain(|other, entry| {
        other.name != id.name || *other == id || entry.state == State::Complete
    });
    // What waits for an interrupt must reach the interrupt again through the record.
    let state = if need.stage == Stage::Interrupt { State::Skipped } else { State::InProgress };
    draft.entries.insert(
        id,
        Entry {
            name: package.name.clone(),
            version: package.version.as_str().to_owned(),
            image: package.image.clone(),
            container_sha: package.container_sha.clone(),
            stage: need.stage,
            state,
            restarts: None,
            snapshot: Some(snapshot),
            since: Some(now),
            other,
        },
    );
    match &need.interrupt {
        Some(interrupt) => {
            draft.record.interrupts_due.insert(package.name.clone(), interrupt.clone());
        }
        None => {
            draft.record.interrupts_due.remove(&package.name);
        }
    }
}

/// Records the merged interrupt as begun, once everything that may run before it is done.
fn begin_interrupt(visit: &Visit<'_>, draft: &mut Draft) {
    let Some((winner, merged)) = waiting_for_interrupt(visit, draft) else { return };
    let quiet = visit.active.is_empty() && !rest_may_run(visit, draft);
    let clear = matches!(drain(visit.scope, visit.node, &draft.record), Drain::Clear);
    if !quiet || !clear || !draft.record.held || !visit.node.ready {
        return;
    }
    let now = visit.now();
    if let Some(entry) = draft.entries.get_mut(&winner) {
        entry.state = State::InProgress;
        entry.since = Some(now);
    }
    draft.record.phase = Phase::Interrupting;
    draft.record.boot_before = Some(visit.node.boot_id.clone());
    draft.record.interrupt = Some(InterruptRecord {
        kind: merged.kind,
        services: merged.services,
        package: winner,
        since: now,
    });
}

/// Returns the package that carries the interrupt and what all that wait for one merge to:
/// the strongest kind wins, then the first name (upstream contract B.5).
fn waiting_for_interrupt(
    visit: &Visit<'_>,
    draft: &Draft,
) -> Option<(crate::model::PackageId, Interrupt)> {
    let waiting = draft.entries.values().filter(|entry| {
        entry.is(Stage::Interrupt, State::Skipped)
            && visit.scope.rollout.package(&entry.id()).is_some()
    });
    let owed: Vec<(&Entry, &Interrupt)> = waiting
        .filter_map(|entry| Some((entry, draft.record.interrupts_due.get(&entry.name)?)))
        .collect();
    let merged = Interrupt::merge(owed.iter().map(|(_, interrupt)| *interrupt))?;
    let (winner, _) = owed.iter().find(|(_, interrupt)| interrupt.kind == merged.kind)?;
    Some((winner.id(), merged))
}

/// Returns whether a package is still on its way to its interrupt or its end.
fn rest_may_run(visit: &Visit<'_>, draft: &Draft) -> bool {
    let needs = needs(visit, draft);
    let ready = due::ready(visit.scope.rollout, &needs, &draft.entries);
    let driven = draft.entries.values().filter(|entry| {
        is_touched(&draft.record, entry) && is_driven(visit.scope.rollout, &draft.record, entry)
    });
    driven.into_iter().any(|entry| {
        // One that waits for a package that must be interrupted first would wait for ever.
        let installing = matches!(entry.stage, Stage::Apply | Stage::Upgrade | Stage::Config)
            && ready.iter().any(|package| package.id() == entry.id());
        let verifying = entry.stage == Stage::PostInterrupt;
        (installing || verifying) && matches!(entry.state, State::InProgress | State::Erroring)
    })
}

/// Gives up on a node that has not come back from its reboot.
fn reboot_overdue(visit: &Visit<'_>, draft: &mut Draft) {
    let Record { interrupt: Some(interrupt), .. } = &draft.record else { return };
    let deadline = after(interrupt.since, REBOOT_DEADLINE);
    if interrupt.kind == crate::model::InterruptKind::Reboot && visit.now() >= deadline {
        let why = Reason::Rebooting { since: interrupt.since };
        draft.record.reason = Some(REBOOT_OVERDUE.to_owned());
        draft.record.message = Some(cut(
            &format!("{why}; the deadline of one hour has passed: look at the machine's console"),
            MESSAGE_BYTES_MAX,
        ));
    }
}

/// Starts the clock of `drainConfig.timeout`, stops it, or gives up when it has run out.
///
/// It starts with the first look at a cordoned node from which pods must leave, once no protected
/// pod is left, and before the first eviction; it stops when they have left. It stands in an
/// annotation, so a restart does not turn it back (failures A7). Without a timeout none is kept:
/// differs from upstream, which writes it for every drain.
fn drain_clock(visit: &Visit<'_>, draft: &mut Draft) {
    let state = visit.scope.rollout_state(visit.node);
    let start = state.and_then(|state| state.drain_start);
    let waiting = match drain(visit.scope, visit.node, &draft.record) {
        Drain::Wait(waiting) if waiting.moving => waiting,
        Drain::Wait(_) => return,
        Drain::Clear => {
            draft.drain_start = start.map(|_over| None);
            return;
        }
    };
    match (visit.scope.rollout.drain.timeout, start) {
        (None, _) => {}
        (Some(_), None) => draft.drain_start = Some(Some(visit.now())),
        (Some(timeout), Some(start)) if visit.now() >= after(start, timeout) => {
            draft.record.reason = Some(DRAIN_TIMED_OUT.to_owned());
            let why = format!(
                "drain not finished within drainConfig.timeout, since {start:.0}: {}",
                waiting.verdict.reason
            );
            draft.record.message = Some(cut(&why, MESSAGE_BYTES_MAX));
        }
        (Some(_), Some(_)) => {}
    }
}
