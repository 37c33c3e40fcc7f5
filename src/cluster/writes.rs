//! One function per action: the request, and what its answer means (design §4 rules 2 to 8).
//!
//! In: an action. Out: its outcome, with the answer in the store.
//! Must never: send a second mutating request where the first may have worked.

use serde_json::{Value, json};

use super::act::{Actor, Outcome, Target, nodewright_path};
use super::error::ClusterError;
use super::lease::LeaderProof;
use super::metadata::WholeNode;
use super::requests::{Answer, Body, Mutation, Verb};
use super::slim::{SlimConfigMap, Untyped};
use super::slim_node::SlimNode;
use super::slim_pod::SlimPod;
use super::{executor, metadata, node_patch, removals, snapshot, status, upstream_status};
use crate::api::{NodeWright, NodeWrightStatus};
use crate::model::{
    ConfigMapRef, ExecutorSpec, Group, NodeMetadata, NodePatch, PodRef, SnapshotSpec, StatusWrite,
    VisitRef,
};

impl Actor {
    /// Creates a snapshot. One that is there already has the same content by its name, unless it is
    /// somebody else's ConfigMap.
    pub(super) async fn create_snapshot(
        &self,
        proof: &LeaderProof,
        spec: &SnapshotSpec,
    ) -> Result<Outcome, ClusterError> {
        let built = snapshot::build(spec, &self.settings.namespace);
        let name = spec.package.snapshot_name(&spec.rollout);
        let mutation = Mutation {
            what: format!("creating snapshot {name} of rollout {}", spec.rollout),
            verb: Verb::Create,
            path: self.config_maps(),
            body: Body::Json,
            content: to_value(&built),
        };
        match self.requests.mutate::<SlimConfigMap>(proof, mutation).await {
            Ok(Answer::Object(object)) => self.store.put(object),
            Ok(Answer::Status(_)) => {}
            Err(error) if error.is_already_exists() => {
                return self.snapshot_there(&name).await;
            }
            Err(error) => return Err(error),
        }
        Ok(Outcome::Done)
    }

    /// Reads the ConfigMap that has a snapshot's name, and says whether it is the snapshot.
    async fn snapshot_there(&self, name: &str) -> Result<Outcome, ClusterError> {
        let request = format!("reading snapshot {name}");
        let path = format!("{}/{name}", self.config_maps());
        let found = self.requests.read::<SlimConfigMap>(request.clone(), &path).await?;
        let Some(found) = found else {
            self.store.bury_known::<SlimConfigMap>(name);
            return Ok(Outcome::Conflict { object: format!("configmap {name}") });
        };
        if snapshot::read(&found).is_some() {
            self.store.put(found);
            return Ok(Outcome::Done);
        }
        let object = format!("configmap {}/{name}", self.settings.namespace);
        Err(ClusterError::InTheWay { request, object })
    }

