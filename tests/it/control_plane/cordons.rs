//! What a real API server keeps of who lifted a cordon: the facts behind `plan/visit/cordon.rs`.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use nodewright::cluster::slim_node::SlimNode;
use serde_json::{Value, json};

use super::site::LIMIT;
use super::{eventually, shared};

const NODE: &str = "cordon-trace";

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn who_lifts_a_cordon_leaves_a_name_only_by_server_side_apply() {
    let plane = shared().await;
    let nodes: Api<Node> = Api::all(plane.client("cordon-trace/1"));
    // Without a field of its own from the start, an object has no managed fields at all.
    let node = json!({"metadata": {"name": NODE, "labels": {"pool": "gpu"}}});
    let node: Node = serde_json::from_value(node).expect("a node");
    nodes.create(&PostParams::default(), &node).await.expect("created");
    let patched = async |manager: &str, patch: Patch<Value>| {
        let parameters = PatchParams {
            field_manager: Some(manager.to_owned()),
            force: matches!(patch, Patch::Apply(_)),
            ..PatchParams::default()
        };
        // The node lifecycle controller writes its taints meanwhile.
        let node = eventually("the patch is accepted", LIMIT, async || {
            nodes.patch(NODE, &parameters, &patch).await.ok()
        });
        let node = serde_json::to_value(node.await).expect("JSON");
        serde_json::from_value::<SlimNode>(node).expect("a node").node
    };
    let cordon = || Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let ours = patched("nodewright", cordon()).await;
    assert_eq!((ours.unschedulable, ours.unschedulable_manager), (true, None), "our own is no one");
    let theirs = patched("kubectl-cordon", cordon()).await;
    assert!(theirs.unschedulable);
    for (manager, patch) in [
        ("kubectl-cordon", Patch::Strategic(json!({"spec": {"unschedulable": null}}))),
        ("kubectl-patch", Patch::Merge(json!({"spec": {"unschedulable": false}}))),
        ("controller", Patch::Merge(json!({"spec": {"unschedulable": null}}))),
    ] {
        patched("nodewright", cordon()).await;
        let lifted = patched(manager, patch).await;
        assert_eq!(
            (lifted.unschedulable, lifted.unschedulable_manager),
            (false, None),
            "{manager}"
        );
    }
    patched("nodewright", cordon()).await;
    let apply = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
        "spec": {"unschedulable": false},
    });
    let lifted = patched("autoscaler", Patch::Apply(apply)).await;
    assert!(!lifted.unschedulable);
    assert_eq!(lifted.unschedulable_manager.as_deref(), Some("autoscaler"));
    nodes.delete(NODE, &DeleteParams::default()).await.expect("deleted");
}
