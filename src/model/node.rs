//! A node as the daemon sees it: only the fields something depends on.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Entries, Outcome, Record, Shared, StatusWord};

/// How long a host may be down before nothing that we began there is waited for any more. Large GPU
/// hosts take 10 to 20 minutes for memory training and firmware; an hour is past every one we know.
pub const HOST_LOST_AFTER: Duration = Duration::from_hours(1);

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TaintEffect {
    /// New pods are not scheduled.
    NoSchedule,
    /// New pods are scheduled elsewhere where possible.
    PreferNoSchedule,
    /// Running pods are evicted too.
    NoExecute,
}

/// A taint on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Taint {
    /// Key of the taint.
    pub key: String,
    /// Its value, often empty.
    #[serde(default)]
    pub value: String,
    /// What it does.
    pub effect: TaintEffect,
}

/// Another operator that works on a node (neighbours 1.12).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claim {
    /// Its name for people, for example `GPU Operator`.
    pub by: String,
    /// The mark that says so, for example `nvidia.com/gpu-driver-upgrade-state=drain-required`.
    pub mark: String,
    /// What it does to our release of the node.
    pub at_release: AtRelease,
}

/// What a claim does to the release of a node that we hold as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtRelease {
    /// The work is short, and who does it leaves a cordon that it found: the release waits, for
    /// nobody else would ever lift the cordon.
    Waits,
    /// The work may take days, or the node does not come back: our mark goes, the cordon stays.
    LeavesCordon,
}

/// Who says that a node must stay cordoned (upstream contract B.7).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CordonMark {
    /// `cordon_<cr>`: this rollout holds it.
    Rollout(String),
    /// `runtimeRequiredCordon`: left cordoned on purpose when the runtime taint went.
    RuntimeRequired,
}

/// What one rollout's annotations on a node say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRollout {
    /// Parsed `nodeState_<cr>`; empty when the annotation is absent.
    pub entries: Entries,
    /// Entries of `nodeState_<cr>` that a person let go of: they are named for people, and nothing
    /// counts on them. The first patch of the entries takes them away.
    #[serde(default)]
    pub left: Entries,
    /// `nodeState_<cr>` as it stands, tested by every progress patch.
    pub entries_text: Option<String>,
    /// Parsed `rollout_<cr>`, not yet checked against the live UIDs.
    pub record: Option<Record>,
    /// `rollout_<cr>` as it stands, tested by every progress patch.
    pub record_text: Option<String>,
    /// `drainStart_<cr>`: when a drain with a time limit began.
    pub drain_start: Option<Timestamp>,
    /// `status_<cr>`.
    pub status: Option<StatusWord>,
    /// Some of it stands under upstream's former prefix: what is written goes to the new one, and
    /// the former keys go with the first patch that does.
    pub legacy: bool,
    /// Why an annotation could not be read: it is then left alone and the node blocked.
    pub malformed: Option<String>,
}

/// A node, trimmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// UID of the Node object; another one is another node.
    pub uid: String,
    /// Version for optimistic writes.
    pub resource_version: String,
    /// When the Node object was created: first come, first served.
    pub created: Timestamp,
    /// Labels that selectors may ask for.
    pub labels: BTreeMap<String, String>,
    /// Taints of any effect.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// The field manager that last wrote `spec.unschedulable`, where known.
    pub unschedulable_manager: Option<String>,
    /// The Ready condition is True.
    pub ready: bool,
    /// When the Ready condition last changed.
    pub ready_since: Option<Timestamp>,
    /// `status.nodeInfo.bootID`.
    pub boot_id: String,
    /// `status.nodeInfo.machineID`.
    pub machine_id: String,
    /// The object is being deleted.
    pub deleting: bool,
    /// The label `P/ignore` is `"true"`.
    pub ignored: bool,
    /// `P/hold`: somebody asks that nothing new be started here, and says why.
    pub hold: Option<String>,
    /// No annotation of ours is on it, of any rollout: it has just joined.
    pub is_new: bool,
    /// Annotations of anybody are on it: a JSON patch cannot add to a map that is not there.
    pub annotated: bool,
    /// Allocatable `nvidia.com/gpu`, as the kubelet offers it now; `None` when it offers none.
    pub gpus: Option<u32>,
    /// Other operators at work on the node: hands off until they are done.
    pub claims: Vec<Claim>,
    /// Cordon marks, ours and of other rollouts.
    pub cordons: Vec<CordonMark>,
    /// Conditions that we or upstream's operator published, by type: whether they are true.
    pub conditions: BTreeMap<String, bool>,
    /// What each rollout's annotations say, by name of the rollout.
    pub rollouts: BTreeMap<String, Shared<NodeRollout>>,
}

impl Node {
    /// Returns the record of `rollout` if it belongs to these very objects.
    pub fn record(&self, rollout: &str, cr_uid: &str) -> Option<&Record> {
        let record = self.rollouts.get(rollout)?.record.as_ref()?;
        (record.cr_uid == cr_uid && record.node_uid == self.uid).then_some(record)
    }

    /// Returns the entries of `rollout`, empty when there are none.
    pub fn entries(&self, rollout: &str) -> &Entries {
        const NONE: &Entries = &Entries::new();
        self.rollouts.get(rollout).map_or(NONE, |state| &state.entries)
    }

    /// Returns whether `rollout` has its cordon mark on the node.
    pub fn is_cordoned_by(&self, rollout: &str) -> bool {
        self.cordons.iter().any(|mark| matches!(mark, CordonMark::Rollout(name) if name == rollout))
    }

    /// Returns whether the mark of `rollout` is what its visits left here, this one or one before.
    ///
    /// A visit that failed leaves its mark to the next one, which may fail as well without ever
    /// taking hold itself: its record then says nothing of the mark that it found. Only a complete
    /// visit takes every mark away, so a mark beside it that it did not make is another's.
    pub fn is_left_cordoned_by(&self, rollout: &str, record: &Record) -> bool {
        let ours = record.held || record.outcome != Some(Outcome::Complete);
        ours && self.is_cordoned_by(rollout)
    }
}
