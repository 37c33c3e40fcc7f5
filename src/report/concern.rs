//! Whose concern a reason is, and what a person can do about it.
//!
//! In: a verdict. Out: who must act, a heading to group by, a way out. The sentence itself is
//! [`Reason`]'s own; it is never worded a second time here.

use jiff::Timestamp;

use crate::model::{Reason, Verdict, VerdictKind, stopped_way_out};

/// Who has to act before a node goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// Nobody: it is done.
    Settled,
    /// Nobody: it is being worked on.
    Works,
    /// Nobody: it goes on by itself.
    Waits,
    /// Whoever switched it off on purpose; nothing is wrong.
    OnPurpose,
    /// A person: it does not go on otherwise.
    NeedsPerson,
}

/// What a reason says about itself, whatever the kind of its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nature {
    /// Gone again in a moment.
    Passing,
    /// Goes on by itself, unless the planner says that it is blocked.
    ByItself,
    /// Always one and the same concern.
    Always(Concern),
}

/// Returns who has to act.
pub fn concern(verdict: &Verdict) -> Concern {
    let (nature, _) = nature(&verdict.reason);
    match (nature, verdict.kind) {
        (Nature::Always(concern), _) => concern,
        (Nature::Passing | Nature::ByItself, VerdictKind::Done) => Concern::Settled,
        (Nature::Passing | Nature::ByItself, VerdictKind::Blocked) => Concern::NeedsPerson,
        (Nature::Passing, VerdictKind::Act | VerdictKind::Wait) => Concern::Works,
        (Nature::ByItself, VerdictKind::Act) => Concern::Works,
        (Nature::ByItself, VerdictKind::Wait) => Concern::Waits,
    }
}

/// Returns the heading that nodes with this kind of reason are counted under.
pub fn label(reason: &Reason) -> &'static str {
    nature(reason).1
}

