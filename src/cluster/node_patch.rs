//! The kinds of node patch (design §4 rules 2, 7 and 8).
//!
//! In: a [`NodePatch`], and the node as it is known. Out: the body of one request whose
//! preconditions fail where the node is not what the planner saw.
//! Must never: change a key that is not ours, or rely on a key being there to remove it.

use serde_json::{Map, Value, json};

use super::legacy;
use super::node_state::MARK;
use super::requests::Body;
use crate::api::annotations::{TooLarge, check_node_state, check_record};
use crate::api::keys;
use crate::model::{Node, NodePatch, NodeRollout, PatchKind};

/// The version of upstream's layout that our entries have. Upstream migrates a node that says an
/// older one, or none, when a cluster is handed back (upstream contract C, `version_<cr>`).
pub const STATE_LAYOUT_VERSION: &str = "v0.20.0";

/// Why there is no body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPatch {
    /// The node is known to be another than the planner saw.
    Conflict,
    /// An annotation would be too long.
    TooLarge(TooLarge),
}

/// Keys with what they become; `None` takes a key away.
#[derive(Debug, Default)]
struct Changes {
    annotations: Vec<(String, Option<String>)>,
    labels: Vec<(String, Option<String>)>,
    unschedulable: Option<bool>,
}

/// Builds the body of a patch.
///
/// # Errors
/// See [`NoPatch`].
pub fn build(patch: &NodePatch, known: Option<&Node>) -> Result<(Body, Value), NoPatch> {
    let mut changes = changes(patch)?;
    let state = known.and_then(|node| node.rollouts.get(&patch.rollout));
    if let Some(state) = state.filter(|state| state.legacy) {
        let held = known.is_some_and(|node| node.is_cordoned_by(&patch.rollout));
        move_former_keys(&mut changes, &patch.rollout, state, held);
    }
    match &patch.kind {
        PatchKind::Pick { resource_version }
        | PatchKind::Recordon { resource_version }
        | PatchKind::Release { resource_version } => {
            Ok((Body::MergePatch, merge(&changes, resource_version)))
        }
        PatchKind::Progress { record_text, entries_text } => {
            let known = known.filter(|node| node.uid == patch.node_uid).ok_or(NoPatch::Conflict)?;
            let state = known.rollouts.get(&patch.rollout);
            let known_record = state.and_then(|state| state.record_text.as_ref());
            let known_entries = state.and_then(|state| state.entries_text.as_ref());
            if known_record != record_text.as_ref() || known_entries != entries_text.as_ref() {
                return Err(NoPatch::Conflict);
            }
            match (record_text, entries_text) {
                (Some(record), Some(entries)) if !known.labels.is_empty() => {
                    let tests = [
                        ("/metadata/uid".to_owned(), &patch.node_uid),
                        (annotation_path(&keys::rollout(&patch.rollout)), record),
                        (annotation_path(&keys::node_state(&patch.rollout)), entries),
                    ];
                    Ok((Body::JsonPatch, operations(&changes, &tests)))
                }
                // A JSON patch cannot test that a key is absent, nor make the map it is in. The
                // version at which we know it to be so is the stricter precondition.
                (Some(_) | None, Some(_) | None) => {
                    Ok((Body::MergePatch, merge(&changes, &known.resource_version)))
                }
            }
        }
    }
}

/// Returns the text of the record that a patch writes.
pub fn record_text(patch: &NodePatch) -> Option<String> {
    patch.record.as_ref().map(to_json)
}

