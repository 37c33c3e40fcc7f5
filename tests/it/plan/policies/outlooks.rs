//! What is said of the batches to come, and of what stops a rollout or does not.

use nodewright::model::{
    Batches, Condition, DEFAULT_COMPARTMENT, Growth, Outlook, Policy, Strategy,
};
use nodewright::plan::plan;
use nodewright::plan::world::{End, World};

use super::super::builders::WorldExt;
use super::forecasts::{by_policy, fleet, number, play, rings, sizes};
use super::strategy;

fn outlook(world: &World, compartment: &str) -> Outlook {
    let plan = plan(&world.input);
    plan.outlooks["tuning"][compartment].clone()
}

/// Plays until nothing happens any more, one executor after the other, and looks each time.
fn play_and_look(world: &mut World, fails: impl Fn(&str) -> bool, mut look: impl FnMut(&World)) {
    let mut idle = 0;
    look(world);
    while idle < 3 {
        world.settle();
        look(world);
        let active = world.active();
        idle = if active.is_empty() { idle + 1 } else { 0 };
        // Past every back-off between two attempts.
        world.pass(if active.is_empty() { 400 } else { 5 });
        for name in active {
            let node = world.input.observed.executors[&name].visit.node.clone();
            world.end(&name, if fails(&node) { End::Failure } else { End::Success });
            world.settle();
            look(world);
        }
    }
}

fn condition(world: &World, kind: &str) -> Option<Condition> {
    let status = plan(&world.input).statuses.remove("tuning").expect("a status");
    status.conditions.into_iter().find(|condition| condition.kind == kind)
}

fn batches(sizes: &[u32]) -> Batches {
    sizes.iter().copied().collect()
}

#[test]
fn batches_are_told_in_a_bounded_text() {
    for (sizes, text) in [
        (vec![], "none"),
        (vec![1, 2, 3, 4, 5, 5], "1, 2, 3, 4, 5, 5"),
        (vec![1, 2, 4, 11, 11, 11, 11, 4], "1, 2, 4, 11 ×4, 4"),
        (vec![3; 40], "3 ×40"),
        ((1..=20).collect(), "1, 2, 3, 4, 5, 6, 7, 8 and 12 more"),
    ] {
        let batches = batches(&sizes);
        assert_eq!(batches.to_string(), text);
        let (count, nodes) = (sizes.len(), sizes.iter().sum::<u32>());
        assert_eq!((batches.count(), batches.nodes()), (u32::try_from(count).unwrap(), nodes));
    }
    assert_eq!(batches(&[2, 2, 3]).after(2), batches(&[2, 2, 2, 3]));
    assert_eq!(batches(&[2, 3]).after(1).to_string(), "1, 2, 3");
}

/// Before each tick of a rollout in which all goes well, the batches to come are those that come.
#[test]
fn at_any_moment_the_forecast_is_what_then_happens() {
    let mut world = fleet(80, 20, rings());
    let mut told = Vec::new();
    play_and_look(
        &mut world,
        |_| false,
        |world| {
            let now = outlook(world, DEFAULT_COMPARTMENT);
            told.push((now.number, now.all_to_come(), now.last_number()));
        },
    );
    assert_eq!(sizes(&world, DEFAULT_COMPARTMENT), [1, 2, 4, 8, 16, 32, 17]);
    let (first, all, _) = &told[0];
    assert_eq!((*first, all.to_string().as_str()), (1, "1, 2, 4, 8, 16, 32, 17"));
    for (number, to_come, last) in told {
        if to_come.is_empty() {
            continue;
        }
        let from = usize::try_from(number - 1).unwrap();
        assert_eq!(to_come, batches(&[1, 2, 4, 8, 16, 32, 17][from..]), "from batch {number}");
        assert_eq!(last, 7, "from batch {number}");
    }
    assert!(outlook(&world, DEFAULT_COMPARTMENT).is_over());
}

#[test]
fn what_would_stop_it_is_told_in_numbers_of_nodes() {
    let mut world = fleet(80, 20, rings());
    let default = outlook(&world, DEFAULT_COMPARTMENT);
    assert_eq!(
        default.sizes(),
        "1, 2, 4, 8, 16, 32, 17; if every node fails from now on: 1 ×3, then it stops"
    );
    assert_eq!(
        default.limits(),
        "after 3 batches in a row in each of which fewer than 90 % succeed (failureThreshold), \
         while fewer than 40 of 80 nodes are through (safetyLimit 50); so far 0 in a row"
    );
    let production = outlook(&world, "production");
    assert_eq!(production.to_come.to_string(), "1, 2, 3, 4, 5, 5");
    assert_eq!(
        production.limits(),
        "never: its policy names no failureThreshold, and the cluster no --stop-after"
    );
    world.input.floor.stop_after = Some(2);
    assert_eq!(
        outlook(&world, "production").limits(),
        "after 2 batches in a row in each of which fewer than 100 % succeed (the cluster's \
         --stop-after); so far 0 in a row"
    );
    world.input.floor.stop_after = Some(1);
    let limits = outlook(&world, "production").limits();
    assert!(limits.starts_with("after the first batch in which fewer than 100 %"), "{limits}");
}

