//! Kubernetes events: what the daemon writes beside an action or a verdict.
//!
//! In: an action that was executed, or a verdict that changed. Out: type, reason and action in
//! upstream's words (upstream contract A.7), and a note. Never here: whether, or how often, it is
//! written; that is the writer's business.

use std::collections::BTreeMap;

use crate::model::{
    Action, Eviction, EvictionMethod, ExecutorSpec, InterruptKind, NodeCleaning, NodePatch,
    Outcome, Outlook, PatchKind, Reason, Record, Stage, Taint, TaintPatch, Verdict, Work,
    stopped_way_out,
};

use super::concern::{Concern, concern, way_out_for};
use super::wording::clean;

/// Longest note that the API server takes.
pub const NOTE_MAX_BYTES: usize = 1024;

/// Whether an event is a matter of course.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// As intended.
    Normal,
    /// Somebody ought to look.
    Warning,
}

impl EventKind {
    /// Returns the word of the field `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event about a node or a resource, for a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The node it is about; `None`: the rollout's resource.
    pub node: Option<String>,
    /// The rollout it happened for.
    pub rollout: String,
    /// Whether it is a matter of course.
    pub kind: EventKind,
    /// The field `reason`.
    pub reason: &'static str,
    /// The field `action`.
    pub action: &'static str,
    /// The field `note`, at most [`NOTE_MAX_BYTES`].
    pub note: String,
}

/// Returns the event of an executed action, where people care for it.
pub fn of_action(action: &Action) -> Option<Event> {
    match action {
        Action::PatchNode(patch) => of_patch(patch),
        Action::Evict(eviction) => Some(of_eviction(eviction)),
        Action::CreateExecutor(executor) => Some(of_executor(executor)),
        Action::PatchTaints(patch) => of_taints(patch),
        Action::CreateSnapshot(_)
        | Action::DeleteSnapshot(_)
        | Action::WriteStatus(_)
        | Action::WriteNodeMetadata(_)
        | Action::DeleteExecutors { .. }
        | Action::SetFinalizer(_)
        | Action::CleanNode(_)
        | Action::DeleteUpstreamWork { .. }
        | Action::DeleteExecutor { .. } => None,
    }
}

/// Returns the event of a change of a node that the API server refused for good: what `kubectl
/// describe node` says while the node stays as it was.
pub fn of_refusal(action: &Action, why: &str) -> Option<Event> {
    let (node, rollout, what) = match action {
        Action::PatchTaints(TaintPatch { node, rollout, .. }) => (node, rollout, "its taints"),
        Action::PatchNode(NodePatch { node, rollout, .. }) => (node, rollout, "its annotations"),
        Action::CleanNode(NodeCleaning { node, rollout, .. }) => {
            (node, rollout, "what is left on it")
        }
        // What cannot be created is a verdict of its own.
        Action::CreateExecutor(_)
        | Action::Evict(_)
        | Action::CreateSnapshot(_)
        | Action::DeleteSnapshot(_)
        | Action::WriteStatus(_)
        | Action::WriteNodeMetadata(_)
        | Action::DeleteExecutors { .. }
        | Action::SetFinalizer(_)
        | Action::DeleteUpstreamWork { .. }
        | Action::DeleteExecutor { .. } => return None,
    };
    let note = format!(
        "the API server refuses to change {what} for {rollout}: {why}; way out: give the daemon \
         the right, or change what refuses it; it is tried again"
    );
    Some(event(node, rollout, EventKind::Warning, "State", "Refused", &note))
}

/// Returns the event of a verdict whose reason differs from the one before, where a person must
/// act or a protected pod is waited for. A failed stage is told by the action that records it, a
/// stop by [`of_stop`], what waits for an approval by [`of_hold`].
pub fn of_verdict(
    rollout: &str,
    node: &str,
    previous: Option<&Verdict>,
    now: &Verdict,
) -> Option<Event> {
    let is_same = previous.is_some_and(|previous| previous.reason.word() == now.reason.word());
    let is_protected = matches!(now.reason, Reason::ProtectedPod { .. });
    // These are told once, of the resource, and not of each node that waits.
    let is_failure = matches!(
        now.reason,
        Reason::Failed { .. }
            | Reason::InterruptFailed { .. }
            | Reason::Stopped { .. }
            | Reason::SelectsEverything { .. }
    );
    let needs_person = concern(now) == Concern::NeedsPerson && !is_failure;
    if is_same || !(needs_person || is_protected) {
        return None;
    }
    let (reason, action) = verdict_words(&now.reason);
    let note = if needs_person {
        format!("{}; way out: {}", now.reason, way_out_for(&now.reason, rollout))
    } else {
        now.reason.to_string()
    };
    let kind = if needs_person { EventKind::Warning } else { EventKind::Normal };
    Some(event(node, rollout, kind, reason, action, &note))
}

