//! What keeps a node, or a whole rollout, from being picked, and what it says meanwhile.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use nodewright::model::{
    CordonMark, InterruptKind, Node, Opening, Outcome, Reason, Resource, Rollout, Taint,
    TaintEffect,
};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, pod, policy, rollout, world};

fn motd() -> Rollout {
    rollout(1, vec![package("motd", "1.0.0")])
}

fn node<'w>(world: &'w mut World, name: &str) -> &'w mut Node {
    world.input.observed.nodes.get_mut(name).expect("a node of the fleet")
}

fn resource(world: &mut World) -> &mut Resource {
    world.input.observed.resources.get_mut("tuning").expect("our resource")
}

/// Asserts that nothing begins on `node-00`, with this verdict, while `node-01` is not held up.
fn holds_one(change: impl Fn(&mut Node), verdict: &str) -> World {
    let mut world = world(2, motd());
    change(node(&mut world, "node-00"));
    world.run();
    assert_eq!(world.verdict("node-00"), verdict);
    assert_eq!(world.entry("node-00", "motd"), "none");
    assert_eq!(world.entry("node-01", "motd"), "1.0.0 config complete", "the other goes on");
    world
}

/// Asserts that nothing begins anywhere, with this verdict, and lets go on afterwards.
fn holds_all(hold: impl Fn(&mut World), go: impl Fn(&mut World), verdict: &str) {
    let mut world = world(2, motd());
    hold(&mut world);
    world.run();
    for name in ["node-00", "node-01"] {
        assert_eq!(world.verdict(name), verdict);
        assert_eq!(world.entry(name, "motd"), "none");
    }
    assert!(world.input.observed.snapshots.is_empty(), "nothing is prepared either");
    go(&mut world);
    world.run();
    assert!(world.is_complete(), "it goes on once the cause is gone");
}

#[test]
fn a_node_that_is_ignored_by_label() {
    let mut world = holds_one(|node| node.ignored = true, "Blocked: ignored by label");
    node(&mut world, "node-00").ignored = false;
    world.run();
    assert!(world.is_complete());
}

#[test]
fn a_node_whose_taint_is_not_tolerated() {
    let taint = Taint {
        key: "example.com/storage".to_owned(),
        value: "down".to_owned(),
        effect: TaintEffect::PreferNoSchedule,
    };
    let tainted = |node: &mut Node| node.taints.push(taint.clone());
    let mut world = holds_one(
        tainted,
        "Blocked: taint example.com/storage=down:PreferNoSchedule is not tolerated: add it to \
         additionalTolerations or remove it",
    );
    let tolerates = |key: &str, operator: &str, value: &str, effect: &str| Toleration {
        key: (!key.is_empty()).then(|| key.to_owned()),
        operator: (!operator.is_empty()).then(|| operator.to_owned()),
        value: (!value.is_empty()).then(|| value.to_owned()),
        effect: (!effect.is_empty()).then(|| effect.to_owned()),
        ..Toleration::default()
    };
    let table = [
        (tolerates("", "Exists", "", ""), true),
        (tolerates("example.com/storage", "Exists", "", ""), true),
        (tolerates("example.com/storage", "Equal", "down", "PreferNoSchedule"), true),
        (tolerates("example.com/storage", "", "down", ""), true),
        (tolerates("example.com/storage", "Exists", "", "NoSchedule"), false),
        (tolerates("example.com/storage", "Equal", "up", ""), false),
        (tolerates("example.com/other", "Exists", "", ""), false),
        (tolerates("", "", "down", ""), false),
    ];
    for (toleration, tolerated) in table {
        let mut wanted = motd();
        wanted.tolerations = vec![toleration.clone()];
        world.input.desired.rollouts.insert("tuning".to_owned(), wanted);
        let free = !world.verdict("node-00").starts_with("Blocked: taint");
        assert_eq!(free, tolerated, "{toleration:?}");
    }
}

#[test]
fn the_taint_of_a_cordon_is_always_tolerated() {
    let mut world = world(1, motd());
    let cordoned = node(&mut world, "node-00");
    cordoned.unschedulable = true;
    cordoned.taints.push(Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    });
    world.run();
    assert!(world.is_complete());
}

#[test]
fn a_node_that_is_not_ready() {
    let mut world = world(3, rollout(2, vec![package("motd", "1.0.0")]));
    let down = node(&mut world, "node-00");
    down.ready = false;
    down.ready_since = Some(super::builders::noon());
    world.run();
    assert_eq!(world.verdict("node-00"), "Wait: the node is not ready since 2026-11-30T12:00:00Z");
    assert_eq!(world.entry("node-02", "motd"), "1.0.0 config complete");
    node(&mut world, "node-00").ready = true;
    world.run();
    assert!(world.is_complete(), "it is caught up when it returns");
}

