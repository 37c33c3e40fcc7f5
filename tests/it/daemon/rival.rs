//! While upstream's operator leads, the daemon changes nothing; then it goes on by itself.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodewright::sim::Request;
use serde_json::json;

use super::{create, mutating, package, quick, without_git};
use crate::fleet::{DAEMON, Fleet, is_complete, until};

fn acts(fleet: &Fleet) -> Vec<Request> {
    let is_act = |it: &Request| it.resource != "leases" && it.resource != "events";
    mutating(fleet, DAEMON).into_iter().filter(is_act).collect()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_changed_while_upstreams_lease_is_renewed() {
    let fleet = Fleet::with(2, quick()).await;
    create(&fleet, "count: 1", &package("kernel", "1.0.0", "")).await;
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": "3c22c1ae.nvidia.com"},
        "spec": {
            "holderIdentity": "operator", "leaseDurationSeconds": 15,
            "renewTime": "2026-03-01T08:00:00.000000Z",
        },
    }))
    .expect("a Lease");
    let api: Api<Lease> = Api::namespaced(fleet.cluster.client("upstream"), "nodewright");
    api.create(&PostParams::default(), &lease).await.expect("created");
    let daemon = without_git(&fleet, DAEMON);
    for _ in 0..30 {
        fleet.clock.sleep(Duration::from_secs(2)).await;
        let now = fleet.clock.now().to_string();
        let renewal = Patch::Merge(json!({"spec": {"renewTime": now}}));
        let name = "3c22c1ae.nvidia.com";
        api.patch(name, &PatchParams::default(), &renewal).await.expect("renewed");
    }
    let acted: Vec<String> = acts(&fleet).iter().map(ToString::to_string).collect();
    assert_eq!(acted, Vec::<String>::new(), "both must never act at once");
    let state = daemon.fleet().borrow().clone().expect("it leads, and says what it waits for");
    let shown = format!("{state:?}");
    assert!(shown.contains("upstream's operator leads"), "{shown}");
    // Nobody renews it any more: upstream was scaled to zero, or its machine is gone.
    until(&daemon, fleet.clock, is_complete).await;
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}
