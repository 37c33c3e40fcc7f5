//! Policies of a history: how they are drawn and edited, and what people do about batches.
//!
//! Half of the histories are paced by policies; the others are about everything else, and stay what
//! they are whatever is added here.

use fastrand::Rng;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::Selector;
use nodewright::model::{
    BatchState, Budget, Compartment, Group, Growth, Outcome, Pace, Policy, Strategy, VisitRef,
};
use nodewright::plan::world::{End, Fate, World};

use super::draw::stream;
use super::event::Change;
use super::happen::nth;
use super::ledger::Ledger;
use super::paces::Happened;
use super::places;
use super::story::{Broken, Story};

/// Policies of a paced history; a rollout names one of them, or none.
const POLICIES: [&str; 2] = ["graded", "paced"];

/// Compartments that a policy may have.
const COMPARTMENTS: [&str; 4] = ["canary", "edge", "fleet", "spare"];

/// Values of the label that compartments select by; the first ones have more nodes.
const RACKS: [&str; 6] = ["a", "a", "a", "b", "b", "c"];

/// The stream of chance that draws policies, apart from those of the concerns.
const STREAM: u64 = 40;

/// Rounds until a node on which everything fails has given up: its attempts, and one more.
const RUIN_ROUNDS: usize = 6;

/// Longer than any wait between two of the first four attempts.
const RUIN_PAUSE_SECONDS: i64 = 41;

/// Returns whether the history of a seed is paced by policies.
pub fn is_paced(seed: u64) -> bool {
    !seed.is_multiple_of(2)
}

/// Gives the fleet of a seed its policies.
pub fn begin(world: &mut World, seed: u64) {
    let mut rng = stream(seed, STREAM);
    let names: Vec<String> = world.input.observed.nodes.keys().cloned().collect();
    for name in &names {
        let rack = rng.u8(..);
        world.change_node(name, |node| rerack(&mut node.labels, rack));
    }
    for name in POLICIES {
        world.input.desired.policies.insert(name.to_owned(), policy(name, &mut rng));
    }
    if rng.bool() {
        // Its places are few: most batches would have one node.
        world.input.floor.first_use = None;
    }
    for rollout in world.input.desired.rollouts.values_mut() {
        rollout.policy = (rng.u8(..) < 200).then(|| named(rng.u8(..)));
        rollout.budget = rollout.budget.filter(|_| rollout.policy.is_none());
    }
}

/// Returns the name of one of the policies.
pub fn named(which: u8) -> String {
    POLICIES[usize::from(which) % POLICIES.len()].to_owned()
}

/// Labels a node with one of the racks.
pub fn rerack(labels: &mut std::collections::BTreeMap<String, String>, to: u8) {
    let rack = RACKS[usize::from(to) % RACKS.len()];
    labels.insert("rack".to_owned(), rack.to_owned());
}

/// Returns a policy with one to four compartments, or with none.
fn policy(name: &str, rng: &mut Rng) -> Policy {
    let mut policy = Policy {
        name: name.to_owned(),
        fallback: pace(rng),
        compartments: Vec::new(),
        reset: rng.u8(..) < 100,
    };
    for which in 0..rng.u8(0..5) {
        policy.compartments.push(compartment(which, rng));
    }
    policy
}

fn compartment(which: u8, rng: &mut Rng) -> Compartment {
    let name = COMPARTMENTS[usize::from(which) % COMPARTMENTS.len()].to_owned();
    let (key, values): (_, &[&str]) = match rng.u8(0..7) {
        0 => ("rack", &["a"]),
        1 => ("rack", &["b"]),
        2 => ("rack", &["a", "b"]),
        3 => ("rack", &["b", "c"]),
        4 => ("pool", &["gpu"]),
        5 => ("pool", &["cpu"]),
        _ => ("pool", &["gpu", "cpu"]),
    };
    let requirement = LabelSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
    };
    let selector = LabelSelector { match_labels: None, match_expressions: Some(vec![requirement]) };
    let nodes = Selector::try_from(selector).expect("a valid selector");
    Compartment { name, nodes, pace: pace(rng) }
}

