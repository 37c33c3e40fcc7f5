//! Which nodes a rollout is about, and what keeps a node from being picked.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::compartments::Choice;
use super::deletion;
use super::due::{self, Needs, Standing};
use super::names::Named;
use super::visit::DRAIN_TIMED_OUT;
use super::{Done, claims, leave, reapply, repair, taints};
use crate::model::{
    Breadth, CordonMark, Entries, Executor, Group, Guards, Input, Node, NodePatch, NodeRollout,
    Opening, Outcome, Package, PatchKind, Policy, Reason, Record, Resource, Rollout, Sequencing,
    Stage, State, Verdict, approval,
};

/// One rollout with everything the questions about it need.
pub(crate) struct Scope<'a> {
    pub input: &'a Input,
    pub rollout: &'a Rollout,
    pub resource: &'a Resource,
    pub target: String,
    named: &'a Named,
    /// Selected nodes, oldest first.
    pub nodes: Vec<&'a Node>,
    /// The compartment of each, in the same order.
    pub compartments: Vec<&'a str>,
    /// Those of them that have a record of it, in the same order.
    pub records: Vec<(&'a Node, &'a Record)>,
    /// Nodes that have a record of it and are not selected, by name.
    pub elsewhere: Vec<(&'a Node, &'a Record)>,
    /// Order numbers of the records, with their places among these.
    orders: Vec<(u32, usize)>,
    /// Executors of all rollouts, by node.
    pub executors: &'a BTreeMap<&'a str, Vec<&'a Executor>>,
    /// Rollouts that some node keeps waiting for us, see [`waits_for_us`].
    awaited_by: BTreeSet<&'a str>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(
        input: &'a Input,
        rollout: &'a Rollout,
        resource: &'a Resource,
        named: &'a Named,
        executors: &'a BTreeMap<&'a str, Vec<&'a Executor>>,
    ) -> Self {
        // What is asked of every node is asked in one go: a large fleet fits into no cache.
        let (mut selected, mut elsewhere) = (Vec::new(), Vec::new());
        let mut choice = Choice::new(policy_of(input, rollout));
        for node in input.observed.nodes.values() {
            let record = node.record(&rollout.name, &resource.uid);
            if rollout.selects(&node.labels) {
                selected.push((node.created, node, record));
                choice.add(node);
            } else {
                elsewhere.extend(record.map(|record| (node, record)));
            }
        }
        let mut selected: Vec<_> = selected.into_iter().zip(choice.made()).collect();
        // They come by name, and those of the same age stay so.
        selected.sort_by_key(|((created, ..), _)| *created);
        let nodes: Vec<&Node> = selected.iter().map(|((_, node, _), _)| *node).collect();
        let compartments = selected.iter().map(|(_, compartment)| *compartment).collect();
        let records =
            selected.into_iter().filter_map(|((_, node, record), _)| Some((node, record?)));
        let records: Vec<(&Node, &Record)> = records.collect();
        let orders = (0..).zip(&records).map(|(place, (_, record))| (record.order, place));
        let mut orders: Vec<(u32, usize)> = orders.collect();
        orders.sort_unstable();
        let target = deletion::target(rollout, resource, named);
        let awaited_by = awaited_by(input, rollout, &nodes);
        Self {
            input,
            rollout,
            resource,
            target,
            named,
            nodes,
            compartments,
            records,
            elsewhere,
            orders,
            executors,
            awaited_by,
        }
    }

    /// Returns the records with one of these order numbers, oldest nodes first.
    pub(crate) fn records_with(&self, orders: Range<u32>) -> Vec<(&'a Node, &'a Record)> {
        let before = |bound: u32| self.orders.partition_point(|(order, _)| *order < bound);
        let places = &self.orders[before(orders.start)..before(orders.end)];
        let mut places: Vec<usize> = places.iter().map(|(_, place)| *place).collect();
        places.sort_unstable();
        places.into_iter().map(|place| self.records[place]).collect()
    }

    pub(crate) fn rollout_state(&self, node: &'a Node) -> Option<&'a NodeRollout> {
        node.rollouts.get(&self.rollout.name).map(|state| &**state)
    }

    /// Returns a patch of our annotations on the node as they were read, which changes nothing yet.
    pub(crate) fn progress(&self, node: &'a Node) -> NodePatch {
        let state = self.rollout_state(node);
        let kind = PatchKind::Progress {
            record_text: state.and_then(|state| state.record_text.clone()),
            entries_text: state.and_then(|state| state.entries_text.clone()),
        };
        NodePatch::new(node, &self.rollout.name, kind)
    }

    pub(crate) fn record(&self, node: &'a Node) -> Option<&'a Record> {
        node.record(&self.rollout.name, &self.resource.uid)
    }

    pub(crate) fn open_record(&self, node: &'a Node) -> Option<&'a Record> {
        self.record(node).filter(|record| record.is_open())
    }

    /// Returns what is on the host, as the node says: nothing, where it speaks of another host.
    pub(crate) fn entries(&self, node: &'a Node) -> &'a Entries {
        entries_of(node, &self.rollout.name)
    }

    pub(crate) fn needs(&self, node: &'a Node) -> Needs<'a> {
        let again = reapply::needs(self, node);
        again.unwrap_or_else(|| due::needs(self, self.entries(node), self.record(node)))
    }

    /// Returns the same, of a node whose `standings` are known.
    pub(crate) fn needs_of(&self, node: &'a Node, standings: &[Standing<'a>]) -> Needs<'a> {
        reapply::needs(self, node).unwrap_or_else(|| due::needs_of(standings))
    }

    /// Returns whether a wanted package is among them.
    pub(crate) fn is_due(&self, node: &'a Node, package: &'a Package) -> bool {
        if reapply::is_due(self.input, self.rollout, self.resource, node) {
            return self.needs(node).contains_key(package.name.as_str());
        }
        due::is_due(self, self.entries(node), self.record(node), package)
    }

    /// Returns the name of the snapshot of a wanted package.
    pub(crate) fn snapshot_name(&self, package: &Package) -> &str {
        self.named.snapshots.get(&package.name).map_or("", String::as_str)
    }

    /// Returns whether somebody else cordoned the node: then it stays so when we let it go.
    ///
    /// A mark of any rollout says that the cordon is one of ours, also after a visit that ended
    /// erroring: owners are a set, and the last one uncordons (upstream contract B.7).
    pub(crate) fn is_foreign_cordon(&self, node: &Node) -> bool {
        node.unschedulable && node.cordons.is_empty()
    }

    /// Returns whether the node counts against the ceiling (design §7).
    pub(crate) fn is_disturbed(&self, node: &Node) -> bool {
        let down = node.unschedulable
            || !node.ready
            || !node.claims.is_empty()
            || working_rollout(self.input, node).is_some();
        down && repair::since(self.input, node).is_none()
    }

    /// Returns the policy that paces the rollout, if it names one that is there.
    pub(crate) fn policy(&self) -> Option<&'a Policy> {
        policy_of(self.input, self.rollout)
    }
}

fn policy_of<'a>(input: &'a Input, rollout: &Rollout) -> Option<&'a Policy> {
    input.desired.policies.get(rollout.policy.as_ref()?)
}

