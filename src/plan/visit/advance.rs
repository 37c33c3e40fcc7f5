//! What begins next in a visit: more packages, the interrupt, or the end.

use super::super::drain::{Drain, drain};
use super::super::due::{self, Needs, Standing};
use super::super::lifecycle::{Seen, Step};
use super::super::limits::{ATTEMPTS_MAX, MESSAGE_BYTES_MAX, REBOOT_DEADLINE, after, cut};
use super::absorb;
use super::begin::begin_ready;
use super::seen::seen;
use super::watch::{NOT_STARTED, is_busy};
use super::{Draft, Visit, attempt_key};
use crate::model::{
    Entries, Entry, Group, Interrupt, InterruptKind, InterruptRecord, Outcome, PackageId, Phase,
    Reason, Record, Stage, State,
};

/// The record's reason when a node did not come back in time.
const REBOOT_OVERDUE: &str = "RebootOverdue";

/// The record's reason when pods did not leave in time.
pub(crate) const DRAIN_TIMED_OUT: &str = "DrainTimedOut";

/// The packages of a node in the middle of a visit, and which of them may run.
struct Now<'a> {
    standings: Vec<(Standing<'a>, Seen)>,
    needs: Needs<'a>,
    ready: Vec<&'a str>,
}

impl<'a> Now<'a> {
    fn new(visit: &Visit<'a>, entries: &'a Entries, record: &Record) -> Self {
        let all = due::standings(visit.scope, entries, Some(record));
        let needs = due::needs_of(&all);
        let ready = due::ready(visit.scope.rollout, &needs, entries);
        let look = |it: Standing<'a>| {
            let seen = seen(visit.scope, visit.node, record, &it);
            (it, seen)
        };
        Self { standings: all.into_iter().map(look).collect(), needs, ready }
    }

    /// Returns what follows for each package.
    fn steps(&self) -> impl Iterator<Item = (&Standing<'a>, Step)> {
        self.standings.iter().map(|(it, seen)| (it, it.step(*seen)))
    }

    /// Returns whether a package is still on its way to its interrupt or its end. One that waits
    /// for a package that must be interrupted first would wait for ever, so it does not count.
    fn rest_may_run(&self) -> bool {
        self.steps().any(|(it, step)| {
            let in_turn = step == Step::Start(Group::Install) || step.beginning().is_some();
            let is_ready = || self.ready.contains(&it.name);
            step.is_under_way() && (!in_turn || is_ready())
        })
    }

    /// Returns the package that carries the interrupt and what all that wait for one merge to:
    /// the strongest kind wins, then the first name (upstream contract B.5).
    fn waiting_for_interrupt(&self, record: &Record) -> Option<(PackageId, Interrupt)> {
        let owed: Vec<(PackageId, &Interrupt)> = self
            .steps()
            .filter(|(it, step)| awaits_interrupt(it, *step))
            .filter_map(|(it, _)| Some((it.entry?.id(), record.interrupts_due.get(it.name)?)))
            .collect();
        let merged = Interrupt::merge(owed.iter().map(|(_, interrupt)| *interrupt))?;
        let (winner, _) = owed.iter().find(|(_, interrupt)| interrupt.kind == merged.kind)?;
        Some((winner.clone(), merged))
    }
}

/// Returns whether a package waits for its interrupt.
///
/// Also one whose manifest has changed since, and that may not follow it yet, for what it depends
/// on now is not done. It was installed, and owes its interrupt.
fn awaits_interrupt(standing: &Standing<'_>, step: Step) -> bool {
    let stands_there = standing.entry.is_some_and(|entry| entry.stage == Stage::Interrupt);
    step == Step::AwaitInterrupt || (matches!(step, Step::Follow(_)) && stands_there)
}

/// Begins what may begin now.
pub(crate) fn advance(visit: &Visit<'_>, draft: &mut Draft) {
    if draft.record.phase == Phase::Interrupting {
        reboot_overdue(visit, draft);
        withdraw_interrupt(visit, draft);
        return;
    }
    if given_up(visit, &draft.entries, &draft.record) {
        return;
    }
    let standings = due::standings(visit.scope, &draft.entries, Some(&draft.record));
    let step = |it: &Standing<'_>| it.step(seen(visit.scope, visit.node, &draft.record, it));
    if let Some(entries) = due::settled(visit.scope, visit.node, &draft.entries, &standings, step) {
        draft.entries = entries;
    }
    let entries = draft.entries.clone();
    let standings = due::standings(visit.scope, &entries, Some(&draft.record));
    begin_ready(visit.scope, visit.node, &standings, draft);
    if draft.record.phase == Phase::Picked && draft.record.target != visit.scope.target {
        draft.record.target.clone_from(&visit.scope.target);
    }
    if visit.record.held && draft.record.phase == Phase::Picked {
        drain_clock(visit, draft);
    }
    begin_interrupt(visit, draft);
}

