//! A resource that goes, and nodes that go: no deadlock, no cordon left, nothing cut short.

use nodewright::model::{
    Action, InterruptKind, Node, NodeRollout, Opening, Outcome, Phase, Reason, Record, Resource,
    Stage, approval,
};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, pod, rollout, world};

pub(super) fn resource(world: &mut World) -> &mut Resource {
    world.input.observed.resources.get_mut("tuning").expect("our resource")
}

fn node<'w>(world: &'w mut World, name: &str) -> &'w mut Node {
    world.input.observed.nodes.get_mut(name).expect("a node of the fleet")
}

fn record(world: &World) -> &Record {
    let state = &world.input.observed.nodes["node-00"].rollouts["tuning"];
    state.record.as_ref().expect("a record")
}

/// Asks for the deletion, as the API server does it: without a finalizer the object is gone.
pub(super) fn delete(world: &mut World) {
    let resource = resource(world);
    resource.deleting = true;
    if !resource.finalizer {
        world.input.observed.resources.remove("tuning");
        world.input.desired.rollouts.remove("tuning");
    }
}

pub(super) fn is_gone(world: &World) -> bool {
    !world.input.observed.resources.contains_key("tuning")
}

/// Everything the resource did to nodes is undone, but for what is on the host.
pub(super) fn assert_left_in_order(world: &World) {
    assert!(is_gone(world), "the resource is still there");
    for node in world.input.observed.nodes.values() {
        assert!(!node.unschedulable && node.cordons.is_empty(), "left cordoned: {node:#?}");
        if let Some(state) = node.rollouts.get("tuning") {
            let NodeRollout { record, status, entries, .. } = &**state;
            assert_eq!((record, status), (&None, &None));
            assert!(!entries.is_empty(), "kept for nothing");
        }
    }
}

fn rebooting() -> nodewright::model::Rollout {
    rollout(1, vec![package("kernel", "1.0.0").interrupting(InterruptKind::Reboot)])
}

/// Plays a reboot rollout on one node until `reached`.
fn until(nodes: u32, reached: impl Fn(&World) -> bool) -> World {
    let mut world = world(nodes, rebooting());
    for _ in 0..100 {
        world.settle();
        if reached(&world) {
            return world;
        }
        assert!(world.finish_all(End::Success) > 0, "never reached");
    }
    panic!("never reached");
}

/// Where a visit is when its resource or its node goes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    Protected,
    Draining,
    Installing,
    BackingOff,
    Interrupting,
    Interrupted,
    Erroring,
}

const EVERY: [At; 7] = [
    At::Protected,
    At::Draining,
    At::Installing,
    At::BackingOff,
    At::Interrupting,
    At::Interrupted,
    At::Erroring,
];

fn at(place: At) -> World {
    match place {
        At::Protected | At::Draining => {
            let labels: &[_] =
                if place == At::Protected { &[("workload", "training")] } else { &[] };
            let mut world = world(1, rebooting());
            world.add_pod(pod("node-00", "web", labels));
            world.guarded.insert("uid-web".to_owned());
            world.settle();
            assert!(world.active().is_empty() && record(&world).held);
            world
        }
        At::Installing => until(1, |world| world.active().len() == 1),
        At::BackingOff | At::Erroring => {
            let mut world = until(1, |world| world.active().len() == 1);
            world.finish_all(End::Failure);
            world.settle();
            while place == At::Erroring && record(&world).is_open() {
                world.pass(600);
                world.settle();
                world.finish_all(End::Failure);
                world.settle();
            }
            world
        }
        At::Interrupting => until(1, |world| {
            record(world).phase == Phase::Interrupting && world.active().len() == 1
        }),
        At::Interrupted => {
            until(1, |world| record(world).phase == Phase::Interrupted && world.active().len() == 1)
        }
    }
}

#[test]
fn a_resource_gets_its_finalizer_before_its_first_pick() {
    let mut world = world(2, rollout(2, vec![package("motd", "1.0.0")]));
    let (plan, ..) = world.tick(|_| Fate::Done);
    let adds = |action: &Action| matches!(action, Action::SetFinalizer(write) if write.present);
    assert_eq!(plan.actions.iter().filter(|action| adds(action)).count(), 1);
    assert!(plan.actions.iter().all(|action| action.word() != "write-status"), "{plan:#?}");
    let refused = |action: &Action| if adds(action) { Fate::Refused } else { Fate::Done };
    let mut fresh = super::builders::world(2, rollout(2, vec![package("motd", "1.0.0")]));
    for _ in 0..5 {
        let _planned = fresh.tick(refused);
    }
    assert_eq!(fresh.entry("node-00", "motd"), "none", "nobody is picked without it");
    world.run();
    assert!(world.is_complete());
}

