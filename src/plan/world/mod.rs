//! The planner world: a fleet in memory that executes plans and plays the nodes.
//!
//! Pure: every event is a method call, chance is the caller's. Each action is refused exactly when
//! the real API server would refuse it (stale resourceVersion, changed annotation, existing name),
//! so a history that goes wrong here goes wrong there.
//!
//! `act` is the API server, `host` the nodes and kubelets, `others` everybody else who touches the
//! cluster, and `daemon` ours with its failures: late caches, lost answers, a process that freezes.

mod act;
mod daemon;
mod host;
mod others;
mod parts;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Names, plan};
use crate::model::{
    Action, Desired, ExecutorSpec, Floor, Input, Node, NodeRules, Observed, Pod, PodRef, Record,
    RefusalCause, Resource, Rollout, Stage, VerdictKind, approval,
};

pub use daemon::{Fate, Tick};
pub use host::End;
pub use parts::Images;

/// A fleet and what happened to it.
#[derive(Debug, Clone)]
pub struct World {
    /// The world as it is, time included.
    pub input: Input,
    /// Reboots by node.
    pub reboots: BTreeMap<String, u32>,
    /// Stages that ran to success, by node, `name|version`, snapshot, stage and visit.
    pub completed: Vec<(String, String, String, Stage, u64)>,
    /// Pods that a budget does not let go, by UID.
    pub guarded: BTreeSet<String>,
    /// What is found behind their refusals, by UID; else nothing is.
    pub causes: BTreeMap<String, RefusalCause>,
    /// The API server takes no executor and no snapshot.
    pub rejecting: bool,
    /// How images come to nodes.
    pub images: Images,
    /// Most nodes in progress at once, by rollout.
    pub peak: BTreeMap<String, usize>,
    /// Reboots that an executor issued, by UID of the node, rollout and visit.
    pub issued: BTreeMap<(String, String, u64), u32>,
    /// Nodes that a person or another tool cordoned while we did not hold them.
    pub foreign: BTreeSet<String>,
    /// Nodes that went down in a reboot and are not back.
    pub lost: BTreeSet<String>,
    /// What executors were told to do, by name of the pod.
    told: BTreeMap<String, ExecutorSpec>,
    /// What the daemon's caches say, while they are behind.
    behind: Option<Box<(Desired, Observed)>>,
    /// What a daemon had decided when it froze.
    frozen: Vec<Action>,
    /// What its caches said then.
    frozen_view: Option<Box<(Desired, Observed)>>,
    /// Names of resources that have been there.
    created: BTreeSet<String>,
    names: Names,
    versions: u64,
}

impl World {
    /// Returns a world with nothing in it.
    pub fn new(now: Timestamp) -> Self {
        let input = Input {
            now,
            desired: Desired::default(),
            observed: Observed::default(),
            halt: None,
            approvals: BTreeMap::new(),
            opening: BTreeMap::new(),
            // What a policy paces is what most tests are about; those of the floor set it.
            floor: Floor { first_use: None, ..Floor::default() },
            rules: NodeRules::default(),
            own_node: None,
            own_pod: None,
        };
        Self {
            input,
            reboots: BTreeMap::new(),
            completed: Vec::new(),
            guarded: BTreeSet::new(),
            causes: BTreeMap::new(),
            rejecting: false,
            images: Images::AtHand,
            peak: BTreeMap::new(),
            issued: BTreeMap::new(),
            foreign: BTreeSet::new(),
            lost: BTreeSet::new(),
            told: BTreeMap::new(),
            behind: None,
            frozen: Vec::new(),
            frozen_view: None,
            created: BTreeSet::new(),
            names: Names::default(),
            versions: 0,
        }
    }

    /// Adds a ready node.
    pub fn add_node(&mut self, name: &str, labels: &[(&str, &str)]) {
        let version = self.next_version();
        let created = self.input.now;
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let node = Node {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            resource_version: version,
            created,
            labels: labels.collect(),
            taints: Vec::new(),
            unschedulable: false,
            unschedulable_manager: None,
            ready: true,
            ready_since: Some(created),
            boot_id: format!("boot-{name}-0"),
            machine_id: format!("machine-{name}"),
            deleting: false,
            ignored: false,
            hold: None,
            is_new: true,
            annotated: true,
            gpus: None,
            claims: Vec::new(),
            cordons: Vec::new(),
            conditions: BTreeMap::new(),
            rollouts: BTreeMap::new(),
        };
        self.input.observed.nodes.insert(name.to_owned(), node);
    }

    /// Creates a rollout, or replaces its spec.
    pub fn set_rollout(&mut self, rollout: Rollout) {
        let name = rollout.name.clone();
        let version = self.next_version();
        // The first of a name has a plain UID; one that is created again is another object.
        let is_first = self.created.insert(name.clone());
        let uid = if is_first { format!("uid-{name}") } else { format!("uid-{name}-{version}") };
        let resource = self.input.observed.resources.entry(name.clone()).or_insert(Resource {
            uid,
            resource_version: String::new(),
            generation: 0,
            paused: false,
            disabled: false,
            deleting: false,
            finalizer: false,
            status: None,
            upstream: None,
        });
        resource.generation += 1;
        resource.resource_version = version;
        // What is selected is approved: whoever asks for less takes it away.
        let approved = approval(&resource.uid, &rollout.nodes);
        self.input.approvals.insert(name.clone(), approved);
        self.input.desired.rollouts.insert(name, rollout);
    }

    /// Adds a pod of somebody else.
    pub fn add_pod(&mut self, pod: Pod) {
        let on_node = self.input.observed.pods.entry(pod.node.clone()).or_default();
        on_node.insert(pod.reference.to_string(), pod);
    }

    /// Lets a pod end.
    pub fn remove_pod(&mut self, pod: &PodRef) {
        for pods in self.input.observed.pods.values_mut() {
            pods.retain(|_, there| there.reference != *pod);
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, seconds: i64) {
        let now = self.input.now.checked_add(SignedDuration::from_secs(seconds));
        self.input.now = now.unwrap_or(Timestamp::MAX);
    }

    /// Returns whether every rollout is complete on every node.
    pub fn is_complete(&self) -> bool {
        let plan = plan(&self.input);
        plan.actions.is_empty()
            && plan
                .verdicts
                .values()
                .flat_map(BTreeMap::values)
                .all(|verdict| verdict.kind == VerdictKind::Done)
    }

    fn note_peaks(&mut self) {
        for (name, resource) in &self.input.observed.resources {
            let nodes = self.input.observed.nodes.values();
            let open =
                nodes.filter(|node| node.record(name, &resource.uid).is_some_and(Record::is_open));
            let open = open.count();
            if let Some(peak) = self.peak.get_mut(name) {
                *peak = open.max(*peak);
            } else {
                self.peak.insert(name.clone(), open);
            }
        }
    }

    fn next_version(&mut self) -> String {
        self.versions += 1;
        self.versions.to_string()
    }
}
