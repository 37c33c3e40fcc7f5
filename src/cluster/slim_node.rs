//! Nodes off the wire, trimmed to [`Node`].
//!
//! In: JSON of a Node, 15 KB and more. Out: what something depends on.
//! Must never: keep annotations of others, images, addresses or managed fields.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::ObjectMeta;
use serde::Deserialize;

use super::claims::read_claims;
use super::conditions::is_published;
use super::legacy;
use super::node_state::{MARK, read_annotations};
use super::slim::{WireMeta, null_as_empty, watchable_as};
use crate::api::keys;
use crate::model::{Node, Taint, TaintEffect};

/// The extended resource under which GPUs are offered.
const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// A node, with the metadata that kube's watcher asks for.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "WireNode")]
pub struct SlimNode {
    /// Name and version.
    pub metadata: ObjectMeta,
    /// What we keep.
    pub node: Node,
}

watchable_as!(SlimNode, k8s_openapi::api::core::v1::Node);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireNode {
    metadata: WireMeta,
    #[serde(deserialize_with = "null_as_empty")]
    spec: WireSpec,
    #[serde(deserialize_with = "null_as_empty")]
    status: WireStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireSpec {
    #[serde(deserialize_with = "null_as_empty")]
    unschedulable: bool,
    #[serde(deserialize_with = "null_as_empty")]
    taints: Vec<WireTaint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireTaint {
    key: String,
    value: Option<String>,
    effect: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    #[serde(deserialize_with = "null_as_empty")]
    conditions: Vec<WireCondition>,
    #[serde(deserialize_with = "null_as_empty")]
    allocatable: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_empty")]
    node_info: WireNodeInfo,
}

/// A condition of a node or a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WireCondition {
    /// For example `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: Option<String>,
    /// One line.
    pub message: Option<String>,
    /// When the status last changed.
    pub last_transition_time: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireNodeInfo {
    #[serde(rename = "bootID")]
    boot_id: String,
    #[serde(rename = "machineID")]
    machine_id: String,
}

impl From<WireNode> for SlimNode {
    fn from(wire: WireNode) -> Self {
        let WireNode { mut metadata, spec, status } = wire;
        let shell = metadata.shell();
        let taints: Vec<Taint> = spec.taints.into_iter().map(Taint::from).collect();
        let conditions = &status.conditions;
        let claims = read_claims(&metadata.labels, &metadata.annotations, &taints, conditions);
        let annotated = !metadata.annotations.is_empty();
        metadata.annotations.retain(|key, _| legacy::is_ours(key));
        // Worked on under the former name is not new either; what people wrote says nothing.
        let is_new = !metadata.annotations.keys().any(|key| key != keys::HOLD);
        let unschedulable_manager = unschedulable_manager(&metadata);
        let hold = metadata.annotations.get(keys::HOLD).cloned();
        let (rollouts, cordons) = read_annotations(&metadata.annotations);
        let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
        let published = status.conditions.iter().filter(|it| is_published(&it.kind));
        let conditions = published.map(|it| (it.kind.clone(), it.status == "True")).collect();
        let node = Node {
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            created: metadata.creation_timestamp,
            ignored: [keys::IGNORE, keys::LEGACY_IGNORE]
                .iter()
                .any(|label| metadata.labels.get(*label).is_some_and(|it| it == MARK)),
            labels: metadata.labels,
            taints,
            unschedulable: spec.unschedulable,
            unschedulable_manager,
            ready: ready.is_some_and(|condition| condition.status == "True"),
            ready_since: ready.and_then(|condition| condition.last_transition_time),
            boot_id: status.node_info.boot_id,
            machine_id: status.node_info.machine_id,
            deleting: metadata.deletion_timestamp.is_some(),
            hold,
            is_new,
            annotated,
            gpus: status.allocatable.get(GPU_RESOURCE).and_then(|text| text.parse().ok()),
            claims,
            cordons,
            conditions,
            rollouts,
        };
        Self { metadata: shell, node }
    }
}

impl From<WireTaint> for Taint {
    fn from(wire: WireTaint) -> Self {
        let effect = match wire.effect.as_str() {
            "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
            "NoExecute" => TaintEffect::NoExecute,
            // An effect that is not known yet is at least this one.
            _ => TaintEffect::NoSchedule,
        };
        Self { key: wire.key, value: wire.value.unwrap_or_default(), effect }
    }
}

/// Returns who last wrote `spec.unschedulable`, of those who still own it; nobody where that is us.
fn unschedulable_manager(metadata: &WireMeta) -> Option<String> {
    metadata
        .managed_fields
        .iter()
        .filter(|entry| {
            entry.fields_v1.spec.as_ref().is_some_and(|spec| spec.unschedulable.is_some())
        })
        .max_by_key(|entry| entry.time)
        .map(|entry| entry.manager.clone())
        .filter(|manager| manager != keys::FIELD_MANAGER)
}

/// Returns whether two reads of a node differ in nothing but the version.
pub fn is_same_node(one: &Node, other: &Node) -> bool {
    // Destructured, so that a new field does not compile until it is compared.
    let Node {
        name,
        uid,
        resource_version: _,
        created,
        labels,
        taints,
        unschedulable,
        unschedulable_manager,
        ready,
        ready_since,
        boot_id,
        machine_id,
        deleting,
        ignored,
        hold,
        is_new,
        annotated,
        gpus,
        claims,
        cordons,
        // Told after the fact; nothing of ours depends on them.
        conditions: _,
        rollouts,
    } = one;
    *name == other.name
        && *uid == other.uid
        && *created == other.created
        && *labels == other.labels
        && *taints == other.taints
        && *unschedulable == other.unschedulable
        && *unschedulable_manager == other.unschedulable_manager
        && *ready == other.ready
        && *ready_since == other.ready_since
        && *boot_id == other.boot_id
        && *machine_id == other.machine_id
        && *deleting == other.deleting
        && *ignored == other.ignored
        && *hold == other.hold
        && *is_new == other.is_new
        && *annotated == other.annotated
        && *gpus == other.gpus
        && *claims == other.claims
        && *cordons == other.cordons
        && *rollouts == other.rollouts
}