#[test]
fn a_resource_that_touched_nothing_is_deleted_without_a_trace() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    resource(&mut world).finalizer = true;
    delete(&mut world);
    world.settle();
    assert_left_in_order(&world);
}

#[test]
fn a_resource_that_is_complete_is_deleted_and_what_is_on_the_host_stays_named() {
    let mut world = world(3, rollout(3, vec![package("motd", "1.0.0")]));
    world.run();
    delete(&mut world);
    world.settle();
    assert_left_in_order(&world);
    assert_eq!(world.entry("node-00", "motd"), "1.0.0 config complete");
    let before = world.completed.len();
    world.set_rollout(rollout(3, vec![package("motd", "1.0.0")]));
    world.run();
    assert_eq!(world.completed.len(), before, "what is there is not run again");
}

#[test]
fn a_deletion_in_every_place_of_a_visit_ends_it_safely() {
    for place in EVERY {
        let mut world = at(place);
        delete(&mut world);
        world.settle();
        let runs = !world.active().is_empty();
        assert_eq!(is_gone(&world), !runs, "{place:?}: executors are waited for, nothing else is");
        world.run();
        assert_left_in_order(&world);
        let interrupt = matches!(place, At::Interrupting | At::Interrupted);
        let reboots = world.reboots.get("node-00").copied().unwrap_or(0);
        assert_eq!(reboots, u32::from(interrupt), "{place:?}");
    }
}

#[test]
fn an_issued_reboot_is_waited_for_also_after_its_pod_has_ended() {
    let mut world = at(At::Interrupting);
    let name = world.active().remove(0);
    world.end(&name, End::Disruption);
    delete(&mut world);
    world.settle();
    assert!(!is_gone(&world) && world.input.observed.nodes["node-00"].unschedulable);
    assert!(world.verdict("node-00").starts_with("Act: reboot issued at"));
    world.reboot("node-00");
    world.settle();
    assert_left_in_order(&world);
}

#[test]
fn a_host_that_never_comes_back_does_not_hold_the_deletion_for_ever() {
    for running in [true, false] {
        let mut world = at(At::Interrupting);
        if !running {
            let name = world.active().remove(0);
            world.end(&name, End::Disruption);
        }
        let now = world.input.now;
        let down = node(&mut world, "node-00");
        (down.ready, down.ready_since) = (false, Some(now));
        delete(&mut world);
        world.settle();
        assert!(!is_gone(&world));
        world.pass(3600);
        world.settle();
        assert_left_in_order(&world);
    }
}

#[test]
fn a_pod_that_cannot_start_is_taken_away() {
    let mut world = at(At::Installing);
    for executor in world.input.observed.executors.values_mut() {
        executor.phase = nodewright::model::ExecutorPhase::Pending;
        (executor.begun, executor.running) = (false, None);
    }
    delete(&mut world);
    world.settle();
    assert!(!is_gone(&world), "it may start any moment");
    world.pass(300);
    world.settle();
    assert_left_in_order(&world);
}

#[test]
fn a_deletion_clears_a_stop_and_needs_no_policy() {
    let mut world = at(At::Erroring);
    resource(&mut world).status.as_mut().unwrap().memory.compartments.values_mut().for_each(
        |compartment| {
            compartment.batch_state.should_stop = true;
        },
    );
    let mut wanted = rebooting();
    (wanted.policy, wanted.budget) = (Some("gone".to_owned()), None);
    world.set_rollout(wanted);
    delete(&mut world);
    world.settle();
    assert_left_in_order(&world);
}

#[test]
fn a_paused_or_disabled_resource_lets_its_nodes_go_too() {
    for place in EVERY {
        for pause in [true, false] {
            let mut world = at(place);
            let resource = resource(&mut world);
            (resource.paused, resource.disabled) = (pause, !pause);
            delete(&mut world);
            world.run();
            assert_left_in_order(&world);
        }
    }
}

