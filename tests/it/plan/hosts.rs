//! Hosts that change under their Node object: replaced, made anew, rebooted by others.

use nodewright::model::{InterruptKind, Node, Outcome, Record, Rollout, Stage, State, TaintEffect};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::selection::{node, taint};

fn kernel() -> Rollout {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let driver = package("driver", "1.0.0").after("kernel", "1.0.0");
    rollout(1, vec![kernel, driver])
}

fn record(world: &World, name: &str) -> Record {
    let node = &world.input.observed.nodes[name];
    node.record("tuning", &world.input.observed.resources["tuning"].uid).expect("visited").clone()
}

/// Puts another machine behind the Node object, as after a repair by exchange.
fn replace(world: &mut World, name: &str, machine: &str) {
    let node = node(world, name);
    machine.clone_into(&mut node.machine_id);
    node.boot_id = format!("boot-of-{machine}");
}

/// How often `stage` of `package` ran on `node`.
fn ran(world: &World, node: &str, package: &str, stage: &str) -> usize {
    let runs = world.completed.iter();
    runs.filter(|(on, of, _, at, _)| on == node && of == package && at.as_str() == stage).count()
}

#[test]
fn f5_a_host_replaced_under_its_node_object_is_installed_again_in_its_turn() {
    let mut world = world(3, kernel());
    world.run();
    replace(&mut world, "node-01", "spare");
    world.input.observed.nodes.get_mut("node-00").expect("a node").unschedulable = true;
    world.run();
    assert!(world.verdict("node-01").starts_with("Wait: budget used: 1 of 1"), "paced");
    world.input.observed.nodes.get_mut("node-00").expect("a node").unschedulable = false;
    world.settle();
    let begun = record(&world, "node-01");
    assert_eq!(begun.reason.as_deref(), Some("HostReplaced"));
    assert_eq!(
        begun.message.as_deref(),
        Some(
            "another host under the same Node object, machine ID machine-node-01 became spare: \
             everything is installed again"
        )
    );
    assert_eq!(begun.machine_id, "spare");
    world.run();
    assert!(world.is_complete());
    assert_eq!(ran(&world, "node-01", "kernel|1.0.0", "apply"), 2);
    assert_eq!(ran(&world, "node-00", "kernel|1.0.0", "apply"), 1);
    assert_eq!(world.reboots["node-01"], 2);
}

#[test]
fn a_host_replaced_in_the_middle_of_a_visit_begins_anew_at_every_step() {
    for steps in 0.. {
        let mut world = world(2, kernel());
        for _ in 0..steps {
            let (_, breaches, done) = world.tick(|_| Fate::Done);
            assert_eq!(breaches, vec![]);
            if done == 0 && world.finish_all(End::Success) == 0 {
                assert!(steps > 12, "a visit has many steps: {steps}");
                return;
            }
        }
        let runs_before = ran(&world, "node-00", "driver|1.0.0", "apply");
        replace(&mut world, "node-00", "spare");
        world.run();
        assert!(world.is_complete(), "step {steps}: {}", world.verdict("node-00"));
        let node = &world.input.observed.nodes["node-00"];
        assert!(!node.unschedulable && node.cordons.is_empty(), "step {steps}");
        assert_eq!(record(&world, "node-00").machine_id, "spare", "step {steps}");
        let runs = ran(&world, "node-00", "driver|1.0.0", "apply") - runs_before;
        assert_eq!(runs, 1, "step {steps}: installed on the host that is there now");
    }
}

#[test]
fn c13_a_machine_id_that_does_not_outlive_a_reboot_ends_as_a_failure_that_says_so() {
    let mut world = world(1, kernel());
    let mut machines = 0;
    for _ in 0..200 {
        let (_, breaches, done) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        if done > 0 {
            continue;
        }
        let reboots = world.reboots.get("node-00").copied().unwrap_or(0);
        if world.finish_all(End::Success) == 0 {
            break;
        }
        if world.reboots.get("node-00").copied().unwrap_or(0) > reboots {
            machines += 1;
            node(&mut world, "node-00").machine_id = format!("transient-{machines}");
        }
    }
    assert_eq!(world.reboots["node-00"], 2, "it is not rebooted for ever");
    assert_eq!(record(&world, "node-00").outcome, Some(Outcome::Erroring));
    assert_eq!(
        world.verdict("node-00"),
        "Blocked: interrupt reboot failed: the host was another one after each of 2 reboots: its \
         machine ID does not outlive a reboot, keep /etc/machine-id or leave the reboot out"
    );
}