fn changes(patch: &NodePatch) -> Result<Changes, NoPatch> {
    // Destructured, so that a new field does not compile until it is written.
    let NodePatch {
        node: _,
        node_uid: _,
        rollout,
        kind,
        entries,
        record: _,
        status,
        cordon_mark,
        drain_start,
        unschedulable,
    } = patch;
    let mut changes = Changes { unschedulable: *unschedulable, ..Changes::default() };
    let annotations = &mut changes.annotations;
    if let Some(entries) = entries {
        let text = to_json(entries);
        check_node_state(&text).map_err(NoPatch::TooLarge)?;
        annotations.push((keys::node_state(rollout), Some(text)));
    }
    if let Some(text) = record_text(patch) {
        check_record(&text).map_err(NoPatch::TooLarge)?;
        annotations.push((keys::rollout(rollout), Some(text)));
    }
    if let Some(word) = status {
        annotations.push((keys::status(rollout), Some(word.to_string())));
        changes.labels.push((keys::status(rollout), Some(word.to_string())));
    }
    if let Some(is_held) = cordon_mark {
        annotations.push((keys::cordon(rollout), is_held.then(|| MARK.to_owned())));
    }
    if let Some(start) = drain_start {
        annotations.push((keys::drain_start(rollout), start.map(|start| start.to_string())));
    }
    match kind {
        PatchKind::Pick { .. } => {
            annotations.push((keys::version(rollout), Some(STATE_LAYOUT_VERSION.to_owned())));
        }
        PatchKind::Recordon { .. } | PatchKind::Progress { .. } | PatchKind::Release { .. } => {}
    }
    Ok(changes)
}

/// Moves what stands under the former prefix in the very patch that first writes ours: whoever
/// reads the node in between finds one of the two whole.
fn move_former_keys(changes: &mut Changes, rollout: &str, state: &NodeRollout, held: bool) {
    let NodeRollout { entries_text, drain_start, status, .. } = state;
    let status = status.map(|word| word.to_string());
    let values = [
        (keys::node_state(rollout), entries_text.clone()),
        (keys::version(rollout), Some(STATE_LAYOUT_VERSION.to_owned())),
        (keys::status(rollout), status.clone()),
        (keys::drain_start(rollout), drain_start.map(|start| start.to_string())),
        (keys::cordon(rollout), held.then(|| MARK.to_owned())),
    ];
    let is_written = |changes: &[(String, Option<String>)], key: &str| {
        changes.iter().any(|(written, _)| written == key)
    };
    for (key, value) in values {
        if value.is_some() && !is_written(&changes.annotations, &key) {
            changes.annotations.push((key, value));
        }
    }
    if status.is_some() && !is_written(&changes.labels, &keys::status(rollout)) {
        changes.labels.push((keys::status(rollout), status));
    }
    let gone = legacy::keys_of(rollout).into_iter().map(|key| (key, None));
    changes.annotations.extend(gone);
    changes.labels.push((legacy::former(&keys::status(rollout)), None));
}

fn merge(changes: &Changes, resource_version: &str) -> Value {
    let Changes { annotations, labels, unschedulable } = changes;
    let map = |pairs: &[(String, Option<String>)]| {
        Value::Object(pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect())
    };
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), json!(resource_version));
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), map(annotations));
    }
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), map(labels));
    }
    let mut body = json!({ "metadata": metadata });
    if let Some(unschedulable) = unschedulable {
        body["spec"] = json!({ "unschedulable": unschedulable });
    }
    body
}

fn operations(changes: &Changes, tests: &[(String, &String)]) -> Value {
    let Changes { annotations, labels, unschedulable } = changes;
    let mut operations: Vec<Value> = tests
        .iter()
        .map(|(path, value)| json!({ "op": "test", "path": path, "value": value }))
        .collect();
    let annotations = annotations.iter().map(|(key, value)| (annotation_path(key), value));
    let labels = labels.iter().map(|(key, value)| (label_path(key), value));
    for (path, value) in annotations.chain(labels) {
        // `remove` fails where there is nothing; after an `add` there always is.
        let text = value.as_deref().unwrap_or_default();
        operations.push(json!({ "op": "add", "path": path, "value": text }));
        if value.is_none() {
            operations.push(json!({ "op": "remove", "path": path }));
        }
    }
    if let Some(unschedulable) = unschedulable {
        let path = "/spec/unschedulable";
        operations.push(json!({ "op": "add", "path": path, "value": unschedulable }));
    }
    Value::Array(operations)
}

fn annotation_path(key: &str) -> String {
    format!("/metadata/annotations/{}", escaped(key))
}

fn label_path(key: &str) -> String {
    format!("/metadata/labels/{}", escaped(key))
}

/// Escapes a key for a JSON pointer (RFC 6901).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data with string keys becomes JSON")
}
