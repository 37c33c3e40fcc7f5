//! The watcher of the nodes is never blind, or says so.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use nodewright::clock::Clock;
use nodewright::sim::{Cluster, Fault, Matching, Verb};
use serde_json::json;

use super::watcher::Watcher;

const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster with two nodes, and somebody who cordons them.
struct Fleet {
    cluster: Cluster,
    nodes: Api<Node>,
}

impl Fleet {
    async fn new() -> Self {
        let start = "2026-03-01T08:00:00Z".parse().expect("a valid time");
        let cluster = Cluster::new(Clock::starting_at(start, 1));
        let fleet = Self { nodes: Api::all(cluster.client("person")), cluster };
        for name in ["n1", "n2"] {
            fleet.add(name).await;
        }
        fleet
    }

    async fn add(&self, name: &str) {
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a node");
        self.nodes.create(&PostParams::default(), &node).await.expect("created");
    }

    async fn cordon(&self, name: &str, is_cordoned: bool) {
        let change = Patch::Merge(json!({"spec": {"unschedulable": is_cordoned}}));
        self.nodes.patch(name, &PatchParams::default(), &change).await.expect("changed");
    }

    /// Starts a watcher; its requests are the only ones of this user agent.
    async fn watcher(&self) -> Watcher {
        let client: Client = self.cluster.client("watcher");
        Watcher::start(client, self.cluster.clock()).await
    }

    fn refuse(&self, verb: Verb, times: usize, fault: Fault) {
        let requests = Matching::any().user_agent("watcher").verb(verb);
        self.cluster.faults().next(requests, times, fault);
    }

    async fn pass(&self, seconds: u64) {
        self.cluster.clock().sleep(Duration::from_secs(seconds)).await;
    }
}

/// What is looked at of a view.
type Cordons = (usize, BTreeSet<String>);

async fn seen(watcher: &Watcher) -> Result<Cordons, String> {
    watcher.view(PATIENCE).await.map(|view| (view.peak, view.ever_cordoned))
}

fn cordons(peak: usize, ever: &[&str]) -> Result<Cordons, String> {
    Ok((peak, ever.iter().map(ToString::to_string).collect()))
}

#[tokio::test(start_paused = true)]
async fn what_was_cordoned_when_it_started_and_what_just_was_both_count() {
    let fleet = Fleet::new().await;
    fleet.cordon("n1", true).await;
    let watcher = fleet.watcher().await;
    assert_eq!(seen(&watcher).await, cordons(1, &["n1"]));
    // Nothing passes between the last change and the question, nor between two changes.
    fleet.cordon("n2", true).await;
    fleet.cordon("n2", false).await;
    assert_eq!(seen(&watcher).await, cordons(2, &["n1", "n2"]));
    fleet.add("n3").await;
    fleet.cordon("n3", true).await;
    fleet.nodes.delete("n3", &DeleteParams::default()).await.expect("deleted");
    assert_eq!(seen(&watcher).await, cordons(2, &["n1", "n2", "n3"]));
    watcher.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_or_breaks_goes_on_where_it_was() {
    let fleet = Fleet::new().await;
    for fault in [
        Fault::InternalError,
        Fault::Unavailable,
        Fault::TooManyRequests { retry_after_seconds: 1 },
        Fault::ConnectionRefused,
        Fault::AnswerLost,
    ] {
        let watcher = fleet.watcher().await;
        fleet.pass(1).await;
        fleet.refuse(Verb::Watch, 3, fault);
        fleet.cluster.faults().drop_watches("nodes");
        fleet.pass(1).await;
        fleet.cordon("n1", true).await;
        fleet.cordon("n1", false).await;
        assert_eq!(seen(&watcher).await, cordons(1, &["n1"]));
        watcher.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lost_its_place_sees_again_and_says_that_it_missed_something() {
    let fleet = Fleet::new().await;
    let watcher = fleet.watcher().await;
    fleet.pass(1).await;
    fleet.refuse(Verb::Watch, 1, Fault::InternalError);
    fleet.cluster.faults().drop_watches("nodes");
    fleet.pass(0).await;
    fleet.cordon("n1", true).await;
    fleet.cordon("n1", false).await;
    fleet.cordon("n2", true).await;
    fleet.cluster.expire_watches("nodes");
    // One for the question, one for the watch.
    fleet.refuse(Verb::List, 2, Fault::Unavailable);
    let why = watcher.view(PATIENCE).await.expect_err("n1 was missed");
    assert!(why.starts_with("the watch of the nodes has a gap; it broke off 2 times"), "{why}");
    assert!(why.contains("lost its place 1 times (last: 410 too old resource version"), "{why}");
    assert!(why.ends_with("1 nodes cordoned at once, these at some time: {\"n2\"}"), "{why}");
    watcher.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_delivers_nothing_is_no_proof_that_nothing_happened() {
    let fleet = Fleet::new().await;
    let watcher = fleet.watcher().await;
    fleet.cluster.faults().stall_watches("nodes");
    assert_eq!(seen(&watcher).await, cordons(0, &[]), "nothing happened yet");
    fleet.cordon("n1", true).await;
    let why = watcher.view(PATIENCE).await.expect_err("nothing was delivered");
    assert!(why.starts_with("the watch of the nodes is behind, n1 is at "), "{why}");
    fleet.nodes.delete("n2", &DeleteParams::default()).await.expect("deleted");
    fleet.cordon("n1", false).await;
    fleet.cluster.faults().resume_watches("nodes");
    assert_eq!(seen(&watcher).await, cordons(1, &["n1"]));

    fleet.refuse(Verb::Watch, usize::MAX, Fault::Forbidden);
    fleet.cluster.faults().drop_watches("nodes");
    fleet.cordon("n1", true).await;
    let why = watcher.view(PATIENCE).await.expect_err("it is locked out");
    assert!(why.contains("it broke off 1"), "{why}");
    watcher.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_must_have_been_seen_going() {
    let fleet = Fleet::new().await;
    let watcher = fleet.watcher().await;
    fleet.pass(1).await;
    fleet.cluster.faults().stall_watches("nodes");
    fleet.cordon("n2", true).await;
    fleet.nodes.delete("n2", &DeleteParams::default()).await.expect("deleted");
    let why = watcher.view(PATIENCE).await.expect_err("its cordon was not seen either");
    assert!(why.contains("n2 is gone and was not seen going"), "{why}");
    fleet.cluster.faults().resume_watches("nodes");
    assert_eq!(seen(&watcher).await, cordons(1, &["n2"]));
    watcher.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_version_of_a_node_that_differs_is_kept_as_a_line() {
    let fleet = Fleet::new().await;
    let watcher = fleet.watcher().await;
    fleet.cordon("n1", true).await;
    fleet.cordon("n1", true).await;
    fleet.cordon("n1", false).await;
    let view = watcher.view(PATIENCE).await.expect("nothing was missed");
    assert_eq!(view.lines["n1"], ["n1", "n1 cordoned by others", "n1"]);
    assert_eq!(view.lines["n2"], ["n2"]);
    watcher.stop().await;
}
