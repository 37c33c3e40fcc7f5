//! A fleet on a real control plane whose daemon and kubelets are processes of their own.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use nodewright::api::keys;
use nodewright::clock::Clock;
use nodewright::sim::scene::{NodeGroup, Scene};
use serde_json::Value;

use super::{ControlPlane, Controllers, Program, eventually};
use crate::git::Origin;
use crate::scenario::{Ground, NAMESPACE};

/// Enough for a rollout on a machine that is busy compiling.
pub const LIMIT: Duration = Duration::from_secs(180);

/// Control plane, nodes and repository.
pub struct Site {
    pub plane: Arc<ControlPlane>,
    pub ground: Ground,
    pub origin: Origin,
}

impl Site {
    pub async fn new() -> Self {
        let plane = Arc::new(ControlPlane::start(Controllers::Standard).await);
        let ground = Ground::real(Arc::clone(&plane)).await;
        Self { plane, ground, origin: Origin::new() }
    }

    /// Makes nodes of the pool that their name begins with.
    pub async fn add_nodes(&self, pool: &str, count: usize) {
        let scene = Scene::new(self.plane.client("test"), Clock::real(), 1);
        let group = NodeGroup::new(pool, count).label("nodepool", pool);
        scene.add_nodes(&group).await.expect("nodes");
    }

    /// Waits until every node takes pods: ready, and without the taint of a new one.
    pub async fn nodes_are_ready(&self) {
        eventually("every node is ready", LIMIT, async || {
            let is_ready = |node: &Node| {
                let conditions = node.status.as_ref()?.conditions.as_ref()?;
                let is_ready = |it: &&k8s_openapi::api::core::v1::NodeCondition| {
                    it.type_ == "Ready" && it.status == "True"
                };
                conditions.iter().find(is_ready)?;
                let spec = node.spec.as_ref()?;
                spec.taints.as_ref().is_none_or(Vec::is_empty).then_some(())
            };
            self.nodes().await.iter().all(|node| is_ready(node).is_some()).then_some(())
        })
        .await;
    }

    pub async fn nodes(&self) -> Vec<Node> {
        let nodes: Api<Node> = Api::all(self.plane.client("test"));
        nodes.list(&ListParams::default()).await.expect("nodes").items
    }

    /// Starts `nodewright sim kubelet`.
    pub fn kubelet(&self) -> Program {
        let kubeconfig = self.plane.kubeconfig();
        let arguments = ["sim", "kubelet", "--reboot-time", "2s", "--kubeconfig"];
        let mut arguments: Vec<String> = arguments.map(str::to_owned).into();
        arguments.push(kubeconfig.display().to_string());
        self.plane.spawn("kubelet", &arguments)
    }

    /// Starts `nodewright run` under a name of its own.
    pub fn daemon(&self, name: &str, kubeconfig: &Path) -> Program {
        let repository = format!("file://{}", self.origin.path().display());
        let cache = self.origin.root().join("cache");
        let mut arguments = vec!["run".to_owned()];
        for (flag, value) in [
            ("--repo", repository.as_str()),
            ("--cluster", "dev"),
            ("--cache", cache.to_str().expect("a path as text")),
            ("--identity", name),
            ("--namespace", NAMESPACE),
            ("--agent-image", "registry.example/agent:7"),
            ("--probes", "127.0.0.1:0"),
            ("--metrics", "127.0.0.1:0"),
            ("--kubeconfig", kubeconfig.to_str().expect("a path as text")),
        ] {
            arguments.extend([flag.to_owned(), value.to_owned()]);
        }
        self.plane.spawn(name, &arguments)
    }

    /// Waits until these nodes have the package complete at `stage` and nothing holds them.
    pub async fn complete(&self, pool: &str, rollout: &str, package: &str, stage: &str) {
        let what = format!("{package} is complete at {stage} on every node of {pool}");
        eventually(&what, LIMIT, async || {
            let nodes = self.nodes().await;
            let pool = nodes.iter().filter(|node| node.name_any().starts_with(pool));
            let is_done = |node: &Node| {
                let entry = &entries(node, rollout)[package];
                is_released(node) && entry["stage"] == stage && entry["state"] == "complete"
            };
            pool.into_iter().all(is_done).then_some(())
        })
        .await;
    }
}

/// Returns `nodeState_<rollout>` of a node.
pub fn entries(node: &Node, rollout: &str) -> Value {
    let text = node.annotations().get(&keys::node_state(rollout));
    text.map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"))
}

/// Returns whether a node is schedulable and no mark says that it is not to be.
pub fn is_released(node: &Node) -> bool {
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let is_marked = node.annotations().keys().any(|key| key.contains("/cordon_"));
    !is_cordoned && !is_marked
}

/// Prints past libtest, which shows only what failed.
pub fn tell(text: &str) {
    writeln!(std::io::stdout(), "{text}").expect("the output is open");
}
