//! A person's word that a node does not come back, or that what its annotations say is not there.
//!
//! In: a node. Out: what is recorded on it of each rollout, who looks after that, and what stands
//! in the way of letting it go; then one patch that does so. What a rollout counted on is recorded
//! as left (design §7), its visit closed; what nothing looked after any more, or was recorded as
//! left before, is taken off. It needs no leadership: the patch tests everything it was decided
//! from, and whatever the daemon wrote meanwhile wins.
//! Must never: close a visit on a host that may still be at work, or touch a cordon: the daemon
//! takes back what is its own.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use kube::core::{Selector, SelectorExt as _};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::error::ClusterError;
use super::fence::bounded;
use super::node_state::read_annotations;
use super::person::{annotation, label, patch_node};
use super::reset::annotation_keys;
use crate::api::{NodeWright, keys};
use crate::clock::Clock;
use crate::model::{
    Entries, FORGOTTEN, Group, HOST_LOST_AFTER, NodeRollout, Outcome, Phase, Record, State,
};

/// What a node says of all rollouts, as it was read.
#[derive(Debug)]
pub struct RememberedNode {
    /// The node.
    pub node: String,
    /// Since when it is down; `None` when it is ready, or nobody ever said that it was not.
    pub down: Option<Timestamp>,
    /// Down for so long that nothing which began there is waited for any more.
    pub lost: bool,
    /// The rollouts of which something can be forgotten, by name.
    pub rollouts: Vec<Remembered>,
    read: Node,
}

/// What a node says of one rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct Remembered {
    /// The rollout.
    pub rollout: String,
    /// Packages that are counted on, as `name|version`.
    pub entries: Vec<String>,
    /// Packages that were recorded as left before.
    pub left: Vec<String>,
    /// Who looks after the node for it.
    pub keeper: Keeper,
    /// A visit would be closed.
    pub visit: Option<Visit>,
    /// Its cordon would be lifted, by the daemon.
    pub cordoned: bool,
    /// Why it cannot be forgotten now.
    pub obstacle: Option<Obstacle>,
    record: Option<Record>,
}

/// Who looks after what a rollout put on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// The rollout: it works on the node.
    Rollout,
    /// The rollout, which is being deleted and takes off what it can.
    Deletion,
    /// Nobody: it does not select the node any more.
    Deselected,
    /// Nobody: it is gone.
    Gone,
}

/// A visit that has not ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// It is under way, since then.
    Open(Timestamp),
    /// It failed.
    Failed,
}

/// What stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// A visit is under way since then, on a host that may be at work.
    Visit(Timestamp),
    /// Pods of it may still be at work on the host.
    Running(Vec<String>),
    /// Upstream's operator has begun something that has not ended.
    Unfinished,
    /// It keeps the node cordoned after a failure, on a host that is up.
    Cordon,
    /// The daemon is about to let go of it by itself.
    BeingLeft,
    /// An annotation cannot be read.
    Unreadable(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Visit(since) => write!(f, "a visit is under way since {since:.0}"),
            Self::Running(pods) => write!(f, "its pods may be at work there: {}", pods.join(", ")),
            Self::Unfinished => f.write_str("upstream's operator has begun what has not ended"),
            Self::Cordon => f.write_str("it keeps the node cordoned after a failure"),
            Self::BeingLeft => f.write_str("the daemon is about to let the node go by itself"),
            Self::Unreadable(why) => write!(f, "an annotation cannot be read: {why}"),
        }
    }
}

/// Reads what a node says; `None` when there is no such node.
///
/// # Errors
/// The API server did not answer with the node, its pods or a resource.
pub async fn remembered_on(
    client: &Client,
    node: &str,
    clock: Clock,
) -> Result<Option<RememberedNode>, ClusterError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let what = format!("read node {node}");
    let Some(read) = bounded(clock, &what, nodes.get_opt(node)).await? else { return Ok(None) };
    let down = down_since(&read);
    let limit = SignedDuration::try_from(HOST_LOST_AFTER).unwrap_or(SignedDuration::MAX);
    let lost = down.is_some_and(|since| clock.now().duration_since(since) >= limit);
    let (states, cordons) = read_annotations(read.annotations());
    let mut known: BTreeMap<String, NodeRollout> =
        states.into_iter().map(|(name, state)| (name, NodeRollout::clone(&state))).collect();
    for mark in cordons {
        if let crate::model::CordonMark::Rollout(name) = mark {
            known.entry(name).or_default();
        }
    }
    let pods = running_pods(client, node, clock).await?;
    let resources: Api<NodeWright> = Api::all(client.clone());
    let mut rollouts = Vec::new();
    for (name, state) in known {
        let what = format!("read nodewright {name}");
        let resource = bounded(clock, &what, resources.get_opt(&name)).await?;
        let running = pods.get(&name).cloned().unwrap_or_default();
        rollouts.extend(remembered(&read, &name, state, resource.as_ref(), running, lost));
    }
    Ok(Some(RememberedNode { node: node.to_owned(), down, lost, rollouts, read }))
}

