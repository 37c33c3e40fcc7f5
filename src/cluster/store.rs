//! What is known of the cluster: watches and the answers to our own writes, newest wins.
//!
//! In: objects off the wire. Out: a [`View`], and a wake-up when something that we look at is
//! different. Must never: wake for a heartbeat, or hold its lock across an await.

mod pods;
mod refusals;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::mirror::{Former, FormerObjects};
use super::shelf::{Change, Shelf};
use super::slim::{SlimConfigMap, Untyped, revision};
use super::slim_node::{SlimNode, is_same_node};
use super::upstream::{UpstreamJob, UpstreamPod};
use super::upstream_lease::UpstreamLease;
use super::{EdgeSettings, snapshot, status, upstream, upstream_status};
use crate::api::{DeploymentPolicy, NodeWright, NodeWrightStatus, keys};
use crate::clock::Clock;
use crate::model::{
    self, Executor, Node, Observed, Pod, PodPhase, PodRef, Refusal, Rejection, Snapshot,
    UpstreamStatus, UpstreamWork, VisitRef,
};

/// One look at the cluster.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// What the planner sees.
    pub observed: Observed,
    /// The Leases of upstream's operator, in whatever namespace.
    pub upstream_leases: Vec<UpstreamLease>,
    /// Objects under the group's former name.
    pub former: FormerObjects,
    /// The resources as they are written, by name; `manifest` makes what is desired of them.
    pub nodewrights: BTreeMap<String, Arc<NodeWright>>,
    /// The policies as they are written, by name.
    pub policies: BTreeMap<String, Arc<DeploymentPolicy>>,
    /// NodeWrights that do not have the shape of one: name to what is wrong.
    pub unreadable_nodewrights: BTreeMap<String, String>,
    /// DeploymentPolicies that do not have the shape of one: name to what is wrong.
    pub unreadable_policies: BTreeMap<String, String>,
}

/// A watch that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchTrouble {
    /// Since when.
    pub since: Timestamp,
    /// What the last attempt said.
    pub error: String,
}

/// A pod as kept.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptPod {
    pod: Pod,
    executor: Option<Executor>,
    upstream: Option<UpstreamPod>,
}

/// Whose pods are looked for where.
#[derive(Debug, Clone)]
pub struct Places {
    /// Our namespace: executors and snapshots.
    own: String,
    /// Ours and those of upstream's operator.
    pub(super) all: BTreeSet<String>,
    /// By which it is known when something was first seen: the API server's clock may be off.
    pub(super) clock: Clock,
}

/// A custom resource as kept: read, or what is wrong with it.
#[derive(Debug, Clone)]
pub struct KeptResource<K> {
    metadata: ObjectMeta,
    read: Result<Arc<K>, String>,
    /// The status of a NodeWright that cannot be read as a whole.
    bare_status: Option<NodeWrightStatus>,
    upstream: Option<UpstreamStatus>,
}

/// Everything known, by kind.
#[derive(Debug, Default)]
pub struct State {
    nodes: Shelf<Node>,
    pods: Shelf<KeptPod>,
    pub(super) jobs: Shelf<Option<UpstreamJob>>,
    pub(super) skyhooks: Shelf<Arc<Former>>,
    pub(super) former_policies: Shelf<Arc<Former>>,
    pub(super) leases: Shelf<UpstreamLease>,
    snapshots: Shelf<Option<Snapshot>>,
    nodewrights: Shelf<KeptResource<NodeWright>>,
    policies: Shelf<KeptResource<DeploymentPolicy>>,
    /// Evictions refused, by UID of the pod, with the pod they are of.
    refusals: BTreeMap<String, (PodRef, Refusal)>,
    /// What could not be created, see [`crate::model::Observed::rejections`].
    rejections: BTreeMap<String, Rejection>,
    troubles: BTreeMap<&'static str, WatchTrouble>,
}

/// A kind of object that is watched.
pub trait Watched:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
    /// What is kept of it.
    type Kept;
    /// Plural name, for logs.
    const KIND: &'static str;

    /// A cluster that does not serve it, or not to us, has none: a look is whole without it.
    const MAY_BE_ABSENT: bool = false;

    /// Returns where it is kept.
    fn shelf(state: &mut State) -> &mut Shelf<Self::Kept>;
    /// Makes what is kept.
    fn keep(self, places: &Places) -> Self::Kept;
    /// Takes over what is known of the same object from when it was seen before.
    fn carry(_kept: &mut Self::Kept, _before: &Self::Kept) {}
    /// Returns whether two of them differ in nothing that we look at.
    fn is_same(one: &Self::Kept, other: &Self::Kept) -> bool;

    /// Returns `namespace/name`, or the name of what is kept for one namespace or none.
    fn key(&self) -> String {
        self.meta().name.clone().unwrap_or_default()
    }
}

