//! Nodes that wait for protected pods: let go after a while and put last (design §6).

use jiff::SignedDuration;
use nodewright::model::{
    BatchState, Executor, ExecutorPhase, Group, InterruptKind, Lane, Package, PodRef,
};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, pod, rollout, world};

/// A quarter of an hour.
const PATIENCE_SECONDS: i64 = 15 * 60;

const TRAINING: &[(&str, &str)] = &[("workload", "training")];

fn kernel() -> Package {
    package("kernel", "1.0.0").interrupting(InterruptKind::Reboot)
}

fn train(world: &mut World, node: &str) -> PodRef {
    let pod = pod(node, &format!("train-{node}"), TRAINING);
    world.add_pod(pod.clone());
    pod.reference
}

fn cordoned(world: &World) -> Vec<&str> {
    let nodes = world.input.observed.nodes.values();
    nodes.filter(|node| node.unschedulable).map(|node| node.name.as_str()).collect()
}

/// Both nodes train when the first is picked; then the other one's job ends.
fn waits_on_the_first() -> World {
    let mut world = world(2, rollout(1, vec![kernel()]));
    train(&mut world, "node-00");
    let other = train(&mut world, "node-01");
    world.settle();
    assert_eq!(cordoned(&world), ["node-00"], "somebody must be first");
    world.remove_pod(&other);
    world
}

