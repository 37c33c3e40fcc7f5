//! Cordons lifted behind the daemon's back, and cordons that were not written (failures B), with
//! the production edge and the planner on the embedded cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use nodewright::api::keys;
use nodewright::model::StatusWord;
use nodewright::report::FleetState;
use nodewright::sim::scene::Workload;
use nodewright::sim::{Fault, Matching, Verb};
use serde_json::{Value, json};

use crate::fleet::{DAEMON, Fleet, is_complete, until};

const NODE: &str = "gpu-001";

fn kernel() -> String {
    super::package("kernel", "1.0.0", "interrupt:\n  type: reboot")
}

/// A training pod that keeps the visit waiting on a cordoned node.
async fn train(fleet: &Fleet) {
    let training = Workload::new("training", NODE).label("workload", "long-running-training");
    let training = training.finishes_after_seconds(1_000_000);
    fleet.scene().add_workload(&training).await.expect("a pod");
}

async fn finish(fleet: &Fleet) {
    let pods: Api<k8s_openapi::api::core::v1::Pod> =
        Api::namespaced(fleet.cluster.client("kubelet"), "default");
    let status = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("training", &PatchParams::default(), &status).await.expect("finished");
}

async fn node(fleet: &Fleet) -> Node {
    let nodes: Api<Node> = Api::all(fleet.cluster.client("test"));
    nodes.get(NODE).await.expect("the node")
}

async fn record(fleet: &Fleet) -> Value {
    let node = node(fleet).await;
    let text = node.annotations().get(&keys::rollout("tuning")).cloned();
    text.map_or(Value::Null, |text| serde_json::from_str(&text).expect("JSON"))
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Sets `spec.unschedulable` as a program with this field manager.
async fn set_cordon(fleet: &Fleet, manager: &str, cordoned: bool) {
    let nodes: Api<Node> = Api::all(fleet.cluster.client("others"));
    let value = if cordoned { json!(true) } else { Value::Null };
    let patch = Patch::Strategic(json!({"spec": {"unschedulable": value}}));
    let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..Default::default() };
    nodes.patch(NODE, &parameters, &patch).await.expect("patched");
}

fn waits(state: &FleetState, word: &str) -> bool {
    state.waits.iter().any(|group| group.word == word)
}

fn needs<'a>(state: &'a FleetState, word: &str) -> Option<&'a str> {
    let need = state.needs_person.iter().find(|need| need.word == word)?;
    Some(&need.message)
}

#[tokio::test(start_paused = true)]
async fn kubectl_uncordon_is_obeyed_until_the_node_is_cordoned_again() {
    let fleet = Fleet::new(1).await;
    train(&fleet).await;
    super::create(&fleet, "count: 1", &kernel()).await;
    let daemon = super::without_git(&fleet, DAEMON);
    until(&daemon, fleet.clock, |state| waits(state, "ProtectedPod")).await;

    set_cordon(&fleet, "kubectl-cordon", false).await;
    let state = until(&daemon, fleet.clock, |state| needs(state, "Uncordoned").is_some()).await;
    assert_eq!(
        needs(&state, "Uncordoned"),
        Some("uncordoned by kubectl-cordon while we hold it: cordon it again to go on")
    );
    finish(&fleet).await;
    fleet.clock.sleep(Duration::from_mins(10)).await;
    assert!(!is_cordoned(&node(&fleet).await), "nobody cordons against a person");
    assert_eq!(fleet.kubelet.reboots(NODE), 0, "and nothing starts");

    set_cordon(&fleet, "kubectl-cordon", true).await;
    let state = until(&daemon, fleet.clock, is_complete).await;
    assert_eq!(state.rollouts["tuning"].status, StatusWord::Complete);
    daemon.stop().await.expect("a graceful stop");
    fleet.assert_released().await;
    assert_eq!(fleet.kubelet.reboots(NODE), 1);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_uncordons_is_put_right_three_times_and_then_named() {
    let fleet = Fleet::new(1).await;
    train(&fleet).await;
    super::create(&fleet, "count: 1", &kernel()).await;
    let daemon = super::without_git(&fleet, DAEMON);
    until(&daemon, fleet.clock, |state| waits(state, "ProtectedPod")).await;
    for times in 1..=3 {
        fleet.clock.sleep(Duration::from_mins(5)).await;
        set_cordon(&fleet, "node-drainer", false).await;
        fleet.clock.sleep(Duration::from_secs(30)).await;
        assert!(is_cordoned(&node(&fleet).await), "put back, time {times}");
        assert_eq!(record(&fleet).await["recordons"], json!(times));
    }
    set_cordon(&fleet, "node-drainer", false).await;
    let state = until(&daemon, fleet.clock, |state| needs(state, "CordonFought").is_some()).await;
    assert_eq!(
        needs(&state, "CordonFought"),
        Some("node-drainer lifted our cordon, it was put back 3 times: nothing more starts here")
    );
    fleet.clock.sleep(Duration::from_mins(10)).await;
    assert!(!is_cordoned(&node(&fleet).await), "the fight is over");
    finish(&fleet).await;
    set_cordon(&fleet, "kubectl-cordon", true).await;
    until(&daemon, fleet.clock, is_complete).await;
    daemon.stop().await.expect("a graceful stop");
    fleet.assert_released().await;
    fleet.stop().await;
}

/// B8: the write that cordons is answered with an error, three times; nothing is evicted before
/// one that went through was read back.
#[tokio::test(start_paused = true)]
async fn b8_a_cordon_that_was_refused_evicts_nobody() {
    let fleet = Fleet::new(1).await;
    fleet.scene().add_workload(&Workload::new("web", NODE)).await.expect("a pod");
    let cordons = Matching::writes().user_agent(DAEMON).verb(Verb::Patch).resource("nodes");
    fleet.cluster.faults().next(cordons, 3, Fault::InternalError);
    super::create(&fleet, "count: 1", &kernel()).await;
    let daemon = super::without_git(&fleet, DAEMON);
    until(&daemon, fleet.clock, is_complete).await;
    daemon.stop().await.expect("a graceful stop");
    let requests = super::mutating(&fleet, DAEMON);
    let is_patch = |it: &&nodewright::sim::Request| {
        it.verb == Verb::Patch && it.resource == "nodes" && it.subresource.is_empty()
    };
    let refused: Vec<_> = requests.iter().filter(is_patch).take(4).map(|it| it.code).collect();
    assert_eq!(refused, [Some(500), Some(500), Some(500), Some(200)]);
    let cordoned = requests.iter().filter(is_patch).nth(3).expect("the one that went through");
    let evictions: Vec<_> = requests.iter().filter(|it| it.subresource == "eviction").collect();
    assert_eq!(evictions.len(), 1);
    assert!(evictions[0].sequence > cordoned.sequence);
    fleet.assert_released().await;
    fleet.stop().await;
}
