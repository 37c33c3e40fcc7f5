//! Conditions of nodes that others read: they follow what is recorded, and leave with the resource.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{create, mutating, nodewrights, package, quick, without_git};
use crate::fleet::{Fleet, is_complete, until};

const NOT_READY: &str = "nodewright.nvidia.com/tuning/NotReady";
const ERRORING: &str = "nodewright.nvidia.com/tuning/Erroring";

/// Type of each condition under our prefixes, with status and reason, of every node.
async fn conditions(fleet: &Fleet) -> Vec<BTreeMap<String, (String, String)>> {
    let nodes: Api<Node> = Api::all(fleet.cluster.client("test"));
    let nodes = nodes.list(&ListParams::default()).await.expect("a list").items;
    let of = |node: Node| {
        let all = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let ours = all.into_iter().filter(|it| it.type_.contains("nvidia.com/"));
        ours.map(|it| (it.type_, (it.status, it.reason.unwrap_or_default()))).collect()
    };
    nodes.into_iter().map(of).collect()
}

fn said(is_ready: bool) -> BTreeMap<String, (String, String)> {
    let (status, reason) = if is_ready { ("False", "Complete") } else { ("True", "Incomplete") };
    BTreeMap::from([
        (NOT_READY.to_owned(), (status.to_owned(), reason.to_owned())),
        (ERRORING.to_owned(), ("False".to_owned(), "Not Erroring".to_owned())),
    ])
}

#[tokio::test(start_paused = true)]
async fn a_node_says_whether_it_is_complete_and_nothing_when_the_resource_is_gone() {
    let fleet = Fleet::with(4, quick()).await;
    // What upstream's operator said under the former name goes with ours.
    let former = json!({"status": {"conditions": [
        {"type": "skyhook.nvidia.com/tuning/NotReady", "status": "True"},
        {"type": "example.com/tuning/NotReady", "status": "True"},
    ]}});
    let nodes: Api<Node> = Api::all(fleet.cluster.client("test"));
    let first = nodes.list(&ListParams::default()).await.expect("a list").items.remove(0);
    let name = first.metadata.name.expect("a name");
    let patch = Patch::Strategic(former);
    nodes.patch_status(&name, &PatchParams::default(), &patch).await.expect("patched");

    create(&fleet, "percent: 50", &package("sysctl", "1.0.0", "")).await;
    let daemon = without_git(&fleet, "daemon");
    until(&daemon, fleet.clock, is_complete).await;
    fleet.clock.sleep(Duration::from_mins(1)).await;
    for told in conditions(&fleet).await {
        assert_eq!(told, said(true));
    }
    let writes = || {
        let writes = mutating(&fleet, "daemon").into_iter();
        writes.filter(|it| it.resource == "nodes" && it.subresource == "status").count()
    };
    let before = writes();
    assert!((4..=8).contains(&before), "begun and complete, each once at most: {before}");
    fleet.clock.sleep(Duration::from_mins(10)).await;
    assert_eq!(writes(), before, "nothing is said twice");

    nodewrights(&fleet).delete("tuning", &DeleteParams::default()).await.expect("deleted");
    fleet.clock.sleep(Duration::from_mins(2)).await;
    for told in conditions(&fleet).await {
        assert_eq!(told, BTreeMap::new());
    }
    let others = nodes.get(&name).await.expect("there").status.and_then(|it| it.conditions);
    let others = others.unwrap_or_default();
    assert!(others.iter().any(|it| it.type_ == "example.com/tuning/NotReady"), "{others:?}");
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}
