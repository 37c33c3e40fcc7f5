//! The loop: one level-triggered tick, wake-ups, leadership, health and metrics.
//!
//! In: settings, a client, the clock. Out: a fleet that moves to what is wanted, and what people
//! read about it. Three tasks that never wait for each other: the puller reads Git, the loop plans
//! and acts, the reporter writes the status branch. Everything that changes the cluster needs the
//! proof of leadership. Must never: decide (that is `plan`), or word a sentence (that is `report`).

mod commit;
mod conditions;
mod desired;
mod error;
pub mod http;
pub mod metrics;
mod news;
mod pull;
mod reporter;
mod revision;
mod rival;
mod tick;

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::cluster::events::Events;
use crate::cluster::resources::Adoption;
use crate::cluster::{Actor, EdgeSettings, Leader, Observer};
use crate::git::{Remote, Source, Transport};
use crate::model::{Floor, NodeRules};
use crate::report::FleetState;

use http::{Health, LOOP_SILENCE_MAX, ListenAddress, Servers};
use metrics::Metrics;

pub use commit::files_of_commit;
pub use desired::desired;
pub use error::DaemonError;
pub use pull::{PullStatus, Reading};

/// Where the wanted state comes from.
#[derive(Debug, Clone)]
pub enum SourceSettings {
    /// The resources in the cluster, whoever writes them.
    Cluster,
    /// A branch of a Git repository, which owns the spec of every resource in it.
    Git {
        /// Repository, branch, cache, poll.
        source: Source,
        /// Folder with the manifests, relative to the root; empty is the root.
        path: String,
    },
}

/// Where the status branch is written.
#[derive(Debug, Clone)]
pub struct StatusSettings {
    /// The repository.
    pub remote: Remote,
    /// Folder for its clone; the source's when both are one repository.
    pub cache: PathBuf,
}

/// Everything the daemon is told at its start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the cluster: names the status branch and the folder in `clusters/`.
    pub cluster: String,
    /// Where the wanted state comes from.
    pub source: SourceSettings,
    /// Where the status goes; `None` writes none.
    pub status: Option<StatusSettings>,
    /// Runs fetch and push in a child process.
    pub transport: Transport,
    /// What the Kubernetes edge needs to know.
    pub edge: EdgeSettings,
    /// Who we are in the election: another one for each process.
    pub identity: String,
    /// The node this process runs on, which goes last.
    pub own_node: Option<String>,
    /// The cluster's own limits.
    pub floor: Floor,
    /// How the cluster treats nodes.
    pub rules: NodeRules,
    /// Whether objects of other tools are taken over.
    pub adoption: Adoption,
    /// Where probes and metrics are served; `None` serves none.
    pub listen: Option<Listen>,
}

/// Where probes and metrics are served.
#[derive(Debug, Clone, Copy)]
pub struct Listen {
    /// `/healthz` and `/readyz`.
    pub probes: ListenAddress,
    /// `/metrics`.
    pub metrics: ListenAddress,
}

impl Settings {
    /// Returns the pod this process runs in, by its identity, which no packaging can lose as it can
    /// a label (failures A22). An identity is the pod's name and what tells its processes apart.
    fn own_pod(&self) -> Option<String> {
        let (pod, _process) = self.identity.rsplit_once('-')?;
        Some(format!("{}/{pod}", self.edge.namespace))
    }
}

/// A running daemon. Dropping it ends it at once, as a crash does: nothing is written any more and
/// the Lease lies until it runs out; [`Daemon::stop`] is the graceful end.
#[derive(Debug)]
pub struct Daemon {
    fleet: watch::Receiver<Option<Arc<FleetState>>>,
    pulls: watch::Receiver<PullStatus>,
    nudge: Arc<Notify>,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), DaemonError>>,
}

impl Daemon {
    /// Starts the daemon in the background; must be called in a tokio runtime.
    pub fn start(settings: Settings, client: Client, clock: Clock) -> Self {
        let shutdown = CancellationToken::new();
        let (fleet_sender, fleet) = watch::channel(None);
        let (pull_sender, pulls) = watch::channel(PullStatus::default());
        let nudge = Arc::new(Notify::new());
        let parts = Parts {
            settings,
            client,
            clock,
            fleet: fleet_sender,
            pull_sender,
            pulls: pulls.clone(),
            nudge: Arc::clone(&nudge),
            shutdown: shutdown.clone(),
        };
        let task = tokio::spawn(run(parts));
        Self { fleet, pulls, nudge, shutdown, task }
    }

    /// Returns what the fleet looked like after each tick; `None` while another process leads.
    pub fn fleet(&self) -> watch::Receiver<Option<Arc<FleetState>>> {
        self.fleet.clone()
    }

    /// Returns what was last read from Git.
    pub fn pulls(&self) -> watch::Receiver<PullStatus> {
        self.pulls.clone()
    }