/// The store, shared between what watches and what acts.
#[derive(Debug)]
pub struct Store {
    places: Places,
    state: Mutex<State>,
    changed: Notify,
}

impl Store {
    /// Makes an empty store; the settings say where executors and snapshots are looked for.
    pub fn new(settings: &EdgeSettings, clock: Clock) -> Self {
        let (own, all) = (settings.namespace.clone(), settings.all_namespaces());
        Self {
            places: Places { own, all, clock },
            state: Mutex::new(State::default()),
            changed: Notify::new(),
        }
    }

    /// Waits until something that we look at is different; one call may stand for many changes.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes in an object, from a watch or from the answer to a write.
    pub fn put<W: Watched>(&self, object: W) {
        self.with(|state, places| put(state, places, object));
    }

    /// Takes out an object whose deletion was seen.
    pub fn bury<W: Watched>(&self, object: &W) {
        self.with(|state, _| W::shelf(state).bury(&object.key(), revision(object.meta())));
    }

    /// Takes out an object that is not there, as the server says.
    pub fn bury_known<W: Watched>(&self, key: &str) {
        self.with(|state, _| W::shelf(state).bury_known(key));
    }

    /// Takes out an object that was deleted by UID.
    pub fn bury_uid<W: Watched>(&self, key: &str, uid: &str) {
        self.with(|state, _| W::shelf(state).bury_uid(key, uid));
    }

    /// Begins a list.
    pub fn begin_list<W: Watched>(&self) {
        W::shelf(&mut self.lock()).begin_list();
    }

    /// Takes in an object of a list.
    pub fn put_listed<W: Watched>(&self, object: W) {
        self.with(|state, places| {
            W::shelf(state).note_listed(&object.key(), revision(object.meta()));
            put(state, places, object)
        });
    }

    /// Ends a list: what it did not name is gone.
    pub fn end_list<W: Watched>(&self) {
        self.with(|state, _| W::shelf(state).end_list());
    }

    /// Marks a pod as ending: its deletion was accepted, the watch has not said so yet.
    pub fn mark_terminating(&self, pod: &PodRef) {
        self.with(|state, _| {
            state.pods.amend(&pod.to_string(), &pod.uid, |kept| kept.terminate());
            Change::Visible
        });
    }

    /// Marks the executors of some visits as ending.
    pub fn mark_executors_terminating(&self, rollout: &str, visits: &[VisitRef]) {
        self.with(|state, _| {
            let of_visits: Vec<PodRef> = state
                .pods
                .iter()
                .filter_map(|(_, kept)| kept.executor.as_ref())
                .filter(|it| it.visit.rollout == rollout && visits.contains(&it.visit))
                .map(|executor| executor.reference.clone())
                .collect();
            for pod in &of_visits {
                state.pods.amend(&pod.to_string(), &pod.uid, |kept| kept.terminate());
            }
            if of_visits.is_empty() { Change::Invisible } else { Change::Visible }
        });
    }

    /// Returns a node as it is known.
    pub fn node(&self, name: &str) -> Option<Node> {
        self.lock().nodes.get(name).cloned()
    }

    /// Returns a resource as it is known.
    pub fn nodewright(&self, name: &str) -> Option<Arc<NodeWright>> {
        self.lock().nodewrights.get(name).and_then(|kept| kept.read.as_ref().ok().cloned())
    }

    /// Returns the status of a NodeWright at this version, also of one that cannot be read.
    pub fn nodewright_status(
        &self,
        name: &str,
        resource_version: &str,
    ) -> Option<Option<NodeWrightStatus>> {
        let state = self.lock();
        let kept = state.nodewrights.get(name)?;
        let is_known = kept.metadata.resource_version.as_deref() == Some(resource_version);
        is_known.then(|| kept.status().cloned())
    }

    /// Returns the metadata of a NodeWright, also of one that cannot be read.
    pub fn nodewright_metadata(&self, name: &str) -> Option<ObjectMeta> {
        self.lock().nodewrights.get(name).map(|kept| kept.metadata.clone())
    }

