//! Looks the fleet over: input, plan and source become the facts of a status commit.
//!
//! In: what the planner saw and answered. Out: a [`FleetState`]. Never here: layout, a decision, a
//! value that changes because time passes.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::{
    CompartmentStatus, Entry, Input, InterruptKind, Node, NodeRollout, Outcome, Package, Plan,
    Reason, Record, Rollout, Stage, State, Status, StatusWord, Stopped, Verdict, digest_hex,
};

use super::concern::{Concern, concern};
use super::state::{
    CompartmentState, Effect, FleetPhase, FleetState, InterruptFacts, NodeFacts, PackageState,
    RolloutState, SettledEntry, SourceView, VisitFacts,
};
use super::wording::{MESSAGE_MAX_BYTES, clean};
use super::{leftovers, needs};

/// Returns what a status commit says.
pub(super) fn fleet(input: &Input, plan: &Plan, source: &SourceView) -> FleetState {
    let source = tidy(source);
    let mut rollouts: BTreeMap<String, RolloutState> = input
        .desired
        .rollouts
        .values()
        .map(|rollout| (rollout.name.clone(), rollout_state(input, plan, rollout)))
        .collect();
    for name in input.desired.invalid.keys() {
        rollouts.entry(name.clone()).or_insert_with(|| unreadable(input, plan, name));
    }
    let found = needs::find(input, plan, &source, &rollouts);
    FleetState {
        config_digest: config_digest(input),
        phase: phase(&rollouts),
        needs_person: found.needs_person,
        waits: found.waits,
        on_purpose: found.on_purpose,
        left_behind: leftovers::find(input),
        nodes: node_facts(input),
        rollouts,
        source,
    }
}

/// Returns the source with its texts cut and its findings in order.
fn tidy(source: &SourceView) -> SourceView {
    let cut = |text: &str| clean(text, MESSAGE_MAX_BYTES);
    let mut tidied = source.clone();
    if let Some(held) = &mut tidied.held {
        held.why = cut(&held.why);
        held.way_out = cut(&held.way_out);
    }
    if let Some(error) = &mut tidied.error {
        error.what = cut(&error.what);
        error.way_out = cut(&error.way_out);
    }
    for finding in &mut tidied.findings {
        finding.file = cut(&finding.file);
        finding.message = cut(&finding.message);
        finding.way_out = cut(&finding.way_out);
    }
    tidied.findings.sort();
    tidied
}

fn rollout_state(input: &Input, plan: &Plan, rollout: &Rollout) -> RolloutState {
    let resource = input.observed.resources.get(&rollout.name);
    let deleting = resource.is_some_and(|resource| resource.deleting);
    let target = if deleting { rollout.leaving_target() } else { rollout.target() };
    let selected: Vec<(&Node, &Verdict)> = selected(input, plan, &rollout.name).collect();
    let count = |is: &dyn Fn(&Node, &Verdict) -> bool| {
        u32::try_from(selected.iter().filter(|(node, verdict)| is(node, verdict)).count())
            .unwrap_or(u32::MAX)
    };
    let cr_uid = input.observed.resources.get(&rollout.name).map_or("", |found| &found.uid);
    let down = input.observed.nodes.values().filter(|node| node.is_cordoned_by(&rollout.name));
    let packages = rollout.packages.values().map(|package| {
        let snapshot = package.snapshot_name(&rollout.name);
        PackageState {
            name: package.name.clone(),
            version: package.version.as_str().to_owned(),
            effect: effect(package),
            done: count(&|node, verdict| {
                concern(verdict) == Concern::Settled
                    || has_package(node, &rollout.name, package, &snapshot)
            }),
        }
    });
    let status = status(input, plan, &rollout.name);
    let mut counters = counters(status);
    for (name, named) in selected.iter().filter_map(|(_, verdict)| stop_named(verdict)) {
        let compartment = counters.compartments.get_mut(name);
        if let Some(stop) = compartment.and_then(|compartment| compartment.stopped.as_mut()) {
            *stop = named;
        }
    }
    for (name, outlook) in plan.outlooks.get(&rollout.name).into_iter().flatten() {
        if let Some(compartment) = counters.compartments.get_mut(name) {
            let mut outlook = outlook.clone();
            compartment.stopped = outlook.stopped.take().or(compartment.stopped.take());
            compartment.outlook = Some(outlook);
        }
    }
    RolloutState {
        packages: packages.collect(),
        nodes_erroring: count(&|node, _| {
            node.record(&rollout.name, cr_uid).is_some_and(|record| {
                record.outcome == Some(Outcome::Erroring) && record.target == target
            })
        }),
        nodes_down: u32::try_from(down.count()).unwrap_or(u32::MAX),
        target,
        ..counters
    }
}

