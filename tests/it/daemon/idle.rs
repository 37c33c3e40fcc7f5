//! Nothing to do: nothing is written but the Lease. And a push is acted on at once.
#![expect(clippy::disallowed_macros, reason = "what was measured is told in the test's output")]

use std::time::Duration;

use jiff::SignedDuration;
use nodewright::sim::Verb;

use super::{mutating, package, quick};
use crate::fleet::{DAEMON, Fleet, is_complete, manifest, until};

fn sysctl(version: &str) -> String {
    manifest("tuning", "count: 1", &package("sysctl", version, ""))
}

#[tokio::test(start_paused = true)]
async fn t28_ten_idle_minutes_write_nothing_but_the_lease() {
    let fleet = Fleet::with(3, quick()).await;
    fleet.push(&[("gpu.yaml", &sysctl("1.0.0"))]);
    let daemon = fleet.daemon(DAEMON);
    until(&daemon, fleet.clock, is_complete).await;
    fleet.clock.sleep(Duration::from_mins(5)).await;
    let tip = fleet.origin.tip("nodewright-status/dev");
    let before = fleet.cluster.requests().len();

    fleet.clock.sleep(Duration::from_mins(10)).await;

    let idle: Vec<_> = fleet.cluster.requests().split_off(before);
    let ours = idle.iter().filter(|it| it.user_agent == DAEMON);
    let (writes, reads): (Vec<_>, Vec<_>) = ours.partition(|it| it.verb.is_mutating());
    for request in &writes {
        assert!(request.verb == Verb::Update && request.resource == "leases", "{request}");
    }
    let gets = reads.iter().filter(|it| it.verb != Verb::Watch).count();
    println!("{} renewals, {} watches, {gets} reads", writes.len(), reads.len() - gets);
    // Once a minute the two kinds that Git owns are compared with it.
    assert!(gets <= 2 * 11, "{reads:#?}");
    assert_eq!(fleet.origin.tip("nodewright-status/dev"), tip, "a commit without a change");
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}

/// In real time: the watch of the repository and the fetch are processes of the machine.
#[tokio::test]
async fn a_push_is_acted_on_within_three_seconds() {
    let fleet = Fleet::with(1, quick()).await;
    fleet.push(&[("gpu.yaml", &sysctl("1.0.0"))]);
    let daemon = fleet.daemon(DAEMON);
    until(&daemon, fleet.clock, is_complete).await;
    let is_spec =
        |it: &&nodewright::sim::Request| it.resource == "nodewrights" && it.subresource.is_empty();
    let before = mutating(&fleet, DAEMON).iter().filter(is_spec).count();

    fleet.push(&[("gpu.yaml", &sysctl("1.1.0"))]);
    let pushed = fleet.clock.now();
    let mut states = daemon.fleet();
    while mutating(&fleet, DAEMON).iter().filter(is_spec).count() == before {
        let waited = fleet.clock.now().duration_since(pushed);
        assert!(waited < SignedDuration::from_secs(30), "the push is not noticed");
        let _ = tokio::time::timeout(Duration::from_millis(20), states.changed()).await;
    }
    let waited = fleet.clock.now().duration_since(pushed);
    println!("acted on {waited:?} after the push");
    assert!(waited < SignedDuration::from_secs(3), "acted on after {waited:?}");
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}