#[test]
fn a_node_that_is_being_deleted() {
    holds_one(|node| node.deleting = true, "Wait: the node is being deleted");
}

#[test]
fn a_node_whose_annotation_cannot_be_read() {
    holds_one(
        |node| {
            let state = node.rollouts.entry("tuning".to_owned()).or_default();
            state.malformed = Some("nodeState_tuning: expected value at line 1".to_owned());
        },
        "Blocked: an annotation of ours cannot be read and is left alone: nodeState_tuning: \
         expected value at line 1",
    );
}

#[test]
fn a_node_that_is_not_selected_is_not_spoken_of() {
    let mut world = world(2, motd());
    let mut wanted = motd();
    let pool = k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector {
        match_labels: Some(BTreeMap::from([("pool".to_owned(), "gpu".to_owned())])),
        match_expressions: None,
    };
    wanted.nodes = pool.try_into().expect("a valid selector");
    world.set_rollout(wanted);
    node(&mut world, "node-00").labels.clear();
    world.run();
    let plan = nodewright::plan::plan(&world.input);
    assert_eq!(plan.verdicts["tuning"].keys().collect::<Vec<_>>(), ["node-01"]);
    assert_eq!(plan.statuses["tuning"].nodes_total, 1);
}

#[test]
fn a_rollout_that_is_paused() {
    holds_all(
        |world| resource(world).paused = true,
        |world| resource(world).paused = false,
        "Blocked: paused by annotation",
    );
}

#[test]
fn a_rollout_that_is_disabled() {
    holds_all(
        |world| resource(world).disabled = true,
        |world| resource(world).disabled = false,
        "Blocked: disabled by annotation",
    );
}

#[test]
fn pause_takes_back_what_runs_and_starts_no_other() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(2, rollout(1, vec![kernel]));
    world.settle();
    assert_eq!(world.active().len(), 1);
    resource(&mut world).paused = true;
    world.run();
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 apply in_progress", "it begins again");
    assert_eq!(world.verdict("node-00"), "Blocked: paused by annotation");
    assert!(world.active().is_empty() && world.reboots.is_empty());
    resource(&mut world).paused = false;
    world.run();
    assert!(world.is_complete());
}

#[test]
fn a_paused_rollout_holds_those_after_it_and_a_disabled_one_does_not() {
    let two = || {
        let mut first = motd();
        first.name = "first".to_owned();
        first.priority = 10;
        let mut world = world(2, first);
        world.set_rollout(motd());
        world
    };
    let first = |world: &mut World, change: fn(&mut Resource)| {
        change(world.input.observed.resources.get_mut("first").expect("the first rollout"));
    };
    let mut paused = two();
    first(&mut paused, |resource| resource.paused = true);
    paused.run();
    assert_eq!(paused.verdict("node-00"), "Wait: waits for first to complete here");
    let mut disabled = two();
    first(&mut disabled, |resource| resource.disabled = true);
    disabled.run();
    assert_eq!(disabled.verdict("node-00"), "Done: every package is as wanted");
}

#[test]
fn a_policy_is_named() {
    let name = |world: &mut World| {
        let mut wanted = motd();
        wanted.budget = None;
        wanted.policy = Some("slow".to_owned());
        world.input.desired.rollouts.insert("tuning".to_owned(), wanted);
    };
    let unname = |world: &mut World| world.set_rollout(motd());
    holds_all(
        name,
        unname,
        "Blocked: DeploymentPolicy slow does not exist: create it or use a budget",
    );
    let mut world = world(2, motd());
    name(&mut world);
    world.input.desired.policies.insert("slow".to_owned(), policy("slow", 1));
    world.run();
    assert!(world.is_complete(), "one that is there paces it");
}

#[test]
fn openings_are_held_and_running_visits_go_on() {
    let held = Opening::Held(Reason::SourceHeld { why: "the remote is down".to_owned() });
    holds_all(
        |world| drop(world.input.opening.insert("tuning".to_owned(), held.clone())),
        |world| drop(world.input.opening.insert("tuning".to_owned(), Opening::Allowed)),
        "Wait: nothing new begins: the remote is down",
    );
    let mut world = world(2, motd());
    world.settle();
    world.input.opening.insert("tuning".to_owned(), held);
    world.run();
    assert_eq!(world.entry("node-00", "motd"), "1.0.0 config complete", "it was under way");
    assert_eq!(world.verdict("node-01"), "Wait: nothing new begins: the remote is down");
}

#[test]
fn a_resource_that_is_being_deleted() {
    let mut world = world(1, motd());
    resource(&mut world).deleting = true;
    world.run();
    assert_eq!(world.verdict("node-00"), "Done: every package is as wanted");
    assert_eq!(world.entry("node-00", "motd"), "none", "nothing begins any more");
}