fn entries_of<'a>(node: &'a Node, rollout: &str) -> &'a Entries {
    const NONE: &Entries = &Entries::new();
    let Some(state) = node.rollouts.get(rollout) else { return NONE };
    let record = state.record.as_ref();
    let void = record.is_some_and(|record| leave::replaced(record, node).is_some());
    if void { NONE } else { &state.entries }
}

/// Returns the rollout that is at work on the node.
///
/// Also one whose resource is gone, or is another of that name: the node is let go first, so that
/// its cordon is not taken for somebody else's.
pub(crate) fn working_rollout<'a>(input: &Input, node: &'a Node) -> Option<&'a str> {
    let working = node.rollouts.iter().find(|(name, state)| {
        let Some(record) = &state.record else { return false };
        let resource = input.observed.resources.get(*name);
        let live = resource.is_some_and(|resource| resource.uid == record.cr_uid);
        let stray_hold = !live && node.is_left_cordoned_by(name, record);
        record.node_uid == node.uid && (record.is_open() || stray_hold)
    });
    working.map(|(name, _)| name.as_str())
}

/// Returns why nothing new may begin for the rollout at all.
pub(crate) fn rollout_hold(scope: &Scope<'_>) -> Option<Verdict> {
    let Scope { input, rollout, resource, .. } = scope;
    if let Some(halt) = &input.halt {
        return Some(Verdict::blocked(halt.clone()));
    }
    if resource.deleting {
        return deletion::hold(scope);
    }
    if resource.disabled {
        return Some(Verdict::blocked(Reason::Disabled));
    }
    if resource.paused {
        return Some(Verdict::blocked(Reason::Paused));
    }
    if let Some(policy) = rollout.policy.clone().filter(|_| scope.policy().is_none()) {
        return Some(Verdict::blocked(Reason::PolicyMissing { policy }));
    }
    if rollout.budget.is_some_and(|budget| input.floor.budget(budget).is_zero()) {
        return Some(Verdict::blocked(Reason::BudgetZero));
    }
    if let Some(breadth) = unapproved(scope) {
        return Some(Verdict::blocked(Reason::SelectsEverything { breadth }));
    }
    match input.opening.get(&rollout.name) {
        Some(Opening::Held(reason)) => Some(Verdict::wait(reason.clone())),
        Some(Opening::Allowed) | None => None,
    }
}

