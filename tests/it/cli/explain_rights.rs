//! `nodewright explain` for somebody who may not read everything: it says which right is missing,
//! for what, and answers the rest.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodewright::api::NodeWright;
use nodewright::clock::Clock;
use nodewright::sim::scene::{NodeGroup, Scene};
use serde_json::{Value, json};

use super::{Ran, Shell};
use crate::control_plane::{ControlPlane, Controllers};
use crate::fleet::manifest;
use crate::scenario::Ground;

const LICENSED: &str = "    motd:\n      version: 1.0.0\n      image: registry.example/motd\n      \
                        env:\n      - name: LICENSE\n        valueFrom:\n          \
                        secretKeyRef: {name: license, key: token}\n";

/// Somebody who may read what `rules` say, with a kubeconfig.
pub async fn person(plane: &ControlPlane, name: &str, rules: Value, folder: PathBuf) -> PathBuf {
    let client = plane.client("test");
    let metadata = json!({"name": name});
    let account = serde_json::from_value(json!({"metadata": metadata})).expect("an account");
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let _created = accounts.create(&PostParams::default(), &account).await.expect("created");
    let role = serde_json::from_value(json!({"metadata": metadata, "rules": rules}));
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let role = role.expect("a role");
    let _created = roles.create(&PostParams::default(), &role).await.expect("created");
    let binding = serde_json::from_value(json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }));
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = binding.expect("a binding");
    let _created = bindings.create(&PostParams::default(), &binding).await.expect("created");
    let asked = TokenRequest::default();
    let token = accounts.create_token_request(name, &PostParams::default(), &asked).await;
    let token = token.expect("a token").status.expect("it was issued").token;
    let text = std::fs::read_to_string(plane.kubeconfig()).expect("a kubeconfig");
    let mut config: Value = serde_json::from_str(&text).expect("it is JSON");
    config["users"][0]["user"] = json!({"token": token});
    let file = folder.join(name);
    std::fs::write(&file, config.to_string()).expect("written");
    file
}

async fn explain(kubeconfig: PathBuf, subject: &'static str) -> Ran {
    let run = move || {
        let kubeconfig = kubeconfig.to_str().expect("a path as text");
        Shell::new().run(&["explain", subject, "--kubeconfig", kubeconfig])
    };
    tokio::task::spawn_blocking(run).await.expect("it runs")
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn a_right_that_is_missing_is_named_and_the_rest_is_answered() {
    let plane = Arc::new(ControlPlane::start(Controllers::Standard).await);
    let ground = Ground::real(Arc::clone(&plane)).await;
    let scene = Scene::new(plane.client("test"), Clock::real(), 1);
    let group = NodeGroup::new("gpu", 1).label("nodepool", "gpu");
    scene.add_nodes(&group).await.expect("nodes");
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let nodes: Api<Node> = Api::all(plane.client("test"));
    let patch = Patch::Strategic(ready);
    nodes.patch_status("gpu-001", &PatchParams::default(), &patch).await.expect("ready");
    let resources: Api<NodeWright> = Api::all(ground.client("test"));
    let object = serde_yaml::from_str(&manifest("tuning", "count: 1", LICENSED)).expect("valid");
    let _created = resources.create(&PostParams::default(), &object).await.expect("created");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let read = ["get", "list", "watch"];
    let nodes = json!({"apiGroups": [""], "resources": ["nodes", "namespaces"], "verbs": read});
    let ours = json!({
        "apiGroups": ["nodewright.nvidia.com"], "resources": ["nodewrights"], "verbs": read,
    });
    let all = folder.path().to_path_buf();
    let viewer = person(&plane, "viewer", json!([nodes, ours]), all.clone()).await;
    let stranger = person(&plane, "stranger", json!([nodes]), all).await;

    let ran = explain(viewer.clone(), "node/gpu-001").await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let forbidden = |what: &str| format!("cannot list resource \"{what}\" in API group");
    for part in [
        forbidden("pods"),
        forbidden("deploymentpolicies"),
        forbidden("configmaps"),
        "NOT KNOWN  pods: ".to_owned(),
        "  so       executors, drains and protected pods are not seen".to_owned(),
        "  you can  ask for the right to list and watch pods\n".to_owned(),
        "list and watch configmaps in namespace nodewright\n".to_owned(),
        "NOT KNOWN  ConfigMap nodewright/nodewright-source: ".to_owned(),
        "NOT KNOWN  what tuning reads: package motd reads Secret nodewright/license".to_owned(),
        "gpu-001  ".to_owned(),
        "wanted   motd 1.0.0".to_owned(),
    ] {
        assert!(ran.out.contains(&part), "{part}: {}", ran.out);
    }
    let ran = explain(viewer, "tuning").await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("\ntuning  ") && ran.out.contains("NOT KNOWN  pods"), "{}", ran.out);

    let ran = explain(stranger, "node/gpu-001").await;
    assert_eq!(ran.out, "", "without resources there is no answer");
    assert!(ran.err.contains("cannot list resource \"nodewrights\""), "{}", ran.err);
    assert!(ran.err.contains("list and watch nodes and nodewrights"), "{}", ran.err);

    // Whoever may read everything is told that the Secret is not there, as the daemon says it.
    let ran = explain(plane.kubeconfig(), "node/gpu-001").await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let missing = "reads Secret nodewright/license, which does not exist: create it";
    assert!(ran.out.contains(missing) && !ran.out.contains("NOT KNOWN"), "{}", ran.out);
}