#[test]
fn a_package_that_depends_on_one_that_is_not_there() {
    let orphan = package("driver", "1.0.0").after("kernel", "9.9.9");
    let mut world = world(1, rollout(1, vec![orphan, package("kernel", "1.0.0")]));
    world.run();
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 config complete");
    assert_eq!(
        world.verdict("node-00"),
        "Blocked: driver depends on kernel, which cannot complete here"
    );
}

#[test]
fn an_invalid_resource_freezes_what_it_holds_and_nobody_else() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut broken = rollout(1, vec![kernel]);
    broken.name = "broken".to_owned();
    broken.priority = 10;
    let mut world = world(2, broken);
    world.add_pod(pod("node-00", "train", &[("workload", "training")]));
    world.add_pod(pod("node-01", "train-1", &[("workload", "training")]));
    world.settle();
    let held = |world: &World| {
        let node = &world.input.observed.nodes["node-00"];
        (node.unschedulable, node.rollouts["broken"].clone())
    };
    let before = held(&world);
    assert!(before.0, "broken holds the node");
    let snapshots: Vec<String> = world.input.observed.snapshots.keys().cloned().collect();
    world.input.desired.rollouts.remove("broken");
    let why = "spec.packages: unknown field".to_owned();
    world.input.desired.invalid.insert("broken".to_owned(), why);
    world.set_rollout(rollout(2, vec![package("motd", "1.0.0")]));
    world.run();
    assert_eq!(held(&world), before, "what it holds is left exactly as it is");
    for name in snapshots {
        assert!(world.input.observed.snapshots.contains_key(&name), "{name} is still needed");
    }
    assert_eq!(world.entry("node-01", "motd"), "1.0.0 config complete", "others go on");
    assert_eq!(world.verdict("node-00"), "Wait: broken works on the node");
    assert_eq!(world.finish_all(End::Success), 0);
}

#[test]
fn a_node_held_for_a_resource_that_is_gone_is_not_picked_in_the_tick_that_lets_it_go() {
    let kernel = || package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut held = world(1, rollout(1, vec![kernel()]));
    held.settle();
    let state = held.input.observed.nodes["node-00"].rollouts["tuning"].clone();
    for failed in [false, true] {
        let mut world = world(1, rollout(1, vec![kernel()]));
        // The batch is opened and its snapshot is there; the pick comes next.
        assert!(world.tick(|_| Fate::Done).2 > 0);
        let mut state = state.clone();
        let record = state.record.as_mut().expect("a visit");
        record.cr_uid = "uid-gone".to_owned();
        record.outcome = failed.then_some(Outcome::Erroring);
        let node = node(&mut world, "node-00");
        node.rollouts.insert("gone".to_owned(), state);
        node.unschedulable = true;
        node.cordons.push(CordonMark::Rollout("gone".to_owned()));
        world.settle();
        let node = &world.input.observed.nodes["node-00"];
        assert!(node.is_cordoned_by("tuning") && !node.is_cordoned_by("gone"));
        assert!(node.unschedulable, "held by a cordon of its own");
        world.run();
        assert!(world.is_complete() && !world.input.observed.nodes["node-00"].unschedulable);
    }
}

#[test]
fn a_node_held_for_a_resource_that_is_gone_is_let_go_before_it_is_picked_again() {
    let kernel = || package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut gone = rollout(1, vec![kernel()]);
    gone.name = "gone".to_owned();
    let mut world = world(1, gone);
    world.add_pod(pod("node-00", "train", &[("workload", "training")]));
    world.settle();
    assert!(world.input.observed.nodes["node-00"].unschedulable);
    world.input.desired.rollouts.clear();
    world.input.observed.resources.clear();
    world.set_rollout(rollout(1, vec![kernel()]));
    // Whatever the order of the writes: every plan is clean, and the new visit holds the node by a
    // cordon of its own.
    world.settle();
    let node = &world.input.observed.nodes["node-00"];
    assert!(node.unschedulable && node.is_cordoned_by("tuning") && !node.is_cordoned_by("gone"));
    let train = pod("node-00", "train", &[]).reference;
    world.remove_pod(&train);
    world.run();
    assert!(world.is_complete());
    assert!(!world.input.observed.nodes["node-00"].unschedulable);
}

#[test]
fn a_snapshot_that_is_refused_does_not_keep_the_status_from_saying_so() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    world.rejecting = true;
    for _ in 0..5 {
        drop(world.tick(|_| Fate::Done));
    }
    let status = world.input.observed.resources["tuning"].status.as_ref().expect("written");
    assert!(format!("{:?}", status.conditions).contains("NotCreated"), "{status:?}");
    world.rejecting = false;
    world.run();
    assert!(world.is_complete());
}
