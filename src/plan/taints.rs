//! Taints: which a rollout tolerates, and the one that keeps workloads off until all is done.
//!
//! The runtime-required taint (upstream contract B.12): put on nodes that join where a rollout
//! asks for it, and taken off, with every taint that means the same, once each runtime-required
//! rollout that selects the node is complete there. Must never touch a taint of anybody else.

use k8s_openapi::api::core::v1::Toleration;

use super::{Done, reapply};
use crate::model::{
    Action, CordonMark, Input, Node, NodeRules, Plan, Reason, Resource, Rollout, Taint, TaintPatch,
    Verdict,
};

/// Taint of a cordon; executors and the selection tolerate it (upstream contract B.8).
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Taints that repeat what the Ready condition says, some seconds late.
const NOT_READY: &[&str] = &["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// cluster-autoscaler considers the node for removal: every drained node gets it, also by us, and
/// it is no decision yet.
const REMOVAL_CANDIDATE: &str = "DeletionCandidateOfClusterAutoscaler";

/// Prefix of taints that follow a node's state; none of them says whose node it is.
const STATE_PREFIX: &str = "node.kubernetes.io/";

/// Returns the first taint that keeps the rollout off a node.
///
/// Differs from upstream: the taints of a node that is not ready are left to the Ready condition,
/// and a mere candidate for removal is still a node.
pub(crate) fn untolerated<'n>(
    rollout: &Rollout,
    rules: &NodeRules,
    node: &'n Node,
) -> Option<&'n Taint> {
    node.taints.iter().find(|taint| !is_tolerated(rollout, rules, taint))
}

/// Returns the taint that ends a visit: one that says that the node is meant for others now, and
/// not one that follows its state, such as memory pressure.
pub(crate) fn expelling<'n>(
    rollout: &Rollout,
    rules: &NodeRules,
    node: &'n Node,
) -> Option<&'n Taint> {
    let lasting = |taint: &&Taint| !taint.key.starts_with(STATE_PREFIX);
    node.taints.iter().filter(lasting).find(|taint| !is_tolerated(rollout, rules, taint))
}

/// Returns whether the runtime-required taint keeps the rollout off.
pub(crate) fn is_kept_off_at_startup(rollout: &Rollout, rules: &NodeRules, node: &Node) -> bool {
    recognised(rules, node).any(|taint| !is_tolerated(rollout, rules, taint))
}

/// Returns that the rollout is kept off by this taint.
pub(crate) fn not_tolerated(taint: &Taint) -> Verdict {
    let taint = format!("{}={}:{:?}", taint.key, taint.value, taint.effect);
    Verdict::blocked(Reason::TaintNotTolerated { taint })
}

fn is_tolerated(rollout: &Rollout, rules: &NodeRules, taint: &Taint) -> bool {
    let key = taint.key.as_str();
    key == UNSCHEDULABLE
        || key == REMOVAL_CANDIDATE
        || NOT_READY.contains(&key)
        || (rollout.runtime_required && rules.is_runtime_taint(taint))
        || rollout.tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// Returns whether a toleration matches, by the rules of Kubernetes' scheduler: an empty operator
/// is `Equal`, and an empty key matches every taint, with `Exists` only.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let effect_matches = effect.is_empty() || effect == format!("{:?}", taint.effect);
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    let key_matches = if key.is_empty() { exists } else { key == taint.key };
    let value_matches = exists || toleration.value.as_deref().unwrap_or_default() == taint.value;
    effect_matches && key_matches && value_matches
}

/// Returns what the node waits for before anything is begun on it, by any rollout: its taint, or
/// the end of a mark that would be taken for an owner of our cordon.
pub(crate) fn pending(input: &Input, node: &Node) -> Option<Verdict> {
    if is_mark_stale(node) && first_selecting(input, node).is_some() {
        return Some(Verdict::act(Reason::PreparingBatch));
    }
    owed(input, node).map(|_| {
        let taint = input.rules.runtime_taint.key.clone();
        Verdict::wait(Reason::TaintPending { taint })
    })
}

/// Plans every change of taints, on nodes that are not changed otherwise in this tick.
pub(crate) fn plan_taints(input: &Input, done: &Done, plan: &mut Plan) {
    let busy = super::rollout::busy_nodes(plan);
    for node in input.observed.nodes.values() {
        if node.deleting || busy.contains(&node.name) {
            continue;
        }
        let patch = taint(input, node)
            .or_else(|| open(input, node, done))
            .or_else(|| drop_stale_mark(input, node));
        plan.actions.extend(patch.map(Action::PatchTaints));
    }
}

