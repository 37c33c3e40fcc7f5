//! Images that cannot be pulled cost no cordon and no eviction; a corrected commit goes through.

use std::time::Duration;

use nodewright::sim::Pull;
use nodewright::sim::scene::{Owner, Workload};

use super::{change, create, mutating, package, quick, without_git};
use crate::fleet::{Fleet, is_complete, until};

const REBOOT: &str = "interrupt:\n  type: reboot";

/// Rolls out a package whose first version cannot be pulled, then one that can.
async fn assert_untouched(pull: Pull, words: &str) {
    let fleet = Fleet::with(2, quick()).await;
    fleet.kubelet.rewrite(|script| script.images.insert(0, ("kernel:1.0.0".to_owned(), pull)));
    let set = Owner::ReplicaSet { name: "web".to_owned(), replicas: 1 };
    let web = Workload::new("web-1", "gpu-001").label("app", "web").owner(set);
    fleet.scene().add_workload(&web).await.expect("a workload");
    create(&fleet, "count: 1", &package("kernel", "1.0.0", REBOOT)).await;
    let daemon = without_git(&fleet, "daemon");
    // A registry that does not answer is waited for by the container runtime first.
    let patience = if pull == Pull::Unreachable { 90 } else { 60 };
    fleet.clock.sleep(Duration::from_secs(patience)).await;
    let state = daemon.fleet().borrow().clone().expect("it leads");
    let told = format!("{:?}", state.needs_person);
    for word in ["registry.example/kernel:1.0.0", "gpu-001", words] {
        assert!(told.contains(word), "{word} is not in {told}");
    }
    fleet.clock.sleep(Duration::from_mins(30)).await;
    let state = daemon.fleet().borrow().clone().expect("it leads");
    let told = format!("{:?}", state.needs_person);
    for node in ["gpu-001", "gpu-002"] {
        assert!(told.contains(node), "{node} is not in {told}");
    }
    let touched: Vec<_> = mutating(&fleet, "daemon")
        .into_iter()
        .filter(|request| request.resource == "nodes" || request.subresource == "eviction")
        .collect();
    assert!(touched.is_empty(), "{touched:#?}");
    assert_eq!(state.rollouts["tuning"].nodes_erroring, 0, "nothing failed on a node");

    change(&fleet, "count: 1", &package("kernel", "1.0.1", REBOOT)).await;
    until(&daemon, fleet.clock, is_complete).await;
    assert_eq!(["gpu-001", "gpu-002"].map(|node| fleet.kubelet.reboots(node)), [1, 1]);
    daemon.stop().await.expect("a graceful stop");
    fleet.assert_released().await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn show_8_a_missing_tag_costs_no_cordon() {
    assert_untouched(Pull::Missing, "not found").await;
}

#[tokio::test(start_paused = true)]
async fn show_8_an_image_without_the_architecture_costs_no_cordon() {
    assert_untouched(Pull::NoBuild, "no match for platform in manifest").await;
}

#[tokio::test(start_paused = true)]
async fn show_8_a_registry_that_is_down_costs_no_cordon() {
    assert_untouched(Pull::Unreachable, "i/o timeout").await;
}

#[tokio::test(start_paused = true)]
async fn t19_a_registry_that_is_well_again_is_asked_by_the_kubelet() {
    let fleet = Fleet::with(1, quick()).await;
    let down = ("kernel".to_owned(), Pull::Unreachable);
    fleet.kubelet.rewrite(|script| script.images.insert(0, down));
    create(&fleet, "count: 1", &package("kernel", "1.0.0", REBOOT)).await;
    let daemon = without_git(&fleet, "daemon");
    fleet.clock.sleep(Duration::from_mins(20)).await;
    let writes = mutating(&fleet, "daemon").into_iter();
    let before =
        writes.filter(|request| ["nodes", "pods"].contains(&request.resource.as_str())).count();
    fleet.kubelet.rewrite(|script| drop(script.images.remove(0)));
    until(&daemon, fleet.clock, is_complete).await;
    assert!(before < 12, "{before} writes while the registry was down");
    assert_eq!(fleet.kubelet.reboots("gpu-001"), 1);
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}