/// Deletes the Node object and makes it anew under its name.
fn made_anew(world: &mut World, keep: impl Fn(&Node, &mut Node)) {
    let old = world.input.observed.nodes.remove("node-00").expect("a node");
    // Past the time for which the pods of a visit are kept.
    world.pass(300);
    world.add_node("node-00", &[("pool", "gpu")]);
    let new = node(world, "node-00");
    new.uid = "uid-node-00-anew".to_owned();
    keep(&old, new);
}

/// Plays until the images are pulled and the first stage runs.
fn pulled(world: &mut World) {
    for _ in 0..10 {
        world.settle();
        if world.entry("node-00", "kernel") != "none" && !world.active().is_empty() {
            return;
        }
        world.finish_all(End::Success);
    }
    panic!("nothing begins: {}", world.verdict("node-00"));
}

#[test]
fn f5_a_node_object_made_anew_credits_no_executor_of_the_old_one() {
    let mut world = world(1, kernel());
    pulled(&mut world);
    let running = world.active();
    assert_eq!(running.len(), 1);
    made_anew(&mut world, |_, _| {});
    for name in running {
        world.end(&name, End::Success);
    }
    pulled(&mut world);
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 apply in_progress", "begun anew");
    world.run();
    assert!(world.is_complete());
    assert_eq!(ran(&world, "node-00", "kernel|1.0.0", "apply"), 2);
}

#[test]
fn a_node_object_made_anew_with_its_annotations_runs_nothing_again_on_the_same_host_only() {
    for (machine, again) in [("machine-node-00", 1), ("spare", 2)] {
        let mut world = world(1, kernel());
        world.run();
        made_anew(&mut world, |old, new| {
            new.rollouts = old.rollouts.clone();
            new.is_new = false;
            machine.clone_into(&mut new.machine_id);
        });
        world.run();
        assert!(world.is_complete(), "{machine}: {}", world.verdict("node-00"));
        assert_eq!(ran(&world, "node-00", "kernel|1.0.0", "apply"), again, "{machine}");
    }
}

/// A fleet that applies again after reboots, complete.
fn forgetful(rollout: Rollout) -> World {
    let mut world = world(2, rollout);
    world.input.rules.reapply_on_reboot = true;
    world.run();
    assert!(world.is_complete());
    world
}

#[test]
fn c11_everything_is_applied_again_after_a_reboot_of_somebody_else_and_once() {
    let mut world = forgetful(kernel());
    assert_eq!(world.reboots["node-00"], 1, "our own reboot is none to apply again for");
    world.reboot("node-00");
    world.settle();
    let begun = record(&world, "node-00");
    assert_eq!(begun.reason.as_deref(), Some("Reapply"));
    assert_eq!(
        begun.message.as_deref(),
        Some(
            "rebooted since, boot ID boot-node-00-1 became boot-node-00-2: everything is applied \
             again"
        )
    );
    world.run();
    assert!(world.is_complete());
    let applied = |node: &str, package: &str| ran(&world, node, package, "apply");
    assert_eq!(applied("node-00", "kernel|1.0.0"), 2);
    assert_eq!(applied("node-00", "driver|1.0.0"), 2);
    assert_eq!(applied("node-01", "kernel|1.0.0"), 1);
    assert_eq!(world.reboots["node-00"], 2, "a reboot that has just been is not owed again");
}

/// Also what waits for another package is begun in the record, with nothing left of before.
#[test]
fn what_is_applied_again_begins_anew_with_the_image_of_now() {
    let mut world = forgetful(kernel());
    let node = world.input.observed.nodes.get_mut("node-00").expect("the node");
    let state = node.rollouts.get_mut("tuning").expect("visited");
    for entry in state.entries.values_mut() {
        (entry.restarts, entry.untried) = (Some(3), true);
        entry.image = "registry.example/before".to_owned();
        entry.container_sha = Some("sha256:before".to_owned());
    }
    world.reboot("node-00");
    world.pass(60);
    world.settle();
    for entry in world.input.observed.nodes["node-00"].entries("tuning").values() {
        assert_eq!((entry.stage, entry.state), (Stage::Apply, State::InProgress));
        let name = &entry.name;
        assert_eq!((entry.restarts, entry.since), (None, Some(world.input.now)), "{name}");
        assert!(!entry.untried, "{name}");
        assert_eq!(entry.image, format!("registry.example/{name}"));
        assert_eq!(entry.container_sha, None, "{name}");
    }
}

