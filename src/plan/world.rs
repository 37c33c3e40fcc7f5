//! The planner world: a fleet in memory that executes plans and plays the nodes.
//!
//! Pure: every event is a method call, chance is the caller's. Each action is refused exactly when
//! the real API server would refuse it (stale resourceVersion, changed annotation, existing name),
//! so a history that goes wrong here goes wrong there.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

mod parts;

pub use parts::Images;
use parts::{failure, first_stage};

use super::{Breach, audit, plan};
use crate::model::{
    Action, CordonMark, Desired, Executor, ExecutorPhase, ExecutorSpec, Floor, Group, Input,
    InterruptKind, Node, NodeCleaning, NodePatch, NodeRollout, NodeRules, Observed, PatchKind,
    Plan, Pod, PodRef, Refusal, RefusalCause, Resource, Rollout, Snapshot, Stage, TaintPatch,
    UpstreamMaps,
};

/// What becomes of one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is done, if its precondition holds.
    Done,
    /// The API server refuses it for a reason of its own.
    Refused,
    /// The daemon dies before it, and everything after it in this tick.
    Crash,
}

/// How an executor ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every stage succeeds.
    Success,
    /// The first stage that is not complete fails.
    Failure,
    /// The pod is lost to something that is not its fault.
    Disruption,
}

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
    /// How images come to nodes.
    pub images: Images,
    /// Most nodes in progress at once, by rollout.
    pub peak: BTreeMap<String, usize>,
    versions: u64,
}

impl World {
    /// Returns a world with nothing in it.
    pub fn new(now: Timestamp) -> Self {
        let input = Input {
            now,
            desired: Desired::default(),
            observed: Observed::default(),
            opening: BTreeMap::new(),
            floor: Floor::default(),
            rules: NodeRules::default(),
            own_node: None,
            own_pod: None,
        };
        Self {
            input,
            reboots: BTreeMap::new(),
            completed: Vec::new(),
            guarded: BTreeSet::new(),
            images: Images::AtHand,
            peak: BTreeMap::new(),
            versions: 0,
        }
    }

    /// Adds a ready node.
    pub fn add_node(&mut self, name: &str, labels: &[(&str, &str)]) {
        self.versions += 1;
        let created = self.input.now;
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let node = Node {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            resource_version: self.versions.to_string(),
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
            rollouts: BTreeMap::new(),
        };
        self.input.observed.nodes.insert(name.to_owned(), node);
    }

