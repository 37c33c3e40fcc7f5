//! The planner's input and its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::{
    Action, Budget, Desired, Executor, Node, Outlook, Package, Pod, Reason, Status, Taint,
    TaintEffect, UpstreamStatus, UpstreamWork, Verdict,
};

/// A resource as it stands in the cluster, beside its validated spec in [`Desired`].
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// UID of the object.
    pub uid: String,
    /// Version for optimistic writes.
    pub resource_version: String,
    /// metadata.generation.
    pub generation: i64,
    /// `P/pause` is `"true"`.
    pub paused: bool,
    /// `P/disable` is `"true"`.
    pub disabled: bool,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// The status as it stands; `None` before the first write.
    pub status: Option<Status>,
    /// What upstream's operator remembered in the status, while it is still there.
    pub upstream: Option<UpstreamStatus>,
}

/// A snapshot that exists in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The rollout it belongs to.
    pub rollout: String,
    /// UID of the ConfigMap.
    pub uid: String,
    /// What was, or will be, put on nodes.
    pub package: Package,
}

/// An eviction that the API server refused, remembered so that it is not asked every second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// When it was refused.
    pub at: Timestamp,
    /// What the API server said: which budget.
    pub message: String,
    /// What was found behind it.
    pub cause: RefusalCause,
}

/// Something that the API server does not let us create, and that no later request will mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Since when, without an answer in between that was better.
    pub since: Timestamp,
    /// When it was refused last.
    pub at: Timestamp,
    /// Why, in the API server's words, and what to do.
    pub message: String,
}

/// Why the API server did not let a pod go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RefusalCause {
    /// Nothing more than the message is known.
    #[default]
    Unknown,
    /// This budget has no room now.
    Budget(DisruptionBudget),
    /// More than one budget covers the pod: no eviction will ever be let through.
    SeveralBudgets(Vec<String>),
}

/// A PodDisruptionBudget as its controller counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionBudget {
    /// `namespace/name`.
    pub name: String,
    /// `status.expectedPods`.
    pub expected: u32,
    /// `status.currentHealthy`.
    pub healthy: u32,
    /// `status.desiredHealthy`: fewer are never left.
    pub desired: u32,
}

impl DisruptionBudget {
    /// Returns whether it can never let a pod go, however healthy all of them are.
    pub fn is_never(&self) -> bool {
        self.expected > 0 && self.desired >= self.expected
    }
}

/// Everything that was seen in one look.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Resources by name.
    pub resources: BTreeMap<String, Resource>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Node>,
    /// Executor pods by pod name.
    pub executors: BTreeMap<String, Executor>,
    /// Pods of others by node, then by `namespace/name`.
    pub pods: BTreeMap<String, BTreeMap<String, Pod>>,
    /// Evictions refused by a disruption budget, by UID of the pod.
    pub refusals: BTreeMap<String, Refusal>,
    /// What could not be created: executors by [`super::VisitRef::executor_key`], snapshots by
    /// name.
    pub rejections: BTreeMap<String, Rejection>,
    /// Unfinished or not yet credited Jobs and pods of upstream's operator, by kind and name.
    pub upstream: BTreeMap<String, UpstreamWork>,
    /// Snapshots by name.
    pub snapshots: BTreeMap<String, Snapshot>,
}

/// Whether new work may begin at all.
#[derive(Debug, Clone, PartialEq)]
pub enum Opening {
    /// Batches may be opened.
    Allowed,
    /// Running visits go on; nothing new begins.
    Held(Reason),
}

/// The cluster's own limits, which hold whatever the manifests say (design §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// Percent of a rollout's nodes disturbed at once where it names no budget.
    pub max_disturbed_percent: u32,
    /// Failed batches in a row that stop a rollout whose policy names no threshold; `None` never.
    pub stop_after: Option<u32>,
    /// Nodes that a package input new to the cluster starts with; `None`: as many as the pace has.
    pub first_use: Option<u32>,
    /// A node that is down for longer than this before it is picked is in repair: outside ceiling
    /// and completion, and caught up when it returns.
    pub repair_after: Duration,
    /// Whether what is written by mistake more often than on purpose is held.
    pub guards: Guards,
}

/// What becomes of a budget of zero, and of a selector that matches nothing, or too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guards {
    /// Zero picks nobody; a resource without nodes is not complete; one that selects every node,
    /// or nodes of the control plane, waits for a person's approval.
    Ours,
    /// Zero picks one node at a time; a resource without nodes is complete; any selector begins.
    Upstream,
}

