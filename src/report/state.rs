//! What one status commit says: the fleet as facts, before any layout.
//!
//! In: what [`super::survey`] found. Out: plain types that compare and serialise. Never here: an
//! age, a "now", the value of a configuration file. Equal states are equal bytes on the branch.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::model::{
    Finding, Input, InterruptKind, Outcome, Outlook, Phase, Plan, Severity, Stage, State,
    StatusWord, Stopped,
};

use super::survey;

/// Where the wanted state comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceMode {
    /// A Git repository, written into the cluster by the daemon.
    Git,
    /// The resources in the cluster, whoever wrote them.
    Cluster,
}

/// A revision that is not let through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldRevision {
    /// Which one, `main@sha1:<40 hex>`.
    pub revision: String,
    /// Why, one line.
    pub why: String,
    /// What lets it through, or replaces it.
    pub way_out: String,
}

/// The source cannot be read; the last good state stays in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceError {
    /// What fails, one line, without secrets.
    pub what: String,
    /// Since when it fails.
    pub since: Timestamp,
    /// What to do.
    pub way_out: String,
}

/// What is known of the source of the wanted state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceView {
    /// Name of the cluster, as `--cluster` has it.
    pub cluster: String,
    /// UID of the cluster's `kube-system` namespace.
    #[serde(rename = "clusterUID")]
    pub cluster_uid: String,
    /// Where the wanted state comes from.
    pub mode: SourceMode,
    /// The newest revision that was fetched, `main@sha1:<40 hex>`.
    pub revision_seen: Option<String>,
    /// The revision whose objects are in the cluster.
    pub revision_applied: Option<String>,
    /// The revision that is not let through.
    pub held: Option<HeldRevision>,
    /// What is wrong with the manifests of the revision last read.
    pub findings: Vec<Finding>,
    /// Why the source cannot be read.
    pub error: Option<SourceError>,
    /// Lease transitions. Named in the trailers alone: a new leader is no new state.
    #[serde(skip)]
    pub epoch: u64,
}

/// The fleet in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum FleetPhase {
    /// There are no rollouts.
    Empty,
    /// Every rollout is complete.
    Complete,
    /// Nodes are being worked on.
    Progressing,
    /// Nothing moves, and a rollout was stopped by failures.
    Stopped,
    /// Nothing moves, and nodes failed for good.
    Erroring,
    /// Nothing moves until something outside changes.
    Blocked,
    /// Nothing moves yet.
    Waiting,
    /// Nothing moves, on purpose.
    Paused,
}

impl FleetPhase {
    /// Returns the word of the trailer `Nodewright-Phase`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Complete => "Complete",
            Self::Progressing => "Progressing",
            Self::Stopped => "Stopped",
            Self::Erroring => "Erroring",
            Self::Blocked => "Blocked",
            Self::Waiting => "Waiting",
            Self::Paused => "Paused",
        }
    }

    /// Returns the words of a headline.
    pub fn headline(self) -> &'static str {
        match self {
            Self::Empty => "no rollouts",
            Self::Complete => "complete",
            Self::Progressing => "rolling out",
            Self::Stopped => "stopped",
            Self::Erroring => "failing",
            Self::Blocked => "blocked",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
        }
    }
}

/// What a package does to workloads when it is put on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// No interrupt: it runs beside the workloads.
    Beside,
    /// An interrupt after every install and upgrade.
    Interrupts(InterruptKind),
    /// An interrupt only when certain configuration keys change.
    InterruptsOnConfig,
}

/// A package of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageState {
    /// Its name.
    pub name: String,
    /// The version wanted.
    pub version: String,
    /// What it does to workloads.
    pub effect: Effect,
    /// Nodes that have exactly this package, complete.
    pub done: u32,
}

