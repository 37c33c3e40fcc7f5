//! Builders of a fleet: nodes, workloads, budgets, namespaces.
//!
//! In goes what a test or the demo wants to have, out go ordinary creates through a client, so the
//! same scene stands on the embedded cluster and on a real one. Names, machine IDs and boot IDs
//! follow from the seed; nothing is random.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::{Api, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::keys;
use crate::clock::Clock;

/// Label that ties a workload's pods to their owner.
const WORKLOAD: &str = "sim.nodewright.dev/workload";

/// Puts objects into a cluster.
#[derive(Clone)]
pub struct Scene {
    client: kube::Client,
    clock: Clock,
    seed: u64,
    spacing: Duration,
}

/// A group of equal nodes, named `<prefix>-001` and so on.
#[derive(Debug, Clone)]
pub struct NodeGroup {
    prefix: String,
    count: usize,
    labels: BTreeMap<String, String>,
    gpus: u32,
}

/// One workload pod on one node.
#[derive(Debug, Clone)]
pub struct Workload {
    namespace: String,
    name: String,
    node: String,
    labels: BTreeMap<String, String>,
    owner: Owner,
    storage: Storage,
    grace_period_seconds: u32,
    finishes_after_seconds: Option<u32>,
    terminates_after_seconds: Option<u32>,
}

/// Who made a pod, which decides what a drain does with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// Nobody: an eviction is its end.
    Nobody,
    /// A ReplicaSet of this name, with this many replicas.
    ReplicaSet { name: String, replicas: u32 },
    /// A DaemonSet of this name: a drain leaves it alone.
    DaemonSet { name: String },
}

/// What a pod loses when it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    Nothing,
    EmptyDir,
}

/// The one rule of a disruption budget; a number or a percentage such as `50%`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Budget {
    MinAvailable(String),
    MaxUnavailable(String),
}

/// The cluster did not take an object of the scene.
#[derive(Debug, thiserror::Error)]
pub enum SceneError {
    #[error("{kind} {name:?} could not be created")]
    Create {
        kind: String,
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("{kind} of the scene is not a valid object")]
    Object {
        kind: String,
        #[source]
        source: serde_json::Error,
    },
}

impl Scene {
    /// Returns a scene whose identities follow from `seed`.
    pub fn new(client: kube::Client, clock: Clock, seed: u64) -> Self {
        Self { client, clock, seed, spacing: Duration::ZERO }
    }

    /// Lets so much time pass before each node, so that creation times differ. Without it nodes
    /// made in one second tie, and their names give the same order.
    pub fn spacing(mut self, spacing: Duration) -> Self {
        self.spacing = spacing;
        self
    }

    /// Adds a namespace.
    pub async fn add_namespace(&self, name: &str) -> Result<(), SceneError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        ensure(&api, name, json!({"metadata": {"name": name}})).await.map(drop)
    }

    /// Adds a group of nodes and returns their names, in the order of creation.
    pub async fn add_nodes(&self, group: &NodeGroup) -> Result<Vec<String>, SceneError> {
        let api: Api<Node> = Api::all(self.client.clone());
        let mut names = Vec::new();
        for number in 1..=group.count {
            if !self.spacing.is_zero() {
                self.clock.sleep(self.spacing).await;
            }
            let name = format!("{}-{number:03}", group.prefix);
            ensure(&api, &name, self.node(&name, group)).await?;
            names.push(name);
        }
        Ok(names)
    }

    /// Adds a workload pod, and its owner where it has one.
    pub async fn add_workload(&self, workload: &Workload) -> Result<Pod, SceneError> {
        let namespace = &workload.namespace;
        let owner = match &workload.owner {
            Owner::Nobody => None,
            Owner::ReplicaSet { name, replicas } => {
                let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), namespace);
                let set = ensure(&api, name, owner_object(workload, name, Some(*replicas))).await?;
                set.controller_owner_ref(&())
            }
            Owner::DaemonSet { name } => {
                let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), namespace);
                let set = ensure(&api, name, owner_object(workload, name, None)).await?;
                set.controller_owner_ref(&())
            }
        };
        let mut object = workload.pod();
        object["metadata"]["ownerReferences"] = owner.into_iter().map(|one| json!(one)).collect();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        ensure(&api, &workload.name, object).await
    }

    /// Adds a disruption budget for the pods with these labels.
    pub async fn add_budget(
        &self,
        namespace: &str,
        name: &str,
        labels: &[(&str, &str)],
        budget: &Budget,
    ) -> Result<(), SceneError> {
        let (field, amount) = match budget {
            Budget::MinAvailable(amount) => ("minAvailable", amount),
            Budget::MaxUnavailable(amount) => ("maxUnavailable", amount),
        };
        let amount = amount.parse::<i32>().map_or_else(|_| json!(amount), |number| json!(number));
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let object = json!({
            "metadata": {"name": name},
            "spec": {field: amount, "selector": {"matchLabels": labels}},
        });
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), namespace);
        ensure(&api, name, object).await.map(drop)
    }

    fn node(&self, name: &str, group: &NodeGroup) -> Value {
        let machine = self.identity(name, "machine").replace('-', "");
        let mut labels = group.labels.clone();
        for (key, value) in [
            ("kubernetes.io/hostname", name),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
        ] {
            labels.insert(key.to_owned(), value.to_owned());
        }
        let mut capacity = json!({"cpu": "64", "memory": "512Gi", "pods": "110"});
        if group.gpus > 0 {
            capacity["nvidia.com/gpu"] = json!(group.gpus.to_string());
        }
        json!({
            "metadata": {"name": name, "labels": labels},
            "status": {
                "capacity": capacity, "allocatable": capacity,
                "nodeInfo": {
                    "machineID": machine, "systemUUID": machine,
                    "bootID": self.identity(name, "boot"), "kernelVersion": "6.8.0-sim",
                    "osImage": "Simulated Linux", "containerRuntimeVersion": "sim://1",
                    "kubeletVersion": "v1.36.0", "kubeProxyVersion": "",
                    "operatingSystem": "linux", "architecture": "amd64",
                },
            },
        })
    }

    fn identity(&self, name: &str, which: &str) -> String {
        super::kubelet::identity(&format!("{}/{name}", self.seed), which)
    }
}

