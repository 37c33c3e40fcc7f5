//! Drains over time: T01, T03, T04, budgets that never give, time limits.

use std::time::Duration;

use nodewright::model::{
    Action, Controller, DisruptionBudget, InterruptKind, Pod, PodPhase, Refusal, RefusalCause,
    VerdictKind,
};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, noon, package, pod, rollout, world};
use super::drain_table::held;

fn kernel() -> nodewright::model::Package {
    package("kernel", "1.0.0").interrupting(InterruptKind::Reboot)
}

/// Ticks once, and returns the names of the pods that were asked to go, and whether executors were
/// started.
fn tick(world: &mut World) -> (Vec<String>, bool) {
    let (plan, breaches, _) = world.tick(|_| Fate::Done);
    assert_eq!(breaches, vec![], "the audit disagrees with a plan");
    let asked = plan.actions.iter().filter_map(|action| match action {
        Action::Evict(eviction) => Some(eviction.pod.to_string()),
        _ => None,
    });
    let starts = plan.actions.iter().any(|action| matches!(action, Action::CreateExecutor(_)));
    (asked.collect(), starts)
}

fn budget(name: &str, expected: u32, healthy: u32, desired: u32) -> RefusalCause {
    RefusalCause::Budget(DisruptionBudget { name: name.to_owned(), expected, healthy, desired })
}

/// Has the API server refuse to evict a pod, now and for this cause.
fn refuse(world: &mut World, pod: &Pod, cause: RefusalCause) {
    let at = world.input.now;
    let message = "Cannot evict pod as it would violate the pod's disruption budget.".to_owned();
    let refusal = Refusal { at, message, cause };
    world.guarded.insert(pod.reference.uid.clone());
    world.input.observed.refusals.insert(pod.reference.uid.clone(), refusal);
}

#[test]
fn t01_drain_waits_for_the_end_of_pods() {
    let mut world = held(|_| {});
    let web = pod("node-00", "web-1", &[]);
    world.add_pod(web.clone());
    assert_eq!(tick(&mut world), (vec!["ml/web-1".to_owned()], false));
    world.pass(2);
    assert_eq!(tick(&mut world), (vec![], false), "it is going: not asked again, not overtaken");
    assert_eq!(world.verdict("node-00"), "Wait: draining since 2026-11-30T12:00:01Z: pod ml/web-1");
    world.pass(600);
    assert_eq!(tick(&mut world), (vec![], false), "accepted is not gone");
    world.remove_pod(&web.reference);
    assert_eq!(tick(&mut world), (vec![], true));
}

#[test]
fn t03_a_pod_that_comes_back_under_the_same_name_is_another() {
    let mut world = held(|_| {});
    let mut first = pod("node-00", "db-0", &[]);
    first.controller = Some(Controller { kind: "StatefulSet".to_owned(), name: "db".to_owned() });
    world.add_pod(first.clone());
    assert_eq!(tick(&mut world).0, ["ml/db-0"]);
    world.remove_pod(&first.reference);
    let mut second = first.clone();
    second.reference.uid = "uid-of-the-second".to_owned();
    second.node = String::new();
    second.phase = PodPhase::Pending;
    world.add_pod(second);
    let mut third = first;
    third.reference.uid = "uid-of-the-third".to_owned();
    third.node = "node-elsewhere".to_owned();
    world.add_pod(third);
    assert_eq!(tick(&mut world), (vec![], true), "neither is on this node");
}

#[test]
fn t04_a_budget_that_never_gives_holds_one_node_and_no_other() {
    let mut world = world(2, rollout(2, vec![kernel()]));
    let web = pod("node-00", "web-0", &[]);
    world.add_pod(web.clone());
    world.guarded.insert(web.reference.uid.clone());
    world.settle();
    refuse(&mut world, &web, budget("ml/web", 1, 1, 1));
    let (asked, _) = tick(&mut world);
    assert!(asked.is_empty(), "just asked");
    assert_eq!(
        world.verdict("node-00"),
        "Blocked: PodDisruptionBudget ml/web can never be satisfied: it wants 1 of 1 pods at all \
         times, so pod ml/web-0 stays"
    );
    assert_eq!(world.entry("node-01", "kernel"), "1.0.0 apply in_progress");
    assert_eq!(world.active().len(), 1, "the other node works");
    let condition = |world: &World| {
        let status = nodewright::plan::plan(&world.input).statuses["tuning"].clone();
        status.conditions.into_iter().find(|it| it.kind == "DrainBlocked")
    };
    let blocked = condition(&world).expect("the drain is blocked");
    assert!(blocked.is_true && blocked.reason == "PodDisruptionBudget", "{blocked:?}");
    assert_eq!(
        blocked.message,
        "1/2 nodes blocked draining; ml/web-0 on node-00: PodDisruptionBudget ml/web can never be \
         satisfied: it wants 1 of 1 pods at all times, so pod ml/web-0 stays"
    );
    for round in 0..5 {
        world.pass(9);
        assert!(tick(&mut world).0.is_empty(), "round {round}: too early");
        world.pass(1);
        assert_eq!(tick(&mut world).0, ["ml/web-0"], "round {round}: a steady rate, no back-off");
        refuse(&mut world, &web, budget("ml/web", 1, 1, 1));
    }
    world.finish_all(End::Success);
    world.settle();
    world.run();
    assert_eq!(world.entry("node-01", "kernel"), "1.0.0 post-interrupt complete");
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 apply in_progress", "no error");
    world.guarded.clear();
    world.pass(10);
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    assert_eq!(condition(&world), None);
}

