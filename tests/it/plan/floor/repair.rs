//! In repair: down for longer than `--repair-after` before it was picked.

use std::time::Duration;

use nodewright::model::{
    Budget, DEFAULT_COMPARTMENT, Growth, InterruptKind, Pace, Policy, Sequencing, StatusWord,
    Strategy,
};
use nodewright::plan::world::{End, World};

use super::super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::super::policies::forecasts;

const TWO_HOURS: i64 = 2 * 3_600;

fn fleet(nodes: u32, count: u32) -> World {
    world(
        nodes,
        rollout(count, vec![package("kernel", "1.0.0").interrupting(InterruptKind::Reboot)]),
    )
}

fn word(world: &World) -> StatusWord {
    world.input.observed.resources["tuning"].status.as_ref().expect("a status").word
}

#[test]
fn a_node_counts_as_disturbed_until_its_time_is_over_and_the_plan_wakes_for_that() {
    let mut world = fleet(3, 1);
    world.go_down("node-00");
    world.pass(60);
    world.settle();
    assert_eq!(world.verdict("node-00"), "Wait: the node is not ready since 2026-11-30T12:00:03Z");
    assert_eq!(world.verdict("node-01"), "Wait: budget used: 1 of 1 disturbed (node-00)");
    let wake = nodewright::plan::plan(&world.input).wake_at.expect("a time");
    assert_eq!(wake.to_string(), "2026-11-30T14:00:03Z");

    world.input.now = wake;
    assert_eq!(
        world.verdict("node-00"),
        "Wait: in repair: not ready since 2026-11-30T12:00:03Z, before it was picked; outside \
         the rollout until it is back"
    );
    world.run();
    assert_eq!(word(&world), StatusWord::Complete);
    assert_eq!(world.entry("node-01", "kernel"), "1.0.0 post-interrupt complete");

    world.come_back("node-00");
    world.settle();
    assert_ne!(word(&world), StatusWord::Complete);
    world.run();
    assert!(world.is_complete());
}

#[test]
fn the_patience_is_the_flags() {
    let mut world = fleet(3, 1);
    world.input.floor.repair_after = Duration::from_mins(10);
    world.go_down("node-00");
    world.pass(600);
    world.run();
    assert_eq!(word(&world), StatusWord::Complete);
}

#[test]
fn a_node_that_broke_under_us_always_counts() {
    let mut world = fleet(3, 1);
    world.settle();
    let executor = world.active().first().cloned().expect("an executor runs");
    world.end(&executor, End::Success);
    world.settle();
    let interrupt = world.active().first().cloned().expect("the interrupt runs");
    world.end(&interrupt, End::Gone);
    for _ in 0..5 {
        world.pass(TWO_HOURS);
        world.settle();
    }
    assert!(!world.input.observed.nodes["node-00"].ready);
    assert!(world.verdict("node-00").starts_with("Blocked: interrupt reboot failed"));
    assert_eq!(world.verdict("node-01"), "Wait: budget used: 1 of 1 disturbed (node-00)");

    // A new version does not make it somebody else's failure.
    world.set_rollout(rollout(1, vec![package("kernel", "1.1.0")]));
    world.settle();
    assert_eq!(world.verdict("node-01"), "Wait: budget used: 1 of 1 disturbed (node-00)");
}

/// A visit that takes no hold itself keeps the mark of the failure before it, and fails as well.
#[test]
fn a_node_that_failed_again_under_the_cordon_of_a_failure_before_always_counts() {
    let mut world = fleet(3, 1);
    let fail = |world: &mut World| {
        for _ in 0..4 {
            world.settle();
            world.finish_all(End::Failure);
            world.settle();
            world.pass(600);
        }
    };
    fail(&mut world);
    world.set_rollout(rollout(1, vec![package("motd", "1.0.0")]));
    fail(&mut world);
    let node = &world.input.observed.nodes["node-00"];
    let record = node.rollouts["tuning"].record.as_ref().expect("a visit");
    assert!(node.is_cordoned_by("tuning") && !record.held, "{record:#?}");
    world.go_down("node-00");
    world.pass(TWO_HOURS);
    world.settle();
    assert!(world.verdict("node-00").starts_with("Blocked: "), "{}", world.verdict("node-00"));
    assert_eq!(world.verdict("node-01"), "Wait: budget used: 1 of 1 disturbed (node-00)");
}

