//! Acting: each action is one exact change with its precondition (design §4).
//!
//! In: the actions of a plan and the proof of leadership. Out: what became of each, in their
//! order; the answers are in the store before this returns.
//! Must never: repeat a change by itself, or hide that one may have been made. After a conflict or
//! a lost answer the object is read back, and the next tick decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt as _, stream};
use kube::Client;

use super::budgets::Budgets;
use super::error::{ClusterError, Disposition};
use super::lease::LeaderProof;
use super::requests::Requests;
use super::settings::EdgeSettings;
use super::slim::{SlimConfigMap, Untyped};
use super::slim_node::SlimNode;
use super::slim_pod::SlimPod;
use super::store::{Store, Watched};
use super::{names, removals};
use crate::api::NodeWright;
use crate::clock::Clock;
use crate::model::{Action, Eviction, Lane, PodRef, Refusal, RefusalCause, Urgency};

/// Lanes worked on at a time.
///
/// One daemon shares the API server with everyone: its default priority level serves a client a few
/// tens of requests at once, and 16 of a few milliseconds each are thousands a second.
const LANES_AT_ONCE_MAX: usize = 16;

/// What became of an action.
#[derive(Debug)]
pub enum Outcome {
    /// It is done, or was done before.
    Done,
    /// The object is not what the planner saw; it was read again.
    Conflict {
        /// Which object.
        object: String,
    },
    /// A disruption budget does not let the pod go yet.
    Blocked {
        /// The API server's words, which name the budget.
        why: String,
    },
    /// It was done, but fields that we wrote are not in the answer: the CRD in the cluster is
    /// older than this binary, or something rewrites what we write.
    OutdatedCrd {
        /// What is missing where.
        what: String,
    },
    /// Not done; the same may work later.
    Retry(ClusterError),
    /// Not done, and it will not work by itself.
    GaveUp(ClusterError),
    /// It may have been done; the object was read back.
    Unknown(ClusterError),
    /// Not tried, since something before it in its lane did not work.
    Skipped,
}

impl Outcome {
    /// Returns the word for metrics and logs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Conflict { .. } => "conflict",
            Self::Blocked { .. } => "blocked",
            Self::OutdatedCrd { .. } => "outdated-crd",
            Self::Retry(_) => "retry",
            Self::GaveUp(_) => "gave-up",
            Self::Unknown(_) => "unknown",
            Self::Skipped => "skipped",
        }
    }
}

/// An action and what became of it.
#[derive(Debug)]
pub struct Executed {
    /// The action.
    pub action: Action,
    /// What became of it.
    pub outcome: Outcome,
}

/// Executes actions. One per process: it remembers what it has created.
pub struct Actor {
    pub(super) requests: Requests,
    pub(super) store: Arc<Store>,
    pub(super) settings: EdgeSettings,
    pub(super) clock: Clock,
    /// Node metadata ConfigMaps known to be there, by name.
    pub(super) known_metadata: Mutex<BTreeSet<String>>,
    budgets: Budgets,
}

impl Actor {
    /// Makes an actor that writes the answers into `store`.
    pub fn new(client: Client, settings: EdgeSettings, clock: Clock, store: Arc<Store>) -> Self {
        let requests = Requests::new(client, clock, settings.request_timeout);
        let (known_metadata, budgets) = (Mutex::default(), Budgets::default());
        Self { requests, store, settings, clock, known_metadata, budgets }
    }

    /// Executes actions: lanes side by side, in order within each.
    ///
    /// A lane stops at its first action that is not done; evictions alone do not stop it, since one
    /// pod that may not go says nothing about the next. Lanes with an urgent status go first.
    pub async fn execute(&self, proof: &LeaderProof, actions: Vec<Action>) -> Vec<Executed> {
        let mut executed: Vec<(usize, Executed)> = stream::iter(lanes(actions))
            .map(|lane| self.run_lane(proof, lane))
            .buffer_unordered(LANES_AT_ONCE_MAX)
            .flat_map(stream::iter)
            .collect()
            .await;
        executed.sort_by_key(|(position, _)| *position);
        executed.into_iter().map(|(_, executed)| executed).collect()
    }

    async fn run_lane(
        &self,
        proof: &LeaderProof,
        lane: Vec<(usize, Action)>,
    ) -> Vec<(usize, Executed)> {
        let mut executed = Vec::with_capacity(lane.len());
        let mut is_stopped = false;
        for (position, action) in lane {
            let outcome = if is_stopped {
                Outcome::Skipped
            } else {
                match self.run(proof, &action).await {
                    Ok(outcome) => outcome,
                    Err(error) => self.conclude(&action, error).await,
                }
            };
            self.remember(&action, &outcome);
            let is_eviction = matches!(action, Action::Evict(_));
            is_stopped |= !is_eviction && !matches!(outcome, Outcome::Done);
            executed.push((position, Executed { action, outcome }));
        }
        executed
    }

