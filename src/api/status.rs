//! The status of the resources: upstream's words, and ours under one object, `rollout`.
//!
//! In and out: JSON (upstream contract A.6; design §4). Of bounded size: what is true of one node
//! stays on that node. Upstream's per-node maps are in the CRD, so that an object it wrote keeps
//! validating, but not here: they are never read or written. Must never: hold a decision.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::lenient::null_as_default;

/// Where a rollout stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeWrightStatus {
    /// Generation of the spec that was last completed everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The rollout in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusWord>,

    /// Nodes that are worked on or failed.
    #[serde(default, deserialize_with = "null_as_default")]
    pub nodes_in_progress: i32,

    /// Complete nodes out of all, as `n/m`.
    #[serde(default = "no_nodes")]
    pub complete_nodes: String,

    /// The packages as `name:version`, sorted, with commas between.
    #[serde(default, deserialize_with = "null_as_default")]
    pub package_list: String,

    /// What is true of the rollout, by type (upstream contract A.7).
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// Counts and batches, by compartment.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub compartment_statuses: BTreeMap<String, CompartmentStatus>,

    /// Our own memory of the rollout, which upstream does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
}

/// A rollout, or a node in it, in one word (upstream contract A.6, B.13).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum StatusWord {
    /// Not looked at yet.
    #[default]
    Unknown,
    /// Everything is where it should be.
    Complete,
    /// Something must change before it can go on.
    Blocked,
    /// Its turn has not come.
    Waiting,
    /// Switched off by annotation.
    Disabled,
    /// Held by annotation.
    Paused,
    /// Work is going on.
    InProgress,
    /// Work failed.
    Erroring,
}

/// Counts and the batch of one compartment (upstream contract A.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompartmentStatus {
    /// Nodes in the compartment.
    #[serde(default)]
    pub matched: i32,
    /// Nodes that may be worked on at a time.
    #[serde(default)]
    pub ceiling: i32,
    /// Nodes that are worked on.
    #[serde(default)]
    pub in_progress: i32,
    /// Nodes that are complete.
    #[serde(default)]
    pub completed: i32,
    /// Complete nodes out of all, 0 to 100.
    #[serde(default)]
    pub progress_percent: i32,
    /// The batches so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_state: Option<BatchState>,
}

/// The batches of one compartment so far (upstream contract A.6, B.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchState {
    /// Number of the batch, from 1.
    #[serde(default = "first_batch")]
    pub current_batch: i32,
    /// Failed batches in a row.
    #[serde(default)]
    pub consecutive_failures: i32,
    /// Complete nodes at the last verdict.
    #[serde(default)]
    pub completed_nodes: i32,
    /// Failed nodes at the last verdict.
    #[serde(default)]
    pub failed_nodes: i32,
    /// The compartment is stopped.
    #[serde(default)]
    pub should_stop: bool,
    /// Nodes that finished in the last batch.
    #[serde(default)]
    pub last_batch_size: i32,
    /// The last batch missed its threshold.
    #[serde(default)]
    pub last_batch_failed: bool,
}

impl Default for BatchState {
    fn default() -> Self {
        Self {
            current_batch: first_batch(),
            consecutive_failures: 0,
            completed_nodes: 0,
            failed_nodes: 0,
            should_stop: false,
            last_batch_size: 0,
            last_batch_failed: false,
        }
    }
}

/// Our own memory of a rollout (design §4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Digest of what is being rolled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// First order number not yet reserved; numbers never repeat within a rollout.
    #[serde(default)]
    pub order_offset: i64,
    /// When the first batch of the target was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When every node was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<Time>,
    /// The open batches, by compartment.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub compartments: BTreeMap<String, CompartmentRollout>,
    /// What was complete last, each set of packages once: for nodes that join what was stopped.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub completed_packages: Vec<CompletedPackages>,
}

/// Packages that every node of some compartments had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletedPackages {
    /// The compartments in which they were complete last.
    #[serde(default)]
    pub compartments: BTreeSet<String>,
    /// By package: the ConfigMap that keeps it as it was.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
}

/// What we remember of one compartment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompartmentRollout {
    /// Digest that the compartment's counters speak of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The batch whose verdict is still open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_batch: Option<OpenBatch>,
    /// Sizes of the batches after it, in order, if every node succeeds from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batches_to_come: Option<String>,
}

/// A batch, opened before its first node is picked (design §4 write rule 1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenBatch {
    /// Number of the batch, from 1.
    pub number: i32,
    /// Nodes that may be picked for it.
    pub size: i32,
    /// First order number reserved for its nodes; it reserves as many as its size.
    pub order_from: i64,
    /// How many of them are given, from the first on.
    #[serde(default)]
    pub given: i32,
    /// Numbers among them whose pick was refused: no node ever had them, so they are given yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<i64>,
    /// Digest of what it rolls out.
    pub target: String,
    /// When it was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opened: Option<Time>,
    /// It is smaller than the policy's pace has it, for the first use of a package in this cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_use: bool,
}

/// The status of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPolicyStatus {
    /// What is true of the policy, by type.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

fn no_nodes() -> String {
    "0/0".to_owned()
}

const fn first_batch() -> i32 {
    1
}