fn pace(rng: &mut Rng) -> Pace {
    let budget = match rng.u8(0..16) {
        0 => Budget::Count(0),
        1 => Budget::Count(1),
        2 | 3 => Budget::Count(2),
        4 => Budget::Count(20),
        5 => Budget::Percent(25),
        6..9 => Budget::Percent(50),
        _ => Budget::Percent(100),
    };
    let growth = match rng.u8(0..6) {
        0 => None,
        1 => Some(Growth::Fixed),
        2 | 3 => Some(Growth::Linear(rng.u32(1..3))),
        _ => Some(Growth::Exponential(rng.u32(2..4))),
    };
    let strategy = growth.map(|growth| Strategy {
        growth,
        initial_batch: [1, 1, 2, 3][rng.usize(0..4)],
        batch_threshold: [34, 50, 75, 100][rng.usize(0..4)],
        failure_threshold: [None, Some(1), Some(2), Some(3)][rng.usize(0..4)],
        safety_limit: [30, 50, 80, 100][rng.usize(0..4)],
    });
    Pace { budget, strategy }
}

/// Edits a policy, or takes it away, or makes it anew.
pub fn change(world: &mut World, which: u8, change: Change) {
    let name = named(which);
    let policies = &mut world.input.desired.policies;
    let Some(known) = policies.get_mut(&name) else {
        if let Change::Anew { seed } = change {
            policies.insert(name.clone(), policy(&name, &mut Rng::with_seed(seed.into())));
        }
        return;
    };
    match change {
        Change::Anew { seed } => *known = policy(&name, &mut Rng::with_seed(seed.into())),
        Change::Pace { which, seed } => {
            let pace = pace(&mut Rng::with_seed(seed.into()));
            let places = known.compartments.len() + 1;
            match known.compartments.get_mut(usize::from(which) % places) {
                Some(compartment) => compartment.pace = pace,
                None => known.fallback = pace,
            }
        }
        Change::Add { which, seed } => {
            let fresh = compartment(which, &mut Rng::with_seed(seed.into()));
            known.compartments.retain(|compartment| compartment.name != fresh.name);
            known.compartments.push(fresh);
        }
        Change::Drop { which } => {
            if let Some(at) = usize::from(which).checked_rem(known.compartments.len()) {
                known.compartments.remove(at);
            }
        }
        Change::Reset => known.reset = !known.reset,
        Change::Gone => {
            policies.remove(&name);
        }
    }
}

/// Every policy that is named is there, and lets somebody through.
pub fn mend(world: &mut World) {
    let open = |budget: &mut Budget| {
        if budget.is_zero() {
            *budget = Budget::Count(2);
        }
    };
    for name in POLICIES {
        let there = world.input.desired.policies.entry(name.to_owned());
        let policy = there.or_insert_with(|| super::super::builders::policy(name, 2));
        open(&mut policy.fallback.budget);
        policy.compartments.iter_mut().for_each(|each| open(&mut each.pace.budget));
    }
}

/// `nodewright deployment-policy reset`: counters as in the beginning; an open batch stays.
pub fn reset_batches(world: &mut World, name: &str) {
    world.change_resource(name, |resource| {
        let memory = resource.status.iter_mut().map(|status| &mut status.memory);
        for compartment in memory.flat_map(|memory| memory.compartments.values_mut()) {
            compartment.batch_state = BatchState::default();
        }
    });
}

/// `nodewright retry node/<name>`: the record is closed without its failure.
pub fn retry(world: &mut World, ledger: &mut Ledger, node: &str, rollout: &str) {
    world.change_node(node, |node| {
        let Some(state) = node.rollouts.get_mut(rollout) else { return };
        let Some(record) = &mut state.record else { return };
        ledger.retried.insert((node.uid.clone(), rollout.to_owned(), record.visit));
        record.outcome = Some(Outcome::Released);
        record.reason = None;
        record.message = None;
        state.record_text = serde_json::to_string(record).ok();
    });
}

