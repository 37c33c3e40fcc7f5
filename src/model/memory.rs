//! What a resource's status remembers and shows: bounded, whatever the size of the fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The status of a resource or of a node in it, in upstream's words (upstream contract B.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusWord {
    /// Everything is as wanted.
    Complete,
    /// Something outside must change first.
    Blocked,
    /// Its turn has not come.
    Waiting,
    /// Switched off by annotation.
    Disabled,
    /// Paused by annotation.
    Paused,
    /// Being worked on.
    InProgress,
    /// A stage failed for good.
    Erroring,
    /// A mixture, or not yet known.
    #[serde(other)]
    Unknown,
}

impl StatusWord {
    /// Returns the word used in annotations, labels and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Complete => "complete",
            Self::Blocked => "blocked",
            Self::Waiting => "waiting",
            Self::Disabled => "disabled",
            Self::Paused => "paused",
            Self::InProgress => "in_progress",
            Self::Erroring => "erroring",
        }
    }
}

impl fmt::Display for StatusWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The counters of a compartment, in upstream's shape (upstream contract A.6, B.10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchState {
    /// The batch that is open or comes next, from 1.
    pub current_batch: u32,
    /// Failed batches in a row.
    #[serde(default)]
    pub consecutive_failures: u32,
    /// Nodes that were complete at the last verdict.
    #[serde(default)]
    pub completed_nodes: u32,
    /// Nodes that were erroring at the last verdict.
    #[serde(default)]
    pub failed_nodes: u32,
    /// No more batches until a new target or a reset.
    #[serde(default)]
    pub should_stop: bool,
    /// Nodes that finished in the last batch.
    #[serde(default)]
    pub last_batch_size: u32,
    /// The last batch failed.
    #[serde(default)]
    pub last_batch_failed: bool,
}

impl Default for BatchState {
    fn default() -> Self {
        Self {
            current_batch: 1,
            consecutive_failures: 0,
            completed_nodes: 0,
            failed_nodes: 0,
            should_stop: false,
            last_batch_size: 0,
            last_batch_failed: false,
        }
    }
}

/// A batch that is open: written before any node of it is picked (design §4 rule 1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenBatch {
    /// What its nodes are moved to.
    pub target: String,
    /// Its number.
    pub number: u32,
    /// At most so many nodes are picked.
    pub size: u32,
    /// The first of `size` order numbers that are reserved for it.
    pub order_from: u32,
    /// How many of them are given, from the first on: none is ever given again, whatever becomes of
    /// the node that got it.
    #[serde(default)]
    pub given: u32,
    /// Numbers among them whose pick was refused, so that no node ever had them: they are given
    /// before further ones, or a node would lose its place to a heartbeat that came between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<u32>,
    /// When it was opened.
    pub opened: Timestamp,
    /// It is smaller than the policy's pace has it, for the first use of a package in this cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_use: bool,
}

impl OpenBatch {
    /// Returns whether its size says nothing of the pace: it was cut down for a first use, or a
    /// person has begun the batches again while it was open.
    pub fn says_no_pace(&self, state: &BatchState) -> bool {
        self.first_use || self.number != state.current_batch
    }
}

/// What a compartment shows and remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompartmentStatus {
    /// Nodes in it.
    pub matched: u32,
    /// At most so many disturbed at once.
    pub ceiling: u32,
    /// Nodes picked and not released.
    pub in_progress: u32,
    /// Nodes complete.
    pub completed: u32,
    /// `completed` in percent of `matched`, rounded down.
    pub progress_percent: u32,
    /// Counters of the batches.
    #[serde(default)]
    pub batch_state: BatchState,
    /// The open batch. Ours, beside upstream's fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_batch: Option<OpenBatch>,
    /// Sizes of the batches after it, if every node succeeds from now on; empty when there is none.
    /// For people alone: nothing is read from it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub batches_to_come: String,
}

/// A condition, without its transition time: that is added where it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// For example `Ready` (upstream contract A.7).
    pub kind: String,
    /// Whether it holds.
    pub is_true: bool,
    /// One word.
    pub reason: String,
    /// One line for people.
    pub message: String,
}

/// When the running rollout began and ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timings {
    /// When the first batch of the target was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When every node was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Timestamp>,
}

/// Packages that every node of some compartments had: nodes that join while one of these is
/// stopped get them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletedPackages {
    /// The compartments in which they were complete last.
    pub compartments: BTreeSet<String>,
    /// By package: the snapshot, which stays for as long as it is named here.
    pub packages: BTreeMap<String, String>,
}

/// What the planner must find again after a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// The target that counters and stops belong to.
    #[serde(default)]
    pub target: String,
    /// The next free order number.
    #[serde(default)]
    pub order_next: u32,
    /// When this target began and ended.
    #[serde(default)]
    pub timings: Timings,
    /// Compartments by name.
    #[serde(default)]
    pub compartments: BTreeMap<String, CompartmentStatus>,
    /// What was complete last, each set of packages once, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completed: Vec<CompletedPackages>,
}

impl Memory {
    /// Resets the batches of a rollout that is complete; returns whether any had begun.
    pub fn begin_batches_anew(&mut self) -> bool {
        let begun = |status: &&mut CompartmentStatus| {
            status.open_batch.is_none() && status.batch_state != BatchState::default()
        };
        let begun = self.compartments.values_mut().filter(begun);
        begun.map(|status| status.batch_state = BatchState::default()).count() > 0
    }
}

/// The whole status of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The generation that is complete; not advanced before.
    pub observed_generation: Option<i64>,
    /// One word.
    pub word: StatusWord,
    /// Nodes in progress or erroring.
    pub nodes_in_progress: u32,
    /// Nodes complete.
    pub nodes_complete: u32,
    /// Nodes selected.
    pub nodes_total: u32,
    /// `name:version`, sorted.
    pub packages: Vec<String>,
    /// Conditions by kind.
    pub conditions: Vec<Condition>,
    /// What must survive a restart.
    pub memory: Memory,
}