#[test]
fn a_node_that_waits_too_long_is_let_go_and_put_last_while_others_can_be_done() {
    let mut world = waits_on_the_first();
    world.settle();
    world.pass(PATIENCE_SECONDS - 60);
    world.settle();
    assert_eq!(cordoned(&world), ["node-00"], "not yet");
    world.pass(60);
    let (plan, breaches, _) = world.tick(|_| Fate::Done);
    assert_eq!(breaches, vec![]);
    assert_eq!(plan.verdicts["tuning"]["node-00"].reason.word(), "ProtectedLast");
    let node = &world.input.observed.nodes["node-00"];
    assert!(!node.unschedulable && node.cordons.is_empty(), "schedulable again");
    assert_eq!(
        world.verdict("node-00"),
        "Wait: let go because pod ml/train-node-00 must finish, runs since 2026-11-30T12:00:00Z: \
         tried again after the others"
    );
    world.settle();
    assert_eq!(cordoned(&world), ["node-01"], "the other one is done meanwhile");
    assert_eq!(world.reboots.len(), 0);
    while world.entry("node-01", "kernel") != "1.0.0 post-interrupt complete" {
        world.finish_all(End::Success);
        world.settle();
    }
    assert_eq!(cordoned(&world), ["node-00"], "last, and now there is nobody else");
    assert!(world.verdict("node-00").starts_with("Wait: protected: pod ml/train-node-00"));
    let status = world.input.observed.resources["tuning"].status.clone().expect("a status");
    let BatchState { consecutive_failures, failed_nodes, completed_nodes, .. } =
        status.memory.compartments["__default__"].batch_state;
    assert_eq!(
        (consecutive_failures, failed_nodes, completed_nodes),
        (0, 0, 1),
        "what was let go is out of its batch's verdict"
    );
    world.pass(10 * PATIENCE_SECONDS);
    world.settle();
    assert_eq!(cordoned(&world), ["node-00"], "nobody else is left: it keeps waiting");
    let job = world.input.observed.pods["node-00"]["ml/train-node-00"].reference.clone();
    world.remove_pod(&job);
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    assert_eq!(world.reboots.values().copied().collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_config_change_that_was_let_go_still_interrupts_when_its_turn_comes() {
    let with = |value: &str| {
        let package = package("grub", "1.0.0").on_config("grub*", InterruptKind::Reboot);
        rollout(1, vec![package.with_config("grub.conf", value)])
    };
    let mut world = world(2, with("a"));
    world.run();
    train(&mut world, "node-00");
    let other = train(&mut world, "node-01");
    world.set_rollout(with("b"));
    world.settle();
    assert_eq!(cordoned(&world), ["node-00"]);
    world.remove_pod(&other);
    world.pass(PATIENCE_SECONDS);
    world.settle();
    assert_eq!(cordoned(&world), ["node-01"]);
    let job = world.input.observed.pods["node-00"]["ml/train-node-00"].reference.clone();
    world.remove_pod(&job);
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    assert_eq!(world.reboots.values().copied().collect::<Vec<_>>(), [1, 1], "neither is skipped");
}

#[test]
fn a_node_on_which_something_ran_or_was_moved_is_not_let_go() {
    // A package without interrupt has run beside the workload.
    let mut ran = world(2, rollout(1, vec![kernel(), package("motd", "1.0.0")]));
    train(&mut ran, "node-00");
    let other = train(&mut ran, "node-01");
    ran.settle();
    ran.finish_all(End::Success);
    ran.remove_pod(&other);
    ran.pass(2 * PATIENCE_SECONDS);
    ran.settle();
    assert_eq!(cordoned(&ran), ["node-00"]);
    ran.input.observed.executors.clear();
    ran.settle();
    assert_eq!(cordoned(&ran), ["node-00"], "also when nothing is left of it but the record");

    // The protected pod came after pods were moved: it tolerates the cordon.
    let mut moved = world(2, rollout(1, vec![kernel()]));
    moved.add_pod(pod("node-00", "web", &[]));
    moved.settle();
    assert_eq!(cordoned(&moved), ["node-00"]);
    moved.pass(60);
    let mut late = pod("node-00", "late", TRAINING);
    late.since = moved.input.now;
    moved.add_pod(late);
    moved.pass(2 * PATIENCE_SECONDS);
    moved.settle();
    assert_eq!(cordoned(&moved), ["node-00"]);
    let web = moved.input.observed.pods["node-00"]["ml/web"].reference.clone();
    moved.remove_pod(&web);
    moved.settle();
    assert!(moved.verdict("node-00").starts_with("Wait: protected: pod ml/late"));
    assert_eq!(cordoned(&moved), ["node-00"], "also when only the late one is left");
}

/// An executor that was refused for long and waits for its image now: nothing of it has begun.
fn waiting_beside() -> (World, Executor) {
    let mut world = world(2, rollout(1, vec![kernel(), package("motd", "1.0.0")]));
    train(&mut world, "node-00");
    let other = train(&mut world, "node-01");
    world.settle();
    world.remove_pod(&other);
    world.pass(PATIENCE_SECONDS);
    let minute_ago = world.input.now - SignedDuration::from_mins(1);
    let mut executors = world.input.observed.executors.values_mut();
    let motd = executors.find(|it| it.package.name == "motd" && it.group == Group::Install);
    let motd = motd.expect("a package without an interrupt begins at once");
    (motd.created, motd.begun, motd.running) = (minute_ago, false, None);
    motd.phase = ExecutorPhase::Pending;
    let motd = motd.clone();
    (world, motd)
}

#[test]
fn only_what_this_visit_has_here_keeps_a_node_from_being_let_go() {
    let (mut world, motd) = waiting_beside();
    assert!(world.verdict("node-00").starts_with("Wait: protected: pod ml/train-node-00"));
    for (rollout, later) in [("tuning", 7), ("other", 0)] {
        let mut world = waits_on_the_first();
        world.settle();
        world.pass(PATIENCE_SECONDS);
        let mut left = motd.clone();
        left.visit.rollout = rollout.to_owned();
        left.visit.visit += later;
        left.phase = ExecutorPhase::Succeeded;
        world.input.observed.executors.insert(left.reference.name.clone(), left);
        let plan = nodewright::plan::plan(&world.input);
        let word = plan.verdicts["tuning"]["node-00"].reason.word();
        assert_eq!(word, "ProtectedLast", "{rollout} {later}");
    }
}

#[test]
fn what_is_done_on_another_node_in_this_tick_is_no_reason_to_keep_this_one() {
    let mut world = world(3, rollout(2, vec![kernel()]));
    train(&mut world, "node-00");
    let jobs = ["node-01", "node-02"].map(|node| train(&mut world, node));
    world.settle();
    assert_eq!(cordoned(&world), ["node-00", "node-01"]);
    jobs.iter().for_each(|job| world.remove_pod(job));
    world.settle();
    world.pass(PATIENCE_SECONDS);
    world.active().iter().for_each(|name| world.end(name, End::Success));
    let plan = nodewright::plan::plan(&world.input);
    assert_eq!(plan.verdicts["tuning"]["node-00"].reason.word(), "ProtectedLast");
    let patches = |node: &str| {
        plan.actions.iter().filter(|it| it.lane() == Lane::Node(node.to_owned())).count()
    };
    assert_eq!((patches("node-00"), patches("node-01")), (1, 1));
}

#[test]
fn a_node_found_cordoned_is_let_go_and_stays_cordoned() {
    let mut world = world(2, rollout(1, vec![kernel()]));
    train(&mut world, "node-00");
    let other = train(&mut world, "node-01");
    let node = world.input.observed.nodes.get_mut("node-00").expect("there");
    node.unschedulable = true;
    world.settle();
    world.remove_pod(&other);
    world.pass(PATIENCE_SECONDS);
    world.settle();
    let node = &world.input.observed.nodes["node-00"];
    assert!(node.unschedulable && node.cordons.is_empty(), "it was not ours to lift");
    assert_eq!(nodewright::plan::plan(&world.input).actions, vec![]);
}
