//! One rollout: visits under way are driven on, then new ones are begun as the batch allows.

use std::collections::{BTreeMap, BTreeSet};

use super::due::Standing;
use super::joiners::Joiners;
use super::lifecycle::{Seen, Step};
use super::select::{Scope, node_block, pick_block, rollout_hold, working_rollout};
use super::{
    Done, batch, claims, cleanup, deletion, due, forgotten, protect, repair, status, takeover,
    visit,
};
use crate::model::{
    Action, CordonMark, Memory, Node, NodePatch, Package, Plan, Reason, SnapshotSpec, Status,
    StatusWrite, UpstreamMaps, Urgency, Verdict, VerdictKind,
};

/// Plans one rollout into `plan`; `earlier` is what nodes get that join stopped compartments.
pub(crate) fn plan_rollout<'a>(
    scope: &'a Scope<'a>,
    earlier: &'a BTreeMap<&'a str, Scope<'a>>,
    done: &Done,
    plan: &mut Plan,
) {
    // Last in the rollout's lane: a snapshot that is refused must not keep the status from saying
    // so.
    let joiners = Joiners::new(scope, earlier);
    if plan_visits(scope, &joiners, done, plan) {
        create_snapshots(scope, plan);
    }
}

/// Plans everything but snapshots; returns whether any may be wanted.
fn plan_visits<'a>(
    scope: &'a Scope<'a>,
    joiners: &Joiners<'a, 'a>,
    done: &Done,
    plan: &mut Plan,
) -> bool {
    let mut verdicts = Vec::new();
    let mut candidates: Vec<&'a Node> = Vec::new();
    let mut working = false;
    let mut unsettled = false;
    let patched = busy_nodes(plan);
    let hold = rollout_hold(scope);
    for &node in &scope.nodes {
        let scope = joiners.scope_of(node).unwrap_or(scope);
        let settling = takeover::settle(scope, node, plan);
        let verdict = match scope.open_record(node) {
            _ if settling.is_some() => settling,
            Some(record) => {
                working = true;
                Some(visit::drive(scope, node, record, plan))
            }
            None => {
                let standings = due::standings(scope, scope.entries(node), scope.record(node));
                let verdict = standing(scope, node, &standings, hold.as_ref(), done);
                // Two patches of a node would be one and a Conflict: the next tick lets go.
                let releasing = if patched.contains(&node.name) {
                    None
                } else if let Some(ending) = forgotten::let_go(scope, node, plan) {
                    Some(ending)
                } else if scope.resource.deleting {
                    deletion::let_go(scope, node, verdict.as_ref(), plan)
                } else {
                    let_go(scope, node, verdict.as_ref(), plan)
                        .or_else(|| takeover::let_go(scope, node, verdict.as_ref(), plan))
                };
                if releasing.is_none() && verdict.is_some() && hold.is_none() {
                    unsettled |= settle(scope, node, &standings, &patched, plan);
                }
                releasing.or(verdict)
            }
        };
        match verdict {
            Some(verdict) => verdicts.push((node.name.clone(), verdict)),
            None if patched.contains(&node.name) => {
                verdicts.push((node.name.clone(), Verdict::wait(Reason::PreparingBatch)));
            }
            None => candidates.push(node),
        }
    }
    // All at once: a map of 10,000 that grows one by one takes as long as what was decided.
    let mut verdicts: BTreeMap<String, Verdict> = verdicts.into_iter().collect();
    repair::wake_for_next(scope, plan);
    deletion::leave_unselected(scope, plan);
    let begun = working || !candidates.is_empty();
    if begun && deletion::await_finalizer(scope, plan) {
        for node in candidates {
            verdicts.insert(node.name.clone(), Verdict::wait(Reason::PreparingBatch));
        }
        let before = scope.resource.status.as_ref();
        let mut memory = before.map(|status| status.memory.clone()).unwrap_or_default();
        batch::look_ahead(scope, joiners, &mut memory, &verdicts, plan);
        show(scope, verdicts, memory, plan);
        return true;
    }
    protect::let_go(scope, &candidates, &mut verdicts, plan);
    protect::put_last(scope, &mut candidates, &mut verdicts);
    let memory = batch::advance(scope, joiners, &candidates, &mut verdicts, plan);
    let through = verdicts.values().all(|verdict| verdict.kind == VerdictKind::Done);
    if deletion::finish(scope.input, &scope.rollout.name, scope.resource, through, plan) {
        show(scope, verdicts, memory, plan);
        return false; // Nothing is run from it any more.
    }
    write_status(scope, &verdicts, memory, plan);
    plan.verdicts.insert(scope.rollout.name.clone(), verdicts);
    begun || unsettled
}

