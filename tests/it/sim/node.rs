//! The kubelet plays nodes: heartbeats, reboots, silence.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use nodewright::sim::scene::{NodeGroup, Owner, Scene, Workload};
use nodewright::sim::{Kubelet, KubeletOptions, Rule, Script, keys};
use serde_json::json;

use super::{
    add_node, cluster, is_ready, nodes, parse, phase, pods, start_kubelet, until, until_gone,
};

fn interrupt(kind: &str) -> Pod {
    let order = STANDARD.encode(json!({"type": kind, "services": []}).to_string());
    parse(json!({
        "metadata": {"name": "interrupt", "labels": {"nodewright.nvidia.com/name": "cr"}},
        "spec": {
            "nodeName": "n1", "restartPolicy": "Never",
            "initContainers": [{
                "name": "interrupt", "image": "registry.example/agent:1",
                "args": ["interrupt", "/root", "/copy", order],
            }],
            "containers": [{"name": "done", "image": "registry.example/agent:1"}],
        },
    }))
}

fn boot_id(node: &Node) -> String {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.map(|info| info.boot_id.clone()).unwrap_or_default()
}

fn ready_status(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == "Ready").map(|condition| condition.status.as_str())
}

#[tokio::test(start_paused = true)]
async fn a_played_node_is_ready_untainted_and_renews_its_lease() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    start_kubelet(&cluster, KubeletOptions::default());
    let node = until(&nodes(&cluster), "n1", is_ready).await;
    assert!(!boot_id(&node).is_empty());
    let untainted = |node: &Node| node.spec.as_ref().is_some_and(|spec| spec.taints.is_none());
    until(&nodes(&cluster), "n1", untainted).await;
    cluster.clock().sleep(Duration::from_secs(35)).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client("test"), "kube-node-lease");
    let lease = leases.get("n1").await.expect("a lease");
    let renewed = lease.spec.and_then(|spec| spec.renew_time).expect("a time").0;
    assert!(cluster.clock().now().duration_since(renewed).as_secs() <= 10);
}

#[tokio::test(start_paused = true)]
async fn a_reboot_interrupt_reboots_the_node_once() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let kubelet = start_kubelet(&cluster, KubeletOptions::default());
    let before = boot_id(&until(&nodes(&cluster), "n1", is_ready).await);
    let scene = Scene::new(cluster.client("scene"), cluster.clock(), 1);
    scene.add_workload(&Workload::new("web", "n1")).await.expect("added");
    until(&pods(&cluster), "web", |pod| phase(pod) == "Running").await;
    let api = pods(&cluster);
    api.create(&PostParams::default(), &interrupt("node_restart")).await.expect("created");
    let down = until(&nodes(&cluster), "n1", |node| ready_status(node) == Some("False")).await;
    assert_eq!(boot_id(&down), before);
    let asleep = cluster.clock().now();
    let node = until(&nodes(&cluster), "n1", is_ready).await;
    assert_eq!(cluster.clock().now().duration_since(asleep).as_secs(), 30);
    assert_ne!(boot_id(&node), before);
    assert_eq!(node.annotations()[keys::REBOOTS], "1");
    let pod = until(&api, "interrupt", |pod| phase(pod) == "Failed").await;
    let status = pod.status.expect("a status");
    let state = status.init_container_statuses.expect("init containers")[0].state.clone();
    assert_eq!(state.and_then(|state| state.terminated).map(|end| end.exit_code), Some(255));
    let restarted = |pod: &Pod| {
        let all = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        phase(pod) == "Running" && all.is_some_and(|all| all[0].restart_count == 1)
    };
    until(&api, "web", restarted).await;
    assert_eq!(kubelet.reboots("n1"), 1);
    assert_eq!(kubelet.runs(), [], "nothing ran to its end");
}

