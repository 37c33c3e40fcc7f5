//! Actions: one exact change each, with its precondition. Executing one takes no decision.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Toleration;
use serde::{Deserialize, Serialize};

use super::{
    Entries, Interrupt, InterruptKind, Node, Package, PackageId, Phase, PodRef, Record, Stage,
    Status, StatusWord, Taint, UpstreamMaps, UpstreamRef, VisitRef,
};

/// What must happen in order; different lanes do not wait for each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Everything about one rollout's own objects.
    Rollout(String),
    /// Everything on one node.
    Node(String),
}

/// One exact change.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Creates the immutable ConfigMap of a package input.
    CreateSnapshot(SnapshotSpec),
    /// Deletes a snapshot that nothing names any more.
    DeleteSnapshot(ConfigMapRef),
    /// Writes a resource's status.
    WriteStatus(StatusWrite),
    /// Writes the ConfigMap with the node's labels and annotations for package scripts.
    WriteNodeMetadata(NodeMetadata),
    /// Changes our keys on a node, and `spec.unschedulable` with them.
    PatchNode(NodePatch),
    /// Moves a pod off a node.
    Evict(Eviction),
    /// Creates an executor pod.
    CreateExecutor(ExecutorSpec),
    /// Deletes the executor pods of visits that are over.
    DeleteExecutors {
        /// The rollout they belong to.
        rollout: String,
        /// The visits.
        visits: Vec<VisitRef>,
    },
    /// Changes taints of a node, and what goes with them in the same patch.
    PatchTaints(TaintPatch),
    /// Adds or removes our finalizer on a resource.
    SetFinalizer(FinalizerWrite),
    /// Removes what a deleted resource left on a node.
    CleanNode(NodeCleaning),
    /// Deletes a Job or pod of upstream's operator whose result has been taken in.
    DeleteUpstreamWork {
        /// The rollout it belongs to.
        rollout: String,
        /// The node it is bound to.
        node: String,
        /// Which.
        work: UpstreamRef,
    },
    /// Deletes one executor pod, by UID.
    DeleteExecutor {
        /// The rollout it belongs to.
        rollout: String,
        /// The node it is bound to.
        node: String,
        /// The pod.
        pod: PodRef,
    },
}

impl Action {
    /// Returns the word used in logs and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::CreateSnapshot(_) => "create-snapshot",
            Self::DeleteSnapshot(_) => "delete-snapshot",
            Self::WriteStatus(_) => "write-status",
            Self::WriteNodeMetadata(_) => "write-node-metadata",
            Self::PatchNode(patch) => match patch.kind {
                PatchKind::Pick { .. } => "pick",
                PatchKind::Recordon { .. } => "recordon",
                PatchKind::Progress { .. } => "progress",
                PatchKind::Release { .. } => "release",
            },
            Self::Evict(_) => "evict",
            Self::CreateExecutor(_) => "create-executor",
            Self::DeleteExecutors { .. } => "delete-executors",
            Self::PatchTaints(_) => "patch-taints",
            Self::SetFinalizer(_) => "set-finalizer",
            Self::CleanNode(_) => "clean-node",
            Self::DeleteUpstreamWork { .. } => "delete-upstream-work",
            Self::DeleteExecutor { .. } => "delete-executor",
        }
    }

    /// Returns what the action must not overtake.
    pub fn lane(&self) -> Lane {
        match self {
            Self::CreateSnapshot(snapshot) => Lane::Rollout(snapshot.rollout.clone()),
            Self::DeleteSnapshot(snapshot) => Lane::Rollout(snapshot.rollout.clone()),
            Self::WriteStatus(write) => Lane::Rollout(write.rollout.clone()),
            Self::DeleteExecutors { rollout, .. } => Lane::Rollout(rollout.clone()),
            Self::WriteNodeMetadata(metadata) => Lane::Node(metadata.node.clone()),
            Self::PatchNode(patch) => Lane::Node(patch.node.clone()),
            Self::Evict(eviction) => Lane::Node(eviction.node.clone()),
            Self::CreateExecutor(executor) => Lane::Node(executor.visit.node.clone()),
            Self::PatchTaints(patch) => Lane::Node(patch.node.clone()),
            Self::SetFinalizer(write) => Lane::Rollout(write.rollout.clone()),
            Self::CleanNode(cleaning) => Lane::Node(cleaning.node.clone()),
            Self::DeleteUpstreamWork { node, .. } => Lane::Node(node.clone()),
            Self::DeleteExecutor { node, .. } => Lane::Node(node.clone()),
        }
    }
}

/// A snapshot to create: named by its content, so that creating it twice is harmless.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotSpec {
    /// The rollout it belongs to.
    pub rollout: String,
    /// The content; its name is [`Package::snapshot_name`].
    pub package: Package,
}

