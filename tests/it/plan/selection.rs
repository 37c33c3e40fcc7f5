//! Which nodes are worked on: what changes about a node in the middle of its visit, at every step
//! of it.

use std::collections::BTreeMap;

use nodewright::model::{
    AtRelease, Claim, InterruptKind, Node, Outcome, Rollout, Sequencing, StatusWord, Taint,
    TaintEffect,
};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};

pub fn node<'w>(world: &'w mut World, name: &str) -> &'w mut Node {
    world.input.observed.nodes.get_mut(name).expect("a node of the fleet")
}

pub fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
    Taint { key: key.to_owned(), value: value.to_owned(), effect }
}

/// A package that reboots and one behind it, on nodes of the pool.
fn kernel(count: u32) -> Rollout {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let driver = package("driver", "1.0.0").after("kernel", "1.0.0");
    let mut rollout = rollout(count, vec![kernel, driver]);
    rollout.nodes = pool("gpu");
    rollout
}

pub fn pool(pool: &str) -> kube::core::Selector {
    let labels = BTreeMap::from([("pool".to_owned(), pool.to_owned())]);
    let selector = k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector {
        match_labels: Some(labels),
        match_expressions: None,
    };
    selector.try_into().expect("a valid selector")
}

/// Plays `steps` steps. Returns false when everything ended before.
fn play(world: &mut World, steps: usize) -> bool {
    for _ in 0..steps {
        let (_, breaches, done) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        if done == 0 && world.finish_all(End::Success) == 0 {
            return false;
        }
    }
    true
}

/// Changes `node-00` at every step of its visit, plays on, looks, undoes the change and plays to
/// the end: both nodes have everything, and each was rebooted once.
fn at_every_step(
    change: impl Fn(&mut Node),
    undo: impl Fn(&mut Node),
    meanwhile: impl Fn(&World, usize),
) {
    for steps in 0.. {
        let mut world = world(2, kernel(1));
        if !play(&mut world, steps) {
            assert!(steps > 12, "a visit has many steps: {steps}");
            return;
        }
        change(node(&mut world, "node-00"));
        world.run();
        meanwhile(&world, steps);
        undo(node(&mut world, "node-00"));
        world.run();
        assert!(world.is_complete(), "step {steps}: {}", world.verdict("node-00"));
        let reboots = ["node-00", "node-01"].map(|name| world.reboots[name]);
        assert_eq!(reboots, [1, 1], "step {steps}");
        for left in world.input.observed.nodes.values() {
            assert!(!left.unschedulable && left.cordons.is_empty(), "step {steps}: {left:?}");
        }
    }
}

/// Nothing of ours is left on `node-00`, and the other node has what it needs.
fn has_left(world: &World, steps: usize) {
    let left = &world.input.observed.nodes["node-00"];
    let record = left.record("tuning", "uid-tuning");
    assert!(record.is_none_or(|record| !record.is_open()), "step {steps}: {record:?}");
    assert!(!left.unschedulable && left.cordons.is_empty(), "step {steps}: the cordon is ours");
    assert_eq!(world.entry("node-01", "driver"), "1.0.0 config complete", "step {steps}");
}

#[test]
fn d3_a_node_that_is_ignored_in_the_middle_of_its_visit_leaves() {
    at_every_step(|node| node.ignored = true, |node| node.ignored = false, has_left);
}

#[test]
fn j2_a_node_that_is_tainted_in_the_middle_of_its_visit_leaves() {
    let team = || taint("team", "x", TaintEffect::NoSchedule);
    at_every_step(|node| node.taints.push(team()), |node| node.taints.clear(), has_left);
}

#[test]
fn a_node_that_is_relabelled_in_the_middle_of_its_visit_leaves() {
    let relabel = |node: &mut Node, pool: &str| {
        node.labels.insert("pool".to_owned(), pool.to_owned());
    };
    at_every_step(|node| relabel(node, "cpu"), |node| relabel(node, "gpu"), has_left);
}

