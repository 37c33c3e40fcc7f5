//! Reboots and overlap: T09 and T13 (failures C1 to C8, D5).

use nodewright::model::{
    Action, Executor, ExecutorPhase, Failure, Group, InterruptKind, Phase, StatusWord,
};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};

const NODE: &str = "node-00";

/// The reboot has been issued: its pod exists.
fn issued() -> World {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![kernel]));
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    assert_eq!(world.entry(NODE, "kernel"), "1.0.0 interrupt in_progress");
    assert_eq!(interrupts(&world), 1);
    world
}

fn interrupt(world: &mut World) -> &mut Executor {
    let mut executors = world.input.observed.executors.values_mut();
    executors.find(|it| it.group == Group::Interrupt).expect("the reboot was issued")
}

fn interrupts(world: &World) -> usize {
    let executors = world.input.observed.executors.values();
    executors.filter(|executor| executor.group == Group::Interrupt).count()
}

/// Ends the container of the reboot as the kubelet reports it; nothing else changes.
fn end_with(world: &mut World, exit_code: i32) {
    let now = world.input.now;
    let executor = interrupt(world);
    executor.finished = Some(now);
    if exit_code == 0 {
        executor.phase = ExecutorPhase::Succeeded;
        return;
    }
    executor.phase = ExecutorPhase::Failed;
    executor.failure = Some(Failure {
        stage: None,
        in_check: false,
        step: None,
        exit_code: Some(exit_code),
        message: "container main ended".to_owned(),
        disrupted: false,
    });
}

/// Ticks once; the node is never erroring, no batch counts a failure, nothing is issued.
fn waits(world: &mut World) {
    let (plan, breaches, _) = world.tick(|_| Fate::Done);
    assert_eq!(breaches, vec![]);
    let creates = plan.actions.iter().any(|action| matches!(action, Action::CreateExecutor(_)));
    assert!(!creates, "{:?}", plan.actions);
    assert_eq!(world.entry(NODE, "kernel"), "1.0.0 interrupt in_progress");
    assert!(world.verdict(NODE).starts_with("Wait: reboot issued at "), "{}", world.verdict(NODE));
    let node = &world.input.observed.nodes[NODE];
    assert_ne!(node.rollouts["tuning"].status, Some(StatusWord::Erroring));
    let status = plan.statuses["tuning"].clone();
    assert_eq!(status.memory.compartments["__default__"].batch_state.failed_nodes, 0);
    assert_ne!(status.word, StatusWord::Erroring);
}

#[test]
fn t09_the_reboot_command_dies_and_the_reboot_works() {
    for exit_code in [143, 137, 1, 0] {
        let mut world = issued();
        world.pass(5);
        end_with(&mut world, exit_code);
        waits(&mut world);
        world.pass(5);
        waits(&mut world);
        // On its way down and up again: not ready first, then the old boot ID, then the new one.
        let node = world.input.observed.nodes.get_mut(NODE).expect("there");
        node.ready = false;
        waits(&mut world);
        world.pass(60);
        world.reboot(NODE);
        waits(&mut world);
        world.input.observed.nodes.get_mut(NODE).expect("there").ready = true;
        world.settle();
        assert_eq!(world.entry(NODE, "kernel"), "1.0.0 post-interrupt in_progress");
        assert_eq!(world.active().len(), 1, "post-interrupt runs");
        world.run();
        assert!(world.is_complete(), "exit code {exit_code}: {}", world.verdict(NODE));
        assert_eq!((interrupts(&world), world.reboots[NODE]), (1, 1), "exactly one");
    }
}

/// C4 and C6: what counts is the boot ID. A kubelet that restarts is no reboot, and a reboot so
/// fast that the node is never seen not ready is one.
#[test]
fn t09_a_kubelet_restart_is_no_reboot_and_a_fast_reboot_is_one() {
    let mut world = issued();
    end_with(&mut world, 143);
    for ready in [false, true, false, true] {
        world.input.observed.nodes.get_mut(NODE).expect("there").ready = ready;
        waits(&mut world);
        world.pass(30);
    }
    world.reboot(NODE);
    world.settle();
    assert_eq!(world.entry(NODE, "kernel"), "1.0.0 post-interrupt in_progress");
}