/// Shows verdicts and status in a tick that writes something else to the resource.
fn show(scope: &Scope<'_>, verdicts: BTreeMap<String, Verdict>, memory: Memory, plan: &mut Plan) {
    let status = status_now(scope, &verdicts, memory, plan);
    plan.statuses.insert(scope.rollout.name.clone(), status);
    plan.verdicts.insert(scope.rollout.name.clone(), verdicts);
}

/// Returns the status that these verdicts, and what is to come, amount to.
fn status_now(
    scope: &Scope<'_>,
    verdicts: &BTreeMap<String, Verdict>,
    memory: Memory,
    plan: &Plan,
) -> Status {
    let outlooks = plan.outlooks.get(&scope.rollout.name);
    status::status(scope, verdicts, memory, outlooks.unwrap_or(&BTreeMap::new()))
}

/// Returns why a node without a visit is not picked; `None` makes it a candidate.
fn standing<'a>(
    scope: &Scope<'a>,
    node: &'a Node,
    standings: &[Standing<'a>],
    hold: Option<&Verdict>,
    done: &Done,
) -> Option<Verdict> {
    let malformed = scope.rollout_state(node).and_then(|state| state.malformed.clone());
    if let Some(why) = malformed {
        return Some(Verdict::blocked(Reason::MalformedState { why }));
    }
    let needs = scope.needs_of(node, standings);
    let Some(first) = needs.keys().next() else {
        return Some(due::finding_in(standings).unwrap_or(Verdict::done()));
    };
    if let Some(verdict) =
        node_block(scope, node).or_else(|| pick_block(scope, node, done)).or_else(|| hold.cloned())
    {
        return Some(verdict);
    }
    due::ready(scope.rollout, &needs, scope.entries(node)).is_empty().then(|| {
        let package = (*first).to_owned();
        let parents = scope.rollout.packages.get(*first).map(|package| &package.depends_on);
        let on = parents.and_then(|parents| parents.keys().next()).cloned().unwrap_or_default();
        Verdict::blocked(Reason::DependencyMissing { package, on })
    })
}

/// Lets go of a node that has what is wanted and that a failed visit left cordoned; `None` where
/// there is nothing to let go.
fn let_go<'a>(
    scope: &Scope<'a>,
    node: &'a Node,
    verdict: Option<&Verdict>,
    plan: &mut Plan,
) -> Option<Verdict> {
    let done = verdict.is_some_and(|verdict| verdict.kind == VerdictKind::Done);
    if !done || claims::delays_release(node).is_some() {
        return None;
    }
    let record = scope.record(node)?;
    let here = scope.executors.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
    let action = cleanup::let_go_of_failed(node, &scope.rollout.name, record, here)?;
    plan.actions.push(action);
    Some(Verdict::act(Reason::Releasing))
}

/// Returns the nodes on which this tick does something already: one patch each is enough, and what
/// starts now starts from what was read back.
pub(crate) fn busy_nodes(plan: &Plan) -> BTreeSet<String> {
    let busy = plan.actions.iter().filter_map(|action| match action {
        Action::PatchNode(patch) => Some(patch.node.clone()),
        Action::CleanNode(cleaning) => Some(cleaning.node.clone()),
        Action::Evict(eviction) => Some(eviction.node.clone()),
        Action::CreateExecutor(executor) => Some(executor.visit.node.clone()),
        Action::CreateSnapshot(_)
        | Action::DeleteSnapshot(_)
        | Action::WriteStatus(_)
        | Action::WriteNodeMetadata(_)
        | Action::DeleteExecutors { .. }
        | Action::PatchTaints(_)
        | Action::SetFinalizer(_)
        | Action::DeleteUpstreamWork { .. }
        | Action::DeleteExecutor { .. } => None,
    });
    busy.collect()
}

