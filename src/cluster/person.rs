//! What the command line writes to nodes for a person.
//!
//! In: the operations of a JSON patch, whose tests are what the person was shown. Out: the answer.
//! It needs no leadership, because of those tests: whatever the daemon wrote meanwhile wins.
//! Must never: write without a test, or under the daemon's name.

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use serde_json::Value;

use super::error::ClusterError;
use super::fence::bounded;
use crate::clock::Clock;

/// Field manager of what a person writes with our command line.
pub(super) const FIELD_MANAGER_PERSON: &str = "nodewright-cli";

/// Patches a node; `what` begins every message.
pub(super) async fn patch_node(
    client: &Client,
    node: &str,
    what: &str,
    operations: Vec<Value>,
    clock: Clock,
) -> Result<(), ClusterError> {
    let uri = format!("/api/v1/nodes/{node}?fieldManager={FIELD_MANAGER_PERSON}");
    let request = http::Request::patch(uri)
        .header(http::header::CONTENT_TYPE, "application/json-patch+json")
        .body(Value::Array(operations).to_string().into_bytes())
        .map_err(|source| ClusterError::Unbuildable { request: what.to_owned(), source })?;
    bounded(clock, what, client.request::<Node>(request)).await.map(drop)
}

/// Returns where an annotation is in a JSON patch.
pub(super) fn annotation(key: &str) -> String {
    format!("/metadata/annotations/{}", escaped(key))
}

/// Returns where a label is in a JSON patch.
pub(super) fn label(key: &str) -> String {
    format!("/metadata/labels/{}", escaped(key))
}

/// Escapes a key for a path of a JSON patch (RFC 6901).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
