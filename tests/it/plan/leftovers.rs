//! What an earlier visit left behind does not outlive its reason.

use nodewright::model::{InterruptKind, Outcome, Rollout};
use nodewright::plan::world::{End, World};

use super::builders::{PackageExt, WorldExt, package, pod, rollout, world};

/// Fails every attempt on the only node, which stays cordoned.
fn failed(wanted: Rollout) -> World {
    let mut world = world(1, wanted);
    give_up(&mut world);
    world
}

fn give_up(world: &mut World) {
    for _ in 1..=4 {
        world.settle();
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
    }
    world.settle();
    assert!(world.input.observed.nodes["node-00"].unschedulable, "kept for people to look at");
}

#[test]
fn a_node_is_let_go_when_the_package_that_failed_there_is_not_wanted_any_more() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = failed(rollout(1, vec![reboot, package("motd", "1.0.0")]));
    world.set_rollout(rollout(1, vec![package("motd", "1.0.0")]));
    world.run();
    let node = &world.input.observed.nodes["node-00"];
    assert!(!node.unschedulable && node.cordons.is_empty(), "{node:#?}");
    assert_eq!(world.verdict("node-00"), "Done: every package is as wanted");
}

/// The record of the second failure says nothing of the cordon, which the first one left.
#[test]
fn a_node_is_let_go_also_after_a_second_failure_that_needed_no_cordon() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    type Change = fn(&mut World);
    let ends: [(&str, Change); 4] = [
        ("the package is taken out", |world| {
            world.set_rollout(rollout(1, vec![package("motd", "1.0.0")]));
        }),
        ("the node is not selected any more", |world| {
            world.change_node("node-00", |node| node.labels.clear());
        }),
        ("another resource of that name", |world| {
            world.change_resource("tuning", |resource| resource.uid = "uid-of-another".to_owned());
        }),
        ("the manifest is deleted", |world| {
            world.input.desired.rollouts.remove("tuning");
            world.input.observed.resources.remove("tuning");
        }),
    ];
    for (what, end) in ends {
        let on_gpus = |kernel| {
            let labels = std::collections::BTreeMap::from([("pool".to_owned(), "gpu".to_owned())]);
            Rollout { nodes: labels.into_iter().collect(), ..rollout(1, vec![kernel]) }
        };
        let mut world = failed(on_gpus(reboot.clone()));
        world.set_rollout(on_gpus(package("kernel", "1.0.1")));
        give_up(&mut world);
        let record = world.input.observed.nodes["node-00"].rollouts["tuning"].record.clone();
        let record = record.expect("a record");
        assert_eq!((record.outcome, record.held), (Some(Outcome::Erroring), false), "{what}");
        end(&mut world);
        world.run();
        let node = &world.input.observed.nodes["node-00"];
        assert!(!node.unschedulable && node.cordons.is_empty(), "{what}: {node:#?}");
    }
}

#[test]
fn a_drain_begins_with_a_new_clock_after_one_that_took_too_long() {
    let wanted = |version: &str| {
        let reboot = package("kernel", version).interrupting(InterruptKind::Reboot);
        let mut wanted = rollout(1, vec![reboot]);
        wanted.drain.timeout = Some(std::time::Duration::from_secs(60));
        wanted
    };
    let mut world = world(1, wanted("1.0.0"));
    world.add_pod(pod("node-00", "web", &[]));
    world.guarded.insert("uid-web".to_owned());
    world.settle();
    world.pass(61);
    world.settle();
    world.set_rollout(wanted("1.0.1"));
    world.settle();
    let verdict = world.verdict("node-00");
    assert!(verdict.starts_with("Wait: a disruption budget holds pod ml/web"), "{verdict}");
    world.guarded.clear();
    world.pass(11);
    world.run();
    assert!(world.is_complete());
}

#[test]
fn numbers_that_somebody_wrote_into_annotations_and_status_do_not_overflow() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    world.run();
    let node = world.input.observed.nodes.get_mut("node-00").unwrap();
    let record = node.rollouts.get_mut("tuning").unwrap().record.as_mut().unwrap();
    record.visit = u64::MAX;
    record.attempts.insert("motd".to_owned(), u32::MAX);
    let status = world.input.observed.resources.get_mut("tuning").unwrap().status.as_mut().unwrap();
    status.memory.order_next = u32::MAX - 1;
    world.set_rollout(rollout(1, vec![package("motd", "1.0.1")]));
    world.settle();
}