/// Returns the stop as the planner names it, so that every surface names the same batch.
fn stop_named(verdict: &Verdict) -> Option<(&str, Stopped)> {
    let Reason::Stopped { compartment, batch, failures, cause } = &verdict.reason else {
        return None;
    };
    Some((compartment, Stopped { batch: *batch, failures: *failures, cause: cause.clone() }))
}

/// Returns a rollout whose resource cannot be read: its counters as they were last written.
fn unreadable(input: &Input, plan: &Plan, name: &str) -> RolloutState {
    let down = input.observed.nodes.values().filter(|node| node.is_cordoned_by(name)).count();
    RolloutState {
        status: StatusWord::Blocked,
        nodes_down: u32::try_from(down).unwrap_or(u32::MAX),
        ..counters(status(input, plan, name))
    }
}

/// Returns the status as the plan wants it, else as it stands.
fn status<'a>(input: &'a Input, plan: &'a Plan, name: &str) -> Option<&'a Status> {
    plan.statuses.get(name).or_else(|| input.observed.resources.get(name)?.status.as_ref())
}

/// Returns what a status alone says of a rollout.
fn counters(status: Option<&Status>) -> RolloutState {
    let compartments = status.map(|status| &status.memory.compartments);
    let timings = status.map(|status| status.memory.timings.clone()).unwrap_or_default();
    let in_progress =
        compartments.into_iter().flatten().map(|(_, compartment)| compartment.in_progress).sum();
    RolloutState {
        status: status.map_or(StatusWord::Unknown, |status| status.word),
        target: String::new(),
        packages: Vec::new(),
        nodes_total: status.map_or(0, |status| status.nodes_total),
        nodes_complete: status.map_or(0, |status| status.nodes_complete),
        nodes_in_progress: in_progress,
        nodes_erroring: 0,
        nodes_down: 0,
        compartments: compartments
            .into_iter()
            .flatten()
            .map(|(name, status)| (name.clone(), compartment(status)))
            .collect(),
        started: timings.started,
        completed: timings.completed,
    }
}

fn compartment(status: &CompartmentStatus) -> CompartmentState {
    let CompartmentStatus {
        matched,
        ceiling,
        in_progress,
        completed,
        progress_percent: _,
        batch_state,
        open_batch,
        batches_to_come: _,
    } = status;
    let open = open_batch.as_ref();
    CompartmentState {
        batch: open.map_or(batch_state.current_batch, |batch| batch.number),
        opened: open.map(|batch| batch.opened),
        matched: *matched,
        ceiling: *ceiling,
        in_progress: *in_progress,
        completed: *completed,
        stopped: batch_state.should_stop.then(|| Stopped {
            batch: batch_state.current_batch.saturating_sub(1).max(1),
            failures: batch_state.consecutive_failures,
            cause: None,
        }),
        outlook: None,
    }
}

fn effect(package: &Package) -> Effect {
    match &package.interrupt {
        Some(interrupt) => Effect::Interrupts(interrupt.kind),
        None if package.config_interrupts.is_empty() => Effect::Beside,
        None => Effect::InterruptsOnConfig,
    }
}

/// Returns the nodes that the plan has a verdict on for `rollout`.
pub(super) fn selected<'a>(
    input: &'a Input,
    plan: &'a Plan,
    rollout: &str,
) -> impl Iterator<Item = (&'a Node, &'a Verdict)> {
    plan.verdicts
        .get(rollout)
        .into_iter()
        .flatten()
        .filter_map(|(name, verdict)| Some((input.observed.nodes.get(name)?, verdict)))
}

/// Returns whether the node has exactly this package, complete (upstream contract B.2).
fn has_package(node: &Node, rollout: &str, package: &Package, snapshot: &str) -> bool {
    let Some(entry) = node.entries(rollout).get(&package.id()) else { return false };
    let is_wanted = entry.snapshot.as_deref().is_none_or(|put| put == snapshot);
    let is_complete = entry.is(Stage::PostInterrupt, State::Complete)
        || (package.interrupt.is_none() && entry.is(Stage::Config, State::Complete));
    is_wanted && is_complete
}