#[test]
fn a_percentage_is_of_the_nodes_that_are_not_in_repair() {
    let mut wanted = rollout(1, vec![package("motd", "1.0.0")]);
    wanted.budget = Some(nodewright::model::Budget::Percent(50));
    let mut world = world(10, wanted);
    (0..6).for_each(|number| world.go_down(&format!("node-{number:02}")));
    world.pass(TWO_HOURS);
    world.run();
    assert_eq!(world.peak["tuning"], 2, "half of the four that are there");
    assert_eq!(word(&world), StatusWord::Complete);
}

/// Four of eight nodes are complete and go into repair: of the four that count none is through, and
/// the first batch of them that fails is below the safety limit.
#[test]
fn nodes_in_repair_bring_no_compartment_nearer_to_its_safety_limit() {
    let strategy = Strategy {
        growth: Growth::Fixed,
        initial_batch: 2,
        batch_threshold: 100,
        failure_threshold: Some(1),
        safety_limit: 80,
    };
    let fallback = Pace { budget: Budget::Percent(100), strategy: Some(strategy) };
    let name = "rings".to_owned();
    let policy = Policy { name, fallback, compartments: Vec::new(), reset: false };
    let mut world = forecasts::fleet(8, 0, policy);
    let is_first = |node: &str| forecasts::number(node) <= 4;
    for name in world.input.observed.nodes.keys().cloned().collect::<Vec<_>>() {
        world.change_node(&name, |node| node.ignored = !is_first(&name));
    }
    forecasts::play(&mut world, |_| false);
    (1..=4).for_each(|number| world.go_down(&format!("default-{number:03}")));
    world.pass(TWO_HOURS);
    for name in world.input.observed.nodes.keys().cloned().collect::<Vec<_>>() {
        world.change_node(&name, |node| node.ignored = false);
    }
    forecasts::play(&mut world, |_| true);
    let counted = forecasts::state(&world, DEFAULT_COMPARTMENT);
    assert_eq!((counted.completed_nodes, counted.failed_nodes), (0, 2));
    assert!(counted.should_stop, "{}", world.verdict("default-008"));
}

#[test]
fn a_fleet_that_is_all_in_repair_is_not_complete() {
    let mut world = fleet(2, 1);
    (0..2).for_each(|number| world.go_down(&format!("node-{number:02}")));
    world.pass(TWO_HOURS);
    world.run();
    assert_eq!(word(&world), StatusWord::Waiting);
}

#[test]
fn what_must_be_complete_everywhere_is_so_without_nodes_in_repair() {
    let mut world = fleet(3, 1);
    let mut base = rollout(1, vec![package("base", "1.0.0")]);
    "base".clone_into(&mut base.name);
    (base.priority, base.sequencing) = (100, Sequencing::All);
    world.set_rollout(base);
    world.go_down("node-00");
    world.pass(TWO_HOURS);
    world.run();
    assert_eq!(world.entry("node-02", "kernel"), "1.0.0 post-interrupt complete");
}

#[test]
fn a_resource_that_is_deleted_waits_for_a_node_in_repair_that_has_its_package() {
    let package = package("kernel", "1.0.0").with_uninstall();
    let mut world = world(2, rollout(1, vec![package]));
    world.run();
    world.go_down("node-00");
    world.pass(TWO_HOURS);
    world.input.observed.resources.get_mut("tuning").expect("the resource").deleting = true;
    world.run();
    assert!(world.input.observed.resources.contains_key("tuning"));
    assert_ne!(word(&world), StatusWord::Complete);
    let status = world.input.observed.resources["tuning"].status.clone().expect("a status");
    let blocked = status.conditions.iter().find(|it| it.kind == "DeletionBlocked");
    let message = &blocked.expect("it says so").message;
    assert!(message.starts_with("1 node (node-00): in repair: not ready since"), "{message}");

    world.come_back("node-00");
    world.run();
    assert!(!world.input.observed.resources.contains_key("tuning"));
}