/// 1, 2, 4, then 2 and 1 for the failures, then it stops (7 failed of 10 touched).
#[test]
fn a_stop_names_its_batch_its_nodes_its_step_and_the_ways_out() {
    let mut world = fleet(80, 20, rings());
    let fails = |node: &str| node.starts_with("default-") && number(node) >= 4;
    let (mut told, mut reasons) = (Vec::new(), Vec::new());
    play_and_look(&mut world, fails, |world| {
        let now = outlook(world, DEFAULT_COMPARTMENT);
        reasons.extend(now.goes_on());
        if told.last() != Some(&(now.number, now.failed, now.to_come.to_string())) {
            told.push((now.number, now.failed, now.to_come.to_string()));
        }
    });
    // The failures of batch 3 halve what is to come, before its verdict is stored.
    assert!(told.contains(&(3, 1, "2, 4, 8, 16, 32, 11".to_owned())), "{told:?}");
    assert!(told.contains(&(4, 5, "1, 2, 4, 8, 16, 32, 8".to_owned())), "{told:?}");
    let expected = "1 of 80 nodes failed: it stops after 3 failed batches in a row, so far 0; 1 of \
                    4 failed in batch 3, which counts as failed (90 %)";
    assert!(reasons.contains(&expected.to_owned()), "{reasons:#?}");
    let stopped = outlook(&world, DEFAULT_COMPARTMENT).stopped.expect("a stop");
    assert_eq!((stopped.batch, stopped.failures), (5, 3));
    let cause = stopped.cause.expect("nodes say what stopped it");
    assert_eq!((cause.nodes, cause.in_batch, cause.total), (vec!["default-010".to_owned()], 1, 7));
    let stopped = condition(&world, "Stopped").expect("a condition").message;
    let what = "stopped after 3 failed batches in a row, the last was batch 5; failed: \
                default-010, 7 in all; apply of motd|1.0.0 failed 4 times: apply, step step.sh \
                ended with exit code 1 in pod tuning-uid-default-010-";
    assert!(stopped.starts_with(what), "{stopped}");
    let way_out = "; way out: fix the package or its configuration and commit: a changed package \
                   is tried again; to go on with the same one: nodewright retry node/default-010, \
                   then nodewright deployment-policy reset tuning";
    assert!(stopped.ends_with(way_out), "{stopped}");
    assert_eq!(condition(&world, "FailuresTolerated"), None, "nothing goes on");
}

#[test]
fn a_stop_that_no_node_explains_any_more_is_told_all_the_same() {
    let mut world = fleet(40, 0, rings());
    play(&mut world, |node| number(node) >= 4);
    for node in world.input.observed.nodes.values_mut() {
        for state in node.rollouts.values_mut() {
            if let Some(record) = state.record.as_mut().filter(|record| record.outcome.is_some()) {
                record.outcome = Some(nodewright::model::Outcome::Released);
            }
        }
    }
    let stopped = outlook(&world, DEFAULT_COMPARTMENT).stopped.expect("a stop");
    assert_eq!(stopped.cause, None);
    let message = condition(&world, "Stopped").expect("a condition").message;
    assert!(message.starts_with("stopped after 3 failed batches in a row"), "{message}");
    assert!(message.ends_with("one: nodewright deployment-policy reset tuning"), "{message}");
}

/// Of 20 nodes each third fails: never three batches in a row.
#[test]
fn a_rollout_that_goes_on_although_nodes_fail_says_why() {
    let mut world = fleet(20, 0, rings());
    let mut told = Vec::new();
    play_and_look(
        &mut world,
        |node| number(node).is_multiple_of(3),
        |world| {
            let Some(condition) = condition(world, "FailuresTolerated") else { return };
            if told.last() != Some(&(condition.reason.clone(), condition.message.clone())) {
                told.push((condition.reason, condition.message));
            }
        },
    );
    let has = |reason: &str, message: &str| {
        assert!(told.contains(&(reason.to_owned(), message.to_owned())), "{message}: {told:#?}");
    };
    has(
        "BelowFailureThreshold",
        "2 of 20 nodes failed: it stops after 3 failed batches in a row, so far 0",
    );
    has(
        "BelowFailureThreshold",
        "1 of 20 nodes failed: it stops after 3 failed batches in a row, so far 1",
    );
    has(
        "PastSafetyLimit",
        "3 of 20 nodes failed: 10 are through, and from 10 on failures neither slow nor stop it \
         (safetyLimit 50)",
    );
    assert_eq!(condition(&world, "FailuresTolerated"), None, "it is over");
    assert_eq!(condition(&world, "Stopped"), None);
}

#[test]
fn without_a_threshold_and_without_a_floor_nothing_stops_it_and_it_says_so() {
    let never = Strategy { batch_threshold: 50, ..strategy(Growth::Fixed, 4) };
    let policy = Policy {
        fallback: nodewright::model::Pace { strategy: Some(never), ..rings().fallback },
        ..rings()
    };
    let mut world = fleet(12, 0, policy);
    let mut told = Vec::new();
    play_and_look(
        &mut world,
        |node| number(node) <= 2,
        |world| {
            told.extend(condition(world, "FailuresTolerated").map(|it| (it.reason, it.message)));
        },
    );
    let expected = "1 of 12 nodes failed: no number of failed batches stops it; 1 of 4 failed in \
                    batch 1, which is allowed (50 %)";
    assert!(told.contains(&("NoFailureThreshold".to_owned(), expected.to_owned())), "{told:#?}");
}

/// What cannot be picked is not promised.
#[test]
fn nodes_that_stay_out_are_in_no_batch_to_come() {
    let mut world = fleet(10, 0, rings());
    let nodes = &mut world.input.observed.nodes;
    nodes.get_mut("default-003").expect("a node").ignored = true;
    nodes.get_mut("default-004").expect("a node").ready = false;
    assert_eq!(outlook(&world, DEFAULT_COMPARTMENT).to_come.to_string(), "1, 2, 4, 1");
    world.set_rollout(by_policy("1.0.1"));
    assert_eq!(outlook(&world, DEFAULT_COMPARTMENT).to_come.nodes(), 8);
}
