//! Rollouts: with a reboot, over two batches, an upgrade, everything at once; and a revision that
//! is applied.

use super::super::package;
use super::super::safety::assert_ran_once;
use super::{Asked, BUDGET, Story, fleet};
use crate::fleet::{is_complete, manifest, until};

fn reboots(version: &str) -> String {
    package("kernel", version, "interrupt:\n  type: reboot")
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_request_of_a_rollout_with_a_reboot() {
    let packages = reboots("1.0.0");
    Story { nodes: 1, asked: Asked::Packages(packages), before: None, reboots: 1, step: 1 }
        .play()
        .await;
}

#[tokio::test(start_paused = true)]
async fn killed_in_a_rollout_over_two_batches() {
    let driver = package("driver", "1.0.0", "dependsOn:\n  sysctl: 1.0.0");
    let packages = format!("{driver}{}", package("sysctl", "1.0.0", ""));
    Story { nodes: 2, asked: Asked::Packages(packages), before: None, reboots: 0, step: 6 }
        .play()
        .await;
}

#[tokio::test(start_paused = true)]
async fn killed_during_an_upgrade_no_node_reboots_a_third_time() {
    let before = Some(reboots("1.0.0"));
    Story { nodes: 1, asked: Asked::Packages(reboots("2.0.0")), before, reboots: 2, step: 7 }
        .play()
        .await;
}

/// The kernel reboots, the driver waits for it, sysctl needs no interrupt at all.
#[tokio::test(start_paused = true)]
async fn killed_here_and_there_in_a_rollout_of_everything() {
    let driver = package("driver", "1.0.0", "dependsOn:\n  kernel: 1.0.0");
    let packages = format!("{driver}{}{}", reboots("1.0.0"), package("sysctl", "1.0.0", ""));
    Story { nodes: 2, asked: Asked::Packages(packages), before: None, reboots: 1, step: 23 }
        .play()
        .await;
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
