//! Attempts, time limits, suspension: what becomes of pods that do not end well (B.11, B.16, T19).

use std::time::Duration;

use nodewright::model::{
    Action, Executor, ExecutorPhase, Failure, Group, InterruptKind, Package, Rejection, State,
    Waiting,
};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};

pub fn one(package: Package) -> World {
    let mut world = world(1, rollout(1, vec![package]));
    world.settle();
    world
}

pub fn motd() -> World {
    one(package("motd", "1.0.0"))
}

fn kernel() -> World {
    one(package("kernel", "1.0.0").interrupting(InterruptKind::Reboot))
}

/// The executors of visits, oldest attempt first.
fn executors(world: &World) -> Vec<&Executor> {
    let all = world.input.observed.executors.values();
    let mut all: Vec<&Executor> = all.filter(|it| it.group != Group::Pull).collect();
    all.sort_by_key(|executor| executor.attempt);
    all
}

fn change(world: &mut World, group: Group, with: impl Fn(&mut Executor)) {
    for executor in world.input.observed.executors.values_mut() {
        if executor.group == group && executor.is_active() {
            with(executor);
        }
    }
}

/// The kubelet has not begun with it.
fn hold_back(executor: &mut Executor, reason: Option<&str>) {
    executor.phase = ExecutorPhase::Pending;
    executor.begun = false;
    executor.running = None;
    executor.stage_since = None;
    executor.waiting = reason.map(|reason| Waiting {
        reason: reason.to_owned(),
        message: "not found".to_owned(),
        image: "registry.example/motd:1.0.0".to_owned(),
        since: executor.created,
    });
}

/// The kubelet does not take it.
fn refuse(executor: &mut Executor, at: jiff::Timestamp) {
    hold_back(executor, None);
    executor.phase = ExecutorPhase::Failed;
    executor.finished = Some(at);
    executor.failure = Some(Failure {
        stage: None,
        in_check: false,
        step: None,
        exit_code: None,
        message: "OutOfcpu: no room".to_owned(),
        disrupted: true,
    });
}

fn message(world: &World) -> String {
    let record = world.input.observed.nodes["node-00"].record("tuning", "uid-tuning");
    record.and_then(|record| record.message.clone()).unwrap_or_default()
}

fn restarts(world: &World) -> Option<i32> {
    let entries = world.input.observed.nodes["node-00"].entries("tuning");
    entries.values().next().expect("an entry").restarts
}

fn is_over(world: &World) -> bool {
    let record = world.input.observed.nodes["node-00"].record("tuning", "uid-tuning");
    !record.expect("a record").is_open()
}

#[test]
fn a_stage_that_takes_too_long_is_a_failed_attempt() {
    let mut slow = package("motd", "1.0.0");
    slow.stage_timeout = Some(Duration::from_mins(10));
    let mut world = one(slow);
    world.pass(599);
    world.settle();
    assert_eq!((restarts(&world), executors(&world).len()), (None, 1));
    let wake = nodewright::plan::plan(&world.input).wake_at.expect("an alarm");
    assert_eq!(wake.duration_since(world.input.now).as_secs(), 1);
    world.pass(1);
    world.settle();
    assert_eq!(restarts(&world), Some(1));
    assert!(message(&world).contains("stage timeout of 600s passed"), "{}", message(&world));
    assert!(executors(&world).is_empty(), "it is taken away once that is on record");
    assert!(world.verdict("node-00").contains("attempt"), "{}", world.verdict("node-00"));
    world.pass(11);
    world.settle();
    assert_eq!(executors(&world)[0].attempt, 2);
    for _ in 0..3 {
        world.pass(600 + 300);
        world.settle();
        world.pass(300);
        world.settle();
    }
    assert!(is_over(&world), "four attempts are enough");
    assert!(world.verdict("node-00").starts_with("Blocked"), "{}", world.verdict("node-00"));
}

#[test]
fn a_stage_timeout_of_zero_is_no_limit_and_none_is_the_daemons() {
    let mut endless = package("motd", "1.0.0");
    endless.stage_timeout = Some(Duration::ZERO);
    let mut world = one(endless);
    world.pass(86_400);
    world.settle();
    assert_eq!((restarts(&world), executors(&world).len()), (None, 1));
    let mut world = motd();
    world.input.rules.default_stage_timeout = Duration::from_mins(1);
    world.pass(60);
    world.settle();
    assert_eq!(restarts(&world), Some(1));
}

