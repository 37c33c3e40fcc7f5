//! Batches: opened by one status write, filled by picks, judged when every member is done.
//!
//! Without a policy there is one compartment with a fixed batch of the ceiling's size (upstream
//! contract B.10). A node belongs to the open batch when its record has the batch's target and one
//! of the order numbers reserved for it, so a verdict is a count over records.

use std::collections::{BTreeMap, BTreeSet};

use super::drain::protected_pods;
use super::pick::pick;
use super::protect::was_let_go;
use super::pull::Pulls;
use super::rollout::is_named;
use super::select::Scope;
use super::takeover;
use crate::model::{
    Action, BatchState, CompartmentStatus, DEFAULT_COMPARTMENT, Memory, Node, OpenBatch, Outcome,
    PatchKind, Plan, Reason, Record, Verdict, VerdictKind,
};

/// Moves the open batch on, and returns what the status must remember.
///
/// Candidates are nodes that need work and may be picked; each gets its verdict here.
pub(crate) fn advance<'a>(
    scope: &Scope<'a>,
    candidates: &[&'a Node],
    verdicts: &mut BTreeMap<String, Verdict>,
    plan: &mut Plan,
) -> Memory {
    let mut memory = remembered(scope);
    let mut compartment = memory.compartments.get(DEFAULT_COMPARTMENT).cloned().unwrap_or_default();
    let waiting = match compartment.open_batch.clone() {
        Some(mut open) => {
            open.given = given(scope, &open);
            compartment.open_batch = Some(open.clone());
            let members = members(scope, &open);
            let over = members.iter().all(|(_, record)| !record.is_open());
            let full = open.given >= open.size;
            let pulls = Pulls::new(scope);
            // Nodes whose images cannot be pulled do not hold the others' batch.
            let stuck = || !members.is_empty() && pulls.all_fail(candidates, &open);
            if over && (full || candidates.is_empty() || stuck()) {
                judge(scope, &mut compartment, &members);
                compartment.open_batch = None;
                Reason::PreparingBatch
            } else {
                fill(&pulls, &open, candidates, verdicts, plan)
            }
        }
        None if candidates.is_empty() => Reason::PreparingBatch,
        None if compartment.batch_state.should_stop => Reason::Stopped {
            batch: compartment.batch_state.current_batch.saturating_sub(1),
            failures: compartment.batch_state.consecutive_failures,
        },
        None => open(scope, &mut memory, &mut compartment, candidates, plan),
    };
    for node in candidates {
        let stopped = matches!(waiting, Reason::Stopped { .. } | Reason::NotCreated { .. });
        let kind = if stopped { VerdictKind::Blocked } else { VerdictKind::Wait };
        let verdict = Verdict { kind, reason: waiting.clone() };
        verdicts.entry(node.name.clone()).or_insert(verdict);
    }
    show(scope, &mut compartment, verdicts);
    finish_timing(scope, &mut memory, verdicts);
    memory.compartments.insert(DEFAULT_COMPARTMENT.to_owned(), compartment);
    memory
}

/// Returns what the status remembers, begun anew for a new target: counters and stops belong to
/// a target, order numbers go on so that none is ever used twice.
fn remembered(scope: &Scope<'_>) -> Memory {
    let before = scope.resource.status.as_ref().map(|status| &status.memory);
    let mut memory = match before {
        Some(memory) if memory.target == scope.target => memory.clone(),
        Some(memory) => Memory {
            target: scope.target.clone(),
            order_next: memory.order_next,
            ..Memory::default()
        },
        None => Memory { target: scope.target.clone(), ..Memory::default() },
    };
    takeover::import(scope, &mut memory);
    // A status that somebody wiped must not hand out again what nodes still carry.
    let above = orders_given(scope).last().map_or(0, |order| order.saturating_add(1));
    memory.order_next = memory.order_next.max(above);
    memory
}

fn members<'a>(scope: &Scope<'a>, open: &OpenBatch) -> Vec<(&'a Node, &'a Record)> {
    let orders = open.order_from..open.order_from.saturating_add(open.size);
    scope
        .nodes
        .iter()
        .filter_map(|&node| Some((node, scope.record(node)?)))
        .filter(|(_, record)| orders.contains(&record.order) && record.batch == open.number)
        .collect()
}

