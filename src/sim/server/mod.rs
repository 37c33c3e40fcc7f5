//! The embedded API server: in memory, behind a real `kube::Client`.
//!
//! In go the HTTP requests a client would send to a kube-apiserver, out come the answers it would
//! give, wherever a controller can tell the difference. Not here, each said where it applies:
//! CEL rules of CRDs, server-side apply, conversion between versions, authorization, admission
//! webhooks, snapshots of the past for paged lists. What the server can do to its clients on demand
//! is in [`Faults`]. No threads, no sockets, no time but the clock's: it runs under paused time.

mod admission;
mod call;
mod delete;
mod discovery;
mod eviction;
mod faults;
mod log;
mod patch;
mod react;
mod read;
mod refusal;
mod resources;
mod schema;
mod selector;
mod serve;
mod store;
mod validate;
mod view;
mod watch;
mod write;

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::json;

use self::resources::Kind;
use self::store::{ResourceKey, Store};
use crate::clock::Clock;

pub use self::faults::{Fault, Faults, Matching};
pub use self::log::{Request, Verb};

/// Namespaces a fresh cluster has; the last one is where the daemon works.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-system", "nodewright"];

/// An embedded cluster; cheap to clone, all clones are the same cluster.
#[derive(Debug, Clone)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    state: Mutex<State>,
    faults: Faults,
    log: log::Log,
}

/// Everything that is under the one lock.
#[derive(Debug)]
struct State {
    store: Store,
    kinds: Vec<Arc<Kind>>,
}

impl Cluster {
    /// Returns a cluster with the usual namespaces and nothing else.
    pub fn new(clock: Clock) -> Self {
        let mut state = State::new();
        for name in NAMESPACES {
            state.add_namespace(name, clock.now());
        }
        Self(Arc::new(Inner {
            clock,
            state: Mutex::new(state),
            faults: Faults::default(),
            log: log::Log::default(),
        }))
    }

    /// Returns a client whose requests carry `user_agent`; must be called in a tokio runtime.
    ///
    /// The user agent is also the field manager of writes that name none, as far as its first `/`.
    pub fn client(&self, user_agent: &str) -> kube::Client {
        let (cluster, user_agent) = (self.clone(), user_agent.to_owned());
        let service =
            tower::service_fn(move |request| cluster.clone().serve(user_agent.clone(), request));
        kube::Client::new(service, "default")
    }

    /// Returns the audit log: every request so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.0.log.entries()
    }

    /// Returns the fault knobs.
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// Forgets the history of a resource, as a compaction does: open watches that are behind and
    /// every later start from an older revision get 410 and must list again.
    pub fn expire_watches(&self, plural: &str) {
        self.with_state(|state| {
            let revision = state.store.bump();
            for kind in state.kinds.clone().iter().filter(|kind| kind.plural == plural) {
                state.store.collection(&kind.key()).compact(revision);
            }
        });
    }

    /// Returns the clock of the cluster.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// Returns the time now.
    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    fn with_state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn new() -> Self {
        let kinds = resources::built_in().into_iter().map(Arc::new).collect();
        Self { store: Store::new(), kinds }
    }

    /// Returns the kind a path names.
    fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.kinds
            .iter()
            .find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
            .cloned()
    }

    /// Returns a kind of a stored resource, in any version.
    fn kind_of(&self, resource: &ResourceKey) -> Option<Arc<Kind>> {
        self.kinds.iter().find(|kind| kind.key() == *resource).cloned()
    }

    fn add_namespace(&mut self, name: &str, now: Timestamp) {
        let uid = self.store.uid();
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": name, "uid": uid, "creationTimestamp": write::seconds(now),
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {}, "status": {"phase": "Active"},
        });
        let resource = ResourceKey { group: String::new(), plural: "namespaces".to_owned() };
        self.store.put(&resource, (String::new(), name.to_owned()), object);
    }
}