    async fn run(&self, proof: &LeaderProof, action: &Action) -> Result<Outcome, ClusterError> {
        match action {
            Action::CreateSnapshot(spec) => self.create_snapshot(proof, spec).await,
            Action::DeleteSnapshot(snapshot) => self.delete_snapshot(proof, snapshot).await,
            Action::WriteStatus(write) => self.write_status(proof, write).await,
            Action::WriteNodeMetadata(metadata) => self.write_metadata(proof, metadata).await,
            Action::PatchNode(patch) => self.patch_node(proof, patch).await,
            Action::Evict(eviction) => {
                self.remove_pod(proof, &eviction.pod, removals::eviction(eviction)).await
            }
            Action::CreateExecutor(spec) => self.create_executor(proof, spec).await,
            Action::DeleteExecutors { rollout, visits } => {
                self.delete_executors(proof, rollout, visits).await
            }
            Action::PatchTaints(patch) => self.patch_taints(proof, patch).await,
            Action::SetFinalizer(write) => self.set_finalizer(proof, write).await,
            Action::CleanNode(cleaning) => self.clean_node(proof, cleaning).await,
            Action::DeleteUpstreamWork { rollout: _, node: _, work } => {
                self.delete_upstream_work(proof, work).await
            }
            Action::DeleteExecutor { rollout: _, node: _, pod } => {
                self.remove_pod(proof, pod, removals::executor(pod)).await
            }
        }
    }

    /// Turns an error into an outcome, and reads the object again where it may be another.
    async fn conclude(&self, action: &Action, error: ClusterError) -> Outcome {
        let blocked = match action {
            Action::Evict(eviction) => self.note_blocked(eviction, &error).await,
            Action::CreateSnapshot(_)
            | Action::DeleteSnapshot(_)
            | Action::WriteStatus(_)
            | Action::WriteNodeMetadata(_)
            | Action::PatchNode(_)
            | Action::CreateExecutor(_)
            | Action::DeleteExecutors { .. }
            | Action::PatchTaints(_)
            | Action::SetFinalizer(_)
            | Action::CleanNode(_)
            | Action::DeleteUpstreamWork { .. }
            | Action::DeleteExecutor { .. } => None,
        };
        if let Some(why) = blocked {
            return Outcome::Blocked { why };
        }
        let target = self.target(action);
        match error.disposition() {
            // The object is gone: what was planned for it is void.
            _ if error.is_not_found() && target.is_changed_in_place() => {
                self.read_again(&target).await;
                Outcome::Conflict { object: target.words() }
            }
            Disposition::Conflict => {
                self.read_again(&target).await;
                Outcome::Conflict { object: target.words() }
            }
            Disposition::ReadBack => {
                self.read_again(&target).await;
                Outcome::Unknown(error)
            }
            Disposition::Retry | Disposition::Wait => Outcome::Retry(error),
            Disposition::GiveUp => Outcome::GaveUp(error),
        }
    }

    /// Remembers that a budget does not let a pod go, and which; returns the server's words.
    async fn note_blocked(&self, eviction: &Eviction, error: &ClusterError) -> Option<String> {
        let message = removals::blocked_by(error)?;
        let (pod, now) = (&eviction.pod, self.clock.now());
        let cause = match self.store.pod_labels(pod) {
            Some(labels) => self.budgets.cause(&self.requests, &pod.namespace, &labels, now).await,
            None => RefusalCause::Unknown,
        };
        self.store.note_refusal(pod, Refusal { at: now, message: message.clone(), cause });
        Some(message)
    }

    fn target(&self, action: &Action) -> Target {
        match action {
            Action::PatchNode(patch) => Target::Node(patch.node.clone()),
            Action::PatchTaints(patch) => Target::Node(patch.node.clone()),
            Action::CleanNode(cleaning) => Target::Node(cleaning.node.clone()),
            Action::WriteNodeMetadata(metadata) => {
                Target::Metadata(names::node_metadata_name(&metadata.rollout, &metadata.node))
            }
            Action::WriteStatus(write) => Target::NodeWright(write.rollout.clone()),
            Action::SetFinalizer(write) => Target::NodeWright(write.rollout.clone()),
            Action::DeleteUpstreamWork { work, .. } => Target::UpstreamWork(work.name.clone()),
            Action::CreateSnapshot(spec) => {
                Target::ConfigMap(spec.package.snapshot_name(&spec.rollout))
            }
            Action::DeleteSnapshot(snapshot) => Target::ConfigMap(snapshot.name.clone()),
            Action::Evict(eviction) => Target::Pod(eviction.pod.clone()),
            Action::DeleteExecutor { pod, .. } => Target::Pod(pod.clone()),
            Action::CreateExecutor(spec) => Target::Pod(PodRef {
                namespace: self.settings.namespace.clone(),
                name: names::executor_name(spec),
                uid: String::new(),
            }),
            Action::DeleteExecutors { rollout, .. } => Target::Executors(rollout.clone()),
        }
    }