    /// Asks Git now, as a webhook would; polling stays the truth.
    pub fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// Waits until the daemon ends by itself, which it does only on an error.
    ///
    /// # Errors
    /// What ended it.
    pub async fn ended(&mut self) -> Result<(), DaemonError> {
        match (&mut self.task).await {
            Ok(result) => result,
            Err(source) => Err(DaemonError::Task { task: "daemon", source }),
        }
    }

    /// Stops gracefully: ends the write under way, writes the status branch, gives up the Lease.
    ///
    /// # Errors
    /// What ended it before.
    pub async fn stop(mut self) -> Result<(), DaemonError> {
        self.shutdown.cancel();
        self.ended().await
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the tasks are made of.
struct Parts {
    settings: Settings,
    client: Client,
    clock: Clock,
    fleet: watch::Sender<Option<Arc<FleetState>>>,
    pull_sender: watch::Sender<PullStatus>,
    pulls: watch::Receiver<PullStatus>,
    nudge: Arc<Notify>,
    shutdown: CancellationToken,
}

/// Runs the tasks until `shutdown`, then ends them in the order that leaves nothing half done.
async fn run(parts: Parts) -> Result<(), DaemonError> {
    let Parts { settings, client, clock, fleet, pull_sender, pulls, nudge, shutdown } = parts;
    let signs = Signs {
        health: Arc::new(Health::new(clock, LOOP_SILENCE_MAX)),
        metrics: Arc::new(Metrics::new()),
    };
    let stop_serving = CancellationToken::new();
    let _stop_serving_when_done = stop_serving.clone().drop_guard();
    let serving = serve(settings.listen, &signs, clock, stop_serving.clone()).await?;
    let cluster_uid = cluster_uid(&client, clock, &signs.health, &shutdown).await?;
    let Some(cluster_uid) = cluster_uid else { return Ok(()) };
    let watching = CancellationToken::new();
    let (observer, mut watches) =
        Observer::start(client.clone(), &settings.edge, clock, watching.clone());
    let puller = pull::start(&settings, clock, nudge, pull_sender, shutdown.clone());
    let (state_sender, state_receiver) = watch::channel(None);
    let reporter = reporter::start(&settings, &cluster_uid, clock, &signs, state_receiver)?;
    // The election outlives the loop, so that a write under way still has its proof.
    let electing = CancellationToken::new();
    let namespace = settings.edge.namespace.clone();
    let leader = Leader::start(client.clone(), &settings.identity, &namespace, clock, &electing);
    let actor = Actor::new(client.clone(), settings.edge.clone(), clock, observer.store());
    let events = Events::start(client.clone(), &settings.identity, clock);
    let outlets = tick::Outlets { fleet, reporter: state_sender, events, signs };
    let turn =
        tick::Loop::new(settings, client, clock, cluster_uid, observer, actor, leader, outlets);
    let leader = turn.run(pulls, shutdown).await;
    reporter.finish().await;
    leader.stop().await;
    watching.cancel();
    watches.shutdown().await;
    drop(puller);
    stop_serving.cancel();
    if let Some(serving) = serving {
        serving.await.map_err(|source| DaemonError::Task { task: "http", source })?;
    }
    Ok(())
}

/// What the outside may ask about this process.
#[derive(Clone)]
struct Signs {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

/// Binds both addresses, so that a taken port shows at the start, and serves in the background.
async fn serve(
    listen: Option<Listen>,
    signs: &Signs,
    clock: Clock,
    stop: CancellationToken,
) -> Result<Option<JoinHandle<()>>, DaemonError> {
    let Some(Listen { probes, metrics }) = listen else { return Ok(None) };
    let servers = Servers::bind(probes, metrics, clock).await?;
    let Signs { health, metrics } = signs.clone();
    Ok(Some(tokio::spawn(servers.serve(health, metrics, stop))))
}

/// Reads the cluster's identity, the UID of kube-system, as long as it takes; `None` on shutdown.
async fn cluster_uid(
    client: &Client,
    clock: Clock,
    health: &Health,
    shutdown: &CancellationToken,
) -> Result<Option<String>, DaemonError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    loop {
        health.alive(clock.now());
        let request = namespaces.get("kube-system");
        match tokio::time::timeout(clock.real_duration(tick::READ_TIMEOUT), request).await {
            Ok(Ok(namespace)) => return Ok(namespace.metadata.uid),
            Ok(Err(kube::Error::Api(status))) if status.code == 401 || status.code == 403 => {
                return Err(DaemonError::Forbidden { status });
            }
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the API server does not answer, trying again");
            }
            Err(_elapsed) => tracing::warn!("the API server does not answer in time, trying again"),
        }
        tokio::select! {
            () = clock.sleep(tick::RETRY_FIRST) => {}
            () = shutdown.cancelled() => return Ok(None),
        }
    }
}

/// Returns the earlier of two times that may be absent.
fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