#[test]
fn a_deletion_does_not_wait_for_the_revision_that_waits_for_it() {
    let mut world = at(At::Draining);
    let applying = Reason::ApplyingRevision { revision: "main@sha1:abc".to_owned() };
    let held = nodewright::model::Opening::Held(applying);
    world.input.opening.insert("tuning".to_owned(), held);
    delete(&mut world);
    world.settle();
    assert_left_in_order(&world);
}

#[test]
fn a_node_whose_annotation_cannot_be_read_is_uncordoned_but_holds_the_deletion() {
    let mut world = at(At::Draining);
    let state = node(&mut world, "node-00").rollouts.get_mut("tuning").unwrap();
    state.malformed = Some("nodeState: expected value at line 1".to_owned());
    delete(&mut world);
    world.settle();
    assert!(!world.input.observed.nodes["node-00"].unschedulable);
    assert!(!is_gone(&world));
    node(&mut world, "node-00").rollouts.get_mut("tuning").unwrap().malformed = None;
    world.settle();
    assert_left_in_order(&world);
}

#[test]
fn a_deleted_resource_that_cannot_be_read_goes_too() {
    let mut world = at(At::Installing);
    resource(&mut world).deleting = true;
    world.input.desired.rollouts.remove("tuning");
    world.input.desired.invalid.insert("tuning".to_owned(), "unknown field".to_owned());
    world.settle();
    assert!(!is_gone(&world), "its executor runs");
    world.finish_all(End::Success);
    world.settle();
    assert_left_in_order(&world);
}

#[test]
fn a_node_that_leaves_the_selection_or_is_deleted_is_let_go_from_every_place() {
    for place in EVERY {
        for deleted in [false, true] {
            let mut world = at(place);
            if deleted {
                node(&mut world, "node-00").deleting = true;
            } else {
                let mut elsewhere = rebooting();
                elsewhere.nodes =
                    kube::core::Selector::from_iter([("pool".to_owned(), "cpu".to_owned())]);
                world.set_rollout(elsewhere);
            }
            world.run();
            let node = &world.input.observed.nodes["node-00"];
            let erroring = deleted && place == At::Erroring;
            assert_eq!(node.unschedulable, erroring, "{place:?}, deleted {deleted}: {node:#?}");
            assert_eq!(node.cordons.is_empty(), !erroring, "{place:?}: our mark goes");
            let outcome = if erroring { Outcome::Erroring } else { Outcome::Released };
            assert_eq!(record(&world).outcome, Some(outcome), "{place:?}");
        }
    }
}

#[test]
fn what_ran_on_a_node_that_left_the_selection_is_still_recorded() {
    let mut world = at(At::Installing);
    let mut elsewhere = rebooting();
    elsewhere.nodes = kube::core::Selector::from_iter([("pool".to_owned(), "cpu".to_owned())]);
    world.set_rollout(elsewhere);
    world.run();
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 interrupt skipped");
}

#[test]
fn a_node_that_is_gone_in_its_visit_is_skipped() {
    let mut world = until(2, |world| {
        world.input.observed.nodes["node-00"].rollouts.contains_key("tuning")
            && world.active().len() == 1
    });
    world.input.observed.nodes.remove("node-00");
    delete(&mut world);
    world.settle();
    assert_left_in_order(&world);
}

#[test]
fn a_resource_that_is_torn_away_and_made_again_waits_for_what_runs() {
    for place in EVERY {
        let mut world = at(place);
        world.pass(1);
        world.input.observed.resources.remove("tuning");
        world.input.desired.rollouts.remove("tuning");
        world.set_rollout(rebooting());
        resource(&mut world).uid = "uid-second".to_owned();
        let approved = approval("uid-second", &rebooting().nodes);
        world.input.approvals.insert("tuning".to_owned(), approved);
        world.settle();
        world.input.observed.pods.clear();
        assert!(world.active().len() <= 1, "{place:?}: nothing runs beside what was left running");
        world.run();
        assert!(world.is_complete(), "{place:?}");
        let node = &world.input.observed.nodes["node-00"];
        assert!(!node.unschedulable && node.cordons.is_empty(), "{place:?}: {node:#?}");
        world.pass(600);
        world.settle();
        assert!(world.input.observed.executors.is_empty(), "{place:?}: pods are left");
    }
}

