//! The embedded cluster behaves like the real one.
//!
//! Every test talks through a real `kube::Client`, under paused time.

mod custom;
mod deletion;
mod eviction;
mod faults;
mod kubelet;
mod ledger;
mod node;
mod objects;
mod patches;
mod scene;
mod watches;

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, PostParams};
use kube::core::Status;
use nodewright::clock::Clock;
use nodewright::sim::{Cluster, Kubelet, KubeletOptions};
use serde_json::{Value, json};

/// How long anything may take before a test gives up, on the paused clock.
const PATIENCE: Duration = Duration::from_secs(3600);

fn cluster() -> Cluster {
    Cluster::new(clock())
}

fn clock() -> Clock {
    let start = "2026-03-01T08:00:00Z".parse().expect("a valid time");
    Clock::starting_at(start, 1)
}

fn nodes(cluster: &Cluster) -> Api<Node> {
    Api::all(cluster.client("test"))
}

fn pods(cluster: &Cluster) -> Api<Pod> {
    Api::namespaced(cluster.client("test"), "default")
}

fn config_maps(cluster: &Cluster) -> Api<ConfigMap> {
    Api::namespaced(cluster.client("test"), "default")
}

fn parse<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("the test writes a valid object")
}

fn node(name: &str) -> Node {
    parse(json!({"metadata": {"name": name, "labels": {"pool": "gpu"}}}))
}

fn config_map(name: &str) -> ConfigMap {
    parse(json!({"metadata": {"name": name}, "data": {"key": "value"}}))
}

fn pod(name: &str, node: Option<&str>) -> Pod {
    parse(json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "web:1"}]},
    }))
}

async fn add_node(cluster: &Cluster, name: &str) -> Node {
    nodes(cluster).create(&PostParams::default(), &node(name)).await.expect("node is created")
}

async fn add_pod(cluster: &Cluster, name: &str, node: Option<&str>) -> Pod {
    pods(cluster).create(&PostParams::default(), &pod(name, node)).await.expect("pod is created")
}

/// Returns the `Status` a request was refused with.
fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("a refusal was expected, not {other:?}"),
    }
}

/// Waits for what must happen, but not for ever.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens within the test's patience")
}

/// Starts a kubelet that plays every node until the test ends.
fn start_kubelet(cluster: &Cluster, options: KubeletOptions) -> Kubelet {
    let kubelet = Kubelet::new(options);
    let (running, client, clock) = (kubelet.clone(), cluster.client("kubelet"), cluster.clock());
    drop(tokio::spawn(async move {
        running.run(client, clock, std::future::pending()).await;
    }));
    kubelet
}

/// Watches an object until `wanted` says so, and returns it.
async fn until<T>(api: &Api<T>, name: &str, wanted: impl Fn(&T) -> bool) -> T
where
    T: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let found = kube::runtime::wait::await_condition(api.clone(), name, |object: Option<&T>| {
        object.is_some_and(&wanted)
    });
    soon(found).await.expect("the watch holds").expect("the object is there")
}

/// Waits until an object is gone.
async fn until_gone<T>(api: &Api<T>, name: &str)
where
    T: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let gone = kube::runtime::wait::await_condition(api.clone(), name, |object: Option<&T>| {
        object.is_none()
    });
    drop(soon(gone).await.expect("the watch holds"));
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}
