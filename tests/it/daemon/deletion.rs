//! A resource deleted on a cluster: its nodes are in order before the object goes.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DeleteParams;
use nodewright::api::keys;
use nodewright::model::Phase;
use nodewright::report::FleetState;

use super::{assert_cleaned_up, create, nodewrights, package, quick, without_git};
use crate::fleet::{DAEMON, Fleet, is_complete, manifest, until};

const REBOOT: &str = "interrupt:\n  type: reboot";

/// Waits until the resource is gone, and asserts that nothing of it is left on any node but what
/// names the packages on its host.
async fn assert_gone(fleet: &Fleet, within: Duration) {
    let gone = async {
        while nodewrights(fleet).get_opt("tuning").await.expect("readable").is_some() {
            fleet.clock.sleep(Duration::from_millis(500)).await;
        }
    };
    let in_time = tokio::time::timeout(fleet.clock.real_duration(within), gone).await;
    assert!(in_time.is_ok(), "the resource is not deleted");
    fleet.assert_released().await;
    let kept = [keys::node_state("tuning"), keys::version("tuning")];
    for node in fleet.nodes().await {
        let ours = node.annotations().keys().chain(node.labels().keys());
        let left: Vec<_> =
            ours.filter(|key| key.ends_with("_tuning") && !kept.contains(key)).collect();
        assert!(left.is_empty(), "{}: {left:?}", node.name_any());
    }
}

fn any_rebooting(state: &FleetState) -> bool {
    let mut visits = state.nodes.values().flat_map(|node| node.values());
    visits.any(|facts| facts.visit.as_ref().is_some_and(|visit| visit.phase == Phase::Interrupting))
}

#[tokio::test(start_paused = true)]
async fn deleted_while_an_executor_runs() {
    let fleet = Fleet::with(2, quick()).await;
    create(&fleet, "count: 1", &package("kernel", "1.0.0", REBOOT)).await;
    let daemon = without_git(&fleet, "daemon");
    until(&daemon, fleet.clock, |state| {
        state.rollouts.values().any(|it| it.nodes_in_progress == 1)
    })
    .await;
    let object = nodewrights(&fleet).get("tuning").await.expect("there");
    assert_eq!(object.finalizers(), [keys::FINALIZER], "put there before the pick");
    nodewrights(&fleet).delete("tuning", &DeleteParams::default()).await.expect("accepted");
    assert_gone(&fleet, Duration::from_mins(2)).await;
    assert_eq!(fleet.kubelet.reboots("gpu-001"), 0, "the interrupt was not begun");
    assert_cleaned_up(&fleet).await;
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_during_a_reboot() {
    let options =
        nodewright::sim::KubeletOptions { reboot_time: Duration::from_mins(3), ..quick() };
    let fleet = Fleet::with(2, options).await;
    create(&fleet, "count: 1", &package("kernel", "1.0.0", REBOOT)).await;
    let daemon = without_git(&fleet, "daemon");
    until(&daemon, fleet.clock, any_rebooting).await;
    nodewrights(&fleet).delete("tuning", &DeleteParams::default()).await.expect("accepted");
    fleet.clock.sleep(Duration::from_mins(1)).await;
    let waits = nodewrights(&fleet).get_opt("tuning").await.expect("readable");
    assert!(waits.is_some(), "the reboot is waited for");
    assert_gone(&fleet, Duration::from_mins(10)).await;
    assert_eq!(fleet.kubelet.reboots("gpu-001"), 1);
    assert_eq!(fleet.kubelet.reboots("gpu-002"), 0, "nobody else is begun");
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pruned_from_git_and_put_back_at_once() {
    let fleet = Fleet::with(2, quick()).await;
    let motd = manifest("tuning", "count: 1", &package("motd", "1.0.0", ""));
    let other = manifest("other", "count: 1", &package("issue", "1.0.0", ""));
    fleet.push(&[("gpu.yaml", &motd), ("other.yaml", &other)]);
    let daemon = fleet.daemon(DAEMON);
    until(&daemon, fleet.clock, is_complete).await;
    let before = nodewrights(&fleet).get("tuning").await.expect("there").uid();
    fleet.push(&[("other.yaml", &other)]);
    assert_gone(&fleet, Duration::from_mins(10)).await;
    // The object may be gone before the daemon says so; what it said before is complete, too.
    until(&daemon, fleet.clock, |state| state.rollouts.len() == 1).await;
    fleet.push(&[("gpu.yaml", &motd), ("other.yaml", &other)]);
    until(&daemon, fleet.clock, |state| is_complete(state) && state.rollouts.len() == 2).await;
    let after = nodewrights(&fleet).get("tuning").await.expect("there").uid();
    assert_ne!(before, after);
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}
