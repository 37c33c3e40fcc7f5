//! What a node's annotations say: the state of each package, and the visit in progress.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Interrupt, InterruptKind, PackageId, Stage, State};

/// Layout of [`Record`] that this code writes.
pub const RECORD_VERSION: u32 = 1;

/// [`Record::reason`] of a visit that a person closed with `nodewright forget`.
pub const FORGOTTEN: &str = "Forgotten";

/// Entries of one rollout on one node, the annotation `nodeState_<cr>`.
pub type Entries = BTreeMap<PackageId, Entry>;

/// The state of one package version on one node: upstream's shape and ours beside it.
///
/// Fields of newer writers are kept as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Package name, as in the key.
    pub name: String,
    /// Package version, as in the key.
    pub version: String,
    /// Image repository without tag.
    #[serde(default)]
    pub image: String,
    /// Image digest where the package named one.
    #[serde(default, rename = "containerSHA", skip_serializing_if = "Option::is_none")]
    pub container_sha: Option<String>,
    /// The stage reached.
    pub stage: Stage,
    /// How far that stage is.
    pub state: State,
    /// Failed attempts of this stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<i32>,
    /// The snapshot that was, or is being, put on the node. `None`: written by upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The snapshot that was put there before, while another configuration of the same version is
    /// being put there: an uninstall runs with what is on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// Nothing of this version has run on the host yet: it was recorded as begun, and what stands
    /// there is what stood there before. Left out once something has.
    #[serde(default, skip_serializing_if = "is_false")]
    pub untried: bool,
    /// When stage and state became what they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When a person let the node go (`nodewright forget`): the package may be on the host, and
    /// nothing counts on it. Such entries are read into [`super::NodeRollout::left`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Timestamp>,
    /// What others wrote beside it.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl Entry {
    /// Returns the `name|version` this entry is kept under.
    pub fn id(&self) -> PackageId {
        PackageId { name: self.name.clone(), version: self.version.clone() }
    }

    /// Returns the snapshot whose configuration ran on the host last, as far as that is recorded.
    pub fn put_there(&self) -> Option<&String> {
        let configured = match self.stage {
            Stage::Config => self.state == State::Complete,
            Stage::Interrupt | Stage::PostInterrupt => true,
            Stage::Uninstall | Stage::UninstallInterrupt | Stage::Upgrade | Stage::Apply => false,
        };
        self.applied.as_ref().or(self.snapshot.as_ref().filter(|_| configured))
    }

    /// Returns whether the entry is at `stage` in `state`.
    pub fn is(&self, stage: Stage, state: State) -> bool {
        self.stage == stage && self.state == state
    }
}

/// How far a visit has come: named for what has been reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Membership is recorded; cordoned where an interrupt is due.
    Picked,
    /// The merged interrupt is recorded as begun.
    Interrupting,
    /// The interrupt is proven; post-interrupt runs, or more packages do.
    Interrupted,
    /// The node was let go; `outcome` says how it ended.
    Released,
}

impl Phase {
    /// Returns the word used in the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Picked => "picked",
            Self::Interrupting => "interrupting",
            Self::Interrupted => "interrupted",
            Self::Released => "released",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a visit ended, for the verdict on its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every package is complete.
    Complete,
    /// A stage failed for good; the node stays held if it was, until a new target or a retry.
    Erroring,
    /// The node was let go for a reason that is no failure (no longer selected, given up).
    Released,
}

/// The one interrupt of a visit, merged over its packages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptRecord {
    /// What restarts.
    pub kind: InterruptKind,
    /// Services that restart, for a service interrupt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// The package whose entry carries the interrupt; the others are skipped until it is done.
    pub package: PackageId,
    /// When it was recorded as begun.
    pub since: Timestamp,
}

/// Everything about one rollout's visit to one node: the annotation `rollout_<cr>`.
///
/// Stale, and to be treated as absent, when `cr_uid` or `node_uid` differs from the live objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Layout of this record, [`RECORD_VERSION`].
    pub v: u32,
    /// UID of the NodeWright.
    pub cr_uid: String,
    /// UID of the Node.
    pub node_uid: String,
    /// `status.nodeInfo.machineID` when the visit began.
    pub machine_id: String,
    /// What the visit moves the node to, see [`super::Rollout::target`].
    pub target: String,
    /// `metadata.generation` at the pick: part of names and paths on the host, frozen.
    pub generation: i64,
    /// The visit: greater than any before it on this node, also after the record was lost.
    pub visit: u64,
    /// The compartment the node was picked in.
    pub compartment: String,
    /// The batch it belongs to.
    pub batch: u32,
    /// `SKYHOOK_NODE_ORDER`: unique within a rollout, never changed.
    pub order: u32,
    /// When it was picked.
    pub picked: Timestamp,
    /// How far the visit has come.
    pub phase: Phase,
    /// We cordoned the node, or took over a cordon, for this visit.
    #[serde(default)]
    pub held: bool,
    /// The node was unschedulable before we took it, so it stays so.
    #[serde(default)]
    pub prior_unschedulable: bool,
    /// When we last cordoned the node, or put our cordon back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned: Option<Timestamp>,
    /// How often a controller lifted our cordon in this visit and we put it back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recordons: u32,
    /// Allocatable GPUs before the node was taken: it goes back when they are offered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_before: Option<u32>,
    /// Boot ID before the interrupt; a changed one, and only that, proves a reboot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_before: Option<String>,
    /// The boot in which what is on the host was put there: that of the pick, or of our own reboot
    /// once it was proven. A node that runs another one was rebooted by somebody else since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_last: Option<String>,
    /// How often in a row the host was another one after our own reboot: a second time says that
    /// the machine ID does not outlive a reboot, and that a third visit would end the same.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hosts_lost: u32,
    /// The interrupt under way or done in this visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<InterruptRecord>,
    /// Interrupts that this visit owes, by package name, until they are done. Decided when the
    /// package's work begins, because the old configuration is gone afterwards.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub interrupts_due: BTreeMap<String, Interrupt>,
    /// The last attempt whose end was recorded, by package name, or `interrupt`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attempts: BTreeMap<String, u32>,
    /// How the visit ended; stays until the next rollout, so that a verdict is a count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Why the node is where it is, as a word, where that is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same for people, at most 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(truth: &bool) -> bool {
    !*truth
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Record {
    /// Returns whether the visit is still going on.
    pub fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    /// Returns whether a person let the node go with `nodewright forget`, and no visit was since.
    pub fn is_forgotten(&self) -> bool {
        self.outcome == Some(Outcome::Released) && self.reason.as_deref() == Some(FORGOTTEN)
    }

    /// Returns whether the visit has changed the entry.
    pub fn has_touched(&self, entry: &Entry) -> bool {
        entry.since.is_some_and(|since| since >= self.picked)
    }

    /// Returns whether the visit goes on and has come to the package, and so has said what it owes.
    pub fn is_at(&self, entry: &Entry) -> bool {
        self.is_open() && self.has_touched(entry)
    }

    /// Returns the boot ID that proves the reboot of this visit; `None` while there is none.
    pub fn boot_proven(&self) -> Option<&str> {
        let before = self.boot_before.as_ref()?;
        self.boot_last.as_deref().filter(|last| last != before)
    }
}
