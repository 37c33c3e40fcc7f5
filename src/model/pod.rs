//! Pods of others: what a drain must move and what must not be disturbed.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Names one pod, so that nothing is done to its successor of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodRef {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PodPhase {
    /// Accepted, not all containers started.
    Pending,
    /// Bound, at least one container runs or restarts.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended, one badly.
    Failed,
    /// The node could not be asked.
    Unknown,
}

/// The controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Controller {
    /// Kind, for example `ReplicaSet`.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// A pod on a node, trimmed to what protection and drain ask (upstream contract B.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pod {
    /// Which pod.
    pub reference: PodRef,
    /// The node it is bound to.
    pub node: String,
    /// Labels, for `podNonInterruptLabels`.
    pub labels: BTreeMap<String, String>,
    /// Its phase.
    pub phase: PodPhase,
    /// It has a deletion timestamp.
    pub terminating: bool,
    /// When its grace period is over, by our clock: from when it was first seen to be going. Its
    /// deletion timestamp is of the API server's clock, which may be ahead of ours or behind.
    pub deletes_at: Option<Timestamp>,
    /// Its Ready condition is True.
    pub ready: bool,
    /// Who controls it; `None` is an unmanaged pod.
    pub controller: Option<Controller>,
    /// It mirrors a static pod.
    pub mirror: bool,
    /// It tolerates `node.kubernetes.io/unschedulable`.
    pub tolerates_unschedulable: bool,
    /// It has an emptyDir volume.
    pub empty_dir: bool,
    /// It is one of our executors.
    pub executor: bool,
    /// When the kubelet started it, else when it was created.
    pub since: Timestamp,
}