/// Lets a node go for these of its rollouts.
///
/// # Errors
/// `Conflict` by disposition when the node changed since it was read: look again.
pub async fn forget(
    client: &Client,
    known: &RememberedNode,
    chosen: &[Remembered],
    clock: Clock,
) -> Result<(), ClusterError> {
    let RememberedNode { node, read, .. } = known;
    let mut operations =
        vec![json!({ "op": "test", "path": "/metadata/uid", "value": read.uid() })];
    for remembered in chosen {
        operations.extend(operations_for(read, remembered, clock.now()));
    }
    let what = format!("let node {node} go");
    patch_node(client, node, &what, operations, clock).await
}

impl Remembered {
    /// Returns whether everything of it is taken off the node, and nothing recorded as left.
    pub fn is_taken_off(&self) -> bool {
        let unkept = matches!(self.keeper, Keeper::Deselected | Keeper::Gone);
        unkept || (self.entries.is_empty() && !self.left.is_empty() && self.visit.is_none())
    }

    fn closes_visit(&self) -> bool {
        self.visit.is_some() || self.cordoned
    }
}

/// Returns what there is to forget of a rollout, if anything is.
fn remembered(
    node: &Node,
    rollout: &str,
    state: NodeRollout,
    resource: Option<&NodeWright>,
    running: Vec<String>,
    lost: bool,
) -> Option<Remembered> {
    let own = |record: &Record| {
        let uid = resource.and_then(|it| it.metadata.uid.as_ref());
        uid == Some(&record.cr_uid) && node.metadata.uid.as_ref() == Some(&record.node_uid)
    };
    let cordon = keys::cordon(rollout);
    let marks = [cordon.replacen(keys::PREFIX, keys::LEGACY_PREFIX, 1), cordon];
    let cordoned = marks.iter().any(|mark| node.annotations().contains_key(mark));
    let is_open = state.record.as_ref().is_some_and(Record::is_open);
    let names = |entries: &Entries| entries.keys().map(ToString::to_string).collect();
    let visit =
        state.record.as_ref().filter(|it| own(it)).and_then(|record| match record.outcome {
            None => Some(Visit::Open(record.picked)),
            Some(Outcome::Erroring) => Some(Visit::Failed),
            Some(Outcome::Complete | Outcome::Released) => None,
        });
    let keeper = keeper(node, resource);
    let is_live = state.record.as_ref().is_some_and(own);
    let stray = !is_live || matches!(keeper, Keeper::Deselected | Keeper::Gone);
    let unfinished = state.record.is_none()
        && state.entries.values().any(|entry| entry.state == State::InProgress);
    let obstacle = if let Some(why) = state.malformed {
        Some(Obstacle::Unreadable(why))
    } else if (is_open || cordoned) && stray {
        Some(Obstacle::BeingLeft)
    } else if lost {
        None
    } else if let Some(Visit::Open(since)) = visit {
        Some(Obstacle::Visit(since))
    } else if !running.is_empty() {
        Some(Obstacle::Running(running))
    } else if unfinished {
        Some(Obstacle::Unfinished)
    } else {
        cordoned.then_some(Obstacle::Cordon)
    };
    let (entries, left): (Vec<_>, Vec<_>) = (names(&state.entries), names(&state.left));
    let is_empty = entries.is_empty() && left.is_empty() && state.status.is_none();
    (!is_empty || visit.is_some() || obstacle.is_some()).then(|| Remembered {
        rollout: rollout.to_owned(),
        entries,
        left,
        keeper,
        visit,
        cordoned,
        obstacle,
        record: state.record.filter(|record| own(record)),
    })
}