/// A ConfigMap of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMapRef {
    /// The rollout it belongs to.
    pub rollout: String,
    /// Its name.
    pub name: String,
    /// Its UID, the precondition.
    pub uid: String,
}

/// How soon a status must be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Counters: may wait for a second or two, so that many nodes share one write.
    Routine,
    /// A batch opened or judged, a rollout begun, ended or stopped: before anything else.
    Urgent,
}

/// A status to write, by resourceVersion.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusWrite {
    /// The resource.
    pub rollout: String,
    /// The precondition.
    pub resource_version: String,
    /// The whole status.
    pub status: Status,
    /// How soon.
    pub urgency: Urgency,
    /// What becomes of the maps that upstream's operator left in it.
    pub upstream: UpstreamMaps,
}

/// The ConfigMap with a node's metadata (upstream contract D.4).
#[derive(Debug, Clone, PartialEq)]
pub struct NodeMetadata {
    /// The node whose labels and annotations it holds.
    pub node: String,
    /// Its UID: another node of the same name is a Conflict.
    pub node_uid: String,
    /// The rollout it is for.
    pub rollout: String,
    /// UID of the NodeWright, its owner.
    pub rollout_uid: String,
    /// The packages wanted.
    pub packages: BTreeMap<String, Package>,
}

impl NodePatch {
    /// Returns a patch that changes nothing yet.
    pub fn new(node: &Node, rollout: &str, kind: PatchKind) -> Self {
        Self {
            node: node.name.clone(),
            node_uid: node.uid.clone(),
            rollout: rollout.to_owned(),
            kind,
            entries: None,
            record: None,
            status: None,
            cordon_mark: None,
            drain_start: None,
            unschedulable: None,
        }
    }

    /// Returns a patch that lets a node go as it was read, and changes nothing yet.
    pub fn release(node: &Node, rollout: &str) -> Self {
        let kind = PatchKind::Release { resource_version: node.resource_version.clone() };
        Self::new(node, rollout, kind)
    }
}

/// Which kind of node patch it is (design §4 rules 2, 7 and 8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchKind {
    /// Merge patch with resourceVersion: membership, entries, cordon mark, unschedulable.
    Pick {
        /// The node as it was read.
        resource_version: String,
    },
    /// Merge patch with resourceVersion: a cordon of ours that a controller lifted, put back.
    Recordon {
        /// The node as it was read.
        resource_version: String,
    },
    /// JSON patch that tests the node UID and our own annotations as they were read.
    Progress {
        /// `rollout_<cr>` as read; `None` tests that it is absent.
        record_text: Option<String>,
        /// `nodeState_<cr>` as read; `None` tests that it is absent.
        entries_text: Option<String>,
    },
    /// Merge patch with resourceVersion: status, mark gone, schedulable again.
    Release {
        /// The node as it was read.
        resource_version: String,
    },
}

/// A change of our keys on a node. `None` leaves a thing as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePatch {
    /// The node.
    pub node: String,
    /// Its UID.
    pub node_uid: String,
    /// The rollout whose keys change.
    pub rollout: String,
    /// Kind and precondition.
    pub kind: PatchKind,
    /// `nodeState_<cr>`.
    pub entries: Option<Entries>,
    /// `rollout_<cr>`.
    pub record: Option<Record>,
    /// `status_<cr>`, annotation and label.
    pub status: Option<StatusWord>,
    /// The cordon mark: set or removed.
    pub cordon_mark: Option<bool>,
    /// `drainStart_<cr>`: set or removed.
    pub drain_start: Option<Option<jiff::Timestamp>>,
    /// `spec.unschedulable`.
    pub unschedulable: Option<bool>,
}

/// A change of a node's taints: a JSON patch that tests UID, resourceVersion and the whole list.
#[derive(Debug, Clone, PartialEq)]
pub struct TaintPatch {
    /// The node.
    pub node: String,
    /// Its UID.
    pub node_uid: String,
    /// The node as it was read.
    pub resource_version: String,
    /// The rollout that asks for it.
    pub rollout: String,
    /// The taints as they were read.
    pub before: Vec<Taint>,
    /// All taints afterwards, in the order of the list.
    pub after: Vec<Taint>,
    /// `autoTaint_<key>`: the key of a taint that we put on a node that joined.
    pub auto_taint_mark: Option<String>,
    /// `runtimeRequiredCordon` and `unschedulable`, set together (`true`); the mark alone removed
    /// because somebody has uncordoned the node since (`false`).
    pub cordon_after: Option<bool>,
}

