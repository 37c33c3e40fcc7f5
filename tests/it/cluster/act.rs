//! Every action once good and once refused, against the embedded cluster.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use nodewright::cluster::names::{executor_name, node_metadata_name};
use nodewright::cluster::{ClusterError, Outcome};
use nodewright::model::{
    Action, ConfigMapRef, Eviction, EvictionMethod, ExecutorSpec, Interrupt, InterruptKind,
    NodeMetadata, NodePatch, PatchKind, Phase, Record, Snapshot, SnapshotSpec, Status, StatusWord,
    StatusWrite, UpstreamMaps, Urgency, VisitRef, Work,
};
use nodewright::sim::Verb;
use serde_json::{Value, json};

use super::world::{World, parse, workload};
use super::{executor_spec, install, package};

fn config_maps(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.cluster.client("test"), "nodewright")
}

fn is_conflict(outcome: &Outcome, with: &str) -> bool {
    matches!(outcome, Outcome::Conflict { object } if object == with)
}

fn snapshot() -> SnapshotSpec {
    SnapshotSpec { rollout: "gpu".to_owned(), package: package() }
}

async fn executor(world: &World) -> ExecutorSpec {
    let mut spec = executor_spec(install());
    spec.visit.node_uid = world.node().uid;
    spec.rollout_uid = world.rollout_uid().await;
    spec
}

