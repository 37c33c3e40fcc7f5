//! A person's wish that a node on which a visit failed be picked again.
//!
//! In: a node and, where several failed on it, the rollout. Out: the record closed without its
//! failure, so that the next tick sees a node that needs work. It needs no leadership: the patch
//! tests the very record that was read, and whatever the daemon wrote meanwhile wins.
//! Must never: touch an open visit, the host's entries, or the cordon, which the next visit keeps.

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::error::ClusterError;
use super::fence::bounded;
use super::node_state::read_annotations;
use super::person::{annotation, patch_node};
use crate::api::keys;
use crate::clock::Clock;
use crate::model::{Outcome, Record};

/// A visit that ended in failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedVisit {
    /// The node.
    pub node: String,
    /// The rollout.
    pub rollout: String,
    /// The compartment in whose batch it was.
    pub compartment: String,
    /// What failed, as the daemon recorded it.
    pub message: Option<String>,
    uid: String,
    text: String,
    record: Record,
}

/// Returns the visits that failed on a node, by rollout; `None` when there is no such node.
///
/// # Errors
/// The API server did not answer with the node.
pub async fn failed_visits(
    client: &Client,
    node: &str,
    clock: Clock,
) -> Result<Option<Vec<FailedVisit>>, ClusterError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let what = format!("read node {node}");
    let Some(found) = bounded(clock, &what, nodes.get_opt(node)).await? else { return Ok(None) };
    let uid = found.uid().unwrap_or_default();
    let (rollouts, _) = read_annotations(found.annotations());
    let failed = rollouts.into_iter().filter_map(|(rollout, state)| {
        let (record, text) = (state.record.clone()?, state.record_text.clone()?);
        let failed = record.outcome == Some(Outcome::Erroring) && record.node_uid == uid;
        failed.then(|| FailedVisit {
            node: node.to_owned(),
            rollout,
            compartment: record.compartment.clone(),
            message: record.message.clone(),
            uid: uid.clone(),
            text,
            record,
        })
    });
    Ok(Some(failed.collect()))
}

/// Clears the failure, so that the node is picked again when its batch comes.
///
/// # Errors
/// `Conflict` by disposition when the daemon wrote since it was read: look again.
pub async fn retry(client: &Client, visit: &FailedVisit, clock: Clock) -> Result<(), ClusterError> {
    let FailedVisit { node, rollout, uid, text, record, .. } = visit;
    let cleared =
        Record { outcome: Some(Outcome::Released), reason: None, message: None, ..record.clone() };
    let cleared = json!(cleared).to_string();
    let path = annotation(&keys::rollout(rollout));
    let operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": uid }),
        json!({ "op": "test", "path": path, "value": text }),
        json!({ "op": "replace", "path": path, "value": cleared }),
    ];
    let what = format!("clear the failure of {rollout} on node {node}");
    patch_node(client, node, &what, operations, clock).await
}
