//! GPUs: a node goes back only when it offers as many as before.

use nodewright::model::{InterruptKind, Outcome, Rollout};
use nodewright::plan::plan;
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, pod, rollout, world};
use super::selection::node;

fn kernel(version: &str) -> Rollout {
    rollout(1, vec![package("kernel", version).interrupting(InterruptKind::Reboot)])
}

/// A node with so many GPUs, which it does not offer after its reboot.
fn rebooted(gpus: Option<u32>) -> World {
    let mut world = world(1, kernel("1.0.0"));
    node(&mut world, "node-00").gpus = gpus;
    while !world.reboots.contains_key("node-00") {
        world.settle();
        world.finish_all(End::Success);
    }
    node(&mut world, "node-00").gpus = None;
    world.run();
    world
}

#[test]
fn a_node_goes_back_when_it_offers_its_gpus_again() {
    let mut world = rebooted(Some(8));
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 post-interrupt complete");
    assert!(
        world.verdict("node-00").starts_with("Wait: offers 0 of 8 GPUs since 2026-11-30T12:00:"),
        "{}",
        world.verdict("node-00")
    );
    assert!(world.input.observed.nodes["node-00"].unschedulable);
    assert!(plan(&world.input).wake_at.is_some(), "it is let go at last without an event");
    node(&mut world, "node-00").gpus = Some(7);
    world.run();
    assert!(world.verdict("node-00").starts_with("Wait: offers 7 of 8 GPUs"));
    node(&mut world, "node-00").gpus = Some(8);
    world.run();
    assert!(world.is_complete() && !world.input.observed.nodes["node-00"].unschedulable);
}

#[test]
fn a_node_that_never_offers_them_goes_back_after_half_an_hour_and_says_so() {
    let mut world = rebooted(Some(8));
    node(&mut world, "node-00").gpus = Some(6);
    world.pass(1790);
    world.settle();
    assert!(world.input.observed.nodes["node-00"].unschedulable, "not before");
    world.pass(60);
    world.run();
    assert!(world.is_complete() && !world.input.observed.nodes["node-00"].unschedulable);
    let record = world.input.observed.nodes["node-00"].record("tuning", "uid-tuning");
    let record = record.expect("its last visit");
    assert_eq!(record.reason.as_deref(), Some("GpusMissing"));
    assert_eq!(
        record.message.as_deref(),
        Some(
            "let go after 30 minutes although it offers 6 of 8 GPUs: look at its driver and its \
             device plugin"
        )
    );
}

#[test]
fn a_node_without_gpus_is_not_asked_for_any() {
    for none in [None, Some(0)] {
        assert!(rebooted(none).is_complete());
    }
}

#[test]
fn a_node_that_was_not_interrupted_is_not_asked_for_any() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    node(&mut world, "node-00").gpus = Some(8);
    world.settle();
    node(&mut world, "node-00").gpus = None;
    world.run();
    assert!(world.is_complete());
}

/// A node that lost its GPUs in its reboot and failed afterwards.
fn failed() -> World {
    let mut world = world(1, kernel("1.0.0"));
    node(&mut world, "node-00").gpus = Some(8);
    for _ in 0..200 {
        let (_, _, done) = world.tick(|_| Fate::Done);
        let verifying = world.entry("node-00", "kernel").contains("post-interrupt");
        if done == 0 {
            world.pass(600);
            let end = if verifying { End::Failure } else { End::Success };
            world.finish_all(end);
        }
    }
    assert!(world.verdict("node-00").starts_with("Blocked: post-interrupt of kernel"));
    node(&mut world, "node-00").gpus = None;
    world
}

/// What `nodewright retry` writes.
fn retry(world: &mut World) {
    world.change_node("node-00", |node| {
        let state = node.rollouts.get_mut("tuning").expect("our state");
        let record = state.record.as_mut().expect("a visit");
        (record.outcome, record.reason, record.message) = (Some(Outcome::Released), None, None);
        state.record_text = serde_json::to_string(record).ok();
    });
}

/// Fails a package that neither interrupts nor takes hold of the node.
fn fail_beside(world: &mut World) {
    world.set_rollout(rollout(1, vec![package("motd", "1.0.0")]));
    for _ in 0..4 {
        world.settle();
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
    }
}

#[test]
fn what_a_failed_visit_lost_is_still_asked_for() {
    type Change = fn(&mut World);
    let cases: [(&str, Change); 3] = [
        ("another version is wanted", |_| {}),
        ("a person asked for another try", retry),
        ("another failed since, without hold of the node", fail_beside),
    ];
    for (case, change) in cases {
        let mut world = failed();
        change(&mut world);
        world.set_rollout(kernel("1.0.1"));
        world.run();
        let verdict = world.verdict("node-00");
        assert!(verdict.starts_with("Wait: offers 0 of 8 GPUs"), "{case}: {verdict}");
    }
}

#[test]
fn a_node_that_was_held_for_an_interrupt_that_is_not_wanted_any_more_is_not_asked_for_any() {
    let motd = || package("motd", "1.0.0");
    let mut world = world(1, rollout(1, vec![motd()]));
    world.run();
    world.add_pod(pod("node-00", "train", &[("workload", "training")]));
    node(&mut world, "node-00").gpus = Some(8);
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    world.set_rollout(rollout(1, vec![motd(), kernel]));
    world.settle();
    assert!(world.input.observed.nodes["node-00"].unschedulable, "held until the job ends");
    node(&mut world, "node-00").gpus = None;
    world.set_rollout(rollout(1, vec![motd()]));
    world.settle();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    assert!(!world.input.observed.nodes["node-00"].unschedulable);
}
