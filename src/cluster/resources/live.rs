//! The custom resources as they are in the cluster.
//!
//! In: a client. Out: every object, untyped, by kind and name.
//! Must never: fail because one object cannot be read as our types; it only differs.

use std::collections::BTreeMap;

use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use crate::api::{DeploymentPolicy, NodeWright};
use crate::clock::Clock;
use crate::cluster::error::ClusterError;
use crate::cluster::fence::bounded;
use crate::cluster::source_state::{ManagedKind, ManagedObject};

/// The objects in the cluster.
pub type Live = BTreeMap<ManagedObject, DynamicObject>;

/// Lists both kinds with quorum.
///
/// # Errors
/// The API server did not answer with them; a 404 says that the CRDs are not installed.
pub async fn read_live(client: &Client, clock: Clock) -> Result<Live, ClusterError> {
    let mut live = Live::new();
    for kind in [ManagedKind::DeploymentPolicy, ManagedKind::NodeWright] {
        let what = format!("list every {}", kind.as_str());
        let api = api_of(client, kind);
        let list = bounded(clock, &what, api.list(&ListParams::default())).await?;
        for object in list {
            live.insert(ManagedObject { kind, name: object.name_any() }, object);
        }
    }
    Ok(live)
}

/// Returns the untyped API of a kind.
pub(super) fn api_of(client: &Client, kind: ManagedKind) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource_of(kind))
}

/// Returns what the API calls a kind.
pub(super) fn resource_of(kind: ManagedKind) -> ApiResource {
    match kind {
        ManagedKind::DeploymentPolicy => ApiResource::erase::<DeploymentPolicy>(&()),
        ManagedKind::NodeWright => ApiResource::erase::<NodeWright>(&()),
    }
}

/// Returns the spec of an object, `null` without one.
pub(super) fn spec_of(object: &DynamicObject) -> &Value {
    object.data.get("spec").unwrap_or(&Value::Null)
}