/// A compartment of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompartmentState {
    /// The batch that is open, or comes next.
    pub batch: u32,
    /// Since when the batch is open; `None` when none is.
    pub opened: Option<Timestamp>,
    /// Nodes in it.
    pub matched: u32,
    /// At most so many disturbed at once.
    pub ceiling: u32,
    /// Nodes picked and not released.
    pub in_progress: u32,
    /// Nodes complete.
    pub completed: u32,
    /// Why no more batches are opened.
    pub stopped: Option<Stopped>,
    /// The batches to come, and what would stop them; `None` where nothing is planned.
    pub outlook: Option<Outlook>,
}

impl CompartmentState {
    /// Returns whether it is known that nothing is left to do.
    pub fn is_over(&self) -> bool {
        self.outlook.as_ref().is_some_and(Outlook::is_over)
    }
}

/// A rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutState {
    /// Its status, in upstream's word.
    pub status: StatusWord,
    /// What nodes are moved to; empty when the resource cannot be read.
    pub target: String,
    /// Packages by name.
    pub packages: Vec<PackageState>,
    /// Nodes selected.
    pub nodes_total: u32,
    /// Nodes complete.
    pub nodes_complete: u32,
    /// Nodes picked and not released.
    pub nodes_in_progress: u32,
    /// Nodes that failed for good.
    pub nodes_erroring: u32,
    /// Nodes that this rollout keeps cordoned.
    pub nodes_down: u32,
    /// Compartments by name.
    pub compartments: BTreeMap<String, CompartmentState>,
    /// When the first batch of the target was opened.
    pub started: Option<Timestamp>,
    /// When every node was complete.
    pub completed: Option<Timestamp>,
}

impl RolloutState {
    /// Returns the batch that is open or comes next; of several compartments, the furthest.
    pub fn batch(&self) -> u32 {
        self.compartments.values().map(|compartment| compartment.batch).max().unwrap_or(1)
    }

    /// Returns why a compartment opens no more batches; of several, the first by name.
    pub fn stopped(&self) -> Option<&Stopped> {
        self.stops().next().map(|(_, stop)| stop)
    }

    /// Returns the compartments that open no more batches, by name.
    pub fn stops(&self) -> impl Iterator<Item = (&str, &Stopped)> {
        let compartments = self.compartments.iter();
        compartments.filter_map(|(name, it)| Some((name.as_str(), it.stopped.as_ref()?)))
    }

    /// Returns how many nodes the rollout is complete without: those in repair.
    pub fn in_repair(&self) -> u32 {
        let is_complete = self.status == StatusWord::Complete;
        if is_complete { self.nodes_total.saturating_sub(self.nodes_complete) } else { 0 }
    }

    /// Returns `complete`, and what it is complete without.
    pub(super) fn completed_words(&self) -> String {
        match self.in_repair() {
            0 => "complete".to_owned(),
            missing => format!("complete except {missing} in repair"),
        }
    }

    /// Returns the batches to come, by compartment.
    pub fn outlooks(&self) -> impl Iterator<Item = (&str, &Outlook)> {
        let compartments = self.compartments.iter();
        compartments.filter_map(|(name, it)| Some((name.as_str(), it.outlook.as_ref()?)))
    }

    /// Returns whether nodes are being, or are about to be, worked on.
    pub fn is_moving(&self) -> bool {
        self.nodes_in_progress > 0 || self.status == StatusWord::InProgress
    }
}

/// Some nodes by name, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedNodes {
    /// The first few, in order.
    pub first: Vec<String>,
    /// All of them.
    pub total: u32,
}

/// Something that does not go on until a person acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Need {
    /// One word: a reason's, a finding's code, `SourceHeld` or `SourceError`.
    pub word: String,
    /// The rollout it stops, where it is about one.
    pub rollout: Option<String>,
    /// The nodes it stops.
    pub nodes: NamedNodes,
    /// `file:line:column` of a refused manifest.
    pub place: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub way_out: String,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
    /// That this stopped the rollout, in which batch, and how it goes on again; `None` where it did
    /// not.
    pub stopped: Option<String>,
}