/// Returns what is too broad about the selector, unless a person has approved it.
fn unapproved(scope: &Scope<'_>) -> Option<Breadth> {
    let Scope { input, rollout, resource, .. } = scope;
    let approved = input.approvals.get(&rollout.name);
    if input.floor.guards == Guards::Upstream
        || approved.is_some_and(|text| *text == approval(&resource.uid, &rollout.nodes))
    {
        return None;
    }
    let nodes = input.observed.nodes.values();
    Breadth::of(&rollout.nodes, nodes.map(|node| (node.name.as_str(), &node.labels)))
}

/// Returns what is wrong with the node itself, also while it is being visited.
pub(crate) fn node_block<'a>(scope: &Scope<'a>, node: &'a Node) -> Option<Verdict> {
    let state = node.rollouts.get(&scope.rollout.name);
    if let Some(why) = state.and_then(|state| state.malformed.clone()) {
        return Some(Verdict::blocked(Reason::MalformedState { why }));
    }
    if node.deleting {
        return Some(Verdict::wait(Reason::NodeDeleting));
    }
    if node.ignored {
        return Some(Verdict::blocked(Reason::Ignored));
    }
    if let Some(since) = repair::since(scope.input, node) {
        return failed_here(scope, node).or(Some(Verdict::wait(Reason::InRepair { since })));
    }
    // A node that failed here, or never came back from its reboot, is a failure for a person to
    // look at, whoever else works on it since.
    if let Some(verdict) = claims::hands_off(node) {
        return failed_here(scope, node).or(Some(verdict));
    }
    if !node.ready {
        let waits = Verdict::wait(Reason::NodeNotReady { since: node.ready_since });
        return failed_here(scope, node).or(Some(waits));
    }
    let taint = taints::untolerated(scope.rollout, &scope.input.rules, node);
    taint.map(taints::not_tolerated)
}

/// Returns why a node that needs work may not be picked now, batches and budget aside.
pub(crate) fn pick_block<'a>(scope: &Scope<'a>, node: &'a Node, done: &Done) -> Option<Verdict> {
    if let Some(verdict) = failed_here(scope, node) {
        return Some(verdict);
    }
    if let Some(rollout) = unfinished_predecessor(scope, node, done) {
        return Some(Verdict::wait(Reason::Predecessor { rollout }));
    }
    if let Some(rollout) = working_rollout(scope.input, node) {
        return Some(Verdict::wait(Reason::OtherRollout { rollout: rollout.to_owned() }));
    }
    interrupting(scope, node).or_else(|| taints::pending(scope.input, node))
}

/// Returns what runs of an interrupt whose visit has ended without it: it may still take down
/// whatever begins beside it.
fn interrupting<'a>(scope: &Scope<'a>, node: &'a Node) -> Option<Verdict> {
    let here = scope.executors.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
    let running = here.iter().find(|executor| {
        executor.group == Group::Interrupt && executor.is_active() && executor.begun
    })?;
    let (package, since) = (running.package.clone(), running.created);
    Some(Verdict::wait(Reason::Running { package, stage: Stage::Interrupt, since }))
}

/// Returns the failure that ended this node's visit to the present target: it is not repeated
/// until the target changes.
fn failed_here<'a>(scope: &Scope<'a>, node: &'a Node) -> Option<Verdict> {
    let record = scope.record(node)?;
    let entries = scope.entries(node);
    if !failure_stands(record, entries, &scope.target) {
        return None;
    }
    let timed_out = record.reason.as_deref() == Some(DRAIN_TIMED_OUT);
    if timed_out && super::drain::may_try_again(scope, node, record) {
        return None;
    }
    let why = record.message.clone().unwrap_or_else(|| "no message was recorded".to_owned());
    let failed = entries.values().find(|entry| {
        let taken_off = matches!(entry.stage, Stage::Uninstall | Stage::UninstallInterrupt);
        let wanted = scope.rollout.package(&entry.id()).is_some();
        // Without an attempt that failed by itself it is the node that did not come back.
        let attempted = entry.restarts.unwrap_or(0) > 0;
        entry.state == State::Erroring && attempted && (wanted || taken_off)
    });
    Some(Verdict::blocked(match (failed, &record.interrupt) {
        (Some(entry), _) => Reason::Failed {
            package: entry.id(),
            stage: entry.stage,
            attempts: u32::try_from(entry.restarts.unwrap_or(0)).unwrap_or(0),
            why,
        },
        (None, Some(interrupt)) => Reason::InterruptFailed { kind: interrupt.kind, why },
        (None, None) => Reason::DrainTimedOut { why },
    }))
}