/// Counts the members' outcomes: the verdict on the batch (upstream contract B.10, with an
/// erroring node ending its membership).
fn judge(scope: &Scope<'_>, compartment: &mut CompartmentStatus, members: &[(&Node, &Record)]) {
    let ended = |outcome| {
        count(members.iter().filter(|(_, record)| record.outcome == Some(outcome)).count())
    };
    let (completed, failed) = (ended(Outcome::Complete), ended(Outcome::Erroring));
    let state = &mut compartment.batch_state;
    // All of it was let go: neither a success nor a failure, and the same batch comes again.
    if completed + failed == 0 {
        return;
    }
    state.current_batch = state.current_batch.saturating_add(1);
    state.last_batch_size = completed + failed;
    state.last_batch_failed = failed > 0;
    state.completed_nodes = state.completed_nodes.saturating_add(completed);
    state.failed_nodes = state.failed_nodes.saturating_add(failed);
    if failed > 0 {
        state.consecutive_failures = state.consecutive_failures.saturating_add(1);
        let limit = scope.input.floor.stop_after;
        state.should_stop = limit.is_some_and(|limit| state.consecutive_failures >= limit);
    } else {
        state.consecutive_failures = 0;
    }
}

/// Opens the next batch, if a node of it could be picked.
fn open(
    scope: &Scope<'_>,
    memory: &mut Memory,
    compartment: &mut CompartmentStatus,
    candidates: &[&Node],
    plan: &Plan,
) -> Reason {
    let ceiling = scope.ceiling();
    let disturbed = disturbed(scope, plan);
    let free_ride = candidates.iter().any(|node| scope.is_disturbed(node));
    if count(disturbed.len()) >= ceiling && !free_ride {
        return budget_used(ceiling, &disturbed);
    }
    let size = ceiling.min(count(candidates.len()));
    let number = compartment.batch_state.current_batch;
    compartment.open_batch = Some(OpenBatch {
        target: scope.target.clone(),
        number,
        size,
        order_from: memory.order_next,
        given: 0,
        opened: scope.input.now,
    });
    memory.order_next = memory.order_next.saturating_add(size);
    memory.timings.started = memory.timings.started.or(Some(scope.input.now));
    memory.timings.completed = None;
    Reason::PreparingBatch
}

/// Picks candidates into the open batch, as far as the ceiling has room (design §7).
fn fill<'a>(
    pulls: &Pulls<'_, 'a>,
    open: &OpenBatch,
    candidates: &[&'a Node],
    verdicts: &mut BTreeMap<String, Verdict>,
    plan: &mut Plan,
) -> Reason {
    let scope = pulls.scope;
    let ceiling = scope.ceiling();
    // Grows with each pick: what this tick takes is used as well.
    let mut disturbed = disturbed(scope, plan);
    let mut room = ceiling.saturating_sub(count(disturbed.len()));
    let first = open.order_from.saturating_add(open.given);
    let mut orders = first..open.order_from.saturating_add(open.size);
    let snapshots_there = scope.rollout.packages.values().all(|package| {
        let name = scope.snapshot_name(package);
        scope.input.observed.snapshots.contains_key(name) || !is_named(scope, package)
    });
    if !snapshots_there {
        return not_created(scope).unwrap_or(Reason::PreparingBatch);
    }
    let mut reason = Reason::WaitingForBatch { batch: open.number };
    let mut taken = open.given;
    for node in pulls.failed_last(in_order(scope, candidates)) {
        let free_ride = scope.is_disturbed(node);
        if room == 0 && !free_ride {
            if taken < open.size {
                reason = budget_used(ceiling, &disturbed);
            }
            break;
        }
        let gate = pulls.gate(node, open);
        if let Some(verdict) = gate.failure(plan) {
            verdicts.insert(node.name.clone(), verdict);
            continue;
        }
        let Some(order) = orders.next() else { break };
        taken += 1;
        if !free_ride {
            room -= 1;
        }
        if let Some(verdict) = gate.pulling(plan) {
            verdicts.insert(node.name.clone(), verdict);
            continue;
        }
        if !free_ride {
            disturbed.push(node.name.clone());
        }
        plan.actions.extend(pick(scope, node, open, order));
        let picking = Verdict::act(Reason::Picking { batch: open.number });
        verdicts.insert(node.name.clone(), picking);
    }
    reason
}

