//! What a deletion waits for, for how long, and what it leaves alone.

use jiff::SignedDuration;
use nodewright::model::{
    Action, CordonMark, Executor, ExecutorPhase, FinalizerWrite, Group, InterruptKind, Node,
    NodePatch, NodeRollout, Package, PodRef, StatusWord,
};
use nodewright::plan::plan;
use nodewright::plan::world::{End, World};

use super::builders::{PackageExt, WorldExt, noon, package, rollout, world};
use super::deletion::{delete, is_gone, resource};

const HERE: &str = "node-00";

fn node(world: &mut World) -> &mut Node {
    world.input.observed.nodes.get_mut(HERE).expect("a node of the fleet")
}

fn state(world: &mut World) -> &mut NodeRollout {
    node(world).rollouts.get_mut("tuning").expect("our state")
}

/// A resource that is complete on its node, with nothing left of its pods, and is being deleted.
fn complete(package: Package) -> World {
    let mut world = world(1, rollout(1, vec![package]));
    world.run();
    world.input.now = noon() + SignedDuration::from_hours(3);
    delete(&mut world);
    world
}

/// Adds a pod that runs, as one of an earlier visit.
fn add_running(world: &mut World, change: impl Fn(&mut Executor)) {
    let all = world.input.observed.executors.values();
    let mut of_visits = all.filter(|executor| executor.group != Group::Pull);
    let mut executor = of_visits.next_back().expect("a pod of the visit").clone();
    executor.phase = ExecutorPhase::Running;
    executor.begun = true;
    executor.finished = None;
    executor.created = world.input.now;
    executor.visit.visit = executor.visit.visit.saturating_sub(1);
    executor.reference.name = "still-running".to_owned();
    change(&mut executor);
    let name = executor.reference.name.clone();
    world.input.observed.executors.insert(name, executor);
}

/// Whether this tick takes our keys off nodes, or lets the resource go.
fn leaves(world: &World) -> bool {
    plan(&world.input).actions.iter().any(|action| {
        matches!(
            action,
            Action::CleanNode(_) | Action::SetFinalizer(FinalizerWrite { present: false, .. })
        )
    })
}

fn taken_away(world: &World) -> Vec<PodRef> {
    let actions = plan(&world.input).actions.into_iter();
    let pods = actions.filter_map(|action| match action {
        Action::DeleteExecutor { pod, .. } => Some(pod),
        _ => None,
    });
    pods.collect()
}

#[test]
fn a_resource_stays_while_a_pod_of_it_may_do_something_on_a_host() {
    type Change = fn(&mut Executor);
    let cases: [(&str, Change, bool); 4] = [
        ("it runs", |_| {}, true),
        ("it is another rollout's", |executor| executor.visit.rollout = "other".to_owned(), false),
        ("it only pulls", |executor| executor.group = Group::Pull, false),
        ("it has ended", |executor| executor.phase = ExecutorPhase::Succeeded, false),
    ];
    for (case, change, stays) in cases {
        let mut world = complete(package("motd", "1.0.0"));
        add_running(&mut world, change);
        assert_eq!(leaves(&world), !stays, "{case}");
    }
}

#[test]
fn a_resource_does_not_wait_for_a_host_that_is_down_for_longer_than_a_reboot_takes() {
    for (seconds, stays) in [(3_599, true), (3_600, false)] {
        let mut world = complete(package("motd", "1.0.0"));
        add_running(&mut world, |_| {});
        let since = world.input.now - SignedDuration::from_secs(seconds);
        node(&mut world).ready = false;
        node(&mut world).ready_since = Some(since);
        assert_eq!(leaves(&world), !stays, "down for {seconds} s");
        if stays {
            let wake = Some(since + SignedDuration::from_hours(1));
            assert_eq!(plan(&world.input).wake_at, wake, "it is looked at then");
        }
    }
}

#[test]
fn a_pod_that_has_not_begun_is_waited_for_until_its_time_to_start_is_over() {
    let mut world = complete(package("motd", "1.0.0"));
    let created = world.input.now;
    add_running(&mut world, |executor| {
        executor.phase = ExecutorPhase::Pending;
        executor.begun = false;
        executor.running = None;
        // Of the last visit, and not recorded: those before are taken away at once.
        executor.visit.visit += 1;
        executor.attempt += 1;
    });
    let over = created + SignedDuration::from_mins(5);
    for (passed, taken) in [(0, false), (299, false), (300, true)] {
        world.input.now = created + SignedDuration::from_secs(passed);
        assert!(!leaves(&world), "after {passed} s");
        assert_eq!(!taken_away(&world).is_empty(), taken, "after {passed} s");
        let wake = (!taken).then_some(over);
        assert_eq!(plan(&world.input).wake_at, wake, "after {passed} s");
    }
    let mut going = world.clone();
    for executor in going.input.observed.executors.values_mut() {
        executor.terminating = true;
    }
    assert_eq!(taken_away(&going), [], "it goes already");
    going.input.now = created;
    assert_eq!(plan(&going.input).wake_at, None, "and nothing is to be seen then");
    for executor in world.input.observed.executors.values_mut() {
        executor.begun = true;
    }
    assert_eq!(taken_away(&world), [], "one that has begun is not cut short");
}

