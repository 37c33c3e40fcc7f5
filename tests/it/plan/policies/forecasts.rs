//! Rollouts by policy in the planner world: what a forecast says is what then happens.

use std::collections::BTreeMap;

use kube::core::{Expression, Selector};
use nodewright::model::{
    BatchState, Budget, Compartment, DEFAULT_COMPARTMENT, Growth, Pace, Policy, Rollout, Strategy,
    VerdictKind,
};
use nodewright::plan::pace::{Assumption, Pacing};
use nodewright::plan::world::{End, World};

use super::super::builders::{WorldExt, noon, package, rollout};
use super::strategy;

/// A rollout that the policy `rings` paces.
pub fn by_policy(version: &str) -> Rollout {
    let mut wanted = rollout(1, vec![package("motd", version)]);
    wanted.budget = None;
    wanted.policy = Some("rings".to_owned());
    wanted
}

pub fn selector(key: &str, value: &str) -> Selector {
    Selector::from_iter([Expression::Equal(key.to_owned(), value.to_owned())])
}

pub fn compartment(
    name: &str,
    nodes: Selector,
    budget: Budget,
    strategy: Option<Strategy>,
) -> Compartment {
    Compartment { name: name.to_owned(), nodes, pace: Pace { budget, strategy } }
}

/// A careful default, and a production compartment that goes by itself.
pub fn rings() -> Policy {
    let exponential = Strategy {
        batch_threshold: 90,
        failure_threshold: Some(3),
        ..strategy(Growth::Exponential(2), 1)
    };
    let linear = strategy(Growth::Linear(1), 1);
    let production = selector("ring", "production");
    Policy {
        name: "rings".to_owned(),
        fallback: Pace { budget: Budget::Percent(100), strategy: Some(exponential) },
        compartments: vec![compartment(
            "production",
            production,
            Budget::Percent(25),
            Some(linear),
        )],
        reset: true,
    }
}

/// A fleet of `default` nodes, and `production` ones, named by their ring and age.
pub fn fleet(default: u32, production: u32, policy: Policy) -> World {
    let mut world = World::new(noon());
    for number in 1..=default {
        world.add_node(&format!("default-{number:03}"), &[("ring", "default")]);
        world.pass(1);
    }
    for number in 1..=production {
        world.add_node(&format!("production-{number:03}"), &[("ring", "production")]);
        world.pass(1);
    }
    // Nobody but the policy stops anything, as with `--compat upstream`.
    world.input.floor.stop_after = None;
    world.input.desired.policies.insert(policy.name.clone(), policy);
    world.set_rollout(by_policy("1.0.0"));
    world
}

/// Plays until nothing happens any more; the nodes for which `fails` holds fail for good.
pub fn play(world: &mut World, fails: impl Fn(&str) -> bool) {
    let mut idle = 0;
    while idle < 3 {
        world.settle();
        let active = world.active();
        idle = if active.is_empty() { idle + 1 } else { 0 };
        // Past every back-off between two attempts.
        world.pass(if active.is_empty() { 400 } else { 5 });
        for name in active {
            let node = world.input.observed.executors[&name].visit.node.clone();
            world.end(&name, if fails(&node) { End::Failure } else { End::Success });
        }
    }
}

/// The sizes of the batches of a compartment, as the records of its nodes tell.
pub fn sizes(world: &World, compartment: &str) -> Vec<u32> {
    let mut batches: BTreeMap<u32, u32> = BTreeMap::new();
    for node in world.input.observed.nodes.values() {
        let Some(record) = node.record("tuning", "uid-tuning") else { continue };
        if record.compartment == compartment {
            *batches.entry(record.batch).or_default() += 1;
        }
    }
    batches.into_values().collect()
}

pub fn state(world: &World, compartment: &str) -> BatchState {
    let status = world.input.observed.resources["tuning"].status.as_ref();
    let memory = &status.expect("a status was written").memory;
    memory.compartments[compartment].batch_state.clone()
}

/// The number in a node's name.
pub fn number(node: &str) -> u32 {
    node.rsplit('-').next().and_then(|number| number.parse().ok()).expect("a node of the fleet")
}

fn is_default(node: &str) -> bool {
    node.starts_with("default-")
}

#[test]
fn two_compartments_go_side_by_side_each_at_its_own_pace() {
    let mut world = fleet(80, 20, rings());
    play(&mut world, |_| false);
    assert!(world.is_complete());
    assert_eq!(sizes(&world, DEFAULT_COMPARTMENT), [1, 2, 4, 8, 16, 32, 17]);
    assert_eq!(sizes(&world, "production"), [1, 2, 3, 4, 5, 5]);
    for (name, nodes, budget, strategy) in [
        (DEFAULT_COMPARTMENT, 80, Budget::Percent(100), rings().fallback.strategy),
        ("production", 20, Budget::Percent(25), rings().compartments[0].pace.strategy),
    ] {
        let pacing = Pacing { pace: Pace { budget, strategy }, nodes, stop_after: None };
        let forecast = pacing.forecast(&BatchState::default(), nodes, Assumption::Success);
        assert_eq!(forecast.batches, sizes(&world, name), "{name}");
    }
}