/// Ends the visit when nothing is left to do, or nothing can be done.
pub(crate) fn finish(visit: &Visit<'_>, draft: &mut Draft) {
    // The pod of a reboot that never came back says "running" for as long as its node is gone.
    let overdue = draft.record.reason.as_deref() == Some(REBOOT_OVERDUE);
    let busy = !overdue && is_busy(visit, draft);
    if busy || draft.record.outcome.is_some() {
        return;
    }
    if given_up(visit, &draft.entries, &draft.record) {
        return end(draft, Outcome::Erroring);
    }
    if draft.record.phase == Phase::Interrupting {
        return;
    }
    let now = Now::new(visit, &draft.entries, &draft.record);
    let waits = now.steps().any(|(_, step)| step == Step::AwaitInterrupt);
    if !waits && !now.rest_may_run() {
        if now.needs.is_empty() {
            draft.record.target.clone_from(&visit.scope.target);
        }
        end(draft, Outcome::Complete);
    }
}

fn end(draft: &mut Draft, outcome: Outcome) {
    draft.record.outcome = Some(outcome);
    draft.record.phase = Phase::Released;
}

/// Returns whether a stage failed for good in this visit, and is still wanted. Nothing is started
/// any more then, and the visit ends once what runs has ended.
pub(super) fn given_up(visit: &Visit<'_>, entries: &Entries, record: &Record) -> bool {
    let failed = |entry: &Entry| {
        entry.state == State::Erroring && entry.restarts.unwrap_or(0) >= ATTEMPTS_MAX
    };
    let is_wanted = |entries| {
        let now = Now::new(visit, entries, record);
        now.steps().any(|(it, step)| it.entry.is_some_and(failed) && matches!(step, Step::Start(_)))
    };
    is_final(record) || (entries.values().any(failed) && is_wanted(entries))
}

/// Returns whether the record says why no further attempt would help.
pub(super) fn is_final(record: &Record) -> bool {
    let reason = record.reason.as_deref();
    [Some(REBOOT_OVERDUE), Some(DRAIN_TIMED_OUT), Some(NOT_STARTED)].contains(&reason)
}

/// Takes back an interrupt that was not issued, where its package has been reset meanwhile.
fn withdraw_interrupt(visit: &Visit<'_>, draft: &mut Draft) {
    let Some(interrupt) = &draft.record.interrupt else { return };
    let now = Now::new(visit, &draft.entries, &draft.record);
    let carrier = interrupt.package.name.clone();
    let reset = now.steps().any(|(it, step)| it.name == carrier && step == Step::Withdraw);
    let key = attempt_key(Group::Interrupt, &carrier);
    let recorded = draft.record.attempts.get(&key).copied().unwrap_or(0);
    let newest = visit.newest(Group::Interrupt, &carrier);
    let issued = newest.is_some_and(|executor| executor.attempt > recorded);
    let gone = !issued && now.steps().all(|(it, _)| it.name != carrier);
    if reset || gone {
        draft.record.phase = Phase::Picked;
        draft.record.interrupt = None;
        draft.record.boot_before = None;
        draft.record.interrupts_due.remove(&carrier);
    }
}

/// Records the merged interrupt as begun, once everything that may run before it is done.
fn begin_interrupt(visit: &Visit<'_>, draft: &mut Draft) {
    if draft.record.interrupts_due.is_empty() {
        return;
    }
    let now = Now::new(visit, &draft.entries, &draft.record);
    let Some((winner, merged)) = now.waiting_for_interrupt(&draft.record) else { return };
    let quiet = visit.active.is_empty() && !now.rest_may_run();
    let clear = matches!(drain(visit.scope, visit.node, &draft.record), Drain::Clear);
    if !quiet || !clear || !draft.record.held || !visit.node.ready {
        return;
    }
    if let Some(entry) = draft.entries.get_mut(&winner) {
        entry.state = State::InProgress;
        entry.since = Some(visit.now());
    }
    draft.record.phase = Phase::Interrupting;
    draft.record.boot_before = Some(visit.node.boot_id.clone());
    draft.record.interrupt = Some(InterruptRecord {
        kind: merged.kind,
        services: merged.services,
        package: winner,
        since: visit.now(),
    });
}

/// Gives up on a node that has not come back from its reboot.
fn reboot_overdue(visit: &Visit<'_>, draft: &mut Draft) {
    let Some(interrupt) = &draft.record.interrupt else { return };
    let deadline = after(interrupt.since, REBOOT_DEADLINE);
    if interrupt.kind == InterruptKind::Reboot && visit.now() >= deadline {
        let why = Reason::Rebooting { since: interrupt.since };
        draft.record.reason = Some(REBOOT_OVERDUE.to_owned());
        draft.record.message = Some(cut(
            &format!("{why}; the deadline of one hour has passed: look at the machine's console"),
            MESSAGE_BYTES_MAX,
        ));
        let carrier = interrupt.package.clone();
        absorb::reboot_overdue(visit, draft, &carrier);
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