pub fn status_write(world: &World, word: StatusWord) -> StatusWrite {
    let view = world.view();
    let resource = &view.observed.resources["gpu"];
    let status: Status = parse(json!({
        "observedGeneration": null, "word": word, "nodesInProgress": 1, "nodesComplete": 0,
        "nodesTotal": 1, "packages": ["kernel-tuning:1.4.0"],
        "conditions": [{"kind": "Ready", "isTrue": false, "reason": "Progressing", "message": ""}],
        "memory": {"target": "t", "orderNext": 1, "compartments": {"__default__": {
            "matched": 1, "ceiling": 1, "inProgress": 1, "completed": 0, "progressPercent": 0,
            "openBatch": {"target": "t", "number": 1, "size": 1, "orderFrom": 0,
                          "opened": "2026-03-01T08:00:00Z"},
        }}},
    }));
    StatusWrite {
        rollout: "gpu".to_owned(),
        resource_version: resource.resource_version.clone(),
        status,
        urgency: Urgency::Urgent,
        upstream: UpstreamMaps::Keep,
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_made_once_and_read_back_whole() {
    let world = World::new().await;
    let spec = snapshot();
    let name = spec.package.snapshot_name("gpu");
    let create = Action::CreateSnapshot(spec);
    assert!(matches!(world.execute_one(create.clone()).await, Outcome::Done));
    // In the store before any watch can have said so.
    let Snapshot { rollout, uid, package: read } = world.view().observed.snapshots[&name].clone();
    assert_eq!((rollout.as_str(), read), ("gpu", package()));
    assert!(matches!(world.execute_one(create).await, Outcome::Done), "it is there already");
    let map = config_maps(&world).get(&name).await.unwrap();
    assert_eq!(map.immutable, Some(true));
    assert_eq!(map.data.unwrap()["sysctl.conf"], "vm.swappiness = 0\n");
    assert_eq!(map.metadata.owner_references, None, "it outlives its resource");

    let delete = |uid: &str| {
        let (rollout, name) = ("gpu".to_owned(), name.clone());
        Action::DeleteSnapshot(ConfigMapRef { rollout, name, uid: uid.to_owned() })
    };
    let outcome = world.execute_one(delete("another")).await;
    assert!(is_conflict(&outcome, &format!("configmap {name}")), "{outcome:?}");
    assert!(matches!(world.execute_one(delete(&uid)).await, Outcome::Done));
    assert!(world.view().observed.snapshots.is_empty());
    assert!(matches!(world.execute_one(delete(&uid)).await, Outcome::Done), "gone is gone");
}

#[tokio::test(start_paused = true)]
async fn a_configmap_that_lies_about_its_content_is_no_snapshot() {
    let world = World::new().await;
    let spec = snapshot();
    let mut map = nodewright::cluster::snapshot::build(&spec, "nodewright");
    map.data.as_mut().unwrap().insert("sysctl.conf".to_owned(), "edited".to_owned());
    config_maps(&world).create(&PostParams::default(), &map).await.unwrap();
    world.add_node("gpu-2").await;
    world.until(|view| view.observed.nodes.contains_key("gpu-2")).await;
    assert!(world.view().observed.snapshots.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_at_the_version_it_was_planned_for() {
    let world = World::new().await;
    let write = status_write(&world, StatusWord::InProgress);
    assert!(matches!(world.execute_one(Action::WriteStatus(write.clone())).await, Outcome::Done));
    let view = world.view();
    assert_eq!(view.observed.resources["gpu"].status.as_ref(), Some(&write.status));
    let request = world.mutations().pop().unwrap();
    assert_eq!((request.subresource.as_str(), request.verb), ("status", Verb::Patch));

    let outcome = world.execute_one(Action::WriteStatus(write.clone())).await;
    assert!(is_conflict(&outcome, "nodewright gpu"), "{outcome:?}");
    assert_eq!(world.mutations().len(), 1, "known to be old, so not even asked");

    // A batch that closed is gone from the status, not merged into it.
    let mut write = StatusWrite {
        resource_version: view.observed.resources["gpu"].resource_version.clone(),
        ..write
    };
    write.status.memory.compartments.get_mut("__default__").unwrap().open_batch = None;
    assert!(matches!(world.execute_one(Action::WriteStatus(write.clone())).await, Outcome::Done));
    assert_eq!(world.view().observed.resources["gpu"].status.as_ref(), Some(&write.status));

    let again = StatusWrite {
        resource_version: world.view().observed.resources["gpu"].resource_version.clone(),
        ..write
    };
    assert!(matches!(world.execute_one(Action::WriteStatus(again)).await, Outcome::Done));
    assert_eq!(world.mutations().len(), 2, "nothing to change, nothing asked");
}

#[tokio::test(start_paused = true)]
async fn node_metadata_is_one_write_there_or_not() {
    let world = World::new().await;
    let metadata = NodeMetadata {
        node: "gpu-1".to_owned(),
        node_uid: world.node().uid,
        rollout: "gpu".to_owned(),
        rollout_uid: world.rollout_uid().await,
        packages: [("kernel-tuning".to_owned(), package())].into(),
    };
    let write = Action::WriteNodeMetadata(metadata.clone());
    assert!(matches!(world.execute_one(write.clone()).await, Outcome::Done));
    world.meddle_with_node(json!({"metadata": {"labels": {"new": "label"}}})).await;
    assert!(matches!(world.execute_one(write).await, Outcome::Done));
    let verbs: Vec<Verb> = world.mutations().iter().map(|request| request.verb).collect();
    assert_eq!(verbs, [Verb::Create, Verb::Patch]);

    let map = config_maps(&world).get(&node_metadata_name("gpu", "gpu-1")).await.unwrap();
    let files = map.data.unwrap();
    let file = |name: &str| -> Value { serde_json::from_str(&files[name]).unwrap() };
    assert_eq!(file("labels.json"), json!({"pool": "gpu", "new": "label"}));
    assert_eq!(file("annotations.json")["theirs"], "kept");
    assert_eq!(
        file("packages.json"),
        json!({"agentVersion": "v0.20.0", "packages": {"kernel-tuning": {
            "name": "kernel-tuning", "version": "1.4.0", "image": "ghcr.io/acme/kernel-tuning",
            "interrupt": {"type": "reboot"},
        }}})
    );

    let other = NodeMetadata { node_uid: "another".to_owned(), ..metadata };
    let outcome = world.execute_one(Action::WriteNodeMetadata(other)).await;
    assert!(is_conflict(&outcome, "node gpu-1"), "{outcome:?}");
    assert_eq!(world.mutations().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pick_is_one_patch_at_one_version() {
    let world = World::new().await;
    let pick = world.pick();
    world.meddle_with_node(json!({"metadata": {"annotations": {"theirs": "new"}}})).await;
    let outcome = world.execute_one(Action::PatchNode(pick)).await;
    assert!(is_conflict(&outcome, "node gpu-1"), "{outcome:?}");
    assert!(!world.node().unschedulable, "nothing of it was done");

    // Read again by the conflict, so the next attempt is right at once.
    let pick = world.pick();
    assert!(matches!(world.execute_one(Action::PatchNode(pick.clone())).await, Outcome::Done));
    let node = world.node();
    assert!(node.unschedulable && node.is_cordoned_by("gpu"));
    let state = &node.rollouts["gpu"];
    assert_eq!((state.record.as_ref(), state.status), (pick.record.as_ref(), pick.status));
    assert_eq!(Some(&state.entries), pick.entries.as_ref());
    let node = world.nodes().get("gpu-1").await.unwrap();
    let (labels, annotations) = (node.metadata.labels.unwrap(), node.metadata.annotations.unwrap());
    assert_eq!(labels["nodewright.nvidia.com/status_gpu"], "in_progress");
    assert_eq!(annotations["nodewright.nvidia.com/version_gpu"], "v0.20.0");
    assert_eq!(annotations["theirs"], "new");
}

#[tokio::test(start_paused = true)]
async fn progress_is_not_disturbed_by_the_kubelet_but_by_another_writer() {
    let world = World::new().await;
    world.execute_one(Action::PatchNode(world.pick())).await;
    let mut progress = world.progress();
    progress.drain_start = Some(None);
    world.meddle_with_node(json!({"metadata": {"annotations": {"theirs": "new"}}})).await;
    let outcome = world.execute_one(Action::PatchNode(progress)).await;
    assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
    let phase = |world: &World| world.node().rollouts["gpu"].record.as_ref().map(|it| it.phase);
    assert_eq!(phase(&world), Some(Phase::Interrupting));

    // Another daemon writes our record; our watch does not know yet.
    world.cluster.faults().stall_watches("nodes");
    let progress = world.progress();
    let theirs = json!({"nodewright.nvidia.com/rollout_gpu": "{}"});
    world.meddle_with_node(json!({"metadata": {"annotations": theirs}})).await;
    let outcome = world.execute_one(Action::PatchNode(progress)).await;
    assert!(is_conflict(&outcome, "node gpu-1"), "{outcome:?}");
    assert_eq!(world.node().rollouts["gpu"].record_text.as_deref(), Some("{}"), "read again");
    assert_eq!(world.mutations().last().unwrap().code, Some(422));
}

#[tokio::test(start_paused = true)]
async fn progress_without_a_record_holds_only_while_there_is_none() {
    let world = World::new().await;
    let first = |world: &World| NodePatch {
        record: Some(world.record()),
        ..world.node_patch(PatchKind::Progress { record_text: None, entries_text: None })
    };
    let patch = first(&world);
    world.cluster.faults().stall_watches("nodes");
    let theirs = json!({"nodewright.nvidia.com/rollout_gpu": "{}"});
    world.meddle_with_node(json!({"metadata": {"annotations": theirs}})).await;
    let outcome = world.execute_one(Action::PatchNode(patch.clone())).await;
    assert!(is_conflict(&outcome, "node gpu-1"), "{outcome:?}");
    let outcome = world.execute_one(Action::PatchNode(patch)).await;
    assert!(is_conflict(&outcome, "node gpu-1"), "{outcome:?}");
    assert_eq!(world.mutations().len(), 1, "known by then, so not asked again");

    let gone = json!({"nodewright.nvidia.com/rollout_gpu": null});
    world.cluster.faults().resume_watches("nodes");
    world.meddle_with_node(json!({"metadata": {"annotations": gone}})).await;
    world.until(|view| view.observed.nodes["gpu-1"].rollouts.is_empty()).await;
    assert!(matches!(world.execute_one(Action::PatchNode(first(&world))).await, Outcome::Done));
}

#[tokio::test(start_paused = true)]
async fn a_release_lets_go_of_everything_at_once() {
    let world = World::new().await;
    world.execute_one(Action::PatchNode(world.pick())).await;
    let resource_version = world.node().resource_version;
    let release = NodePatch {
        status: Some(StatusWord::Complete),
        cordon_mark: Some(false),
        unschedulable: Some(false),
        drain_start: Some(None),
        ..world.node_patch(PatchKind::Release { resource_version })
    };
    world.meddle_with_node(json!({"spec": {"unschedulable": true}})).await;
    world.meddle_with_node(json!({"metadata": {"labels": {"x": "y"}}})).await;
    let outcome = world.execute_one(Action::PatchNode(release.clone())).await;
    assert!(is_conflict(&outcome, "node gpu-1"), "{outcome:?}");
    let resource_version = world.node().resource_version;
    let release = NodePatch { kind: PatchKind::Release { resource_version }, ..release };
    assert!(matches!(world.execute_one(Action::PatchNode(release)).await, Outcome::Done));
    let node = world.node();
    assert!(!node.unschedulable && node.cordons.is_empty());
    assert_eq!(node.rollouts["gpu"].status, Some(StatusWord::Complete));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_would_not_fit_is_not_sent() {
    let world = World::new().await;
    let mut pick = world.pick();
    pick.record.as_mut().unwrap().target = "t".repeat(4_000);
    let outcome = world.execute_one(Action::PatchNode(pick)).await;
    assert!(matches!(outcome, Outcome::GaveUp(ClusterError::TooLarge { .. })), "{outcome:?}");
    assert!(world.mutations().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_eviction_names_the_very_pod_and_its_grace() {
    let world = World::new().await;
    let pod = world.add_workload("web", json!({"app": "web"})).await;
    let evict = |uid: &str, method| {
        let mut pod = pod.clone();
        pod.uid = uid.to_owned();
        let (node, rollout) = ("gpu-1".to_owned(), "gpu".to_owned());
        let grace_period = Some(Duration::from_millis(1_500));
        Action::Evict(Eviction { node, rollout, pod, method, grace_period })
    };
    for method in [EvictionMethod::Evict, EvictionMethod::Delete] {
        let outcome = world.execute_one(evict("another", method)).await;
        assert!(is_conflict(&outcome, "pod default/web"), "{outcome:?}");
    }
    assert!(matches!(
        world.execute_one(evict(&pod.uid, EvictionMethod::Evict)).await,
        Outcome::Done
    ));
    let body = world.mutations().pop().unwrap().body;
    assert_eq!(body["deleteOptions"]["gracePeriodSeconds"], 2, "rounded up");
    assert!(workload(&world.view(), "web").is_none_or(|pod| pod.terminating));
    world.pods("default").delete("web", &DeleteParams::default().grace_period(0)).await.ok();
    for method in [EvictionMethod::Evict, EvictionMethod::Delete] {
        let outcome = world.execute_one(evict(&pod.uid, method)).await;
        assert!(matches!(outcome, Outcome::Done), "gone is what was wanted: {outcome:?}");
    }
    assert!(workload(&world.view(), "web").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_blocks_one_pod_and_not_the_lane() {
    let world = World::new().await;
    let held = world.add_workload("held", json!({"app": "db"})).await;
    let free = world.add_workload("free", json!({"app": "web"})).await;
    let budget: PodDisruptionBudget = parse(json!({
        "metadata": {"name": "db"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
    }));
    let budgets = Api::namespaced(world.cluster.client("test"), "default");
    budgets.create(&PostParams::default(), &budget).await.unwrap();
    let evict = |pod: &nodewright::model::PodRef| {
        Action::Evict(Eviction {
            node: "gpu-1".to_owned(),
            rollout: "gpu".to_owned(),
            pod: pod.clone(),
            method: EvictionMethod::Evict,
            grace_period: None,
        })
    };
    let executed = world.execute(vec![evict(&held), evict(&free)]).await;
    let Outcome::Blocked { why } = &executed[0].outcome else { panic!("{:?}", executed[0]) };
    assert!(why.contains("disruption budget db needs 1"), "{why}");
    assert!(matches!(executed[1].outcome, Outcome::Done));
    let refusals = world.view().observed.refusals;
    assert_eq!((&refusals[&held.uid].message, refusals.len()), (why, 1));
}

#[tokio::test(start_paused = true)]
async fn an_executor_is_created_once_and_deleted_with_its_visit() {
    let world = World::new().await;
    let spec = executor(&world).await;
    let name = executor_name(&spec);
    let create = Action::CreateExecutor(spec.clone());
    assert!(matches!(world.execute_one(create.clone()).await, Outcome::Done));
    let view = world.view();
    let seen = &view.observed.executors[&name];
    assert_eq!((&seen.visit, seen.attempt), (&spec.visit, 2));
    assert!(view.observed.pods["gpu-1"].values().all(|pod| pod.executor));
    let outcome = world.execute_one(create).await;
    assert!(is_conflict(&outcome, &format!("pod nodewright/{name}")), "{outcome:?}");

    let others = VisitRef { visit: 99, ..spec.visit.clone() };
    let delete = |visits| Action::DeleteExecutors { rollout: "gpu".to_owned(), visits };
    assert!(matches!(world.execute_one(delete(vec![others])).await, Outcome::Done));
    assert!(!world.view().observed.executors[&name].terminating, "of another visit");
    let requests = world.mutations().len();
    assert!(matches!(world.execute_one(delete(vec![spec.visit])).await, Outcome::Done));
    assert_eq!(world.mutations().len(), requests + 1);
    assert!(world.view().observed.executors.get(&name).is_none_or(|it| it.terminating));
}

/// The caches of pods and of nodes are not equally old: what cannot be taken back is issued only on
/// a node that still is as it was planned on.
#[tokio::test(start_paused = true)]
async fn an_interrupt_is_issued_only_on_a_node_that_reads_back_as_planned() {
    let world = World::new().await;
    let uid = world.rollout_uid().await;
    let boot = json!({"status": {"nodeInfo": {
        "architecture": "", "bootID": "boot-1", "containerRuntimeVersion": "", "kernelVersion": "",
        "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "m", "operatingSystem": "",
        "osImage": "", "systemUUID": "",
    }}});
    let boot = Patch::Merge(boot);
    world.nodes().patch_status("gpu-1", &PatchParams::default(), &boot).await.unwrap();
    world.until(|view| view.observed.nodes["gpu-1"].boot_id == "boot-1").await;
    let reboot = Interrupt { kind: InterruptKind::Reboot, services: Vec::new() };
    let mut spec = executor_spec(Work::Interrupt { package: package(), interrupt: reboot });
    spec.visit.node_uid = world.node().uid;
    spec.rollout_uid.clone_from(&uid);
    let create = || Action::CreateExecutor(spec.clone());
    let refused = async |why: &str| {
        let outcome = world.execute_one(create()).await;
        assert!(is_conflict(&outcome, "node gpu-1"), "{why}: {outcome:?}");
        assert!(world.view().observed.executors.is_empty(), "{why}");
    };
    refused("nothing is recorded").await;

    let recorded = |boot: &str| {
        let interrupt = json!({"kind": "reboot", "since": "2026-03-01T08:00:00Z",
            "package": "kernel-tuning|1.4.0"});
        let record = Record {
            cr_uid: uid.clone(),
            phase: Phase::Interrupting,
            interrupt: Some(parse(interrupt)),
            boot_before: Some(boot.to_owned()),
            ..world.record()
        };
        Action::PatchNode(NodePatch { record: Some(record), ..world.pick() })
    };
    assert!(matches!(world.execute_one(recorded("boot-0")).await, Outcome::Done));
    refused("its reboot has been").await;
    assert!(matches!(world.execute_one(recorded("boot-1")).await, Outcome::Done));
    assert!(matches!(world.execute_one(create()).await, Outcome::Done));
    assert_eq!(world.view().observed.executors.len(), 1);

    let name = executor_name(&spec);
    let at_once = DeleteParams::default().grace_period(0);
    world.pods("nodewright").delete(&name, &at_once).await.unwrap();
    world.until(|view| view.observed.executors.is_empty()).await;
    world.nodes().delete("gpu-1", &DeleteParams::default()).await.unwrap();
    world.add_node("gpu-1").await;
    refused("the name is another machine's").await;
}

#[tokio::test(start_paused = true)]
async fn one_executor_is_deleted_by_uid() {
    let world = World::new().await;
    let spec = executor(&world).await;
    let name = executor_name(&spec);
    world.execute_one(Action::CreateExecutor(spec)).await;
    let pod = world.view().observed.executors[&name].reference.clone();
    let delete = |uid: &str| {
        let mut pod = pod.clone();
        pod.uid = uid.to_owned();
        Action::DeleteExecutor { rollout: "gpu".to_owned(), node: "gpu-1".to_owned(), pod }
    };
    let outcome = world.execute_one(delete("another")).await;
    assert!(is_conflict(&outcome, &format!("pod nodewright/{name}")), "{outcome:?}");
    assert!(matches!(world.execute_one(delete(&pod.uid)).await, Outcome::Done));
    assert!(world.view().observed.executors.get(&name).is_none_or(|it| it.terminating));
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_sent() {
    let world = World::new().await;
    for lease in [None, Some(Timestamp::UNIX_EPOCH), Some(world.cluster.clock().now())] {
        world.lease.send_replace(lease);
        let outcome = world.execute_one(Action::PatchNode(world.pick())).await;
        assert!(matches!(outcome, Outcome::Retry(ClusterError::NotLeader { .. })), "{outcome:?}");
    }
    assert!(world.mutations().is_empty());
}
