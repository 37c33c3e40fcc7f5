//! Executor pods as seen: what runs or ran on a node for a visit.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{PackageId, PodRef, Stage};

/// What an executor does: a package's work in a visit is cut at interrupts (design §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Pulls a package's image, before its node is cordoned; belongs to no visit.
    Pull,
    /// Takes a version off the host: uninstall and its check.
    Uninstall,
    /// Copy, then apply or upgrade, then config, each with its check.
    Install,
    /// The merged interrupt of the visit.
    Interrupt,
    /// post-interrupt and its check.
    Verify,
}

impl Group {
    /// Returns the word used in labels and names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Uninstall => "uninstall",
            Self::Install => "install",
            Self::Interrupt => "interrupt",
            Self::Verify => "verify",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The visit number of executors that belong to no visit: pulls before the pick.
pub const PULL_VISIT: u64 = 0;

/// One stay of the daemon on one node, as executors name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VisitRef {
    /// Name of the rollout.
    pub rollout: String,
    /// Name of the node.
    pub node: String,
    /// UID of the node.
    pub node_uid: String,
    /// The visit, see [`super::Record::visit`]; [`PULL_VISIT`] for a pull.
    pub visit: u64,
}

impl VisitRef {
    /// Returns the key under which a refusal of an executor of this visit is remembered.
    pub fn executor_key(&self, group: Group, package: &str) -> String {
        let Self { rollout, node, node_uid, visit } = self;
        format!("{rollout}/{node}/{node_uid}/{visit}/{group}/{package}")
    }
}

/// The phase of an executor pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ExecutorPhase {
    /// Not started.
    Pending,
    /// A container runs, or ran and the next has not begun.
    Running,
    /// All containers ended well.
    Succeeded,
    /// One ended badly, or the pod was lost.
    Failed,
}

/// Why a container has not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The kubelet's word, for example `ErrImagePull`.
    pub reason: String,
    /// The kubelet's text, cut.
    pub message: String,
    /// The image of the container, as its pod names it.
    pub image: String,
    /// When its turn came: the end of the container before it, or the pod's creation.
    pub since: Timestamp,
}

impl Waiting {
    /// Returns whether it is only being set up: its image is being pulled, or volumes are mounted.
    pub fn is_being_created(&self) -> bool {
        ["ContainerCreating", "PodInitializing"].contains(&self.reason.as_str())
    }
}

/// Why an executor failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The stage whose step or check failed; `None` when no stage's container did.
    pub stage: Option<Stage>,
    /// It was the stage's check.
    pub in_check: bool,
    /// The step the agent named.
    pub step: Option<String>,
    /// Exit code of the step, or of the container.
    pub exit_code: Option<i32>,
    /// Last lines of output, or the pod's own reason; cut.
    pub message: String,
    /// Lost to eviction, preemption, node loss or a full kubelet: costs no attempt.
    pub disrupted: bool,
}

/// An executor pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Executor {
    /// Which pod.
    pub reference: PodRef,
    /// The visit it works for.
    pub visit: VisitRef,
    /// What it does.
    pub group: Group,
    /// The package it is for; for an interrupt the one that carries it.
    pub package: PackageId,
    /// The snapshot it was made from.
    pub snapshot: String,
    /// 1 for the first pod of this group and package in the visit.
    pub attempt: u32,
    /// When it was created.
    pub created: Timestamp,
    /// Its phase.
    pub phase: ExecutorPhase,
    /// Stages that ended well, check included.
    pub completed: Vec<Stage>,
    /// The stage whose container runs now.
    pub running: Option<Stage>,
    /// When the stage whose container runs now began, its check included: what `stageTimeout`
    /// counts from.
    pub stage_since: Option<Timestamp>,
    /// A container of it has started, now or earlier: something may have happened on the host.
    pub begun: bool,
    /// Why a container has not started.
    pub waiting: Option<Waiting>,
    /// When the last container ended, by the kubelet.
    pub finished: Option<Timestamp>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// It has a deletion timestamp.
    pub terminating: bool,
}

impl Executor {
    /// Returns whether its first stage cannot start, for example for want of an image: nothing of
    /// it ran on the host, so it may be replaced. One that is just being created is not stuck.
    pub fn is_stuck(&self) -> bool {
        self.phase == ExecutorPhase::Pending
            && self.completed.is_empty()
            && self.running.is_none()
            && self.waiting.as_ref().is_some_and(|waiting| !waiting.is_being_created())
    }

    /// Returns whether none of its containers has begun, so that nothing is lost with it.
    pub fn is_replaceable(&self) -> bool {
        self.is_active() && !self.begun
    }

    /// Returns whether it may still do something on the node.
    pub fn is_active(&self) -> bool {
        match self.phase {
            ExecutorPhase::Pending | ExecutorPhase::Running => true,
            ExecutorPhase::Succeeded | ExecutorPhase::Failed => false,
        }
    }
}
