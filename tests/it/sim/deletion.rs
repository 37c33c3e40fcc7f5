//! Deletion: grace, preconditions, finalizers, collections, garbage.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use super::{add_pod, cluster, config_map, config_maps, parse, pods, refused};

fn with_uid(uid: &str) -> DeleteParams {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    DeleteParams::default().preconditions(preconditions)
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_terminates_until_its_kubelet_is_done() {
    let cluster = cluster();
    add_pod(&cluster, "p", Some("n1")).await;
    let api = pods(&cluster);
    let grace = DeleteParams::default().grace_period(90);
    let deleted = api.delete("p", &grace).await.expect("accepted").left().expect("the pod");
    assert_eq!(
        deleted.metadata.deletion_timestamp.as_ref().map(|time| time.0.to_string()).as_deref(),
        Some("2026-03-01T08:01:30Z")
    );
    assert_eq!(deleted.metadata.deletion_grace_period_seconds, Some(90));
    api.get("p").await.expect("it is still there");
    api.delete("p", &DeleteParams::default().grace_period(0)).await.expect("accepted");
    assert_eq!(refused(api.get("p").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_no_kubelet_has_goes_at_once() {
    let cluster = cluster();
    add_pod(&cluster, "p", None).await;
    pods(&cluster).delete("p", &DeleteParams::default()).await.expect("accepted");
    assert_eq!(refused(pods(&cluster).get("p").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn preconditions_are_kept() {
    let cluster = cluster();
    let pod = add_pod(&cluster, "p", None).await;
    let status = refused(pods(&cluster).delete("p", &with_uid("other")).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert!(status.message.contains("the UID in the precondition (other) does not match"));
    let uid = pod.uid().expect("a uid");
    pods(&cluster).delete("p", &with_uid(&uid)).await.expect("the right one");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_keeps_an_object_until_it_is_taken_off() {
    let cluster = cluster();
    let maps = config_maps(&cluster);
    let mut map = config_map("m");
    map.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    maps.create(&PostParams::default(), &map).await.expect("created");
    maps.delete("m", &DeleteParams::default()).await.expect("accepted");
    let held = maps.get("m").await.expect("it is held");
    assert!(held.metadata.deletion_timestamp.is_some());
    let off = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("m", &PatchParams::default(), &off).await.expect("accepted");
    assert_eq!(refused(maps.get("m").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_by_selector() {
    let cluster = cluster();
    let maps = config_maps(&cluster);
    for (name, visit) in [("a", "1"), ("b", "1"), ("c", "2")] {
        let map: ConfigMap = parse(json!({"metadata": {"name": name, "labels": {"visit": visit}}}));
        maps.create(&PostParams::default(), &map).await.expect("created");
    }
    let of_visit = ListParams::default().labels("visit=1");
    maps.delete_collection(&DeleteParams::default(), &of_visit).await.expect("accepted");
    let left = maps.list(&ListParams::default()).await.expect("list");
    assert_eq!(left.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn what_only_a_deleted_owner_owned_goes_too() {
    let cluster = cluster();
    let maps = config_maps(&cluster);
    let owner = maps.create(&PostParams::default(), &config_map("owner")).await.expect("created");
    let other = maps.create(&PostParams::default(), &config_map("other")).await.expect("created");
    let reference = |map: &ConfigMap| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": map.name_any(), "uid": map.uid(),
        })
    };
    for (name, owners) in [
        ("owned", json!([reference(&owner)])),
        ("shared", json!([reference(&owner), reference(&other)])),
    ] {
        let map: ConfigMap = parse(json!({"metadata": {"name": name, "ownerReferences": owners}}));
        maps.create(&PostParams::default(), &map).await.expect("created");
    }
    maps.delete("owner", &DeleteParams::default()).await.expect("accepted");
    assert_eq!(refused(maps.get("owned").await).code, 404);
    let shared = maps.get("shared").await.expect("it has another owner");
    assert_eq!(shared.owner_references().len(), 1);
}
