//! Which compartment a node is in, and how that is paced (upstream contract B.10).
//!
//! In: a rollout with its policy and its nodes. Out: every compartment with its nodes. Must never:
//! put a node into two.

use std::collections::BTreeMap;

use super::pace::Pacing;
use super::select::Scope;
use super::{count, repair};
use crate::model::{Budget, CompartmentStatus, DEFAULT_COMPARTMENT, Growth, Node, Pace, Policy};

/// A compartment of a rollout.
pub(crate) struct Compartment<'a> {
    /// Its name.
    pub name: String,
    /// How it is paced.
    pub pacing: Pacing,
    /// Its nodes, oldest first.
    pub nodes: Vec<&'a Node>,
    /// Those of them that may be picked, in the same order.
    pub candidates: Vec<&'a Node>,
    /// It goes on. One that its policy knows no more lives until its open batch is judged; while
    /// the policy is not there, nobody says which are known, and none is forgotten.
    pub known: bool,
}

/// Returns the compartments of a rollout, by name; each selected node is in exactly one.
///
/// `candidates` are nodes of the rollout in its order; `remembered` are the compartments of the
/// status.
pub(crate) fn of<'a>(
    scope: &Scope<'a>,
    candidates: &[&'a Node],
    remembered: &BTreeMap<String, CompartmentStatus>,
) -> Vec<Compartment<'a>> {
    let policy = scope.policy();
    let mut nodes: BTreeMap<&str, Members<'a>> = BTreeMap::new();
    nodes.insert(DEFAULT_COMPARTMENT, Members::default());
    let chosen = policy.map(|policy| Choice::new(policy, &scope.nodes));
    for compartment in policy.into_iter().flat_map(|policy| &policy.compartments) {
        nodes.insert(&compartment.name, Members::default());
    }
    let mut candidates = candidates.iter().peekable();
    for &node in &scope.nodes {
        let name = chosen.as_ref().map_or(DEFAULT_COMPARTMENT, |choice| choice.of(node));
        let members = nodes.entry(name).or_default();
        members.all.push(node);
        members.candidates.extend(candidates.next_if(|next| std::ptr::eq(**next, node)));
    }
    let blind = scope.rollout.policy.is_some() && policy.is_none();
    let left = remembered.iter().filter(|(name, status)| {
        (blind || status.open_batch.is_some()) && !nodes.contains_key(name.as_str())
    });
    let left: Vec<&str> = left.map(|(name, _)| name.as_str()).collect();
    let fallback = policy.map_or_else(|| without_policy(scope), |policy| policy.fallback);
    let pace_of = |name: &str| {
        let compartments = policy.into_iter().flat_map(|policy| &policy.compartments);
        let mut own = compartments.filter(|compartment| compartment.name == name);
        own.next().map_or(fallback, |compartment| compartment.pace)
    };
    let known = nodes.into_iter().map(|(name, nodes)| (name, nodes, true));
    let gone = left.into_iter().map(|name| (name, Members::default(), blind));
    known
        .chain(gone)
        .map(|(name, nodes, known)| Compartment {
            name: name.to_owned(),
            pacing: Pacing {
                pace: pace_of(name),
                nodes: count(nodes.all.iter().filter(|node| !is_in_repair(scope, node)).count()),
                stop_after: scope.input.floor.stop_after,
            },
            nodes: nodes.all,
            candidates: nodes.candidates,
            known,
        })
        .collect()
}

/// The nodes of a compartment.
#[derive(Default)]
struct Members<'a> {
    all: Vec<&'a Node>,
    candidates: Vec<&'a Node>,
}

fn is_in_repair(scope: &Scope<'_>, node: &Node) -> bool {
    repair::since(scope.input, node).is_some()
}

/// Returns the pace of a rollout without a policy: batches of the ceiling's size.
fn without_policy(scope: &Scope<'_>) -> Pace {
    let floor = Budget::Percent(scope.input.floor.max_disturbed_percent);
    // A policy that is gone while its resource is deleted: nobody is left to make it again.
    let gone = scope.resource.deleting && scope.rollout.policy.is_some();
    let budget = if gone { Budget::Count(1) } else { scope.rollout.budget.unwrap_or(floor) };
    let budget = scope.input.floor.budget(budget);
    Pace { budget, strategy: None }
}

/// The compartments of a policy, the most cautious first.
struct Choice<'p> {
    order: Vec<&'p crate::model::Compartment>,
}

impl<'p> Choice<'p> {
    /// Sorts by strategy (fixed, linear, exponential, none), then by the smaller ceiling over all
    /// nodes that the selector matches, then by name.
    fn new(policy: &'p Policy, nodes: &[&Node]) -> Self {
        let mut order: Vec<&crate::model::Compartment> = policy.compartments.iter().collect();
        order.sort_by_cached_key(|compartment| {
            let matching = nodes.iter().filter(|node| compartment.selects(&node.labels));
            let ceiling = compartment.pace.budget.ceiling(count(matching.count()).max(1));
            (rank(compartment.pace), ceiling, compartment.name.clone())
        });
        Self { order }
    }

    fn of(&self, node: &Node) -> &'p str {
        let mut order = self.order.iter();
        let first = order.find(|compartment| compartment.selects(&node.labels));
        first.map_or(DEFAULT_COMPARTMENT, |compartment| compartment.name.as_str())
    }
}

fn rank(pace: Pace) -> u32 {
    match pace.strategy.map(|strategy| strategy.growth) {
        Some(Growth::Fixed) => 0,
        Some(Growth::Linear(_)) => 1,
        Some(Growth::Exponential(_)) => 2,
        None => 3,
    }
}