impl NodeGroup {
    /// Returns a group of `count` nodes without GPUs.
    pub fn new(prefix: &str, count: usize) -> Self {
        Self { prefix: prefix.to_owned(), count, labels: BTreeMap::new(), gpus: 0 }
    }

    /// Adds a label to each node.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Lets each node offer so many GPUs.
    pub fn gpus(mut self, gpus: u32) -> Self {
        self.gpus = gpus;
        self
    }
}

impl Workload {
    /// Returns a bare pod in `default` that runs until it is deleted and then ends within a second.
    pub fn new(name: &str, node: &str) -> Self {
        Self {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            node: node.to_owned(),
            labels: BTreeMap::new(),
            owner: Owner::Nobody,
            storage: Storage::Nothing,
            grace_period_seconds: 30,
            finishes_after_seconds: None,
            terminates_after_seconds: Some(1),
        }
    }

    /// Puts it into another namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// Adds a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Gives it an owner.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = owner;
        self
    }

    /// Gives it an `emptyDir` volume.
    pub fn empty_dir(mut self) -> Self {
        self.storage = Storage::EmptyDir;
        self
    }

    /// Lets it end by itself, with success.
    pub fn finishes_after_seconds(mut self, seconds: u32) -> Self {
        self.finishes_after_seconds = Some(seconds);
        self
    }

    /// Sets its grace period and how long it takes of it; `None` takes all of it.
    pub fn termination(mut self, grace_period_seconds: u32, takes_seconds: Option<u32>) -> Self {
        self.grace_period_seconds = grace_period_seconds;
        self.terminates_after_seconds = takes_seconds;
        self
    }

    /// Returns the name by which an owner knows its pods.
    fn group(&self) -> &str {
        match &self.owner {
            Owner::Nobody => &self.name,
            Owner::ReplicaSet { name, .. } | Owner::DaemonSet { name } => name,
        }
    }

    fn all_labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.labels.clone();
        labels.insert(WORKLOAD.to_owned(), self.group().to_owned());
        labels
    }

    fn annotations(&self) -> BTreeMap<&str, String> {
        [
            (keys::FINISHES_AFTER_SECONDS, self.finishes_after_seconds),
            (keys::TERMINATES_AFTER_SECONDS, self.terminates_after_seconds),
        ]
        .into_iter()
        .filter_map(|(key, seconds)| Some((key, seconds?.to_string())))
        .collect()
    }

    fn pod(&self) -> Value {
        let mut spec = self.spec();
        spec["nodeName"] = json!(self.node);
        json!({
            "metadata": {
                "name": self.name, "labels": self.all_labels(), "annotations": self.annotations(),
            },
            "spec": spec,
        })
    }

    fn spec(&self) -> Value {
        // What a controller owns must restart; what ends by itself must not.
        let owned = self.owner != Owner::Nobody;
        let policy =
            if owned || self.finishes_after_seconds.is_none() { "Always" } else { "Never" };
        let volumes = match self.storage {
            Storage::Nothing => json!([]),
            Storage::EmptyDir => json!([{"name": "scratch", "emptyDir": {}}]),
        };
        json!({
            "restartPolicy": policy, "volumes": volumes,
            "terminationGracePeriodSeconds": self.grace_period_seconds,
            "containers": [{"name": "main", "image": "registry.example/workload:1"}],
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        })
    }
}

/// Returns a ReplicaSet (with replicas) or a DaemonSet for pods like this one.
///
/// On a real control plane its controller adopts the pod by label, and replaces it when it goes.
fn owner_object(workload: &Workload, name: &str, replicas: Option<u32>) -> Value {
    let selector = json!({"matchLabels": {WORKLOAD: name}});
    let mut spec = json!({
        "selector": selector,
        "template": {
            "metadata": {
                "labels": workload.all_labels(), "annotations": workload.annotations(),
            },
            "spec": workload.spec(),
        },
    });
    match replicas {
        Some(replicas) => spec["replicas"] = json!(replicas),
        // Otherwise the controller replaces our pods, which lack its revision label.
        None => spec["updateStrategy"] = json!({"type": "OnDelete"}),
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Creates an object, or returns the one that has its name already.
async fn ensure<T>(api: &Api<T>, name: &str, object: Value) -> Result<T, SceneError>
where
    T: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let kind = || T::kind(&()).into_owned();
    let object: T = serde_json::from_value(object)
        .map_err(|source| SceneError::Object { kind: kind(), source })?;
    let created = match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => api.get(name).await,
        other => other,
    };
    created.map_err(|source| SceneError::Create {
        kind: kind(),
        name: name.to_owned(),
        source: Box::new(source),
    })
}
