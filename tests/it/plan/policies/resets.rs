//! A person begins the batches again (`nodewright deployment-policy reset`), at any moment: only
//! the counters in the status are those of the beginning, everything else is as it was.

use std::collections::BTreeSet;

use nodewright::model::{BatchState, Budget, Growth, Pace, Policy, Record, Strategy};
use nodewright::plan::world::{End, Fate, World};

use super::super::builders::{WorldExt, noon};
use super::forecasts::{by_policy, number, play, sizes, state};
use super::strategy;

const DEFAULT: &str = nodewright::model::DEFAULT_COMPARTMENT;

/// Twelve nodes, batches of 1, 2, 4 and 5; two failed batches in a row stop it.
fn world() -> World {
    let mut world = World::new(noon());
    for number in 1..=12 {
        world.add_node(&format!("node-{number:02}"), &[]);
        world.pass(1);
    }
    let growing = Strategy {
        failure_threshold: Some(2),
        safety_limit: 100,
        ..strategy(Growth::Exponential(2), 1)
    };
    let fallback = Pace { budget: Budget::Count(6), strategy: Some(growing) };
    let name = "rings".to_owned();
    let policy = Policy { name, fallback, compartments: Vec::new(), reset: false };
    world.input.desired.policies.insert(policy.name.clone(), policy);
    world.set_rollout(by_policy("1.0.0"));
    world
}

fn reset(world: &mut World) {
    let resource = world.input.observed.resources.get_mut("tuning").expect("there");
    let Some(status) = &mut resource.status else { return };
    for compartment in status.memory.compartments.values_mut() {
        compartment.batch_state = BatchState::default();
    }
    resource.resource_version.push_str("-reset");
}

/// Does one thing after the other, and checks after each; returns whether there was so much to do.
fn steps(world: &mut World, count: usize) -> bool {
    for _ in 0..count {
        let (_, breaches, done) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        if done > 0 {
            continue;
        }
        let Some(name) = world.active().into_iter().next() else { return false };
        world.pass(5);
        world.end(&name, End::Success);
    }
    true
}

fn assert_orders_are_unique(world: &World, when: usize) {
    let nodes = world.input.observed.nodes.values();
    let records: Vec<&Record> =
        nodes.filter_map(|node| node.record("tuning", "uid-tuning")).collect();
    let orders: BTreeSet<u32> = records.iter().map(|record| record.order).collect();
    assert_eq!(orders.len(), records.len(), "step {when}: an order number is there twice");
}

#[test]
fn batches_that_begin_again_at_any_moment_cover_every_node_once_and_keep_to_the_ceiling() {
    for when in 0.. {
        let mut world = world();
        if !steps(&mut world, when) {
            assert!(when > 40, "a rollout has many steps: {when}");
            return;
        }
        reset(&mut world);
        play(&mut world, |_| false);
        assert!(world.is_complete(), "step {when}: {}", world.verdict("node-12"));
        assert!(world.peak["tuning"] <= 6, "step {when}");
        assert_orders_are_unique(&world, when);
        for node in world.input.observed.nodes.values() {
            let runs = world.completed.iter().filter(|done| done.0 == node.name);
            let mut stages: Vec<_> = runs.map(|done| done.3).collect();
            let all = stages.len();
            stages.dedup();
            assert_eq!(stages.len(), all, "step {when}: {} was worked on again", node.name);
        }
        let counted = state(&world, DEFAULT);
        // After the last verdict nothing is counted any more.
        let is_counted = counted.completed_nodes == 12 && counted.failed_nodes == 0;
        assert!(is_counted || counted == BatchState::default(), "step {when}: {counted:?}");
    }
}

/// Batches of 1 and 2, then one of 4 in the middle of which a person begins again: 1, 2 and 2.
#[test]
fn a_batch_that_was_open_then_says_nothing_of_the_size_of_the_next() {
    let mut world = world();
    let open = |world: &World| {
        let status = world.input.observed.resources["tuning"].status.as_ref();
        let open = status.and_then(|it| it.memory.compartments[DEFAULT].open_batch.as_ref());
        open.map_or(0, |open| open.size)
    };
    while open(&world) != 4 {
        assert!(steps(&mut world, 1));
    }
    reset(&mut world);
    let mut sizes = vec![4];
    while steps(&mut world, 1) {
        let size = open(&world);
        if size > 0 && sizes.last() != Some(&size) {
            sizes.push(size);
        }
    }
    assert_eq!(sizes, [4, 1, 2], "the first two again, and two that are left");
    assert!(world.is_complete());
}

/// Nodes 2 to 5 fail: batches 1, 2 (failed), 1 (failed) and stop. Then the untouched ones go on,
/// from a batch of one, which fails again: 1 (node 5), 1, 2, 4; four of twelve wait for a person.
#[test]
fn a_stop_that_is_lifted_goes_on_with_nodes_that_were_not_touched() {
    let mut world = world();
    let fails = |node: &str| (2..=5).contains(&number(node));
    play(&mut world, fails);
    assert_eq!(sizes(&world, DEFAULT), [1, 2, 1]);
    assert!(state(&world, DEFAULT).should_stop);
    reset(&mut world);
    play(&mut world, fails);
    let after = state(&world, DEFAULT);
    assert!(!after.should_stop, "the batch of node-05 is one failed batch, not the third");
    assert_eq!((after.completed_nodes, after.failed_nodes), (8, 4));
    assert_eq!(after.current_batch, 5, "1, 1, 2 and 4 since");
    assert!(world.verdict("node-02").starts_with("Blocked: apply of motd|1.0.0 failed"));
}

/// What failed leaves, everything else is complete: the batches begin again, and nothing is said to
/// be stopped any more, not even in the status that resets them.
#[test]
fn a_stop_is_not_said_of_batches_that_have_just_begun_again() {
    let mut world = world();
    world.input.desired.policies.get_mut("rings").expect("there").reset = true;
    play(&mut world, |node| number(node) > 1);
    assert!(state(&world, DEFAULT).should_stop);
    world.input.observed.nodes.retain(|node, _| number(node) == 1);
    let (plan, breaches, _) = world.tick(|_| Fate::Done);
    assert_eq!(breaches, vec![]);
    let status = &plan.statuses["tuning"];
    assert_eq!(status.memory.compartments[DEFAULT].batch_state, BatchState::default());
    assert!(!status.conditions.iter().any(|it| it.kind == "Stopped" && it.is_true));
    assert!(plan.outlooks["tuning"].values().all(|outlook| outlook.stopped.is_none()));
}