#[test]
fn t19_a_pod_that_cannot_start_is_named_and_then_an_error() {
    let stuck =
        ["ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError"];
    for reason in stuck {
        let mut world = motd();
        change(&mut world, Group::Install, |executor| hold_back(executor, Some(reason)));
        world.pass(1);
        let verdict = world.verdict("node-00");
        assert!(verdict.starts_with("Wait") && verdict.contains(reason), "{verdict}");
        world.pass(300);
        world.settle();
        assert!(is_over(&world), "{reason}: it hangs");
        let verdict = world.verdict("node-00");
        let told = verdict.contains("registry.example/motd:1.0.0") && verdict.contains("node-00");
        assert!(verdict.starts_with("Blocked") && told, "{verdict}");
        assert!(executors(&world).is_empty());
        world.set_rollout(rollout(1, vec![package("motd", "1.0.1")]));
        world.run();
        assert!(world.is_complete(), "{reason}: the correction does not go through");
    }
}

#[test]
fn t19_a_pod_in_the_making_is_work_in_progress() {
    let mut world = motd();
    let creating = |executor: &mut Executor| hold_back(executor, Some("ContainerCreating"));
    change(&mut world, Group::Install, creating);
    world.pass(10);
    assert!(world.verdict("node-00").starts_with("Act"), "{}", world.verdict("node-00"));
    world.pass(600);
    world.settle();
    assert!(!is_over(&world), "a large image takes its time");
    world.pass(300);
    world.settle();
    assert!(is_over(&world), "not for ever");
}

#[test]
fn d12_a_pod_that_no_kubelet_takes_up_is_told_and_then_an_error() {
    let mut world = motd();
    change(&mut world, Group::Install, |executor| hold_back(executor, None));
    world.pass(30);
    let verdict = world.verdict("node-00");
    assert!(verdict.starts_with("Wait") && verdict.contains("kubelet"), "{verdict}");
    world.input.observed.nodes.get_mut("node-00").expect("there").ready = false;
    world.pass(3600);
    world.settle();
    assert!(!is_over(&world), "a node that is not ready is waited for");
    let now = world.input.now;
    let node = world.input.observed.nodes.get_mut("node-00").expect("there");
    (node.ready, node.ready_since) = (true, Some(now));
    world.settle();
    assert!(!is_over(&world), "its kubelet has only just come back");
    world.pass(300);
    world.settle();
    assert!(is_over(&world));
}

#[test]
fn d12_a_pod_that_somebody_deletes_is_made_again() {
    let mut world = motd();
    world.input.observed.executors.clear();
    world.settle();
    assert_eq!((executors(&world).len(), executors(&world)[0].attempt), (1, 1));
    world.run();
    assert!(world.is_complete());
}

#[test]
fn a_lost_pod_costs_no_attempt_and_is_tried_ever_more_slowly() {
    let mut world = motd();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        world.finish_all(End::Disruption);
        world.settle();
        assert!(world.active().is_empty(), "not at once");
        let verdict = world.verdict("node-00");
        assert!(verdict.contains("its pod was lost: evicted"), "{verdict}");
        let wake = nodewright::plan::plan(&world.input).wake_at.expect("an alarm");
        pauses.push(wake.duration_since(world.input.now).as_secs());
        world.pass(*pauses.last().expect("one"));
        world.settle();
        assert_eq!(world.active().len(), 1);
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300, 300]);
    assert_eq!(restarts(&world), None);
    world.run();
    assert!(world.is_complete());
}

#[test]
fn c2_an_interrupt_that_was_refused_before_it_began_was_not_issued() {
    let mut world = kernel();
    world.finish_all(End::Success);
    world.settle();
    let now = world.input.now;
    change(&mut world, Group::Interrupt, |executor| refuse(executor, now));
    world.settle();
    assert!(world.verdict("node-00").contains("OutOfcpu"), "{}", world.verdict("node-00"));
    world.pass(10);
    world.settle();
    let interrupts = executors(&world).into_iter().filter(|it| it.group == Group::Interrupt);
    assert_eq!(interrupts.map(|it| it.attempt).collect::<Vec<_>>(), [1, 2]);
    world.run();
    assert!(world.is_complete());
    assert_eq!(world.reboots["node-00"], 1);
}