    /// Creates a rollout, or replaces its spec.
    pub fn set_rollout(&mut self, rollout: Rollout) {
        self.versions += 1;
        let name = rollout.name.clone();
        let resource = self.input.observed.resources.entry(name.clone()).or_insert(Resource {
            uid: format!("uid-{name}"),
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
        resource.resource_version = self.versions.to_string();
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

    /// Plans, audits, and executes with the given fate for each action. Returns the plan, what the
    /// audit says of it, and how many actions changed something.
    pub fn tick(&mut self, mut fate: impl FnMut(&Action) -> Fate) -> (Plan, Vec<Breach>, usize) {
        let plan = plan(&self.input);
        let breaches = audit(&self.input, &plan);
        let mut done = 0;
        let mut broken = BTreeSet::new();
        for action in &plan.actions {
            if broken.contains(&action.lane()) {
                continue;
            }
            let applied = match fate(action) {
                Fate::Done => self.execute(action),
                Fate::Refused => false,
                Fate::Crash => break,
            };
            if applied {
                done += 1;
            } else if !matches!(action, Action::Evict(_)) {
                broken.insert(action.lane());
            }
        }
        self.note_peaks();
        (plan, breaches, done)
    }

    fn note_peaks(&mut self) {
        for (name, resource) in &self.input.observed.resources {
            let nodes = self.input.observed.nodes.values();
            let open = nodes.filter(|node| {
                node.record(name, &resource.uid).is_some_and(crate::model::Record::is_open)
            });
            let open = open.count();
            let peak = self.peak.entry(name.clone()).or_default();
            *peak = open.max(*peak);
        }
    }

    /// Executes one action as the API server would. Returns whether it changed something.
    fn execute(&mut self, action: &Action) -> bool {
        self.versions += 1;
        let version = self.versions.to_string();
        let observed = &mut self.input.observed;
        match action {
            Action::CreateSnapshot(spec) => {
                let name = spec.package.snapshot_name(&spec.rollout);
                let snapshot = Snapshot {
                    rollout: spec.rollout.clone(),
                    uid: format!("uid-{name}-{version}"),
                    package: spec.package.clone(),
                };
                observed.snapshots.insert(name, snapshot).is_none()
            }
            Action::DeleteSnapshot(reference) => {
                observed.snapshots.remove(&reference.name).is_some()
            }
            Action::WriteStatus(write) => {
                let Some(resource) = observed.resources.get_mut(&write.rollout) else {
                    return false;
                };
                if resource.resource_version != write.resource_version {
                    return false;
                }
                resource.resource_version = version;
                resource.status = Some(write.status.clone());
                resource.upstream.take_if(|_| write.upstream == UpstreamMaps::Drop);
                true
            }
            Action::WriteNodeMetadata(_) => true,
            Action::PatchNode(patch) => self.patch_node(patch, version),
            Action::Evict(eviction) => self.evict(&eviction.pod),
            Action::CreateExecutor(spec) => self.create_executor(spec),
            Action::DeleteExecutors { visits, .. } => {
                let before = observed.executors.len();
                observed.executors.retain(|_, executor| !visits.contains(&executor.visit));
                observed.executors.len() < before
            }
            Action::PatchTaints(patch) => self.patch_taints(patch, version),
            Action::SetFinalizer(write) => {
                let known = observed.resources.get_mut(&write.rollout);
                let Some(resource) = known.filter(|resource| {
                    resource.uid == write.rollout_uid
                        && resource.resource_version == write.resource_version
                }) else {
                    return false;
                };
                resource.resource_version = version;
                resource.finalizer = write.present;
                if resource.deleting && !write.present {
                    observed.resources.remove(&write.rollout);
                    self.input.desired.rollouts.remove(&write.rollout);
                }
                true
            }
            Action::CleanNode(cleaning) => self.clean_node(cleaning, version),
            Action::DeleteUpstreamWork { work, .. } => {
                let before = observed.upstream.len();
                observed.upstream.retain(|_, it| it.reference != *work);
                observed.upstream.len() < before
            }
            Action::DeleteExecutor { pod, .. } => observed.executors.remove(&pod.name).is_some(),
        }
    }

    fn patch_node(&mut self, patch: &NodePatch, version: String) -> bool {
        let Some(node) = self.input.observed.nodes.get_mut(&patch.node) else { return false };
        let state = node.rollouts.get(&patch.rollout).cloned().unwrap_or_default();
        let holds = match &patch.kind {
            PatchKind::Pick { resource_version }
            | PatchKind::Recordon { resource_version }
            | PatchKind::Release { resource_version } => *resource_version == node.resource_version,
            PatchKind::Progress { record_text, entries_text } => {
                *record_text == state.record_text && *entries_text == state.entries_text
            }
        };
        if !holds || node.uid != patch.node_uid {
            return false;
        }
        node.resource_version = version;
        node.is_new = false;
        node.rollouts.insert(patch.rollout.clone(), patched(state, patch));
        let mark = CordonMark::Rollout(patch.rollout.clone());
        match patch.cordon_mark {
            Some(true) if !node.cordons.contains(&mark) => node.cordons.push(mark),
            Some(false) => node.cordons.retain(|other| *other != mark),
            Some(true) | None => {}
        }
        node.unschedulable = patch.unschedulable.unwrap_or(node.unschedulable);
        true
    }

    fn patch_taints(&mut self, patch: &TaintPatch, version: String) -> bool {
        let Some(node) = self.input.observed.nodes.get_mut(&patch.node) else { return false };
        if node.uid != patch.node_uid || node.taints != patch.before {
            return false;
        }
        node.resource_version = version;
        node.taints.clone_from(&patch.after);
        node.is_new &= patch.auto_taint_mark.is_none();
        match patch.cordon_after {
            Some(true) => {
                node.unschedulable = true;
                node.is_new = false;
                node.cordons.retain(|mark| *mark != CordonMark::RuntimeRequired);
                node.cordons.push(CordonMark::RuntimeRequired);
            }
            Some(false) => node.cordons.retain(|mark| *mark != CordonMark::RuntimeRequired),
            None => {}
        }
        true
    }

    fn clean_node(&mut self, cleaning: &NodeCleaning, version: String) -> bool {
        let Some(node) = self.input.observed.nodes.get_mut(&cleaning.node) else { return false };
        if node.uid != cleaning.node_uid || node.resource_version != cleaning.resource_version {
            return false;
        }
        node.resource_version = version;
        let mark = CordonMark::Rollout(cleaning.rollout.clone());
        node.cordons.retain(|other| *other != mark);
        let before = node.rollouts.remove(&cleaning.rollout);
        if let Some(before) = before.filter(|_| cleaning.keep_entries) {
            let NodeRollout { entries, entries_text, .. } = before;
            let kept = NodeRollout { entries, entries_text, ..NodeRollout::default() };
            node.rollouts.insert(cleaning.rollout.clone(), kept);
        }
        true
    }

    fn evict(&mut self, pod: &PodRef) -> bool {
        if self.guarded.contains(&pod.uid) {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let refusal = Refusal {
                at: self.input.now,
                message: message.to_owned(),
                cause: RefusalCause::Unknown,
            };
            self.input.observed.refusals.insert(pod.uid.clone(), refusal);
            return false;
        }
        let mut pods = self.input.observed.pods.values_mut().flat_map(BTreeMap::values_mut);
        let Some(found) = pods.find(|there| there.reference == *pod) else { return false };
        found.terminating = true;
        true
    }

    fn create_executor(&mut self, spec: &ExecutorSpec) -> bool {
        let group = spec.work.group();
        let package = spec.work.package_id();
        let name = format!(
            "{}-{}-{}-{group}-{package}-{}{}",
            spec.visit.rollout,
            spec.visit.node,
            spec.visit.visit,
            spec.attempt,
            if group == Group::Pull { spec.snapshot.as_str() } else { "" },
        );
        if self.input.observed.executors.contains_key(&name) {
            return false;
        }
        let executor = Executor {
            reference: PodRef {
                namespace: "nodewright".to_owned(),
                name: name.clone(),
                uid: format!("uid-{name}"),
            },
            visit: spec.visit.clone(),
            group,
            package,
            snapshot: spec.snapshot.clone(),
            attempt: spec.attempt,
            created: self.input.now,
            phase: ExecutorPhase::Running,
            completed: Vec::new(),
            running: first_stage(&spec.work),
            stage_since: Some(self.input.now),
            begun: true,
            waiting: None,
            finished: None,
            failure: None,
            terminating: false,
        };
        self.input.observed.executors.insert(name.clone(), executor);
        if group == Group::Pull && self.images == Images::AtHand {
            self.end(&name, End::Success);
        }
        true
    }

    /// Returns the executors that may still do something.
    pub fn active(&self) -> Vec<String> {
        let executors = self.input.observed.executors.iter();
        executors
            .filter(|(_, executor)| executor.is_active())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Ends an executor. A reboot ends it with the node: it fails, and the boot ID changes.
    pub fn end(&mut self, name: &str, end: End) {
        let Some(executor) = self.input.observed.executors.get_mut(name) else { return };
        let stages = match executor.group {
            Group::Install => {
                let first = executor.running.unwrap_or(Stage::Config);
                if first == Stage::Config { vec![first] } else { vec![first, Stage::Config] }
            }
            Group::Pull => Vec::new(),
            Group::Uninstall => vec![Stage::Uninstall],
            Group::Interrupt => vec![Stage::Interrupt],
            Group::Verify => vec![Stage::PostInterrupt],
        };
        executor.finished = Some(self.input.now);
        let visit = executor.visit.clone();
        let reboots = executor.group == Group::Interrupt
            && self.kind_of_interrupt(&visit.rollout, &visit.node) == Some(InterruptKind::Reboot);
        let Some(executor) = self.input.observed.executors.get_mut(name) else { return };
        match end {
            End::Success if reboots => {
                executor.phase = ExecutorPhase::Failed;
                executor.failure = Some(failure(None, "node was shut down", true));
            }
            End::Success => {
                executor.phase = ExecutorPhase::Succeeded;
                executor.completed.clone_from(&stages);
            }
            End::Failure => {
                executor.phase = ExecutorPhase::Failed;
                executor.failure = Some(failure(stages.first().copied(), "exit 1", false));
            }
            End::Disruption => {
                executor.phase = ExecutorPhase::Failed;
                executor.failure = Some(failure(None, "evicted", true));
            }
        }
        let record = (executor.package.to_string(), executor.snapshot.clone());
        if end == End::Success {
            for stage in stages {
                let (package, snapshot) = record.clone();
                let node = visit.node.clone();
                self.completed.push((node, package, snapshot, stage, visit.visit));
            }
        }
        if end == End::Success && reboots {
            self.reboot(&visit.node);
        }
    }

    fn kind_of_interrupt(&self, rollout: &str, node: &str) -> Option<InterruptKind> {
        let state = self.input.observed.nodes.get(node)?.rollouts.get(rollout)?;
        Some(state.record.as_ref()?.interrupt.as_ref()?.kind)
    }

    /// Reboots a node: what runs on it dies, and it comes back with another boot ID.
    pub fn reboot(&mut self, name: &str) {
        self.versions += 1;
        let count = self.reboots.entry(name.to_owned()).or_default();
        *count += 1;
        let boot_id = format!("boot-{name}-{count}");
        if let Some(node) = self.input.observed.nodes.get_mut(name) {
            node.boot_id = boot_id;
            node.resource_version = self.versions.to_string();
        }
        for executor in self.input.observed.executors.values_mut() {
            if executor.visit.node == name && executor.is_active() {
                executor.phase = ExecutorPhase::Failed;
                executor.finished = Some(self.input.now);
                executor.failure = Some(failure(None, "node was shut down", true));
            }
        }
    }

    /// Returns whether every rollout is complete on every node.
    pub fn is_complete(&self) -> bool {
        let plan = plan(&self.input);
        plan.actions.is_empty()
            && plan
                .verdicts
                .values()
                .flat_map(BTreeMap::values)
                .all(|verdict| verdict.kind == crate::model::VerdictKind::Done)
    }
}

fn patched(state: NodeRollout, patch: &NodePatch) -> NodeRollout {
    let entries = patch.entries.clone().unwrap_or(state.entries);
    let record = patch.record.clone().or(state.record);
    NodeRollout {
        entries_text: serde_json::to_string(&entries).ok(),
        record_text: record.as_ref().and_then(|record| serde_json::to_string(record).ok()),
        entries,
        record,
        status: patch.status.or(state.status),
        drain_start: patch.drain_start.unwrap_or(state.drain_start),
        legacy: false,
        malformed: state.malformed,
    }
}