/// Returns the event of a compartment that has just been stopped, about the resource: which batch,
/// which nodes, what they said, and how it goes on.
pub fn of_stop(
    rollout: &str,
    compartment: &str,
    previous: Option<&Outlook>,
    now: &Outlook,
) -> Option<Event> {
    let was_stopped = previous.is_some_and(|previous| previous.stopped.is_some());
    let stopped = now.stopped.clone().filter(|_| !was_stopped)?;
    let way_out = stopped_way_out(rollout, stopped.cause.as_ref());
    let what = stopped.reason(compartment).to_string();
    let room = NOTE_MAX_BYTES.saturating_sub(way_out.len() + "; way out: ".len());
    let note = format!("{}; way out: {way_out}", clean(&what, room));
    Some(Event {
        node: None,
        rollout: rollout.to_owned(),
        kind: EventKind::Warning,
        reason: "State",
        action: "Stop",
        note,
    })
}

/// Returns the event of a rollout that has just begun to wait for a person's approval, about the
/// resource.
pub fn of_hold(
    rollout: &str,
    previous: Option<&BTreeMap<String, Verdict>>,
    now: &BTreeMap<String, Verdict>,
) -> Option<Event> {
    let held = |verdicts: &BTreeMap<String, Verdict>| {
        let mut reasons = verdicts.values().map(|verdict| &verdict.reason);
        reasons.find(|reason| matches!(reason, Reason::SelectsEverything { .. })).cloned()
    };
    if previous.and_then(held).is_some() {
        return None;
    }
    let reason = held(now)?;
    let note = format!("{reason}; way out: {}", way_out_for(&reason, rollout));
    Some(Event {
        node: None,
        rollout: rollout.to_owned(),
        kind: EventKind::Warning,
        reason: "State",
        action: "Hold",
        note: clean(&note, NOTE_MAX_BYTES),
    })
}

/// Returns upstream's reason and our action for a verdict.
fn verdict_words(reason: &Reason) -> (&'static str, &'static str) {
    let is_drain = matches!(
        reason,
        Reason::DrainRefused { .. }
            | Reason::DisruptionBudget { .. }
            | Reason::BudgetNever { .. }
            | Reason::SeveralBudgets { .. }
            | Reason::UnhealthyPodHeld { .. }
            | Reason::ProtectedPod { .. }
    );
    if matches!(reason, Reason::DrainTimedOut { .. }) {
        ("DrainTimeout", "Evict")
    } else if matches!(reason, Reason::DeletionBlocked { .. }) {
        ("DeletionBlocked", "BlockDelete")
    } else if is_drain {
        ("Drain", "Wait")
    } else {
        ("State", "Transition")
    }
}

fn event(
    node: &str,
    rollout: &str,
    kind: EventKind,
    reason: &'static str,
    action: &'static str,
    note: &str,
) -> Event {
    Event {
        node: Some(node.to_owned()),
        rollout: rollout.to_owned(),
        kind,
        reason,
        action,
        note: clean(note, NOTE_MAX_BYTES),
    }
}

fn of_patch(patch: &NodePatch) -> Option<Event> {
    let record = patch.record.as_ref();
    let say = |kind, reason, action, note: &str| {
        Some(event(&patch.node, &patch.rollout, kind, reason, action, note))
    };
    match &patch.kind {
        PatchKind::Pick { .. } => {
            say(EventKind::Normal, "State", "Pick", &picked_note(record?, patch.unschedulable))
        }
        PatchKind::Recordon { .. } => {
            let note = match record?.recordons {
                0 => "the cordon found at the pick was lifted: cordoned as ours".to_owned(),
                times => format!("a controller lifted our cordon: put back, time {times}"),
            };
            say(EventKind::Warning, "State", "Cordon", &note)
        }
        PatchKind::Progress { record_text, .. } => {
            let record = record?;
            let before = record_text.as_deref().and_then(|text| serde_json::from_str(text).ok());
            if let Some(note) = failed_note(before.as_ref(), record) {
                return say(EventKind::Warning, "State", "MarkErroring", &note);
            }
            let note = reboot_note(before.as_ref(), record)?;
            say(EventKind::Normal, "Reboot", "ProveReboot", &note)
        }
        PatchKind::Release { .. } => match record?.outcome? {
            Outcome::Complete => match &record?.message {
                Some(message) => say(EventKind::Warning, "State", "MarkComplete", message),
                None => {
                    say(EventKind::Normal, "State", "MarkComplete", "every package is as wanted")
                }
            },
            Outcome::Erroring => {
                say(EventKind::Warning, "State", "MarkErroring", &failure_text(record?))
            }
            Outcome::Released => {
                let why = record?.message.as_deref().unwrap_or("no longer needed here");
                say(EventKind::Normal, "State", "Release", &format!("let go: {why}"))
            }
        },
    }
}