/// Sorts candidates: those already disturbed first, for they cost nothing; then those
/// that upstream had begun; untouched before
/// failed, the daemon's own node last, nodes without protected pods first, oldest, by name.
fn in_order<'a>(scope: &Scope<'a>, candidates: &[&'a Node]) -> Vec<&'a Node> {
    let mut order = candidates.to_vec();
    order.sort_by_cached_key(|node| {
        (
            !scope.is_disturbed(node),
            !takeover::is_of_running_batch(scope, node),
            scope.record(node).is_some_and(|record| record.outcome == Some(Outcome::Erroring)),
            scope.input.own_node.as_ref() == Some(&node.name),
            !protected_pods(scope, node).is_empty(),
            was_let_go(scope, node),
            node.created,
            node.name.clone(),
        )
    });
    order
}

/// Returns the nodes that count against the ceiling, those that an earlier rollout picks in this
/// very tick among them.
fn disturbed(scope: &Scope<'_>, plan: &Plan) -> Vec<String> {
    let picks = plan.actions.iter().filter_map(|action| {
        let Action::PatchNode(patch) = action else { return None };
        matches!(patch.kind, PatchKind::Pick { .. }).then_some(patch.node.as_str())
    });
    let picked: BTreeSet<&str> = picks.collect();
    let counts = |node: &&&Node| scope.is_disturbed(node) || picked.contains(node.name.as_str());
    let nodes = scope.nodes.iter().filter(counts);
    nodes.map(|node| node.name.clone()).collect()
}

/// Returns the order numbers that nodes carry, also those that are not selected any more: none is
/// ever given again.
fn orders_given(scope: &Scope<'_>) -> BTreeSet<u32> {
    let nodes = scope.input.observed.nodes.values();
    let records = nodes.filter_map(|node| scope.record(node));
    records.map(|record| record.order).collect()
}

/// Returns how many numbers of a batch are given. They are given in order, and the status remembers
/// how many: a node that left the batch, was picked again, or was reset by a person has burnt its
/// own. One that a refused pick left out, with a later one given, is burnt as well.
fn given(scope: &Scope<'_>, open: &OpenBatch) -> u32 {
    let numbers = open.order_from..open.order_from.saturating_add(open.size);
    let given = orders_given(scope);
    let last = given.range(numbers).next_back();
    let seen = last.map_or(0, |last| (last - open.order_from).saturating_add(1));
    open.given.max(seen)
}

/// Returns why a snapshot that is wanted cannot be made.
fn not_created(scope: &Scope<'_>) -> Option<Reason> {
    scope.rollout.packages.values().find_map(|package| {
        let name = scope.snapshot_name(package);
        let rejection = scope.input.observed.rejections.get(name)?;
        let (why, since) = (rejection.message.clone(), rejection.since);
        Some(Reason::NotCreated { object: format!("configmap {name}"), why, since })
    })
}

fn budget_used(ceiling: u32, nodes: &[String]) -> Reason {
    Reason::BudgetUsed { ceiling, nodes: nodes.to_vec() }
}

/// Fills in the counters that people read.
fn show(
    scope: &Scope<'_>,
    compartment: &mut CompartmentStatus,
    verdicts: &BTreeMap<String, Verdict>,
) {
    let done = verdicts.values().filter(|verdict| verdict.kind == VerdictKind::Done).count();
    compartment.matched = count(scope.nodes.len());
    compartment.ceiling = scope.ceiling();
    compartment.completed = count(done);
    compartment.in_progress =
        count(scope.nodes.iter().filter(|node| scope.open_record(node).is_some()).count());
    compartment.progress_percent =
        compartment.completed.saturating_mul(100).checked_div(compartment.matched).unwrap_or(100);
    if compartment.batch_state.current_batch == 0 {
        compartment.batch_state = BatchState::default();
    }
}

fn finish_timing(scope: &Scope<'_>, memory: &mut Memory, verdicts: &BTreeMap<String, Verdict>) {
    let complete = verdicts.values().all(|verdict| verdict.kind == VerdictKind::Done);
    if !complete {
        memory.timings.completed = None;
    } else if memory.timings.started.is_some() && memory.timings.completed.is_none() {
        memory.timings.completed = Some(scope.input.now);
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