#[test]
fn our_keys_go_also_where_only_one_of_them_is_left() {
    type Change = fn(&mut NodeRollout);
    let cases: [(&str, Change, bool); 4] = [
        ("none", |_| {}, false),
        ("the status", |state| state.status = Some(StatusWord::Unknown), true),
        ("the clock of a drain", |state| state.drain_start = Some(noon()), true),
        ("entries without a package", |state| state.entries_text = Some("{}".to_owned()), true),
    ];
    for (case, change, dirty) in cases {
        let mut world = complete(package("motd", "1.0.0"));
        let state = state(&mut world);
        *state = NodeRollout::default();
        change(state);
        let cleans =
            plan(&world.input).actions.iter().any(|action| matches!(action, Action::CleanNode(_)));
        assert_eq!(cleans, dirty, "{case}");
    }
}

/// The patch on the node.
fn patch(world: &World) -> NodePatch {
    let mut actions = plan(&world.input).actions.into_iter();
    let patch = actions.find_map(|action| match action {
        Action::PatchNode(patch) => Some(patch),
        _ => None,
    });
    patch.expect("the node is patched")
}

#[test]
fn what_cannot_be_read_is_not_written_over_when_our_mark_goes() {
    type Change = fn(&mut Node);
    let cases: [(&str, Change, Option<bool>); 3] = [
        ("ours alone", |_| {}, Some(false)),
        (
            "another rollout holds it, too",
            |node| node.cordons.push(CordonMark::Rollout("other".to_owned())),
            None,
        ),
        ("it is open already", |node| node.unschedulable = false, None),
    ];
    for (case, change, unschedulable) in cases {
        let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
        let mut world = world(1, rollout(1, vec![kernel]));
        world.settle();
        world.input.observed.executors.clear();
        state(&mut world).malformed = Some("nodeState".to_owned());
        change(node(&mut world));
        delete(&mut world);
        let patch = patch(&world);
        assert_eq!((&patch.record, &patch.entries, patch.status), (&None, &None, None), "{case}");
        assert_eq!(
            (patch.cordon_mark, patch.unschedulable),
            (Some(false), unschedulable),
            "{case}"
        );
    }
}

#[test]
fn a_deleted_resource_that_cannot_be_read_stays_while_it_has_something_to_uninstall() {
    for (wanted, goes) in
        [(package("motd", "1.0.0"), true), (package("motd", "1.0.0").with_uninstall(), false)]
    {
        let mut world = world(1, rollout(1, vec![wanted]));
        world.run();
        world.input.desired.rollouts.clear();
        let why = "spec.packages: unknown field".to_owned();
        world.input.desired.invalid.insert("tuning".to_owned(), why);
        resource(&mut world).deleting = true;
        world.settle();
        assert_eq!(is_gone(&world), goes);
    }
}

/// A node whose uninstall failed stays cordoned for people, unless nobody would look at it.
#[test]
fn a_node_whose_uninstall_failed_is_let_go_when_the_resource_is_paused_or_disabled() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot).with_uninstall();
    let mut failed = world(1, rollout(1, vec![kernel]));
    failed.run();
    delete(&mut failed);
    for _ in 1..=4 {
        failed.settle();
        failed.finish_all(End::Failure);
        failed.settle();
        failed.pass(600);
    }
    failed.settle();
    assert!(failed.input.observed.nodes[HERE].unschedulable, "kept for people to look at");
    for (paused, disabled) in [(true, false), (false, true)] {
        let mut world = failed.clone();
        let resource = resource(&mut world);
        (resource.paused, resource.disabled) = (paused, disabled);
        world.settle();
        let node = &world.input.observed.nodes[HERE];
        assert!(!node.unschedulable && node.cordons.is_empty(), "{paused} {disabled}");
        assert!(!is_gone(&world), "what it uninstalls is still there");
    }
    // A failure of what came before the deletion is nothing to look at any more.
    let record = state(&mut failed).record.as_mut().expect("a visit");
    record.target = "of-before".to_owned();
    let planned = plan(&failed.input);
    assert!(planned.actions.iter().any(|action| matches!(action, Action::PatchNode(_))));
}

#[test]
fn an_uninstall_of_a_deleted_resource_ends_when_it_is_paused_or_disabled() {
    for (paused, disabled) in [(true, false), (false, true)] {
        let two = ["a", "b"].map(|name| package(name, "1.0.0").with_uninstall());
        let mut wanted = rollout(1, two.to_vec());
        wanted.serial = true;
        let mut world = world(1, wanted);
        world.run();
        delete(&mut world);
        world.settle();
        assert_eq!(world.active().len(), 1, "the first is being uninstalled");
        let resource = resource(&mut world);
        (resource.paused, resource.disabled) = (paused, disabled);
        world.finish_all(End::Success);
        world.settle();
        let record = world.input.observed.nodes[HERE].record("tuning", "uid-tuning");
        assert!(record.is_none_or(|record| !record.is_open()), "{paused} {disabled}");
        assert!(world.active().is_empty() && !is_gone(&world));
    }
}
