//! The API server of the world: carries an action out, or refuses it as the real one would.

use std::collections::BTreeMap;

use super::parts::first_stage;
use super::{End, Images, World};
use crate::model::{
    Action, CordonMark, Entries, Executor, ExecutorPhase, ExecutorSpec, Group, NodeCleaning,
    NodePatch, NodeRollout, PatchKind, PodRef, Refusal, Rejection, Snapshot, SnapshotSpec,
    TaintPatch, UpstreamMaps,
};

impl World {
    /// Executes one action as the API server would. Returns whether it changed something.
    pub(super) fn execute(&mut self, action: &Action) -> bool {
        let version = self.next_version();
        let observed = &mut self.input.observed;
        match action {
            Action::CreateSnapshot(spec) => self.create_snapshot(spec, &version),
            Action::DeleteSnapshot(reference) => {
                let known = observed.snapshots.get(&reference.name);
                known.is_some_and(|known| known.uid == reference.uid)
                    && observed.snapshots.remove(&reference.name).is_some()
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
            Action::DeleteExecutor { pod, .. } => {
                let known = observed.executors.get(&pod.name);
                known.is_some_and(|known| known.reference.uid == pod.uid)
                    && observed.executors.remove(&pod.name).is_some()
            }
        }
    }

    fn patch_node(&mut self, patch: &NodePatch, version: String) -> bool {
        let Some(node) = self.input.observed.nodes.get_mut(&patch.node) else { return false };
        let state = node.rollouts.get(&patch.rollout);
        let state = state.map(|state| NodeRollout::clone(state)).unwrap_or_default();
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
        node.rollouts.insert(patch.rollout.clone(), patched(state, patch).into());
        let mark = CordonMark::Rollout(patch.rollout.clone());
        match patch.cordon_mark {
            Some(true) if !node.cordons.contains(&mark) => node.cordons.push(mark),
            Some(false) => node.cordons.retain(|other| *other != mark),
            Some(true) | None => {}
        }
        node.unschedulable = patch.unschedulable.unwrap_or(node.unschedulable);
        // A cordon that outlives our mark is that of whoever asks for the node (neighbours 1.12).
        let asked = node.hold.is_some() || !node.claims.is_empty() || node.deleting;
        let left = patch.cordon_mark == Some(false) && node.unschedulable;
        if asked && left && node.cordons.is_empty() {
            self.foreign.insert(patch.node.clone());
        }
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
            let NodeRollout { entries, left, entries_text, .. } = NodeRollout::clone(&before);
            let kept = NodeRollout { entries, left, entries_text, ..NodeRollout::default() };
            node.rollouts.insert(cleaning.rollout.clone(), kept.into());
        }
        true
    }

    fn evict(&mut self, pod: &PodRef) -> bool {
        if self.guarded.contains(&pod.uid) {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let cause = self.causes.get(&pod.uid).cloned().unwrap_or_default();
            let refusal = Refusal { at: self.input.now, message: message.to_owned(), cause };
            self.input.observed.refusals.insert(pod.uid.clone(), refusal);
            return false;
        }
        let mut pods = self.input.observed.pods.values_mut().flat_map(BTreeMap::values_mut);
        let Some(found) = pods.find(|there| there.reference == *pod) else { return false };
        found.terminating = true;
        true
    }

    fn create_snapshot(&mut self, spec: &SnapshotSpec, version: &str) -> bool {
        let name = spec.package.snapshot_name(&spec.rollout);
        if self.reject(&name) {
            return false;
        }
        let snapshot = Snapshot {
            rollout: spec.rollout.clone(),
            uid: format!("uid-{name}-{version}"),
            package: spec.package.clone(),
        };
        self.input.observed.snapshots.insert(name, snapshot).is_none()
    }

    /// Returns whether the API server refuses to create something, and remembers since when, as
    /// the edge does.
    fn reject(&mut self, key: &str) -> bool {
        let rejections = &mut self.input.observed.rejections;
        if !self.rejecting {
            rejections.remove(key);
            return false;
        }
        let now = self.input.now;
        let since = rejections.get(key).map_or(now, |known| known.since);
        let message = "exceeded quota".to_owned();
        rejections.insert(key.to_owned(), Rejection { since, at: now, message });
        true
    }

    fn create_executor(&mut self, spec: &ExecutorSpec) -> bool {
        let group = spec.work.group();
        let package = spec.work.package_id();
        // As the edge names them: another Node object of the same name gives another name.
        let name = format!(
            "{}-{}-{}-{group}-{package}-{}{}",
            spec.visit.rollout,
            spec.visit.node_uid,
            spec.visit.visit,
            spec.attempt,
            if group == Group::Pull { spec.snapshot.as_str() } else { "" },
        );
        if !spec.holds_on(self.input.observed.nodes.get(&spec.visit.node))
            || self.input.observed.executors.contains_key(&name)
            || self.reject(&spec.visit.executor_key(group, &package.name))
        {
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
        self.told.insert(name.clone(), spec.clone());
        self.input.observed.executors.insert(name.clone(), executor);
        if group == Group::Pull && self.images == Images::AtHand {
            self.end(&name, End::Success);
        }
        true
    }
}

/// Returns the annotation that says both.
pub(super) fn entries_text(entries: &Entries, left: &Entries) -> Option<String> {
    let all: Entries =
        left.iter().chain(entries).map(|(id, it)| (id.clone(), it.clone())).collect();
    serde_json::to_string(&all).ok()
}

fn patched(state: NodeRollout, patch: &NodePatch) -> NodeRollout {
    let left = if patch.entries.is_some() { Entries::new() } else { state.left };
    let entries = patch.entries.clone().unwrap_or(state.entries);
    let record = patch.record.clone().or(state.record);
    NodeRollout {
        entries_text: entries_text(&entries, &left),
        left,
        record_text: record.as_ref().and_then(|record| serde_json::to_string(record).ok()),
        entries,
        record,
        status: patch.status.or(state.status),
        drain_start: patch.drain_start.unwrap_or(state.drain_start),
        legacy: false,
        malformed: state.malformed,
    }
}