/// 3 done and 7 failed of 10 touched; production goes on.
#[test]
fn a_package_that_is_broken_from_the_fourth_node_on_stops_its_compartment_alone() {
    let mut world = fleet(80, 20, rings());
    play(&mut world, |node| is_default(node) && number(node) >= 4);
    assert_eq!(sizes(&world, DEFAULT_COMPARTMENT), [1, 2, 4, 2, 1]);
    let stopped = state(&world, DEFAULT_COMPARTMENT);
    assert!(stopped.should_stop);
    assert_eq!((stopped.completed_nodes, stopped.failed_nodes), (3, 7));
    assert_eq!(stopped.consecutive_failures, 3);
    assert_eq!(sizes(&world, "production"), [1, 2, 3, 4, 5, 5]);
    let verdict = world.verdict("default-080");
    let what = "Blocked: stopped after 3 failed batches in a row, the last was batch 5; failed: \
                default-010, 7 in all; apply of motd|1.0.0 failed 4 times: apply, step step.sh \
                ended with exit code 1 in pod ";
    assert!(verdict.starts_with(what), "{verdict}");
}

#[test]
fn one_that_fails_on_every_third_node_is_slowed_and_not_stopped() {
    let mut world = fleet(20, 0, rings());
    play(&mut world, |node| number(node).is_multiple_of(3));
    assert_eq!(sizes(&world, DEFAULT_COMPARTMENT), [1, 2, 1, 2, 1, 2, 1, 2, 4, 4]);
    let state = state(&world, DEFAULT_COMPARTMENT);
    assert!(!state.should_stop);
    assert_eq!((state.completed_nodes, state.failed_nodes), (14, 6));
}

/// A batch of two with a failure, one of one without, and so on to half of the nodes; from there
/// on failures do not slow it.
#[test]
fn eighty_nodes_of_which_every_third_fails_are_gone_through_and_production_beside_them() {
    let mut world = fleet(80, 20, rings());
    play(&mut world, |node| is_default(node) && number(node).is_multiple_of(3));
    let mut expected = vec![1];
    expected.extend([2, 1].repeat(13));
    expected.extend([2, 4, 8, 16, 10]);
    assert_eq!(sizes(&world, DEFAULT_COMPARTMENT), expected);
    let state = state(&world, DEFAULT_COMPARTMENT);
    assert!(!state.should_stop);
    assert_eq!((state.completed_nodes, state.failed_nodes), (54, 26));
    assert_eq!(sizes(&world, "production"), [1, 2, 3, 4, 5, 5]);
}

#[test]
fn a_new_target_lifts_a_stop_and_begins_small_where_the_policy_resets() {
    for (reset, expected) in [(true, vec![1, 2, 4, 8, 16, 9]), (false, vec![2, 4, 8, 16, 10])] {
        let mut world = fleet(40, 0, Policy { reset, ..rings() });
        play(&mut world, |node| number(node) >= 4);
        assert!(state(&world, DEFAULT_COMPARTMENT).should_stop);
        world.set_rollout(by_policy("1.0.1"));
        play(&mut world, |_| false);
        assert!(world.is_complete(), "reset {reset}");
        assert_eq!(sizes(&world, DEFAULT_COMPARTMENT), expected, "reset {reset}");
        let first = if reset { 1 } else { 6 };
        let batches = world.input.observed.nodes.values();
        let batches = batches.filter_map(|node| node.record("tuning", "uid-tuning"));
        assert_eq!(batches.map(|record| record.batch).min(), Some(first), "numbers go on");
    }
}

/// The option of the resource wins over that of its policy (upstream contract A.5).
#[test]
fn the_resources_own_option_decides_whether_batches_begin_small_again() {
    let mut world = fleet(7, 0, rings());
    let mut wanted = by_policy("1.0.0");
    wanted.reset_batches = Some(false);
    world.set_rollout(wanted);
    play(&mut world, |_| false);
    assert_eq!(state(&world, DEFAULT_COMPARTMENT).current_batch, 4, "1, 2, 4 are through");
    let mut reset = fleet(7, 0, rings());
    play(&mut reset, |_| false);
    assert_eq!(state(&reset, DEFAULT_COMPARTMENT), BatchState::default(), "at completion");
}

#[test]
fn a_policy_that_is_missing_holds_the_rollout_and_says_so() {
    let mut world = fleet(3, 0, rings());
    world.input.desired.policies.clear();
    play(&mut world, |_| false);
    assert_eq!(
        world.verdict("default-001"),
        "Blocked: DeploymentPolicy rings does not exist: create it or use a budget"
    );
    let plan = nodewright::plan::plan(&world.input);
    assert!(plan.verdicts["tuning"].values().all(|verdict| verdict.kind == VerdictKind::Blocked));
}
