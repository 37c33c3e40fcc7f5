//! Killed right after its k-th mutating request: a daemon started after it ends in the same state,
//! with nothing run twice and no second reboot. The story with a reboot leaves no k out; the longer
//! ones do, unless `NODEWRIGHT_KILLS=all` is set.
#![expect(clippy::disallowed_macros, reason = "what was measured is told in the test's output")]
#![expect(clippy::disallowed_methods, reason = "the thorough run is asked for in the environment")]

use nodewright::sim::scene::{Owner, Workload};
use serde_json::Value;

use super::safety::{assert_ran_once, assert_safe};
use super::{assert_cleaned_up, change, create, end_state, package, quick, without_git};
use crate::fleet::{Fleet, is_complete, manifest, until};

/// More kills than any story here has requests: the loop ends by itself.
const KILLS_MAX: usize = 400;

const CEILING: usize = 1;
const BUDGET: &str = "count: 1";

/// What is rolled out, and how the daemon is killed during it.
struct Story {
    nodes: usize,
    packages: String,
    /// Rolled out, undisturbed, before the daemon is killed.
    before: Option<String>,
    reboots: u32,
    /// Kills after every so many requests: 1 leaves none out.
    step: usize,
}

async fn fleet(nodes: usize) -> Fleet {
    let fleet = Fleet::with(nodes, quick()).await;
    let set = Owner::ReplicaSet { name: "web".to_owned(), replicas: 1 };
    let web = Workload::new("web-1", "gpu-001").owner(set);
    fleet.scene().add_workload(&web).await.expect("a workload");
    fleet
}

/// Ends the story with another daemon where the first was killed, and checks everything.
async fn finish(fleet: Fleet, reboots: u32) -> Value {
    let heir = without_git(&fleet, "heir");
    until(&heir, fleet.clock, is_complete).await;
    assert_cleaned_up(&fleet).await;
    heir.stop().await.expect("a graceful stop");
    fleet.assert_released().await;
    assert_ran_once(&fleet, reboots);
    assert_safe(&fleet, &["kernel"], CEILING);
    let state = end_state(&fleet).await;
    fleet.stop().await;
    state
}

/// Lets the first daemon run until it is cut off after `kill` requests, or has finished.
async fn run_until_killed(fleet: &Fleet, kill: usize) -> bool {
    fleet.cluster.faults().cut_after("first", kill);
    let first = without_git(fleet, "first");
    let faults = fleet.cluster.faults();
    tokio::select! {
        () = faults.cut("first") => true,
        _ = until(&first, fleet.clock, is_complete) => faults.is_cut("first"),
    }
    // Dropped here without a word, as by SIGKILL: its Lease lies until it runs out.
}

impl Story {
    /// Kills after one request more each time, until the story ends without being cut.
    async fn play(&self) {
        let is_thorough = std::env::var("NODEWRIGHT_KILLS").is_ok_and(|kills| kills == "all");
        let step = if is_thorough { 1 } else { self.step };
        let mut ends: Vec<(usize, Value)> = Vec::new();
        for kill in (1..KILLS_MAX).step_by(step) {
            let fleet = fleet(self.nodes).await;
            if let Some(before) = &self.before {
                create(&fleet, BUDGET, before).await;
                let daemon = without_git(&fleet, "before");
                until(&daemon, fleet.clock, is_complete).await;
                daemon.stop().await.expect("a graceful stop");
                change(&fleet, BUDGET, &self.packages).await;
            } else {
                create(&fleet, BUDGET, &self.packages).await;
            }
            let is_killed = run_until_killed(&fleet, kill).await;
            ends.push((kill, finish(fleet, self.reboots).await));
            if !is_killed {
                return assert_all_the_same(&ends);
            }
        }
        panic!("the story has no end");
    }
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

fn reboots(version: &str) -> String {
    package("kernel", version, "interrupt:\n  type: reboot")
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_request_of_a_rollout_with_a_reboot() {
    let packages = reboots("1.0.0");
    Story { nodes: 1, packages, before: None, reboots: 1, step: 1 }.play().await;
}

#[tokio::test(start_paused = true)]
async fn killed_in_a_rollout_over_two_batches() {
    let driver = package("driver", "1.0.0", "dependsOn:\n  sysctl: 1.0.0");
    let packages = format!("{driver}{}", package("sysctl", "1.0.0", ""));
    Story { nodes: 2, packages, before: None, reboots: 0, step: 6 }.play().await;
}

#[tokio::test(start_paused = true)]
async fn killed_during_an_upgrade_no_node_reboots_a_third_time() {
    let before = Some(reboots("1.0.0"));
    Story { nodes: 1, packages: reboots("2.0.0"), before, reboots: 2, step: 7 }.play().await;
}

/// The kernel reboots, the driver waits for it, sysctl needs no interrupt at all.
#[tokio::test(start_paused = true)]
async fn killed_here_and_there_in_a_rollout_of_everything() {
    let driver = package("driver", "1.0.0", "dependsOn:\n  kernel: 1.0.0");
    let packages = format!("{driver}{}{}", reboots("1.0.0"), package("sysctl", "1.0.0", ""));
    Story { nodes: 2, packages, before: None, reboots: 1, step: 23 }.play().await;
}

/// Between the state of the source and the resources, too; and the status branch stays whole.
#[tokio::test(start_paused = true)]
async fn killed_while_a_revision_is_applied_the_next_daemon_applies_it() {
    for kill in 1..=6 {
        let fleet = fleet(1).await;
        fleet.push(&[("gpu.yaml", &manifest("tuning", BUDGET, &package("sysctl", "1.0.0", "")))]);
        fleet.cluster.faults().cut_after("first", kill);
        let first = fleet.daemon("first");
        fleet.cluster.faults().cut("first").await;
        drop(first);
        let heir = fleet.daemon("heir");
        until(&heir, fleet.clock, |state| {
            is_complete(state) && state.source.revision_applied.is_some()
        })
        .await;
        heir.stop().await.expect("a graceful stop");
        assert_ran_once(&fleet, 0);
        let fsck = fleet.origin.git(&["fsck", "--strict"]);
        assert!(!fsck.contains("error"), "killed after {kill}: {fsck}");
        let log = fleet.origin.git(&["log", "--format=%s", "nodewright-status/dev"]);
        assert!(log.contains("1/1"), "killed after {kill}: {log}");
        fleet.stop().await;
    }
}