fn nature(reason: &Reason) -> (Nature, &'static str) {
    use Nature::{Always, ByItself, Passing};
    const PERSON: Nature = Always(Concern::NeedsPerson);
    const PURPOSE: Nature = Always(Concern::OnPurpose);
    match reason {
        Reason::UpToDate => (Always(Concern::Settled), "up to date"),
        Reason::Picking { .. } => (Passing, "picked"),
        Reason::Starting { .. } => (Passing, "starting"),
        Reason::Running { .. } => (Passing, "running"),
        Reason::NotStarted { .. } => (ByItself, "executors not started"),
        Reason::Recording { .. } => (Passing, "recording"),
        Reason::Releasing => (Passing, "releasing"),
        Reason::Draining { .. } => (ByItself, "draining"),
        Reason::DrainTimedOut { .. } => (PERSON, "drain timed out"),
        Reason::DrainRefused { .. } => (PERSON, "drain refused"),
        Reason::ProtectedPod { .. } => (ByItself, "protected pods"),
        Reason::DisruptionBudget { .. } => (ByItself, "disruption budgets"),
        Reason::CordonNotSeen => (Passing, "cordoning"),
        Reason::Interrupting { .. } => (Passing, "interrupting"),
        Reason::Rebooting { .. } => (ByItself, "rebooting"),
        Reason::BackingOff { .. } => (ByItself, "backing off"),
        Reason::Failed { .. } => (PERSON, "failed"),
        Reason::InterruptFailed { .. } => (PERSON, "interrupt failed"),
        Reason::WaitingForBatch { .. } => (ByItself, "batch not come"),
        Reason::PreparingBatch => (Passing, "preparing the batch"),
        Reason::FirstUse { .. } => (ByItself, "first use of a package"),
        Reason::BudgetUsed { .. } => (ByItself, "budget used"),
        Reason::BudgetZero => (PURPOSE, "budget zero"),
        Reason::SelectsEverything { .. } => (PERSON, "selects too much"),
        Reason::Stopped { .. } => (PERSON, "stopped"),
        Reason::Predecessor { .. } => (ByItself, "earlier rollout not done"),
        Reason::OtherRollout { .. } => (ByItself, "other rollout on the node"),
        Reason::StoppedByHand { .. } => (PURPOSE, "stopped by hand"),
        Reason::Paused => (PURPOSE, "paused"),
        Reason::Disabled => (PURPOSE, "disabled"),
        Reason::Deleting => (ByItself, "resource being deleted"),
        Reason::ApplyingRevision { .. } => (ByItself, "revision being applied"),
        // What holds the source is a need of its own, said once and not once a node.
        Reason::SourceHeld { .. } => (Always(Concern::Waits), "source held"),
        Reason::InvalidResource { .. } => (PERSON, "resource unreadable"),
        Reason::PolicyMissing { .. } => (PERSON, "policy missing"),
        Reason::PackageFinding { .. } => (PERSON, "package needs a look"),
        Reason::DependencyMissing { .. } => (PERSON, "dependency cannot complete"),
        Reason::WaitingForPackage { .. } => (Passing, "packages in order"),
        Reason::NodeNotReady { .. } => (ByItself, "nodes not ready"),
        Reason::InRepair { .. } => (ByItself, "nodes in repair"),
        Reason::NodeDeleting => (Always(Concern::Waits), "nodes being deleted"),
        Reason::Uncordoned { .. } => (PERSON, "uncordoned by others"),
        Reason::Ignored => (PURPOSE, "ignored"),
        Reason::TaintNotTolerated { .. } => (PERSON, "taint not tolerated"),
        Reason::Pulling { .. } => (ByItself, "pulling images"),
        Reason::PullFailed { .. } => (PERSON, "image not pulled"),
        Reason::HandsOff { .. } => (ByItself, "other operators at work"),
        Reason::HeldByHand { .. } => (PURPOSE, "held by hand"),
        Reason::TaintPending { .. } => (Passing, "tainting"),
        Reason::GpusMissing { .. } => (ByItself, "GPUs missing"),
        Reason::HostReplaced { .. } => (ByItself, "hosts replaced"),
        Reason::UpstreamWork { .. } => (ByItself, "upstream's work not over"),
        Reason::BudgetNever { .. } => (PERSON, "budgets that never give"),
        Reason::SeveralBudgets { .. } => (PERSON, "several budgets on a pod"),
        Reason::UnhealthyPodHeld { .. } => (PERSON, "unhealthy pods held"),
        Reason::CordonFought { .. } => (PERSON, "cordon fought over"),
        Reason::ProtectedLast { .. } => (ByItself, "protected pods, put last"),
        Reason::DeletionBlocked { .. } => (PERSON, "deletion blocked"),
        Reason::ReferenceMissing { .. } => (PERSON, "missing Secret or ConfigMap"),
        Reason::NotCreated { .. } => (PERSON, "object not created"),
        Reason::MalformedState { .. } => (PERSON, "annotation unreadable"),
        Reason::Frozen { .. } => (PERSON, "frozen"),
    }
}

/// Returns since when it is so, where the reason knows.
pub fn since(reason: &Reason) -> Option<Timestamp> {
    match reason {
        Reason::Running { since, .. }
        | Reason::NotStarted { since, .. }
        | Reason::Draining { since, .. }
        | Reason::ProtectedPod { since, .. }
        | Reason::Interrupting { since, .. }
        | Reason::Rebooting { since }
        | Reason::InRepair { since }
        | Reason::Pulling { since, .. }
        | Reason::PullFailed { since, .. }
        | Reason::NotCreated { since, .. }
        | Reason::GpusMissing { since, .. }
        | Reason::UpstreamWork { since, .. }
        | Reason::ProtectedLast { since, .. } => Some(*since),
        Reason::NodeNotReady { since } => *since,
        Reason::UpToDate
        | Reason::Picking { .. }
        | Reason::Starting { .. }
        | Reason::Recording { .. }
        | Reason::Releasing
        | Reason::DrainRefused { .. }
        | Reason::DisruptionBudget { .. }
        | Reason::CordonNotSeen
        | Reason::BackingOff { .. }
        | Reason::Failed { .. }
        | Reason::InterruptFailed { .. }
        | Reason::WaitingForBatch { .. }
        | Reason::PreparingBatch
        | Reason::FirstUse { .. }
        | Reason::BudgetUsed { .. }
        | Reason::BudgetZero
        | Reason::SelectsEverything { .. }
        | Reason::Stopped { .. }
        | Reason::Predecessor { .. }
        | Reason::OtherRollout { .. }
        | Reason::StoppedByHand { .. }
        | Reason::Paused
        | Reason::Disabled
        | Reason::Deleting
        | Reason::ApplyingRevision { .. }
        | Reason::SourceHeld { .. }
        | Reason::InvalidResource { .. }
        | Reason::DrainTimedOut { .. }
        | Reason::PolicyMissing { .. }
        | Reason::PackageFinding { .. }
        | Reason::DependencyMissing { .. }
        | Reason::WaitingForPackage { .. }
        | Reason::NodeDeleting
        | Reason::Uncordoned { .. }
        | Reason::Ignored
        | Reason::TaintNotTolerated { .. }
        | Reason::HandsOff { .. }
        | Reason::HeldByHand { .. }
        | Reason::TaintPending { .. }
        | Reason::HostReplaced { .. }
        | Reason::BudgetNever { .. }
        | Reason::SeveralBudgets { .. }
        | Reason::UnhealthyPodHeld { .. }
        | Reason::CordonFought { .. }
        | Reason::DeletionBlocked { .. }
        | Reason::ReferenceMissing { .. }
        | Reason::MalformedState { .. }
        | Reason::Frozen { .. } => None,
    }
}

