//! What a deleted resource uninstalls first, and what it need not.

use nodewright::model::{Group, InterruptKind};
use nodewright::plan::world::{End, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::deletion::{assert_left_in_order, delete, is_gone, resource};

/// Deletes a resource whose package has an uninstall, and fails that until it is given up.
fn uninstall_failed() -> World {
    let mut world = world(2, rollout(2, vec![package("agent", "1.0.0").with_uninstall()]));
    world.run();
    delete(&mut world);
    for _pull_and_attempts in 0..5 {
        world.settle();
        world.finish_all(End::Failure);
        world.pass(300);
    }
    world.settle();
    assert!(!is_gone(&world), "somebody has to look at it");
    assert_eq!(world.entry("node-00", "agent"), "1.0.0 uninstall erroring");
    world
}

#[test]
fn an_uninstall_that_fails_holds_the_deletion_until_the_resource_takes_it_back() {
    let mut world = uninstall_failed();
    world.settle();
    let status = &world.input.observed.resources["tuning"].status.as_ref().unwrap();
    let blocked = status.conditions.iter().find(|it| it.kind == "DeletionBlocked").unwrap();
    assert_eq!(blocked.reason, "UninstallFailed");
    assert!(blocked.message.contains("or set uninstall.enabled to false"), "{}", blocked.message);
    // What the condition says is what helps.
    world.set_rollout(rollout(2, vec![package("agent", "1.0.0")]));
    world.settle();
    assert_left_in_order(&world);
    assert_eq!(world.entry("node-00", "agent"), "1.0.0 uninstall erroring", "it may be there");
}

#[test]
fn what_is_to_be_uninstalled_is_asked_of_the_resource_as_it_is_when_it_goes() {
    let plain = || package("agent", "1.0.0");
    for (first, last, uninstalls) in [
        (plain(), plain().with_uninstall(), true),
        (plain().with_uninstall(), plain(), false),
        (plain().with_uninstall(), package("agent", "2.0.0").with_uninstall(), true),
        (plain().with_uninstall(), package("agent", "2.0.0"), false),
        (plain(), package("agent", "2.0.0").with_uninstall(), false),
    ] {
        let mut world = world(1, rollout(1, vec![first]));
        world.run();
        // Nothing of the change is taken in before the deletion comes.
        resource(&mut world).paused = true;
        world.set_rollout(rollout(1, vec![last]));
        world.settle();
        delete(&mut world);
        world.settle();
        assert_eq!(is_gone(&world), !uninstalls, "a paused one goes if nothing is to be done");
        if uninstalls {
            resource(&mut world).paused = false;
            world.run();
            assert_left_in_order(&world);
        }
        let state = world.input.observed.nodes["node-00"].rollouts.get("tuning");
        let entries = state.map_or(0, |state| state.entries.len());
        assert_eq!(entries == 0, uninstalls);
    }
}

#[test]
fn an_uninstall_that_interrupts_pulls_what_was_installed_and_then_the_resource_goes() {
    let kernel =
        |version| package("kernel", version).interrupting(InterruptKind::Reboot).with_uninstall();
    for last in ["1.0.0", "2.0.0"] {
        let mut world = world(2, rollout(1, vec![kernel("1.0.0")]));
        world.run();
        let boots = |world: &World| world.input.observed.nodes["node-01"].boot_id.clone();
        let before = boots(&world);
        // Nothing of a change is taken in before the deletion comes.
        resource(&mut world).paused = true;
        world.set_rollout(rollout(1, vec![kernel(last)]));
        world.settle();
        delete(&mut world);
        resource(&mut world).paused = false;
        let mut pulled = Vec::new();
        for _ in 0..40 {
            world.settle();
            let executors = world.input.observed.executors.values();
            let pulls = executors.filter(|it| it.group == Group::Pull);
            pulled.extend(pulls.map(|it| it.package.to_string()));
            world.finish_all(End::Success);
        }
        assert!(!pulled.is_empty() && pulled.iter().all(|it| it == "kernel|1.0.0"), "{pulled:?}");
        assert_ne!(boots(&world), before, "rebooted");
        assert_left_in_order(&world);
        assert!(world.input.observed.nodes["node-00"].entries("tuning").is_empty());
    }
}

/// Without the record nobody could tell later that the host is another one.
#[test]
fn what_was_on_a_host_that_was_replaced_is_not_named_when_its_resource_goes() {
    for replaced in [false, true] {
        let mut world = world(1, rollout(1, vec![package("agent", "1.0.0")]));
        world.run();
        if replaced {
            world.replace_host("node-00");
        }
        delete(&mut world);
        world.run();
        assert!(is_gone(&world));
        let left = if replaced { "none" } else { "1.0.0 config complete" };
        assert_eq!(world.entry("node-00", "agent"), left);
    }
}
