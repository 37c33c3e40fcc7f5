//! A person's wish that batches begin again, or that packages run again from their first stage.
//!
//! In: a resource, and for packages its nodes. Out: the counters of its batches as they were in the
//! beginning, and what is recorded of packages taken off nodes (upstream contract F). It needs no
//! leadership: each patch holds only for what was read, and whatever the daemon wrote meanwhile is
//! read again first.
//! Must never: touch our record of a visit, a cordon mark, or the order numbers, of which none is
//! ever given twice. The daemon lets go of what nobody holds any more.
//!
//! Differs from upstream: a cordon mark stays also where the resource is gone, for the daemon lifts
//! that cordon by itself; `SKYHOOK_NODE_ORDER` goes on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::error::{ClusterError, Disposition};
use super::fence::bounded;
use super::person::{FIELD_MANAGER_PERSON, annotation, label, patch_node};
use super::status::batch_from_api;
use crate::api::{NodeWright, keys, status as api};
use crate::clock::Clock;
use crate::model::BatchState;

/// Nodes in one page of a list, so that each answer comes within its time.
const PAGE: u32 = 500;

/// How often a change is tried against what the daemon writes at the same moment.
const TRIES: u32 = 8;

/// The batches of a resource, by compartment.
pub type Batches = BTreeMap<String, BatchState>;

/// A package whose entries are taken off; without a version, all of its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageChoice {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
}

impl PackageChoice {
    /// Returns whether an entry, `name|version`, is one of these.
    pub fn selects(&self, entry: &str) -> bool {
        let (name, version) = entry.split_once('|').unwrap_or((entry, ""));
        name == self.name && self.version.as_ref().is_none_or(|wanted| wanted == version)
    }
}

/// What is recorded of a resource on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The node.
    pub node: String,
    /// The packages, as `name|version`.
    pub entries: Vec<String>,
}

/// Returns the batches of a resource; `None` when there is no such resource.
///
/// # Errors
/// The API server did not answer with it.
pub async fn batches(
    client: &Client,
    resource: &str,
    clock: Clock,
) -> Result<Option<Batches>, ClusterError> {
    let read = read_resource(client, resource, clock).await?;
    Ok(read.map(|read| batches_of(&read)))
}

/// Sets the counters of every compartment to those of a rollout that has not begun: the next batch
/// is the first, and nothing is stopped. Returns them as they were.
///
/// # Errors
/// The API server did not take it, or the daemon wrote each time we tried.
pub async fn reset_batches(
    client: &Client,
    resource: &str,
    clock: Clock,
) -> Result<Option<Batches>, ClusterError> {
    let resources: Api<NodeWright> = Api::all(client.clone());
    let what = format!("reset the batches of nodewright {resource}");
    let mut left = TRIES;
    loop {
        let Some(read) = read_resource(client, resource, clock).await? else { return Ok(None) };
        let before = batches_of(&read);
        if before.values().all(|state| *state == BatchState::default()) {
            return Ok(Some(before));
        }
        let state = json!({ "batchState": api::BatchState::default() });
        let states: BTreeMap<&String, &Value> = before.keys().map(|name| (name, &state)).collect();
        let patch = Patch::Merge(json!({
            "metadata": { "uid": read.metadata.uid, "resourceVersion": read.resource_version() },
            "status": { "compartmentStatuses": states },
        }));
        let parameters = PatchParams::apply(FIELD_MANAGER_PERSON);
        let request = resources.patch_status(resource, &parameters, &patch);
        match bounded(clock, &what, request).await {
            Ok(_) => return Ok(Some(before)),
            Err(error) if error.disposition() == Disposition::Conflict && left > 1 => left -= 1,
            Err(error) => return Err(error),
        }
    }
}

/// Returns what is recorded of a resource, by node; nodes with nothing recorded are left out.
///
/// # Errors
/// The API server did not answer with the nodes.
pub async fn recorded(
    client: &Client,
    resource: &str,
    clock: Clock,
) -> Result<Vec<Recorded>, ClusterError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut parameters = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = bounded(clock, "list nodes", nodes.list(&parameters)).await?;
        found.extend(page.items.iter().filter_map(|node| recorded_on(node, resource)));
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => parameters = parameters.continue_token(&more),
            None => return Ok(found),
        }
    }
}