#[test]
fn a5_each_refused_pod_is_asked_again_by_itself() {
    let mut world = held(|_| {});
    let (one, other) = (pod("node-00", "one", &[]), pod("node-00", "other", &[]));
    world.add_pod(one.clone());
    world.add_pod(other.clone());
    refuse(&mut world, &one, budget("ml/one", 3, 2, 2));
    world.pass(4);
    refuse(&mut world, &other, budget("ml/other", 3, 2, 2));
    assert_eq!(tick(&mut world).0, Vec::<String>::new());
    assert_eq!(
        world.verdict("node-00"),
        "Wait: a disruption budget holds pod ml/one and 1 more: PodDisruptionBudget ml/one needs \
         2 of 3 pods healthy and has 2"
    );
    world.pass(6);
    assert_eq!(tick(&mut world).0, ["ml/one"]);
    world.pass(4);
    assert_eq!(tick(&mut world).0, ["ml/other"]);
}

#[test]
fn the_worst_refusal_is_the_one_that_is_named() {
    let mut world = held(|_| {});
    let several = RefusalCause::SeveralBudgets(vec!["ml/a".to_owned(), "ml/b".to_owned()]);
    let cases = [
        ("d-busy", true, budget("ml/busy", 3, 2, 2), VerdictKind::Wait, "a disruption budget"),
        ("c-sick", false, budget("ml/sick", 3, 1, 2), VerdictKind::Wait, "pod ml/c-sick is not"),
        ("b-never", true, budget("ml/n", 2, 2, 2), VerdictKind::Blocked, "PodDisruptionBudget ml"),
        ("a-twice", true, several, VerdictKind::Blocked, "pod ml/a-twice is covered by more than"),
    ];
    for (name, ready, cause, kind, words) in cases {
        let mut pod = pod("node-00", name, &[]);
        pod.ready = ready;
        world.add_pod(pod.clone());
        refuse(&mut world, &pod, cause);
        let plan = nodewright::plan::plan(&world.input);
        let verdict = &plan.verdicts["tuning"]["node-00"];
        assert_eq!(verdict.kind, kind);
        let text = verdict.reason.to_string();
        assert!(text.starts_with(words), "{text}");
    }
}

/// A7 and A19: counted from the first look at pods that must leave, over restarts; on expiry the
/// node is erroring, stays cordoned, and says what is in the way.
#[test]
fn a7_the_drain_timeout_counts_from_a_stored_start_and_ends_in_an_error_that_names_the_pod() {
    let mut world = held(|drain| drain.timeout = Some(Duration::from_mins(10)));
    let web = pod("node-00", "web", &[]);
    world.add_pod(pod("node-00", "train", &[("workload", "training")]));
    world.add_pod(web.clone());
    world.settle();
    world.pass(3600);
    world.settle();
    let start =
        |world: &World| world.input.observed.nodes["node-00"].rollouts["tuning"].drain_start;
    assert_eq!(start(&world), None, "the wait for a protected pod does not count");
    let train = world.input.observed.pods["node-00"]["ml/train"].reference.clone();
    world.remove_pod(&train);
    world.settle();
    let began = start(&world).expect("the clock is stored before anything is evicted");
    world.pass(599);
    world.settle();
    assert_eq!(start(&world), Some(began), "nothing turns it back");
    world.pass(1);
    world.settle();
    assert_eq!(
        world.verdict("node-00"),
        "Blocked: drain not finished within drainConfig.timeout, since 2026-11-30T13:00:00Z: \
         draining since 2026-11-30T12:00:01Z: pod ml/web"
    );
    let node = &world.input.observed.nodes["node-00"];
    assert!(node.unschedulable && node.is_cordoned_by("tuning"), "it stays cordoned");
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 apply in_progress", "nothing ran");

    // A18: once the pod has gone, whoever removed it, the node is tried again.
    world.remove_pod(&web.reference);
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    assert_eq!(start(&world), None);
}