fn keeper(node: &Node, resource: Option<&NodeWright>) -> Keeper {
    let Some(resource) = resource else { return Keeper::Gone };
    // What cannot be read is frozen, not left.
    let selects = Selector::try_from(resource.spec.node_selectors.clone())
        .map_or(true, |selector| selector.matches(node.labels()));
    match (selects, &resource.metadata.deletion_timestamp) {
        (false, _) => Keeper::Deselected,
        (true, Some(_)) => Keeper::Deletion,
        (true, None) => Keeper::Rollout,
    }
}

fn down_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|it| it.type_ == "Ready")?;
    let changed = ready.last_transition_time.as_ref().filter(|_| ready.status != "True")?;
    Some(changed.0)
}

/// Returns the pods that may still do something on a host for a rollout, ours and upstream's.
async fn running_pods(
    client: &Client,
    node: &str,
    clock: Clock,
) -> Result<BTreeMap<String, Vec<String>>, ClusterError> {
    let pods: Api<Pod> = Api::all(client.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let what = format!("list the pods of node {node}");
    let mut running: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in bounded(clock, &what, pods.list(&here)).await?.items {
        let labels = pod.labels();
        let rollout = labels.get(keys::NAME).or_else(|| labels.get(keys::LEGACY_NAME));
        let pulls = labels.get(keys::GROUP).is_some_and(|it| *it == Group::Pull.to_string());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let ended = matches!(phase, Some("Succeeded" | "Failed"));
        if let Some(rollout) = rollout.filter(|_| !pulls && !ended) {
            running.entry(rollout.clone()).or_default().push(pod.name_any());
        }
    }
    Ok(running)
}

/// Returns the tests and changes that let a node go for one rollout.
fn operations_for(node: &Node, remembered: &Remembered, now: Timestamp) -> Vec<Value> {
    let annotations = node.annotations();
    let rollout = &remembered.rollout;
    let mut operations = Vec::new();
    let record_at = annotation(&keys::rollout(rollout));
    match annotations.get(&keys::rollout(rollout)) {
        Some(text) => {
            operations.push(json!({ "op": "test", "path": record_at, "value": text }));
        }
        // That there is none cannot be tested; nothing of the node may have changed then.
        None => operations.push(json!({
            "op": "test", "path": "/metadata/resourceVersion", "value": node.resource_version(),
        })),
    }
    let takes_off = remembered.is_taken_off();
    let keys = annotation_keys(rollout);
    for (at, key) in keys.iter().enumerate() {
        let Some(text) = annotations.get(key) else { continue };
        let path = annotation(key);
        operations.push(json!({ "op": "test", "path": path, "value": text }));
        operations.push(match at {
            0 | 1 if !takes_off => {
                json!({ "op": "replace", "path": path, "value": left(text, now) })
            }
            _ => json!({ "op": "remove", "path": path }),
        });
    }
    let labels = keys[2..4].iter().filter(|key| node.labels().contains_key(*key));
    operations.extend(labels.map(|key| json!({ "op": "remove", "path": label(key) })));
    match (&remembered.record, remembered.keeper) {
        (_, Keeper::Gone) if annotations.contains_key(&keys::rollout(rollout)) => {
            operations.push(json!({ "op": "remove", "path": record_at }));
        }
        (Some(record), _) if remembered.closes_visit() => {
            let closed = json!(closed(record, now)).to_string();
            operations.push(json!({ "op": "replace", "path": record_at, "value": closed }));
        }
        (_, _) => {}
    }
    operations
}

/// Returns the record without its visit: no failure, and nothing that the next one owes.
fn closed(record: &Record, now: Timestamp) -> Record {
    let reached = record.phase;
    let message =
        format!("a person let the node go at {now:.0} (nodewright forget); it was {reached}");
    Record {
        outcome: Some(Outcome::Released),
        phase: Phase::Released,
        interrupts_due: BTreeMap::new(),
        reason: Some(FORGOTTEN.to_owned()),
        message: Some(message),
        ..record.clone()
    }
}

/// Returns the entries of an annotation, all of them recorded as left. No snapshot is named any
/// more: nothing is ever uninstalled from what is not counted on.
fn left(text: &str, now: Timestamp) -> String {
    let mut entries: BTreeMap<String, Value> = serde_json::from_str(text).unwrap_or_default();
    for entry in entries.values_mut().filter_map(Value::as_object_mut) {
        for field in ["snapshot", "applied", "untried"] {
            entry.remove(field);
        }
        entry.entry("left").or_insert_with(|| json!(format!("{now:.0}")));
    }
    json!(entries).to_string()
}
