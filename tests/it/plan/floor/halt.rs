//! `nodewright stop --all` in mid-rollout: nothing new is disturbed, what runs ends, and it goes on
//! where it was.

use nodewright::model::{Action, InterruptKind, PatchKind, Reason, Record};
use nodewright::plan::world::{End, Fate, World};

use super::super::builders::{PackageExt, WorldExt, package, pod, rollout, world};

fn stop(world: &mut World) {
    world.input.halt = Some(Reason::StoppedByHand { note: "ada: fire drill".to_owned() });
}

fn open(world: &World) -> usize {
    let nodes = world.input.observed.nodes.values();
    nodes.filter(|node| node.record("tuning", "uid-tuning").is_some_and(Record::is_open)).count()
}

/// Ticks and ends what runs until nothing is left to do; nothing new may be disturbed.
fn play_stopped(world: &mut World) {
    for _ in 0..50 {
        let (plan, breaches, done) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        for action in &plan.actions {
            let disturbs = match action {
                Action::PatchNode(patch) => {
                    matches!(patch.kind, PatchKind::Pick { .. })
                        || patch.unschedulable == Some(true)
                }
                action => matches!(action, Action::Evict(_) | Action::CreateExecutor(_)),
            };
            assert!(!disturbs, "{action:?}");
        }
        if done == 0 && world.finish_all(End::Success) == 0 {
            return;
        }
        world.pass(60);
    }
    panic!("it does not come to rest");
}

/// The rollout, stopped before any of its ticks: the end is the same, with the same batches.
#[test]
fn a_stop_between_any_two_ticks_disturbs_nobody_new_and_the_rest_is_as_without_it() {
    let fleet = || {
        let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
        let mut world = world(5, rollout(2, vec![kernel, package("motd", "1.0.0")]));
        world.input.floor.first_use = Some(1);
        (0..5).for_each(|node| {
            world.add_pod(pod(&format!("node-{node:02}"), &format!("web-{node}"), &[]));
        });
        world
    };
    let mut undisturbed = fleet();
    let mut ticks = 0;
    for _ in 0..500 {
        let (_, _, done) = undisturbed.tick(|_| Fate::Done);
        ticks += 1;
        if done == 0 && undisturbed.finish_all(End::Success) == 0 {
            break;
        }
    }
    assert!(undisturbed.is_complete() && ticks > 20);
    for stop_at in 0..ticks {
        let mut world = fleet();
        for _ in 0..stop_at {
            let (_, _, done) = world.tick(|_| Fate::Done);
            if done == 0 {
                world.finish_all(End::Success);
            }
        }
        stop(&mut world);
        let before = open(&world);
        play_stopped(&mut world);
        assert!(open(&world) <= before);
        world.input.halt = None;
        world.run();
        assert!(world.is_complete(), "stopped before tick {stop_at}");
        assert!(world.reboots.values().all(|reboots| *reboots == 1));
        let batch = |world: &World| {
            let status = world.input.observed.resources["tuning"].status.clone().expect("a status");
            status.memory.compartments["__default__"].batch_state.current_batch
        };
        assert_eq!(batch(&world), batch(&undisturbed), "stopped before tick {stop_at}");
    }
}

#[test]
fn who_waits_says_who_stopped_it() {
    let mut world = world(2, rollout(1, vec![package("motd", "1.0.0")]));
    world.settle();
    stop(&mut world);
    let expected = "Blocked: everything is stopped by hand (ada: fire drill): nothing new is \
                    disturbed";
    assert_eq!(world.verdict("node-00"), expected);
    assert_eq!(world.verdict("node-01"), expected);
    world.run();
    assert_eq!(world.entry("node-00", "motd"), "1.0.0 config complete", "what ran has ended");
    assert_eq!(world.entry("node-01", "motd"), "none");
}

#[test]
fn a_cordon_that_is_lifted_while_everything_is_stopped_is_not_put_back() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![kernel]));
    world.settle();
    stop(&mut world);
    world.uncordon("node-00", "autoscaler");
    play_stopped(&mut world);
    assert!(!world.input.observed.nodes["node-00"].unschedulable);
}

#[test]
fn a_deletion_uninstalls_nothing_while_everything_is_stopped() {
    let mut world = world(2, rollout(1, vec![package("motd", "1.0.0").with_uninstall()]));
    world.run();
    world.input.observed.resources.get_mut("tuning").expect("the resource").deleting = true;
    stop(&mut world);
    play_stopped(&mut world);
    assert_eq!(world.entry("node-00", "motd"), "1.0.0 config complete");
    world.input.halt = None;
    world.run();
    assert!(!world.input.observed.resources.contains_key("tuning"));
}