/// Longer than a reboot with a firmware update, shorter than a night with a dead node in a budget.
pub const REPAIR_AFTER_DEFAULT: Duration = Duration::from_hours(2);

impl Default for Floor {
    fn default() -> Self {
        Self {
            max_disturbed_percent: 10,
            stop_after: Some(2),
            first_use: Some(1),
            repair_after: REPAIR_AFTER_DEFAULT,
            guards: Guards::Ours,
        }
    }
}

impl Floor {
    /// Returns no floor at all: manifests alone say how fast, as with upstream's operator
    /// (upstream contract B.10). What *in repair* means is not part of it.
    pub fn upstream() -> Self {
        Self {
            max_disturbed_percent: 100,
            stop_after: None,
            first_use: None,
            guards: Guards::Upstream,
            ..Self::default()
        }
    }

    /// Returns the budget that holds where a manifest says this one.
    pub fn budget(self, written: Budget) -> Budget {
        let one = self.guards == Guards::Upstream && written.is_zero();
        if one { Budget::Count(1) } else { written }
    }
}

/// How this cluster treats nodes beside what resources say (upstream contract B.12, H.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRules {
    /// The taint that keeps workloads off a node until its runtime-required rollouts are complete.
    pub runtime_taint: Taint,
    /// Taints that mean the same and are removed too, such as the one under the former name.
    pub runtime_taints_recognised: Vec<Taint>,
    /// Packages are applied again after each reboot.
    pub reapply_on_reboot: bool,
    /// How long a stage and its check may take where the package does not say; zero is no limit.
    pub default_stage_timeout: Duration,
}

/// Upstream's `JOB_STAGE_TIMEOUT` (upstream contract H.3).
pub const STAGE_TIMEOUT_DEFAULT: Duration = Duration::from_hours(1);

impl Default for NodeRules {
    fn default() -> Self {
        let taint = |key: &str| Taint {
            key: key.to_owned(),
            value: "runtime-required".to_owned(),
            effect: TaintEffect::NoSchedule,
        };
        Self {
            runtime_taint: taint("nodewright.nvidia.com"),
            runtime_taints_recognised: vec![taint("skyhook.nvidia.com")],
            reapply_on_reboot: false,
            default_stage_timeout: STAGE_TIMEOUT_DEFAULT,
        }
    }
}

impl NodeRules {
    /// Returns whether the taint means that the node waits for its runtime-required rollouts.
    pub fn is_runtime_taint(&self, taint: &Taint) -> bool {
        *taint == self.runtime_taint || self.runtime_taints_recognised.contains(taint)
    }
}

/// Everything a decision depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The time of the decision.
    pub now: Timestamp,
    /// What is wanted, as the cluster's resources say.
    pub desired: Desired,
    /// What is there.
    pub observed: Observed,
    /// Why nothing is disturbed any more anywhere, visits under way included; what runs ends.
    pub halt: Option<Reason>,
    /// What people approved, by rollout: the text of [`super::approval`].
    pub approvals: BTreeMap<String, String>,
    /// Whether new work may begin, by rollout; absent is allowed.
    pub opening: BTreeMap<String, Opening>,
    /// The cluster's own limits.
    pub floor: Floor,
    /// How this cluster treats nodes.
    pub rules: NodeRules,
    /// The node the daemon runs on goes last.
    pub own_node: Option<String>,
    /// The pod the daemon runs in, `namespace/name`: moved only where it can start elsewhere.
    pub own_pod: Option<String>,
}

/// What to do, and why not more.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use = "a plan that is not executed changes nothing, and its verdicts are the explanation"]
pub struct Plan {
    /// What to do, in an order that holds within each [`super::Lane`].
    pub actions: Vec<Action>,
    /// By rollout, then node: what happens there and why.
    pub verdicts: BTreeMap<String, BTreeMap<String, Verdict>>,
    /// The status each rollout ought to show.
    pub statuses: BTreeMap<String, Status>,
    /// By rollout, then compartment: the batches to come, and what would stop them.
    pub outlooks: BTreeMap<String, BTreeMap<String, Outlook>>,
    /// When something changes by time alone: plan again then.
    pub wake_at: Option<Timestamp>,
    /// Nodes whose pods must be known for the next decision, beside protected ones.
    pub drains: BTreeSet<String>,
}