/// Records on a node without a visit what runs nothing, and needs no turn. Returns whether there is
/// anything to record, now or once its snapshot exists.
fn settle<'a>(
    scope: &Scope<'a>,
    node: &'a Node,
    standings: &[Standing<'_>],
    patched: &BTreeSet<String>,
    plan: &mut Plan,
) -> bool {
    let step = |standing: &Standing<'_>| standing.step(Seen::Untouched);
    let entries = due::settled(scope, node, scope.entries(node), standings, step);
    // Another rollout that changes the node, or is about to, goes first.
    let busy = patched.contains(&node.name) || working_rollout(scope.input, node).is_some();
    if let Some(entries) = entries.filter(|_| !busy) {
        let patch = NodePatch { entries: Some(entries), ..scope.progress(node) };
        plan.actions.push(Action::PatchNode(patch));
    }
    standings.iter().any(|standing| matches!(step(standing), Step::Adopt | Step::Remove))
}

/// Makes the snapshots that picks and visits will name, before anything names them.
fn create_snapshots(scope: &Scope<'_>, plan: &mut Plan) {
    for package in scope.rollout.packages.values() {
        let name = scope.snapshot_name(package);
        if !scope.input.observed.snapshots.contains_key(name) && is_named(scope, package) {
            plan.actions.push(Action::CreateSnapshot(SnapshotSpec {
                rollout: scope.rollout.name.clone(),
                package: package.clone(),
            }));
        }
    }
}

/// Returns whether anything will name the wanted package: an install, or the uninstall of an entry
/// in the same version that names no snapshot itself.
pub(crate) fn is_named(scope: &Scope<'_>, package: &Package) -> bool {
    if !package.uninstall.apply && !scope.resource.deleting {
        return true;
    }
    scope.nodes.iter().any(|node| {
        scope.entries(node).get(&package.id()).is_some_and(|entry| {
            let snapshots = &scope.input.observed.snapshots;
            !entry.snapshot.as_ref().is_some_and(|name| snapshots.contains_key(name))
        })
    })
}

fn write_status(
    scope: &Scope<'_>,
    verdicts: &BTreeMap<String, Verdict>,
    memory: Memory,
    plan: &mut Plan,
) {
    let status = status_now(scope, verdicts, memory, plan);
    let upstream = takeover::maps(scope);
    if scope.resource.status.as_ref() != Some(&status) || upstream == UpstreamMaps::Drop {
        let before = scope.resource.status.as_ref();
        let remembered = |compartment: &crate::model::CompartmentStatus| {
            // The nodes say themselves which numbers they have.
            let open = compartment.open_batch.as_ref().map(|open| (open.number, open.order_from));
            (compartment.batch_state.clone(), open)
        };
        let same_batches = before.is_some_and(|before| {
            before.memory.target == status.memory.target
                && before.memory.timings == status.memory.timings
                && before.memory.order_next == status.memory.order_next
                && before.memory.completed == status.memory.completed
                && before.memory.compartments.values().map(remembered).eq(status
                    .memory
                    .compartments
                    .values()
                    .map(remembered))
        });
        let same_word = before.is_some_and(|before| before.word == status.word);
        plan.actions.push(Action::WriteStatus(StatusWrite {
            rollout: scope.rollout.name.clone(),
            resource_version: scope.resource.resource_version.clone(),
            status: status.clone(),
            upstream,
            urgency: if same_batches && same_word { Urgency::Routine } else { Urgency::Urgent },
        }));
    }
    plan.statuses.insert(scope.rollout.name.clone(), status);
}

/// Returns whether somebody else's mark keeps the node cordoned (upstream contract B.7).
pub(crate) fn has_other_owner(node: &Node, rollout: &str) -> bool {
    let marked = node.cordons.iter().any(|mark| match mark {
        CordonMark::Rollout(name) => name != rollout,
        CordonMark::RuntimeRequired => true,
    });
    marked || claims::keeps_cordon(node)
}