    /// Deletes a snapshot by UID.
    pub(super) async fn delete_snapshot(
        &self,
        proof: &LeaderProof,
        spec: &ConfigMapRef,
    ) -> Result<Outcome, ClusterError> {
        let mutation = removals::snapshot(&self.settings.namespace, spec);
        match self.requests.mutate::<SlimConfigMap>(proof, mutation).await {
            Ok(Answer::Object(_) | Answer::Status(_)) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        self.store.bury_uid::<SlimConfigMap>(&spec.name, &spec.uid);
        Ok(Outcome::Done)
    }

    /// Writes a status at the version the planner saw.
    pub(super) async fn write_status(
        &self,
        proof: &LeaderProof,
        write: &StatusWrite,
    ) -> Result<Outcome, ClusterError> {
        let target = Target::NodeWright(write.rollout.clone());
        let known = self.store.nodewright_status(&write.rollout, &write.resource_version);
        let Some(known) = known else {
            self.read_again(&target).await;
            return Ok(Outcome::Conflict { object: target.words() });
        };
        let wanted = status::to_api(&write.status, known.as_ref(), self.clock.now());
        let before = known.as_ref().map_or_else(|| json!({}), to_value);
        let difference = status::merge_difference(&before, &to_value(&wanted));
        let Some(difference) = upstream_status::with_maps(difference, write.upstream) else {
            return Ok(Outcome::Done);
        };
        let mutation = Mutation {
            what: format!("writing the status of nodewright {}", write.rollout),
            verb: Verb::Patch,
            path: format!("{}/status", nodewright_path(&write.rollout)),
            body: Body::MergePatch,
            content: json!({
                "metadata": { "resourceVersion": write.resource_version },
                "status": difference,
            }),
        };
        let answer = self.requests.mutate::<Untyped<NodeWright>>(proof, mutation).await?;
        let Answer::Object(object) = answer else { return Ok(Outcome::Done) };
        let is_whole = has_our_fields(&object.value, &wanted);
        self.store.put(object);
        if is_whole {
            return Ok(Outcome::Done);
        }
        let what = format!("status.rollout of nodewright {}", write.rollout);
        Ok(Outcome::OutdatedCrd { what })
    }

    /// Writes the ConfigMap with a node's metadata: one write, whether it is there or not.
    pub(super) async fn write_metadata(
        &self,
        proof: &LeaderProof,
        spec: &NodeMetadata,
    ) -> Result<Outcome, ClusterError> {
        let target = Target::Node(spec.node.clone());
        let path = format!("/api/v1/nodes/{}", spec.node);
        let what = format!("reading labels and annotations of node {}", spec.node);
        let node = self.requests.read::<WholeNode>(what, &path).await?;
        let Some(node) = node.filter(|node| node.metadata.uid == spec.node_uid) else {
            self.read_again(&target).await;
            return Ok(Outcome::Conflict { object: target.words() });
        };
        let Some(built) = metadata::build(spec, &node, &self.settings) else {
            return Ok(Outcome::Done);
        };
        let name = built.metadata.name.clone().unwrap_or_default();
        let content = to_value(&built);
        let create = Mutation {
            what: format!("creating configmap {name} of node {}", spec.node),
            verb: Verb::Create,
            path: self.config_maps(),
            body: Body::Json,
            content: content.clone(),
        };
        let update = Mutation {
            what: format!("updating configmap {name} of node {}", spec.node),
            verb: Verb::Patch,
            path: format!("{}/{name}", self.config_maps()),
            body: Body::MergePatch,
            content,
        };
        // "Not there" to an update and "there" to a create say for certain that nothing was done.
        let is_known = self.with_known_metadata(|known| known.contains(&name));
        let (first, second) = if is_known { (update, create) } else { (create, update) };
        match self.requests.mutate::<Value>(proof, first).await {
            Ok(_) => {}
            Err(error) if is_known && error.is_not_found() || error.is_already_exists() => {
                let _answer = self.requests.mutate::<Value>(proof, second).await?;
            }
            Err(error) => return Err(error),
        }
        self.with_known_metadata(|known| known.insert(name));
        Ok(Outcome::Done)
    }

    /// Changes our keys on a node.
    pub(super) async fn patch_node(
        &self,
        proof: &LeaderProof,
        patch: &NodePatch,
    ) -> Result<Outcome, ClusterError> {
        let kind = match &patch.kind {
            crate::model::PatchKind::Pick { .. } => "picking",
            crate::model::PatchKind::Recordon { .. } => "cordoning again",
            crate::model::PatchKind::Progress { .. } => "recording progress on",
            crate::model::PatchKind::Release { .. } => "releasing",
        };
        let what = format!("{kind} node {} for rollout {}", patch.node, patch.rollout);
        let known = self.store.node(&patch.node);
        let (body, content) = match node_patch::build(patch, known.as_ref()) {
            Ok(built) => built,
            Err(node_patch::NoPatch::Conflict) => {
                let target = Target::Node(patch.node.clone());
                self.read_again(&target).await;
                return Ok(Outcome::Conflict { object: target.words() });
            }
            Err(node_patch::NoPatch::TooLarge(source)) => {
                return Err(ClusterError::TooLarge { request: what, source });
            }
        };
        let path = format!("/api/v1/nodes/{}", patch.node);
        let mutation = Mutation { what, verb: Verb::Patch, path, body, content };
        let answer = self.requests.mutate::<SlimNode>(proof, mutation).await?;
        let Answer::Object(object) = answer else { return Ok(Outcome::Done) };
        let wanted = node_patch::record_text(patch);
        let written =
            object.node.rollouts.get(&patch.rollout).and_then(|state| state.record_text.clone());
        self.store.put(object);
        if wanted.is_some() && wanted != written {
            let what = format!("the record of rollout {} on node {}", patch.rollout, patch.node);
            return Ok(Outcome::OutdatedCrd { what });
        }
        Ok(Outcome::Done)
    }

    /// Creates an executor. One that is there is a Conflict: it is read, and the planner sees it.
    ///
    /// An interrupt is issued only on a node that reads back, with quorum, as it was planned on
    /// (see [`ExecutorSpec::holds_on`]).
    pub(super) async fn create_executor(
        &self,
        proof: &LeaderProof,
        spec: &ExecutorSpec,
    ) -> Result<Outcome, ClusterError> {
        if spec.work.group() == Group::Interrupt {
            let name = &spec.visit.node;
            let what = format!("reading node {name} before its interrupt");
            let node: Option<SlimNode> =
                self.requests.read(what, &format!("/api/v1/nodes/{name}")).await?;
            let holds = spec.holds_on(node.as_ref().map(|node| &node.node));
            match node {
                Some(node) => self.store.put(node),
                None => self.store.bury_known::<SlimNode>(name),
            }
            if !holds {
                return Ok(Outcome::Conflict { object: Target::Node(name.clone()).words() });
            }
        }
        let built = executor::build(spec, &self.settings, self.clock.now());
        let name = built.metadata.name.clone().unwrap_or_default();
        let mutation = Mutation {
            what: format!("creating executor {name} on node {}", spec.visit.node),
            verb: Verb::Create,
            path: format!("/api/v1/namespaces/{}/pods", self.settings.namespace),
            body: Body::Json,
            content: to_value(&built),
        };
        let request = mutation.what.clone();
        match self.requests.mutate::<SlimPod>(proof, mutation).await {
            Ok(Answer::Object(object)) => self.store.put(object),
            Ok(Answer::Status(_)) => {}
            Err(error) if error.is_already_exists() => {
                let uid = String::new();
                let pod = PodRef { namespace: self.settings.namespace.clone(), name, uid };
                self.read_again(&Target::Pod(pod.clone())).await;
                if self.store.is_foreign_pod(&pod) {
                    return Err(ClusterError::InTheWay { request, object: format!("pod {pod}") });
                }
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        Ok(Outcome::Done)
    }

    /// Deletes the executors of visits that are over: one request, or few.
    pub(super) async fn delete_executors(
        &self,
        proof: &LeaderProof,
        rollout: &str,
        visits: &[VisitRef],
    ) -> Result<Outcome, ClusterError> {
        for some in visits.chunks(removals::VISITS_PER_REQUEST_MAX) {
            let mutation = removals::executors(&self.settings.namespace, rollout, some);
            // The answer lists what is deleted as it was before; the watch tells what is left.
            let _answer = self.requests.mutate::<Value>(proof, mutation).await?;
            self.store.mark_executors_terminating(rollout, some);
        }
        Ok(Outcome::Done)
    }

    /// Evicts or deletes one pod by UID; one that is gone is what was wanted.
    pub(super) async fn remove_pod(
        &self,
        proof: &LeaderProof,
        pod: &PodRef,
        mutation: Mutation,
    ) -> Result<Outcome, ClusterError> {
        match self.requests.mutate::<SlimPod>(proof, mutation).await {
            // The server deletes with grace: the pod is still there, and ends.
            Ok(Answer::Object(object)) => {
                self.store.put(object);
                self.store.mark_terminating(pod);
            }
            Ok(Answer::Status(_)) => self.store.mark_terminating(pod),
            Err(error) if error.is_not_found() => {
                self.store.bury_uid::<SlimPod>(&pod.to_string(), &pod.uid);
            }
            Err(error) => return Err(error),
        }
        Ok(Outcome::Done)
    }

    fn config_maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.settings.namespace)
    }
}

/// Returns whether an answer holds the part of the status that is ours as it was written.
///
/// Both are compared as they are read, since the server may fill in defaults.
fn has_our_fields(answer: &Value, wanted: &NodeWrightStatus) -> bool {
    let written = answer.get("status").cloned().unwrap_or_default();
    let read: Option<NodeWrightStatus> = serde_json::from_value(written).ok();
    let sent: Option<NodeWrightStatus> = serde_json::from_value(to_value(wanted)).ok();
    read.and_then(|status| status.rollout) == sent.and_then(|status| status.rollout)
}

fn to_value<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("plain data with string keys becomes JSON")
}