#[test]
fn a_node_that_is_being_deleted_in_the_middle_of_its_visit_leaves() {
    at_every_step(|node| node.deleting = true, |node| node.deleting = false, has_left);
}

#[test]
fn a_node_that_is_not_ready_in_the_middle_of_its_visit_stays_and_goes_on() {
    let down = |node: &mut Node| {
        node.ready = false;
        node.taints.push(taint("node.kubernetes.io/not-ready", "", TaintEffect::NoExecute));
    };
    // The taints of a node that was down go some seconds after it is ready again.
    at_every_step(down, |node| node.ready = true, |_, _| {});
}

#[test]
fn a_node_under_memory_pressure_in_the_middle_of_its_visit_stays_and_goes_on() {
    let pressed = |node: &mut Node| {
        let key = "node.kubernetes.io/memory-pressure";
        node.taints.push(taint(key, "", TaintEffect::NoSchedule));
    };
    at_every_step(pressed, |node| node.taints.clear(), |_, _| {});
}

#[test]
fn f7_a_drained_node_that_the_autoscaler_considers_for_removal_is_not_left() {
    let candidate = |node: &mut Node| {
        let key = "DeletionCandidateOfClusterAutoscaler";
        node.taints.push(taint(key, "1764500000", TaintEffect::PreferNoSchedule));
    };
    at_every_step(
        candidate,
        |_| {},
        |world, steps| {
            assert_eq!(world.entry("node-00", "driver"), "1.0.0 config complete", "step {steps}");
        },
    );
}

#[test]
fn hands_off_a_node_that_another_operator_takes_in_the_middle_of_its_visit() {
    let claim = |at_release| Claim {
        by: "GPU Operator".to_owned(),
        mark: "nvidia.com/gpu-driver-upgrade-state=drain-required".to_owned(),
        at_release,
    };
    let waits = |node: &mut Node| node.claims.push(claim(AtRelease::Waits));
    at_every_step(
        waits,
        |node| node.claims.clear(),
        |world, steps| {
            let node = &world.input.observed.nodes["node-00"];
            let ours = node.is_cordoned_by("tuning");
            assert_eq!(node.unschedulable, ours, "step {steps}: its cordon is ours until the end");
        },
    );
}

#[test]
fn a_node_that_is_held_by_hand_in_the_middle_of_its_visit_goes_on_afterwards() {
    let undo = |node: &mut Node| {
        node.hold = None;
        // Whoever held it cordoned it as well, and lifts what is theirs now.
        node.unschedulable = !node.cordons.is_empty();
    };
    at_every_step(
        |node| node.hold = Some("memory test".to_owned()),
        undo,
        |world, steps| {
            let node = &world.input.observed.nodes["node-00"];
            let open = node.record("tuning", "uid-tuning").filter(|record| record.is_open());
            let stays = open.is_none_or(|record| record.held == node.unschedulable);
            assert!(stays, "step {steps}: the cordon stays while it is held");
        },
    );
}

#[test]
fn t14_a_whole_batch_that_becomes_blocked_is_neither_a_success_nor_a_failure() {
    let mut world = world(4, kernel(2));
    world.settle();
    for name in ["node-00", "node-01"] {
        node(&mut world, name).taints.push(taint("team", "x", TaintEffect::NoSchedule));
    }
    node(&mut world, "node-02").taints.push(taint("team", "x", TaintEffect::NoSchedule));
    node(&mut world, "node-03").taints.push(taint("team", "x", TaintEffect::NoSchedule));
    world.finish_all(End::Success);
    world.settle();
    for name in ["node-00", "node-01"] {
        assert_eq!(
            world.verdict(name),
            "Blocked: taint team=x:NoSchedule is not tolerated: add it to additionalTolerations \
             or remove it"
        );
        let record = world.input.observed.nodes[name].record("tuning", "uid-tuning");
        assert_eq!(record.map(|record| record.outcome), Some(Some(Outcome::Released)));
    }
    let status = world.input.observed.resources["tuning"].status.clone().expect("a status");
    assert_eq!(status.word, StatusWord::Blocked);
    let batches = &status.memory.compartments.values().next().expect("one").batch_state;
    let counted = (batches.completed_nodes, batches.failed_nodes, batches.consecutive_failures);
    assert_eq!((counted, batches.current_batch), ((0, 0, 0), 1), "the same batch goes on");
    for name in ["node-00", "node-01", "node-02", "node-03"] {
        node(&mut world, name).taints.clear();
    }
    world.run();
    assert!(world.is_complete());
    assert_eq!(world.peak["tuning"], 2);
}

