//! An embedded cluster with our CRDs, one resource and one node, watched and acted on.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodewright::api::crd::crds;
use nodewright::api::{DeploymentPolicy, NodeWright};
use nodewright::clock::Clock;
use nodewright::cluster::{Actor, Executed, LeaderProof, Observer, Outcome, View};
use nodewright::model::{self, Action, NodePatch, PatchKind, PodRef};
use nodewright::sim::{Cluster, Request};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{PATIENCE, settings};

/// User agent of what is under test; requests of the test itself have another.
pub const DAEMON: &str = "daemon";

pub struct World {
    pub cluster: Cluster,
    pub observer: Observer,
    pub actor: Actor,
    pub proof: LeaderProof,
    pub lease: watch::Sender<Option<Timestamp>>,
    pub shutdown: CancellationToken,
    pub tasks: JoinSet<()>,
}

impl World {
    pub async fn new() -> Self {
        Self::with(async |_: &Cluster| {}).await
    }

    /// A world in which something was there before we looked.
    pub async fn with(before: impl AsyncFnOnce(&Cluster)) -> Self {
        let start = "2026-03-01T08:00:00Z".parse().expect("a valid time");
        let clock = Clock::starting_at(start, 1);
        let cluster = Cluster::new(clock);
        let client = cluster.client("test");
        for crd in crds() {
            Api::all(client.clone()).create(&PostParams::default(), &crd).await.expect("accepted");
        }
        before(&cluster).await;
        let shutdown = CancellationToken::new();
        let (observer, tasks) =
            Observer::start(cluster.client(DAEMON), &settings(), clock, shutdown.clone());
        let store = observer.store();
        let actor = Actor::new(cluster.client(DAEMON), settings(), clock, Arc::clone(&store));
        let (lease, valid_until) = watch::channel(Some(Timestamp::MAX));
        let proof = LeaderProof::new(clock, valid_until);
        let world = Self { cluster, observer, actor, proof, lease, shutdown, tasks };
        world.add_node("gpu-1").await;
        world.add_rollout("gpu").await;
        soon(world.observer.ready()).await;
        world
            .until(|view| {
                view.observed.nodes.contains_key("gpu-1") && view.nodewrights.contains_key("gpu")
            })
            .await;
        world
    }

    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.client("test"))
    }

    pub fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.cluster.client("test"), namespace)
    }

    pub fn nodewrights(&self) -> Api<NodeWright> {
        Api::all(self.cluster.client("test"))
    }

    pub fn policies(&self) -> Api<DeploymentPolicy> {
        Api::all(self.cluster.client("test"))
    }

    pub async fn add_node(&self, name: &str) {
        let node = parse(json!({"metadata": {
            "name": name, "labels": {"pool": "gpu"}, "annotations": {"theirs": "kept"},
        }}));
        self.nodes().create(&PostParams::default(), &node).await.expect("accepted");
    }

    pub async fn add_rollout(&self, name: &str) {
        let package = json!({"version": "1.4.0", "image": "ghcr.io/acme/kernel-tuning"});
        let spec = parse(json!({"packages": {"kernel-tuning": package}}));
        let rollout = NodeWright::new(name, spec);
        self.nodewrights().create(&PostParams::default(), &rollout).await.expect("accepted");
    }

    pub async fn add_workload(&self, name: &str, labels: Value) -> PodRef {
        let pod: Pod = parse(json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": "gpu-1", "containers": [{"name": "main", "image": "x:1"}]},
        }));
        let api = self.pods("default");
        api.create(&PostParams::default(), &pod).await.expect("accepted");
        let running = Patch::Merge(json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        }}));
        let pod = api.patch_status(name, &PatchParams::default(), &running).await;
        let uid = pod.expect("accepted").metadata.uid.expect("a UID");
        let reference =
            PodRef { namespace: "default".to_owned(), name: name.to_owned(), uid: uid.clone() };
        self.until(|view| {
            workload(view, name).is_some_and(|pod| {
                pod.reference.uid == uid && pod.phase == model::PodPhase::Running
            })
        })
        .await;
        reference
    }

    /// Changes the node behind the daemon's back.
    pub async fn meddle_with_node(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.nodes().patch("gpu-1", &PatchParams::default(), &patch).await.expect("accepted");
    }

    pub fn view(&self) -> View {
        self.observer.observe()
    }

    pub fn node(&self) -> model::Node {
        self.view().observed.nodes["gpu-1"].clone()
    }

    /// Waits until what is known satisfies a condition.
    pub async fn until(&self, is_reached: impl Fn(&View) -> bool) {
        soon(async {
            while !is_reached(&self.view()) {
                self.observer.changed().await;
            }
        })
        .await;
    }

    pub async fn execute(&self, actions: Vec<Action>) -> Vec<Executed> {
        soon(self.actor.execute(&self.proof, actions)).await
    }

    pub async fn execute_one(&self, action: Action) -> Outcome {
        let mut executed = self.execute(vec![action]).await;
        executed.pop().expect("one action has one outcome").outcome
    }

    /// Returns what the daemon asked the API server to change.
    pub fn mutations(&self) -> Vec<Request> {
        let mut requests = self.cluster.requests();
        requests.retain(|request| request.user_agent == DAEMON && request.verb.is_mutating());
        requests
    }

    pub async fn rollout_uid(&self) -> String {
        let rollout = self.nodewrights().get("gpu").await.expect("it is there");
        rollout.metadata.uid.expect("a UID")
    }

    /// Returns a patch of the node that changes nothing yet.
    pub fn node_patch(&self, kind: PatchKind) -> NodePatch {
        NodePatch {
            node: "gpu-1".to_owned(),
            node_uid: self.node().uid,
            rollout: "gpu".to_owned(),
            kind,
            entries: None,
            record: None,
            status: None,
            cordon_mark: None,
            drain_start: None,
            unschedulable: None,
        }
    }

    pub fn record(&self) -> model::Record {
        parse(json!({
            "v": 1, "crUid": "c", "nodeUid": self.node().uid, "machineId": "m", "target": "t",
            "generation": 1, "visit": 3, "compartment": "__default__", "batch": 1, "order": 0,
            "picked": "2026-03-01T08:00:00Z", "phase": "picked",
        }))
    }

    /// Returns the patch that picks the node.
    pub fn pick(&self) -> NodePatch {
        let entries: model::Entries = parse(json!({"kernel-tuning|1.4.0": {
            "name": "kernel-tuning", "version": "1.4.0", "image": "ghcr.io/acme/kernel-tuning",
            "stage": "apply", "state": "in_progress",
        }}));
        let resource_version = self.node().resource_version;
        NodePatch {
            entries: Some(entries),
            record: Some(self.record()),
            status: Some(model::StatusWord::InProgress),
            cordon_mark: Some(true),
            unschedulable: Some(true),
            ..self.node_patch(PatchKind::Pick { resource_version })
        }
    }

    /// Returns the patch that records the phase `interrupting`.
    pub fn progress(&self) -> NodePatch {
        let node = self.node();
        let state = &node.rollouts["gpu"];
        let (record_text, entries_text) = (state.record_text.clone(), state.entries_text.clone());
        let phase = model::Phase::Interrupting;
        NodePatch {
            record: Some(model::Record { phase, ..self.record() }),
            ..self.node_patch(PatchKind::Progress { record_text, entries_text })
        }
    }

    pub async fn stop(mut self) {
        self.shutdown.cancel();
        soon(async { while self.tasks.join_next().await.is_some() {} }).await;
    }
}

pub fn workload<'a>(view: &'a View, name: &str) -> Option<&'a model::Pod> {
    view.observed.pods.get("gpu-1")?.get(&format!("default/{name}"))
}

pub fn parse<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("the test writes a valid object")
}

/// Waits for what must happen, but not for ever.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens within the test's patience")
}
