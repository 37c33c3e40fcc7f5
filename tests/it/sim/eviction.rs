//! Evictions honour disruption budgets and preconditions.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::Status;
use nodewright::sim::Cluster;
use serde_json::{Value, json};

use super::{add_pod, cluster, parse, pods, refused};

/// Evicts as the real API wants it; `Api::evict` of kube 5 writes `delete_options`, which a server
/// does not know, so preconditions sent through it are lost.
async fn evict(cluster: &Cluster, name: &str, options: Value) -> kube::Result<Status> {
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"}, "deleteOptions": options,
    });
    let request = http::Request::post(format!("/api/v1/namespaces/default/pods/{name}/eviction"))
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .expect("a valid request");
    cluster.client("test").request(request).await
}

async fn run_pod(cluster: &Cluster, name: &str) -> Pod {
    add_pod(cluster, name, Some("n1")).await;
    let running = Patch::Merge(json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
    }}));
    pods(cluster).patch_status(name, &PatchParams::default(), &running).await.expect("accepted")
}

async fn add_budget(cluster: &Cluster, name: &str, spec: Value) {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let budget: PodDisruptionBudget = parse(json!({"metadata": {"name": name}, "spec": spec}));
    let api: Api<PodDisruptionBudget> = Api::namespaced(cluster.client("test"), "default");
    api.create(&PostParams::default(), &budget).await.expect("created");
}

#[tokio::test(start_paused = true)]
async fn a_budget_without_room_is_a_429_that_says_which() {
    let cluster = cluster();
    run_pod(&cluster, "a").await;
    run_pod(&cluster, "b").await;
    add_budget(&cluster, "web", json!({"minAvailable": 1})).await;
    evict(&cluster, "a", Value::Null).await.expect("one may go");
    let status = refused(evict(&cluster, "b", Value::Null).await);
    assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(status.message, "Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = &status.details.expect("details").causes[0];
    assert_eq!(cause.reason, "DisruptionBudget");
    assert_eq!(cause.message, "The disruption budget web needs 1 healthy pods and has 1 currently");
    evict(&cluster, "a", Value::Null).await.expect("a terminating pod may be evicted again");
}

#[tokio::test(start_paused = true)]
async fn percentages_round_up() {
    let cluster = cluster();
    for name in ["a", "b", "c"] {
        run_pod(&cluster, name).await;
    }
    add_budget(&cluster, "web", json!({"minAvailable": "50%"})).await;
    evict(&cluster, "a", Value::Null).await.expect("two of three must stay");
    assert_eq!(refused(evict(&cluster, "b", Value::Null).await).code, 429);
}

#[tokio::test(start_paused = true)]
async fn two_budgets_for_one_pod_are_an_error() {
    let cluster = cluster();
    run_pod(&cluster, "a").await;
    add_budget(&cluster, "one", json!({"maxUnavailable": 1})).await;
    add_budget(&cluster, "two", json!({"maxUnavailable": 1})).await;
    let status = refused(evict(&cluster, "a", Value::Null).await);
    assert_eq!(status.code, 500);
    assert!(status.message.contains("more than one PodDisruptionBudget"));
}

#[tokio::test(start_paused = true)]
async fn the_uid_of_an_eviction_is_kept() {
    let cluster = cluster();
    let pod = run_pod(&cluster, "a").await;
    let other = json!({"preconditions": {"uid": "other"}});
    assert_eq!(refused(evict(&cluster, "a", other).await).code, 409);
    let right = json!({"preconditions": {"uid": pod.uid()}, "gracePeriodSeconds": 7});
    evict(&cluster, "a", right).await.expect("the right pod");
    let going = pods(&cluster).get("a").await.expect("its kubelet has it");
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_run_needs_no_budget() {
    let cluster = cluster();
    add_pod(&cluster, "a", Some("n1")).await;
    add_budget(&cluster, "web", json!({"maxUnavailable": 0})).await;
    let api = pods(&cluster);
    api.evict("a", &kube::api::EvictParams::default()).await.expect("a pending pod may go");
}