#[test]
fn a_manifest_that_is_edited_while_it_is_deleted_is_uninstalled_all_the_same() {
    let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0").with_uninstall()]));
    world.run();
    delete(&mut world);
    world.set_rollout(rollout(1, vec![package("kernel", "3.0.0").with_uninstall()]));
    world.run();
    assert_left_in_order(&world);
}

#[test]
fn a_deleted_resource_stays_until_every_node_is_rid_of_what_it_uninstalls() {
    let mut world = world(3, rollout(1, vec![package("motd", "1.0.0").with_uninstall()]));
    world.run();
    delete(&mut world);
    world.run();
    let mut uninstalled: Vec<&str> = world
        .completed
        .iter()
        .filter(|(_, _, _, stage, _)| *stage == Stage::Uninstall)
        .map(|(node, ..)| node.as_str())
        .collect();
    uninstalled.sort_unstable();
    assert_eq!(uninstalled, ["node-00", "node-01", "node-02"]);
    assert_eq!(world.peak["tuning"], 1, "uninstalls are paced too");
    assert_left_in_order(&world);
}

#[test]
fn a_deletion_that_may_not_uninstall_yet_says_why_and_goes_on_afterwards() {
    type Case<'c> = (&'c str, &'c dyn Fn(&mut World));
    let wanted = |count| rollout(count, vec![package("motd", "1.0.0").with_uninstall()]);
    let open = |world: &mut World, reason: Option<Reason>| {
        let held = reason.map(|reason| ("tuning".to_owned(), Opening::Held(reason)));
        world.input.opening = held.into_iter().collect();
    };
    let source = || Reason::SourceHeld { why: "history was rewritten".to_owned() };
    let applying = || Reason::ApplyingRevision { revision: "main@sha1:abc".to_owned() };
    let cases: [Case<'_>; 5] = [
        ("the resource cannot be deleted yet: it is paused", &|world| {
            resource(world).paused = true;
        }),
        ("the resource cannot be deleted yet: it is disabled", &|world| {
            resource(world).disabled = true;
        }),
        ("cannot be deleted yet: its interruptionBudget", &|world| world.set_rollout(wanted(0))),
        ("Wait: nothing new begins: history was rewritten", &|world| open(world, Some(source()))),
        ("", &|world| open(world, Some(applying()))),
    ];
    for (says, begin) in cases {
        let mut world = world(2, wanted(1));
        world.run();
        begin(&mut world);
        delete(&mut world);
        world.run();
        assert_eq!(is_gone(&world), says.is_empty(), "{says}");
        if !says.is_empty() {
            let verdict = world.verdict("node-01");
            assert!(verdict.contains(says), "{verdict}");
            (resource(&mut world).paused, resource(&mut world).disabled) = (false, false);
            world.set_rollout(wanted(1));
            open(&mut world, None);
            world.run();
        }
        assert_left_in_order(&world);
    }
}

#[test]
fn what_is_uninstalled_is_not_pulled_under_its_new_image() {
    let installed = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot).with_uninstall();
    let mut moved = installed.clone();
    "mirror.example/kernel".clone_into(&mut moved.image);
    let mut world = world(1, rollout(1, vec![installed]));
    world.run();
    world.set_rollout(rollout(1, vec![moved]));
    delete(&mut world);
    world.run();
    assert_left_in_order(&world);
}

#[test]
fn a_node_that_another_rollout_changes_is_let_go_in_the_next_tick() {
    let mut first = rollout(1, vec![package("motd", "1.0.0")]);
    "base".clone_into(&mut first.name);
    first.priority = 100;
    let mut start = world(1, rebooting());
    start.set_rollout(first.clone());
    start.run();
    start.set_rollout(rollout(
        1,
        vec![package("kernel", "2.0.0").interrupting(InterruptKind::Reboot)],
    ));
    for _ in 0..8 {
        start.settle();
        start.finish_all(End::Failure);
        start.pass(600);
    }
    assert!(start.input.observed.nodes["node-00"].is_cordoned_by("tuning"));
    first.packages = [("motd".to_owned(), package("motd", "2.0.0"))].into();
    start.set_rollout(first);
    for ticks in 0..10 {
        let mut world = start.clone();
        for _ in 0..ticks {
            drop(world.tick(|_| Fate::Done));
            world.finish_all(End::Success);
        }
        delete(&mut world);
        world.run();
        assert_left_in_order(&world);
    }
}