/// Rollouts that a node's runtime-required taint waits for. One that is disabled, paused or being
/// deleted is still one: the taint says that the node is not what it ought to be.
fn gates<'a>(
    input: &'a Input,
    node: &'a Node,
) -> impl Iterator<Item = (&'a Rollout, &'a Resource)> {
    input.desired.rollouts.values().filter(|rollout| rollout.runtime_required).filter_map(
        |rollout| {
            let resource = input.observed.resources.get(&rollout.name)?;
            rollout.selects(&node.labels).then_some((rollout, resource))
        },
    )
}

/// A taint that must be put on a node first.
struct Owed<'a> {
    rollout: &'a Rollout,
    /// The node has just joined: it is marked, so that it is never taken for a new one again.
    joins: bool,
}

/// Returns the rollout for which a node must be tainted: one that has joined, or that was rebooted
/// with [`NodeRules::reapply_on_reboot`] and runs workloads without what a boot takes away.
fn owed<'a>(input: &'a Input, node: &'a Node) -> Option<Owed<'a>> {
    if !node.is_new && !input.rules.reapply_on_reboot {
        return None;
    }
    if node.ignored || node.deleting || recognised(&input.rules, node).next().is_some() {
        return None;
    }
    gates(input, node).find_map(|(rollout, resource)| {
        let asks = rollout.auto_taint_new_nodes && !resource.disabled && !resource.deleting;
        let rebooted = || reapply::is_due(input, rollout, resource, node);
        (asks && (node.is_new || rebooted())).then_some(Owed { rollout, joins: node.is_new })
    })
}

fn taint(input: &Input, node: &Node) -> Option<TaintPatch> {
    let Owed { rollout, joins } = owed(input, node)?;
    let mut patch = unchanged(node, rollout);
    patch.after.push(input.rules.runtime_taint.clone());
    patch.auto_taint_mark = joins.then(|| input.rules.runtime_taint.key.clone());
    Some(patch)
}

/// Opens a node for workloads once everything that is required for it is there.
///
/// Claims of other operators do not hold it up: a driver upgrade may wait for pods that the taint
/// keeps off, and would then wait for ever.
fn open(input: &Input, node: &Node, done: &Done) -> Option<TaintPatch> {
    recognised(&input.rules, node).next()?;
    if node.ignored || node.hold.is_some() {
        return None;
    }
    let mut gates = gates(input, node).peekable();
    let (first, _) = *gates.peek()?;
    let mut cordon = false;
    for (rollout, resource) in gates {
        // One that is being deleted is done with leaving the node, not with making it ready.
        if resource.deleting || !done.on(&rollout.name, &node.name) {
            return None;
        }
        cordon |= rollout.runtime_required_cordon_after;
    }
    let mut patch = unchanged(node, first);
    patch.after.retain(|taint| !input.rules.is_runtime_taint(taint));
    patch.cordon_after = if cordon { Some(true) } else { is_mark_stale(node).then_some(false) };
    Some(patch)
}

/// Drops the mark of a cordon that somebody has lifted since (upstream contract B.12).
fn drop_stale_mark(input: &Input, node: &Node) -> Option<TaintPatch> {
    if !is_mark_stale(node) {
        return None;
    }
    let mut patch = unchanged(node, first_selecting(input, node)?);
    patch.cordon_after = Some(false);
    Some(patch)
}

fn is_mark_stale(node: &Node) -> bool {
    !node.unschedulable && node.cordons.contains(&CordonMark::RuntimeRequired)
}

/// Any rollout that is about the node may drop a stale mark; where there is none it hurts nobody.
fn first_selecting<'a>(input: &'a Input, node: &Node) -> Option<&'a Rollout> {
    input.desired.rollouts.values().find(|rollout| {
        input.observed.resources.contains_key(&rollout.name) && rollout.selects(&node.labels)
    })
}

fn recognised<'n>(rules: &NodeRules, node: &'n Node) -> impl Iterator<Item = &'n Taint> {
    node.taints.iter().filter(|taint| rules.is_runtime_taint(taint))
}

fn unchanged(node: &Node, rollout: &Rollout) -> TaintPatch {
    TaintPatch {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        rollout: rollout.name.clone(),
        before: node.taints.clone(),
        after: node.taints.clone(),
        auto_taint_mark: None,
        cordon_after: None,
    }
}