    /// Notes that a watch does not work; returns whether that, or its reason, is new.
    pub fn note_trouble(&self, kind: &'static str, error: String, now: Timestamp) -> bool {
        let mut state = self.lock();
        let since = state.troubles.get(kind).map_or(now, |trouble| trouble.since);
        let is_known = state.troubles.get(kind).is_some_and(|trouble| trouble.error == error);
        state.troubles.insert(kind, WatchTrouble { since, error });
        !is_known
    }

    /// Notes that a watch works; returns what was wrong until now.
    pub fn clear_trouble(&self, kind: &'static str) -> Option<WatchTrouble> {
        self.lock().troubles.remove(kind)
    }

    /// Returns the watches that do not work, by kind.
    pub fn troubles(&self) -> BTreeMap<&'static str, WatchTrouble> {
        self.lock().troubles.clone()
    }

    /// Returns the Leases of upstream's operator, in whatever namespace.
    pub fn upstream_leases(&self) -> Vec<UpstreamLease> {
        self.lock().leases.iter().map(|(_, lease)| lease.clone()).collect()
    }

    /// Returns everything known.
    pub fn view(&self) -> View {
        let state = self.lock();
        let mut view = View::default();
        for (name, node) in state.nodes.iter() {
            view.observed.nodes.insert(name.clone(), node.clone());
        }
        view.observed.upstream = upstream_work(&state);
        let copied = |shelf: &Shelf<Arc<Former>>| {
            shelf.iter().map(|(name, former)| (name.clone(), Arc::clone(former))).collect()
        };
        view.upstream_leases = state.leases.iter().map(|(_, lease)| lease.clone()).collect();
        view.former = FormerObjects {
            skyhooks: copied(&state.skyhooks),
            policies: copied(&state.former_policies),
        };
        for (key, KeptPod { pod, executor, upstream: _ }) in state.pods.iter() {
            if let Some(executor) = executor {
                view.observed.executors.insert(pod.reference.name.clone(), executor.clone());
            }
            if is_on_node(pod) {
                let on_node = view.observed.pods.entry(pod.node.clone()).or_default();
                on_node.insert(key.clone(), pod.clone());
            }
        }
        for (uid, (pod, refusal)) in &state.refusals {
            let kept = state.pods.get(&pod.to_string());
            if kept.is_some_and(|kept| kept.pod.reference.uid == *uid && !kept.pod.terminating) {
                view.observed.refusals.insert(uid.clone(), refusal.clone());
            }
        }
        view.observed.rejections.clone_from(&state.rejections);
        for (name, snapshot) in state.snapshots.iter() {
            if let Some(snapshot) = snapshot {
                view.observed.snapshots.insert(name.clone(), snapshot.clone());
            }
        }
        for (name, kept) in state.nodewrights.iter() {
            view.observed.resources.insert(name.clone(), resource(kept));
            match &kept.read {
                Ok(read) => drop(view.nodewrights.insert(name.clone(), Arc::clone(read))),
                Err(why) => drop(view.unreadable_nodewrights.insert(name.clone(), why.clone())),
            }
        }
        for (name, kept) in state.policies.iter() {
            match &kept.read {
                Ok(read) => drop(view.policies.insert(name.clone(), Arc::clone(read))),
                Err(why) => drop(view.unreadable_policies.insert(name.clone(), why.clone())),
            }
        }
        view
    }

    fn with(&self, change: impl FnOnce(&mut State, &Places) -> Change) {
        let change = change(&mut self.lock(), &self.places);
        match change {
            Change::Visible => self.changed.notify_one(),
            Change::Invisible => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is made whole before the lock is let go, so a panic leaves nothing half.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptResource<NodeWright> {
    fn status(&self) -> Option<&NodeWrightStatus> {
        self.read.as_ref().map_or(self.bare_status.as_ref(), |read| read.status.as_ref())
    }
}

impl KeptPod {
    fn terminate(&mut self) {
        self.pod.terminating = true;
        if let Some(executor) = &mut self.executor {
            executor.terminating = true;
        }
    }
}

/// Returns whether a drain or a wait may have to do with the pod: rule 1 of upstream contract B.6
/// ignores the ended ones.
fn is_on_node(pod: &Pod) -> bool {
    let is_live = match pod.phase {
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => true,
        PodPhase::Succeeded | PodPhase::Failed => false,
    };
    is_live && !pod.node.is_empty()
}

/// Returns `namespace/name`.
pub(super) fn namespaced(metadata: &ObjectMeta) -> String {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", metadata.name.as_deref().unwrap_or_default())
}

/// Returns what upstream's operator left running, with why a Job failed from the pods it keeps.
fn upstream_work(state: &State) -> BTreeMap<String, UpstreamWork> {
    let pods = || state.pods.iter().filter_map(|(_, kept)| kept.upstream.as_ref());
    let bare = pods().filter_map(|pod| match pod {
        UpstreamPod::Work(work) => Some(work.clone()),
        UpstreamPod::OfJob { .. } => None,
    });
    let jobs = state.jobs.iter().filter_map(|(_, kept)| kept.as_ref());
    let jobs = jobs.map(|job| job.with_pods(pods()));
    bare.chain(jobs).map(|work| (upstream::key(&work.reference), work)).collect()
}

fn put<W: Watched>(state: &mut State, places: &Places, object: W) -> Change {
    let (key, revision) = (object.key(), revision(object.meta()));
    let uid = object.meta().uid.clone().unwrap_or_default();
    let mut kept = object.keep(places);
    if let Some(before) = W::shelf(state).get_of(&key, &uid) {
        W::carry(&mut kept, before);
    }
    W::shelf(state).put(&key, &uid, revision, kept, W::is_same)
}

fn resource(kept: &KeptResource<NodeWright>) -> model::Resource {
    let metadata = &kept.metadata;
    let is_true = |key: &str| {
        metadata.annotations.as_ref().and_then(|all| all.get(key)).is_some_and(|it| it == "true")
    };
    let written = kept.status();
    model::Resource {
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        paused: is_true(keys::PAUSE),
        disabled: is_true(keys::DISABLE),
        deleting: metadata.deletion_timestamp.is_some(),
        finalizer: metadata
            .finalizers
            .as_ref()
            .is_some_and(|all| all.iter().any(|finalizer| finalizer == keys::FINALIZER)),
        status: written.map(status::from_api),
        upstream: kept.upstream.clone(),
    }
}

impl Watched for SlimNode {
    type Kept = Node;
    const KIND: &'static str = "nodes";

    fn shelf(state: &mut State) -> &mut Shelf<Node> {
        &mut state.nodes
    }

    fn keep(self, _places: &Places) -> Node {
        self.node
    }

    fn is_same(one: &Node, other: &Node) -> bool {
        is_same_node(one, other)
    }
}

impl Watched for SlimConfigMap {
    type Kept = Option<Snapshot>;
    const KIND: &'static str = "configmaps";

    fn shelf(state: &mut State) -> &mut Shelf<Option<Snapshot>> {
        &mut state.snapshots
    }

    fn keep(self, _places: &Places) -> Option<Snapshot> {
        snapshot::read(&self)
    }

    fn is_same(one: &Option<Snapshot>, other: &Option<Snapshot>) -> bool {
        one == other
    }
}

/// Makes a custom resource watchable.
macro_rules! watched_resource {
    ($kind:ty, $shelf:ident, $plural:literal) => {
        impl Watched for Untyped<$kind> {
            type Kept = KeptResource<$kind>;
            const KIND: &'static str = $plural;

            fn shelf(state: &mut State) -> &mut Shelf<Self::Kept> {
                &mut state.$shelf
            }

            fn keep(self, _places: &Places) -> Self::Kept {
                let upstream = upstream_status::read(&self.value);
                let read = <$kind>::deserialize(&self.value).map(Arc::new);
                let read = read.map_err(|error| error.to_string());
                let bare = |_: &String| NodeWrightStatus::deserialize(&self.value["status"]).ok();
                let bare_status = read.as_ref().err().and_then(bare);
                KeptResource { metadata: self.metadata, read, bare_status, upstream }
            }

            fn is_same(one: &Self::Kept, other: &Self::Kept) -> bool {
                let without_version = |metadata: &ObjectMeta| ObjectMeta {
                    resource_version: None,
                    ..metadata.clone()
                };
                let is_same_read = match (&one.read, &other.read) {
                    (Ok(one), Ok(other)) => one.spec == other.spec && one.status == other.status,
                    (Err(one), Err(other)) => one == other,
                    (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
                };
                is_same_read
                    && one.bare_status == other.bare_status
                    && one.upstream == other.upstream
                    && without_version(&one.metadata) == without_version(&other.metadata)
            }
        }
    };
}

watched_resource!(NodeWright, nodewrights, "nodewrights");
watched_resource!(DeploymentPolicy, policies, "deploymentpolicies");