/// Returns whether a visit to this target failed, and nobody has taken that back.
fn failure_stands(record: &Record, entries: &Entries, target: &str) -> bool {
    if record.outcome != Some(Outcome::Erroring) || record.target != target {
        return false;
    }
    let erroring = entries.values().any(|entry| entry.state == State::Erroring);
    let emptied = entries.is_empty() && !leave::has_lost_its_host(record);
    // A person took the failure out of the node's state: upstream's `reset` and
    // `package rerun`, which know nothing of our record (upstream contract F).
    let taken_out = emptied || (record.reason.as_deref() == Some("Failed") && !erroring);
    !taken_out
}

/// Returns the first earlier rollout that must be done here first (upstream contract B.9).
fn unfinished_predecessor(scope: &Scope<'_>, node: &Node, done: &Done) -> Option<String> {
    let own = (scope.rollout.priority, scope.rollout.name.as_str());
    let earlier = scope.input.desired.rollouts.values().filter(|other| {
        let live = scope.input.observed.resources.get(&other.name);
        (other.priority, other.name.as_str()) < own && live.is_some_and(|live| !live.disabled)
    });
    let mut earlier: Vec<&Rollout> = earlier.collect();
    earlier.sort_by_key(|other| (other.priority, other.name.as_str()));
    let all = earlier.len();
    earlier.retain(|other| !waits_for_us(scope.input, scope.rollout, other, node));
    // What must be complete everywhere may wait, over others, for the one that waits for us.
    let is_awaited = earlier.len() < all;
    // A node that is kept cordoned, as after a failure, is disturbed already: it uses up the
    // earlier rollout's budget until it is mended, so that one may wait for us.
    let keeps = |mark: &CordonMark| match mark {
        CordonMark::Rollout(name) => {
            *name == scope.rollout.name || is_mended_after_us(scope, node, name)
        }
        CordonMark::RuntimeRequired => false,
    };
    let goes_first = is_awaited || (node.unschedulable && node.cordons.iter().any(keeps));
    for other in earlier {
        let awaits_us = scope.awaited_by.contains(other.name.as_str());
        let blocks = match other.sequencing {
            Sequencing::All if !goes_first && !awaits_us => !done.everywhere(&other.name),
            Sequencing::Node | Sequencing::All => {
                other.selects(&node.labels) && !done.on(&other.name, &node.name)
            }
        };
        if blocks {
            return Some(other.name.clone());
        }
        // What comes after one that waits for us waits for that one everywhere.
        if awaits_us && !done.everywhere(&other.name) {
            return None;
        }
    }
    None
}

/// Returns whether a later rollout keeps the node cordoned and would mend it, which it may only
/// once we are complete here. One whose failure stands waits for a person, not for us.
fn is_mended_after_us(scope: &Scope<'_>, node: &Node, keeper: &str) -> bool {
    let Scope { input, rollout, .. } = scope;
    let resource = input.observed.resources.get(keeper).filter(|live| !live.disabled);
    let later = input.desired.rollouts.get(keeper).filter(|later| {
        (rollout.priority, &rollout.name) < (later.priority, &later.name)
            && later.selects(&node.labels)
    });
    let Some(resource) = later.and(resource) else { return false };
    let target = resource.status.as_ref().map_or("", |status| &status.memory.target);
    let stands = |record: &Record| {
        let again = record.reason.as_deref() == Some(DRAIN_TIMED_OUT);
        !again && failure_stands(record, entries_of(node, keeper), target)
    };
    !node.record(keeper, &resource.uid).is_some_and(stands)
}

/// Returns whether an earlier rollout is kept off the node by the very taint that goes only when
/// this one is complete there: to wait for it would be to wait for ever (failures D17).
///
/// Differs from upstream, where the two hold each other up.
fn waits_for_us(input: &Input, ours: &Rollout, other: &Rollout, node: &Node) -> bool {
    let kept_off = || taints::is_kept_off_at_startup(other, &input.rules, node);
    ours.runtime_required && other.selects(&node.labels) && kept_off()
}

/// Returns the rollouts that wait for us on any of our nodes: what must be complete everywhere
/// before we begin anywhere would wait for ever then.
fn awaited_by<'a>(input: &'a Input, ours: &Rollout, nodes: &[&Node]) -> BTreeSet<&'a str> {
    let others = input.desired.rollouts.values().filter(|other| {
        ours.runtime_required
            && other.sequencing == Sequencing::All
            && other.name != ours.name
            && nodes.iter().any(|node| waits_for_us(input, ours, other, node))
    });
    others.map(|other| other.name.as_str()).collect()
}
