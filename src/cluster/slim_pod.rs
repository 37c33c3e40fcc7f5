//! Pods off the wire, trimmed: executors of ours, and what may have to leave a node.
//!
//! In: JSON of a Pod. Out: [`Pod`] for drains and protection, and the container states that
//! `executor_state` reads.
//! Must never: keep the spec of a pod of others.

use jiff::{SignedDuration, Timestamp};
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::slim::{WireMeta, null_as_empty, watchable_as};
use super::slim_node::WireCondition;
use crate::api::keys;
use crate::model::{Controller, Pod, PodPhase, PodRef};

/// Kubernetes' own grace period, where a pod that is going does not say.
const GRACE_SECONDS_DEFAULT: i64 = 30;

/// A pod, with the metadata that kube's watcher asks for.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "WirePod")]
pub struct SlimPod {
    /// Namespace, name and version.
    pub metadata: ObjectMeta,
    /// What drains and protection ask; the node is empty while it is not bound.
    pub pod: Pod,
    /// When it was created.
    pub created: Timestamp,
    /// How long it may take to end, once it is to go.
    pub grace: SignedDuration,
    /// The package annotation of pods that run packages, ours or upstream's (contract C).
    pub package_annotation: Option<String>,
    /// Restarts of all its containers.
    pub restarts: u32,
    /// `status.reason`.
    pub reason: Option<String>,
    /// `status.message`.
    pub message: Option<String>,
    /// Its conditions.
    pub conditions: Vec<WireCondition>,
    /// Its init containers in their order, then the others.
    pub containers: Vec<ContainerState>,
}

watchable_as!(SlimPod, k8s_openapi::api::core::v1::Pod);

/// How far a container is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerState {
    /// Its name.
    pub name: String,
    /// Its image, as the pod names it.
    pub image: String,
    /// Where it stands.
    pub standing: Standing,
}

