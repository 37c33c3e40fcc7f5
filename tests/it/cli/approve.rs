//! `nodewright approve` against a real API server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, PostParams};
use nodewright::api::{NodeWright, keys};
use nodewright::clock::Clock;
use nodewright::cluster::source_state::SOURCE_NAME;
use nodewright::sim::scene::{NodeGroup, Scene};
use serde_json::{Value, json};

use super::explain::run;
use crate::control_plane::{ControlPlane, Controllers};
use crate::scenario::{Ground, NAMESPACE};

fn object(name: &str, selector: &Value) -> NodeWright {
    let packages = json!({"motd": {"version": "1.0.0", "image": "registry.example/motd"}});
    let object = json!({
        "apiVersion": "nodewright.nvidia.com/v1alpha1", "kind": "NodeWright",
        "metadata": {"name": name},
        "spec": {"nodeSelectors": selector, "packages": packages},
    });
    serde_json::from_value(object).expect("a valid resource")
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn what_is_too_broad_is_shown_and_approved_once_and_what_is_not_is_refused() {
    let plane = Arc::new(ControlPlane::start(Controllers::Standard).await);
    let ground = Ground::real(Arc::clone(&plane)).await;
    let scene = Scene::new(plane.client("test"), Clock::real(), 1);
    let control_plane = "node-role.kubernetes.io/control-plane";
    scene.add_nodes(&NodeGroup::new("gpu", 2).label("nodepool", "gpu")).await.expect("nodes");
    scene.add_nodes(&NodeGroup::new("cp", 1).label(control_plane, "")).await.expect("nodes");
    let approve = async |words: &[&str]| {
        let ran = run(&plane, &[&["approve", "--namespace", NAMESPACE], words].concat()).await;
        (ran.code, format!("{}{}", ran.out, ran.err))
    };

    let (code, said) = approve(&["tuning"]).await;
    assert_eq!(code, Some(4));
    assert!(said.starts_with("error: there is no NodeWright tuning in this cluster"), "{said}");

    let resources: Api<NodeWright> = Api::all(ground.client("test"));
    let create = async |object: NodeWright| {
        resources.create(&PostParams::default(), &object).await.expect("created");
    };
    create(object("tuning", &json!({}))).await;
    create(object("pool", &json!({"matchLabels": {"nodepool": "gpu"}}))).await;
    let (code, said) = approve(&["tuning"]).await;
    assert_eq!(code, Some(4), "{said}");
    let nobody = format!(
        "error: nothing is approved: no daemon has ever been at work in namespace {NAMESPACE}\n"
    );
    assert!(said.starts_with(&nobody), "{said}");

    // What the first daemon makes.
    let maps: Api<ConfigMap> = Api::namespaced(ground.client("test"), NAMESPACE);
    let map = json!({"metadata": {"name": SOURCE_NAME,
        "annotations": {keys::approve("gone"): "by somebody", "example.com/owner": "ada"}}});
    let map = serde_json::from_value(map).expect("a ConfigMap");
    maps.create(&PostParams::default(), &map).await.expect("created");

    let everything =
        "its nodeSelectors selects every node of the cluster: 3, 1 of the control plane (cp-001)\n";
    let would = format!("would approve tuning: {everything}");
    assert_eq!(approve(&["tuning", "--dry-run"]).await, (Some(0), would));
    let done = format!("approved tuning: {everything}it begins within seconds\n");
    assert_eq!(approve(&["tuning"]).await, (Some(0), done));
    let before = format!("tuning has been approved before: {everything}");
    assert_eq!(approve(&["tuning"]).await, (Some(0), before));
    let written = maps.get(SOURCE_NAME).await.expect("there").metadata.annotations;
    let keys: Vec<String> = written.unwrap_or_default().into_keys().collect();
    assert_eq!(keys, ["example.com/owner".to_owned(), keys::approve("tuning")]);

    let (code, said) = approve(&["pool"]).await;
    let nothing = "error: pool selects neither every node nor the control plane: nothing to \
                   approve\nhint: see what it waits for: nodewright explain pool\n";
    assert_eq!((code, said.as_str()), (Some(4), nothing));

    // One that is made again is another object, which nobody approved.
    let uid = resources.get("tuning").await.expect("there").uid();
    resources.delete("tuning", &DeleteParams::background()).await.expect("deleted");
    create(object("tuning", &json!({}))).await;
    assert_ne!(resources.get("tuning").await.expect("there").uid(), uid);
    assert!(approve(&["tuning", "--dry-run"]).await.1.starts_with("would approve tuning"));
}
