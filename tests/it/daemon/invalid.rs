//! What cannot be done is said where people look: on the resource, and on the node.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, PostParams};
use nodewright::api::NodeWright;
use nodewright::sim::{Fault, Matching, Verb};

use super::{change, mutating, nodewrights, package, quick, without_git};
use crate::fleet::{DAEMON, Fleet, is_complete, manifest, until};

/// Status, reason and message of the condition `Ready`.
async fn ready(fleet: &Fleet) -> (String, String, String) {
    let object = nodewrights(fleet).get("tuning").await.expect("there");
    let conditions = object.status.expect("a status").conditions;
    let ready = conditions.into_iter().find(|it| it.type_ == "Ready").expect("a condition");
    (ready.status, ready.reason, ready.message)
}

#[tokio::test(start_paused = true)]
async fn an_invalid_resource_says_what_is_wrong_until_it_is_corrected() {
    let fleet = Fleet::with(2, quick()).await;
    let cycle = package("one", "1.0.0", "dependsOn: {two: 1.0.0}")
        + &package("two", "1.0.0", "dependsOn: {one: 1.0.0}");
    super::create(&fleet, "count: 1", &cycle).await;
    let daemon = without_git(&fleet, DAEMON);
    fleet.clock.sleep(Duration::from_mins(1)).await;
    let (status, reason, message) = ready(&fleet).await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "InvalidResource"));
    assert!(message.contains("one") && message.contains("way out: correct it"), "{message}");
    assert!(message.starts_with("the resource cannot be read: "), "{message}");
    let writes = || mutating(&fleet, DAEMON).iter().filter(|it| it.resource != "leases").count();
    let before = writes();
    fleet.clock.sleep(Duration::from_mins(10)).await;
    assert_eq!(writes(), before, "said once");
    assert!(fleet.kubelet.runs().is_empty(), "nothing starts");

    change(&fleet, "count: 1", &package("one", "1.0.0", "")).await;
    until(&daemon, fleet.clock, is_complete).await;
    fleet.clock.sleep(Duration::from_mins(1)).await;
    let (status, reason, _) = ready(&fleet).await;
    assert_eq!((status.as_str(), reason.as_str()), ("True", "NodesConverged"));
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_is_refused_is_told_on_the_node() {
    let fleet = Fleet::with(1, quick()).await;
    let text = manifest("tuning", "count: 1", &package("one", "1.0.0", ""));
    let text = text.replace("  packages:", "  runtimeRequired: true\n  packages:");
    let text = text.replace("  packages:", "  autoTaintNewNodes: true\n  packages:");
    let object: NodeWright = serde_yaml::from_str(&text).expect("a manifest");
    let _made = nodewrights(&fleet).create(&PostParams::default(), &object).await.expect("created");
    let patches = Matching::writes().user_agent(DAEMON).verb(Verb::Patch).resource("nodes");
    fleet.cluster.faults().next(patches, 2, Fault::Forbidden);
    let daemon = without_git(&fleet, DAEMON);
    until(&daemon, fleet.clock, is_complete).await;
    let events: Api<Event> = Api::namespaced(fleet.cluster.client("test"), "default");
    let events = events.list(&ListParams::default()).await.expect("a list").items;
    let refused = events.iter().filter(|it| it.action.as_deref() == Some("Refused"));
    let [refused] = refused.collect::<Vec<_>>()[..] else { panic!("one event: {events:#?}") };
    assert_eq!(refused.type_.as_deref(), Some("Warning"));
    let about = refused.regarding.as_ref().and_then(|it| it.name.clone());
    assert_eq!(about.as_deref(), Some("gpu-001"));
    let note = refused.note.clone().unwrap_or_default();
    assert!(note.contains("refuses to change its taints for tuning: "), "{note}");
    assert!(note.contains("403") && note.contains("way out: give the daemon"), "{note}");
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}
