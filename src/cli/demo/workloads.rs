//! What runs on the nodes: Deployments whose evicted pods come back elsewhere, and a training job
//! that must not be disturbed.
//!
//! The embedded cluster has neither a scheduler nor the controllers of workloads; this is as much
//! of them as the story needs.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::error::DemoError;
use crate::clock::Clock;
use crate::sim::keys::FINISHES_AFTER_SECONDS;
use crate::sim::scene::{Owner, Scene, SceneError, Workload};

/// The namespace of the people who train.
pub(super) const TRAINING_NAMESPACE: &str = "ml";

/// The name of their job.
pub(super) const TRAINING_JOB: &str = "llama-70b";

/// Who talks to the cluster for them.
pub(super) const TRAINING_AGENT: &str = "ml-team";

/// How often missing pods are replaced.
const REPLACED_EVERY: Duration = Duration::from_secs(3);

/// Pods that are replaced when they go, one for each node they began on.
#[derive(Debug, Clone)]
pub(super) struct Deployment {
    namespace: &'static str,
    name: &'static str,
    pool: &'static str,
    /// The node of each first pod.
    nodes: Vec<String>,
    /// Pods made so far, for their names.
    made: usize,
}

impl Deployment {
    pub fn new(
        namespace: &'static str,
        name: &'static str,
        pool: &'static str,
        nodes: &[String],
    ) -> Self {
        Self { namespace, name, pool, nodes: nodes.to_vec(), made: nodes.len() }
    }

    /// Creates the first pods.
    pub async fn place(&self, scene: &Scene) -> Result<(), SceneError> {
        for (number, node) in self.nodes.iter().enumerate() {
            drop(scene.add_workload(&self.pod(number, node)).await?);
        }
        Ok(())
    }

    fn pod(&self, number: usize, node: &str) -> Workload {
        let replicas = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        Workload::new(&format!("{}-{number}", self.name), node)
            .namespace(self.namespace)
            .label("app", self.name)
            .owner(Owner::ReplicaSet { name: self.name.to_owned(), replicas })
    }

    /// Creates the pods that are missing, where there is a node for them.
    async fn replace(
        &mut self,
        client: &kube::Client,
        scene: &Scene,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), self.namespace);
        let own = ListParams::default().labels(&format!("app={}", self.name));
        let pods = pods.list(&own).await?.items;
        let living: Vec<&Pod> =
            pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
        if living.len() >= self.nodes.len() {
            return Ok(());
        }
        let nodes: Api<Node> = Api::all(client.clone());
        let of_pool = ListParams::default().labels(&format!("nodepool={}", self.pool));
        let nodes = nodes.list(&of_pool).await?.items;
        let on = |node: &Node| {
            let name = node.name_any();
            living.iter().filter(|pod| node_of(pod) == Some(&name)).count()
        };
        let best = nodes.iter().filter(|node| takes_pods(node)).min_by_key(|node| on(node));
        let Some(best) = best else { return Ok(()) };
        drop(scene.add_workload(&self.pod(self.made, &best.name_any())).await?);
        self.made += 1;
        Ok(())
    }
}

/// Replaces missing pods until dropped.
pub(super) async fn keep(mut deployments: Vec<Deployment>, client: kube::Client, clock: Clock) {
    let scene = Scene::new(client.clone(), clock, 0);
    loop {
        clock.sleep(REPLACED_EVERY).await;
        for deployment in &mut deployments {
            if let Err(error) = deployment.replace(&client, &scene).await {
                tracing::warn!(deployment = deployment.name, %error, "pods are not replaced");
            }
        }
    }
}

fn takes_pods(node: &Node) -> bool {
    let is_open = node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true));
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is_ready = conditions.is_some_and(|all| {
        all.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    });
    is_open && is_ready
}

fn node_of(pod: &Pod) -> Option<&String> {
    pod.spec.as_ref()?.node_name.as_ref()
}

/// A training job, one pod on each of its nodes.
#[derive(Clone)]
pub(super) struct Training {
    client: kube::Client,
    /// The nodes it runs on.
    pub nodes: Vec<String>,
}

impl Training {
    /// Starts the job: an object that owns the pods, and the pods.
    ///
    /// A real JobSet has Jobs between itself and its pods.
    pub async fn start(client: kube::Client, nodes: Vec<String>) -> Result<Self, DemoError> {
        let post = PostParams::default();
        let failed = || DemoError::cluster("starting the training job");
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        drop(crds.create(&post, &parsed(job_set_crd())).await.map_err(failed())?);
        let job_sets: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), TRAINING_NAMESPACE, &job_set_resource());
        let job_set = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": TRAINING_JOB},
        });
        let job_set = job_sets.create(&post, &parsed(job_set)).await.map_err(failed())?;
        let pods: Api<Pod> = Api::namespaced(client.clone(), TRAINING_NAMESPACE);
        for (number, node) in nodes.iter().enumerate() {
            let pod = json!({
                "metadata": {
                    "name": worker(number),
                    "labels": {"workload": "long-running-training"},
                    "ownerReferences": [{
                        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
                        "name": TRAINING_JOB, "uid": job_set.uid(), "controller": true,
                    }],
                },
                "spec": {
                    "nodeName": node, "restartPolicy": "Never",
                    "containers": [{"name": "trainer", "image": "registry.example/llama:70b"}],
                },
            });
            drop(pods.create(&post, &parsed(pod)).await.map_err(failed())?);
        }
        Ok(Self { client, nodes })
    }

    /// Lets every worker come to its end.
    pub async fn finish(&self) -> Result<(), DemoError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), TRAINING_NAMESPACE);
        let now = json!({"metadata": {"annotations": {FINISHES_AFTER_SECONDS: "0"}}});
        for number in 0..self.nodes.len() {
            let patched =
                pods.patch(&worker(number), &PatchParams::default(), &Patch::Merge(&now)).await;
            drop(patched.map_err(DemoError::cluster("ending the training job"))?);
        }
        Ok(())
    }

    /// Returns the phases of the workers, in order; `None` for one that is gone.
    pub async fn phases(&self) -> Result<Vec<Option<String>>, DemoError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), TRAINING_NAMESPACE);
        let mut phases = Vec::new();
        for number in 0..self.nodes.len() {
            let pod = pods.get_opt(&worker(number)).await;
            let pod = pod.map_err(DemoError::cluster("reading the training job"))?;
            phases.push(pod.and_then(|pod| pod.status).and_then(|status| status.phase));
        }
        Ok(phases)
    }
}

/// Returns the name of a worker's pod.
pub(super) fn worker(number: usize) -> String {
    format!("{TRAINING_JOB}-worker-{number}")
}

fn job_set_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("jobset.x-k8s.io", "v1alpha2", "JobSet");
    ApiResource::from_gvk_with_plural(&kind, "jobsets")
}

fn job_set_crd() -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobsets.jobset.x-k8s.io"},
        "spec": {
            "group": "jobset.x-k8s.io", "scope": "Namespaced",
            "names": {"plural": "jobsets", "singular": "jobset", "kind": "JobSet",
                      "listKind": "JobSetList"},
            "versions": [{
                "name": "v1alpha2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

fn parsed<T: DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).expect("what is written here is a valid object")
}
