//! The watches: what changes in the cluster reaches the store, trimmed.
//!
//! In: a client. Out: the store kept current, a wake-up when something that we look at changes,
//! and one log line when a watch breaks and when it works again.
//! Must never: decide, or stop on an error; a broken watch is tried again for ever, with back-off.
//!
//! Pods are watched once, cluster-wide, trimmed: the choice for this version. A watch per held
//! node and per protecting selector, as design §5 has it, needs less memory on a fleet with many
//! pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt as _, pin_mut};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::mirror::{FormerPolicy, LEGACY_GROUP, Skyhook};
use super::settings::EdgeSettings;
use super::slim::{SlimConfigMap, Untyped};
use super::slim_node::SlimNode;
use super::slim_pod::SlimPod;
use super::store::{Store, View, WatchTrouble, Watched};
use super::upstream::SlimJob;
use super::upstream_lease::{SlimLease, UPSTREAM_LEASE, UpstreamLease};
use crate::api::{DeploymentPolicy, NodeWright, VERSION, keys};
use crate::clock::Clock;

/// Kinds that are watched; all of them must be listed before a look is whole.
const KINDS: [&str; 7] = [
    <SlimNode as Watched>::KIND,
    <SlimPod as Watched>::KIND,
    <SlimConfigMap as Watched>::KIND,
    <SlimJob as Watched>::KIND,
    <SlimLease as Watched>::KIND,
    <Untyped<NodeWright> as Watched>::KIND,
    <Untyped<DeploymentPolicy> as Watched>::KIND,
];

/// Which round of lists each kind has finished.
type Rounds = BTreeMap<&'static str, u64>;

/// Watches the cluster for as long as its tasks run.
#[derive(Debug)]
pub struct Observer {
    store: Arc<Store>,
    round: watch::Sender<u64>,
    listed: watch::Receiver<Rounds>,
}

/// What the tasks share.
#[derive(Clone)]
struct Shared {
    store: Arc<Store>,
    clock: Clock,
    round: watch::Receiver<u64>,
    listed: Arc<watch::Sender<Rounds>>,
    shutdown: CancellationToken,
}

impl Observer {
    /// Begins to watch. The tasks end after `shutdown`; dropping them ends them at once.
    pub fn start(
        client: Client,
        settings: &EdgeSettings,
        clock: Clock,
        shutdown: CancellationToken,
    ) -> (Self, JoinSet<()>) {
        let store = Arc::new(Store::new(settings, clock));
        let (round_sender, round) = watch::channel(1);
        let (listed_sender, listed) = watch::channel(Rounds::new());
        let shared = Shared {
            store: Arc::clone(&store),
            clock,
            round,
            listed: Arc::new(listed_sender),
            shutdown,
        };
        let everything = watcher::Config::default();
        // Only snapshots have this label; node metadata would be 10,000 objects of 15 KB.
        let snapshots = watcher::Config::default().labels(keys::CONFIG_DIGEST);
        let config_maps = Api::namespaced(client.clone(), &settings.namespace);
        let mut tasks = JoinSet::new();
        tasks.spawn(follow::<SlimNode>(
            Api::all(client.clone()),
            everything.clone(),
            shared.clone(),
        ));
        tasks.spawn(follow::<SlimPod>(
            Api::all(client.clone()),
            everything.clone(),
            shared.clone(),
        ));
        tasks.spawn(follow_former(client.clone(), shared.clone()));
        // Upstream runs packages as Jobs since it has the present prefix (v0.18).
        let jobs = watcher::Config::default().labels(keys::PACKAGE);
        tasks.spawn(follow::<SlimJob>(Api::all(client.clone()), jobs, shared.clone()));
        // Wherever upstream's operator runs, it acts on the same resources.
        let named = format!("metadata.name={UPSTREAM_LEASE}");
        let leases = watcher::Config::default().fields(&named);
        tasks.spawn(follow::<SlimLease>(Api::all(client.clone()), leases, shared.clone()));
        tasks.spawn(follow::<SlimConfigMap>(config_maps, snapshots, shared.clone()));
        tasks.spawn(follow::<Untyped<NodeWright>>(
            Api::all(client.clone()),
            everything.clone(),
            shared.clone(),
        ));
        tasks.spawn(follow::<Untyped<DeploymentPolicy>>(Api::all(client), everything, shared));
        (Self { store, round: round_sender, listed }, tasks)
    }

    /// Waits until every kind was listed once.
    pub async fn ready(&self) {
        self.wait_for_round(1).await;
    }

    /// Lists everything anew, with quorum, and waits for it: a new leader does so before its first
    /// pick, since its caches may be behind what the last leader wrote (design §4 rule 9).
    pub async fn refresh(&self) {
        let mut wanted = 0;
        self.round.send_modify(|round| {
            *round += 1;
            wanted = *round;
        });
        self.wait_for_round(wanted).await;
    }

    /// Returns what is known now.
    pub fn observe(&self) -> View {
        self.store.view()
    }

    /// Returns the Leases of upstream's operator that are known now.
    pub fn upstream_leases(&self) -> Vec<UpstreamLease> {
        self.store.upstream_leases()
    }

    /// Waits until something that we look at is different. For one waiter; a change while nobody
    /// waits is not lost.
    pub async fn changed(&self) {
        self.store.changed().await;
    }

