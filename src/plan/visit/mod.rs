//! One node during a visit: take in what executors did, decide the next step, start it.
//!
//! First a draft of what the node's annotations ought to say is made: results absorbed, the next
//! stages begun, the end reached. If it differs from what they do say, that one patch is all that
//! happens in this tick. Only when the record is up to date are pods moved and executors created,
//! so a crash at any point finds a record that is never ahead of, and at most one step behind,
//! the host.

mod absorb;
mod advance;
mod begin;
mod cordon;
mod seen;
mod start;
mod watch;

use jiff::Timestamp;

use super::deletion;
use super::leave::{self, Leaving};
use super::select::{Scope, node_block};
use super::{claims, gpus};
use crate::model::{
    Action, Entries, Executor, ExecutorPhase, Group, Node, NodePatch, Outcome, PatchKind, Phase,
    Plan, Reason, Record, StatusWord, Verdict, VisitRef,
};

pub(crate) use advance::DRAIN_TIMED_OUT;
pub(crate) use begin::{begin_ready, hold};
pub(crate) use watch::remove_given_up;

/// The node during this visit, as seen.
pub(crate) struct Visit<'a> {
    pub scope: &'a Scope<'a>,
    pub node: &'a Node,
    pub record: &'a Record,
    /// Executors of this visit.
    pub executors: Vec<&'a Executor>,
    /// Executors of any visit and any rollout that may still do something here.
    pub active: Vec<&'a Executor>,
}

/// What the node's annotations ought to say next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    pub entries: Entries,
    pub record: Record,
    /// Why it changed, for the verdict.
    pub because: Option<Group>,
    /// The drain's clock starts or stops.
    pub drain_start: Option<Option<Timestamp>>,
}

impl<'a> Visit<'a> {
    fn new(scope: &'a Scope<'a>, node: &'a Node, record: &'a Record) -> Self {
        let here = scope.executors.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
        let own = |executor: &&&Executor| {
            executor.visit.rollout == scope.rollout.name
                && executor.visit.node_uid == node.uid
                && executor.visit.visit == record.visit
        };
        let executors = here.iter().filter(own).copied().collect();
        let active = here.iter().filter(|executor| executor.is_active()).copied().collect();
        Self { scope, node, record, executors, active }
    }

    /// Returns the visit as if these of its executors had ended, as they say.
    fn with_ended<'b>(&'b self, ended: &'b [Executor]) -> Visit<'b> {
        // One that is deleted before it ended well is neither a success nor a failure.
        let cut_short = |executor: &Executor| {
            executor.terminating
                && executor.phase == ExecutorPhase::Failed
                && executor.group != Group::Interrupt
        };
        let seen = self.executors.iter().filter_map(|executor| {
            let replaced = ended.iter().find(|it| it.reference == executor.reference);
            replaced.or((!cut_short(executor)).then_some(*executor))
        });
        let executors = seen.collect();
        let Self { scope, node, record, active, .. } = self;
        Visit { scope, node, record, executors, active: active.clone() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.scope.input.now
    }

    pub(crate) fn visit_ref(&self) -> VisitRef {
        VisitRef {
            rollout: self.scope.rollout.name.clone(),
            node: self.node.name.clone(),
            node_uid: self.node.uid.clone(),
            visit: self.record.visit,
        }
    }

    /// Returns the newest executor of a group and package.
    pub(crate) fn newest(&self, group: Group, package: &str) -> Option<&'a Executor> {
        let of = self
            .executors
            .iter()
            .filter(|executor| executor.group == group && executor.package.name == package);
        of.max_by_key(|executor| executor.attempt).copied()
    }

    /// Returns whether somebody lifted the cordon we hold the node by.
    fn is_uncordoned(&self) -> bool {
        self.record.held && !self.node.unschedulable
    }

