//! The patch formats and their preconditions.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{add_node, cluster, nodes, refused};

fn operations(list: Value) -> Patch<()> {
    Patch::Json(serde_json::from_value(list).expect("a valid JSON patch"))
}

fn cordon_owner(node: &Node) -> Option<String> {
    node.metadata.managed_fields.as_ref()?.first()?.manager.clone()
}

#[tokio::test(start_paused = true)]
async fn a_merge_patch_with_a_stale_version_is_a_conflict() {
    let cluster = cluster();
    let first = add_node(&cluster, "n1").await;
    let patch = |value: &str| {
        Patch::Merge(json!({
            "metadata": {
                "resourceVersion": first.resource_version(), "annotations": {"a": value},
            },
            "spec": {"unschedulable": true},
        }))
    };
    let api = nodes(&cluster);
    let picked = api.patch("n1", &PatchParams::default(), &patch("1")).await.expect("fresh");
    assert_eq!(picked.annotations()["a"], "1");
    let status = refused(api.patch("n1", &PatchParams::default(), &patch("2")).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn a_patch_for_another_uid_is_invalid_and_a_put_a_conflict() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let patch = Patch::Merge(json!({"metadata": {"uid": "other", "labels": {"a": "b"}}}));
    let status = refused(nodes(&cluster).patch("n1", &PatchParams::default(), &patch).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(status.details.expect("details").causes[0].field, "metadata.uid");
    let mut other = nodes(&cluster).get("n1").await.expect("it is there");
    other.metadata.uid = Some("other".to_owned());
    let status = refused(nodes(&cluster).replace("n1", &PostParams::default(), &other).await);
    assert_eq!(status.code, 409);
    assert!(status.message.contains("UID in precondition: other"));
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_whose_test_fails_is_a_422_and_changes_nothing() {
    let cluster = cluster();
    let first = add_node(&cluster, "n1").await;
    let api = nodes(&cluster);
    let patch = operations(json!([
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
        {"op": "test", "path": "/metadata/uid", "value": "other"},
    ]));
    let status = refused(api.patch("n1", &PatchParams::default(), &patch).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let patch = operations(json!([
        {"op": "test", "path": "/metadata/uid", "value": first.uid()},
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
    ]));
    let patched = api.patch("n1", &PatchParams::default(), &patch).await.expect("it holds");
    assert_eq!(patched.labels()["a/b"], "c");
}

#[tokio::test(start_paused = true)]
async fn a_strategic_merge_keeps_the_other_conditions() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let api = nodes(&cluster);
    for condition in ["Ready", "Drained", "Ready"] {
        let patch = Patch::Strategic(json!({"status": {"conditions": [
            {"type": condition, "status": "True", "reason": "Test"},
        ]}}));
        api.patch_status("n1", &PatchParams::default(), &patch).await.expect("accepted");
    }
    let node = api.get("n1").await.expect("it is there");
    let conditions = node.status.and_then(|status| status.conditions).expect("conditions");
    let types: Vec<&str> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(types, ["Ready", "Drained"]);
    assert_eq!(node.spec.and_then(|spec| spec.taints), None, "a ready node is not tainted");
}

#[tokio::test(start_paused = true)]
async fn spec_and_status_of_a_node_are_written_apart() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let api = nodes(&cluster);
    let both = Patch::Merge(json!({
        "spec": {"unschedulable": true}, "status": {"nodeInfo": {"bootID": "b1"}},
    }));
    let main = api.patch("n1", &PatchParams::default(), &both).await.expect("accepted");
    assert!(main.status.and_then(|status| status.node_info).is_none());
    assert_eq!(main.spec.and_then(|spec| spec.unschedulable), Some(true));
    let back = Patch::Merge(json!({
        "spec": {"unschedulable": null}, "status": {"phase": "Running"},
    }));
    let status = api.patch_status("n1", &PatchParams::default(), &back).await.expect("accepted");
    assert_eq!(status.spec.and_then(|spec| spec.unschedulable), Some(true));
    assert_eq!(status.status.and_then(|status| status.phase).as_deref(), Some("Running"));
}

#[tokio::test(start_paused = true)]
async fn who_cordoned_is_recorded_and_the_taint_follows() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let api = nodes(&cluster);
    let person = PatchParams { field_manager: Some("kubectl-cordon".into()), ..Default::default() };
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    api.patch("n1", &person, &cordon).await.expect("accepted");
    let node = api.get("n1").await.expect("it is there");
    assert_eq!(cordon_owner(&node).as_deref(), Some("kubectl-cordon"));
    let taints = node.spec.and_then(|spec| spec.taints).expect("taints");
    assert!(taints.iter().any(|taint| taint.key == "node.kubernetes.io/unschedulable"));
    let uncordon = Patch::Merge(json!({"spec": {"unschedulable": false}}));
    api.patch("n1", &PatchParams::default(), &uncordon).await.expect("accepted");
    let node = api.get("n1").await.expect("it is there");
    assert_eq!(node.spec.as_ref().and_then(|spec| spec.unschedulable), None);
    assert_eq!(cordon_owner(&node).as_deref(), Some("test"));
}

#[tokio::test(start_paused = true)]
async fn apply_is_refused_in_so_many_words() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let patch = Patch::Apply(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
    }));
    let status = refused(nodes(&cluster).patch("n1", &PatchParams::apply("me"), &patch).await);
    assert_eq!(status.code, 415);
    assert!(status.message.contains("no server-side apply"));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_changes_nothing() {
    let cluster = cluster();
    let dry = PostParams { dry_run: true, ..Default::default() };
    nodes(&cluster).create(&dry, &super::node("n1")).await.expect("accepted");
    assert_eq!(refused(nodes(&cluster).get("n1").await).code, 404);
}
