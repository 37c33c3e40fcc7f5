//! Images are pulled before the cordon; one that cannot be costs nothing (T19, design §6).

use std::collections::BTreeSet;

use jiff::SignedDuration;
use nodewright::model::{
    Action, DEFAULT_COMPARTMENT, Executor, ExecutorPhase, Group, InterruptKind, Plan, VerdictKind,
    Waiting, Work,
};
use nodewright::plan::world::{End, Fate, Images, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};

pub(super) fn kernel(version: &str) -> nodewright::model::Package {
    package("kernel", version).interrupting(InterruptKind::Reboot)
}

pub(super) fn fleet(nodes: u32, budget: u32) -> World {
    let mut world = world(nodes, rollout(budget, vec![kernel("1.0.0")]));
    world.images = Images::Pulled;
    world
}

pub(super) fn pulls(world: &World) -> Vec<&Executor> {
    let all = world.input.observed.executors.values();
    all.filter(|executor| executor.group == Group::Pull).collect()
}

/// Lets the pulls of some nodes fail as a kubelet tells of it.
pub(super) fn break_pulls(world: &mut World, reason: &str, nodes: impl Fn(&str) -> bool) {
    for executor in world.input.observed.executors.values_mut() {
        let is_meant = executor.group == Group::Pull && nodes(&executor.visit.node);
        if is_meant && executor.is_active() {
            executor.phase = ExecutorPhase::Pending;
            executor.begun = false;
            executor.waiting = Some(Waiting {
                reason: reason.to_owned(),
                message: "not found".to_owned(),
                image: "registry.example/kernel:1.0.0".to_owned(),
                since: executor.created,
            });
        }
    }
}

fn untouched(world: &World) {
    for node in world.input.observed.nodes.values() {
        assert!(!node.unschedulable && node.cordons.is_empty(), "{} is touched", node.name);
        assert!(node.rollouts.values().all(|state| state.record.is_none()), "{}", node.name);
    }
}

fn plan(world: &World) -> Plan {
    nodewright::plan::plan(&world.input)
}

#[test]
fn a_node_gets_its_images_before_it_is_cordoned() {
    let mut world = fleet(3, 2);
    world.settle();
    let nodes: BTreeSet<&str> = pulls(&world).iter().map(|pull| pull.visit.node.as_str()).collect();
    assert_eq!(nodes, BTreeSet::from(["node-00", "node-01"]), "as many as the batch has room for");
    untouched(&world);
    assert_eq!(
        world.verdict("node-00"),
        "Wait: pulling the images of kernel|1.0.0 since 2026-11-30T12:00:03Z, before the cordon"
    );
    world.finish_all(End::Success);
    world.settle();
    let held = world.input.observed.nodes.values().filter(|node| node.unschedulable).count();
    assert_eq!(held, 2);
    world.run();
    assert!(world.is_complete());
    assert_eq!(world.peak["tuning"], 2);
}

#[test]
fn what_interrupts_nothing_needs_no_pull() {
    let mut world = world(2, rollout(2, vec![package("motd", "1.0.0")]));
    world.settle();
    assert!(pulls(&world).is_empty());
    assert_eq!(world.active().len(), 2, "they are at work already");
}

#[test]
fn every_package_of_a_visit_that_interrupts_is_pulled() {
    let mut world = world(1, rollout(1, vec![kernel("1.0.0"), package("motd", "1.0.0")]));
    world.images = Images::Pulled;
    world.settle();
    let names: Vec<&str> = pulls(&world).iter().map(|pull| pull.package.name.as_str()).collect();
    assert_eq!(names, ["kernel", "motd"]);
    let first = pulls(&world)[0].reference.name.clone();
    world.end(&first, End::Success);
    world.settle();
    untouched(&world);
}

