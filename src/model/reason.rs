//! Why a node is, or is not, being moved: one line each, the same on every surface.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Breadth, DEFAULT_COMPARTMENT, Group, InterruptKind, NodeNames, PackageId, PodRef, Stage,
    StopCause,
};

/// Why something happens, waits, or cannot go on.
///
/// The text of [`fmt::Display`] is the only wording there is; surfaces differ in layout alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are the facts that the sentence names")]
pub enum Reason {
    /// Every package is as wanted.
    UpToDate,
    /// Picked in this tick.
    Picking { batch: u32 },
    /// An executor is being started.
    Starting { package: PackageId, stage: Stage, attempt: u32 },
    /// An executor runs.
    Running { package: PackageId, stage: Stage, since: Timestamp },
    /// An executor exists but has not started.
    NotStarted { package: PackageId, stage: Stage, why: String, since: Timestamp },
    /// What happened is being recorded.
    Recording { group: Group },
    /// The node is being let go.
    Releasing,
    /// Pods are being moved off, or end.
    Draining { pods: u32, first: PodRef, since: Timestamp },
    /// The drain took longer than `drainConfig.timeout`.
    DrainTimedOut { why: String },
    /// A pod cannot be moved as `drainConfig` has it.
    DrainRefused { pod: PodRef, why: String },
    /// A protected pod runs.
    ProtectedPod { pods: u32, first: PodRef, owner: Option<String>, since: Timestamp },
    /// A disruption budget does not let a pod go.
    DisruptionBudget { pods: u32, pod: PodRef, why: String },
    /// The cordon is written but not yet read back.
    CordonNotSeen,
    /// The interrupt was issued.
    Interrupting { kind: InterruptKind, since: Timestamp },
    /// The reboot was issued and the node has not come back.
    Rebooting { since: Timestamp },
    /// A failed attempt is repeated later.
    BackingOff { package: PackageId, stage: Stage, attempt: u32, until: Timestamp },
    /// A stage failed for good.
    Failed { package: PackageId, stage: Stage, attempts: u32, why: String },
    /// The interrupt failed for good.
    InterruptFailed { kind: InterruptKind, why: String },
    /// Its batch has not come.
    WaitingForBatch { batch: u32 },
    /// The batch waits for a snapshot to be written.
    PreparingBatch,
    /// A package is new to the cluster, and others have it first.
    FirstUse { package: PackageId, nodes: NodeNames },
    /// The budget has no room.
    BudgetUsed { ceiling: u32, nodes: NodeNames },
    /// The budget is zero.
    BudgetZero,
    /// The selector takes in every node, or the control plane, and nobody approved that.
    SelectsEverything { breadth: Breadth },
    /// Failed batches stopped a compartment.
    Stopped { compartment: String, batch: u32, failures: u32, cause: Option<StopCause> },
    /// An earlier rollout is not done here.
    Predecessor { rollout: String },
    /// Another rollout works on the node.
    OtherRollout { rollout: String },
    /// Somebody stopped everything: `nodewright stop --all`.
    StoppedByHand { note: String },
    /// The resource is paused.
    Paused,
    /// The resource is disabled.
    Disabled,
    /// The resource is being deleted.
    Deleting,
    /// Resources of a new revision are still being written.
    ApplyingRevision { revision: String },
    /// Git cannot be trusted or read; running work goes on.
    SourceHeld { why: String },
    /// The resource cannot be read.
    InvalidResource { why: String },
    /// The policy does not exist.
    PolicyMissing { policy: String },
    /// A package stands where nothing follows by itself, until a person has looked.
    PackageFinding { package: String, why: String },
    /// Packages wait for others that cannot complete.
    DependencyMissing { package: String, on: String },
    /// A package that had begun waits for one that it depends on, or with `serial` for its turn.
    WaitingForPackage { package: String, on: String },
    /// The node is not ready and not ours.
    NodeNotReady { since: Option<Timestamp> },
    /// The node is down for so long that it is outside the rollout until it is back.
    InRepair { since: Timestamp },
    /// The node is being deleted.
    NodeDeleting,
    /// Somebody lifted our cordon: nothing starts on the node until asked to go on.
    Uncordoned { manager: Option<String> },
    /// The ignore label is set.
    Ignored,
    /// A taint is not tolerated.
    TaintNotTolerated { taint: String },
    /// Its images are pulled before it is cordoned.
    Pulling { package: PackageId, since: Timestamp },
    /// An image cannot be pulled; the node was not touched.
    PullFailed { package: PackageId, image: String, node: String, why: String, since: Timestamp },
    /// Another operator works on the node.
    HandsOff { by: String, mark: String },
    /// Somebody asked that nothing new be started on the node.
    HeldByHand { why: String },
    /// A node that joined waits for its runtime-required taint.
    TaintPending { taint: String },
    /// The node does not offer the GPUs it offered before.
    GpusMissing { offered: u32, before: u32, since: Timestamp },
    /// The Node object stands for another host than before: nothing that was installed is on it.
    HostReplaced { before: String, now: String },
    /// A Job or pod of upstream's operator is not over.
    UpstreamWork { package: PackageId, stage: Stage, object: String, since: Timestamp },
    /// A disruption budget that can never let the pod go.
    BudgetNever { pod: PodRef, budget: String, desired: u32, expected: u32 },
    /// More than one budget covers the pod, which the eviction API refuses.
    SeveralBudgets { pod: PodRef, budgets: Vec<String> },
    /// A budget counts a pod that is not ready.
    UnhealthyPodHeld { pod: PodRef, budget: String },
    /// A controller lifts our cordon again and again.
    CordonFought { manager: String, times: u32 },
    /// Let go because a protected pod ran too long; tried again after the others.
    ProtectedLast { first: PodRef, since: Timestamp },
    /// The resource is being deleted and cannot be.
    DeletionBlocked { why: String },
    /// A package refers to a Secret or ConfigMap, or a key of it, that does not exist.
    ReferenceMissing { package: String, object: String },
    /// An object that the next step needs cannot be created.
    NotCreated { object: String, why: String, since: Timestamp },
    /// An annotation of ours cannot be read.
    MalformedState { why: String },
    /// An invariant would be broken: a defect, frozen until it is looked at.
    Frozen { invariant: String },
}

