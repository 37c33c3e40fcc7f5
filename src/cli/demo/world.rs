//! The cluster of the demo: nodes, their kubelets, and what runs on them.
//!
//! In: how many nodes, the seed, the clock. Out: a running embedded cluster with our CRDs. Which
//! node has which job and how long it takes to reboot follows from the seed.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, PostParams};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::error::DemoError;
use super::workloads::{self, Deployment};
use crate::api::crd::crds;
use crate::clock::Clock;
use crate::sim::scene::{Budget, NodeGroup, Owner, Scene, Workload};
use crate::sim::{Cluster, Kubelet, KubeletOptions, Rule, Script};

/// The pool that trains.
pub(super) const H200_TRAIN: &str = "h200-train";
/// The pool for everything else.
pub(super) const GENERAL: &str = "general";

/// Of three nodes this many train.
const TRAINING_SHARE: (usize, usize) = (2, 3);

/// How long a node is away when it reboots, in seconds. Real GPU hosts take ten to twenty minutes;
/// nobody wants to watch that.
const REBOOT_SECONDS: std::ops::RangeInclusive<u64> = 8..=14;

/// How long one step of a package takes: long enough to be seen at work.
const STEP_TIME: Duration = Duration::from_secs(1);

/// The cluster, and what plays in it.
pub(super) struct World {
    pub cluster: Cluster,
    pub kubelet: Kubelet,
    pub clock: Clock,
    /// The nodes that train, by name.
    pub training: Vec<String>,
    /// The other nodes, by name.
    pub general: Vec<String>,
    playing: CancellationToken,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
}

impl World {
    /// Builds the cluster and starts its kubelets.
    pub async fn new(
        nodes: usize,
        random: &mut fastrand::Rng,
        clock: Clock,
    ) -> Result<Self, DemoError> {
        let cluster = Cluster::new(clock);
        let client = cluster.client("demo");
        for crd in crds() {
            let created = Api::all(client.clone()).create(&PostParams::default(), &crd).await;
            drop(created.map_err(DemoError::cluster("creating our CRDs"))?);
        }
        let scene = Scene::new(client, clock, random.u64(..));
        let (share, of) = TRAINING_SHARE;
        let gpu_nodes = nodes * share / of;
        let h200 = NodeGroup::new("h200", gpu_nodes).label("nodepool", H200_TRAIN).gpus(8);
        let training = scene.add_nodes(&h200).await?;
        let cpu = NodeGroup::new("cpu", nodes - gpu_nodes).label("nodepool", GENERAL);
        let general = scene.add_nodes(&cpu).await?;
        let mut reboot_times = BTreeMap::new();
        for node in training.iter().chain(&general) {
            let seconds = random.u64(REBOOT_SECONDS);
            reboot_times.insert(node.clone(), Duration::from_secs(seconds));
        }
        let rules = ["apply", "upgrade"].map(|stage| Rule::any().stage(stage).takes(STEP_TIME));
        let script = Script { rules: rules.to_vec(), reboot_times, ..Script::default() };
        let kubelet = Kubelet::new(KubeletOptions { script, ..KubeletOptions::default() });
        let mut world = Self {
            cluster,
            kubelet,
            clock,
            training,
            general,
            playing: CancellationToken::new(),
            tasks: Vec::new(),
        };
        world.start_kubelet();
        world.add_workloads(&scene).await?;
        Ok(world)
    }

    /// Returns every node, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &String> {
        self.training.iter().chain(&self.general)
    }

    /// Reads every node.
    pub async fn read_nodes(&self) -> Result<Vec<Node>, DemoError> {
        let nodes: Api<Node> = Api::all(self.cluster.client("demo"));
        let list = nodes.list(&ListParams::default()).await;
        Ok(list.map_err(DemoError::cluster("listing nodes"))?.items)
    }

    /// Ends the kubelets and the workloads.
    pub async fn stop(self) -> Result<(), DemoError> {
        self.playing.cancel();
        for (task, handle) in self.tasks {
            handle.await.map_err(|source| DemoError::Task { task, source })?;
        }
        Ok(())
    }

    fn start_kubelet(&mut self) {
        let (kubelet, client) = (self.kubelet.clone(), self.cluster.client("kubelet"));
        let (clock, playing) = (self.clock, self.playing.clone());
        let task = tokio::spawn(async move {
            kubelet.run(client, clock, playing.cancelled_owned()).await;
        });
        self.tasks.push(("kubelet", task));
    }

    /// Puts pods on the nodes: a DaemonSet everywhere, a service with a disruption budget on the
    /// general pool, notebooks on some training nodes.
    async fn add_workloads(&mut self, scene: &Scene) -> Result<(), DemoError> {
        for namespace in [workloads::TRAINING_NAMESPACE, "shop", "monitoring"] {
            scene.add_namespace(namespace).await?;
        }
        for node in self.nodes() {
            let exporter = Workload::new(&format!("node-exporter-{node}"), node)
                .namespace("monitoring")
                .owner(Owner::DaemonSet { name: "node-exporter".to_owned() });
            drop(scene.add_workload(&exporter).await?);
        }
        let notebooks: Vec<String> = self.training.iter().step_by(2).cloned().collect();
        let deployments = vec![
            Deployment::new("shop", "checkout", GENERAL, &self.general),
            Deployment::new(workloads::TRAINING_NAMESPACE, "notebooks", H200_TRAIN, &notebooks),
        ];
        for deployment in &deployments {
            deployment.place(scene).await?;
        }
        let one = Budget::MaxUnavailable("1".to_owned());
        scene.add_budget("shop", "checkout", &[("app", "checkout")], &one).await?;
        let (client, clock) = (self.cluster.client("workloads"), self.clock);
        let playing = self.playing.clone();
        let replacing = workloads::keep(deployments, client, clock);
        let task = tokio::spawn(async move {
            tokio::select! {
                () = replacing => {}
                () = playing.cancelled() => {}
            }
        });
        self.tasks.push(("controller of the workloads", task));
        Ok(())
    }
}
