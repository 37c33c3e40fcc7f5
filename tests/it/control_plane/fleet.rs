//! A push reaches twenty nodes, with daemon and kubelets as processes, and what that costs.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use nodewright::api::NodeWright;
use nodewright::clock::Clock;
use nodewright::sim::keys::REBOOTS;

use super::site::{LIMIT, Site, entries, is_released, tell};
use super::{AuditEntry, eventually};
use crate::fleet::manifest;
use crate::scenario::{NAMESPACE, Watcher};

/// Nodes of each pool; there are two.
const POOL_NODES: usize = 10;

/// Design §4: writes per node on nodes, pods and ConfigMaps, without an interrupt and with one.
const WRITES_MAX_BESIDE: usize = 5;
const WRITES_MAX_INTERRUPT: usize = 10;

/// How long the fleet is watched while nothing is to do; `NODEWRIGHT_IDLE_SECONDS` says otherwise.
const IDLE_SECONDS: u64 = 60;

const KERNEL: &str = "    kernel:
      version: 1.0.0
      image: registry.example/kernel
      interrupt:
        type: reboot
";
const AUDITD: &str = "    auditd:
      version: 1.0.0
      image: registry.example/auditd
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn a_push_reaches_twenty_nodes_with_few_writes_and_then_nothing_is_written() {
    let site = Site::new().await;
    site.add_nodes("gpu", POOL_NODES).await;
    site.add_nodes("cpu", POOL_NODES).await;
    let kubelet = site.kubelet();
    site.nodes_are_ready().await;
    let mut daemon = site.daemon("nodewright-a", &site.plane.kubeconfig());
    let watcher = Watcher::start(site.plane.client("watcher"), Clock::real()).await;

    let is_there = async || site.origin.tip("nodewright-status/dev").map(drop);
    eventually("the daemon says that there is nothing yet", LIMIT, is_there).await;

    let on_cpu = manifest("audit", "count: 4", AUDITD).replace("nodepool: gpu", "nodepool: cpu");
    let on_gpu = manifest("tuning", "count: 4", KERNEL);
    site.origin.commit("main", &[("cpu.yaml", &on_cpu), ("gpu.yaml", &on_gpu)]);
    is_acted_on(&site).await;
    site.complete("cpu", "audit", "auditd|1.0.0", "config").await;
    site.complete("gpu", "tuning", "kernel|1.0.0", "post-interrupt").await;

    nodes_are_as_upstream_has_them(&site).await;
    let view = watcher.view(LIMIT).await.expect("nothing was missed");
    let cordoned = view.ever_cordoned;
    assert!(cordoned.iter().all(|node| node.starts_with("gpu")), "{cordoned:?}");
    assert_eq!(cordoned.len(), POOL_NODES);
    assert!(view.peak <= 4, "{} nodes were cordoned at once", view.peak);
    watcher.stop().await;
    the_status_branch_tells_it(&site).await;

    let pods: Api<Pod> = Api::namespaced(site.plane.client("test"), NAMESPACE);
    eventually("the executors are cleaned up", LIMIT, async || {
        let left = pods.list(&ListParams::default()).await.ok()?.items;
        left.is_empty().then_some(())
    })
    .await;
    count_writes(&site).await;
    only_the_lease_and_watches(&site).await;

    assert!(daemon.terminate().success(), "it stops gracefully:\n{}", daemon.log_end());
    drop(kubelet);
}

/// Waits for the first object of the push, and prints how long that took.
async fn is_acted_on(site: &Site) {
    let clock = Clock::real();
    let pushed = clock.now();
    let resources: Api<NodeWright> = Api::all(site.plane.client("test"));
    eventually("the push is acted on", LIMIT, async || {
        resources.get_opt("tuning").await.ok().flatten()
    })
    .await;
    let took = clock.now().duration_since(pushed);
    tell(&format!("the push was acted on after {} ms", took.as_millis()));
}

async fn nodes_are_as_upstream_has_them(site: &Site) {
    for node in site.nodes().await {
        let name = node.name_any();
        assert!(is_released(&node), "{name} is left cordoned");
        let is_gpu = name.starts_with("gpu");
        let (rollout, package, stage) = if is_gpu {
            ("tuning", "kernel", "post-interrupt")
        } else {
            ("audit", "auditd", "config")
        };
        let entry = &entries(&node, rollout)[format!("{package}|1.0.0")];
        let image = format!("registry.example/{package}");
        // Upstream contract B.2: these keys, with these words.
        for (key, value) in [
            ("name", package),
            ("version", "1.0.0"),
            ("image", image.as_str()),
            ("stage", stage),
            ("state", "complete"),
        ] {
            assert_eq!(entry[key], value, "{name}: {key} in {entry}");
        }
        let reboots = node.annotations().get(REBOOTS).map(String::as_str);
        assert_eq!(reboots, is_gpu.then_some("1"), "{name}");
    }
}