/// Takes off a node what is recorded of a resource, or of one of its packages, so that the daemon
/// finds nothing installed and begins with the first stage when the node's batch comes.
///
/// Returns the packages that were taken off.
///
/// # Errors
/// The API server did not take it, or the daemon wrote each time we tried.
pub async fn reset_node(
    client: &Client,
    node: &str,
    resource: &str,
    package: Option<&PackageChoice>,
    clock: Clock,
) -> Result<Vec<String>, ClusterError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let read = format!("read node {node}");
    let what = format!("reset {resource} on node {node}");
    let mut left = TRIES;
    loop {
        let Some(found) = bounded(clock, &read, nodes.get_opt(node)).await? else {
            return Ok(Vec::new());
        };
        let Some((taken_off, operations)) = operations(&found, resource, package) else {
            return Ok(Vec::new());
        };
        match patch_node(client, node, &what, operations, clock).await {
            Ok(()) => return Ok(taken_off),
            Err(error) if error.disposition() == Disposition::Conflict && left > 1 => left -= 1,
            Err(error) => return Err(error),
        }
    }
}

async fn read_resource(
    client: &Client,
    resource: &str,
    clock: Clock,
) -> Result<Option<NodeWright>, ClusterError> {
    let resources: Api<NodeWright> = Api::all(client.clone());
    let what = format!("read nodewright {resource}");
    bounded(clock, &what, resources.get_opt(resource)).await
}

fn batches_of(resource: &NodeWright) -> Batches {
    let statuses = resource.status.iter().flat_map(|status| &status.compartment_statuses);
    statuses
        .map(|(name, status)| {
            (name.clone(), batch_from_api(status.batch_state.unwrap_or_default()))
        })
        .collect()
}

/// Keys of the annotations that a reset takes off under either prefix: those of the entries, then
/// those of the status, which are labels too, then others.
pub(super) fn annotation_keys(resource: &str) -> [String; 8] {
    let ours = [
        keys::node_state(resource),
        keys::status(resource),
        keys::version(resource),
        keys::drain_start(resource),
    ];
    let [state, status, version, drain] = ours.clone();
    let [old_state, old_status, old_version, old_drain] =
        ours.map(|key| key.replacen(keys::PREFIX, keys::LEGACY_PREFIX, 1));
    [state, old_state, status, old_status, version, old_version, drain, old_drain]
}

fn recorded_on(node: &Node, resource: &str) -> Option<Recorded> {
    let keys = annotation_keys(resource);
    let there = keys.iter().any(|key| node.annotations().contains_key(key));
    there.then(|| {
        let texts = keys[..2].iter().filter_map(|key| node.annotations().get(key));
        let mut entries: Vec<String> =
            texts.flat_map(|text| entries_of(text).into_keys()).collect();
        entries.sort();
        entries.dedup();
        Recorded { node: node.name_any(), entries }
    })
}

/// Returns the entries of an annotation; none where it is malformed, which a reset mends.
fn entries_of(text: &str) -> BTreeMap<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns the packages that go and the patch that takes them off; `None` where there is nothing.
fn operations(
    node: &Node,
    resource: &str,
    package: Option<&PackageChoice>,
) -> Option<(Vec<String>, Vec<Value>)> {
    let annotations = node.annotations();
    let mut operations =
        vec![json!({ "op": "test", "path": "/metadata/uid", "value": node.uid() })];
    let record = keys::rollout(resource);
    if let Some(text) = annotations.get(&record) {
        operations.push(json!({ "op": "test", "path": annotation(&record), "value": text }));
    }
    let read = operations.len();
    let keys = annotation_keys(resource);
    let mut taken_off = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let Some(text) = annotations.get(key) else { continue };
        let path = annotation(key);
        let (gone, kept): (BTreeMap<_, _>, BTreeMap<_, _>) = match at {
            0 | 1 => entries_of(text)
                .into_iter()
                .partition(|(entry, _)| package.is_none_or(|package| package.selects(entry))),
            _ => Default::default(),
        };
        if package.is_some() && gone.is_empty() {
            continue;
        }
        operations.push(json!({ "op": "test", "path": path, "value": text }));
        operations.push(if package.is_some() {
            json!({ "op": "replace", "path": path, "value": json!(kept).to_string() })
        } else {
            json!({ "op": "remove", "path": path })
        });
        taken_off.extend(gone.into_keys());
    }
    if package.is_none() {
        let labels = keys[2..4].iter().filter(|key| node.labels().contains_key(*key));
        operations.extend(labels.map(|key| json!({ "op": "remove", "path": label(key) })));
    }
    taken_off.sort();
    taken_off.dedup();
    (operations.len() > read).then_some((taken_off, operations))
}