    /// Returns whether new work may begin in this visit.
    fn may_begin(&self) -> bool {
        self.scope.input.halt.is_none()
            && !self.scope.resource.paused
            && !self.scope.resource.disabled
            && !self.is_uncordoned()
            && claims::hands_off(self.node).is_none()
    }

    /// Returns who keeps us from starting anything here; what was issued is still told.
    fn held_off(&self) -> Option<Verdict> {
        claims::hands_off(self.node).filter(|_| !self.is_issued(self.record))
    }

    /// Returns whether the interrupt of the visit was issued and its end is not recorded. A reboot
    /// is not over when its pod is: that is gone with the node.
    pub(crate) fn is_issued(&self, record: &Record) -> bool {
        let mut interrupts = self.executors.iter().filter(|it| it.group == Group::Interrupt);
        record.phase == Phase::Interrupting
            && interrupts.any(|executor| {
                let key = attempt_key(Group::Interrupt, &executor.package.name);
                executor.attempt > record.attempts.get(&key).copied().unwrap_or(0)
            })
    }
}

/// Returns the key under which a record counts attempts.
pub(crate) fn attempt_key(group: Group, package: &str) -> String {
    match group {
        Group::Install => package.to_owned(),
        Group::Pull | Group::Uninstall | Group::Interrupt | Group::Verify => {
            format!("{package}/{group}")
        }
    }
}

/// Decides the next step of an open visit, and says what the node waits for.
pub(crate) fn drive<'a>(
    scope: &'a Scope<'a>,
    node: &'a Node,
    record: &'a Record,
    plan: &mut Plan,
) -> Verdict {
    let malformed = scope.rollout_state(node).and_then(|state| state.malformed.clone());
    if let Some(why) = malformed {
        deletion::release_unreadable(scope, node, plan);
        return Verdict::blocked(Reason::MalformedState { why });
    }
    let visit = Visit::new(scope, node, record);
    let mut draft = Draft {
        entries: scope.entries(node).clone(),
        record: record.clone(),
        because: None,
        drain_start: None,
    };
    let leaving = leave::leaving(&visit);
    let replaced = matches!(leaving, Some(Leaving::Replaced(_)));
    // What took too long counts as ended; the pod itself goes once that is on record.
    let overdue = watch::overdue(&visit);
    if !replaced {
        let ended = [overdue.clone(), watch::lingering(&visit)].concat();
        absorb::absorb(&visit.with_ended(&ended), &mut draft);
        watch::take_in(&visit, &overdue, &mut draft);
    }
    let winds_down = !replaced && deletion::winds_down(scope, node, record);
    let kept = if winds_down {
        deletion::wind_down(&visit, &mut draft);
        None
    } else {
        // A reboot that was issued has its deadline, whatever keeps other work from beginning.
        let rebooting = draft.record.phase == Phase::Interrupting;
        if (visit.may_begin() && leaving.is_none()) || rebooting {
            advance::advance(&visit, &mut draft);
        }
        finish(&visit, leaving.as_ref(), &mut draft, plan)
    };
    let differs = draft.entries != *scope.entries(node) || draft.record != *record;
    if differs || draft.drain_start.is_some() {
        return write(&visit, draft, plan);
    }
    if winds_down {
        return deletion::awaiting_end(&visit, plan);
    }
    if let Some(leaving) = leaving {
        return leave::waiting(&visit, leaving, plan);
    }
    if scope.resource.paused {
        watch::suspend(&visit, plan);
    }
    if let Some(halt) = &scope.input.halt {
        return kept.unwrap_or(Verdict::blocked(halt.clone()));
    }
    if visit.is_uncordoned() && !scope.resource.disabled {
        return cordon::lifted(&visit, plan);
    }
    if let Some(verdict) = kept {
        return verdict;
    }
    if scope.resource.disabled {
        return Verdict::blocked(Reason::Disabled);
    }
    if scope.resource.paused {
        return Verdict::blocked(Reason::Paused);
    }
    if let Some(verdict) = visit.held_off() {
        return verdict;
    }
    if !node.ready && record.phase != Phase::Interrupting {
        return node_block(scope, node)
            .unwrap_or(Verdict::wait(Reason::NodeNotReady { since: node.ready_since }));
    }
    start::start(&visit, plan)
}

