//! Node conditions that others read: `P/<cr>/NotReady` and `P/<cr>/Erroring` (upstream contract C).
//!
//! In: one look at the cluster. Out: one strategic merge on `nodes/status` for a node whose
//! conditions do not say what its annotations say; nothing where they do. They are told after the
//! fact, from what is recorded, and nothing of ours reads them.
//! Differs from upstream: they follow `status_<cr>`, so a commit does not write to every node; a
//! node turns not ready when its batch comes. Those of a resource that is gone are taken off.
//! Must never: touch a condition of others, or stop a tick.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::act::Actor;
use super::error::ClusterError;
use super::lease::LeaderProof;
use super::requests::{Answer, Body, Mutation, Verb};
use super::slim_node::SlimNode;
use crate::api::keys;
use crate::model::{Node, NodeRollout, Observed, State, StatusWord};

/// Nodes written in one tick: the rest follows, and what moves nodes does not wait for it.
const NODES_PER_TICK_MAX: usize = 32;

/// Nodes written at a time.
const AT_ONCE_MAX: usize = 8;

const NOT_READY: &str = "/NotReady";
const ERRORING: &str = "/Erroring";

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// Every node says what is so.
    All,
    /// Some nodes are left for the next tick.
    Partly,
    /// Some could not be written; the log says why.
    Failed,
    /// The right to do it is missing.
    Forbidden,
}

/// A node that does not say what is so.
struct Due {
    node: String,
    uid: String,
    /// What to merge into the list of its conditions.
    changes: Vec<Value>,
}

/// Returns whether a condition of this type is one of these, under either prefix.
pub(super) fn is_published(kind: &str) -> bool {
    let ours = [keys::PREFIX, keys::LEGACY_PREFIX].iter().any(|prefix| kind.starts_with(prefix));
    ours && rollout_of(kind).is_some()
}

fn rollout_of(kind: &str) -> Option<&str> {
    let rest = kind.split_once('/')?.1;
    rest.strip_suffix(NOT_READY).or_else(|| rest.strip_suffix(ERRORING))
}

impl Actor {
    /// Writes the conditions of nodes that do not say what is so.
    pub async fn publish_conditions(&self, proof: &LeaderProof, observed: &Observed) -> Published {
        let mut due = due(observed, self.clock.now());
        let is_cut = due.len() > NODES_PER_TICK_MAX;
        due.truncate(NODES_PER_TICK_MAX);
        let sent = due.into_iter().map(|due| self.publish_one(proof, due));
        let sent: Vec<Result<(), ClusterError>> =
            stream::iter(sent.collect::<Vec<_>>()).buffer_unordered(AT_ONCE_MAX).collect().await;
        let failed: Vec<ClusterError> = sent.into_iter().filter_map(Result::err).collect();
        if let Some(error) = failed.first() {
            let error = error as &dyn std::error::Error;
            let nodes = failed.len();
            tracing::warn!(
                nodes,
                error,
                way_out = "grant patch on nodes/status; nothing else waits for it",
                "node conditions were not written"
            );
        }
        if failed.iter().any(ClusterError::is_forbidden) {
            return Published::Forbidden;
        }
        match (failed.is_empty(), is_cut) {
            (false, _) => Published::Failed,
            (true, true) => Published::Partly,
            (true, false) => Published::All,
        }
    }

    async fn publish_one(
        &self,
        proof: &LeaderProof,
        Due { node, uid, changes }: Due,
    ) -> Result<(), ClusterError> {
        let mutation = Mutation {
            what: format!("writing conditions of node {node}"),
            verb: Verb::Patch,
            path: format!("/api/v1/nodes/{node}/status"),
            body: Body::StrategicMergePatch,
            // Another node under the same name has another UID, and is left alone.
            content: json!({
                "metadata": { "uid": uid },
                "status": { "conditions": changes },
            }),
        };
        match self.requests.mutate::<SlimNode>(proof, mutation).await {
            Ok(Answer::Object(object)) => self.store.put(object),
            Ok(Answer::Status(_)) => {}
            // Gone or replaced: the watch tells.
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Returns the nodes that do not say what is so, at most one more than are written.
fn due(observed: &Observed, now: Timestamp) -> Vec<Due> {
    let names: BTreeSet<&str> = observed.resources.keys().map(String::as_str).collect();
    let nodes = observed.nodes.values();
    let due = nodes.map(|node| Due {
        node: node.name.clone(),
        uid: node.uid.clone(),
        changes: changes(node, &names, now),
    });
    due.filter(|due| !due.changes.is_empty()).take(NODES_PER_TICK_MAX + 1).collect()
}

/// Returns what to merge into the list of conditions.
fn changes(node: &Node, resources: &BTreeSet<&str>, now: Timestamp) -> Vec<Value> {
    let wanted = wanted(node, resources);
    let differing = wanted.iter().filter(|(kind, (is, _))| node.conditions.get(*kind) != Some(is));
    let mut changes: Vec<Value> = differing
        .map(|(kind, (is, reason))| {
            let rollout = rollout_of(kind).unwrap_or_default();
            json!({
                "type": kind,
                "status": if *is { "True" } else { "False" },
                "reason": reason,
                "message": format!("see status_{rollout} and nodeState_{rollout} of this node"),
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            })
        })
        .collect();
    let stale = node.conditions.keys().filter(|kind| {
        let rollout = rollout_of(kind).unwrap_or_default();
        let is_former = kind.starts_with(keys::LEGACY_PREFIX);
        let is_taken_over = wanted.contains_key(&keys::condition_not_ready(rollout));
        if is_former { is_taken_over } else { !resources.contains(rollout) }
    });
    changes.extend(stale.map(|kind| json!({ "type": kind, "$patch": "delete" })));
    changes
}

/// Returns the conditions that ought to be there: of each resource that has worked on the node.
fn wanted(node: &Node, resources: &BTreeSet<&str>) -> BTreeMap<String, (bool, &'static str)> {
    let mut wanted = BTreeMap::new();
    for (rollout, state) in &node.rollouts {
        // What cannot be read is left alone as a whole.
        let NodeRollout { entries, status: Some(status), legacy: false, malformed: None, .. } =
            &**state
        else {
            continue;
        };
        if !resources.contains(rollout.as_str()) {
            continue;
        }
        let not_ready = *status != StatusWord::Complete;
        let erroring =
            entries.values().any(|entry| matches!(entry.state, State::Erroring | State::Unknown));
        let words = if not_ready { "Incomplete" } else { "Complete" };
        wanted.insert(keys::condition_not_ready(rollout), (not_ready, words));
        let words = if erroring { "Package(s) Erroring or Unknown" } else { "Not Erroring" };
        wanted.insert(keys::condition_erroring(rollout), (erroring, words));
    }
    wanted
}