/// Returns the visits that failed, as node and rollout.
pub fn failed(world: &World) -> Vec<(String, String)> {
    let nodes = world.input.observed.nodes.values();
    let failed = nodes.flat_map(|node| {
        let failed = node.rollouts.iter().filter(|(_, state)| {
            state.record.as_ref().is_some_and(|record| {
                record.outcome == Some(Outcome::Erroring) && record.node_uid == node.uid
            })
        });
        failed.map(|(rollout, _)| (node.name.clone(), rollout.clone()))
    });
    failed.collect()
}

/// Returns the resources whose batches are not as in the beginning, stopped ones only or all.
pub fn begun(world: &World, stopped: bool) -> Vec<String> {
    let resources = world.input.observed.resources.iter();
    let begun = resources.filter(|(_, resource)| {
        let memory = resource.status.iter().map(|status| &status.memory);
        let mut states = memory.flat_map(|memory| memory.compartments.values());
        states.any(|compartment| {
            let state = &compartment.batch_state;
            state.should_stop || (!stopped && *state != BatchState::default())
        })
    });
    begun.map(|(name, _)| name.clone()).collect()
}

impl Story {
    /// A node changes its rack, and with it its compartment; one with a visit under way, or any.
    pub fn move_node(&mut self, which: u8, to: u8, at_work: bool) {
        let world = &mut self.world;
        let is_open = |state: &nodewright::model::NodeRollout| {
            state.record.as_ref().is_some_and(nodewright::model::Record::is_open)
        };
        let nodes = world.input.observed.nodes.values();
        let nodes = nodes.filter(|node| !at_work || node.rollouts.values().any(|it| is_open(it)));
        let names: Vec<&String> = nodes.map(|node| &node.name).collect();
        let Some(name) = nth(&names, which.into()).map(|name| (*name).clone()) else { return };
        let before = places::places(world, &name);
        world.change_node(&name, |node| rerack(&mut node.labels, to));
        let moved = before.iter().any(|(rollout, place)| {
            let state = world.input.observed.nodes[&name].rollouts.get(rollout);
            state.is_some_and(|it| is_open(it))
                && places::places(world, &name).get(rollout) != Some(place)
        });
        if moved {
            self.coverage.paces.insert(Happened::MovedInItsBatch);
        }
    }

    /// All is well: what runs succeeds, and the daemon goes on.
    pub fn go_on(&mut self, rounds: u8) -> Result<(), Broken> {
        for _ in 0..rounds {
            self.tick_with(|_, _| Fate::Done)?;
            for name in self.world.active() {
                self.world.end(&name, End::Success);
            }
            self.world.pass(2);
        }
        Ok(())
    }

    /// Something is broken: what an executor's visit does fails until the visit is given up, with
    /// all visits of its rollout or alone.
    pub fn ruin(&mut self, which: u16, whole: bool) -> Result<(), Broken> {
        let executors = &self.world.input.observed.executors;
        let at_work = executors.values().filter(|it| it.is_active() && it.group != Group::Pull);
        let visits: Vec<_> = at_work.map(|executor| executor.visit.clone()).collect();
        let Some(first) = nth(&visits, which.into()).cloned() else { return Ok(()) };
        let broken = |visit: &VisitRef| {
            let same = whole && visits.contains(visit);
            visit.rollout == first.rollout && (*visit == first || same)
        };
        for _ in 0..RUIN_ROUNDS {
            let executors = self.world.input.observed.executors.iter();
            let active = executors.filter(|(_, it)| it.is_active() && broken(&it.visit));
            let names: Vec<String> = active.map(|(name, _)| name.clone()).collect();
            for name in &names {
                self.world.end(name, End::Failure);
            }
            self.tick_with(|_, _| Fate::Done)?;
            self.world.pass(RUIN_PAUSE_SECONDS);
            self.tick_with(|_, _| Fate::Done)?;
        }
        Ok(())
    }
}
