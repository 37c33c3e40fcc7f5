//! The audit: a clean plan passes, and each invariant broken by itself is reported by itself.
//!
//! Every case starts from a plan of the planner's own, which the audit finds clean, and changes
//! one thing: in the plan, or in the world under it.

use nodewright::model::{
    Action, CordonMark, ExecutorSpec, InterruptKind, Node, NodePatch, Outcome, Phase, Plan, Reason,
    Record, VerdictKind, Work,
};
use nodewright::plan::world::{End, Fate, World};
use nodewright::plan::{Breach, Invariant, audit, freeze, plan};

use super::builders::{PackageExt, WorldExt, package, pod, rollout, world};

/// A fleet of four whose package reboots, with one that depends on it.
pub(super) fn fleet(count: u32) -> World {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let driver = package("driver", "1.0.0").after("kernel", "1.0.0");
    world(4, rollout(count, vec![kernel, driver]))
}

/// Plays on until the planner wants an action like this, and returns the clean plan with it.
pub(super) fn until(world: &mut World, wanted: impl Fn(&Action) -> bool) -> Plan {
    for _ in 0..500 {
        let plan = plan(&world.input);
        assert_eq!(audit(&world.input, &plan), vec![], "the planner's own plan is clean");
        if plan.actions.iter().any(&wanted) {
            return plan;
        }
        let (_, _, done) = world.tick(|_| Fate::Done);
        if done == 0 {
            world.finish_all(End::Success);
        }
    }
    panic!("the planner never wants it");
}

pub(super) fn patch(action: &Action) -> Option<&NodePatch> {
    if let Action::PatchNode(patch) = action { Some(patch) } else { None }
}

pub(super) fn record(action: &Action) -> Option<&Record> {
    patch(action)?.record.as_ref()
}

pub(super) fn is_pick(action: &Action) -> bool {
    record(action).is_some_and(|record| record.phase == Phase::Picked) && begins_visit(action)
}

fn begins_visit(action: &Action) -> bool {
    patch(action).is_some_and(|patch| patch.unschedulable == Some(true))
}

pub(super) fn begins_interrupt(action: &Action) -> bool {
    record(action).is_some_and(|record| record.phase == Phase::Interrupting)
}

pub(super) fn releases(action: &Action) -> bool {
    record(action).is_some_and(|record| record.outcome == Some(Outcome::Complete))
}

pub(super) fn executor(action: &Action) -> Option<&ExecutorSpec> {
    if let Action::CreateExecutor(spec) = action { Some(spec) } else { None }
}

pub(super) fn installs(name: &str) -> impl Fn(&Action) -> bool {
    move |action| {
        executor(action).is_some_and(|spec| {
            matches!(spec.work, Work::Install { .. }) && spec.work.package().name == name
        })
    }
}

pub(super) fn interrupts(action: &Action) -> bool {
    executor(action).is_some_and(|spec| matches!(spec.work, Work::Interrupt { .. }))
}

pub(super) fn evicts(action: &Action) -> bool {
    matches!(action, Action::Evict(_))
}

/// Changes the first node patch of the kind.
pub(super) fn change(
    plan: &mut Plan,
    which: impl Fn(&Action) -> bool,
    change: impl Fn(&mut NodePatch),
) {
    let found = plan.actions.iter_mut().find(|action| which(action));
    match found {
        Some(Action::PatchNode(patch)) => change(patch),
        other => panic!("no such patch: {other:?}"),
    }
}

pub(super) fn node<'w>(world: &'w mut World, name: &str) -> &'w mut Node {
    world.input.observed.nodes.get_mut(name).expect("a node of the fleet")
}

fn node_of(plan: &Plan, which: impl Fn(&Action) -> bool) -> String {
    let action = plan.actions.iter().find(|action| which(action)).expect("an action of the kind");
    match (patch(action), executor(action), action) {
        (Some(patch), _, _) => patch.node.clone(),
        (_, Some(spec), _) => spec.visit.node.clone(),
        (_, _, Action::Evict(eviction)) => eviction.node.clone(),
        other => panic!("an action on no node: {other:?}"),
    }
}

/// Asserts that exactly this invariant is broken, once.
pub(super) fn assert_only(world: &World, plan: &Plan, invariant: Invariant) {
    let breaches = audit(&world.input, plan);
    let broken: Vec<Invariant> = breaches.iter().map(|breach| breach.invariant).collect();
    assert_eq!(broken, [invariant], "{breaches:#?}");
    assert_eq!(breaches[0].rollout, "tuning");
    assert!(!breaches[0].detail.is_empty());
}

#[test]
fn a_whole_rollout_is_clean() {
    let mut world = fleet(2);
    world.add_pod(pod("node-00", "web", &[]));
    // `run` asserts that every plan of it is clean.
    assert!(world.run() > 4);
    assert!(world.is_complete());
}