    /// Returns the store, for whoever writes.
    pub fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    /// Returns the watches that do not work, by kind: what was observed may be old.
    pub fn troubles(&self) -> BTreeMap<&'static str, WatchTrouble> {
        self.store.troubles()
    }

    /// Returns the kinds that were never listed: with [`Observer::troubles`], what is not known.
    pub fn unlisted(&self) -> Vec<&'static str> {
        let listed = self.listed.borrow();
        KINDS.into_iter().filter(|kind| !listed.contains_key(kind)).collect()
    }

    async fn wait_for_round(&self, wanted: u64) {
        let is_listed = |rounds: &Rounds| {
            KINDS.iter().all(|kind| rounds.get(kind).is_some_and(|round| *round >= wanted))
        };
        // The tasks ended: whoever waits is being shut down as well.
        if self.listed.clone().wait_for(is_listed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Follows the kinds under the group's former name where the cluster serves them; asked once, since
/// nobody installs them any more. Nothing waits for them.
async fn follow_former(client: Client, shared: Shared) {
    let group = format!("{LEGACY_GROUP}/{VERSION}");
    match client.list_api_group_resources(&group).await {
        Ok(_served) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => return,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(group, error, "not known whether the cluster serves it: not mirrored");
            return;
        }
    }
    let everything = watcher::Config::default();
    let skyhooks =
        follow::<Untyped<Skyhook>>(Api::all(client.clone()), everything.clone(), shared.clone());
    let policies = follow::<Untyped<FormerPolicy>>(Api::all(client), everything, shared);
    tokio::join!(skyhooks, policies);
}

/// Keeps one kind current until shutdown.
async fn follow<W: Watched>(api: Api<W>, config: watcher::Config, mut shared: Shared) {
    let mut is_absent = false;
    loop {
        let round = *shared.round.borrow_and_update();
        let events = watcher::watcher(api.clone(), config.clone()).default_backoff();
        pin_mut!(events);
        loop {
            let event = tokio::select! {
                () = shared.shutdown.cancelled() => return,
                changed = shared.round.changed() => match changed {
                    Ok(()) => break,
                    Err(_observer_dropped) => return,
                },
                event = events.next() => event,
            };
            match event {
                Some(Ok(event)) => {
                    is_absent = false;
                    take::<W>(event, round, &shared);
                }
                Some(Err(error)) if W::MAY_BE_ABSENT && is_withheld(&error) => {
                    note_absent::<W>(&error, is_absent, round, &shared);
                    is_absent = true;
                }
                Some(Err(error)) => note_error::<W>(&error, &shared),
                None => break,
            }
        }
    }
}

fn take<W: Watched>(event: Event<W>, round: u64, shared: &Shared) {
    let store = &shared.store;
    match event {
        Event::Init => store.begin_list::<W>(),
        Event::InitApply(object) => store.put_listed(object),
        Event::InitDone => {
            store.end_list::<W>();
            shared.listed.send_modify(|rounds| {
                rounds.insert(W::KIND, round);
            });
            note_working::<W>(shared);
        }
        Event::Apply(object) => {
            store.put(object);
            note_working::<W>(shared);
        }
        Event::Delete(object) => {
            store.bury(&object);
            note_working::<W>(shared);
        }
    }
}

fn note_error<W: Watched>(error: &watcher::Error, shared: &Shared) {
    let is_expired = matches!(error, watcher::Error::WatchError(status) if status.code == 410);
    if is_expired {
        // Ordinary: the version we were at was compacted, a list follows.
        tracing::debug!(kind = W::KIND, "watch expired, listing again");
        return;
    }
    let text = chain(error);
    if shared.store.note_trouble(W::KIND, text.clone(), shared.clock.now()) {
        let way_out = way_out(error);
        tracing::warn!(
            kind = W::KIND,
            error = text,
            way_out,
            "watch failed: what we know may be old, trying again with back-off"
        );
    }
}

/// Notes a kind that need not be there: nothing waits for it. Said once, then asked again for as
/// long as the process runs, since it may be granted or served later.
fn note_absent<W: Watched>(error: &watcher::Error, is_known: bool, round: u64, shared: &Shared) {
    shared.listed.send_modify(|rounds| {
        rounds.insert(W::KIND, round);
    });
    if !is_known {
        let text = chain(error);
        tracing::info!(kind = W::KIND, error = text, "not readable, so taken as none");
    }
}

/// Returns whether the server withholds a kind for good: it does not serve it, or not to us.
fn is_withheld(error: &watcher::Error) -> bool {
    matches!(status_code(error), Some(403 | 404))
}

fn status_code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// Returns what a person can do about a watch that fails.
fn way_out(error: &watcher::Error) -> &'static str {
    match status_code(error) {
        Some(401 | 403) => "grant list and watch on this kind to the daemon's service account",
        Some(404) => "the cluster does not serve this kind: apply the CRDs (nodewright crds)",
        Some(_) => "the API server is in trouble: nothing to do here",
        None => "the API server cannot be reached: check the network and the API server",
    }
}

fn note_working<W: Watched>(shared: &Shared) {
    if let Some(WatchTrouble { since, error }) = shared.store.clear_trouble(W::KIND) {
        tracing::info!(kind = W::KIND, %since, error, "watch works again");
    }
}

/// Returns an error with its causes. kube repeats causes in its own text; those are left out.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}
