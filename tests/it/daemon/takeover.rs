//! A cluster that upstream's operator ran, taken over by the daemon and fit to be handed back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{create, mutating, nodewrights, package, quick, without_git};
use crate::fleet::{DAEMON, Fleet, until};

/// Who ran the cluster before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upstream {
    /// v0.15: the former prefix, bare pods.
    Before,
    /// v0.20: the present prefix, Jobs.
    After,
}

impl Upstream {
    fn prefix(self) -> &'static str {
        match self {
            Self::Before => "skyhook.nvidia.com",
            Self::After => "nodewright.nvidia.com",
        }
    }

    fn version(self) -> &'static str {
        match self {
            Self::Before => "v0.15.0",
            Self::After => "v0.20.0",
        }
    }
}

/// An entry as upstream's own type has it; what it does not know it does not keep.
#[derive(Debug, Deserialize)]
struct TheirEntry {
    name: String,
    version: String,
    image: String,
    stage: String,
    state: String,
}

fn entries(of: &[(&str, &str, &str)]) -> String {
    let entries: BTreeMap<String, Value> = of
        .iter()
        .map(|(name, stage, state)| {
            let entry = json!({
                "name": name, "version": "1.0.0", "image": format!("registry.example/{name}"),
                "stage": stage, "state": state, "restarts": 0,
            });
            (format!("{name}|1.0.0"), entry)
        })
        .collect();
    serde_json::to_string(&entries).expect("JSON")
}

/// Leaves upstream's keys on a node.
async fn leave(fleet: &Fleet, upstream: Upstream, node: &str, state: &str, is_held: bool) {
    let prefix = upstream.prefix();
    let word = if node == "gpu-001" { "complete" } else { "in_progress" };
    let mut annotations = json!({
        format!("{prefix}/nodeState_tuning"): state,
        format!("{prefix}/version_tuning"): upstream.version(),
        format!("{prefix}/status_tuning"): word,
    });
    if is_held {
        annotations[format!("{prefix}/cordon_tuning")] = json!("true");
    }
    let patch = Patch::Merge(json!({
        "metadata": {
            "annotations": annotations,
            "labels": {format!("{prefix}/status_tuning"): word},
        },
        "spec": {"unschedulable": is_held},
    }));
    let api: Api<Node> = Api::all(fleet.cluster.client("upstream"));
    api.patch(node, &PatchParams::default(), &patch).await.expect("patched");
}

fn meta(upstream: Upstream, name: &str, package: &str, stage: &str) -> Value {
    let prefix = upstream.prefix();
    let mark = json!({
        "name": package, "version": "1.0.0", "skyhook": "tuning", "stage": stage, "image": "x",
    });
    json!({
        "name": name,
        "labels": {
            format!("{prefix}/name"): "tuning",
            format!("{prefix}/package"): format!("{package}-1.0.0"),
        },
        "annotations": {format!("{prefix}/package"): mark.to_string()},
    })
}

/// Starts a stage as upstream does: the kubelet runs its pod, whoever is in charge.
async fn work(fleet: &Fleet, upstream: Upstream, node: &str, package: &str, stage: &str) -> String {
    let name = format!("tuning-{package}-{stage}-{node}");
    let container = |end: &str| json!({"name": format!("{package}-{end}"), "image": "x:1"});
    let mut pod = json!({
        "metadata": meta(upstream, &name, package, stage),
        "spec": {
            "nodeName": node,
            "restartPolicy": "OnFailure",
            "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
            "initContainers": [
                container("init"), container(stage), container(&format!("{stage}check")),
            ],
            "containers": [{"name": "pause", "image": "x:1"}],
        },
    });
    if upstream == Upstream::After {
        let uid = job(fleet, node, &name, package, stage).await;
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": true,
        }]);
        pod["spec"]["restartPolicy"] = json!("Never");
    }
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    let api = Api::namespaced(fleet.cluster.client("upstream"), "nodewright");
    api.create(&PostParams::default(), &pod).await.expect("created");
    name
}