/// Our finalizer on a resource, added or removed, by resourceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalizerWrite {
    /// The resource.
    pub rollout: String,
    /// Its UID.
    pub rollout_uid: String,
    /// The precondition.
    pub resource_version: String,
    /// Whether it is there afterwards.
    pub present: bool,
}

/// What a deleted resource leaves on a node (upstream contract B.15): its annotations and label go,
/// `nodeState_<cr>` stays while it names something that is on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCleaning {
    /// The node.
    pub node: String,
    /// Its UID.
    pub node_uid: String,
    /// The node as it was read.
    pub resource_version: String,
    /// The rollout whose keys go.
    pub rollout: String,
    /// `nodeState_<cr>` stays.
    pub keep_entries: bool,
}

/// How a pod is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvictionMethod {
    /// Through the eviction API, which honours disruption budgets.
    Evict,
    /// By deletion (`drainConfig.disableEviction`).
    Delete,
}

/// A pod to move, by UID.
#[derive(Debug, Clone, PartialEq)]
pub struct Eviction {
    /// The node it is on.
    pub node: String,
    /// The rollout that needs the node.
    pub rollout: String,
    /// Which pod.
    pub pod: PodRef,
    /// How.
    pub method: EvictionMethod,
    /// Grace period; `None` is the pod's own.
    pub grace_period: Option<Duration>,
}

/// What an executor does.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Pull the package's images, and nothing else.
    Pull {
        /// The wanted package.
        package: Package,
    },
    /// Copy the package as it was installed, then uninstall and its check.
    Uninstall {
        /// The snapshot's content.
        package: Package,
    },
    /// Copy the package, then these stages in order, each with its check.
    Install {
        /// The snapshot's content.
        package: Package,
        /// Apply or upgrade, config; those not recorded complete.
        stages: Vec<Stage>,
    },
    /// Run the merged interrupt.
    Interrupt {
        /// The package that carries it.
        package: Package,
        /// What restarts.
        interrupt: Interrupt,
    },
    /// Run post-interrupt and its check.
    Verify {
        /// The snapshot's content.
        package: Package,
    },
}

impl Work {
    /// Returns the package the work is for.
    pub fn package(&self) -> &Package {
        match self {
            Self::Pull { package }
            | Self::Uninstall { package }
            | Self::Install { package, .. }
            | Self::Interrupt { package, .. }
            | Self::Verify { package } => package,
        }
    }

    /// Returns the group the executor belongs to.
    pub fn group(&self) -> super::Group {
        match self {
            Self::Pull { .. } => super::Group::Pull,
            Self::Uninstall { .. } => super::Group::Uninstall,
            Self::Install { .. } => super::Group::Install,
            Self::Interrupt { .. } => super::Group::Interrupt,
            Self::Verify { .. } => super::Group::Verify,
        }
    }

    /// Returns the package's `name|version`.
    pub fn package_id(&self) -> PackageId {
        self.package().id()
    }
}

/// An executor pod to create. Its name follows from visit, group, package and attempt, so that
/// creating it twice is a Conflict and never a second run.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutorSpec {
    /// The visit it works for.
    pub visit: VisitRef,
    /// UID of the NodeWright, its owner.
    pub rollout_uid: String,
    /// `metadata.generation` frozen at the pick.
    pub generation: i64,
    /// `SKYHOOK_NODE_ORDER`.
    pub order: u32,
    /// 1 for the first.
    pub attempt: u32,
    /// The snapshot's name, for its config files.
    pub snapshot: String,
    /// What it does.
    pub work: Work,
    /// The rollout's additional tolerations.
    pub tolerations: Vec<Toleration>,
}

impl ExecutorSpec {
    /// Returns whether the node, as it reads now, is at what this would do.
    ///
    /// Asked of interrupts, which nothing takes back: caches of nodes and of pods are not equally
    /// old, and where the pods' say that an interrupt pod is gone, the nodes' may not say yet that
    /// its reboot has been, or that the name is another machine's. Everything else is idempotent.
    pub fn holds_on(&self, node: Option<&Node>) -> bool {
        let Work::Interrupt { package, interrupt } = &self.work else { return true };
        let VisitRef { rollout, node_uid, visit, .. } = &self.visit;
        let Some(node) = node.filter(|node| node.uid == *node_uid) else { return false };
        let Some(record) = node.record(rollout, &self.rollout_uid) else { return false };
        let recorded = record.interrupt.as_ref().map(|interrupt| &interrupt.package);
        let is_at_it = record.visit == *visit
            && record.is_open()
            && record.phase == Phase::Interrupting
            && recorded == Some(&package.id());
        let has_been = interrupt.kind == InterruptKind::Reboot
            && record.boot_before.as_deref() != Some(node.boot_id.as_str());
        is_at_it && !has_been
    }
}
