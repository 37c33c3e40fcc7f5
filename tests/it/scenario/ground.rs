//! The cluster under a scenario: the embedded one, or a real control plane.

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use nodewright::api::crd::crds;
use nodewright::api::{DeploymentPolicy, NodeWright};
use nodewright::clock::Clock;
use nodewright::sim::Cluster;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::control_plane::{ControlPlane, eventually};

/// Where the daemon lives.
pub const NAMESPACE: &str = "nodewright";

/// Enough for controllers on a machine that is busy compiling.
const CLEAN_LIMIT: Duration = Duration::from_secs(60);

/// A cluster with our CRDs.
#[derive(Clone)]
pub enum Ground {
    Embedded(Cluster),
    Real(Arc<ControlPlane>),
}

impl Ground {
    pub async fn embedded(clock: Clock) -> Self {
        let ground = Self::Embedded(Cluster::new(clock));
        ground.add_crds().await;
        ground
    }

    pub async fn real(plane: Arc<ControlPlane>) -> Self {
        let ground = Self::Real(Arc::clone(&plane));
        ground.add_crds().await;
        plane.ensure_namespace(NAMESPACE).await;
        let resources: Api<NodeWright> = Api::all(ground.client("test"));
        eventually("the CRDs are served", CLEAN_LIMIT, async || {
            resources.list(&ListParams::default()).await.ok()
        })
        .await;
        ground
    }

    async fn add_crds(&self) {
        for crd in crds() {
            let api = Api::all(self.client("test"));
            api.create(&PostParams::default(), &crd).await.expect("the CRD is accepted");
        }
    }

    /// Returns a client for the test and what it plays.
    pub fn client(&self, user_agent: &str) -> Client {
        match self {
            Self::Embedded(cluster) => cluster.client(user_agent),
            Self::Real(plane) => plane.client(user_agent),
        }
    }

    /// Returns the client that the daemon has.
    pub fn daemon_client(&self) -> Client {
        match self {
            Self::Embedded(cluster) => cluster.client("nodewright"),
            Self::Real(plane) => {
                nodewright::cluster::client(plane.config("nodewright")).expect("a valid config")
            }
        }
    }

    pub async fn ensure_namespace(&self, name: &str) {
        match self {
            Self::Embedded(cluster) => {
                let clock = cluster.clock();
                let scene = nodewright::sim::scene::Scene::new(self.client("test"), clock, 1);
                scene.add_namespace(name).await.expect("a namespace");
            }
            Self::Real(plane) => plane.ensure_namespace(name).await,
        }
    }

    /// Removes everything that a daemon or a scenario made, and waits until it is gone.
    pub async fn clear(&self) {
        let client = self.client("test");
        let namespaced = |namespace: &str| Api::<Lease>::namespaced(client.clone(), namespace);
        remove_all::<ReplicaSet>(Api::all(client.clone()), &client).await;
        remove_all::<DaemonSet>(Api::all(client.clone()), &client).await;
        remove_all::<PodDisruptionBudget>(Api::all(client.clone()), &client).await;
        remove_cluster_wide::<NodeWright>(&client).await;
        remove_cluster_wide::<DeploymentPolicy>(&client).await;
        remove_cluster_wide::<Node>(&client).await;
        remove_all::<Pod>(Api::all(client.clone()), &client).await;
        remove_events(&client).await;
        let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
        for namespace in [NAMESPACE, "kube-node-lease"] {
            let everything = ListParams::default();
            let parameters = DeleteParams::default();
            drop(namespaced(namespace).delete_collection(&parameters, &everything).await);
        }
        for config_map in config_maps.list(&ListParams::default()).await.expect("listed").items {
            let name = config_map.name_any();
            if name != "kube-root-ca.crt" {
                drop(config_maps.delete(&name, &DeleteParams::default()).await);
            }
        }
    }
}

/// Events outlive what they are about, and the next scenario has nodes of the same names.
async fn remove_events(client: &Client) {
    let events: Api<Event> = Api::all(client.clone());
    let listed = events.list(&ListParams::default()).await.expect("listed").items;
    let namespaces: BTreeSet<String> = listed.iter().filter_map(ResourceExt::namespace).collect();
    for namespace in namespaces {
        let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let (parameters, everything) = (DeleteParams::default(), ListParams::default());
        let removed = events.delete_collection(&parameters, &everything).await;
        drop(removed.expect("the events are removed"));
    }
}

async fn remove_cluster_wide<K>(client: &Client)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug,
    K: DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    eventually(&format!("every {} is gone", K::kind(&())), CLEAN_LIMIT, async || {
        let items = api.list(&ListParams::default()).await.ok()?.items;
        for item in &items {
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let name = item.name_any();
            drop(api.patch(&name, &PatchParams::default(), &free).await);
            drop(api.delete(&name, &DeleteParams::default()).await);
        }
        items.is_empty().then_some(())
    })
    .await;
}

async fn remove_all<K>(api: Api<K>, client: &Client)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    eventually(&format!("every {} is gone", K::kind(&())), CLEAN_LIMIT, async || {
        let items = api.list(&ListParams::default()).await.ok()?.items;
        for item in &items {
            let own: Api<K> =
                Api::namespaced(client.clone(), &item.namespace().unwrap_or_default());
            drop(own.delete(&item.name_any(), &DeleteParams::default().grace_period(0)).await);
        }
        items.is_empty().then_some(())
    })
    .await;
}
