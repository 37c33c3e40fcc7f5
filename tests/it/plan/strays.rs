//! What is left over goes when its time has come, and not before: cordons of a visit that failed
//! or whose resource is gone, and the pods of visits that are over.

use jiff::SignedDuration;
use nodewright::model::{
    Action, AtRelease, Claim, Executor, ExecutorPhase, Group, InterruptKind, Node, NodePatch,
    Outcome, Plan, Record, StatusWord,
};
use nodewright::plan::plan;
use nodewright::plan::world::{End, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::selection::pool;

const HERE: &str = "node-00";

fn node(world: &mut World) -> &mut Node {
    world.input.observed.nodes.get_mut(HERE).expect("a node of the fleet")
}

fn record(world: &mut World) -> &mut Record {
    let state = node(world).rollouts.get_mut("tuning").expect("our state");
    state.record.as_mut().expect("a visit")
}

/// The patch with which the node is let go without a result.
fn lets_go(plan: &Plan) -> Option<&NodePatch> {
    plan.actions.iter().find_map(|action| match action {
        Action::PatchNode(patch) => {
            let outcome = patch.record.as_ref().and_then(|record| record.outcome);
            (outcome == Some(Outcome::Released) && patch.node == HERE).then_some(patch)
        }
        _ => None,
    })
}

/// Adds a copy of one of our executors that still runs.
fn add_running(world: &mut World, change: impl Fn(&mut Executor)) {
    let executors = &mut world.input.observed.executors;
    let mut ours = executors.values().filter(|executor| executor.group != Group::Pull);
    let mut executor = ours.next_back().expect("a pod of the visit").clone();
    executor.phase = ExecutorPhase::Running;
    executor.finished = None;
    executor.failure = None;
    executor.reference.name = "still-running".to_owned();
    change(&mut executor);
    executors.insert(executor.reference.name.clone(), executor);
}

/// A node that has all that is wanted, cordoned by a visit in which a package failed that is not
/// wanted any more.
fn failed() -> World {
    let motd = || package("motd", "1.0.0");
    let mut world = world(1, rollout(1, vec![motd()]));
    world.run();
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    world.set_rollout(rollout(1, vec![motd(), kernel]));
    for _ in 1..=4 {
        world.settle();
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
    }
    world.settle();
    assert!(world.input.observed.nodes[HERE].is_cordoned_by("tuning"));
    world.set_rollout(rollout(1, vec![motd()]));
    world
}

#[test]
fn a_failed_node_that_has_all_that_is_wanted_is_let_go_at_once() {
    let mut world = failed();
    let planned = plan(&world.input);
    let patch = lets_go(&planned).expect("it is let go");
    assert_eq!(patch.status, Some(StatusWord::Unknown));
    assert_eq!((patch.unschedulable, patch.cordon_mark), (Some(false), Some(false)));
    world.settle();
    let node = &world.input.observed.nodes[HERE];
    assert!(!node.unschedulable && node.cordons.is_empty(), "{node:#?}");
    assert!(world.active().is_empty(), "no visit is needed for it");
    assert!(world.is_complete());
}

#[test]
fn a_failed_node_is_let_go_when_it_is_up_ours_and_nothing_of_ours_runs() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, bool); 5] = [
        ("it is down", |world| node(world).ready = false, false),
        ("a pod of ours runs", |world| add_running(world, |_| {}), false),
        (
            "a pod of another rollout runs",
            |world| add_running(world, |executor| executor.visit.rollout = "other".to_owned()),
            true,
        ),
        ("an earlier visit took hold of it", |world| record(world).held = false, true),
        ("somebody took our mark off", |world| node(world).cordons.clear(), false),
    ];
    for (case, change, expected) in cases {
        let mut world = failed();
        change(&mut world);
        assert_eq!(lets_go(&plan(&world.input)).is_some(), expected, "{case}");
    }
}

/// A node in a visit, before anything began on it, of a resource that is gone.
fn gone() -> World {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(2, rollout(1, vec![kernel]));
    world.settle();
    assert!(world.input.observed.nodes[HERE].is_cordoned_by("tuning"));
    world.input.desired.rollouts.clear();
    world.input.observed.resources.clear();
    let executors = world.input.observed.executors.values_mut();
    for executor in executors.filter(|executor| executor.is_active()) {
        executor.phase = ExecutorPhase::Succeeded;
        executor.finished = Some(executor.created);
    }
    world
}

#[test]
fn a_node_of_a_resource_that_is_gone_is_let_go_when_nothing_of_it_runs_there() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, bool); 5] = [
        ("nothing runs", |_| {}, true),
        ("a pod of it runs", |world| add_running(world, |_| {}), false),
        (
            "a pod of it runs elsewhere",
            |world| add_running(world, |executor| executor.visit.node = "node-01".to_owned()),
            true,
        ),
        (
            "a pod of another rollout runs here",
            |world| add_running(world, |executor| executor.visit.rollout = "other".to_owned()),
            true,
        ),
        (
            "another operator's driver is loaded",
            |world| {
                node(world).claims.push(Claim {
                    by: "the GPU operator".to_owned(),
                    mark: "upgrade".to_owned(),
                    at_release: AtRelease::Waits,
                });
            },
            false,
        ),
    ];
    for (case, change, expected) in cases {
        let mut world = gone();
        change(&mut world);
        assert_eq!(lets_go(&plan(&world.input)).is_some(), expected, "{case}");
    }
}