/// Returns when it is tried again, where the reason knows.
pub fn retried_at(reason: &Reason) -> Option<Timestamp> {
    let Reason::BackingOff { until, .. } = reason else { return None };
    Some(*until)
}

/// Returns what a person can do for `rollout`, with the names that a command needs.
pub fn way_out_for(reason: &Reason, rollout: &str) -> String {
    if let Reason::Stopped { cause, .. } = reason {
        return stopped_way_out(rollout, cause.as_ref());
    }
    let way_out = way_out(reason);
    if matches!(reason, Reason::SelectsEverything { .. }) {
        return way_out.replace("NAME", rollout);
    }
    // What they wait for is on another node.
    if let Reason::BudgetUsed { nodes, .. } | Reason::FirstUse { nodes, .. } = reason
        && let Some(first) = nodes.first()
    {
        return way_out.replace("node/NAME", &format!("node/{first}"));
    }
    way_out.to_owned()
}

/// Returns what a person can do, one line without a final period.
#[expect(clippy::too_many_lines, reason = "one way out per reason, all in one place")]
pub fn way_out(reason: &Reason) -> &'static str {
    match reason {
        Reason::UpToDate => "nothing to do",
        Reason::Picking { .. }
        | Reason::Starting { .. }
        | Reason::Running { .. }
        | Reason::Recording { .. }
        | Reason::Releasing
        | Reason::CordonNotSeen
        | Reason::PreparingBatch
        | Reason::WaitingForPackage { .. }
        | Reason::WaitingForBatch { .. }
        | Reason::ApplyingRevision { .. }
        | Reason::NodeDeleting => "wait, it goes on by itself",
        Reason::Predecessor { .. } | Reason::OtherRollout { .. } => {
            "wait, or see what holds that one: nodewright explain with its name"
        }
        Reason::Deleting => {
            "wait, the resource goes when its nodes are left; what holds it is in its conditions"
        }
        Reason::BackingOff { .. } => {
            "wait for the next attempt, or fix the package or its configuration and commit: it is \
             tried at once"
        }
        Reason::Interrupting { .. } | Reason::Rebooting { .. } => {
            "wait; if the node does not come back, look at its console"
        }
        Reason::NotStarted { .. } => {
            "wait; if it stays, check that the image exists and that the node can pull it"
        }
        Reason::Draining { .. } => {
            "wait, or see what keeps the pod from ending: kubectl describe pod"
        }
        Reason::DisruptionBudget { .. } => {
            "wait, or have the owner of the PodDisruptionBudget allow one more disruption"
        }
        Reason::ProtectedPod { .. } => "wait, or ask the owner of the pod to checkpoint and end it",
        Reason::DrainTimedOut { .. } => {
            "move what is left (kubectl drain), or raise drainConfig.timeout: the node is tried \
             again once its pods have left, or the new time is not over; or: nodewright retry \
             node/NAME"
        }
        Reason::DrainRefused { .. } => "move the pod by hand, or allow it in drainConfig",
        Reason::Stopped { .. } => {
            "fix the package or its configuration and commit: a changed package is tried again; to \
             go on with the same one: nodewright deployment-policy reset"
        }
        Reason::Failed { .. } | Reason::InterruptFailed { .. } => {
            "fix the package or its configuration and commit: a changed package is tried again; \
             for the same one: nodewright retry node/NAME"
        }
        Reason::FirstUse { .. } => {
            "wait, it goes on when that node is complete; see it with nodewright explain node/NAME"
        }
        Reason::BudgetUsed { .. } => {
            "wait until they are back, unless one needs you: nodewright explain node/NAME; or \
             raise interruptionBudget"
        }
        Reason::BudgetZero => "raise interruptionBudget to let it begin",
        Reason::SelectsEverything { .. } => {
            "name a label of the nodes that are meant; if all of these are: nodewright approve NAME"
        }
        Reason::StoppedByHand { .. } => "let everything go on where it was: nodewright go",
        Reason::Paused => "remove the annotation nodewright.nvidia.com/pause to go on",
        Reason::Disabled => "remove the annotation nodewright.nvidia.com/disable to go on",
        Reason::SourceHeld { .. } => {
            "lift what the reason names; nothing is wrong with the node, and running work goes on"
        }
        Reason::InvalidResource { .. } => {
            "correct the resource where it comes from; what runs on nodes is left as it is"
        }
        Reason::PolicyMissing { .. } => {
            "commit the DeploymentPolicy, or set interruptionBudget in its place"
        }
        Reason::PackageFinding { .. } => "do what the reason says; the node goes on by itself",
        Reason::DependencyMissing { .. } => "add the missing package, or remove the dependsOn",
        Reason::NodeNotReady { .. } => {
            "repair the node, or leave it out: kubectl label node/NAME \
             nodewright.nvidia.com/ignore=true"
        }
        Reason::InRepair { .. } => {
            "repair the node, it is caught up when it is back; or delete the Node"
        }
        Reason::Uncordoned { .. } => "let it go on: kubectl cordon node/NAME",
        Reason::Ignored => {
            "include the node: kubectl label node/NAME nodewright.nvidia.com/ignore-"
        }
        Reason::TaintNotTolerated { .. } => "add the taint to additionalTolerations or remove it",
        Reason::Pulling { .. } => "wait, the node is not cordoned before its images are there",
        Reason::PullFailed { .. } => {
            "push the image for the node's architecture, repair the registry or its secret, or \
             commit another version"
        }
        Reason::HandsOff { .. } => {
            "wait until the other operator is done with the node; if it is not there any more, \
             remove its mark"
        }
        Reason::HeldByHand { .. } => {
            "let it go on: kubectl annotate node/NAME nodewright.nvidia.com/hold-"
        }
        Reason::TaintPending { .. } => "wait, it goes on by itself",
        Reason::GpusMissing { .. } => {
            "see why the device plugin offers fewer; the node goes back when they are there"
        }
        Reason::HostReplaced { .. } => "wait, the node is installed again when its batch comes",
        Reason::UpstreamWork { .. } => {
            "wait, its result is taken over; delete the object if it never ends"
        }
        Reason::BudgetNever { .. } => {
            "have its owner lower minAvailable, raise maxUnavailable or add a replica"
        }
        Reason::SeveralBudgets { .. } => "have its owner keep one budget for the pod",
        Reason::UnhealthyPodHeld { .. } => {
            "repair or delete the pod, or set unhealthyPodEvictionPolicy of its budget to \
             AlwaysAllow"
        }
        Reason::CordonFought { .. } => {
            "stop the other controller, then let it go on: kubectl cordon node/NAME"
        }
        Reason::ProtectedLast { .. } => {
            "wait, or ask the owner of the pod to checkpoint and end it"
        }
        Reason::DeletionBlocked { .. } => {
            "remove the annotation pause or disable, or raise interruptionBudget, whichever holds \
             it; or set uninstall.enabled to false to leave the packages there"
        }
        Reason::ReferenceMissing { .. } => "create what the package reads, or drop it from env",
        Reason::NotCreated { .. } => {
            "lift what the message names (admission, quota or a right); it is tried again by itself"
        }
        Reason::MalformedState { .. } => {
            "repair or remove the annotation on the node; once removed, everything is installed \
             there again"
        }
        Reason::Frozen { .. } => "report it with the daemon's log; nothing more is touched",
    }
}