#[test]
fn t17_a_node_that_is_relabelled_within_the_selector_keeps_its_place_in_its_batch() {
    let mut world = world(4, kernel(2));
    world.settle();
    node(&mut world, "node-00").labels.insert("tier".to_owned(), "b".to_owned());
    world.run();
    assert!(world.is_complete());
    let status = world.input.observed.resources["tuning"].status.clone().expect("a status");
    let batches = &status.memory.compartments.values().next().expect("one").batch_state;
    assert_eq!((batches.completed_nodes, batches.failed_nodes), (4, 0));
    assert_eq!((batches.current_batch, world.peak["tuning"]), (3, 2), "two batches were judged");
}

#[test]
fn nodes_that_join_during_a_rollout_are_caught_up_in_a_later_batch() {
    let mut world = world(2, kernel(1));
    world.settle();
    world.add_node("node-99", &[("pool", "gpu")]);
    world.run();
    assert!(world.is_complete());
    assert_eq!((world.reboots["node-99"], world.peak["tuning"]), (1, 1));
}

#[test]
fn f3_a_node_that_is_gone_in_the_middle_of_its_visit_is_forgotten() {
    let mut world = world(2, kernel(1));
    world.settle();
    world.input.observed.nodes.remove("node-00");
    world.run();
    assert!(world.is_complete());
    let plan = nodewright::plan::plan(&world.input);
    assert_eq!(plan.statuses["tuning"].nodes_total, 1);
    assert!(!plan.verdicts["tuning"].contains_key("node-00"));
}

/// Two rollouts over the same nodes, the first before the second.
fn two(sequencing: Sequencing) -> World {
    let mut world = world(2, kernel(2));
    let mut first = kernel(2);
    first.name = "first".to_owned();
    first.priority = 10;
    first.sequencing = sequencing;
    world.set_rollout(first);
    world
}

fn verdict_on(world: &World, rollout: &str, node: &str) -> String {
    nodewright::plan::plan(&world.input).verdicts[rollout][node].reason.to_string()
}

#[test]
fn d17_with_sequencing_node_one_slow_node_holds_up_nobody_else() {
    let mut world = two(Sequencing::Node);
    node(&mut world, "node-00").ignored = true;
    world.run();
    assert_eq!(world.entry("node-01", "driver"), "1.0.0 config complete");
    assert_eq!(verdict_on(&world, "tuning", "node-00"), "ignored by label");
    let mut world = two(Sequencing::All);
    node(&mut world, "node-00").ignored = true;
    world.run();
    assert_eq!(world.entry("node-01", "driver"), "none");
    assert_eq!(verdict_on(&world, "tuning", "node-01"), "waits for first to complete here");
}

/// Plays on; what `rollout` starts fails, everything else ends well.
fn fail_of(world: &mut World, rollout: &str) {
    for _ in 0..100 {
        world.settle();
        for name in world.active() {
            let fails = world.input.observed.executors[&name].visit.rollout == rollout;
            world.end(&name, if fails { End::Failure } else { End::Success });
        }
        world.pass(400);
    }
}

