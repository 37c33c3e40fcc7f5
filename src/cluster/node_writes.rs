//! Taints, finalizers and what a deleted resource leaves behind: each one request.
//!
//! In: an action. Out: its outcome, with the answer in the store.
//! Must never: replace a list that others write, such as a node's taints, as a whole.

use serde_json::{Map, Value, json};

use super::act::{Actor, Outcome, Target, nodewright_path};
use super::error::ClusterError;
use super::lease::LeaderProof;
use super::legacy;
use super::node_state::MARK;
use super::removals;
use super::requests::{Answer, Body, Mutation, Verb};
use super::slim::Untyped;
use super::slim_node::SlimNode;
use crate::api::{NodeWright, keys};
use crate::model::{FinalizerWrite, NodeCleaning, Taint, TaintPatch, UpstreamRef};

impl Actor {
    /// Changes taints of a node by their places in the list, each tested first.
    pub(super) async fn patch_taints(
        &self,
        proof: &LeaderProof,
        patch: &TaintPatch,
    ) -> Result<Outcome, ClusterError> {
        let is_annotated = self.store.node(&patch.node).is_some_and(|node| node.annotated);
        let mutation = Mutation {
            what: format!("changing the taints of node {}", patch.node),
            verb: Verb::Patch,
            path: format!("/api/v1/nodes/{}", patch.node),
            body: Body::JsonPatch,
            content: taint_operations(patch, is_annotated),
        };
        self.change_node(proof, mutation).await
    }

    /// Removes the keys of a resource that is gone, at the version the planner saw.
    pub(super) async fn clean_node(
        &self,
        proof: &LeaderProof,
        cleaning: &NodeCleaning,
    ) -> Result<Outcome, ClusterError> {
        let mutation = Mutation {
            what: format!("cleaning node {} of rollout {}", cleaning.node, cleaning.rollout),
            verb: Verb::Patch,
            path: format!("/api/v1/nodes/{}", cleaning.node),
            body: Body::MergePatch,
            content: cleaning_patch(cleaning),
        };
        self.change_node(proof, mutation).await
    }

    /// Adds or removes our finalizer, beside those of others.
    pub(super) async fn set_finalizer(
        &self,
        proof: &LeaderProof,
        write: &FinalizerWrite,
    ) -> Result<Outcome, ClusterError> {
        let target = Target::NodeWright(write.rollout.clone());
        let known = self.store.nodewright_metadata(&write.rollout).filter(|known| {
            known.resource_version.as_deref() == Some(write.resource_version.as_str())
                && known.uid.as_deref() == Some(write.rollout_uid.as_str())
        });
        let Some(known) = known else {
            self.read_again(&target).await;
            return Ok(Outcome::Conflict { object: target.words() });
        };
        let mut finalizers = known.finalizers.unwrap_or_default();
        finalizers.retain(|finalizer| finalizer != keys::FINALIZER);
        if write.present {
            finalizers.push(keys::FINALIZER.to_owned());
        }
        let verb = if write.present { "adding" } else { "removing" };
        let mutation = Mutation {
            what: format!("{verb} the finalizer of nodewright {}", write.rollout),
            verb: Verb::Patch,
            path: nodewright_path(&write.rollout),
            body: Body::MergePatch,
            content: json!({ "metadata": {
                "resourceVersion": write.resource_version,
                "finalizers": finalizers,
            }}),
        };
        let answer = self.requests.mutate::<Untyped<NodeWright>>(proof, mutation).await?;
        if let Answer::Object(object) = answer {
            self.store.put(object);
        }
        // The answer to the removal of the last finalizer is an object that is gone.
        if !write.present {
            self.read_again(&target).await;
        }
        Ok(Outcome::Done)
    }

    /// Deletes a Job or pod of upstream's, by UID, with what it owns.
    pub(super) async fn delete_upstream_work(
        &self,
        proof: &LeaderProof,
        work: &UpstreamRef,
    ) -> Result<Outcome, ClusterError> {
        match self.requests.mutate::<Value>(proof, removals::upstream_work(work)).await {
            Ok(_) => Ok(Outcome::Done),
            Err(error) if error.is_not_found() => Ok(Outcome::Done),
            Err(error) => Err(error),
        }
    }