#[tokio::test(start_paused = true)]
async fn other_interrupts_and_failed_orders_do_not_reboot() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let kubelet = start_kubelet(&cluster, KubeletOptions::default());
    let api = pods(&cluster);
    api.create(&PostParams::default(), &interrupt("service_restart")).await.expect("created");
    until(&api, "interrupt", |pod| phase(pod) == "Succeeded").await;
    api.delete("interrupt", &DeleteParams::default()).await.expect("accepted");
    kubelet.rewrite(|script| script.rules.push(Rule::any().container("interrupt").exits(1)));
    api.create(&PostParams::default(), &interrupt("node_restart")).await.expect("created");
    until(&api, "interrupt", |pod| phase(pod) == "Failed").await;
    assert_eq!(kubelet.reboots("n1"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_may_never_return_until_someone_helps() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let script = Script { never_returning: ["n1".to_owned()].into(), ..Default::default() };
    let kubelet = start_kubelet(&cluster, KubeletOptions { script, ..Default::default() });
    until(&nodes(&cluster), "n1", is_ready).await;
    let api = pods(&cluster);
    api.create(&PostParams::default(), &interrupt("node_restart")).await.expect("created");
    until(&nodes(&cluster), "n1", |node| ready_status(node) == Some("Unknown")).await;
    api.delete("interrupt", &DeleteParams::default()).await.expect("accepted");
    cluster.clock().sleep(Duration::from_secs(3000)).await;
    api.get("interrupt").await.expect("nobody can end it");
    kubelet.power_on("n1");
    until(&nodes(&cluster), "n1", is_ready).await;
    until_gone(&api, "interrupt").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_power_says_nothing_and_is_unknown_after_its_grace() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let kubelet = start_kubelet(&cluster, KubeletOptions::default());
    until(&nodes(&cluster), "n1", is_ready).await;
    kubelet.power_off("n1");
    let off = cluster.clock().now();
    until(&nodes(&cluster), "n1", |node| ready_status(node) == Some("Unknown")).await;
    assert_eq!(cluster.clock().now().duration_since(off).as_secs(), 40);
    let unreachable = |node: &Node| {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        taints.is_some_and(|all| all[0].key == "node.kubernetes.io/unreachable")
    };
    until(&nodes(&cluster), "n1", unreachable).await;
}

#[tokio::test(start_paused = true)]
async fn only_selected_nodes_are_played() {
    let cluster = cluster();
    let scene = Scene::new(cluster.client("scene"), cluster.clock(), 1);
    scene.add_nodes(&NodeGroup::new("real", 1)).await.expect("added");
    let fakes = NodeGroup::new("fake", 1).label("type", "fake");
    scene.add_nodes(&fakes).await.expect("added");
    let options = KubeletOptions { nodes: Some("type=fake".to_owned()), ..Default::default() };
    start_kubelet(&cluster, options);
    until(&nodes(&cluster), "fake-001", is_ready).await;
    assert_eq!(ready_status(&nodes(&cluster).get("real-001").await.expect("there")), None);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_nodes_are_one_watch_each_of_nodes_and_pods() {
    let cluster = cluster();
    let scene = Scene::new(cluster.client("scene"), cluster.clock(), 1);
    let names = scene.add_nodes(&NodeGroup::new("gpu", 100)).await.expect("added");
    let owner = Owner::DaemonSet { name: "logs".to_owned() };
    for name in &names {
        let pod = Workload::new(&format!("logs-{name}"), name).owner(owner.clone());
        scene.add_workload(&pod).await.expect("added");
    }
    let _kubelet: Kubelet = start_kubelet(&cluster, KubeletOptions::default());
    for name in &names {
        until(&pods(&cluster), &format!("logs-{name}"), |pod| phase(pod) == "Running").await;
    }
    cluster.clock().sleep(Duration::from_secs(120)).await;
    let requests = cluster.requests();
    let of = |verb: &str, resource: &str| {
        let matches = |r: &&nodewright::sim::Request| {
            r.user_agent == "kubelet" && r.verb.as_str() == verb && r.resource == resource
        };
        requests.iter().filter(matches).count()
    };
    assert_eq!((of("list", "pods"), of("list", "nodes")), (1, 1));
    assert_eq!((of("get", "pods"), of("get", "nodes")), (0, 0));
    assert_eq!(of("patch", "nodes"), 100, "one report each, then only leases");
}
