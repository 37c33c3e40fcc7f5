//! `nodewright explain` and `nodewright retry` as processes against a real API server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodewright::api::{NodeWright, keys};
use nodewright::clock::Clock;
use nodewright::sim::scene::{NodeGroup, Scene};
use serde_json::{Value, json};

use super::{Ran, Shell, nodewright};
use crate::control_plane::{ControlPlane, Controllers};
use crate::fleet::manifest;
use crate::scenario::Ground;

const MOTD: &str = "    motd:\n      version: 1.0.0\n      image: registry.example/motd\n";

#[test]
fn what_to_explain_is_a_node_or_a_resource() {
    for subject in ["pod/web", "node/", ""] {
        let ran = nodewright(&["explain", subject]);
        assert_eq!(ran.code, Some(2), "{subject:?}");
        assert!(ran.err.contains("of a NodeWright is expected"), "{}", ran.err);
    }
    let ran = nodewright(&["retry", "gpu-001"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("written node/NAME"), "{}", ran.err);
}

#[test]
fn an_api_server_that_does_not_answer_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("config");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: none\n\
                clusters: [{name: none, cluster: {server: \"http://127.0.0.1:1\"}}]\n\
                users: [{name: none, user: {}}]\n\
                contexts: [{name: none, context: {cluster: none, user: none}}]\n";
    std::fs::write(&file, text).expect("it can be written");
    let file = file.to_str().expect("a path as text");
    for verb in
        [&["explain", "tuning"][..], &["retry", "node/gpu-001"], &["forget", "node/gpu-001"]]
    {
        let ran = nodewright(&[verb, &["--kubeconfig", file]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (Some(6), ""), "{}", ran.err);
        assert!(ran.err.contains("the connection failed"), "{}", ran.err);
    }
}

/// Runs the program against the API server.
pub async fn run(plane: &Arc<ControlPlane>, words: &[&str]) -> Ran {
    let kubeconfig = plane.kubeconfig().to_str().expect("a path as text").to_owned();
    let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    words.extend(["--kubeconfig".to_owned(), kubeconfig]);
    let run = move || Shell::new().run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.expect("it runs")
}

/// The record of a visit that failed.
fn failed(node: &Node) -> Value {
    json!({
        "v": 1, "crUid": "uid-of-tuning", "nodeUid": node.uid(), "machineId": "", "target": "t",
        "generation": 1, "visit": 7, "compartment": "__default__", "batch": 1, "order": 0,
        "picked": "2026-11-24T08:00:00Z", "phase": "released", "outcome": "erroring",
        "reason": "Failed", "message": "apply ended with exit code 3",
    })
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn a_node_and_a_resource_are_explained_and_a_failure_is_cleared() {
    let plane = Arc::new(ControlPlane::start(Controllers::Standard).await);
    let ground = Ground::real(Arc::clone(&plane)).await;
    let scene = Scene::new(plane.client("test"), Clock::real(), 1);
    let group = NodeGroup::new("gpu", 2).label("nodepool", "gpu");
    scene.add_nodes(&group).await.expect("nodes");
    let resources: Api<NodeWright> = Api::all(ground.client("test"));
    let object = serde_yaml::from_str(&manifest("tuning", "count: 1", MOTD)).expect("valid");
    resources.create(&PostParams::default(), &object).await.expect("created");
    let nodes: Api<Node> = Api::all(ground.client("test"));
    let before = resources.get("tuning").await.expect("there").resource_version();

    let ran = run(&plane, &["explain", "node/gpu-001"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    for part in ["gpu-001  ", "tuning  ", "wanted   motd 1.0.0", "motd 1.0.0: apply, config"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let ran = run(&plane, &["explain", "nodewright/tuning", "-o", "json"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let story: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(story["total"], 2);
    let ran = run(&plane, &["explain", "node/gpu-01"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    let said = "error: there is no node gpu-01 in this cluster\nhint: did you mean gpu-001?\n";
    assert_eq!(ran.err, said);
    let ran = run(&plane, &["explain", "tunning"]).await;
    assert!(ran.err.ends_with("hint: did you mean tuning?\n"), "{}", ran.err);
    let after = resources.get("tuning").await.expect("there").resource_version();
    assert_eq!(after, before, "nothing was written");

    let ran = run(&plane, &["retry", "node/gpu-001"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(4), ""));
    assert!(ran.err.contains("no visit has failed on node gpu-001"), "{}", ran.err);
    let node = nodes.get("gpu-001").await.expect("there");
    let key = keys::rollout("tuning");
    let record = failed(&node).to_string();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {&key: &record}}}));
    nodes.patch("gpu-001", &PatchParams::default(), &patch).await.expect("patched");
    let ran = run(&plane, &["retry", "node/gpu-001", "--dry-run"]).await;
    let would = "would clear on node/gpu-001 for tuning: apply ended with exit code 3\n";
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), would), "{}", ran.err);
    let node = nodes.get("gpu-001").await.expect("there");
    assert_eq!(node.annotations()[&key], record, "a dry run writes nothing");
    let ran = run(&plane, &["retry", "node/gpu-001", "--rollout", "tuning"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.starts_with("cleared on node/gpu-001 for tuning: apply"), "{}", ran.out);
    assert!(ran.out.contains("picked again when a batch has room"), "{}", ran.out);
    let node = nodes.get("gpu-001").await.expect("there");
    let cleared: Value = serde_json::from_str(&node.annotations()[&key]).expect("JSON");
    assert_eq!((&cleared["outcome"], &cleared["message"]), (&json!("released"), &Value::Null));

    // Where the rollout was stopped, that is not enough, and the answer names what is.
    let state = json!({"currentBatch": 3, "consecutiveFailures": 2, "shouldStop": true});
    let status = json!({"__default__": {"batchState": state}});
    let status = Patch::Merge(json!({"status": {"compartmentStatuses": status}}));
    let done = resources.patch_status("tuning", &PatchParams::default(), &status).await;
    done.expect("stopped");
    nodes.patch("gpu-001", &PatchParams::default(), &patch).await.expect("patched");
    let ran = run(&plane, &["retry", "node/gpu-001"]).await;
    let next = "tuning is stopped there and picks nobody; once every such node is cleared: \
                nodewright deployment-policy reset tuning\n";
    assert!(ran.code == Some(0) && ran.out.ends_with(next), "{}{}", ran.out, ran.err);
}