    async fn change_node(
        &self,
        proof: &LeaderProof,
        mutation: Mutation,
    ) -> Result<Outcome, ClusterError> {
        match self.requests.mutate::<SlimNode>(proof, mutation).await? {
            Answer::Object(object) => self.store.put(object),
            Answer::Status(_) => {}
        }
        Ok(Outcome::Done)
    }
}

/// Tests the UID and every taint that was read, then changes single places of the list: taints
/// carry more than we keep, and others add theirs at any time (failures J1).
fn taint_operations(patch: &TaintPatch, is_annotated: bool) -> Value {
    let TaintPatch { node_uid, resource_version, before, after, .. } = patch;
    let mut operations = vec![test("/metadata/uid", &json!(node_uid))];
    let place = |index: usize| format!("/spec/taints/{index}");
    let goes = |taint: &Taint| !after.contains(taint);
    for (index, taint) in before.iter().enumerate() {
        operations.push(test(&format!("{}/key", place(index)), &json!(taint.key)));
        operations.push(test(&format!("{}/effect", place(index)), &json!(taint.effect)));
        // With another value it is another's. An empty one may not be there to be tested.
        if goes(taint) && !taint.value.is_empty() {
            operations.push(test(&format!("{}/value", place(index)), &json!(taint.value)));
        }
    }
    for (index, taint) in before.iter().enumerate().rev() {
        if goes(taint) {
            operations.push(json!({ "op": "remove", "path": place(index) }));
        }
    }
    let added: Vec<&Taint> = after.iter().filter(|taint| !before.contains(taint)).collect();
    let alone = before.is_empty() && !added.is_empty();
    let marks = marks(patch);
    if alone || (!marks.is_empty() && !is_annotated) {
        // There may be no list or map to test or to add to: so it was at this version.
        operations.push(test("/metadata/resourceVersion", &json!(resource_version)));
    }
    if alone {
        operations.push(json!({ "op": "add", "path": "/spec/taints", "value": added }));
    } else {
        let append = |taint| json!({ "op": "add", "path": "/spec/taints/-", "value": taint });
        operations.extend(added.into_iter().map(append));
    }
    if !marks.is_empty() && !is_annotated {
        operations.push(json!({ "op": "add", "path": "/metadata/annotations", "value": {} }));
    }
    operations.extend(marks);
    if patch.cordon_after == Some(true) {
        let path = "/spec/unschedulable";
        operations.push(json!({ "op": "add", "path": path, "value": true }));
    }
    Value::Array(operations)
}

/// The annotations that go with a change of taints.
fn marks(patch: &TaintPatch) -> Vec<Value> {
    let mut operations = Vec::new();
    let path =
        |key: &str| format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1"));
    let add = |path: &str| json!({ "op": "add", "path": path, "value": MARK });
    if let Some(key) = &patch.auto_taint_mark {
        operations.push(add(&path(&keys::auto_taint(key))));
    }
    let cordon = path(keys::RUNTIME_REQUIRED_CORDON);
    match patch.cordon_after {
        Some(true) => operations.push(add(&cordon)),
        Some(false) => {
            // `remove` fails where there is nothing, and the mark may be under either prefix.
            for path in [cordon, path(&legacy::former(keys::RUNTIME_REQUIRED_CORDON))] {
                operations.push(add(&path));
                operations.push(json!({ "op": "remove", "path": path }));
            }
        }
        None => {}
    }
    operations
}

fn test(path: &str, value: &Value) -> Value {
    json!({ "op": "test", "path": path, "value": value })
}

fn cleaning_patch(cleaning: &NodeCleaning) -> Value {
    let NodeCleaning { node: _, node_uid, resource_version, rollout, keep_entries } = cleaning;
    let mut gone = vec![
        keys::rollout(rollout),
        keys::status(rollout),
        keys::cordon(rollout),
        keys::drain_start(rollout),
        keys::drain_blocked(rollout),
    ];
    if !keep_entries {
        gone.extend([keys::node_state(rollout), keys::version(rollout)]);
    }
    let all = gone.iter().flat_map(|key| [key.clone(), legacy::former(key)]);
    let annotations: Map<String, Value> = all.map(|key| (key, Value::Null)).collect();
    let label = keys::status(rollout);
    json!({ "metadata": {
        "uid": node_uid,
        "resourceVersion": resource_version,
        "annotations": annotations,
        "labels": { legacy::former(&label): null, label: null },
    }})
}
