//! Watches, raw and through kube's runtime.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, ResourceExt};
use nodewright::sim::Cluster;
use serde_json::json;

use super::{add_node, cluster, nodes, parse, soon};

async fn label(cluster: &Cluster, name: &str, pool: &str) {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"pool": pool}}}));
    nodes(cluster).patch(name, &PatchParams::default(), &patch).await.expect("accepted");
}

fn show(event: &WatchEvent<Node>) -> String {
    match event {
        WatchEvent::Added(node) => format!("added {}", node.name_any()),
        WatchEvent::Modified(node) => format!("modified {}", node.name_any()),
        WatchEvent::Deleted(node) => format!("deleted {}", node.name_any()),
        WatchEvent::Bookmark(mark) => format!("bookmark {}", mark.metadata.resource_version),
        WatchEvent::Error(status) => format!("error {} {}", status.code, status.reason),
    }
}

/// Watches from `version` and returns the first `count` events.
async fn events(api: Api<Node>, params: WatchParams, version: &str, count: usize) -> Vec<String> {
    let stream = api.watch(&params, version).await.expect("the watch opens").boxed();
    let events: Vec<WatchEvent<Node>> =
        soon(stream.take(count).try_collect()).await.expect("no broken event");
    events.iter().map(show).collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_continues_where_a_list_ended() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let list = nodes(&cluster).list(&ListParams::default()).await.expect("list");
    let version = list.metadata.resource_version.expect("a version");
    add_node(&cluster, "n2").await;
    label(&cluster, "n1", "cpu").await;
    nodes(&cluster).delete("n2", &DeleteParams::default()).await.expect("accepted");
    let seen = events(nodes(&cluster), WatchParams::default(), &version, 3).await;
    assert_eq!(seen, ["added n2", "modified n1", "deleted n2"]);
    let all = events(nodes(&cluster), WatchParams::default(), "0", 1).await;
    assert_eq!(all, ["added n1"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_stops_matching_is_deleted_for_the_watch() {
    let cluster = cluster();
    let created = add_node(&cluster, "n1").await;
    let version = created.resource_version().expect("a version");
    label(&cluster, "n1", "cpu").await;
    label(&cluster, "n1", "gpu").await;
    let gpu = WatchParams::default().labels("pool=gpu");
    let seen = events(nodes(&cluster), gpu, &version, 2).await;
    assert_eq!(seen, ["deleted n1", "added n1"]);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_gets_bookmarks_and_ends_at_its_time() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let params = WatchParams::default().timeout(150);
    let stream = nodes(&cluster).watch(&params, "2").await.expect("it opens").boxed();
    let events: Vec<WatchEvent<Node>> = soon(stream.try_collect()).await.expect("it ends");
    let marks: Vec<String> = events.iter().map(show).filter(|e| e.starts_with("book")).collect();
    assert_eq!(marks.len(), 2, "one a minute");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_too_old_is_expired() {
    let cluster = cluster();
    let created = add_node(&cluster, "n1").await;
    let version = created.resource_version().expect("a version");
    cluster.expire_watches("nodes");
    let seen = events(nodes(&cluster), WatchParams::default(), &version, 1).await;
    assert_eq!(seen, ["error 410 Expired"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_says_when_it_is_complete() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let params = WatchParams::default().initial_events();
    let seen = events(nodes(&cluster), params, "0", 2).await;
    assert_eq!(seen[0], "added n1");
    assert!(seen[1].starts_with("bookmark"));
}

/// Runs a reflector until the names in its store are the wanted ones.
async fn store_becomes(store: &reflector::Store<Node>, wanted: &[&str]) {
    soon(async {
        loop {
            let mut names: Vec<String> = store.state().iter().map(|n| n.name_any()).collect();
            names.sort();
            if names == wanted {
                return;
            }
            tokio::time::advance(Duration::from_millis(100)).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_through_drops_and_expiry() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let (store, writer) = reflector::store::<Node>();
    let stream = watcher(nodes(&cluster), watcher::Config::default()).default_backoff();
    let task = tokio::spawn(reflector::reflector(writer, stream).for_each(|_| async {}));
    store_becomes(&store, &["n1"]).await;
    add_node(&cluster, "n2").await;
    store_becomes(&store, &["n1", "n2"]).await;
    cluster.faults().drop_watches("nodes");
    add_node(&cluster, "n3").await;
    store_becomes(&store, &["n1", "n2", "n3"]).await;
    cluster.faults().stall_watches("nodes");
    nodes(&cluster).delete("n1", &DeleteParams::default()).await.expect("accepted");
    cluster.expire_watches("nodes");
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(store.state().len(), 3, "the watch is stale");
    cluster.faults().resume_watches("nodes");
    store_becomes(&store, &["n2", "n3"]).await;
    let lists = cluster.requests().iter().filter(|r| r.verb == nodewright::sim::Verb::List).count();
    assert_eq!(lists, 2, "the expiry made it list again");
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_streaming_watcher_works_too() {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let config = watcher::Config::default().streaming_lists();
    let stream = watcher(nodes(&cluster), config).applied_objects().boxed();
    let first: Vec<Node> = soon(stream.take(1).try_collect()).await.expect("it works");
    assert_eq!(first[0].name_any(), "n1");
    let other: Node = parse(json!({"metadata": {"name": "n9"}}));
    nodes(&cluster).create(&PostParams::default(), &other).await.expect("created");
}
