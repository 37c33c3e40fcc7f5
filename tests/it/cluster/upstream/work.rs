//! Jobs and bare pods of upstream's operator: which stage, how far, and whose fault.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodewright::cluster::Outcome;
use nodewright::model::{Action, ExecutorPhase, Stage, UpstreamKind, UpstreamWork};
use serde_json::{Value, json};

use super::super::world::{World, parse};

fn mark(stage: &str) -> String {
    json!({
        "name": "kernel-tuning", "version": "1.4.0", "skyhook": "gpu", "stage": stage,
        "image": "ghcr.io/acme/kernel-tuning", "containerSHA": "",
    })
    .to_string()
}

/// Returns a cluster in which upstream's operator had a namespace of its own.
async fn with_namespace() -> World {
    let world = World::new().await;
    let namespace: Namespace = parse(json!({"metadata": {"name": "skyhook"}}));
    let api = Api::all(world.cluster.client("test"));
    api.create(&PostParams::default(), &namespace).await.expect("accepted");
    world
}

fn jobs(world: &World, namespace: &str) -> Api<Job> {
    Api::namespaced(world.cluster.client("test"), namespace)
}

/// Creates a Job as upstream v0.20 does, and gives it a status.
async fn job(world: &World, namespace: &str, name: &str, stage: &str, status: Value) {
    let labels = json!({
        "nodewright.nvidia.com/name": "gpu", "nodewright.nvidia.com/package": "kernel-tuning-1.4.0",
    });
    let pod = json!({
        "metadata": {
            "labels": labels, "annotations": {"nodewright.nvidia.com/package": mark(stage)},
        },
        "spec": {
            "nodeName": "gpu-1", "restartPolicy": "Never",
            "containers": [{"name": "done", "image": "x:1"}],
        },
    });
    let object: Job = parse(json!({
        "metadata": {
            "name": name, "labels": labels,
            "annotations": {"nodewright.nvidia.com/package": mark(stage)},
        },
        "spec": {"template": pod},
    }));
    let api = jobs(world, namespace);
    api.create(&PostParams::default(), &object).await.expect("accepted");
    let status = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &status).await.expect("accepted");
}

/// Creates a pod as upstream does, with the status of its init containers.
async fn pod(world: &World, name: &str, prefix: &str, owner: Option<&str>, status: Value) {
    let owners = owner.map(|job| {
        json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "u", "controller": true,
        }])
    });
    let object = parse(json!({
        "metadata": {
            "name": name, "ownerReferences": owners.unwrap_or(json!([])),
            "labels": {
                format!("{prefix}/name"): "gpu", format!("{prefix}/package"): "kernel-tuning-1.4.0",
            },
            "annotations": {format!("{prefix}/package"): mark("apply")},
        },
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "pause", "image": "x:1"}]},
    }));
    let api = world.pods("skyhook");
    api.create(&PostParams::default(), &object).await.expect("accepted");
    let status = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &status).await.expect("accepted");
}

async fn work(
    world: &World,
    key: &str,
    is_reached: impl Fn(&UpstreamWork) -> bool,
) -> UpstreamWork {
    world.until(|view| view.observed.upstream.get(key).is_some_and(&is_reached)).await;
    world.view().observed.upstream[key].clone()
}

