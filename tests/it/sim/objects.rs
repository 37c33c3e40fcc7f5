//! Create, get, list, update: what is stored, what is refused.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use serde_json::json;

use super::{
    add_node, add_pod, cluster, config_map, config_maps, node, nodes, parse, pod, pods, refused,
};

#[tokio::test(start_paused = true)]
async fn a_created_object_gets_what_the_server_owns() {
    let cluster = cluster();
    let created = add_node(&cluster, "n1").await;
    assert!(created.uid().is_some());
    assert_eq!(
        created.creation_timestamp().map(|time| time.0.to_string()).as_deref(),
        Some("2026-03-01T08:00:00Z")
    );
    let read = nodes(&cluster).get("n1").await.expect("it is there");
    assert_eq!(read.uid(), created.uid());
    let taints = read.spec.and_then(|spec| spec.taints).expect("a new node is tainted");
    assert_eq!(taints[0].key, "node.kubernetes.io/not-ready");
}

#[tokio::test(start_paused = true)]
async fn the_usual_namespaces_exist_and_others_must_be_made() {
    let cluster = cluster();
    let namespaces: Api<Namespace> = Api::all(cluster.client("test"));
    assert!(namespaces.get("kube-system").await.expect("it exists").uid().is_some());
    let elsewhere: Api<Pod> = Api::namespaced(cluster.client("test"), "elsewhere");
    let status = refused(elsewhere.create(&PostParams::default(), &pod("p", None)).await);
    assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));
    assert_eq!(status.message, "namespaces \"elsewhere\" not found");
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_once_and_missing_objects_are_404() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let status = refused(nodes(&cluster).create(&PostParams::default(), &node("n1")).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
    let status = refused(nodes(&cluster).get("n2").await);
    assert_eq!(status.message, "nodes \"n2\" not found");
    assert!(nodes(&cluster).get_opt("n2").await.expect("kube reads a 404").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_put_on_an_older_version_is_a_conflict() {
    let cluster = cluster();
    let maps = config_maps(&cluster);
    let first = maps.create(&PostParams::default(), &config_map("m")).await.expect("created");
    let mut changed = first.clone();
    changed.data = Some([("key".to_owned(), "new".to_owned())].into());
    let second = maps.replace("m", &PostParams::default(), &changed).await.expect("fresh");
    assert_ne!(first.resource_version(), second.resource_version());
    let status = refused(maps.replace("m", &PostParams::default(), &changed).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert!(status.message.contains("please apply your changes to the latest version"));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_is_no_new_version() {
    let cluster = cluster();
    let maps = config_maps(&cluster);
    let first = maps.create(&PostParams::default(), &config_map("m")).await.expect("created");
    let same = maps.replace("m", &PostParams::default(), &first).await.expect("accepted");
    assert_eq!(first.resource_version(), same.resource_version());
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_replaced_without_its_version() {
    let cluster = cluster();
    let leases: Api<Lease> = Api::namespaced(cluster.client("test"), "kube-node-lease");
    let lease: Lease = parse(json!({"metadata": {"name": "n1"}, "spec": {"holderIdentity": "a"}}));
    leases.create(&PostParams::default(), &lease).await.expect("created");
    let status = refused(leases.replace("n1", &PostParams::default(), &lease).await);
    assert_eq!(status.code, 422);
    assert!(status.message.contains("metadata.resourceVersion"));
    let lease: Lease = parse(json!({"metadata": {"name": "n2"}, "spec": {}}));
    leases.replace("n2", &PostParams::default(), &lease).await.expect("a PUT creates a lease");
}

#[tokio::test(start_paused = true)]
async fn lists_are_ordered_selected_and_paged() {
    let cluster = cluster();
    for name in ["n3", "n1", "n2"] {
        add_node(&cluster, name).await;
    }
    let other: Node = parse(json!({"metadata": {"name": "n4", "labels": {"pool": "cpu"}}}));
    nodes(&cluster).create(&PostParams::default(), &other).await.expect("created");
    let names = |list: kube::core::ObjectList<Node>| {
        list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    let gpu = ListParams::default().labels("pool in (gpu, tpu),!missing");
    assert_eq!(names(nodes(&cluster).list(&gpu).await.expect("list")), ["n1", "n2", "n3"]);
    let one = ListParams::default().fields("metadata.name=n4");
    assert_eq!(names(nodes(&cluster).list(&one).await.expect("list")), ["n4"]);
    let page = ListParams::default().limit(3);
    let first = nodes(&cluster).list(&page).await.expect("list");
    let token = first.metadata.continue_.clone().expect("there is more");
    assert_eq!(first.metadata.remaining_item_count, Some(1));
    let rest = page.continue_token(&token);
    assert_eq!(names(nodes(&cluster).list(&rest).await.expect("list")), ["n4"]);
    cluster.expire_watches("nodes");
    let status = refused(nodes(&cluster).list(&rest).await);
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn pods_are_found_by_node_and_phase_and_unknown_fields_are_refused() {
    let cluster = cluster();
    add_pod(&cluster, "on-n1", Some("n1")).await;
    add_pod(&cluster, "nowhere", None).await;
    let on_node = ListParams::default().fields("spec.nodeName=n1,status.phase!=Failed");
    assert_eq!(pods(&cluster).list(&on_node).await.expect("list").items.len(), 1);
    let odd = ListParams::default().fields("spec.hostNetwork=true");
    assert_eq!(refused(pods(&cluster).list(&odd).await).code, 400);
}

#[tokio::test(start_paused = true)]
async fn bad_metadata_is_refused_as_invalid() {
    let cluster = cluster();
    let cases = [
        (json!({"name": "Upper"}), "metadata.name"),
        (json!({"name": "a", "labels": {"k": "x".repeat(64)}}), "metadata.labels"),
        (json!({"name": "a", "labels": {"bad key": "x"}}), "metadata.labels"),
        (json!({"name": "a", "annotations": {"k": "x".repeat(262_144)}}), "metadata.annotations"),
    ];
    for (metadata, field) in cases {
        let wrong: Node = parse(json!({"metadata": metadata}));
        let status = refused(nodes(&cluster).create(&PostParams::default(), &wrong).await);
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{field}");
        let details = status.details.expect("an invalid object has details");
        assert_eq!(details.causes[0].field, field);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_larger_than_etcd_takes_is_refused() {
    let cluster = cluster();
    let mut map = config_map("m");
    map.data = Some([("key".to_owned(), "x".repeat(1_600_000))].into());
    let status = refused(config_maps(&cluster).create(&PostParams::default(), &map).await);
    assert_eq!((status.code, status.message.as_str()), (500, "etcdserver: request is too large"));
}

#[tokio::test(start_paused = true)]
async fn a_pods_spec_is_frozen_and_an_immutable_config_map_too() {
    let cluster = cluster();
    let mut changed = add_pod(&cluster, "p", Some("n1")).await;
    changed.spec.as_mut().expect("a spec").node_name = Some("n2".to_owned());
    let status = refused(pods(&cluster).replace("p", &PostParams::default(), &changed).await);
    assert_eq!(status.code, 422);
    let mut map = config_map("m");
    map.immutable = Some(true);
    let maps = config_maps(&cluster);
    let mut map = maps.create(&PostParams::default(), &map).await.expect("created");
    map.data = None;
    let status = refused(maps.replace("m", &PostParams::default(), &map).await);
    assert!(status.message.contains("field is immutable"));
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_can_be_asked_for() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let found: PartialObjectMeta<Node> =
        nodes(&cluster).get_metadata("n1").await.expect("metadata only");
    assert_eq!(found.name_any(), "n1");
    let list = nodes(&cluster).list_metadata(&ListParams::default()).await.expect("a list");
    assert_eq!(list.items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn generated_names_differ_and_the_version_is_told() {
    let cluster = cluster();
    let unnamed: Pod = parse(json!({
        "metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "main"}]},
    }));
    let first = pods(&cluster).create(&PostParams::default(), &unnamed).await.expect("created");
    let second = pods(&cluster).create(&PostParams::default(), &unnamed).await.expect("created");
    assert_ne!(first.name_any(), second.name_any());
    let version = cluster.client("test").apiserver_version().await.expect("a version");
    assert_eq!(version.minor, "36");
}

#[tokio::test(start_paused = true)]
async fn the_log_says_who_did_what() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    refused(nodes(&cluster).get("n2").await);
    let lines: Vec<String> = cluster.requests().iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["#1 test create nodes n1 → 201", "#2 test get nodes n2 → 404"]);
    assert_eq!(cluster.requests()[0].body["metadata"]["labels"]["pool"], "gpu");
}