#[test]
fn c1_an_interrupt_that_has_begun_is_never_issued_twice() {
    let mut world = kernel();
    world.finish_all(End::Success);
    world.settle();
    let now = world.input.now;
    change(&mut world, Group::Interrupt, |executor| {
        refuse(executor, now);
        executor.begun = true;
    });
    world.pass(1800);
    world.settle();
    let interrupts = executors(&world).into_iter().filter(|it| it.group == Group::Interrupt);
    assert_eq!(interrupts.count(), 1, "its end proves nothing");
    assert!(world.verdict("node-00").contains("reboot"), "{}", world.verdict("node-00"));
}

#[test]
fn b11_a_pause_suspends_what_runs_and_the_stage_begins_again() {
    let mut world = motd();
    world.pass(500);
    let set = |world: &mut World, paused: bool, disabled: bool| {
        let resource = world.input.observed.resources.get_mut("tuning").expect("there");
        (resource.paused, resource.disabled) = (paused, disabled);
        world.settle();
    };
    set(&mut world, true, false);
    assert!(world.active().is_empty(), "what runs is ended");
    assert_eq!(restarts(&world), None);
    set(&mut world, true, true);
    set(&mut world, false, true);
    assert!(world.active().is_empty(), "G8: both must be clear");
    set(&mut world, true, false);
    assert!(world.active().is_empty(), "G8: both must be clear");
    set(&mut world, false, false);
    let since = executors(&world)[0].stage_since;
    assert_eq!((executors(&world)[0].attempt, since), (1, Some(world.input.now)));
    world.run();
    assert!(world.is_complete());
}

#[test]
fn b11_an_interrupt_that_has_begun_is_not_suspended_and_disabling_suspends_nothing() {
    let mut world = kernel();
    world.finish_all(End::Success);
    world.settle();
    world.input.observed.resources.get_mut("tuning").expect("there").paused = true;
    world.settle();
    assert_eq!(world.active().len(), 1);
    change(&mut world, Group::Interrupt, |executor| hold_back(executor, None));
    world.settle();
    assert!(world.active().is_empty(), "one that has not is taken back");
    let mut world = motd();
    world.input.observed.resources.get_mut("tuning").expect("there").disabled = true;
    world.settle();
    assert_eq!(world.active().len(), 1);
}

#[test]
fn d5_a_stale_executor_is_replaced_unless_it_runs() {
    let changed = || rollout(1, vec![package("motd", "1.0.0").with_config("text", "new")]);
    let mut world = motd();
    world.set_rollout(changed());
    world.settle();
    assert_eq!(executors(&world).len(), 1);
    let old = executors(&world)[0].snapshot.clone();
    assert_ne!(
        old,
        world.input.desired.rollouts["tuning"].packages["motd"].snapshot_name("tuning")
    );
    for reason in [None, Some("ContainerCreating"), Some("ErrImagePull")] {
        let mut world = motd();
        change(&mut world, Group::Install, |executor| hold_back(executor, reason));
        world.set_rollout(changed());
        world.settle();
        let wanted = &world.input.desired.rollouts["tuning"].packages["motd"];
        let there: Vec<&str> = executors(&world).iter().map(|it| it.snapshot.as_str()).collect();
        assert_eq!(there, [wanted.snapshot_name("tuning")], "{reason:?}");
        world.run();
        assert!(world.is_complete());
    }
}

#[test]
fn d5_a_target_that_changes_in_back_off_begins_at_once() {
    let mut world = motd();
    world.finish_all(End::Failure);
    world.settle();
    assert!(world.active().is_empty());
    world.set_rollout(rollout(1, vec![package("motd", "1.0.1")]));
    world.settle();
    assert_eq!(world.active().len(), 1);
}