#[test]
fn d17_a_node_that_a_failure_keeps_is_mended_before_an_earlier_rollout_that_lacks_its_budget() {
    let rebooting = |name: &str, package_name: &str, version: &str| {
        let kernel = package(package_name, version).interrupting(InterruptKind::Reboot);
        let sequencing = Sequencing::All;
        Rollout { name: name.to_owned(), sequencing, ..rollout(1, vec![kernel]) }
    };
    let first = |version| Rollout { priority: 10, ..rebooting("first", "base", version) };
    let mut world = world(2, rebooting("tuning", "kernel", "1.0.0"));
    world.set_rollout(first("1.0.0"));
    fail_of(&mut world, "tuning");
    let nodes = &world.input.observed.nodes;
    let kept: Vec<&Node> = nodes.values().filter(|node| node.is_cordoned_by("tuning")).collect();
    let kept = kept.first().expect("a failed visit keeps its node").name.clone();
    world.set_rollout(first("2.0.0"));
    world.run();
    world.set_rollout(rebooting("tuning", "kernel", "1.0.1"));
    world.run();
    let held = world.input.observed.nodes.values().filter(|node| node.unschedulable).count();
    assert_eq!(held, 0, "{kept}: {}", world.verdict(&kept));
    assert!(world.is_complete());
}

/// Three in a row: the last one keeps the node, but may mend it only after the second, which waits
/// for the first everywhere.
#[test]
fn d17_nor_where_another_comes_before_the_one_that_keeps_the_node() {
    let rebooting = |name: &str, priority, version: &str| {
        let kernel = package(name, version).interrupting(InterruptKind::Reboot);
        let sequencing = if name == "first" { Sequencing::All } else { Sequencing::Node };
        Rollout { name: name.to_owned(), sequencing, priority, ..rollout(1, vec![kernel]) }
    };
    let mut world = world(2, rebooting("tuning", 30, "1.0.0"));
    world.set_rollout(rebooting("first", 10, "1.0.0"));
    world.set_rollout(rebooting("second", 20, "1.0.0"));
    fail_of(&mut world, "tuning");
    let nodes = &world.input.observed.nodes;
    let kept = nodes.values().find(|node| node.is_cordoned_by("tuning"));
    let kept = kept.expect("a failed visit keeps its node").name.clone();
    world.set_rollout(rebooting("first", 10, "2.0.0"));
    world.set_rollout(rebooting("second", 20, "2.0.0"));
    world.run();
    let before = world.entry(&kept, "second");
    assert_eq!(before, "none", "nobody mends the node yet");
    world.set_rollout(rebooting("tuning", 30, "1.0.1"));
    world.run();
    assert!(world.is_complete(), "{kept}: {}", world.verdict(&kept));
}

#[test]
fn an_earlier_rollout_that_selects_no_node_is_complete() {
    for sequencing in [Sequencing::Node, Sequencing::All] {
        let mut world = two(sequencing);
        let mut nobody = world.input.desired.rollouts["first"].clone();
        nobody.nodes = pool("none");
        world.set_rollout(nobody);
        world.run();
        assert_eq!(world.entry("node-01", "driver"), "1.0.0 config complete");
    }
}

#[test]
fn an_earlier_rollout_that_cannot_be_read_holds_up_nobody() {
    let mut world = two(Sequencing::All);
    let wrong = "spec.packages: at least one is needed".to_owned();
    world.input.desired.invalid.insert("first".to_owned(), wrong);
    world.input.desired.rollouts.remove("first");
    world.run();
    assert_eq!(world.entry("node-01", "driver"), "1.0.0 config complete");
}

#[test]
fn of_one_priority_the_first_name_goes_first_and_never_two_at_once() {
    let mut world = two(Sequencing::Node);
    let mut first = world.input.desired.rollouts["first"].clone();
    first.priority = 200;
    world.set_rollout(first);
    for _ in 0..500 {
        let (_, breaches, done) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        for node in world.input.observed.nodes.values() {
            let open = ["first", "tuning"].map(|name| {
                let record = node.record(name, &format!("uid-{name}"));
                record.is_some_and(|record| record.is_open())
            });
            assert_ne!(open, [true, true], "{node:?}");
            let first = node.record("first", "uid-first");
            assert!(!open[1] || first.is_some_and(|record| !record.is_open()), "in order");
        }
        if done == 0 && world.finish_all(End::Success) == 0 {
            break;
        }
    }
    assert_eq!((world.reboots["node-00"], world.reboots["node-01"]), (2, 2));
}
