//! What the drain does with one pod: upstream's table, first match wins (contract B.6).
//!
//! In: a pod, its node and `drainConfig`. Out: one [`Treatment`].
//! Must never: wait for a pod that nothing will ever end, or move one that comes back at once.

use jiff::Timestamp;

use super::super::limits::{UNREACHABLE_MARGIN, after};
use crate::model::{DrainConfig, EvictionMethod, Node, Pod, PodPhase};

/// The taint of a node whose kubelet is not heard of; one that is merely not ready has another.
const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";

/// The kind of owner that a static pod's mirror has: its node.
const NODE_KIND: &str = "Node";

/// Why a pod without a controller is not moved.
const UNMANAGED: &str = "it has no controller that would start it elsewhere (drainConfig.force)";

/// Why a pod with an emptyDir is not moved.
pub(super) const EMPTY_DIR: &str = "its emptyDir would be lost (drainConfig.deleteEmptyDirData)";

/// What the drain does with a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It may stay: it has ended, or it comes back wherever it is moved from.
    Ignore,
    /// It is going; its object must be gone before the node is drained.
    Await,
    /// It may not be moved as `drainConfig` has it.
    Refuse(&'static str),
    /// It is moved, with its grace period.
    Move(EvictionMethod),
}

/// Returns what becomes of a pod, by the first row that fits.
///
/// The exemptions come before the wait for what is going, else the last seconds of a DaemonSet's
/// pod would hold the drain up (failures A2).
pub(super) fn treatment(pod: &Pod, node: &Node, config: &DrainConfig, now: Timestamp) -> Treatment {
    let daemon_set = pod.controller.as_ref().is_some_and(|owner| owner.kind == "DaemonSet");
    let is_static = pod.controller.as_ref().is_some_and(|owner| owner.kind == NODE_KIND);
    if !is_running(pod)
        || pod.executor
        || pod.tolerates_unschedulable
        || (daemon_set && config.ignore_daemon_sets)
        || pod.reference.namespace == "kube-system"
        || pod.mirror
        || is_static
        || is_lost(pod, node, now)
    {
        Treatment::Ignore
    } else if pod.terminating {
        Treatment::Await
    } else if pod.controller.is_none() && !config.force {
        Treatment::Refuse(UNMANAGED)
    } else if pod.empty_dir && !config.delete_empty_dir {
        Treatment::Refuse(EMPTY_DIR)
    } else if config.disable_eviction {
        Treatment::Move(EvictionMethod::Delete)
    } else {
        Treatment::Move(EvictionMethod::Evict)
    }
}

/// Returns whether a pod may still do something. Differs from upstream, which ignores a pod in
/// phase Unknown: nobody has seen it end.
pub(super) fn is_running(pod: &Pod) -> bool {
    match pod.phase {
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => true,
        PodPhase::Succeeded | PodPhase::Failed => false,
    }
}

/// Returns whether a pod that is going will never be seen to be gone, because no kubelet is there
/// to say so (failures A16): its node is unreachable, and its time is over.
pub(super) fn is_lost(pod: &Pod, node: &Node, now: Timestamp) -> bool {
    let unreachable = node.taints.iter().any(|taint| taint.key == UNREACHABLE_TAINT);
    let over = pod.deletes_at.is_some_and(|at| after(at, UNREACHABLE_MARGIN) <= now);
    pod.terminating && unreachable && over
}

/// Returns when [`is_lost`] becomes true by time alone.
pub(super) fn lost_at(pod: &Pod, node: &Node) -> Option<Timestamp> {
    let unreachable = node.taints.iter().any(|taint| taint.key == UNREACHABLE_TAINT);
    let at = pod.deletes_at.filter(|_| pod.terminating && unreachable)?;
    Some(after(at, UNREACHABLE_MARGIN))
}
