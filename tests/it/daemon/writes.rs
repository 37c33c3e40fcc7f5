//! Writes per node, counted as design §4 defines: mutating requests on nodes, pods and ConfigMaps.
#![expect(clippy::disallowed_macros, reason = "what was measured is told in the test's output")]

use std::collections::BTreeMap;

use super::{assert_cleaned_up, create, mutating, package, quick, without_git};
use crate::fleet::{Fleet, is_complete, until};

const NODES: usize = 10;

/// Rolls `packages` out on ten nodes; at most so many writes per node, with their clean-up.
async fn assert_writes(packages: &str, writes_max: usize) {
    let fleet = Fleet::with(NODES, quick()).await;
    create(&fleet, "percent: 50", packages).await;
    let daemon = without_git(&fleet, "daemon");
    until(&daemon, fleet.clock, is_complete).await;
    assert_cleaned_up(&fleet).await;
    daemon.stop().await.expect("a graceful stop");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for request in mutating(&fleet, "daemon") {
        let subresource = match request.subresource.as_str() {
            "" => String::new(),
            name => format!("/{name}"),
        };
        *counts.entry(format!("{}{subresource}", request.resource)).or_default() += 1;
    }
    println!("{NODES} nodes: {counts:?}");
    let count = |key: &str| counts.get(key).copied().unwrap_or(0);
    let writes = count("nodes") + count("pods") + count("configmaps");
    // The snapshot of the package is one write for all nodes.
    assert!(writes <= writes_max * NODES, "{writes} writes for {NODES} nodes: {counts:?}");
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn five_writes_take_a_package_without_an_interrupt_to_a_node() {
    assert_writes(&package("sysctl", "1.0.0", ""), 5).await;
}

#[tokio::test(start_paused = true)]
async fn ten_writes_take_a_package_with_a_reboot_to_a_node() {
    assert_writes(&package("kernel", "1.0.0", "interrupt:\n  type: reboot"), 10).await;
}