#[tokio::test(start_paused = true)]
async fn a_job_is_read_with_its_stage_and_its_end() {
    let world = World::new().await;
    job(&world, "nodewright", "apply", "apply", json!({"active": 1})).await;
    let running =
        work(&world, "job nodewright/apply", |it| it.phase == ExecutorPhase::Running).await;
    assert_eq!((running.rollout.as_str(), running.node.as_str()), ("gpu", "gpu-1"));
    assert_eq!((running.stage, running.reference.kind), (Stage::Apply, UpstreamKind::Job));
    assert_eq!(running.package.to_string(), "kernel-tuning|1.4.0");

    let complete = json!({"active": 0, "conditions": [{"type": "Complete", "status": "True"}]});
    let patch = Patch::Merge(json!({ "status": complete }));
    let api = jobs(&world, "nodewright");
    api.patch_status("apply", &PatchParams::default(), &patch).await.expect("accepted");
    work(&world, "job nodewright/apply", |it| it.phase == ExecutorPhase::Succeeded).await;

    let recorded =
        json!({"metadata": {"annotations": {"nodewright.nvidia.com/state-recorded": "t"}}});
    let patch = Patch::Merge(recorded);
    api.patch("apply", &PatchParams::default(), &patch).await.expect("accepted");
    // Upstream has credited it: it is none of our business, and left to its time to live.
    world.until(|view| view.observed.upstream.is_empty()).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_job_is_genuine_only_if_an_attempt_of_it_is() {
    let failed = json!({"failed": 4, "conditions": [
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "often"},
    ]});
    let ended = |code: i32, reason: &str| {
        json!({"phase": "Failed", "initContainerStatuses": [{
            "name": "kernel-tuning-apply", "image": "x:1", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": {"exitCode": code, "reason": reason}},
        }]})
    };
    let world = with_namespace().await;
    job(&world, "skyhook", "lost", "apply", failed.clone()).await;
    let lost = work(&world, "job skyhook/lost", |it| it.phase == ExecutorPhase::Failed).await;
    assert!(lost.failure.expect("a failure").disrupted, "no pod says that the package failed");

    pod(
        &world,
        "lost-1",
        "nodewright.nvidia.com",
        Some("lost"),
        ended(137, "ContainerStatusUnknown"),
    )
    .await;
    job(&world, "skyhook", "bad", "apply", failed).await;
    pod(&world, "bad-1", "nodewright.nvidia.com", Some("bad"), ended(3, "Error")).await;
    let bad = work(&world, "job skyhook/bad", |it| {
        it.failure.as_ref().is_some_and(|failure| !failure.disrupted)
    })
    .await;
    assert_eq!((bad.restarts, bad.failure.expect("a failure").exit_code), (4, Some(3)));
    let lost = world.view().observed.upstream["job skyhook/lost"].clone();
    assert!(lost.failure.expect("a failure").disrupted);
    assert_eq!(world.view().observed.upstream.len(), 2, "a Job's pods are no work of their own");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_is_one_to_run_again() {
    let world = World::new().await;
    job(&world, "nodewright", "held", "config", json!({"active": 0})).await;
    let patch = Patch::Merge(json!({"spec": {"suspend": true}}));
    let api = jobs(&world, "nodewright");
    api.patch("held", &PatchParams::default(), &patch).await.expect("accepted");
    let held = work(&world, "job nodewright/held", |it| it.phase == ExecutorPhase::Failed).await;
    assert!(held.failure.expect("a failure").disrupted);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bare_pod_is_over_when_its_check_is_and_has_failed_when_it_backs_off() {
    let container = |name: &str, restarts: u32, state: Value| {
        json!({"name": name, "image": "x:1", "imageID": "", "ready": false,
               "restartCount": restarts, "state": state})
    };
    let ended = json!({"terminated": {"exitCode": 0}});
    let crash = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m"}});
    let pull = json!({"waiting": {"reason": "ImagePullBackOff"}});
    let table = [
        (
            "Running",
            container("kernel-tuning-applycheck", 0, ended.clone()),
            ExecutorPhase::Succeeded,
        ),
        ("Pending", container("kernel-tuning-apply", 0, ended), ExecutorPhase::Running),
        ("Pending", container("kernel-tuning-apply", 7, crash), ExecutorPhase::Failed),
        ("Pending", container("kernel-tuning-init", 0, pull), ExecutorPhase::Pending),
    ];
    let world = with_namespace().await;
    for (number, (phase, container, expected)) in table.into_iter().enumerate() {
        let name = format!("pod-{number}");
        let status = json!({"phase": phase, "initContainerStatuses": [container]});
        pod(&world, &name, "skyhook.nvidia.com", None, status).await;
        let read = work(&world, &format!("pod skyhook/{name}"), |it| it.phase == expected).await;
        let genuine = read.failure.map(|failure| !failure.disrupted);
        assert_eq!(genuine, (expected == ExecutorPhase::Failed).then_some(true), "{name}");
        assert_eq!(read.restarts, if expected == ExecutorPhase::Failed { 7 } else { 0 });
    }
    let view = world.view();
    assert!(view.observed.executors.is_empty(), "upstream's pods are no executors of ours");
    let drained = view.observed.pods["gpu-1"].values().filter(|pod| !pod.executor).count();
    assert_eq!(drained, 0, "and none that a drain would move (B.6)");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn work_is_deleted_by_uid_and_its_successor_is_left() {
    let world = World::new().await;
    job(&world, "nodewright", "apply", "apply", json!({"active": 1})).await;
    let read = work(&world, "job nodewright/apply", |_| true).await;
    let delete = |uid: &str| Action::DeleteUpstreamWork {
        rollout: "gpu".to_owned(),
        node: "gpu-1".to_owned(),
        work: nodewright::model::UpstreamRef { uid: uid.to_owned(), ..read.reference.clone() },
    };
    let outcome = world.execute_one(delete("another")).await;
    assert!(matches!(outcome, Outcome::Conflict { .. }), "{outcome:?}");
    assert!(matches!(world.execute_one(delete(&read.reference.uid)).await, Outcome::Done));
    world.until(|view| view.observed.upstream.is_empty()).await;
    assert!(matches!(world.execute_one(delete(&read.reference.uid)).await, Outcome::Done));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_in_other_namespaces_is_nobodys() {
    let world = World::new().await;
    job(&world, "default", "apply", "apply", json!({"active": 1})).await;
    job(&world, "nodewright", "apply", "apply", json!({"active": 1})).await;
    work(&world, "job nodewright/apply", |_| true).await;
    assert_eq!(world.view().observed.upstream.len(), 1, "labels are anybody's to write");
    world.stop().await;
}