async fn the_status_branch_tells_it(site: &Site) {
    eventually("the status branch says complete", LIMIT, async || {
        site.origin.tip("nodewright-status/dev")?;
        let newest = site.origin.git(&["log", "-1", "--format=%B", "nodewright-status/dev"]);
        newest.contains("Nodewright-Phase: Complete\n").then_some(())
    })
    .await;
    let log = site.origin.git(&["log", "--format=%s", "nodewright-status/dev"]);
    assert!(log.lines().count() > 1, "it tells of the way, too:\n{log}");
    let readme = site.origin.git(&["show", "nodewright-status/dev:README.md"]);
    assert!(readme.contains("tuning") && readme.contains("audit"), "{readme}");
    tell(&log);
}

/// Counts what was written on nodes, pods and ConfigMaps, and prints it with the rest beside it.
async fn count_writes(site: &Site) {
    let entries = site.plane.audit().await;
    let writes =
        entries.iter().filter(|it| it.user_agent.starts_with("nodewright/") && it.is_write());
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for write in writes {
        *counts.entry((pool(write), what(write))).or_default() += 1;
    }
    for ((pool, what), count) in &counts {
        tell(&format!("{pool:>7} {what:<34} {count:>4}"));
    }
    let counted = |wanted: &str| {
        let counted = counts.iter().filter(|((pool, what), _)| *pool == wanted && is_counted(what));
        counted.map(|(_, count)| count).sum::<usize>()
    };
    let (beside, interrupt, shared) = (counted("cpu"), counted("gpu"), counted("cluster"));
    // What is for all nodes is the share of each.
    let per_node = |own: usize| (own + shared / 2).div_ceil(POOL_NODES);
    tell(&format!(
        "writes per node: {} without an interrupt, {} with one ({shared} for the cluster)",
        per_node(beside),
        per_node(interrupt)
    ));
    assert!(per_node(beside) <= WRITES_MAX_BESIDE, "{counts:#?}");
    assert!(per_node(interrupt) <= WRITES_MAX_INTERRUPT, "{counts:#?}");
}

/// Returns for which pool a request was: objects that belong to one node name it.
fn pool(write: &AuditEntry) -> &'static str {
    let names = |pool: &str| write.name.contains(pool) || write.uri.contains(pool);
    match (names("cpu-"), names("gpu-")) {
        (true, _) => "cpu",
        (_, true) => "gpu",
        (false, false) => "cluster",
    }
}

fn what(write: &AuditEntry) -> String {
    let AuditEntry { verb, resource, subresource, .. } = write;
    match subresource.as_str() {
        "" => format!("{verb} {resource}"),
        subresource => format!("{verb} {resource}/{subresource}"),
    }
}

fn is_counted(what: &str) -> bool {
    [" nodes", " pods", " configmaps"].iter().any(|resource| what.ends_with(resource))
}

async fn only_the_lease_and_watches(site: &Site) {
    let clock = Clock::real();
    let before = site.plane.audit().await.len();
    clock.sleep(Duration::from_secs(idle_seconds())).await;
    let entries = site.plane.audit().await;
    let ours = entries[before..].iter().filter(|it| it.user_agent.starts_with("nodewright/"));
    let ours: Vec<&AuditEntry> = ours.collect();
    assert!(ours.iter().any(|it| it.resource == "leases" && it.is_write()), "it leads");
    let others = ours.iter().filter(|it| it.resource != "leases" && it.verb != "watch");
    let (writes, reads): (Vec<&AuditEntry>, Vec<_>) = others.partition(|it| it.is_write());
    assert!(writes.is_empty(), "nothing is to do, and it writes: {writes:#?}");
    // Once a minute the two kinds that Git owns are compared with it.
    let minutes = usize::try_from(idle_seconds()).expect("a short time") / 60 + 1;
    assert!(reads.len() <= 2 * minutes, "nothing is to do, and it asks: {reads:#?}");
    tell(&format!(
        "idle for {} s: {} requests, of which {} reads, the rest Lease or watch",
        idle_seconds(),
        ours.len(),
        reads.len()
    ));
}

#[expect(clippy::disallowed_methods, reason = "a longer look for those who have the time")]
fn idle_seconds() -> u64 {
    let asked = std::env::var("NODEWRIGHT_IDLE_SECONDS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(IDLE_SECONDS)
}