/// What kind of verdict it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    /// Something is done, or runs.
    Act,
    /// Goes on by itself.
    Wait,
    /// Something outside must change.
    Blocked,
    /// Nothing to do.
    Done,
}

/// What happens on a node for a rollout, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The kind.
    pub kind: VerdictKind,
    /// The reason.
    #[serde(flatten)]
    pub reason: Reason,
}

impl Verdict {
    /// Returns that something is done.
    pub fn act(reason: Reason) -> Self {
        Self { kind: VerdictKind::Act, reason }
    }

    /// Returns that it goes on by itself.
    pub fn wait(reason: Reason) -> Self {
        Self { kind: VerdictKind::Wait, reason }
    }

    /// Returns that something outside must change.
    pub fn blocked(reason: Reason) -> Self {
        Self { kind: VerdictKind::Blocked, reason }
    }

    /// Returns that nothing is to do.
    pub fn done() -> Self {
        Self { kind: VerdictKind::Done, reason: Reason::UpToDate }
    }

    /// Returns whether the rollout is complete as far as this node goes: it has what is wanted, or
    /// is in repair and caught up when it returns.
    pub fn is_through(&self) -> bool {
        self.kind == VerdictKind::Done || matches!(self.reason, Reason::InRepair { .. })
    }
}

impl Reason {
    /// Returns the variant's name, for metrics, conditions and events.
    pub fn word(&self) -> &'static str {
        match self {
            Self::UpToDate => "UpToDate",
            Self::Picking { .. } => "Picking",
            Self::Starting { .. } => "Starting",
            Self::Running { .. } => "Running",
            Self::NotStarted { .. } => "NotStarted",
            Self::Recording { .. } => "Recording",
            Self::Releasing => "Releasing",
            Self::Draining { .. } => "Draining",
            Self::DrainTimedOut { .. } => "DrainTimedOut",
            Self::DrainRefused { .. } => "DrainRefused",
            Self::ProtectedPod { .. } => "ProtectedPod",
            Self::DisruptionBudget { .. } => "DisruptionBudget",
            Self::CordonNotSeen => "CordonNotSeen",
            Self::Interrupting { .. } => "Interrupting",
            Self::Rebooting { .. } => "Rebooting",
            Self::BackingOff { .. } => "BackingOff",
            Self::Failed { .. } => "Failed",
            Self::InterruptFailed { .. } => "InterruptFailed",
            Self::WaitingForBatch { .. } => "WaitingForBatch",
            Self::PreparingBatch => "PreparingBatch",
            Self::FirstUse { .. } => "FirstUse",
            Self::BudgetUsed { .. } => "BudgetUsed",
            Self::BudgetZero => "BudgetZero",
            Self::SelectsEverything { .. } => "SelectsEverything",
            Self::Stopped { .. } => "Stopped",
            Self::Predecessor { .. } => "Predecessor",
            Self::OtherRollout { .. } => "OtherRollout",
            Self::StoppedByHand { .. } => "StoppedByHand",
            Self::Paused => "Paused",
            Self::Disabled => "Disabled",
            Self::Deleting => "Deleting",
            Self::ApplyingRevision { .. } => "ApplyingRevision",
            Self::SourceHeld { .. } => "SourceHeld",
            Self::InvalidResource { .. } => "InvalidResource",
            Self::PolicyMissing { .. } => "PolicyMissing",
            Self::PackageFinding { .. } => "PackageFinding",
            Self::DependencyMissing { .. } => "DependencyMissing",
            Self::WaitingForPackage { .. } => "WaitingForPackage",
            Self::NodeNotReady { .. } => "NodeNotReady",
            Self::InRepair { .. } => "InRepair",
            Self::NodeDeleting => "NodeDeleting",
            Self::Uncordoned { .. } => "Uncordoned",
            Self::Ignored => "Ignored",
            Self::TaintNotTolerated { .. } => "TaintNotTolerated",
            Self::Pulling { .. } => "Pulling",
            Self::PullFailed { .. } => "PullFailed",
            Self::HandsOff { .. } => "HandsOff",
            Self::HeldByHand { .. } => "HeldByHand",
            Self::TaintPending { .. } => "TaintPending",
            Self::GpusMissing { .. } => "GpusMissing",
            Self::HostReplaced { .. } => "HostReplaced",
            Self::UpstreamWork { .. } => "UpstreamWork",
            Self::BudgetNever { .. } => "BudgetNever",
            Self::SeveralBudgets { .. } => "SeveralBudgets",
            Self::UnhealthyPodHeld { .. } => "UnhealthyPodHeld",
            Self::CordonFought { .. } => "CordonFought",
            Self::ProtectedLast { .. } => "ProtectedLast",
            Self::DeletionBlocked { .. } => "DeletionBlocked",
            Self::ReferenceMissing { .. } => "ReferenceMissing",
            Self::NotCreated { .. } => "NotCreated",
            Self::MalformedState { .. } => "MalformedState",
            Self::Frozen { .. } => "Frozen",
        }
    }
}