#[test]
fn t19_an_image_that_cannot_be_pulled_costs_no_cordon_and_says_so() {
    for reason in ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerError"] {
        let mut world = fleet(1, 1);
        world.settle();
        break_pulls(&mut world, reason, |_| true);
        world.settle();
        untouched(&world);
        let verdict = world.verdict("node-00");
        let expected = format!(
            "Blocked: image registry.example/kernel:1.0.0 cannot be pulled on node-00 since \
             2026-11-30T12:00:01Z, the node is untouched: {reason}: not found"
        );
        assert_eq!(verdict, expected);
        let status = world.input.observed.resources["tuning"].status.clone().expect("written");
        let ready = status.conditions.iter().find(|it| it.kind == "Ready").expect("a condition");
        assert!(ready.message.contains("registry.example/kernel:1.0.0"), "{}", ready.message);
        let memory = &status.memory.compartments[DEFAULT_COMPARTMENT];
        assert_eq!(memory.batch_state.failed_nodes, 0, "no failure of the batch");
        world.pass(7200);
        world.settle();
        assert_eq!(pulls(&world).len(), 1, "the kubelet tries by itself");
    }
}

#[test]
fn t19_a_corrected_tag_is_pulled_at_once() {
    let mut world = fleet(1, 1);
    world.settle();
    break_pulls(&mut world, "ErrImagePull", |_| true);
    world.settle();
    world.set_rollout(rollout(1, vec![kernel("1.0.1")]));
    world.settle();
    let there: Vec<String> = pulls(&world).iter().map(|pull| pull.package.to_string()).collect();
    assert_eq!(there, ["kernel|1.0.1"], "the old one is gone");
    world.run();
    assert!(world.is_complete());
    assert_eq!(world.reboots["node-00"], 1);
}

#[test]
fn a_node_that_cannot_pull_lets_the_others_go_first() {
    let mut world = fleet(3, 1);
    for _ in 0..40 {
        world.settle();
        break_pulls(&mut world, "ErrImagePull", |node| node == "node-00");
        let active: Vec<String> = world.active();
        world.pass(5);
        for name in active {
            let stuck = world.input.observed.executors[&name].waiting.is_some();
            if !stuck {
                world.end(&name, End::Success);
            }
        }
    }
    assert_eq!(world.reboots.keys().collect::<Vec<_>>(), ["node-01", "node-02"]);
    assert!(world.verdict("node-00").starts_with("Blocked: image"), "{}", world.verdict("node-00"));
    let status = world.input.observed.resources["tuning"].status.as_ref().expect("written");
    assert_eq!(status.nodes_complete, 2);
    // The registry is well again.
    for executor in world.input.observed.executors.values_mut() {
        executor.waiting = None;
    }
    world.run();
    assert!(world.is_complete());
}

#[test]
fn a_wrong_tag_does_not_leave_a_pod_on_every_node() {
    let mut world = fleet(50, 2);
    for _ in 0..20 {
        world.settle();
        break_pulls(&mut world, "ErrImagePull", |_| true);
        world.pass(1);
    }
    let tried = pulls(&world).len();
    assert!((3..=4).contains(&tried), "{tried} nodes were tried");
    let plan = plan(&world);
    let blocked = plan.verdicts["tuning"].values();
    assert!(blocked.clone().all(|verdict| verdict.kind == VerdictKind::Blocked));
    assert!(blocked.clone().all(|verdict| verdict.reason.word() == "PullFailed"));
    assert!(plan.wake_at.is_some(), "one more tries after a while");
    world.pass(600);
    world.settle();
    assert!((tried + 1..=tried + 2).contains(&pulls(&world).len()), "a few more are tried");
    untouched(&world);
}

#[test]
fn a_pull_pod_that_is_lost_is_tried_again_later() {
    let mut world = fleet(1, 1);
    world.settle();
    for round in 0..6 {
        world.finish_all(End::Disruption);
        world.settle();
        let verdict = world.verdict("node-00");
        assert!(verdict.contains("its pod was lost: evicted"), "round {round}: {verdict}");
        assert!(world.active().is_empty(), "not at once");
        let wake = plan(&world).wake_at.expect("a time");
        let seconds = wake.duration_since(world.input.now).as_secs();
        world.pass(seconds);
        world.settle();
        assert!(pulls(&world).len() <= 3, "only the first and the last two are kept");
    }
    untouched(&world);
    world.run();
    assert!(world.is_complete());
}

#[test]
fn a_kubelet_that_never_starts_the_pull_is_named() {
    let mut world = fleet(1, 1);
    world.settle();
    for executor in world.input.observed.executors.values_mut() {
        executor.phase = ExecutorPhase::Pending;
        executor.begun = false;
    }
    world.pass(300);
    world.settle();
    let verdict = world.verdict("node-00");
    assert!(verdict.ends_with("the kubelet has not started the pod: look at the kubelet"));
    untouched(&world);
}