#[test]
fn a18_a_raised_timeout_lets_a_node_that_timed_out_try_again() {
    let minutes = |minutes| Some(Duration::from_mins(minutes));
    let mut world = held(|drain| drain.timeout = minutes(10));
    let web = pod("node-00", "web", &[]);
    world.add_pod(web.clone());
    world.guarded.insert(web.reference.uid.clone());
    world.settle();
    world.pass(600);
    world.settle();
    world.pass(60);
    assert_eq!(tick(&mut world), (vec![], false), "its time is over");
    assert!(world.verdict("node-00").starts_with("Blocked: drain not finished within"));
    let mut raised = rollout(1, vec![kernel()]);
    raised.drain.timeout = minutes(60);
    world.set_rollout(raised);
    world.settle();
    let verdict = world.verdict("node-00");
    assert!(verdict.starts_with("Wait: a disruption budget holds pod ml/web"), "{verdict}");
    world.guarded.clear();
    world.pass(10);
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
}

#[test]
fn a7_the_clock_of_a_drain_that_ended_does_not_run_on() {
    let mut world = held(|drain| drain.timeout = Some(Duration::from_mins(10)));
    let web = pod("node-00", "web", &[]);
    world.add_pod(web.clone());
    world.settle();
    world.remove_pod(&web.reference);
    world.settle();
    assert_eq!(world.active().len(), 1, "drained: the package is applied, for long");
    world.pass(3599);
    let mut late = pod("node-00", "late", &[]);
    late.since = world.input.now;
    world.add_pod(late);
    world.settle();
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
}

/// A18: what is in the way is looked for anew in every tick, and what went by other hands counts.
#[test]
fn a18_a_blocker_removed_by_hand_lets_the_drain_go_on_at_once() {
    let mut world = held(|drain| drain.force = false);
    let mut bare = pod("node-00", "bare", &[]);
    bare.controller = None;
    world.add_pod(bare.clone());
    world.settle();
    assert!(world.verdict("node-00").starts_with("Blocked: pod ml/bare may not be moved"));
    world.remove_pod(&bare.reference);
    assert!(tick(&mut world).1, "the next tick starts");
}

/// A22: by identity, not by a label; moved only where it can start elsewhere.
#[test]
fn a22_the_daemon_s_own_pod_stays_on_the_only_node_and_is_moved_where_there_is_another() {
    for (nodes, expected) in [(1, vec![]), (2, vec!["ml/nodewright-0".to_owned()])] {
        let mut world = world(nodes, rollout(1, vec![kernel()]));
        world.input.own_pod = Some("ml/nodewright-0".to_owned());
        while !world.input.observed.nodes["node-00"].unschedulable {
            tick(&mut world);
        }
        world.add_pod(pod("node-00", "nodewright-0", &[]));
        let starts = expected.is_empty();
        assert_eq!(tick(&mut world), (expected, starts), "{nodes} nodes");
    }
}

/// A20 with A21: cordoned before us is not drained, and nothing is evicted before the read-back.
#[test]
fn a21_nothing_is_evicted_from_a_node_that_is_not_read_back_as_unschedulable() {
    let mut world = world(1, rollout(1, vec![kernel()]));
    world.add_pod(pod("node-00", "web", &[]));
    for _ in 0..10 {
        let (plan, breaches, _) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        let evicts = plan.actions.iter().any(|action| matches!(action, Action::Evict(_)));
        let patches = plan.actions.iter().any(|action| matches!(action, Action::PatchNode(_)));
        assert!(!(evicts && patches), "the cordon and the eviction are two ticks");
    }
    assert!(world.input.now >= noon());
}

#[test]
fn a_drain_says_how_many_pods_it_waits_for() {
    let mut world = held(|_| {});
    for name in ["web-1", "web-2", "web-3"] {
        world.add_pod(pod("node-00", name, &[]));
    }
    tick(&mut world);
    let verdict = world.verdict("node-00");
    assert!(verdict.ends_with("pod ml/web-1 and 2 more"), "{verdict}");
}