/// Nodes of a rollout that wait for the same kind of thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitGroup {
    /// The rollout.
    pub rollout: String,
    /// The reason's word.
    pub word: String,
    /// The same for people, for example `protected pods`.
    pub label: String,
    /// How many nodes.
    pub nodes: u32,
    /// The node that has waited longest, else the first by name.
    pub example_node: String,
    /// Its reason.
    pub example: String,
    /// Since when it waits, where that is known.
    pub since: Option<Timestamp>,
}

/// A package version on hosts that nothing looks after any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftBehind {
    /// The rollout that put it there.
    pub rollout: String,
    /// The package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// Why it stays, as what is said of the rollout.
    pub why: &'static str,
    /// The nodes it is on.
    pub nodes: NamedNodes,
}

/// The state of a package version on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettledEntry {
    /// The package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The stage reached.
    pub stage: Stage,
    /// How far it is.
    pub state: State,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Which snapshot is on the node.
    pub snapshot: Option<String>,
}

/// An interrupt of a visit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptFacts {
    /// What restarts.
    pub kind: InterruptKind,
    /// The package it was for, `name|version`.
    pub package: String,
    /// When it was begun.
    pub since: Timestamp,
    /// Boot ID before a reboot.
    pub boot_before: Option<String>,
    /// Boot ID that proved the reboot.
    pub boot_proven: Option<String>,
}

/// The last visit of a rollout to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VisitFacts {
    /// Which visit.
    pub visit: u64,
    /// What it moved the node to.
    pub target: String,
    /// The compartment the node was picked in.
    pub compartment: String,
    /// The batch it belongs to.
    pub batch: u32,
    /// When it was picked.
    pub picked: Timestamp,
    /// How far the visit has come.
    pub phase: Phase,
    /// How it ended; `None` while it goes on.
    pub outcome: Option<Outcome>,
    /// Why it failed, one word.
    pub reason: Option<String>,
    /// Why it failed, one line.
    pub message: Option<String>,
    /// Its interrupt.
    pub interrupt: Option<InterruptFacts>,
}

/// What one rollout left on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// Package versions, in order.
    pub packages: Vec<SettledEntry>,
    /// The last visit.
    pub visit: Option<VisitFacts>,
}

/// What one status commit says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetState {
    /// The source of the wanted state; findings sorted, texts cut.
    pub source: SourceView,
    /// SHA-256 of everything wanted, 64 hex digits.
    pub config_digest: String,
    /// The fleet in one word.
    pub phase: FleetPhase,
    /// Rollouts by name.
    pub rollouts: BTreeMap<String, RolloutState>,
    /// What needs a person, the source first, then by rollout.
    pub needs_person: Vec<Need>,
    /// What goes on by itself.
    pub waits: Vec<WaitGroup>,
    /// What somebody switched off.
    pub on_purpose: Vec<WaitGroup>,
    /// What nothing looks after any more, by rollout, package and version.
    pub left_behind: Vec<LeftBehind>,
    /// By node, then rollout: what is on it. Only nodes that something was done on.
    /// Boxed, for a map of one rollout reserves room for eleven.
    pub nodes: BTreeMap<String, BTreeMap<String, Box<NodeFacts>>>,
}

impl FleetState {
    /// Returns what a status commit says of this input, this plan and this source.
    pub fn new(input: &Input, plan: &Plan, source: &SourceView) -> Self {
        survey::fleet(input, plan, source)
    }

    /// Returns whether two states are the same on the status branch; the epoch is not on it.
    pub fn is_same_content(&self, other: &Self) -> bool {
        let Self {
            source,
            config_digest: digest_of_all,
            phase,
            rollouts,
            needs_person,
            waits,
            on_purpose,
            left_behind,
            nodes,
        } = self;
        SourceView { epoch: other.source.epoch, ..source.clone() } == other.source
            && digest_of_all == &other.config_digest
            && phase == &other.phase
            && rollouts == &other.rollouts
            && needs_person == &other.needs_person
            && waits == &other.waits
            && on_purpose == &other.on_purpose
            && left_behind == &other.left_behind
            && nodes == &other.nodes
    }

    /// Returns the findings that refuse an object.
    pub fn refused(&self) -> impl Iterator<Item = &Finding> {
        self.source.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }
}
