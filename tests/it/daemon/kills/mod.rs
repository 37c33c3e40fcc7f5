//! Killed right after its k-th mutating request: a daemon started after it ends in the same state,
//! with nothing run twice, no reboot too many and nothing left behind. The shortest story leaves no
//! k out; the longer ones do, unless `NODEWRIGHT_KILLS=all` is set.
#![expect(clippy::disallowed_macros, reason = "what was measured is told in the test's output")]
#![expect(clippy::disallowed_methods, reason = "the thorough run is asked for in the environment")]

mod rollouts;
mod uninstalls;

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use nodewright::api::keys;
use nodewright::daemon::Daemon;
use nodewright::sim::scene::{Owner, Workload};
use serde_json::Value;

use super::safety::{assert_ran_once, assert_safe};
use super::{assert_cleaned_up, change, create, end_state, nodewrights, quick, without_git};
use crate::fleet::{Fleet, PATIENCE, is_complete, until};

/// More kills than any story here has requests: the loop ends by itself.
const KILLS_MAX: usize = 400;

const CEILING: usize = 1;
const BUDGET: &str = "count: 1";

/// What is asked for, and carried out by daemons of which the first is killed.
enum Asked {
    /// These packages, and no others.
    Packages(String),
    /// That the resource is deleted.
    Deletion,
}

/// What happens, and how the daemon is killed during it.
struct Story {
    nodes: usize,
    /// Rolled out, undisturbed, before the daemon is killed.
    before: Option<String>,
    asked: Asked,
    /// Reboots of each node from beginning to end.
    reboots: u32,
    /// Kills after every so many requests: 1 leaves none out.
    step: usize,
}

async fn add_web(fleet: &Fleet, pod: &str) {
    let set = Owner::ReplicaSet { name: "web".to_owned(), replicas: 1 };
    let web = Workload::new(pod, "gpu-001").owner(set);
    fleet.scene().add_workload(&web).await.expect("a workload");
}

async fn fleet(nodes: usize) -> Fleet {
    let fleet = Fleet::with(nodes, quick()).await;
    add_web(&fleet, "web-1").await;
    fleet
}

impl Story {
    /// Kills after one request more each time, until the story ends without being cut.
    async fn play(&self) {
        let is_thorough = std::env::var("NODEWRIGHT_KILLS").is_ok_and(|kills| kills == "all");
        let step = if is_thorough { 1 } else { self.step };
        let mut ends: Vec<(usize, Value)> = Vec::new();
        for kill in (1..KILLS_MAX).step_by(step) {
            let fleet = self.begin().await;
            let is_killed = self.run_until_killed(&fleet, kill).await;
            ends.push((kill, self.finish(fleet).await));
            if !is_killed {
                return assert_all_the_same(&ends);
            }
        }
        panic!("the story has no end");
    }

    /// Returns a fleet that has just been asked for what the story is about.
    async fn begin(&self) -> Fleet {
        let fleet = fleet(self.nodes).await;
        if let Some(before) = &self.before {
            create(&fleet, BUDGET, before).await;
            let daemon = without_git(&fleet, "before");
            until(&daemon, fleet.clock, is_complete).await;
            daemon.stop().await.expect("a graceful stop");
            // What the first drain moved away is there again, as on a node in use.
            add_web(&fleet, "web-2").await;
        }
        match (&self.asked, &self.before) {
            (Asked::Packages(packages), Some(_)) => change(&fleet, BUDGET, packages).await,
            (Asked::Packages(packages), None) => create(&fleet, BUDGET, packages).await,
            (Asked::Deletion, _) => {
                let all = nodewrights(&fleet);
                all.delete("tuning", &DeleteParams::default()).await.expect("accepted");
            }
        }
        fleet
    }

    /// Lets the first daemon run until it is cut off after `kill` requests, or has finished.
    async fn run_until_killed(&self, fleet: &Fleet, kill: usize) -> bool {
        let faults = fleet.cluster.faults();
        faults.cut_after("first", kill);
        let first = without_git(fleet, "first");
        tokio::select! {
            () = faults.cut("first") => true,
            () = self.reached(fleet, &first) => faults.is_cut("first"),
        }
        // Dropped here without a word, as by SIGKILL: its Lease lies until it runs out.
    }

    /// Waits until what was asked for is so.
    async fn reached(&self, fleet: &Fleet, daemon: &Daemon) {
        match self.asked {
            Asked::Packages(_) => {
                until(daemon, fleet.clock, is_complete).await;
            }
            Asked::Deletion => {
                let gone = async {
                    while nodewrights(fleet).get_opt("tuning").await.expect("readable").is_some() {
                        fleet.clock.sleep(Duration::from_millis(500)).await;
                    }
                };
                let patience = fleet.clock.real_duration(PATIENCE);
                let in_time = tokio::time::timeout(patience, gone).await;
                assert!(in_time.is_ok(), "the resource is not deleted");
            }
        }
    }

    /// Ends the story with another daemon where the first was killed, and checks everything.
    async fn finish(&self, fleet: Fleet) -> Value {
        let heir = without_git(&fleet, "heir");
        self.reached(&fleet, &heir).await;
        assert_cleaned_up(&fleet).await;
        heir.stop().await.expect("a graceful stop");
        fleet.assert_released().await;
        assert_ran_once(&fleet, self.reboots);
        assert_safe(&fleet, &["kernel"], CEILING);
        assert_no_snapshot_left(&fleet).await;
        let state = end_state(&fleet).await;
        fleet.stop().await;
        state
    }
}

/// Asserts that the snapshots kept are those that a node names, and no others.
async fn assert_no_snapshot_left(fleet: &Fleet) {
    let maps: Api<ConfigMap> = Api::namespaced(fleet.cluster.client("test"), "nodewright");
    let maps = maps.list(&ListParams::default()).await.expect("a list").items;
    let kept = maps.iter().filter(|map| map.annotations().contains_key(keys::SPEC));
    let kept: BTreeSet<String> = kept.map(ResourceExt::name_any).collect();
    let mut named = BTreeSet::new();
    for node in fleet.nodes().await {
        let state = fleet.node_state(&node.name_any(), "tuning").await;
        let entries = state.as_object().into_iter().flat_map(|entries| entries.values());
        named.extend(entries.filter_map(|it| Some(it["snapshot"].as_str()?.to_owned())));
    }
    assert_eq!(kept, named, "snapshots");
}

fn assert_all_the_same(ends: &[(usize, Value)]) {
    let (_, uncut) = ends.last().expect("at least one");
    for (kill, state) in ends {
        assert_eq!(state, uncut, "killed after request {kill}");
    }
    println!(
        "killed {} times, the last time after request {}",
        ends.len() - 1,
        ends.last().map_or(0, |end| end.0)
    );
}
