//! The drain filter: every kind of pod under every setting of `drainConfig`, for people to review.
//!
//! The golden file `drain_table.txt` says what the planner does with each pod on a cordoned node
//! that is about to reboot (upstream contract B.6; failures A1 to A17).
//! If a change of it is as meant: `cp target/tmp/drain_table.txt tests/it/plan/drain_table.txt`.

use nodewright::model::{
    Action, Controller, DrainConfig, EvictionMethod, InterruptKind, Pod, PodPhase, Reason, Taint,
    TaintEffect, VerdictKind,
};
use nodewright::plan::world::{Fate, World};

use super::builders::{PackageExt, noon, package, pod, rollout, world};

const NODE: &str = "node-00";

/// What is special about a pod, and what it is called.
type Row = (&'static str, fn(&mut Pod));

fn owner(pod: &mut Pod, kind: &str) {
    pod.controller = Some(Controller { kind: kind.to_owned(), name: "owner".to_owned() });
}

/// A setting of `drainConfig`, as people write it.
type Setting = (&'static str, fn(&mut DrainConfig));

/// A pod that was deleted at noon with a grace period of a minute.
fn terminate(pod: &mut Pod) {
    pod.terminating = true;
    pod.deletes_at = "2026-11-30T12:01:00Z".parse().ok();
}

fn protect(pod: &mut Pod) {
    pod.labels.insert("workload".to_owned(), "training".to_owned());
}

const ROWS: [Row; 33] = [
    ("runs", |_| {}),
    ("pending, bound to the node", |pod| pod.phase = PodPhase::Pending),
    ("phase unknown", |pod| pod.phase = PodPhase::Unknown),
    ("succeeded", |pod| pod.phase = PodPhase::Succeeded),
    ("failed", |pod| pod.phase = PodPhase::Failed),
    ("failed and terminating", |pod| {
        pod.phase = PodPhase::Failed;
        terminate(pod);
    }),
    ("not ready", |pod| pod.ready = false),
    ("executor of ours", |pod| pod.executor = true),
    ("tolerates unschedulable", |pod| pod.tolerates_unschedulable = true),
    ("of a DaemonSet", |pod| owner(pod, "DaemonSet")),
    ("of a DaemonSet, with emptyDir", |pod| {
        owner(pod, "DaemonSet");
        pod.empty_dir = true;
    }),
    ("in kube-system", |pod| pod.reference.namespace = "kube-system".to_owned()),
    ("in kube-system, unmanaged", |pod| {
        pod.reference.namespace = "kube-system".to_owned();
        pod.controller = None;
    }),
    ("mirror of a static pod", |pod| {
        pod.mirror = true;
        owner(pod, "Node");
    }),
    ("static, without the annotation", |pod| owner(pod, "Node")),
    ("of a StatefulSet", |pod| owner(pod, "StatefulSet")),
    ("of a Job", |pod| owner(pod, "Job")),
    ("of a kind nobody knows", |pod| owner(pod, "RayCluster")),
    ("unmanaged", |pod| pod.controller = None),
    ("with emptyDir", |pod| pod.empty_dir = true),
    ("unmanaged, with emptyDir", |pod| {
        pod.controller = None;
        pod.empty_dir = true;
    }),
    ("terminating", terminate),
    ("terminating, unmanaged, with emptyDir", |pod| {
        terminate(pod);
        pod.controller = None;
        pod.empty_dir = true;
    }),
    ("terminating, of a DaemonSet", |pod| {
        terminate(pod);
        owner(pod, "DaemonSet");
    }),
    ("terminating, mirror", |pod| {
        terminate(pod);
        pod.mirror = true;
    }),
    ("terminating, executor of ours", |pod| {
        terminate(pod);
        pod.executor = true;
    }),
    ("terminating, tolerates unschedulable", |pod| {
        terminate(pod);
        pod.tolerates_unschedulable = true;
    }),
    ("protected", protect),
    ("protected, pending", |pod| {
        protect(pod);
        pod.phase = PodPhase::Pending;
    }),
    ("protected, of a DaemonSet", |pod| {
        protect(pod);
        owner(pod, "DaemonSet");
    }),
    ("protected, terminating", |pod| {
        protect(pod);
        terminate(pod);
    }),
    ("protected, succeeded", |pod| {
        protect(pod);
        pod.phase = PodPhase::Succeeded;
    }),
    ("protected, executor of ours", |pod| {
        protect(pod);
        pod.executor = true;
    }),
];

const SETTINGS: [Setting; 6] = [
    ("defaults", |_| {}),
    ("force: false", |drain| drain.force = false),
    ("deleteEmptyDirData: false", |drain| drain.delete_empty_dir = false),
    ("ignoreDaemonSets: false", |drain| drain.ignore_daemon_sets = false),
    ("disableEviction: true", |drain| drain.disable_eviction = true),
    ("all of them", |drain| {
        drain.force = false;
        drain.delete_empty_dir = false;
        drain.ignore_daemon_sets = false;
        drain.disable_eviction = true;
    }),
];

/// A node that is held for a reboot and on which nothing runs.
pub fn held(set: impl FnOnce(&mut DrainConfig)) -> World {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut rollout = rollout(1, vec![kernel]);
    set(&mut rollout.drain);
    let mut world = world(1, rollout);
    while !world.input.observed.nodes[NODE].unschedulable {
        let (_, breaches, _) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
    }
    world.input.now = noon();
    world
}

/// Says what the planner does with the pod; the audit must agree.
fn done_with(world: &World, pod: &Pod) -> &'static str {
    let plan = nodewright::plan::plan(&world.input);
    assert_eq!(nodewright::plan::audit(&world.input, &plan), vec![], "{pod:?}");
    let runs = plan.actions.iter().any(|action| matches!(action, Action::CreateExecutor(_)));
    let moved = plan.actions.iter().find_map(|action| match action {
        Action::Evict(eviction) if eviction.pod == pod.reference => Some(eviction.method),
        _ => None,
    });
    let verdict = &plan.verdicts["tuning"][NODE];
    assert_ne!(runs, verdict.kind != VerdictKind::Act, "it goes on or says why not: {verdict:?}");
    match (&verdict.reason, moved) {
        (Reason::Draining { .. }, Some(EvictionMethod::Evict)) => "evicted",
        (Reason::Draining { .. }, Some(EvictionMethod::Delete)) => "deleted",
        (Reason::Draining { .. }, None) => "waited for",
        (Reason::DrainRefused { why, .. }, None) if why.contains("emptyDir") => "held: emptyDir",
        (Reason::DrainRefused { .. }, None) => "held: unmanaged",
        (Reason::ProtectedPod { .. }, None) => "protected",
        (Reason::Starting { .. }, None) => "stays",
        (other, moved) => panic!("{other:?} with {moved:?}"),
    }
}

#[test]
fn every_kind_of_pod_under_every_drain_config_is_as_the_golden_table_says() {
    let mut table = format!("{:<40}", "pod");
    for (setting, _) in SETTINGS {
        table.push_str(&format!("{setting:<27}"));
    }
    table = table.trim_end().to_owned();
    for (name, change) in ROWS {
        table.push_str(&format!("\n{name:<40}"));
        for (_, set) in SETTINGS {
            let mut world = held(set);
            let mut pod = pod(NODE, "app", &[]);
            change(&mut pod);
            world.add_pod(pod.clone());
            table.push_str(&format!("{:<27}", done_with(&world, &pod)));
        }
        table = table.trim_end().to_owned();
    }
    table.push('\n');
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("drain_table.txt");
    std::fs::write(&path, &table).expect("the target folder is ours");
    let golden = include_str!("drain_table.txt");
    let differs = table.lines().zip(golden.lines()).find(|(now, then)| now != then);
    assert!(table == golden, "first difference: {differs:?}; all of it is in {}", path.display());
}

/// A16 and A17: on a node that is unreachable, and only there, a pod that is going is not waited
/// for once its deletion timestamp, which includes its grace period, and a minute have passed.
#[test]
fn a16_a_terminating_pod_is_given_up_on_an_unreachable_node_alone_and_after_its_time() {
    let taint = |key: &str| Taint {
        key: format!("node.kubernetes.io/{key}"),
        value: String::new(),
        effect: TaintEffect::NoExecute,
    };
    let mut leaving = pod(NODE, "app", &[]);
    terminate(&mut leaving);
    for (tainted, at, expected) in [
        ("unreachable", "12:00:30", "waited for"),
        ("unreachable", "12:01:59", "waited for"),
        ("unreachable", "12:02:00", "stays"),
        ("not-ready", "23:00:00", "waited for"),
    ] {
        let mut world = held(|_| {});
        world.add_pod(leaving.clone());
        let node = world.input.observed.nodes.get_mut(NODE).expect("there");
        node.taints.push(taint(tainted));
        world.input.now = format!("2026-11-30T{at}Z").parse().expect("a time");
        assert_eq!(done_with(&world, &leaving), expected, "{tainted} at {at}");
    }
}

/// A3: the refusal names a pod and its reason, and how many more there are.
#[test]
fn a3_pods_that_may_not_be_moved_are_named_and_counted() {
    let mut world = held(|drain| {
        drain.force = false;
        drain.delete_empty_dir = false;
    });
    for (name, change) in [
        ("b-scratch", (|pod| pod.empty_dir = true) as fn(&mut Pod)),
        ("a-bare", |pod| pod.controller = None),
        ("c-web", |_| {}),
    ] {
        let mut pod = pod(NODE, name, &[]);
        change(&mut pod);
        world.add_pod(pod);
    }
    let plan = nodewright::plan::plan(&world.input);
    let verdict = &plan.verdicts["tuning"][NODE];
    assert_eq!(verdict.kind, VerdictKind::Blocked);
    assert_eq!(
        verdict.reason.to_string(),
        "pod ml/a-bare may not be moved: it has no controller that would start it elsewhere \
         (drainConfig.force); 1 more pod is held too"
    );
    let evicted = plan.actions.iter().filter(|action| matches!(action, Action::Evict(_)));
    assert_eq!(evicted.count(), 1, "what may be moved is moved meanwhile");
    let condition = plan.statuses["tuning"].conditions.iter().find(|it| it.kind == "DrainBlocked");
    let condition = condition.expect("the status says so too");
    assert_eq!(condition.reason, "UnmanagedPod");
    assert!(condition.message.starts_with("1/1 nodes blocked draining; ml/a-bare on node-00: "));
}