/// Where a container stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Not started.
    Waiting {
        /// The kubelet's word.
        reason: String,
        /// The kubelet's text.
        message: String,
    },
    /// Started and not ended.
    Running {
        /// When.
        started: Option<Timestamp>,
    },
    /// Ended.
    Terminated {
        /// Its exit code.
        exit_code: i32,
        /// The kubelet's word.
        reason: String,
        /// The termination message.
        message: String,
        /// When it started.
        started: Option<Timestamp>,
        /// When it ended.
        finished: Option<Timestamp>,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WirePod {
    metadata: WireMeta,
    #[serde(deserialize_with = "null_as_empty")]
    spec: WireSpec,
    #[serde(deserialize_with = "null_as_empty")]
    status: WireStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    node_name: Option<String>,
    #[serde(deserialize_with = "null_as_empty")]
    tolerations: Vec<WireToleration>,
    #[serde(deserialize_with = "null_as_empty")]
    volumes: Vec<WireVolume>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireToleration {
    key: Option<String>,
    operator: Option<String>,
    value: Option<String>,
    effect: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireVolume {
    empty_dir: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    phase: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    start_time: Option<Timestamp>,
    #[serde(deserialize_with = "null_as_empty")]
    conditions: Vec<WireCondition>,
    #[serde(deserialize_with = "null_as_empty")]
    init_container_statuses: Vec<WireContainer>,
    #[serde(deserialize_with = "null_as_empty")]
    container_statuses: Vec<WireContainer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireContainer {
    name: String,
    restart_count: u32,
    image: String,
    #[serde(deserialize_with = "null_as_empty")]
    state: WireState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireState {
    waiting: Option<WireWaiting>,
    running: Option<WireRunning>,
    terminated: Option<WireTerminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireRunning {
    started_at: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireWaiting {
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireTerminated {
    exit_code: i32,
    reason: Option<String>,
    message: Option<String>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

impl From<WirePod> for SlimPod {
    fn from(wire: WirePod) -> Self {
        let WirePod { metadata, spec, status } = wire;
        let WireStatus {
            phase: phase_word,
            reason,
            message,
            start_time,
            conditions,
            init_container_statuses,
            container_statuses,
        } = status;
        let shell = metadata.shell();
        let has_executor_labels =
            [(keys::NAME, keys::PACKAGE), (keys::LEGACY_NAME, keys::LEGACY_PACKAGE)].iter().any(
                |(name, package)| {
                    metadata.labels.contains_key(*name) && metadata.labels.contains_key(*package)
                },
            );
        let created = metadata.creation_timestamp;
        let terminating = metadata.deletion_timestamp.is_some();
        let grace = metadata.deletion_grace_period_seconds.unwrap_or(GRACE_SECONDS_DEFAULT);
        let ready = conditions
            .iter()
            .any(|condition| condition.kind == "Ready" && condition.status == "True");
        let WireMeta { name, namespace, uid, mut annotations, labels, owner_references, .. } =
            metadata;
        let controller = owner_references
            .into_iter()
            .find(|owner| owner.controller == Some(true))
            .map(|owner| Controller { kind: owner.kind, name: owner.name });
        let pod = Pod {
            reference: PodRef { namespace, name, uid },
            node: spec.node_name.unwrap_or_default(),
            labels,
            phase: phase(phase_word.as_deref()),
            terminating,
            // The store knows since when.
            deletes_at: None,
            ready,
            controller,
            mirror: annotations.contains_key("kubernetes.io/config.mirror"),
            tolerates_unschedulable: spec.tolerations.iter().any(tolerates_unschedulable),
            empty_dir: spec.volumes.iter().any(|volume| volume.empty_dir.is_some()),
            executor: has_executor_labels,
            since: start_time.unwrap_or(created),
        };
        let mut slim = Self {
            metadata: shell,
            pod,
            created,
            grace: SignedDuration::from_secs(grace),
            package_annotation: None,
            restarts: 0,
            reason: None,
            message: None,
            conditions: Vec::new(),
            containers: Vec::new(),
        };
        // Containers of others restart all the time; nothing depends on theirs.
        if has_executor_labels {
            let all: Vec<WireContainer> =
                init_container_statuses.into_iter().chain(container_statuses).collect();
            slim.restarts = all.iter().map(|container| container.restart_count).sum();
            slim.containers = all.into_iter().map(ContainerState::from).collect();
            slim.package_annotation = annotations
                .remove(keys::PACKAGE_ANNOTATION)
                .or_else(|| annotations.remove(keys::LEGACY_PACKAGE));
            slim.reason = reason;
            slim.message = message;
            slim.conditions = conditions;
        }
        slim
    }
}

impl From<WireContainer> for ContainerState {
    fn from(wire: WireContainer) -> Self {
        let WireState { waiting, running, terminated } = wire.state;
        let standing = if let Some(ended) = terminated {
            Standing::Terminated {
                exit_code: ended.exit_code,
                reason: ended.reason.unwrap_or_default(),
                message: ended.message.unwrap_or_default(),
                started: ended.started_at,
                finished: ended.finished_at,
            }
        } else if let Some(running) = running {
            Standing::Running { started: running.started_at }
        } else {
            let WireWaiting { reason, message } = waiting.unwrap_or_default();
            Standing::Waiting {
                reason: reason.unwrap_or_default(),
                message: message.unwrap_or_default(),
            }
        };
        Self { name: wire.name, image: wire.image, standing }
    }
}

fn phase(word: Option<&str>) -> PodPhase {
    match word {
        None | Some("Pending") => PodPhase::Pending,
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some(_) => PodPhase::Unknown,
    }
}

/// Returns whether a toleration covers the taint of a cordon, by Kubernetes' own rules: an empty
/// key with `Exists` covers every taint, an empty effect every effect.
fn tolerates_unschedulable(toleration: &WireToleration) -> bool {
    let covers_effect = toleration
        .effect
        .as_deref()
        .is_none_or(|effect| effect.is_empty() || effect == "NoSchedule");
    let key = toleration.key.as_deref().unwrap_or_default();
    let covers_key = match toleration.operator.as_deref() {
        Some("Exists") => key.is_empty() || key == UNSCHEDULABLE_TAINT,
        Some(_) | None => {
            key == UNSCHEDULABLE_TAINT && toleration.value.as_deref().unwrap_or_default().is_empty()
        }
    };
    covers_effect && covers_key
}

/// The taint of a cordoned node.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";
