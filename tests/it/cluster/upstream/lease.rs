//! Upstream's Lease: fresh as long as we see it renewed, whatever its clock says.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use nodewright::cluster::upstream_lease::{Rivals, UPSTREAM_LEASE, UpstreamLease};
use serde_json::json;

use super::super::world::{World, parse};

fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-03-01T08:00:00Z".parse().expect("a valid time");
    start.checked_add(SignedDuration::from_secs(seconds)).expect("in range")
}

fn lease(holder: &str, renewed: i64) -> UpstreamLease {
    UpstreamLease {
        namespace: "skyhook".to_owned(),
        holder: holder.to_owned(),
        renewed: Some(at(renewed)),
        duration: Duration::from_secs(15),
    }
}

#[test]
fn a_lease_is_fresh_for_as_long_as_it_lasts_from_when_we_saw_it_change() {
    let mut rivals = Rivals::default();
    let mut leads = |lease: UpstreamLease, now: i64| rivals.leading(&[lease], at(now)).is_some();
    // Its clock is three minutes ahead of ours.
    assert!(leads(lease("op", 180), 0), "seen for the first time");
    assert!(leads(lease("op", 180), 14), "not changed yet, and not over");
    assert!(leads(lease("op", 182), 14), "renewed");
    assert!(leads(lease("op", 182), 28));
    assert!(!leads(lease("op", 182), 29), "nobody renewed it for its whole duration");
    assert!(leads(lease("other", 200), 30), "somebody took it");
    assert!(!leads(lease("", 201), 31), "given up");
}

#[test]
fn one_that_nobody_renewed_for_long_holds_nobody_up() {
    let mut rivals = Rivals::default();
    assert_eq!(rivals.leading(&[lease("op", -3600)], at(0)), None);
    let never = UpstreamLease { renewed: None, ..lease("op", 0) };
    assert_eq!(rivals.leading(&[never], at(0)), None);
    assert_eq!(rivals.leading(&[], at(0)), None);
}

#[test]
fn the_reason_names_the_holder_and_the_way_out() {
    let rival = Rivals::default().leading(&[lease("op-7", 0)], at(1)).expect("it leads");
    assert_eq!(
        rival.words(),
        "upstream's operator leads (op-7 renews the Lease 3c22c1ae.nvidia.com in namespace \
         skyhook): scale it to zero first"
    );
}

#[tokio::test(start_paused = true)]
async fn only_upstreams_lease_is_watched() {
    let world = World::new().await;
    for name in [UPSTREAM_LEASE, "another"] {
        let lease: Lease = parse(json!({
            "metadata": {"name": name},
            "spec": {
                "holderIdentity": "op", "leaseDurationSeconds": 15,
                "renewTime": "2026-03-01T08:00:00.000000Z",
            },
        }));
        let api = Api::namespaced(world.cluster.client("test"), "nodewright");
        api.create(&PostParams::default(), &lease).await.expect("accepted");
    }
    world.until(|view| !view.upstream_leases.is_empty()).await;
    let leases = world.view().upstream_leases;
    assert_eq!(leases, [UpstreamLease { namespace: "nodewright".to_owned(), ..lease("op", 0) }]);
    world.stop().await;
}