/// The reboot of a visit was issued, and its pod has ended; then the resource went.
fn gone_rebooting() -> World {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![kernel]));
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    let executor = reboot(&mut world);
    executor.phase = ExecutorPhase::Succeeded;
    executor.begun = true;
    executor.finished = Some(executor.created);
    world.input.desired.rollouts.clear();
    world.input.observed.resources.clear();
    world
}

fn reboot(world: &mut World) -> &mut Executor {
    let mut executors = world.input.observed.executors.values_mut();
    executors.find(|it| it.group == Group::Interrupt).expect("the reboot was issued")
}

#[test]
fn a_node_of_a_resource_that_is_gone_is_not_let_go_before_the_reboot_of_its_visit() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, bool); 6] = [
        ("issued and not seen", |_| {}, false),
        ("seen", |world| node(world).boot_id = "after".to_owned(), true),
        ("issued by an earlier visit", |world| reboot(world).visit.visit -= 1, true),
        ("refused before it began", |world| reboot(world).begun = false, true),
        ("of another host", |world| record(world).node_uid = "before".to_owned(), true),
        (
            "its end is on record",
            |world| {
                let attempt = reboot(world).attempt;
                record(world).attempts.insert("kernel/interrupt".to_owned(), attempt);
            },
            true,
        ),
    ];
    for (case, change, expected) in cases {
        let mut world = gone_rebooting();
        change(&mut world);
        assert_eq!(lets_go(&plan(&world.input)).is_some(), expected, "{case}");
    }
    let mut world = gone_rebooting();
    world.pass(3600);
    assert!(lets_go(&plan(&world.input)).is_some(), "one that never came is not waited for");
}

/// Cordoned again by hand after a visit, the node is not ours to open.
#[test]
fn a_closed_record_of_a_resource_that_is_gone_holds_nothing_without_our_mark() {
    let mut world = failed();
    world.input.desired.rollouts.clear();
    world.input.observed.resources.clear();
    assert!(lets_go(&plan(&world.input)).is_some());
    node(&mut world).cordons.clear();
    assert!(lets_go(&plan(&world.input)).is_none());
}

/// Says for which visits the pods are deleted now.
fn deletes(world: &World) -> usize {
    let planned = plan(&world.input);
    let visits = planned.actions.iter().map(|action| match action {
        Action::DeleteExecutors { visits, .. } => visits.len(),
        _ => 0,
    });
    visits.sum()
}

#[test]
fn the_pods_of_a_visit_go_together_a_minute_after_the_last_ended_at_a_half_or_full_minute() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    world.run();
    let noon = super::builders::noon();
    for (ended, goes) in [(0, 60), (1, 90), (29, 90), (30, 90), (31, 120)] {
        for executor in world.input.observed.executors.values_mut() {
            executor.finished = Some(noon + SignedDuration::from_secs(ended));
        }
        world.input.now = noon + SignedDuration::from_secs(goes - 1);
        assert_eq!(deletes(&world), 0, "ended at {ended}");
        let wake = plan(&world.input).wake_at;
        assert_eq!(wake, Some(noon + SignedDuration::from_secs(goes)), "ended at {ended}");
        world.input.now = noon + SignedDuration::from_secs(goes);
        assert_eq!(deletes(&world), 1, "ended at {ended}");
    }
    let late = world.clone();
    add_running(&mut world, |_| {});
    assert_eq!(deletes(&world), 0, "one still runs");
    let mut world = late;
    for executor in world.input.observed.executors.values_mut() {
        executor.terminating = true;
    }
    assert_eq!(deletes(&world), 0, "they go already");
}

/// A person's reset takes the record away, the mark stays, and no visit follows.
#[test]
fn a_mark_without_a_record_goes_when_the_node_is_no_longer_selected() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut wanted = rollout(1, vec![kernel]);
    wanted.nodes = pool("gpu");
    for runs in [false, true] {
        let mut world = world(1, wanted.clone());
        node(&mut world).labels.insert("pool".to_owned(), "gpu".to_owned());
        world.settle();
        assert!(node(&mut world).is_cordoned_by("tuning"));
        node(&mut world).rollouts.remove("tuning");
        node(&mut world).labels.insert("pool".to_owned(), "cpu".to_owned());
        if !runs {
            world.input.observed.executors.clear();
        }
        world.settle();
        assert_eq!(node(&mut world).unschedulable, runs, "not under a pod that still runs");
        world.finish_all(End::Success);
        world.settle();
        assert!(!node(&mut world).unschedulable);
        assert!(node(&mut world).cordons.is_empty());
    }
}
