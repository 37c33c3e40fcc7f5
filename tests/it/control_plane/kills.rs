//! SIGKILL right after the k-th mutating request: a restarted daemon ends in the same state.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use nodewright::clock::Clock;
use nodewright::cluster::lease::LEASE_NAME;
use nodewright::sim::keys::REBOOTS;
use nodewright::sim::{Kubelet, KubeletOptions, Rule, Script};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::proxy::Proxy;
use super::site::{LIMIT, Site, entries, is_released, tell};
use crate::fleet::manifest;
use crate::git::Origin;
use crate::scenario::NAMESPACE;

/// How many places of the story the daemon is killed at.
const KILLS: u64 = 20;

/// Nothing is stopped at.
const NEVER: u64 = u64::MAX;

const PACKAGES: &str = "    kernel:
      version: 1.0.0
      image: registry.example/kernel
      interrupt:
        type: reboot
    tools:
      version: 2.0.0
      image: registry.example/tools
      dependsOn:
        kernel: 1.0.0
";

/// What must be the same whatever happened on the way.
#[derive(Debug, PartialEq)]
struct End {
    nodes: BTreeMap<String, NodeEnd>,
    /// How often each container ended well, by node.
    runs: BTreeMap<(String, String), usize>,
}

#[derive(Debug, PartialEq)]
struct NodeEnd {
    packages: BTreeMap<String, (Value, Value)>,
    reboots: Option<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn killed_after_any_write_a_restarted_daemon_ends_in_the_same_state() {
    let mut site = Site::new().await;
    let options = KubeletOptions {
        reboot_time: Duration::from_secs(1),
        script: Script { rules: vec![Rule::any().takes(Duration::ZERO)], ..Script::default() },
        ..KubeletOptions::default()
    };
    let kubelet = Kubelet::new(options);
    let stop = CancellationToken::new();
    let (playing, client, token) = (kubelet.clone(), site.plane.client("kubelet"), stop.clone());
    let kubelet_task = tokio::spawn(async move {
        playing.run(client, Clock::real(), token.cancelled_owned()).await;
    });

    let (undisturbed, writes) = story(&mut site, &kubelet, NEVER).await;
    assert!(undisturbed.runs.values().all(|count| *count == 1), "{undisturbed:#?}");
    assert!(writes >= KILLS, "the story has only {writes} writes");
    for kill in 0..KILLS {
        let place = 1 + kill * (writes - 1) / (KILLS - 1);
        let (end, _) = story(&mut site, &kubelet, place).await;
        assert_eq!(end, undisturbed, "killed after write {place} of {writes}");
    }
    tell(&format!("killed {KILLS} times in a story of {writes} writes, always with the same end"));
    stop.cancel();
    kubelet_task.await.expect("the kubelet ends");
}

/// Plays the story on a clean cluster, with a kill at the write `place`; returns how it ended and
/// how many writes it took.
async fn story(site: &mut Site, kubelet: &Kubelet, place: u64) -> (End, u64) {
    site.ground.clear().await;
    site.origin = Origin::new();
    site.add_nodes("gpu", 2).await;
    site.nodes_are_ready().await;
    site.origin.commit("main", &[("gpu.yaml", &manifest("tuning", "count: 2", PACKAGES))]);
    let before = kubelet.runs().len();

    let upstream = site.plane.client("proxy");
    let proxy = Proxy::start(upstream, site.plane.folder(), place).await;
    let mut daemon = site.daemon("nodewright-first", proxy.kubeconfig());
    if place != NEVER {
        let reached = tokio::time::timeout(LIMIT, proxy.reached()).await;
        assert!(reached.is_ok(), "write {place} never came:\n{}", daemon.log_end());
        daemon.kill();
        let kubeconfig = site.plane.kubeconfig();
        lose_lease(site).await;
        daemon = site.daemon("nodewright-second", &kubeconfig);
    }
    site.complete("gpu", "tuning", "tools|2.0.0", "config").await;
    site.complete("gpu", "tuning", "kernel|1.0.0", "post-interrupt").await;
    let writes = proxy.writes();
    assert!(daemon.terminate().success(), "it stops gracefully:\n{}", daemon.log_end());

    let mut nodes = BTreeMap::new();
    for node in site.nodes().await {
        assert!(is_released(&node), "{} is left cordoned", node.name_any());
        let entries = entries(&node, "tuning");
        let entries = entries.as_object().expect("a map").iter();
        let packages = entries
            .map(|(name, entry)| (name.clone(), (entry["stage"].clone(), entry["state"].clone())));
        let reboots = node.annotations().get(REBOOTS).cloned();
        let end = NodeEnd { packages: packages.collect(), reboots };
        nodes.insert(node.name_any(), end);
    }
    let mut runs = BTreeMap::new();
    for run in kubelet.runs().split_off(before) {
        // The copy of the package and the last word of a pod come with every pod; a pull touches
        // nothing on the host, and a daemon that was killed may ask for it again.
        let is_pull = run.container.starts_with("pull-");
        let is_stage = !run.container.ends_with("-init") && run.container != "done" && !is_pull;
        if run.exit_code == 0 && is_stage && run.namespace == NAMESPACE {
            *runs.entry((run.node, run.container)).or_default() += 1;
        }
    }
    (End { nodes, runs }, writes)
}

/// Frees the Lease of a process that is dead, as running out would: that takes ten seconds.
async fn lose_lease(site: &Site) {
    let leases: Api<Lease> = Api::namespaced(site.plane.client("test"), NAMESPACE);
    if leases.get_opt(LEASE_NAME).await.expect("an answer").is_some() {
        let free = Patch::Merge(json!({"spec": {"holderIdentity": ""}}));
        leases.patch(LEASE_NAME, &PatchParams::default(), &free).await.expect("freed");
    }
}