    /// Reads an object again into the store. A failure changes nothing: the watch will tell.
    pub(super) async fn read_again(&self, target: &Target) {
        let namespace = &self.settings.namespace;
        match target {
            Target::Node(name) => {
                self.read_one::<SlimNode>(&format!("/api/v1/nodes/{name}"), name).await;
            }
            Target::Pod(pod) => {
                let PodRef { namespace, name, .. } = pod;
                let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
                self.read_one::<SlimPod>(&path, &pod.to_string()).await;
            }
            Target::NodeWright(name) => {
                let path = nodewright_path(name);
                self.read_one::<Untyped<NodeWright>>(&path, name).await;
            }
            Target::ConfigMap(name) => {
                let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
                self.read_one::<SlimConfigMap>(&path, name).await;
            }
            // Not kept; written whole the next time.
            Target::Metadata(_) => {}
            // Many objects, or one of a kind that is not kept whole; the watch tells of each.
            Target::Executors(_) | Target::UpstreamWork(_) => {}
        }
    }

    async fn read_one<W: Watched>(&self, path: &str, key: &str) {
        let what = format!("reading {path} again");
        match self.requests.read::<W>(what, path).await {
            Ok(Some(object)) => self.store.put(object),
            Ok(None) => self.store.bury_known::<W>(key),
            Err(error) => {
                tracing::debug!(%error, "object not read again, its watch will tell");
            }
        }
    }

    /// Runs `with` on the names of node metadata ConfigMaps that are there.
    pub(super) fn with_known_metadata<T>(
        &self,
        with: impl FnOnce(&mut BTreeSet<String>) -> T,
    ) -> T {
        with(&mut self.known_metadata.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The object an action changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Node(String),
    Pod(PodRef),
    NodeWright(String),
    ConfigMap(String),
    Metadata(String),
    Executors(String),
    UpstreamWork(String),
}

impl Target {
    /// Returns whether a 404 can only mean that the object is gone; where something is created it
    /// means that the namespace is missing, which a person must see to.
    fn is_changed_in_place(&self) -> bool {
        match self {
            Self::Node(_) | Self::NodeWright(_) => true,
            Self::Pod(_)
            | Self::ConfigMap(_)
            | Self::Metadata(_)
            | Self::Executors(_)
            | Self::UpstreamWork(_) => false,
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::Node(name) => format!("node {name}"),
            Self::Pod(pod) => format!("pod {pod}"),
            Self::NodeWright(name) => format!("nodewright {name}"),
            Self::ConfigMap(name) | Self::Metadata(name) => format!("configmap {name}"),
            Self::Executors(rollout) => format!("executors of rollout {rollout}"),
            Self::UpstreamWork(name) => format!("{name} of upstream's operator"),
        }
    }
}

/// Returns the path of a NodeWright.
pub(super) fn nodewright_path(name: &str) -> String {
    format!("/apis/{}/{}/nodewrights/{name}", crate::api::GROUP, crate::api::VERSION)
}

/// Sorts actions into lanes, those with an urgent status first, else in order of their names.
fn lanes(actions: Vec<Action>) -> Vec<Vec<(usize, Action)>> {
    let mut lanes: BTreeMap<Lane, Vec<(usize, Action)>> = BTreeMap::new();
    for (position, action) in actions.into_iter().enumerate() {
        lanes.entry(action.lane()).or_default().push((position, action));
    }
    let is_urgent = |action: &Action| match action {
        Action::WriteStatus(write) => write.urgency == Urgency::Urgent,
        Action::CreateSnapshot(_)
        | Action::DeleteSnapshot(_)
        | Action::WriteNodeMetadata(_)
        | Action::PatchNode(_)
        | Action::Evict(_)
        | Action::CreateExecutor(_)
        | Action::DeleteExecutors { .. }
        | Action::PatchTaints(_)
        | Action::SetFinalizer(_)
        | Action::CleanNode(_)
        | Action::DeleteUpstreamWork { .. }
        | Action::DeleteExecutor { .. } => false,
    };
    let (mut first, then): (Vec<_>, Vec<_>) =
        lanes.into_values().partition(|lane| lane.iter().any(|(_, action)| is_urgent(action)));
    first.extend(then);
    first
}