#[test]
fn an_interrupt_that_is_no_reboot_is_owed_again_after_a_reboot() {
    let service = package("ntp", "1.0.0").interrupting(InterruptKind::Service);
    let mut world = forgetful(rollout(1, vec![service]));
    let interrupts = |world: &World| ran(world, "node-00", "ntp|1.0.0", "interrupt");
    assert_eq!(interrupts(&world), 1);
    world.reboot("node-00");
    world.run();
    assert!(world.is_complete());
    assert_eq!(interrupts(&world), 2);
}

#[test]
fn an_upgrade_that_is_due_with_the_reboot_brings_its_own() {
    let mut world = forgetful(kernel());
    world.reboot("node-00");
    let kernel = package("kernel", "1.1.0").interrupting(InterruptKind::Reboot);
    let driver = package("driver", "1.0.0").after("kernel", "1.1.0");
    world.set_rollout(rollout(1, vec![kernel, driver]));
    world.run();
    assert!(world.is_complete());
    assert_eq!(ran(&world, "node-00", "kernel|1.1.0", "apply"), 1, "there is nothing to upgrade");
    assert_eq!(ran(&world, "node-00", "kernel|1.1.0", "upgrade"), 0);
    assert_eq!(ran(&world, "node-01", "kernel|1.1.0", "upgrade"), 1);
    assert_eq!(ran(&world, "node-00", "driver|1.0.0", "apply"), 2);
    assert_eq!(world.reboots["node-00"], 3);
}

#[test]
fn a_reboot_in_the_middle_of_a_visit_is_made_good_after_it() {
    let first = package("first", "1.0.0");
    let second = package("second", "1.0.0").after("first", "1.0.0");
    let mut world = world(1, rollout(1, vec![first, second]));
    world.input.rules.reapply_on_reboot = true;
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    assert_eq!(world.entry("node-00", "first"), "1.0.0 config complete");
    world.reboot("node-00");
    world.settle();
    // A pod that was lost is not started again at once.
    world.pass(60);
    world.run();
    assert!(world.is_complete());
    assert_eq!(ran(&world, "node-00", "first|1.0.0", "apply"), 2);
}

#[test]
fn without_the_flag_a_reboot_is_none_of_our_business() {
    let mut world = world(1, kernel());
    world.run();
    world.reboot("node-00");
    assert!(world.is_complete());
}

#[test]
fn c11_a_node_is_tainted_again_before_it_is_applied_again() {
    let mut wanted = kernel();
    wanted.runtime_required = true;
    wanted.auto_taint_new_nodes = true;
    let mut world = forgetful(wanted);
    let runtime = taint("nodewright.nvidia.com", "runtime-required", TaintEffect::NoSchedule);
    world.reboot("node-00");
    assert_eq!(
        world.verdict("node-00"),
        "Wait: waits for its taint nodewright.nvidia.com to be set first"
    );
    world.settle();
    assert_eq!(world.input.observed.nodes["node-00"].taints, [runtime]);
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 apply in_progress");
    world.run();
    assert!(world.is_complete() && world.input.observed.nodes["node-00"].taints.is_empty());
    assert_eq!(ran(&world, "node-00", "kernel|1.0.0", "apply"), 2);
}

#[test]
fn a_host_without_a_machine_id_is_not_taken_for_another() {
    for (before, now, again) in
        [("", "machine-now", 1), ("machine-before", "", 1), ("machine-before", "machine-now", 2)]
    {
        let mut world = world(1, kernel());
        world.run();
        let node = world.input.observed.nodes.get_mut("node-00").expect("the node");
        now.clone_into(&mut node.machine_id);
        let state = node.rollouts.get_mut("tuning").expect("visited");
        before.clone_into(&mut state.record.as_mut().expect("its record").machine_id);
        world.run();
        assert_eq!(ran(&world, "node-00", "kernel|1.0.0", "apply"), again, "{before} {now}");
    }
}
