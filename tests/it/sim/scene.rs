//! The builders make what they say, the same each time.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::Api;
use nodewright::sim::Cluster;
use nodewright::sim::scene::{Budget, NodeGroup, Owner, Scene, Workload};

use super::{cluster, nodes};

fn scene(cluster: &Cluster, seed: u64) -> Scene {
    Scene::new(cluster.client("scene"), cluster.clock(), seed)
}

async fn machine_ids(seed: u64) -> Vec<String> {
    let cluster = cluster();
    let group = NodeGroup::new("gpu", 3).label("nodepool", "gpu").gpus(8);
    let names = scene(&cluster, seed).add_nodes(&group).await.expect("added");
    assert_eq!(names, ["gpu-001", "gpu-002", "gpu-003"]);
    let mut ids = Vec::new();
    for name in names {
        let node: Node = nodes(&cluster).get(&name).await.expect("it is there");
        assert_eq!(node.labels()["nodepool"], "gpu");
        let status = node.status.expect("a status");
        assert_eq!(status.allocatable.expect("allocatable")["nvidia.com/gpu"].0, "8");
        ids.push(status.node_info.expect("node info").machine_id);
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn machines_follow_from_the_seed() {
    let first = machine_ids(1).await;
    assert_eq!(first, machine_ids(1).await);
    assert_ne!(first, machine_ids(2).await);
    assert_ne!(first[0], first[1]);
    assert_eq!(first[0].len(), 32);
}

#[tokio::test(start_paused = true)]
async fn creation_times_increase_with_spacing() {
    let cluster = cluster();
    let scene = scene(&cluster, 1).spacing(Duration::from_secs(1));
    let names = scene.add_nodes(&NodeGroup::new("n", 3)).await.expect("added");
    let mut times = Vec::new();
    for name in names {
        times.push(nodes(&cluster).get(&name).await.expect("there").creation_timestamp());
    }
    assert!(times.is_sorted_by(|earlier, later| earlier < later));
}

#[tokio::test(start_paused = true)]
async fn workloads_have_their_owners_and_budgets() {
    let cluster = cluster();
    let scene = scene(&cluster, 1);
    scene.add_namespace("training").await.expect("added");
    let owner = Owner::ReplicaSet { name: "web".to_owned(), replicas: 2 };
    for (name, node) in [("web-a", "n1"), ("web-b", "n2")] {
        let workload = Workload::new(name, node)
            .namespace("training")
            .label("app", "web")
            .owner(owner.clone())
            .empty_dir();
        let pod = scene.add_workload(&workload).await.expect("added");
        assert_eq!(pod.owner_references()[0].kind, "ReplicaSet");
        assert_eq!(pod.owner_references()[0].controller, Some(true));
        let volumes = pod.spec.and_then(|spec| spec.volumes).expect("volumes");
        assert!(volumes[0].empty_dir.is_some());
    }
    let sets: Api<ReplicaSet> = Api::namespaced(cluster.client("test"), "training");
    assert_eq!(sets.get("web").await.expect("one").spec.and_then(|spec| spec.replicas), Some(2));
    let budget = Budget::MaxUnavailable("50%".to_owned());
    scene.add_budget("training", "web", &[("app", "web")], &budget).await.expect("added");
}