impl fmt::Display for Reason {
    #[expect(clippy::too_many_lines, reason = "one line of text per reason, all in one place")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpToDate => f.write_str("every package is as wanted"),
            Self::Picking { batch } => write!(f, "picked for batch {batch}"),
            Self::Starting { package, stage, attempt } => {
                write!(f, "starting {stage} of {package}, attempt {attempt}")
            }
            Self::Running { package, stage, since } => {
                write!(f, "{stage} of {package} runs since {since:.0}")
            }
            Self::NotStarted { package, stage, why, since } => {
                write!(f, "{stage} of {package} has not started since {since:.0}: {why}")
            }
            Self::Recording { group } => write!(f, "recording what the {group} pod did"),
            Self::Releasing => f.write_str("letting the node go"),
            Self::Draining { pods, first, since } => {
                write!(f, "draining since {since:.0}: {}", others(*pods, first))
            }
            Self::DrainTimedOut { why } => f.write_str(why),
            Self::DrainRefused { pod, why } => write!(f, "pod {pod} may not be moved: {why}"),
            Self::ProtectedPod { pods, first, owner, since } => {
                write!(
                    f,
                    "protected: {} must finish, runs since {since:.0}",
                    others(*pods, first)
                )?;
                owner.as_ref().map_or(Ok(()), |owner| write!(f, " ({owner})"))
            }
            Self::DisruptionBudget { pods, pod, why } => {
                write!(f, "a disruption budget holds {}: {why}", others(*pods, pod))
            }
            Self::CordonNotSeen => f.write_str("cordoned, not yet read back"),
            Self::Interrupting { kind, since } => {
                write!(f, "interrupt {kind} runs since {since:.0}")
            }
            Self::Rebooting { since } => {
                write!(f, "reboot issued at {since:.0}, waiting for the node to come back")
            }
            Self::BackingOff { package, stage, attempt, until } => {
                write!(f, "attempt {attempt} at {stage} of {package} failed, next at {until:.0}")
            }
            Self::Failed { package, stage, attempts, why } => {
                write!(f, "{stage} of {package} failed {attempts} times: {why}")
            }
            Self::InterruptFailed { kind, why } => write!(f, "interrupt {kind} failed: {why}"),
            Self::WaitingForBatch { batch } => write!(f, "waits for a batch after batch {batch}"),
            Self::PreparingBatch => f.write_str("the next batch is being prepared"),
            Self::FirstUse { package, nodes } if nodes.is_empty() => {
                write!(f, "{package} is new to this cluster: another node gets it first")
            }
            Self::FirstUse { package, nodes } => write!(
                f,
                "{package} is new to this cluster: waits until it is complete on {}",
                first_names(nodes)
            ),
            Self::BudgetUsed { ceiling, nodes } => write!(
                f,
                "budget used: {} of {ceiling} disturbed ({})",
                nodes.len(),
                first_names(nodes)
            ),
            Self::BudgetZero => {
                f.write_str("interruptionBudget is zero: nobody is picked until it is raised")
            }
            Self::SelectsEverything { breadth } => {
                write!(f, "{breadth}: nobody is picked until a person approves it")
            }
            Self::Stopped { compartment, batch, failures, cause } => {
                if compartment != DEFAULT_COMPARTMENT {
                    write!(f, "compartment {compartment} ")?;
                }
                match failures {
                    1 => write!(f, "stopped after batch {batch} failed")?,
                    _ => write!(
                        f,
                        "stopped after {failures} failed batches in a row, the last was batch \
                         {batch}"
                    )?,
                }
                cause.as_ref().map_or(Ok(()), |cause| write!(f, "; {cause}"))
            }
            Self::Predecessor { rollout } => write!(f, "waits for {rollout} to complete here"),
            Self::OtherRollout { rollout } => write!(f, "{rollout} works on the node"),
            Self::StoppedByHand { note } if note.trim().is_empty() => {
                f.write_str("everything is stopped by hand: nothing new is disturbed")
            }
            Self::StoppedByHand { note } => {
                write!(f, "everything is stopped by hand ({note}): nothing new is disturbed")
            }
            Self::Paused => f.write_str("paused by annotation"),
            Self::Disabled => f.write_str("disabled by annotation"),
            Self::Deleting => f.write_str("the resource is being deleted"),
            Self::ApplyingRevision { revision } => {
                write!(f, "resources of {revision} are still being written")
            }
            Self::SourceHeld { why } => write!(f, "nothing new begins: {why}"),
            Self::InvalidResource { why } => write!(f, "the resource cannot be read: {why}"),
            Self::PolicyMissing { policy } => {
                write!(f, "DeploymentPolicy {policy} does not exist: create it or use a budget")
            }
            Self::PackageFinding { package, why } => write!(f, "{package}: {why}"),
            Self::DependencyMissing { package, on } => {
                write!(f, "{package} depends on {on}, which cannot complete here")
            }
            Self::WaitingForPackage { package, on } => write!(f, "{package} waits for {on}"),
            Self::NodeNotReady { since: Some(since) } => {
                write!(f, "the node is not ready since {since:.0}")
            }
            Self::NodeNotReady { since: None } => f.write_str("the node is not ready"),
            Self::InRepair { since } => write!(
                f,
                "in repair: not ready since {since:.0}, before it was picked; outside the rollout \
                 until it is back"
            ),
            Self::NodeDeleting => f.write_str("the node is being deleted"),
            Self::Uncordoned { manager: Some(manager) } => {
                write!(f, "uncordoned by {manager} while we hold it: cordon it again to go on")
            }
            Self::Uncordoned { manager: None } => {
                f.write_str("uncordoned while we hold it: cordon it again to go on")
            }
            Self::Ignored => f.write_str("ignored by label"),
            Self::TaintNotTolerated { taint } => write!(
                f,
                "taint {taint} is not tolerated: add it to additionalTolerations or remove it"
            ),
            Self::Pulling { package, since } => {
                write!(f, "pulling the images of {package} since {since:.0}, before the cordon")
            }
            Self::PullFailed { package: _, image, node, why, since } => write!(
                f,
                "image {image} cannot be pulled on {node} since {since:.0}, the node is \
                 untouched: {why}"
            ),
            Self::HandsOff { by, mark } => write!(f, "hands off: {by} works on the node ({mark})"),
            Self::HeldByHand { why } => write!(f, "held by annotation: {why}"),
            Self::TaintPending { taint } => {
                write!(f, "waits for its taint {taint} to be set first")
            }
            Self::GpusMissing { offered, before, since } => write!(
                f,
                "offers {offered} of {before} GPUs since {since:.0}: stays cordoned until all \
                 are there"
            ),
            Self::HostReplaced { before, now } => write!(
                f,
                "another host under the same Node object, machine ID {before} became {now}: \
                 everything is installed again"
            ),
            Self::UpstreamWork { package, stage, object, since } => write!(
                f,
                "{stage} of {package} was started by upstream's operator at {since:.0}: waits \
                 for {object}"
            ),
            Self::BudgetNever { pod, budget, desired, expected } => write!(
                f,
                "PodDisruptionBudget {budget} can never be satisfied: it wants {desired} of \
                 {expected} \
                 pods at all times, so pod {pod} stays"
            ),
            Self::SeveralBudgets { pod, budgets } => write!(
                f,
                "pod {pod} is covered by more than one PodDisruptionBudget ({}): it can never \
                 be evicted",
                budgets.join(", ")
            ),
            Self::UnhealthyPodHeld { pod, budget } => write!(
                f,
                "pod {pod} is not ready, and PodDisruptionBudget {budget} still protects it"
            ),
            Self::CordonFought { manager, times } => write!(
                f,
                "{manager} lifted our cordon, it was put back {times} times: nothing more \
                 starts here"
            ),
            Self::ProtectedLast { first, since } => write!(
                f,
                "let go because pod {first} must finish, runs since {since:.0}: tried again \
                 after the others"
            ),
            Self::DeletionBlocked { why } => write!(f, "the resource cannot be deleted yet: {why}"),
            Self::ReferenceMissing { package, object } => {
                write!(f, "package {package} reads {object}, which does not exist: create it")
            }
            Self::NotCreated { object, why, since } => {
                write!(f, "{object} cannot be created since {since:.0}: {why}")
            }
            Self::MalformedState { why } => {
                write!(f, "an annotation of ours cannot be read and is left alone: {why}")
            }
            Self::Frozen { invariant } => {
                write!(f, "frozen, this is a defect in NodeWright: {invariant}")
            }
        }
    }
}

/// Returns `pod` or `pod and n more`.
fn others(pods: u32, first: &PodRef) -> String {
    match pods {
        0 | 1 => format!("pod {first}"),
        _ => format!("pod {first} and {} more", pods - 1),
    }
}

/// Returns at most three names, and how many more.
fn first_names(names: &[String]) -> String {
    const SHOWN_MAX: usize = 3;
    let shown = names.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
