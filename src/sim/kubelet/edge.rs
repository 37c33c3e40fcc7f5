//! The kubelet's requests, each repeated until the API server has taken it or does not want it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::clock::Clock;

/// How long to wait before a request that failed is sent again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Where nodes keep their leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Requests under way at a time, watches aside.
///
/// One process plays a thousand kubelets, which together would ask more than a real API server lets
/// in at once: its priority and fairness would queue them, were they not its administrator's.
const REQUESTS_AT_ONCE_MAX: usize = 32;

/// Client and clock.
#[derive(Clone)]
pub(super) struct Edge {
    pub client: kube::Client,
    pub clock: Clock,
    requests: Arc<Semaphore>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Landed {
    Yes,
    /// The object is gone, or another one has its name now.
    ObjectGone,
}

/// Which pod a write is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodId {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Edge {
    pub fn new(client: kube::Client, clock: Clock) -> Self {
        Self { client, clock, requests: Arc::new(Semaphore::new(REQUESTS_AT_ONCE_MAX)) }
    }

    /// Sends a request when its turn has come.
    async fn in_turn<T>(&self, request: impl Future<Output = T>) -> T {
        let _permit = self.requests.acquire().await;
        request.await
    }

    /// Writes a pod's status, unless another pod has taken its name.
    pub async fn write_pod_status(&self, pod: &PodId, status: &Value) -> Landed {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid}, "status": status}));
        let params = PatchParams::default();
        self.until_landed(&pod.name, || async {
            api.patch_status(&pod.name, &params, &patch).await.map(drop)
        })
        .await
    }

    /// Removes a pod that has ended.
    pub async fn remove_pod(&self, pod: &PodId) -> Landed {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let only_this = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
        let params = DeleteParams::default().grace_period(0).preconditions(only_this);
        self.until_landed(&pod.name, || async { api.delete(&pod.name, &params).await.map(drop) })
            .await
    }

    /// Writes parts of a node's status; conditions merge by type.
    pub async fn write_node_status(&self, node: &str, status: &Value) -> Landed {
        let api: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Strategic(json!({"status": status}));
        let params = PatchParams::default();
        self.until_landed(node, || async {
            api.patch_status(node, &params, &patch).await.map(drop)
        })
        .await
    }

    /// Writes one annotation of a node.
    pub async fn annotate_node(&self, node: &str, key: &str, value: &str) -> Landed {
        let api: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        let params = PatchParams::default();
        self.until_landed(node, || async { api.patch(node, &params, &patch).await.map(drop) }).await
    }

    /// Renews a node's lease, which is made if it is not there; a failure waits for the next time.
    pub async fn renew_lease(&self, node: &str) {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), LEASE_NAMESPACE);
        let renewed = self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let spec =
            json!({"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": renewed});
        let patch = Patch::Merge(json!({"spec": spec}));
        let parameters = PatchParams::default();
        let patched = self.in_turn(api.patch(node, &parameters, &patch)).await;
        let result = match patched {
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                let lease = json!({"metadata": {"name": node}, "spec": spec});
                match serde_json::from_value(lease) {
                    Ok(lease) => self.in_turn(api.create(&PostParams::default(), &lease)).await,
                    Err(error) => Err(kube::Error::SerdeError(error)),
                }
            }
            other => other,
        };
        if let Err(error) = result {
            tracing::debug!(node, %error, "lease not renewed");
        }
    }

    /// Reads the texts of a mounted ConfigMap, and waits for one that is not there and must be.
    pub async fn config_map(
        &self,
        namespace: &str,
        source: &ConfigMapVolumeSource,
    ) -> BTreeMap<String, String> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let name = &source.name;
        loop {
            match self.in_turn(api.get_opt(name)).await {
                Ok(Some(found)) => return found.data.unwrap_or_default(),
                Ok(None) if source.optional == Some(true) => return BTreeMap::new(),
                Ok(None) => tracing::debug!(namespace, name, "kubelet waits for a config map"),
                Err(error) => tracing::debug!(namespace, name, %error, "kubelet will read again"),
            }
            self.clock.sleep(RETRY_PAUSE).await;
        }
    }

    async fn until_landed<F: Future<Output = kube::Result<()>>>(
        &self,
        object: &str,
        send: impl Fn() -> F,
    ) -> Landed {
        loop {
            match self.in_turn(send()).await {
                Ok(()) => return Landed::Yes,
                Err(kube::Error::Api(status)) if status.is_not_found() => {
                    return Landed::ObjectGone;
                }
                Err(kube::Error::Api(status)) if is_for_another(&status) => {
                    return Landed::ObjectGone;
                }
                Err(error) => {
                    tracing::debug!(object, %error, "kubelet will write again");
                    self.clock.sleep(RETRY_PAUSE).await;
                }
            }
        }
    }
}

/// Returns whether a write was refused because its UID is not that of the object: 409 for a
/// deletion, 422 for a patch. No write of ours carries a version, so nothing else conflicts.
fn is_for_another(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    (status.is_conflict() && status.message.contains("UID"))
        || (status.is_invalid() && causes.into_iter().any(|cause| cause.field == "metadata.uid"))
}
