//! A whole fleet for tests: a Git repository, a cluster with a kubelet, and the daemon between.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use nodewright::api::crd::crds;
use nodewright::clock::Clock;
use nodewright::cluster::EdgeSettings;
use nodewright::cluster::resources::Adoption;
use nodewright::daemon::{Daemon, Settings, SourceSettings, StatusSettings};
use nodewright::git::{Source, Transport};
use nodewright::model::{Floor, NodeRules};
use nodewright::report::FleetState;
use nodewright::sim::scene::{NodeGroup, Scene};
use nodewright::sim::{Cluster, Kubelet, KubeletOptions};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::git::Origin;

/// User agent of the daemon under test.
pub const DAEMON: &str = "nodewright";

/// Longest time, on the simulated clock, that anything here may take.
pub const PATIENCE: Duration = Duration::from_hours(6);

pub struct Fleet {
    pub origin: Origin,
    pub cluster: Cluster,
    pub kubelet: Kubelet,
    pub clock: Clock,
    cache: tempfile::TempDir,
    stop_kubelet: CancellationToken,
    kubelet_task: JoinHandle<()>,
}

impl Fleet {
    /// A cluster with our CRDs and `nodes` ready nodes of the pool `gpu`.
    pub async fn new(nodes: usize) -> Self {
        Self::with(nodes, KubeletOptions::default()).await
    }

    pub async fn with(nodes: usize, options: KubeletOptions) -> Self {
        let start = "2026-03-01T08:00:00Z".parse().expect("a valid time");
        let clock = Clock::starting_at(start, 1);
        let cluster = Cluster::new(clock);
        let client = cluster.client("test");
        for crd in crds() {
            Api::all(client.clone()).create(&PostParams::default(), &crd).await.expect("accepted");
        }
        let scene = Scene::new(client, clock, 1);
        let group = NodeGroup::new("gpu", nodes).label("nodepool", "gpu").gpus(8);
        scene.add_nodes(&group).await.expect("nodes");
        let kubelet = Kubelet::new(options);
        let stop_kubelet = CancellationToken::new();
        let playing = kubelet.clone();
        let (kubelet_client, token) = (cluster.client("kubelet"), stop_kubelet.clone());
        let kubelet_task = tokio::spawn(async move {
            playing.run(kubelet_client, clock, token.cancelled_owned()).await;
        });
        let cache = tempfile::tempdir().expect("a temporary folder");
        let origin = Origin::new();
        Self { origin, cluster, kubelet, clock, cache, stop_kubelet, kubelet_task }
    }

    pub fn scene(&self) -> Scene {
        Scene::new(self.cluster.client("test"), self.clock, 1)
    }

    /// Starts a daemon whose requests carry `agent` as user agent.
    pub fn daemon(&self, agent: &str) -> Daemon {
        Daemon::start(self.settings(agent), self.cluster.client(agent), self.clock)
    }

    pub fn settings(&self, identity: &str) -> Settings {
        let transport = Transport::new(PathBuf::from(env!("CARGO_BIN_EXE_nodewright")));
        let cache = self.cache.path().join("cache.git");
        let source = Source::new(self.origin.remote(), cache.clone());
        Settings {
            cluster: "dev".to_owned(),
            source: SourceSettings::Git { source, path: String::new() },
            status: Some(StatusSettings { remote: self.origin.remote(), cache }),
            transport,
            edge: EdgeSettings::new("nodewright", "registry.example/agent:7"),
            identity: identity.to_owned(),
            own_node: None,
            floor: Floor::default(),
            rules: NodeRules::default(),
            adoption: Adoption::Refused,
            listen: None,
        }
    }

    pub fn push(&self, files: &[(&str, &str)]) -> String {
        self.origin.commit("main", files).to_string()
    }

    pub async fn nodes(&self) -> Vec<Node> {
        let nodes: Api<Node> = Api::all(self.cluster.client("test"));
        nodes.list(&ListParams::default()).await.expect("nodes").items
    }

    /// Returns `nodeState_<rollout>` of a node.
    pub async fn node_state(&self, node: &str, rollout: &str) -> serde_json::Value {
        let nodes: Api<Node> = Api::all(self.cluster.client("test"));
        let node = nodes.get(node).await.expect("the node");
        let key = nodewright::api::keys::node_state(rollout);
        let text = node.annotations().get(&key).cloned().unwrap_or_else(|| "null".to_owned());
        serde_json::from_str(&text).expect("JSON")
    }

    /// No node is cordoned and none carries a mark.
    pub async fn assert_released(&self) {
        for node in self.nodes().await {
            let name = node.name_any();
            let spec = node.spec.clone().unwrap_or_default();
            assert_ne!(spec.unschedulable, Some(true), "{name} is left cordoned");
            let marked = node.annotations().keys().any(|key| key.contains("/cordon_"));
            assert!(!marked, "{name} keeps a cordon mark");
        }
    }

    pub async fn stop(self) {
        self.stop_kubelet.cancel();
        self.kubelet_task.await.expect("the kubelet ends");
    }
}

/// Waits until the fleet is as `wanted`; fails with what it was last.
pub async fn until(
    daemon: &Daemon,
    clock: Clock,
    wanted: impl Fn(&FleetState) -> bool,
) -> Arc<FleetState> {
    let mut fleet = daemon.fleet();
    let seen = tokio::time::timeout(clock.real_duration(PATIENCE), async {
        loop {
            let state = fleet.borrow_and_update().clone();
            if let Some(state) = state.filter(|state| wanted(state)) {
                return state;
            }
            fleet.changed().await.expect("the daemon runs");
        }
    });
    match seen.await {
        Ok(state) => state,
        Err(_) => panic!("not reached; last: {:#?}", daemon.fleet().borrow().as_deref()),
    }
}

/// Every rollout is complete on every node, and there is one.
pub fn is_complete(state: &FleetState) -> bool {
    !state.rollouts.is_empty()
        && state.rollouts.values().all(|rollout| {
            rollout.status == nodewright::model::StatusWord::Complete && rollout.nodes_total > 0
        })
}

/// A NodeWright over the pool `gpu`.
pub fn manifest(name: &str, budget: &str, packages: &str) -> String {
    format!(
        "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata:\n  name: {name}\n\
         spec:\n  nodeSelectors:\n    matchLabels:\n      nodepool: gpu\n  interruptionBudget:\n\
         \x20   {budget}\n  podNonInterruptLabels:\n    matchLabels:\n      workload: \
         long-running-training\n  packages:\n{packages}"
    )
}