/// Ends the visit where nothing is left to do, and says what the node is kept for although nothing
/// is.
fn finish(
    visit: &Visit<'_>,
    leaving: Option<&Leaving>,
    draft: &mut Draft,
    plan: &mut Plan,
) -> Option<Verdict> {
    if let Some(leaving @ Leaving::Replaced(_)) = leaving {
        leave::leave(visit, leaving, draft);
        return None;
    }
    let before = draft.clone();
    advance::finish(visit, draft);
    if let Some(leaving) = leaving {
        leave::leave(visit, leaving, draft);
        return None;
    }
    if draft.record.outcome != Some(Outcome::Complete) {
        return None;
    }
    let kept = claims::delays_release(visit.node)
        .filter(|_| draft.record.held)
        .or_else(|| gpus::missing(visit, draft, plan));
    match kept {
        Some(_) => *draft = before,
        None => gpus::note_missing(visit, draft),
    }
    kept
}

/// Turns a draft that differs into the one patch that writes it.
fn write(visit: &Visit<'_>, draft: Draft, plan: &mut Plan) -> Verdict {
    let Visit { scope, node, record, .. } = visit;
    let state = scope.rollout_state(node);
    let ended = draft.record.outcome;
    let takes_hold = draft.record.held && !record.held;
    let complete = matches!(ended, Some(Outcome::Complete | Outcome::Released));
    let lets_go = complete && node.is_cordoned_by(&scope.rollout.name);
    let kind = if takes_hold {
        PatchKind::Pick { resource_version: node.resource_version.clone() }
    } else if lets_go {
        PatchKind::Release { resource_version: node.resource_version.clone() }
    } else {
        PatchKind::Progress {
            record_text: state.and_then(|state| state.record_text.clone()),
            entries_text: state.and_then(|state| state.entries_text.clone()),
        }
    };
    let status = ended.map(|outcome| match outcome {
        Outcome::Complete => StatusWord::Complete,
        Outcome::Erroring => StatusWord::Erroring,
        Outcome::Released => StatusWord::Unknown,
    });
    let verdict = Verdict::act(if complete {
        Reason::Releasing
    } else {
        Reason::Recording { group: draft.because.unwrap_or(Group::Install) }
    });
    let entries = (draft.entries != *node.entries(&scope.rollout.name)).then_some(draft.entries);
    plan.actions.push(Action::PatchNode(NodePatch {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        rollout: scope.rollout.name.clone(),
        kind,
        entries,
        status,
        cordon_mark: cordon_mark(takes_hold, lets_go, draft.record.prior_unschedulable),
        drain_start: if complete && state.is_some_and(|state| state.drain_start.is_some()) {
            Some(None)
        } else {
            draft.drain_start
        },
        unschedulable: schedulable(visit, takes_hold, lets_go),
        record: Some(draft.record),
    }));
    verdict
}

fn cordon_mark(takes_hold: bool, lets_go: bool, prior_unschedulable: bool) -> Option<bool> {
    if takes_hold && !prior_unschedulable {
        Some(true)
    } else if lets_go {
        Some(false)
    } else {
        None
    }
}

/// Returns what `spec.unschedulable` becomes: true when we take hold of a schedulable node, false
/// when we let it go and nobody else's mark is left (upstream contract B.7), else untouched.
fn schedulable(visit: &Visit<'_>, takes_hold: bool, lets_go: bool) -> Option<bool> {
    let Visit { scope, node, record, .. } = visit;
    if takes_hold {
        return (!node.unschedulable).then_some(true);
    }
    let others = super::rollout::has_other_owner(node, &scope.rollout.name);
    (lets_go && !others && !record.prior_unschedulable && node.unschedulable).then_some(false)
}