async fn job(fleet: &Fleet, node: &str, name: &str, package: &str, stage: &str) -> String {
    let metadata = meta(Upstream::After, name, package, stage);
    let containers = json!([{"name": "done", "image": "x:1"}]);
    let object: Job = serde_json::from_value(json!({
        "metadata": metadata,
        "spec": {"template": {
            "spec": {"nodeName": node, "restartPolicy": "Never", "containers": containers},
        }},
    }))
    .expect("a Job");
    let api: Api<Job> = jobs(fleet);
    let created = api.create(&PostParams::default(), &object).await.expect("created");
    let running = Patch::Merge(json!({"status": {"active": 1}}));
    api.patch_status(name, &PatchParams::default(), &running).await.expect("patched");
    created.metadata.uid.expect("a UID")
}

fn jobs(fleet: &Fleet) -> Api<Job> {
    Api::namespaced(fleet.cluster.client("upstream"), "nodewright")
}

/// What the Job controller does when a Job's pod has ended.
async fn complete(fleet: &Fleet, job: &str) {
    let complete = Patch::Merge(json!({"status": {
        "active": 0, "succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}],
    }}));
    jobs(fleet).patch_status(job, &PatchParams::default(), &complete).await.expect("patched");
}

/// Leaves one node in each state, and returns the Jobs that are still to end.
async fn left_by(fleet: &Fleet, upstream: Upstream) -> Vec<String> {
    let done = ("tools", "config", "complete");
    let kernel = |stage, state| entries(&[("kernel", stage, state), done]);
    leave(fleet, upstream, "gpu-001", &kernel("post-interrupt", "complete"), false).await;
    leave(fleet, upstream, "gpu-002", &kernel("apply", "in_progress"), true).await;
    leave(fleet, upstream, "gpu-003", &kernel("interrupt", "in_progress"), true).await;
    leave(fleet, upstream, "gpu-004", &kernel("apply", "erroring"), true).await;
    let uninstalling =
        [("kernel", "post-interrupt", "complete"), done, ("old", "uninstall", "in_progress")];
    leave(fleet, upstream, "gpu-005", &entries(&uninstalling), false).await;
    leave(fleet, upstream, "gpu-006", "{", false).await;
    let mut running = vec![
        work(fleet, upstream, "gpu-002", "kernel", "apply").await,
        work(fleet, upstream, "gpu-005", "old", "uninstall").await,
    ];
    if upstream == Upstream::After {
        // The node is back; the Job controller has not said so yet.
        let name = "tuning-interrupt-reboot-gpu-003";
        job(fleet, "gpu-003", name, "kernel", "interrupt").await;
        running.push(name.to_owned());
    }
    running
}

async fn leave_status(fleet: &Fleet) {
    let status = Patch::Merge(json!({"status": {
        "status": "in_progress",
        "nodeState": {}, "nodeStatus": {"gpu-002": "in_progress"},
        // v0.15 was stopped while this node rebooted for it; its pod went with the node.
        "nodeBootIds": {"gpu-003": "the boot before"},
        "nodePriority": {"gpu-002": "2026-03-01T07:00:00Z", "gpu-003": "2026-03-01T07:00:00Z"},
        "nodeOrderOffset": 5,
    }}));
    let api = nodewrights(fleet);
    api.patch_status("tuning", &PatchParams::default(), &status).await.expect("patched");
}

/// Returns the containers that did something and ended well, by node; none may have done so twice.
fn ran_once(fleet: &Fleet) -> BTreeMap<String, BTreeSet<String>> {
    let mut ran: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for run in fleet.kubelet.runs() {
        let idle = ["pause", "done"].contains(&run.container.as_str());
        if run.exit_code == 0 && !idle && !run.container.ends_with("-init") {
            let is_first = ran.entry(run.node.clone()).or_default().insert(run.container.clone());
            assert!(is_first, "{} ran twice on {}", run.container, run.node);
        }
    }
    ran
}

