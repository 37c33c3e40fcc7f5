//! What a visit begins with, and what stands on a node before it: numbers that nobody else has,
//! hosts that are others, versions that were begun and taken back.

use jiff::SignedDuration;
use nodewright::model::{Action, InterruptKind, Record, Taint, TaintEffect};
use nodewright::plan::plan;
use nodewright::plan::world::{End, World};

use super::builders::{PackageExt, WorldExt, package, pod, rollout, world};
use super::drain_table::held;
use super::selection::node;

const HERE: &str = "node-00";

fn record(world: &World) -> &Record {
    let record = world.input.observed.nodes[HERE].record("tuning", "uid-tuning");
    record.expect("a visit")
}

/// How often a stage of a package ran on the first node.
fn ran(world: &World, package: &str, stage: &str) -> usize {
    let runs = world.completed.iter();
    runs.filter(|(on, of, _, at, _)| on == HERE && of == package && at.as_str() == stage).count()
}

#[test]
fn a_visit_has_a_number_that_no_pod_of_a_visit_before_has_whose_record_was_taken_away() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    world.settle();
    let before = record(&world).visit;
    // Within a second, so that the clock does not tell the two apart.
    node(&mut world, HERE).rollouts.clear();
    world.settle();
    assert_eq!(record(&world).visit, before + 1);
    let mut executors = world.input.observed.executors.values_mut();
    let of_other = executors.next().expect("a pod");
    of_other.visit.rollout = "other".to_owned();
    of_other.visit.visit = before + 100;
    node(&mut world, HERE).rollouts.clear();
    world.settle();
    assert!(record(&world).visit < before + 100, "another rollout counts by itself");
}

#[test]
fn a_node_is_held_from_the_start_for_an_interrupt_that_comes_later() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let packages = vec![package("base", "1.0.0"), kernel.after("base", "1.0.0")];
    let mut world = world(1, rollout(1, packages));
    world.settle();
    let running: Vec<&str> = world
        .active()
        .iter()
        .map(|name| world.input.observed.executors[name].package.name.as_str())
        .map(|name| if name == "base" { "base" } else { "another" })
        .collect();
    assert_eq!(running, ["base"]);
    assert!(record(&world).held && world.input.observed.nodes[HERE].unschedulable);
}

/// Whoever takes a card out between two visits is not waited for.
#[test]
fn a_node_owes_the_gpus_it_offered_before_a_visit_that_failed_alone() {
    let kernel = |version: &str| {
        rollout(1, vec![package("kernel", version).interrupting(InterruptKind::Reboot)])
    };
    let mut world = world(1, kernel("1.0.0"));
    node(&mut world, HERE).gpus = Some(8);
    world.run();
    node(&mut world, HERE).gpus = Some(4);
    world.set_rollout(kernel("1.0.1"));
    world.run();
    assert!(world.is_complete(), "{}", world.verdict(HERE));
}

#[test]
fn a_host_whose_machine_id_is_not_known_is_not_another_one() {
    type Change = fn(&mut World);
    let unknown: [Change; 2] = [
        |world| node(world, HERE).machine_id.clear(),
        |world| {
            let state = node(world, HERE).rollouts.get_mut("tuning").expect("our state");
            state.record.as_mut().expect("a visit").machine_id.clear();
        },
    ];
    for unknown in unknown {
        let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
        world.settle();
        unknown(&mut world);
        world.run();
        assert!(world.is_complete());
        assert_eq!(ran(&world, "motd|1.0.0", "apply"), 1);
    }
}

/// Only a reboot of ours that is under way may have cost the host its machine ID.
#[test]
fn c13_a_host_replaced_outside_of_its_reboot_was_not_lost_to_it() {
    for kind in [InterruptKind::Reboot, InterruptKind::Service] {
        for rounds in 0..3 {
            let kernel = package("kernel", "1.0.0").interrupting(kind);
            let mut world = world(1, rollout(1, vec![kernel]));
            world.settle();
            for _ in 0..rounds {
                world.finish_all(End::Success);
                world.settle();
            }
            let interrupting = record(&world).phase == nodewright::model::Phase::Interrupting;
            let lost = u32::from(interrupting && kind == InterruptKind::Reboot);
            node(&mut world, HERE).machine_id = "machine-spare".to_owned();
            world.input.observed.executors.clear();
            let planned = plan(&world.input).actions;
            let patch = planned.iter().find_map(|action| match action {
                Action::PatchNode(patch) => patch.record.as_ref(),
                _ => None,
            });
            let patch = patch.expect("the visit is closed");
            assert_eq!(patch.hosts_lost, lost, "{kind:?} after {rounds}");
            assert_eq!(patch.reason.as_deref(), Some("HostReplaced"));
        }
    }
}

#[test]
fn a_node_that_leaves_its_visit_says_why() {
    let packages = vec![package("a", "1.0.0"), package("b", "1.0.0").after("a", "1.0.0")];
    let mut world = world(1, rollout(1, packages));
    world.settle();
    node(&mut world, HERE).ignored = true;
    world.run();
    let said = (record(&world).reason.as_deref(), record(&world).message.as_deref());
    assert_eq!(said, (Some("Ignored"), Some("ignored by label")));
}

