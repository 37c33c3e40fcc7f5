//! Hands off: other operators, and people, who ask that nothing be started on a node.

use nodewright::model::{AtRelease, Claim, InterruptKind, Reason};
use nodewright::plan::plan;
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::selection::node;

fn fleet() -> World {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    world(2, rollout(1, vec![kernel]))
}

fn claim(by: &str, mark: &str, at_release: AtRelease) -> Claim {
    Claim { by: by.to_owned(), mark: mark.to_owned(), at_release }
}

fn quarantined() -> Claim {
    claim("NVSentinel", "quarantineHealthEventIsCordoned", AtRelease::LeavesCordon)
}

fn upgraded() -> Claim {
    let mark = "nvidia.com/gpu-driver-upgrade-state=validation-required";
    claim("GPU Operator", mark, AtRelease::Waits)
}

/// Plays until `node-00` has everything but its release is not planned yet.
fn until_verified(world: &mut World) {
    for _ in 0..100 {
        let (_, breaches, done) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        let verifying = world.entry("node-00", "kernel") == "1.0.0 post-interrupt in_progress";
        if done == 0 && verifying && !world.active().is_empty() {
            return;
        }
        if done == 0 {
            world.finish_all(End::Success);
        }
    }
    panic!("the node never verifies");
}

#[test]
fn neighbours_t3_a_node_in_a_driver_upgrade_is_not_picked_and_says_whose_it_is() {
    let mut world = fleet();
    node(&mut world, "node-00").claims.push(upgraded());
    world.run();
    assert_eq!(
        world.verdict("node-00"),
        "Wait: hands off: GPU Operator works on the node \
         (nvidia.com/gpu-driver-upgrade-state=validation-required)"
    );
    assert_eq!(world.entry("node-00", "kernel"), "none");
    // It counts as disturbed, also while its operator has not cordoned it yet: no second node.
    assert_eq!(world.entry("node-01", "kernel"), "none");
    let plan = plan(&world.input);
    let waits = &plan.verdicts["tuning"]["node-01"].reason;
    assert!(
        matches!(waits, Reason::BudgetUsed { nodes, .. } if nodes[..] == ["node-00"]),
        "{waits}"
    );
    node(&mut world, "node-00").claims.clear();
    world.run();
    assert!(world.is_complete());
}

#[test]
fn neighbours_t1_t13_a_node_quarantined_while_we_hold_it_stays_cordoned_and_our_mark_goes() {
    let mut world = fleet();
    until_verified(&mut world);
    node(&mut world, "node-00").claims.push(quarantined());
    world.run();
    let left = &world.input.observed.nodes["node-00"];
    assert!(left.unschedulable, "lifting it would cancel the repair");
    assert!(left.cordons.is_empty());
    assert_eq!(world.verdict("node-00"), "Done: every package is as wanted");
}

#[test]
fn neighbours_t5_a_release_waits_for_a_driver_that_is_loaded_on_a_drained_node() {
    let mut world = fleet();
    until_verified(&mut world);
    let safe_load = "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load";
    node(&mut world, "node-00").claims.push(claim("Network Operator", safe_load, AtRelease::Waits));
    world.run();
    assert_eq!(
        world.verdict("node-00"),
        "Wait: hands off: Network Operator works on the node \
         (nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load)"
    );
    let held = &world.input.observed.nodes["node-00"];
    assert!(held.unschedulable && held.is_cordoned_by("tuning"));
    node(&mut world, "node-00").claims.clear();
    world.run();
    assert!(world.is_complete() && !world.input.observed.nodes["node-00"].unschedulable);
}

#[test]
fn a_node_held_by_hand_is_not_picked() {
    let mut world = fleet();
    node(&mut world, "node-00").hold = Some("memory test until Friday".to_owned());
    world.run();
    let held = "Blocked: held by annotation: memory test until Friday";
    assert_eq!(world.verdict("node-00"), held);
    assert_eq!(world.entry("node-01", "kernel"), "1.0.0 post-interrupt complete");
    assert!(!world.input.observed.nodes["node-00"].unschedulable);
}

#[test]
fn a_node_held_by_hand_while_we_hold_it_keeps_the_cordon_at_the_release() {
    let mut world = fleet();
    until_verified(&mut world);
    node(&mut world, "node-00").hold = Some("memory test".to_owned());
    world.run();
    let left = &world.input.observed.nodes["node-00"];
    assert!(left.unschedulable && left.cordons.is_empty());
    assert_eq!(world.verdict("node-00"), "Done: every package is as wanted");
}

#[test]
fn a_reboot_that_never_ends_is_told_also_where_the_node_is_quarantined_for_it() {
    let mut world = fleet();
    for _ in 0..40 {
        let (_, _, done) = world.tick(|_| Fate::Done);
        let interrupt = world.active().into_iter().any(|name| name.contains("interrupt"));
        if interrupt {
            break;
        }
        if done == 0 {
            world.finish_all(End::Success);
        }
    }
    let down = node(&mut world, "node-00");
    down.ready = false;
    down.claims.push(quarantined());
    assert!(world.verdict("node-00").starts_with("Wait: reboot issued at"));
    world.pass(3601);
    world.settle();
    assert!(world.verdict("node-00").starts_with("Blocked: interrupt reboot failed"));
}