#[test]
fn a_pod_that_admission_refuses_is_named_and_then_an_error() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    let mut since = None;
    for _ in 0..40 {
        let mut keys = Vec::new();
        let (_, breaches, _) = world.tick(|action| match action {
            Action::CreateExecutor(spec) => {
                keys.push(spec.visit.executor_key(spec.work.group(), "motd"));
                Fate::Refused
            }
            _ => Fate::Done,
        });
        assert_eq!(breaches, vec![]);
        let at = world.input.now;
        for key in keys {
            let since = *since.get_or_insert(at);
            let message = "refused by the API server (Forbidden): exceeded quota".to_owned();
            world.input.observed.rejections.insert(key, Rejection { since, at, message });
            let verdict = world.verdict("node-00");
            assert!(verdict.contains("exceeded quota"), "{verdict}");
        }
        world.pass(10);
    }
    assert!(is_over(&world), "it hangs");
    let verdict = world.verdict("node-00");
    assert!(verdict.starts_with("Blocked") && verdict.contains("exceeded quota"), "{verdict}");
}

#[test]
fn what_ran_under_another_node_object_or_in_another_visit_is_not_credited() {
    let others: [fn(&mut Executor); 2] = [
        |executor| executor.visit.node_uid = "uid-of-the-node-before".to_owned(),
        |executor| executor.visit.visit -= 1,
    ];
    for other in others {
        let mut world = motd();
        change(&mut world, Group::Install, other);
        let name = world.active().remove(0);
        world.end(&name, End::Success);
        let plan = nodewright::plan::plan(&world.input);
        let credit = plan.actions.iter().find(|action| matches!(action, Action::PatchNode(_)));
        assert_eq!(credit, None);
    }
}

#[test]
fn b11_nothing_is_begun_in_a_visit_that_is_paused_or_disabled() {
    for pause in [true, false] {
        let packages = vec![package("a", "1.0.0"), package("b", "1.0.0").after("a", "1.0.0")];
        let mut world = world(1, rollout(1, packages));
        world.settle();
        let resource = world.input.observed.resources.get_mut("tuning").expect("our resource");
        (resource.paused, resource.disabled) = (pause, !pause);
        world.finish_all(End::Success);
        world.settle();
        assert_eq!(world.entry("node-00", "a"), "1.0.0 config complete", "what ended is recorded");
        assert_eq!(world.entry("node-00", "b"), "none");
        let resource = world.input.observed.resources.get_mut("tuning").expect("our resource");
        (resource.paused, resource.disabled) = (false, false);
        world.run();
        assert!(world.is_complete());
    }
}

#[test]
fn a_pod_that_is_deleted_and_fails_while_it_goes_has_not_failed() {
    let mut world = motd();
    let name = world.active().remove(0);
    world.end(&name, End::Failure);
    let executor = world.input.observed.executors.get_mut(&name).expect("an executor");
    executor.terminating = true;
    let plan = nodewright::plan::plan(&world.input);
    let written = plan.actions.iter().find_map(|action| match action {
        Action::PatchNode(patch) => Some(patch),
        _ => None,
    });
    let written = written.expect("that something ran is on record from now on");
    let before = world.input.observed.nodes["node-00"].record("tuning", "uid-tuning");
    assert_eq!(written.record.as_ref(), before, "no attempt is counted");
    let entries = written.entries.as_ref().expect("entries");
    let entry = entries.values().next().expect("an entry");
    assert_eq!((entry.state, entry.restarts, entry.untried), (State::InProgress, None, false));
}

/// Upstream's reset empties the node's state, and knows nothing of our record.
#[test]
fn a_pod_that_never_started_is_tried_again_when_a_person_empties_the_nodes_state() {
    let mut world = motd();
    for _ in 0..20 {
        change(&mut world, Group::Install, |it| hold_back(it, Some("ImagePullBackOff")));
        world.pass(300);
        world.settle();
    }
    assert!(is_over(&world) && world.verdict("node-00").starts_with("Blocked"));
    let state = world.input.observed.nodes.get_mut("node-00").and_then(|node| {
        let state = node.rollouts.get_mut("tuning");
        state.filter(|state| state.record.as_ref().unwrap().reason.as_deref() != Some("Failed"))
    });
    state.expect("a failure of its own kind").entries.clear();
    world.settle();
    assert_eq!(world.entry("node-00", "motd"), "1.0.0 apply in_progress");
}
