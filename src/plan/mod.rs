//! The decision: a pure function from what is wanted and what is seen to what to do next.
//!
//! In: an [`Input`], time included. Out: a [`Plan`]: actions with preconditions, a verdict with a
//! reason for every node, the status to show, and when to look again. Level-triggered: every call
//! starts from the world as it is, so a crash between any two writes is nothing special.
//! Never here: the clock, randomness, the environment, logging, async.
//!
//! One file per question: what is due (`due`), who may be picked (`select`), how many (`batch`, in
//! `compartments`, by the arithmetic of `pace`, with one node at first: `first_use`), what is to
//! come (`outlook`), what happens on a node next (`visit`, by the table in `lifecycle`), what ends
//! its visit early (`leave`, `deletion`), what keeps it from happening (`drain`, `pull`), who else
//! works there (`claims`), which taints it has (`taints`), what a reboot took away (`reapply`),
//! whether its GPUs are back (`gpus`), which nodes are in repair (`repair`) or were let go of by a
//! person (`forgotten`), what nodes get that join what was stopped (`joiners`), what is new to the
//! cluster (`first_use`), which resources cannot be read (`invalid`), what to show (`status`), what
//! upstream's operator left (`takeover`), what is left over (`cleanup`); and a second opinion that
//! knows none of it (`audit`).
#![warn(clippy::wildcard_enum_match_arm)]

mod audit;
mod batch;
mod claims;
mod cleanup;
mod compartments;
mod conditions;
mod deletion;
mod drain;
mod due;
mod first_use;
mod forgotten;
mod gpus;
mod invalid;
mod joiners;
mod leave;
pub mod lifecycle;
mod limits;
mod names;
mod outlook;
pub mod pace;
mod pick;
mod protect;
mod pull;
mod reapply;
mod repair;
mod rollout;
mod select;
mod status;
mod taints;
mod takeover;
mod visit;
pub mod world;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::model::{Executor, Group, Input, Plan, Rollout, Verdict, VerdictKind};

use joiners::Earlier;
use select::Scope;

pub use audit::{Breach, Invariant, audit, freeze};
pub use names::Names;

/// Decides what to do next, and says for every node why not more.
pub fn plan(input: &Input) -> Plan {
    plan_with(input, &mut Names::default())
}

/// Decides the same, with names that an earlier call worked out.
pub fn plan_with(input: &Input, names: &mut Names) -> Plan {
    names.learn(&input.desired);
    let names = &*names;
    let mut plan = Plan::default();
    let mut done = Done::default();
    let executors = by_node(input);
    let mut order: Vec<&Rollout> = input.desired.rollouts.values().collect();
    order.sort_by_key(|rollout| (rollout.priority, rollout.name.as_str()));
    for rollout in order {
        let Some(resource) = input.observed.resources.get(&rollout.name) else { continue };
        let Some(named) = names.of(&rollout.name) else { continue };
        let scope = Scope::new(input, rollout, resource, named, &executors);
        let earlier = Earlier::of(input, rollout, resource, named);
        let earlier = earlier.scopes(input, resource, &executors);
        rollout::plan_rollout(&scope, &earlier, &done, &mut plan);
        done.learn(&rollout.name, &plan);
    }
    deletion::leave_unreadable(input, &mut plan);
    invalid::tell(input, &mut plan);
    cleanup::plan_cleanup(input, names, &mut plan);
    taints::plan_taints(input, &done, &mut plan);
    plan
}

fn by_node(input: &Input) -> BTreeMap<&str, Vec<&Executor>> {
    let mut executors: BTreeMap<&str, Vec<&Executor>> = BTreeMap::new();
    // Pulls belong to no visit and touch nothing: `pull` alone looks at them.
    let all = input.observed.executors.values();
    for executor in all.filter(|executor| executor.group != Group::Pull) {
        executors.entry(executor.visit.node.as_str()).or_default().push(executor);
    }
    executors
}

/// Where earlier rollouts are complete: the later ones of this tick ask it.
#[derive(Debug, Default)]
pub(crate) struct Done {
    nodes: BTreeMap<String, BTreeSet<String>>,
    everywhere: BTreeSet<String>,
}

impl Done {
    fn learn(&mut self, rollout: &str, plan: &Plan) {
        let verdicts = plan.verdicts.get(rollout);
        let complete: BTreeSet<String> = verdicts
            .into_iter()
            .flatten()
            .filter(|(_, verdict)| verdict.kind == VerdictKind::Done)
            .map(|(node, _)| node.clone())
            .collect();
        if verdicts.is_none_or(|verdicts| verdicts.values().all(Verdict::is_through)) {
            self.everywhere.insert(rollout.to_owned());
        }
        self.nodes.insert(rollout.to_owned(), complete);
    }

    /// Returns whether `rollout` is complete on `node`.
    pub(crate) fn on(&self, rollout: &str, node: &str) -> bool {
        self.nodes.get(rollout).is_some_and(|nodes| nodes.contains(node))
    }

    /// Returns whether `rollout` is complete on every node it selects, those in repair aside.
    pub(crate) fn everywhere(&self, rollout: &str) -> bool {
        self.everywhere.contains(rollout)
    }
}

/// Makes the plan wake up at `at` at the latest.
pub(crate) fn wake(plan: &mut Plan, at: Timestamp) {
    plan.wake_at = Some(plan.wake_at.map_or(at, |earlier| earlier.min(at)));
}

/// Returns how many there are; a fleet has fewer nodes and pods than this can tell.
pub(crate) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
