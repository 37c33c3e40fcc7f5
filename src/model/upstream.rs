//! What upstream's operator left in a cluster that is taken over.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{BatchState, ExecutorPhase, Failure, PackageId, Stage};

/// What upstream keeps in a resource's status and we keep elsewhere (upstream contract A.6). It is
/// imported once, before our first write of the status drops it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// `nodePriority`: when each node of the running batch was picked.
    pub node_priority: BTreeMap<String, Timestamp>,
    /// `nodeOrderOffset`: nodes that ever left `nodePriority`.
    pub node_order_offset: u32,
    /// `nodeBootIds`: the boot each node was last seen with.
    pub node_boot_ids: BTreeMap<String, String>,
    /// `configUpdates`: changed config keys by package. While there are any, they alone say
    /// whether the package is to be interrupted (upstream contract B.2).
    pub config_updates: BTreeMap<String, BTreeSet<String>>,
    /// `batchState` by compartment.
    pub batches: BTreeMap<String, BatchState>,
}

impl UpstreamStatus {
    /// Returns the first order number that upstream has not given to a node.
    pub fn order_next(&self) -> u32 {
        let running = u32::try_from(self.node_priority.len()).unwrap_or(u32::MAX);
        self.node_order_offset.saturating_add(running)
    }
}

/// What becomes of the maps that upstream keeps in a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamMaps {
    /// They stay: something in them is still to be taken over.
    Keep,
    /// They go: every node in them is complete or has a record of ours.
    Drop,
}

/// What kind of object upstream ran a stage as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum UpstreamKind {
    /// A Job, since v0.18.
    Job,
    /// A bare pod, before.
    Pod,
}

/// Names one Job or pod of upstream's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UpstreamRef {
    /// Job or pod.
    pub kind: UpstreamKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, the precondition.
    pub uid: String,
}

/// A stage that upstream's operator started: it is waited for and credited, never started again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpstreamWork {
    /// Which object.
    pub reference: UpstreamRef,
    /// The rollout it belongs to.
    pub rollout: String,
    /// The node it runs on.
    pub node: String,
    /// The package it is for.
    pub package: PackageId,
    /// The stage it runs.
    pub stage: Stage,
    /// When it was created, by the API server's clock: compared with other times of the server.
    pub created: Timestamp,
    /// When we first saw it, by our clock: deadlines count from it.
    pub seen: Timestamp,
    /// How far it is.
    pub phase: ExecutorPhase,
    /// Failed attempts so far.
    pub restarts: u32,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// It is being deleted.
    pub terminating: bool,
}
