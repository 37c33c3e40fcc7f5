//! Which compartment a node is in, and how that is paced (upstream contract B.10).
//!
//! In: a rollout with its policy and its nodes. Out: every compartment with its nodes. Must never:
//! put a node into two.

use std::collections::BTreeMap;

use super::pace::Pacing;
use super::select::Scope;
use super::{count, repair};
use crate::model::{
    Budget, CompartmentStatus, DEFAULT_COMPARTMENT, Growth, Node, Pace, Policy, Record, Verdict,
    VerdictKind,
};

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
    /// Those of them that have a record of the rollout, in the same order.
    pub records: Vec<(&'a Node, &'a Record)>,
    /// It goes on. One that its policy knows no more lives until its open batch is judged; while
    /// the policy is not there, nobody says which are known, and none is forgotten.
    pub known: bool,
}

/// The nodes of a compartment with what is said of each, oldest first.
///
/// Much is asked of them, and to look a node up among 10,000 takes longer than any of it.
pub(crate) struct Told<'v, 'a>(Vec<(&'a Node, Option<&'v Verdict>)>);

impl<'a> Compartment<'a> {
    /// Looks the verdicts on its nodes up.
    pub(crate) fn told<'v>(&self, verdicts: &'v BTreeMap<String, Verdict>) -> Told<'v, 'a> {
        Told(self.nodes.iter().map(|node| (*node, verdicts.get(&node.name))).collect())
    }
}

impl<'v, 'a> Told<'v, 'a> {
    /// Returns each node with its verdict, where it has one.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'a Node, Option<&'v Verdict>)> {
        self.0.iter().copied()
    }

    /// Returns how many nodes are done.
    pub(crate) fn done(&self) -> u32 {
        count(self.all().filter(|(_, verdict)| verdict.is_some_and(is_done)).count())
    }

    /// Returns what is said of a node.
    pub(crate) fn of(&self, node: &Node) -> Option<&'v Verdict> {
        self.all().find(|(other, _)| std::ptr::eq(*other, node))?.1
    }
}

pub(crate) fn is_done(verdict: &Verdict) -> bool {
    verdict.kind == VerdictKind::Done
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
    for compartment in policy.into_iter().flat_map(|policy| &policy.compartments) {
        nodes.insert(&compartment.name, Members::default());
    }
    let mut candidates = candidates.iter().peekable();
    let mut records = scope.records.iter().peekable();
    for (&node, &name) in scope.nodes.iter().zip(&scope.compartments) {
        let members = nodes.entry(name).or_default();
        members.all.push(node);
        members.candidates.extend(candidates.next_if(|next| std::ptr::eq(**next, node)));
        members.records.extend(records.next_if(|(next, _)| std::ptr::eq(*next, node)));
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
            records: nodes.records,
            known,
        })
        .collect()
}

/// The nodes of a compartment.
#[derive(Default)]
struct Members<'a> {
    all: Vec<&'a Node>,
    candidates: Vec<&'a Node>,
    records: Vec<(&'a Node, &'a Record)>,
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

/// Which compartment of a policy each node is in: the most cautious of those that select it, by
/// strategy (fixed, linear, exponential, none), then by the smaller ceiling over all nodes that the
/// selector matches, then by name.
pub(crate) struct Choice<'p> {
    all: &'p [crate::model::Compartment],
    /// How many nodes each selects.
    sizes: Vec<usize>,
    /// Which select each node, by number: mostly one, so that all nodes have one list.
    selecting: Vec<usize>,
    /// Where the part of each node ends.
    ends: Vec<usize>,
}

impl<'p> Choice<'p> {
    pub(crate) fn new(policy: Option<&'p Policy>) -> Self {
        let all = policy.map_or(&[][..], |policy| &policy.compartments);
        Self { all, sizes: vec![0; all.len()], selecting: Vec::new(), ends: Vec::new() }
    }

    /// Takes in the next node.
    pub(crate) fn add(&mut self, node: &Node) {
        for (number, _) in (0..).zip(self.all).filter(|(_, it)| it.selects(&node.labels)) {
            self.sizes[number] += 1;
            self.selecting.push(number);
        }
        self.ends.push(self.selecting.len());
    }

    /// Returns the compartment of each node, in the order in which they came.
    pub(crate) fn made(&self) -> impl Iterator<Item = &'p str> {
        let caution = self.all.iter().zip(&self.sizes).map(|(it, size)| {
            let ceiling = it.pace.budget.ceiling(count(*size).max(1));
            (rank(it.pace), ceiling, it.name.as_str())
        });
        let caution: Vec<_> = caution.collect();
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let here = self.selecting[begin..*end].iter().map(|number| caution[*number]);
            begin = *end;
            here.min().map_or(DEFAULT_COMPARTMENT, |(.., name)| name)
        })
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