#[test]
fn ceiling_a_node_that_went_down_meanwhile_takes_the_place() {
    let mut world = fleet(1);
    let plan = until(&mut world, is_pick);
    node(&mut world, "node-03").ready = false;
    assert_only(&world, &plan, Invariant::Ceiling);
}

#[test]
fn held_an_eviction_from_a_node_that_is_open_to_workloads() {
    let mut world = fleet(1);
    world.add_pod(pod("node-00", "web", &[]));
    let plan = until(&mut world, evicts);
    node(&mut world, "node-00").unschedulable = false;
    assert_only(&world, &plan, Invariant::Held);
}

#[test]
fn held_an_interrupting_package_on_a_node_that_is_open_to_workloads() {
    let mut world = fleet(1);
    let plan = until(&mut world, installs("kernel"));
    node(&mut world, "node-00").unschedulable = false;
    assert_only(&world, &plan, Invariant::Held);
}

#[test]
fn held_a_release_that_leaves_our_cordon_behind() {
    let mut world = fleet(1);
    let mut plan = until(&mut world, releases);
    change(&mut plan, releases, |patch| patch.cordon_mark = None);
    assert_only(&world, &plan, Invariant::Held);
    // Also where it was not this visit that took hold of the node.
    change(&mut plan, releases, |patch| {
        patch.record.as_mut().expect("a release closes a visit").held = false;
    });
    assert_only(&world, &plan, Invariant::Held);
}

#[test]
fn pods_gone_an_interrupt_under_a_pod_that_came_meanwhile() {
    let mut world = fleet(1);
    let plan = until(&mut world, interrupts);
    world.add_pod(pod("node-00", "web", &[]));
    assert_only(&world, &plan, Invariant::PodsGone);
}

#[test]
fn pods_gone_an_eviction_while_a_protected_pod_runs() {
    let mut world = fleet(1);
    world.add_pod(pod("node-00", "web", &[]));
    let plan = until(&mut world, evicts);
    world.add_pod(pod("node-00", "train", &[("workload", "training")]));
    assert_only(&world, &plan, Invariant::PodsGone);
}

#[test]
fn order_an_executor_of_a_visit_that_is_not_on_record() {
    let mut world = fleet(1);
    let mut plan = until(&mut world, installs("kernel"));
    for action in &mut plan.actions {
        if let Action::CreateExecutor(spec) = action {
            spec.visit.visit += 1;
        }
    }
    assert_only(&world, &plan, Invariant::Order);
}

#[test]
fn order_a_package_before_the_one_it_depends_on() {
    let mut world = fleet(1);
    let plan = until(&mut world, installs("driver"));
    let here = node_of(&plan, installs("driver"));
    let state = node(&mut world, &here).rollouts.get_mut("tuning").expect("our state");
    state.entries.retain(|id, _| id.name != "kernel");
    assert_only(&world, &plan, Invariant::Order);
}

#[test]
fn one_executor_two_of_one_package_in_one_plan() {
    let mut world = fleet(1);
    let mut plan = until(&mut world, installs("kernel"));
    let first = plan.actions.iter().find(|action| installs("kernel")(action)).cloned();
    plan.actions.extend(first);
    assert_only(&world, &plan, Invariant::OneExecutor);
}

#[test]
fn one_executor_beside_one_that_runs() {
    let mut world = fleet(1);
    let plan = until(&mut world, installs("kernel"));
    assert!(world.tick(|_| Fate::Done).2 > 0);
    assert_only(&world, &plan, Invariant::OneExecutor);
}

#[test]
fn one_reboot_the_boot_id_is_recorded_with_the_interrupt() {
    let mut world = fleet(1);
    let mut plan = until(&mut world, begins_interrupt);
    change(&mut plan, begins_interrupt, |patch| {
        let record = patch.record.as_mut().expect("the patch records the interrupt");
        record.boot_before = None;
    });
    assert_only(&world, &plan, Invariant::OneReboot);
}

#[test]
fn one_reboot_an_interrupt_on_a_host_that_has_rebooted_since() {
    let mut world = fleet(1);
    let plan = until(&mut world, interrupts);
    node(&mut world, "node-00").boot_id = "boot-other".to_owned();
    assert_only(&world, &plan, Invariant::OneReboot);
}

#[test]
fn foreign_cordon_another_owner_came_meanwhile() {
    for mark in [CordonMark::Rollout("other".to_owned()), CordonMark::RuntimeRequired] {
        let mut world = fleet(1);
        let plan = until(&mut world, releases);
        node(&mut world, "node-00").cordons.push(mark);
        assert_only(&world, &plan, Invariant::ForeignCordon);
    }
}