#[test]
fn a_version_that_was_begun_and_taken_back_is_put_right() {
    let motd = |version: &str| rollout(1, vec![package("motd", version)]);
    let mut world = world(1, motd("1.0.0"));
    world.run();
    world.set_rollout(motd("2.0.0"));
    world.settle();
    world.finish_all(End::Failure);
    world.settle();
    world.pass(5);
    world.set_rollout(motd("1.0.0"));
    world.run();
    assert_eq!(ran(&world, "motd|1.0.0", "apply"), 2, "half of 2.0.0 is on the host");
    assert_eq!(world.entry(HERE, "motd"), "1.0.0 config complete");
    assert!(world.is_complete());
}

#[test]
fn what_an_uninstall_takes_away_is_of_its_package_alone() {
    let agent = |version: &str| {
        let packages = vec![package("agent", version).with_uninstall(), package("motd", "1.0.0")];
        rollout(1, packages)
    };
    let mut world = world(1, agent("2.0.0"));
    world.run();
    world.set_rollout(agent("1.0.0"));
    world.run();
    assert!(world.is_complete());
    assert_eq!(ran(&world, "agent|2.0.0", "uninstall"), 1);
    assert_eq!(ran(&world, "agent|1.0.0", "apply"), 1);
    assert_eq!(ran(&world, "motd|1.0.0", "apply"), 1, "it was there all the time");
}

#[test]
fn a_snapshot_that_somebody_deleted_makes_nothing_run_again_that_is_as_wanted() {
    let mut world =
        world(1, rollout(1, vec![package("motd", "1.0.0").with_config("text", "hello")]));
    world.run();
    world.input.observed.snapshots.clear();
    world.run();
    assert!(world.is_complete());
    assert_eq!(ran(&world, "motd|1.0.0", "config"), 1);
}

#[test]
fn with_serial_what_has_begun_goes_on_before_anything_else_begins() {
    let serial = |packages| {
        let mut wanted = rollout(1, packages);
        wanted.serial = true;
        wanted
    };
    let late = || package("z-late", "1.0.0");
    let mut world = world(1, serial(vec![late()]));
    world.settle();
    world.set_rollout(serial(vec![late(), package("a-early", "1.0.0")]));
    world.finish_all(End::Failure);
    world.settle();
    assert_eq!(world.entry(HERE, "a-early"), "none", "z-late has its turn until it is done");
    world.pass(600);
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    assert_eq!(world.entry(HERE, "z-late"), "1.0.0 config complete");
    world.run();
    assert!(world.is_complete());
}

/// A22, where no other node takes the daemon's pod: moved, nothing would uncordon the node again.
#[test]
fn a22_the_daemons_own_pod_is_moved_where_another_node_takes_it() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, bool); 5] = [
        ("one takes it", |_| {}, true),
        ("it is down", |world| node(world, "other").ready = false, false),
        ("it is cordoned", |world| node(world, "other").unschedulable = true, false),
        ("it goes", |world| node(world, "other").deleting = true, false),
        (
            "it is another's pod",
            |world| {
                world.input.own_pod = Some("nodewright/another".to_owned());
                node(world, "other").ready = false;
            },
            true,
        ),
    ];
    for (case, change, moved) in cases {
        let mut world = held(|_| {});
        let own = pod(HERE, "nodewright", &[]);
        world.input.own_pod = Some(own.reference.to_string());
        world.add_pod(own);
        world.add_node("other", &[]);
        change(&mut world);
        let evicts = |action: &Action| matches!(action, Action::Evict(_));
        assert_eq!(plan(&world.input).actions.iter().any(evicts), moved, "{case}");
    }
}

/// Nothing else will say that the pod is gone, so the clock must.
#[test]
fn a16_a_drain_looks_again_when_the_time_of_a_pod_on_an_unreachable_node_is_over() {
    let mut world = held(|_| {});
    let deletes_at = world.input.now + SignedDuration::from_secs(30);
    let mut leaving = pod(HERE, "web", &[]);
    (leaving.terminating, leaving.deletes_at) = (true, Some(deletes_at));
    let going = leaving.reference.to_string();
    world.add_pod(leaving);
    let over = deletes_at + SignedDuration::from_mins(1);
    assert_ne!(plan(&world.input).wake_at, Some(over), "its kubelet says when it is gone");
    let key = "node.kubernetes.io/unreachable".to_owned();
    let taint = Taint { key, value: String::new(), effect: TaintEffect::NoExecute };
    node(&mut world, HERE).taints.push(taint);
    assert_eq!(plan(&world.input).wake_at, Some(over));
    let pods = world.input.observed.pods.get_mut(HERE).expect("pods");
    let mut later = pods[&going].clone();
    later.reference.name = "later".to_owned();
    later.deletes_at = Some(over);
    pods.insert(later.reference.to_string(), later);
    assert_eq!(plan(&world.input).wake_at, Some(over), "for the first of them");
}