#[test]
fn t09_a_reboot_that_never_happens_is_an_error_at_its_deadline_and_not_before() {
    for exit_code in [0, 143] {
        let mut world = issued();
        end_with(&mut world, exit_code);
        world.pass(3590);
        waits(&mut world);
        world.pass(10);
        world.settle();
        let verdict = world.verdict(NODE);
        assert!(verdict.starts_with("Blocked: interrupt reboot failed: "), "{verdict}");
        assert!(verdict.contains("the deadline of one hour has passed"), "{verdict}");
        assert_eq!(world.entry(NODE, "kernel"), "1.0.0 interrupt erroring");
        assert_eq!(interrupts(&world), 1, "it is not issued again");
        assert!(world.input.observed.nodes[NODE].unschedulable, "it stays cordoned");
    }
}

#[test]
fn t09_nothing_begins_beside_an_interrupt_that_still_runs_after_its_deadline() {
    let mut world = issued();
    world.pass(3600);
    world.settle();
    assert!(world.verdict(NODE).starts_with("Blocked: interrupt reboot failed: "));
    let kernel = package("kernel", "1.0.1").interrupting(InterruptKind::Reboot);
    world.set_rollout(rollout(1, vec![kernel]));
    world.settle();
    let verdict = world.verdict(NODE);
    assert!(verdict.starts_with("Wait: interrupt of kernel|1.0.0 runs since "), "{verdict}");
    assert_eq!(world.active().len(), 1, "the pod that may still reboot the node, and no other");
    world.run();
    assert!(world.is_complete(), "{}", world.verdict(NODE));
}

#[test]
fn t13_a_node_goes_on_while_another_of_its_batch_is_at_work_and_no_third_is_picked() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(3, rollout(2, vec![kernel]));
    world.settle();
    let working = world.active();
    assert_eq!(working.len(), 2);
    let second = working.iter().find(|name| name.contains("node-01")).expect("picked").clone();
    world.end(&second, End::Success);
    world.settle();
    let reboot = world.active().into_iter().find(|name| name.contains("interrupt"));
    world.end(&reboot.expect("the second node is rebooted"), End::Success);
    // The reboot is recorded in one tick, and post-interrupt is started in the next.
    let mut started = Vec::new();
    for _ in 0..2 {
        let before = world.input.observed.nodes["node-00"].clone();
        let (plan, breaches, _) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        assert_eq!(world.input.observed.nodes["node-00"], before, "the first is untouched");
        started.extend(plan.actions.into_iter().filter_map(|action| match action {
            Action::CreateExecutor(spec) => Some((spec.visit.node.clone(), spec.work.group())),
            _ => None,
        }));
    }
    assert_eq!(started, [("node-01".to_owned(), Group::Verify)]);
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 apply in_progress");
    let third = &world.input.observed.nodes["node-02"];
    assert!(third.rollouts.get("tuning").is_none_or(|state| state.record.is_none()), "not picked");
    assert_eq!(world.peak["tuning"], 2);
    world.run();
    assert!(world.is_complete());
    assert!(world.reboots.values().all(|reboots| *reboots == 1));
}

/// C5: whoever plans next knows the boot ID from before, and issues no second reboot.
#[test]
fn c5_another_daemon_that_takes_over_in_the_middle_issues_no_second_reboot() {
    let mut world = issued();
    let record = world.input.observed.nodes[NODE].rollouts["tuning"].record.clone();
    let record = record.expect("a record");
    assert_eq!(record.phase, Phase::Interrupting);
    assert_eq!(
        record.boot_before.as_deref(),
        Some(world.input.observed.nodes[NODE].boot_id.as_str())
    );
    // The pod is gone with the node it ran on, and so is all that the daemon had in memory.
    end_with(&mut world, 143);
    world.reboot(NODE);
    world.input.observed.refusals.clear();
    world.run();
    assert!(world.is_complete());
    assert_eq!(world.reboots[NODE], 1);
}

/// The caches of pods may be newer than those of nodes: they say that the interrupt pod is gone
/// where the nodes' do not say yet that its reboot has been.
#[test]
fn t09_a_reboot_that_has_been_is_not_issued_again_by_who_does_not_know() {
    let mut world = issued();
    let (desired, mut known) = (world.input.desired.clone(), world.input.observed.clone());
    known.executors.clear();
    world.finish_all(End::Success);
    world.input.observed.executors.retain(|_, it| it.group != Group::Interrupt);
    world.see(desired, known);
    world.settle();
    assert_eq!((interrupts(&world), world.reboots.get(NODE)), (0, Some(&1)));
    world.catch_up();
    world.run();
    assert!(world.is_complete(), "{}", world.verdict(NODE));
    assert_eq!(world.reboots.get(NODE), Some(&1));
}