#[test]
fn foreign_cordon_ours_is_not_there_any_more() {
    let mut world = fleet(1);
    let plan = until(&mut world, releases);
    node(&mut world, "node-00").cordons.clear();
    assert_only(&world, &plan, Invariant::ForeignCordon);
}

#[test]
fn open_batch_a_stopped_rollout_picks_nobody() {
    let mut world = fleet(1);
    let plan = until(&mut world, is_pick);
    let resource = world.input.observed.resources.get_mut("tuning").expect("our resource");
    let status = resource.status.as_mut().expect("a batch is open");
    for compartment in status.memory.compartments.values_mut() {
        compartment.batch_state.should_stop = true;
    }
    assert_only(&world, &plan, Invariant::OpenBatch);
}

#[test]
fn open_batch_a_number_that_was_not_reserved() {
    let mut world = fleet(1);
    let mut plan = until(&mut world, is_pick);
    change(&mut plan, is_pick, |patch| {
        patch.record.as_mut().expect("a pick records").order += 7;
    });
    assert_only(&world, &plan, Invariant::OpenBatch);
}

#[test]
fn order_numbers_are_given_once() {
    let mut world = fleet(2);
    let mut plan = until(&mut world, is_pick);
    let picks: Vec<&mut Record> = plan
        .actions
        .iter_mut()
        .filter_map(
            |action| if let Action::PatchNode(p) = action { p.record.as_mut() } else { None },
        )
        .collect();
    assert_eq!(picks.len(), 2);
    for record in picks {
        record.order = 0;
    }
    assert_only(&world, &plan, Invariant::OrderNumbers);
}

#[test]
fn one_patch_a_node_changed_twice() {
    let mut world = fleet(1);
    let mut plan = until(&mut world, begins_interrupt);
    let again = plan.actions.iter().find(|action| begins_interrupt(action)).cloned();
    plan.actions.extend(again);
    assert_only(&world, &plan, Invariant::OnePatch);
}

#[test]
fn one_patch_an_executor_beside_it() {
    let mut world = fleet(1);
    let mut plan = until(&mut world, installs("kernel"));
    let state = &world.input.observed.nodes["node-00"].rollouts["tuning"];
    let patch = NodePatch {
        node: "node-00".to_owned(),
        node_uid: "uid-node-00".to_owned(),
        rollout: "tuning".to_owned(),
        kind: nodewright::model::PatchKind::Progress {
            record_text: state.record_text.clone(),
            entries_text: state.entries_text.clone(),
        },
        entries: Some(state.entries.clone()),
        record: None,
        status: None,
        cordon_mark: None,
        drain_start: None,
        unschedulable: None,
    };
    plan.actions.push(Action::PatchNode(patch));
    assert_only(&world, &plan, Invariant::OnePatch);
}

#[test]
fn freezing_takes_that_rollouts_actions_out_and_no_others() {
    let mut world = fleet(1);
    let mut other = rollout(1, vec![package("motd", "1.0.0")]);
    other.name = "banner".to_owned();
    other.priority = 100;
    world.set_rollout(other);
    let of = |plan: &Plan, name: &str| {
        let statuses = plan.actions.iter().filter(|action| {
            matches!(action, Action::WriteStatus(write) if write.rollout == name)
                || matches!(action, Action::CreateSnapshot(spec) if spec.rollout == name)
                || patch(action).is_some_and(|patch| patch.rollout == name)
        });
        statuses.count()
    };
    let mut frozen = plan(&world.input);
    let before = (of(&frozen, "tuning"), of(&frozen, "banner"));
    assert!(before.0 > 0 && before.1 > 0, "both rollouts have work: {before:?}");
    let all = frozen.actions.len();
    let breach = Breach {
        rollout: "tuning".to_owned(),
        invariant: Invariant::Ceiling,
        detail: "1 down and 1 more of 1".to_owned(),
    };
    freeze(&mut frozen, &[breach]);
    assert_eq!((of(&frozen, "tuning"), of(&frozen, "banner")), (0, before.1));
    assert_eq!(frozen.actions.len(), all - before.0, "nothing else is taken out");
    for verdict in frozen.verdicts["tuning"].values() {
        assert_eq!(verdict.kind, VerdictKind::Blocked);
        let invariant = "more nodes would be disturbed than the ceiling allows: 1 down and 1 more \
                         of 1";
        assert_eq!(verdict.reason, Reason::Frozen { invariant: invariant.to_owned() });
    }
    let free = plan(&world.input);
    assert_eq!(frozen.verdicts["banner"], free.verdicts["banner"]);
    freeze(&mut frozen, &[]);
    assert_eq!(frozen.actions.len(), all - before.0);
}