#[test]
fn a_success_is_believed_for_an_hour() {
    let mut world = fleet(1, 1);
    world.settle();
    world.finish_all(End::Success);
    let node = world.input.observed.nodes.get_mut("node-00").expect("there");
    node.ready = false;
    world.pass(3601);
    world.settle();
    assert!(pulls(&world).is_empty(), "{:?}", pulls(&world));
    world.input.observed.nodes.get_mut("node-00").expect("there").ready = true;
    world.settle();
    assert_eq!(world.active().len(), 1);
    world.run();
    assert!(world.is_complete());
}

#[test]
fn pause_takes_pulls_away() {
    let mut world = fleet(1, 1);
    world.settle();
    world.input.observed.resources.get_mut("tuning").expect("there").paused = true;
    world.settle();
    assert!(pulls(&world).is_empty());
}

#[test]
fn pulls_go_with_the_pods_of_the_visit_in_one_request() {
    let mut world = fleet(2, 2);
    world.run();
    let mut requests = Vec::new();
    for _ in 0..10 {
        world.pass(30);
        let (plan, _, _) = world.tick(|_| Fate::Done);
        requests.extend(plan.actions);
    }
    let [Action::DeleteExecutors { visits, .. }] = &requests[..] else {
        panic!("one request: {requests:?}")
    };
    assert_eq!(visits.len(), 4, "two visits and their pulls");
    assert!(world.input.observed.executors.is_empty());
}

#[test]
fn a_pull_is_audited() {
    let mut world = fleet(1, 1);
    world.settle();
    let pull = pulls(&world)[0].clone();
    let mut rogue = plan(&world);
    rogue.actions.push(Action::CreateExecutor(nodewright::model::ExecutorSpec {
        visit: pull.visit.clone(),
        rollout_uid: "uid-tuning".to_owned(),
        generation: 1,
        order: 0,
        attempt: 9,
        snapshot: pull.snapshot.clone(),
        work: Work::Pull { package: kernel("1.0.0") },
        tolerations: Vec::new(),
    }));
    assert_eq!(nodewright::plan::audit(&world.input, &rogue), vec![], "a batch is open");
    world.input.observed.resources.get_mut("tuning").expect("there").status = None;
    assert_eq!(nodewright::plan::audit(&world.input, &rogue).len(), 1);
}

#[test]
fn a_downgrade_pulls_both_versions_at_once_and_the_audit_agrees() {
    let rebooting = |version| {
        let package = package("kernel", version).interrupting(InterruptKind::Reboot);
        rollout(1, vec![package.with_uninstall()])
    };
    let mut world = world(1, rebooting("2.0.0"));
    world.run();
    world.pass(7_200);
    world.set_rollout(rebooting("1.0.0"));
    world.run();
    assert!(world.is_complete());
}

/// Nothing else says when a kubelet takes too long to begin with it.
#[test]
fn a_node_that_pulls_is_looked_at_again_when_its_time_is_over() {
    let mut world = fleet(1, 1);
    world.settle();
    let created = pulls(&world)[0].created;
    for executor in world.input.observed.executors.values_mut() {
        executor.phase = ExecutorPhase::Pending;
        executor.waiting = None;
    }
    assert_eq!(plan(&world).wake_at, Some(created + SignedDuration::from_mins(5)));
    for executor in world.input.observed.executors.values_mut() {
        executor.terminating = true;
    }
    assert_eq!(plan(&world).wake_at, None, "its end is an event");
}

#[test]
fn the_image_of_one_package_is_not_that_of_another() {
    let packages = vec![kernel("1.0.0"), package("driver", "1.0.0")];
    let mut world = world(1, rollout(1, packages));
    world.images = Images::Pulled;
    world.settle();
    let names: Vec<String> = world.active();
    assert_eq!(names.len(), 2);
    for (left, name) in names.iter().enumerate() {
        untouched(&world);
        assert_eq!(world.active().len(), 2 - left);
        world.end(name, End::Success);
        world.settle();
    }
    assert!(world.input.observed.nodes["node-00"].unschedulable, "both are there");
}