fn picked_note(record: &Record, unschedulable: Option<bool>) -> String {
    let cordon = if unschedulable == Some(true) || record.held { ", cordoned" } else { "" };
    let because = record.message.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    format!("picked for batch {} as number {}{cordon}{because}", record.batch, record.order)
}

/// Returns what became of the taint that keeps workloads off; a stale mark is nobody's concern.
fn of_taints(patch: &TaintPatch) -> Option<Event> {
    let names = |from: &[Taint], other: &[Taint]| {
        let differing = from.iter().filter(|taint| !other.contains(taint));
        differing.map(|taint| taint.key.clone()).collect::<Vec<_>>().join(", ")
    };
    let (added, removed) = (names(&patch.after, &patch.before), names(&patch.before, &patch.after));
    let (action, note) = if !added.is_empty() {
        let why = if patch.auto_taint_mark.is_some() { "it has joined" } else { "it was rebooted" };
        let note = format!("tainted with {added}, {why}: workloads wait for required packages");
        ("AddTaint", note)
    } else if !removed.is_empty() {
        let cordon = if patch.cordon_after == Some(true) { ", left cordoned as asked" } else { "" };
        let note = format!("taint {removed} removed, required packages are complete{cordon}");
        ("RemoveTaint", note)
    } else {
        return None;
    };
    Some(event(&patch.node, &patch.rollout, EventKind::Normal, "AutoTaint", action, &note))
}

/// Returns what failed, if this patch is the one that says so.
fn failed_note(before: Option<&Record>, now: &Record) -> Option<String> {
    let was = before.and_then(|record| record.outcome);
    let is_new = now.outcome == Some(Outcome::Erroring) && was != now.outcome;
    is_new.then(|| failure_text(now))
}

fn failure_text(record: &Record) -> String {
    let word = record.reason.as_deref().unwrap_or("Failed");
    let held = if record.held { "; the node stays cordoned" } else { "" };
    match &record.message {
        Some(message) => format!("{word}: {message}{held}"),
        None => format!("{word}{held}"),
    }
}

/// Returns the proof of a reboot, if this patch is the one that brings it.
fn reboot_note(before: Option<&Record>, now: &Record) -> Option<String> {
    let proven = now.boot_last.as_ref()?;
    if before.and_then(|record| record.boot_last.as_ref()) == Some(proven) {
        return None;
    }
    let boot_before = now.boot_before.as_deref().unwrap_or("not known");
    Some(format!("rebooted: boot ID {boot_before} became {proven}"))
}

fn of_eviction(eviction: &Eviction) -> Event {
    let Eviction { node, rollout, pod, method, grace_period: _ } = eviction;
    let how = match method {
        EvictionMethod::Evict => "evicting",
        EvictionMethod::Delete => "deleting",
    };
    let note = format!("{how} pod {pod} to drain the node");
    event(node, rollout, EventKind::Normal, "Drain", "Evict", &note)
}

fn of_executor(executor: &ExecutorSpec) -> Event {
    let package = executor.work.package_id();
    let attempt = executor.attempt;
    let (reason, action, note) = match &executor.work {
        Work::Pull { .. } => {
            ("Apply", "PullImages", format!("images of {package} before the cordon"))
        }
        Work::Uninstall { .. } => {
            let stage = Stage::Uninstall;
            ("Apply", "UninstallPackage", format!("{stage} of {package}, attempt {attempt}"))
        }
        Work::Install { stages, .. } => {
            let stages: Vec<&str> = stages.iter().map(|stage| stage.as_str()).collect();
            let note = format!("{} of {package}, attempt {attempt}", stages.join(", "));
            ("Apply", "ApplyPackage", note)
        }
        Work::Interrupt { interrupt, .. } => {
            let services = match interrupt.kind {
                InterruptKind::Service => format!(" ({})", interrupt.services.join(", ")),
                InterruptKind::Reboot | InterruptKind::RestartAllServices | InterruptKind::Noop => {
                    String::new()
                }
            };
            let kind = interrupt.kind;
            let note = format!("interrupt {kind}{services} for {package}, attempt {attempt}");
            ("Interrupt", "Interrupt", note)
        }
        Work::Verify { .. } => {
            let stage = Stage::PostInterrupt;
            ("Apply", "VerifyPackage", format!("{stage} of {package}, attempt {attempt}"))
        }
    };
    let visit = &executor.visit;
    event(&visit.node, &visit.rollout, EventKind::Normal, reason, action, &note)
}