async fn taken_over(upstream: Upstream) {
    let fleet = Fleet::with(6, quick()).await;
    let packages = [
        package("kernel", "1.0.0", "interrupt:\n  type: reboot"),
        package("tools", "1.0.0", ""),
        package("old", "1.0.0", "uninstall:\n  enabled: true\n  apply: true"),
    ];
    create(&fleet, "count: 6", &packages.concat()).await;
    leave_status(&fleet).await;
    let running = left_by(&fleet, upstream).await;
    let daemon = without_git(&fleet, DAEMON);
    if upstream == Upstream::After {
        fleet.clock.sleep(Duration::from_mins(2)).await;
        let ours = mutating(&fleet, DAEMON);
        let started = |node: &str| {
            ours.iter().any(|it| it.resource == "pods" && it.body["spec"]["nodeName"] == node)
        };
        assert!(started("gpu-004"), "the others go on");
        assert!(!started("gpu-002") && !started("gpu-003"), "these wait for upstream's Jobs");
        for job in &running {
            complete(&fleet, job).await;
        }
    }
    until(&daemon, fleet.clock, |state| {
        state.rollouts.get("tuning").is_some_and(|rollout| rollout.nodes_complete == 5)
    })
    .await;
    fleet.clock.sleep(Duration::from_mins(3)).await;
    daemon.stop().await.expect("a graceful stop");

    let ran = ran_once(&fleet);
    let of = |node: &str| ran.get(node).cloned().unwrap_or_default();
    assert_eq!(of("gpu-001"), BTreeSet::new(), "complete as it is");
    assert!(of("gpu-002").contains("kernel-apply") && of("gpu-002").contains("kernel-config"));
    let verified = ["kernel-post-interrupt", "kernel-post-interruptcheck"].map(str::to_owned);
    assert_eq!(of("gpu-003"), BTreeSet::from(verified), "the interrupt is behind it");
    assert!(of("gpu-004").contains("kernel-apply"), "its attempts begin anew");
    let uninstalled = ["old-uninstall", "old-uninstallcheck"].map(str::to_owned);
    assert_eq!(of("gpu-005"), BTreeSet::from(uninstalled));
    assert_eq!(of("gpu-006"), BTreeSet::new(), "malformed, left alone");
    for (node, reboots) in [("gpu-002", 1), ("gpu-003", 0), ("gpu-004", 1), ("gpu-005", 0)] {
        assert_eq!(fleet.kubelet.reboots(node), reboots, "{node}");
    }
    fleet.assert_released().await;
    assert!(jobs(&fleet).list(&ListParams::default()).await.expect("a list").items.is_empty());
    let touched = mutating(&fleet, DAEMON);
    let of_node = |node: &'static str| {
        touched.iter().filter(move |it| it.resource == "nodes" && it.name == node)
    };
    assert_eq!(of_node("gpu-006").count(), 0, "what cannot be read is not written to");
    // What was put there is noted beside its entry, so that later changes can be told.
    let metadata = of_node("gpu-001").filter(|it| it.subresource.is_empty());
    assert!(metadata.count() <= 1, "once");
    assert!(of_node("gpu-001").all(|it| !it.body.to_string().contains("rollout_tuning")));
    for node in fleet.nodes().await {
        assert_can_be_handed_back(&node);
    }
    fleet.stop().await;
}

/// Upstream v0.20 reads what we wrote and finds nothing to do (upstream contract B.2, C).
fn assert_can_be_handed_back(node: &Node) {
    let name = node.name_any();
    if name == "gpu-006" {
        return;
    }
    let annotations = node.annotations();
    let former = annotations.keys().chain(node.labels().keys());
    let former: Vec<&String> = former.filter(|key| key.starts_with("skyhook.")).collect();
    assert_eq!(former, Vec::<&String>::new(), "{name}");
    let of = |key: &str| annotations.get(&format!("nodewright.nvidia.com/{key}_tuning"));
    let state = of("nodeState").expect("the state");
    let state: BTreeMap<String, TheirEntry> = serde_json::from_str(state).expect("their shape");
    for (key, entry) in &state {
        let TheirEntry { name, version, image, stage, state } = entry;
        assert_eq!(*key, format!("{name}|{version}"));
        assert!(image.starts_with("registry.example/") && !image.contains(':'), "{image}");
        let last = if name == "kernel" { "post-interrupt" } else { "config" };
        assert_eq!((stage.as_str(), state.as_str()), (last, "complete"), "{key}");
    }
    assert_eq!(state.keys().collect::<Vec<_>>(), ["kernel|1.0.0", "tools|1.0.0"], "{name}");
    assert_eq!(of("version").map(String::as_str), Some("v0.20.0"), "{name}: no migration");
    assert_eq!(of("status").map(String::as_str), Some("complete"), "{name}");
    let label = node.labels().get("nodewright.nvidia.com/status_tuning");
    assert_eq!(label.map(String::as_str), Some("complete"), "{name}");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_v0_15_is_taken_over_with_nothing_run_twice() {
    taken_over(Upstream::Before).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_v0_20_is_taken_over_with_nothing_run_twice() {
    taken_over(Upstream::After).await;
}
