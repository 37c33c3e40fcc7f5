//! Maximum disturbance is a promise: forty nodes, three at a time, through everything that can be
//! wanted of a package; the requests are read again, and the ceiling holds after each single one.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use nodewright::api::status::StatusWord;
use nodewright::sim::{Fault, KubeletOptions, Matching};

use super::leadership::{acts, assert_one_acts};
use super::safety::assert_safe_since;
use super::{change, create, nodewrights, package, quick, without_git};
use crate::fleet::{Fleet, PATIENCE};

const NODES: usize = 40;
const BUDGET: &str = "count: 3";

/// Of the install, which only makes the nodes what the story begins with.
const ALL: &str = "count: 40";

const CEILING: usize = 3;

/// How late the one daemon learns of everything that others do.
const LAG: Duration = Duration::from_secs(10);

/// How long a daemon leads before its renewals are lost.
const REIGN: Duration = Duration::from_secs(50);

/// Renewals that are lost in a row: more than a Lease outlasts.
const RENEWALS_LOST: usize = 6;

/// Nodes that say nothing while nothing changes: heartbeats prove nothing here, and are many.
fn quiet() -> KubeletOptions {
    let seldom = Duration::from_hours(6);
    KubeletOptions { lease_period: seldom, status_period: seldom, ..quick() }
}

fn kernel(version: &str, mode: &str, uninstall: &str) -> String {
    let rest = format!(
        "interrupt:\n  type: service\n  services: [kubelet]\n\
         configMap:\n  mode: {mode}\n\
         configInterrupts:\n  mode:\n    type: service\n    services: [cron]\n\
         uninstall:\n  enabled: true\n{uninstall}"
    );
    package("kernel", version, &rest)
}

/// Installs a package everywhere at once; returns the number of the last request then.
async fn install(fleet: &Fleet) -> usize {
    create(fleet, ALL, &kernel("1.0.0", "slow", "")).await;
    until_everywhere(fleet, Some("kernel|1.0.0")).await;
    fleet.cluster.requests().last().map_or(0, |last| last.sequence)
}

/// Plays an upgrade, a change of the configuration and an uninstall.
async fn play(fleet: &Fleet) {
    for (packages, entry) in [
        (kernel("1.1.0", "slow", ""), Some("kernel|1.1.0")),
        (kernel("1.1.0", "fast", ""), Some("kernel|1.1.0")),
        (kernel("1.1.0", "fast", "  apply: true\n"), None),
    ] {
        let before = fleet.kubelet.runs().len();
        change(fleet, BUDGET, &packages).await;
        until_everywhere(fleet, entry).await;
        let runs = fleet.kubelet.runs().len() - before;
        assert!(runs >= NODES, "something ran on every node: {runs} containers");
    }
}

/// Waits until the manifest as it stands is complete; each node has exactly this entry then.
async fn until_everywhere(fleet: &Fleet, entry: Option<&str>) {
    let deadline = fleet.clock.now() + PATIENCE;
    loop {
        let found = nodewrights(fleet).get("tuning").await.expect("there");
        let status = found.status.clone().unwrap_or_default();
        let is_current = status.observed_generation == found.metadata.generation;
        if is_current && status.status == Some(StatusWord::Complete) {
            break;
        }
        assert!(fleet.clock.now() < deadline, "{entry:?} is not reached: {status:#?}");
        fleet.clock.sleep(Duration::from_secs(1)).await;
    }
    for node in fleet.nodes().await {
        let state = fleet.node_state(&node.name_any(), "tuning").await;
        let entries = state.as_object().cloned().unwrap_or_default();
        let entries: Vec<&str> = entries.keys().map(String::as_str).collect();
        assert_eq!(entries, entry.into_iter().collect::<Vec<_>>(), "{}", node.name_any());
    }
}

/// Takes the Lease from whoever holds it, again and again.
async fn unseat(fleet: &Fleet) {
    let leases: Api<Lease> = Api::namespaced(fleet.cluster.client("test"), "nodewright");
    loop {
        fleet.clock.sleep(REIGN).await;
        let leases = leases.list(&ListParams::default()).await.expect("leases").items;
        let holders = leases.into_iter().filter_map(|lease| lease.spec?.holder_identity);
        for holder in holders.filter(|holder| !holder.is_empty()) {
            let renewals = Matching::any().user_agent(&holder).resource("leases");
            let lost = Fault::Delay(Duration::from_secs(30));
            fleet.cluster.faults().next(renewals, RENEWALS_LOST, lost);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_a_config_change_and_an_uninstall_keep_to_the_ceiling_at_every_write() {
    let fleet = Fleet::with(NODES, quiet()).await;
    let daemon = without_git(&fleet, "one");
    let since = install(&fleet).await;
    play(&fleet).await;
    daemon.stop().await.expect("a graceful stop");
    assert_safe_since(&fleet, &["kernel"], since, CEILING);
    fleet.assert_released().await;
    fleet.stop().await;
}

/// A batch is opened by one status write and a node picked by one patch, each at the version that
/// was read, so what a daemon does not know yet costs it a conflict and nobody a node.
#[tokio::test(start_paused = true)]
async fn two_daemons_of_which_one_sees_everything_late_keep_to_the_ceiling_at_every_write() {
    let fleet = Fleet::with(NODES, quiet()).await;
    fleet.cluster.faults().delay_watches("one", LAG);
    let one = without_git(&fleet, "one");
    let two = without_git(&fleet, "two");
    let since = install(&fleet).await;
    tokio::select! {
        () = play(&fleet) => {}
        () = unseat(&fleet) => unreachable!("it goes on for ever"),
    }
    let shares = ["one", "two"].map(|agent| acts(&fleet, agent).len());
    assert!(shares.iter().all(|&acts| acts > NODES), "both led for a while: {shares:?}");
    one.stop().await.expect("a graceful stop");
    two.stop().await.expect("a graceful stop");
    assert_one_acts(&fleet);
    assert_safe_since(&fleet, &["kernel"], since, CEILING);
    fleet.assert_released().await;
    fleet.stop().await;
}
