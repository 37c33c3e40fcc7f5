//! What the other tests rely on: the server answers like a cluster's, counts, and goes away.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use nodewright::clock::Clock;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ControlPlane, ControlPlaneError, Controllers, Stage, eventually, is_running, shared};

/// Enough for a controller on a machine that is busy compiling.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn the_api_server_answers_those_it_knows() {
    let plane = shared().await;
    let version = plane.client("smoke-answers/1").apiserver_version().await.unwrap();
    assert_eq!(version.major, "1");
    assert!(version.git_version.starts_with("v1."), "{}", version.git_version);

    let kubeconfig = kube::config::Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let nodes: Api<Node> = Api::all(kube::Client::try_from(config).unwrap());
    nodes.list(&ListParams::default()).await.expect("the kubeconfig is an administrator's");

    let mut stranger = plane.config("smoke-answers/1");
    stranger.auth_info.token = Some("guessed".to_owned().into());
    let nodes: Api<Node> = Api::all(kube::Client::try_from(stranger).unwrap());
    assert_eq!(code(nodes.list(&ListParams::default()).await), 401);
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn a_json_patch_whose_test_fails_is_422_and_a_stale_merge_patch_409() {
    let plane = shared().await;
    let nodes: Api<Node> = Api::all(plane.client("smoke-patch/1"));
    let node = create_node(&nodes, "smoke-patch").await;
    let parameters = PatchParams::default();

    let patch = |uid: &str| {
        let patch: json_patch::Patch = from(json!([
            { "op": "test", "path": "/metadata/uid", "value": uid },
            { "op": "add", "path": "/metadata/labels", "value": { "patched": "yes" } },
        ]));
        Patch::Json::<()>(patch)
    };
    let refused = nodes.patch("smoke-patch", &parameters, &patch("another")).await;
    assert_eq!(code(refused), 422);
    let uid = node.metadata.uid.unwrap();
    let patched = nodes.patch("smoke-patch", &parameters, &patch(&uid)).await.unwrap();
    assert_eq!(patched.metadata.labels.unwrap()["patched"], "yes");

    let stale = json!({
        "metadata": { "resourceVersion": node.metadata.resource_version },
        "spec": { "unschedulable": true },
    });
    assert_eq!(code(nodes.patch("smoke-patch", &parameters, &Patch::Merge(stale)).await), 409);
    nodes.delete("smoke-patch", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn an_eviction_is_429_while_the_pdb_allows_none() {
    let plane = shared().await;
    let client = plane.client("smoke-eviction/1");
    plane.ensure_namespace("smoke-eviction").await;
    let nodes: Api<Node> = Api::all(client.clone());
    create_node(&nodes, "smoke-eviction").await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "smoke-eviction");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client, "smoke-eviction");
    run_pod(&pods, "training", "smoke-eviction").await;
    let budget = from(json!({
        "metadata": { "name": "training" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "training" } } },
    }));
    budgets.create(&PostParams::default(), &budget).await.unwrap();
    let allowed = async || {
        let status = budgets.get("training").await.ok()?.status?;
        (status.expected_pods == Some(1)).then_some(status.disruptions_allowed)
    };
    assert_eq!(eventually("the PDB counts its pod", LIMIT, allowed).await, Some(0));
    let parameters = EvictParams::default();
    assert_eq!(code(pods.evict("training", &parameters).await), 429);

    let none_needed = Patch::Merge(json!({ "spec": { "minAvailable": 0 } }));
    budgets.patch("training", &PatchParams::default(), &none_needed).await.unwrap();
    eventually("the PDB allows one", LIMIT, async || (allowed().await? == Some(1)).then_some(()))
        .await;
    pods.evict("training", &parameters).await.unwrap();
    let evicted = pods.get("training").await.unwrap();
    assert!(evicted.metadata.deletion_timestamp.is_some(), "its kubelet is to end it");
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("training", &at_once).await.unwrap();
    nodes.delete("smoke-eviction", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn cordons_and_heartbeats_become_taints() {
    let plane = shared().await;
    let nodes: Api<Node> = Api::all(plane.client("smoke-taint/1"));
    create_node(&nodes, "smoke-taint").await;
    let tainted = async |expected: Option<&str>| {
        let what = format!("the only taint of the node is {expected:?}");
        eventually(&what, LIMIT, async || {
            let taints = nodes.get("smoke-taint").await.ok()?.spec?.taints.unwrap_or_default();
            let keys = taints.iter().map(|taint| taint.key.as_str());
            keys.eq(expected).then_some(())
        })
        .await;
    };
    let parameters = PatchParams::default();
    let report = async |ready: &str| {
        let mut condition = ready_condition();
        condition["status"] = ready.into();
        condition["lastHeartbeatTime"] = json!(Clock::real().now());
        let status = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
        nodes.patch_status("smoke-taint", &parameters, &status).await.unwrap();
    };
    report("True").await;
    tainted(None).await;
    report("False").await;
    tainted(Some("node.kubernetes.io/not-ready")).await;
    report("True").await;
    tainted(None).await;
    let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    nodes.patch("smoke-taint", &parameters, &cordon).await.unwrap();
    tainted(Some("node.kubernetes.io/unschedulable")).await;
    nodes.delete("smoke-taint", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn the_audit_log_counts_writes_by_user_agent() {
    let plane = shared().await;
    let one: Api<Node> = Api::all(plane.client("smoke-audit-one/1"));
    let other: Api<Node> = Api::all(plane.client("smoke-audit-other/1"));
    create_node(&one, "smoke-audit").await;
    let twice = from(json!({ "metadata": { "name": "smoke-audit" } }));
    assert_eq!(code(other.create(&PostParams::default(), &twice).await), 409);
    one.get("smoke-audit").await.unwrap();
    let ready = Patch::Merge(json!({ "status": { "conditions": [ready_condition()] } }));
    one.patch_status("smoke-audit", &PatchParams::default(), &ready).await.unwrap();
    one.delete("smoke-audit", &DeleteParams::default()).await.unwrap();

    let writes = plane.writes_by("smoke-audit-one/1").await;
    let seen: Vec<_> = writes
        .iter()
        .map(|entry| (entry.verb.as_str(), entry.subresource.as_str(), entry.code))
        .collect();
    assert_eq!(seen, [("create", "", 201), ("patch", "status", 200), ("delete", "", 200)]);
    for entry in &writes {
        assert_eq!((entry.resource.as_str(), entry.name.as_str()), ("nodes", "smoke-audit"));
        assert_eq!((entry.namespace.as_str(), entry.stage), ("", Stage::ResponseComplete));
    }
    let refused = plane.writes_by("smoke-audit-other/1").await;
    assert_eq!(refused.iter().map(|entry| entry.code).collect::<Vec<_>>(), [409]);
    let all = plane.audit().await;
    let reads = all.iter().filter(|entry| entry.user_agent == "smoke-audit-one/1");
    assert_eq!(reads.filter(|entry| entry.verb == "get").count(), 1);
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn without_controllers_pods_can_be_made_and_nothing_is_left_after_drop() {
    let plane = ControlPlane::start(Controllers::None).await;
    plane.ensure_namespace("smoke-alone").await;
    let pods: Api<Pod> = Api::namespaced(plane.client("smoke-alone/1"), "smoke-alone");
    run_pod(&pods, "alone", "nowhere").await;
    assert_gone_after_drop(plane, &["etcd", "kube-apiserver", "watchdog"]);
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn without_node_lifecycle_new_nodes_have_no_taint() {
    let plane = ControlPlane::start(Controllers::WithoutNodeLifecycle).await;
    let nodes: Api<Node> = Api::all(plane.client("smoke-many/1"));
    let node = create_node(&nodes, "smoke-many").await;
    assert_eq!(node.spec.unwrap_or_default().taints, None);
    let names = ["etcd", "kube-apiserver", "kube-controller-manager", "watchdog"];
    assert_gone_after_drop(plane, &names);
}

#[tokio::test]
async fn missing_programs_fail_with_the_command_that_makes_them() {
    let folder = tempfile::tempdir().unwrap();
    let error = ControlPlane::start_from(folder.path(), Controllers::None).await.unwrap_err();
    assert!(matches!(&error, ControlPlaneError::ProgramMissing { executable }
        if *executable == folder.path().join("etcd")));
    let expected = format!(
        "needs a real control plane, and there is no {}/etcd; run tests/control-plane/build \
         (Go 1.26, about 8 minutes once), then cargo test",
        folder.path().display()
    );
    assert_eq!(error.to_string(), expected);
}

fn assert_gone_after_drop(plane: ControlPlane, expected: &[&str]) {
    let (names, processes): (Vec<_>, Vec<_>) = plane.processes().into_iter().unzip();
    assert_eq!(names, expected);
    let folder: PathBuf = plane.kubeconfig().parent().unwrap().to_owned();
    assert!(folder.exists() && processes.iter().all(|process| is_running(*process)));
    drop(plane);
    let left: Vec<_> = processes.into_iter().filter(|process| is_running(*process)).collect();
    assert!(left.is_empty(), "processes {left:?} still run");
    assert!(!folder.exists(), "{} is still there", folder.display());
}

async fn create_node(nodes: &Api<Node>, name: &str) -> Node {
    let node = from(json!({ "metadata": { "name": name } }));
    nodes.create(&PostParams::default(), &node).await.unwrap()
}

/// Creates a pod that is bound to a node, and reports it running and ready as a kubelet would.
async fn run_pod(pods: &Api<Pod>, name: &str, node: &str) {
    let pod = from(json!({
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "none" }] },
    }));
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let running = json!({ "status": { "phase": "Running", "conditions": [ready_condition()] } });
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(running)).await.unwrap();
}

fn ready_condition() -> Value {
    json!({ "type": "Ready", "status": "True", "reason": "Test", "message": "played by the test" })
}

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the test's object has the shape of its type")
}

fn code<T>(result: Result<T, kube::Error>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("the API server did not refuse it but: {error}"),
        Ok(_) => panic!("the API server accepted it"),
    }
}