/// Returns the digest of everything wanted; a field of a rollout that is new to this function
/// does not compile until it is in it.
fn config_digest(input: &Input) -> String {
    let rollouts: BTreeMap<&str, _> = input
        .desired
        .rollouts
        .values()
        .map(|rollout| {
            let Rollout {
                name,
                priority,
                sequencing,
                serial,
                nodes,
                protected,
                budget,
                policy,
                reset_batches,
                drain,
                tolerations,
                runtime_required,
                runtime_required_cordon_after,
                auto_taint_new_nodes,
                packages,
            } = rollout;
            let selectors = (nodes.to_string(), protected.as_ref().map(ToString::to_string));
            let pace =
                (priority, sequencing, serial, budget, policy, reset_batches, runtime_required);
            let joining = (runtime_required_cordon_after, auto_taint_new_nodes);
            // The drain's own Debug form lists every field and is as stable as the type.
            let drain = format!("{drain:?}");
            (name.as_str(), (selectors, pace, joining, drain, tolerations, packages))
        })
        .collect();
    let policies: Vec<String> =
        input.desired.policies.values().map(|policy| format!("{policy:?}")).collect();
    digest_hex(&(rollouts, policies))
}

fn phase(rollouts: &BTreeMap<String, RolloutState>) -> FleetPhase {
    let any = |word: StatusWord| rollouts.values().any(|rollout| rollout.status == word);
    if rollouts.is_empty() {
        FleetPhase::Empty
    } else if rollouts.values().any(RolloutState::is_moving) {
        FleetPhase::Progressing
    } else if rollouts.values().any(|rollout| rollout.stopped().is_some()) {
        FleetPhase::Stopped
    } else if any(StatusWord::Erroring) {
        FleetPhase::Erroring
    } else if any(StatusWord::Blocked) {
        FleetPhase::Blocked
    } else if any(StatusWord::Waiting) || any(StatusWord::Unknown) {
        FleetPhase::Waiting
    } else if any(StatusWord::Paused) || any(StatusWord::Disabled) {
        FleetPhase::Paused
    } else {
        FleetPhase::Complete
    }
}

fn node_facts(input: &Input) -> BTreeMap<String, BTreeMap<String, Box<NodeFacts>>> {
    let facts = input.observed.nodes.values().map(|node| {
        let rollouts = node
            .rollouts
            .iter()
            .filter(|(_, state)| !state.entries.is_empty() || state.record.is_some())
            .map(|(rollout, state)| (rollout.clone(), Box::new(facts_of(node, state))));
        (node.name.clone(), rollouts.collect::<BTreeMap<_, _>>())
    });
    facts.filter(|(_, rollouts)| !rollouts.is_empty()).collect()
}

fn facts_of(node: &Node, state: &NodeRollout) -> NodeFacts {
    let own = state.record.as_ref().filter(|record| record.node_uid == node.uid);
    NodeFacts {
        packages: state.entries.values().map(settled).collect(),
        visit: own.map(visit_facts),
    }
}

fn settled(entry: &Entry) -> SettledEntry {
    SettledEntry {
        name: clean(&entry.name, MESSAGE_MAX_BYTES),
        version: clean(&entry.version, MESSAGE_MAX_BYTES),
        stage: entry.stage,
        state: entry.state,
        since: entry.since,
        snapshot: entry.snapshot.clone(),
    }
}

fn visit_facts(record: &Record) -> VisitFacts {
    let is_reboot = |kind: InterruptKind| kind == InterruptKind::Reboot;
    VisitFacts {
        visit: record.visit,
        target: record.target.clone(),
        compartment: record.compartment.clone(),
        batch: record.batch,
        picked: record.picked,
        phase: record.phase,
        outcome: record.outcome,
        reason: record.reason.as_deref().map(|word| clean(word, MESSAGE_MAX_BYTES)),
        message: record.message.as_deref().map(|text| clean(text, MESSAGE_MAX_BYTES)),
        interrupt: record.interrupt.as_ref().map(|interrupt| InterruptFacts {
            kind: interrupt.kind,
            package: interrupt.package.to_string(),
            since: interrupt.since,
            boot_before: record.boot_before.clone().filter(|_| is_reboot(interrupt.kind)),
            boot_proven: record
                .boot_proven()
                .filter(|_| is_reboot(interrupt.kind))
                .map(str::to_owned),
        }),
    }
}

/// Returns since when a package has failed on the node for `rollout`.
pub(super) fn failing_since(node: &Node, rollout: &str) -> Option<Timestamp> {
    let entries = node.entries(rollout).values();
    entries.filter(|entry| entry.state == State::Erroring).filter_map(|entry| entry.since).min()
}
