//! The forty pods.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, PostParams};
use nodewright::sim::scene::{Budget, NodeGroup, Owner, Workload};
use serde_json::{Value, json};

use super::status;
use crate::scenario::World;

/// The node they are on.
pub const NODE: &str = "gpu-001";

/// What becomes of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is there, untouched, when the node comes back.
    Stays,
    /// It leaves before the reboot.
    Leaves,
}

/// Pods of one kind: `name-0` and so on.
pub struct Kind {
    pub name: &'static str,
    pub count: u32,
    pub fate: Fate,
    make: Make,
}

/// How they are made.
enum Make {
    /// With a ReplicaSet of that many replicas, and what else is special.
    Replicated(fn(Workload) -> Workload),
    /// Without a controller.
    Bare(fn(Workload) -> Workload),
    /// Of a DaemonSet each.
    Daemon,
    /// With what the scene has no word for.
    Raw(fn(&mut Value)),
}

const fn kind(name: &'static str, count: u32, fate: Fate, make: Make) -> Kind {
    Kind { name, count, fate, make }
}

pub const KINDS: [Kind; 16] = [
    kind("web", 8, Fate::Leaves, Make::Replicated(|pod| pod)),
    kind("slow", 4, Fate::Leaves, Make::Replicated(|pod| pod.termination(30, Some(8)))),
    kind("stubborn", 1, Fate::Leaves, Make::Replicated(|pod| pod.termination(10, None))),
    kind("going", 1, Fate::Leaves, Make::Replicated(|pod| pod.termination(60, Some(20)))),
    kind("scratch", 3, Fate::Leaves, Make::Replicated(Workload::empty_dir)),
    kind("bare", 3, Fate::Leaves, Make::Bare(|pod| pod)),
    kind("never", 1, Fate::Leaves, Make::Replicated(|pod| pod)),
    kind("twice", 1, Fate::Leaves, Make::Replicated(|pod| pod)),
    kind("sick", 2, Fate::Leaves, Make::Replicated(|pod| pod)),
    kind("paced", 2, Fate::Leaves, Make::Replicated(|pod| pod)),
    kind(
        "training",
        1,
        Fate::Stays,
        Make::Bare(|pod| {
            pod.label("workload", "long-running-training").finishes_after_seconds(100_000)
        }),
    ),
    kind("done", 3, Fate::Stays, Make::Bare(|pod| pod.finishes_after_seconds(0))),
    kind("exporter", 3, Fate::Stays, Make::Daemon),
    kind("system", 2, Fate::Stays, Make::Bare(|pod| pod.namespace("kube-system"))),
    kind(
        "static",
        2,
        Fate::Stays,
        Make::Raw(|pod| {
            pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = json!("hash");
        }),
    ),
    kind(
        "tolerant",
        3,
        Fate::Stays,
        Make::Raw(|pod| {
            let every = json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"});
            pod["spec"]["tolerations"] = json!([every]);
        }),
    ),
];

/// Name, kind of the pods, pods that must stay, pods that it counts.
pub const BUDGETS: [(&str, &str, u32, i32); 5] = [
    ("never", "never", 1, 1),
    ("twice-a", "twice", 0, 1),
    ("twice-b", "twice", 0, 1),
    ("sick", "sick", 1, 2),
    ("paced", "paced", 1, 2),
];

/// Makes two nodes, and on the first all pods and budgets; all of them run when this returns.
pub async fn add_all(world: &World) {
    for namespace in ["default", "kube-system"] {
        world.ground.ensure_namespace(namespace).await;
    }
    let scene = world.scene();
    let nodes = NodeGroup::new("gpu", 2).label("nodepool", "gpu");
    scene.add_nodes(&nodes).await.expect("nodes");
    for kind in KINDS {
        for number in 0..kind.count {
            add(world, &kind, number).await;
        }
    }
    for (name, of, least, _) in BUDGETS {
        let rule = Budget::MinAvailable(least.to_string());
        scene.add_budget("default", name, &[("story", of)], &rule).await.expect("a budget");
    }
    all_run(world).await;
    let pods: Api<Pod> = Api::namespaced(world.ground.client("kubelet"), "default");
    for name in ["sick-0", "sick-1"] {
        status(&pods, name, json!({"conditions": [{"type": "Ready", "status": "False"}]})).await;
    }
    budgets_are_counted(world).await;
}

async fn add(world: &World, kind: &Kind, number: u32) {
    let name = format!("{}-{number}", kind.name);
    let workload = Workload::new(&name, NODE).label("story", kind.name);
    let owned = |owner| workload.clone().owner(owner);
    let workload = match kind.make {
        Make::Bare(change) => change(workload),
        Make::Replicated(change) => {
            change(owned(Owner::ReplicaSet { name: kind.name.to_owned(), replicas: kind.count }))
        }
        Make::Daemon => owned(Owner::DaemonSet { name: name.clone() }),
        Make::Raw(change) => {
            let mut pod = json!({
                "metadata": {"name": name, "annotations": {}},
                "spec": {
                    "nodeName": NODE,
                    "containers": [{"name": "main", "image": "registry.example/workload:1"}],
                },
            });
            change(&mut pod);
            let pod: Pod = serde_json::from_value(pod).expect("a pod");
            let pods = Api::namespaced(world.ground.client("test"), "default");
            pods.create(&PostParams::default(), &pod).await.expect("created");
            return;
        }
    };
    world.scene().add_workload(&workload).await.expect("a pod");
}

/// Waits until the kubelet has started all of them, and those that end have ended.
async fn all_run(world: &World) {
    let pods: Api<Pod> = Api::all(world.ground.client("test"));
    let found = world
        .eventually(async || {
            let all = pods.list(&ListParams::default()).await.ok()?.items;
            let run = all.iter().filter(|pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                let ends = pod.name_any().starts_with("done-");
                phase == Some(if ends { "Succeeded" } else { "Running" })
            });
            (run.count() == 40).then_some(())
        })
        .await;
    found.unwrap_or_else(|why| panic!("not all of them run: {why}"));
}

/// Waits for the disruption controller.
async fn budgets_are_counted(world: &World) {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(world.ground.client("test"), "default");
    for (name, _, least, expected) in BUDGETS {
        let counted = world
            .eventually(async || {
                let status = budgets.get(name).await.ok()?.status?;
                let is_counted = status.expected_pods == Some(expected);
                let healthy = if name == "sick" { 0 } else { expected };
                (is_counted && status.current_healthy.unwrap_or(0) == healthy).then_some(())
            })
            .await;
        counted.unwrap_or_else(|why| panic!("budget {name} with {least}: {why}"));
    }
}
