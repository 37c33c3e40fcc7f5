//! The kubelet: plays the nodes that have none.
//!
//! It works purely through a client, so the same code plays the nodes of the embedded API server
//! and those of a real one (`nodewright sim kubelet`). It renews leases, reports readiness, runs
//! pods to the outcome its [`Script`] says or its [`Runner`] reaches, reboots nodes, and ends pods
//! that are deleted. It decides nothing that a real kubelet does not decide, and writes nothing but
//! pod and node status, leases, the deletion of pods that have ended, and its count of reboots.

mod board;
mod driver;
mod edge;
mod node;
mod pod;
mod reports;
mod runner;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::clock::Clock;

pub(super) use self::node::identity;
pub use self::runner::{ContainerEnd, ContainerStart, Runner};
pub use self::script::{Pull, Rule, RuleError, Script};

/// A real kubelet's, `nodeLeaseDurationSeconds` divided by four.
const LEASE_PERIOD: Duration = Duration::from_secs(10);

/// A real kubelet's `nodeStatusReportFrequency`.
const STATUS_PERIOD: Duration = Duration::from_mins(5);

/// Long enough to be seen, short enough to watch; a real GPU host takes 10 to 20 minutes.
const REBOOT_TIME: Duration = Duration::from_secs(30);

/// How a kubelet behaves; the same for all its nodes.
#[derive(Debug, Clone)]
pub struct KubeletOptions {
    /// Which nodes to play, as a label selector; all if `None`.
    pub nodes: Option<String>,
    /// How often a node renews its Lease (a real kubelet: every 10 s).
    pub lease_period: Duration,
    /// How often a node reports its status when nothing changed (a real kubelet: every 5 min).
    pub status_period: Duration,
    /// How often it is reported how far a pod's containers are, while they go on by themselves (a
    /// real kubelet looks at them once a second); zero reports each start and each end.
    pub relist_period: Duration,
    /// How long a node is away when it reboots.
    pub reboot_time: Duration,
    /// What happens in containers.
    pub script: Script,
    /// What runs the containers of executors instead, for real; the script if `None`.
    pub runner: Option<Arc<dyn Runner>>,
}

/// A handle to a kubelet: turns its knobs and tells what it did. All clones are the same kubelet.
#[derive(Debug, Clone)]
pub struct Kubelet(Arc<Shared>);

/// A container that ran to its own end; containers that were killed are not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub node: String,
    pub namespace: String,
    pub pod: String,
    pub pod_uid: String,
    pub container: String,
    pub image: String,
    pub attempt: u32,
    pub exit_code: i32,
    pub started: Timestamp,
    pub finished: Timestamp,
}

#[derive(Debug)]
struct Shared {
    options: KubeletOptions,
    knobs: Mutex<Knobs>,
}

#[derive(Debug)]
struct Knobs {
    script: Script,
    runs: Vec<Run>,
    reboots: BTreeMap<String, u32>,
    /// Images each node has.
    pulled: BTreeSet<(String, String)>,
    switches: BTreeMap<String, mpsc::Sender<Switch>>,
}

/// What can be done to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    /// It shuts down and comes back with a new boot ID.
    Reboot,
    /// It dies without a word.
    PowerOff,
    /// It comes back, with a new boot ID.
    PowerOn,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self {
            nodes: None,
            lease_period: LEASE_PERIOD,
            status_period: STATUS_PERIOD,
            relist_period: Duration::ZERO,
            reboot_time: REBOOT_TIME,
            script: Script::default(),
            runner: None,
        }
    }
}

/// Plays the nodes of a cluster until `shutdown` is done.
pub async fn run(
    client: kube::Client,
    clock: Clock,
    options: KubeletOptions,
    shutdown: impl Future<Output = ()>,
) {
    Kubelet::new(options).run(client, clock, shutdown).await;
}

impl Kubelet {
    /// Returns a kubelet that is not running yet.
    pub fn new(options: KubeletOptions) -> Self {
        let knobs = Knobs {
            script: options.script.clone(),
            runs: Vec::new(),
            reboots: BTreeMap::new(),
            pulled: BTreeSet::new(),
            switches: BTreeMap::new(),
        };
        Self(Arc::new(Shared { options, knobs: Mutex::new(knobs) }))
    }

    /// Plays until `shutdown` is done; everything it started ends with it.
    pub async fn run(
        &self,
        client: kube::Client,
        clock: Clock,
        shutdown: impl Future<Output = ()>,
    ) {
        let edge = edge::Edge::new(client, clock);
        tokio::select! {
            () = driver::drive(self.clone(), edge) => {}
            () = shutdown => {}
        }
    }

    /// Changes the script; containers that have not started yet follow it.
    pub fn rewrite(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.knobs().script);
    }

    /// Returns every container that ran to its end, in that order.
    pub fn runs(&self) -> Vec<Run> {
        self.knobs().runs.clone()
    }

    /// Returns how often a node was rebooted by this process.
    pub fn reboots(&self, node: &str) -> u32 {
        self.knobs().reboots.get(node).copied().unwrap_or(0)
    }

    /// Reboots a node, as a person at its console does.
    pub fn reboot(&self, node: &str) {
        self.switch(node, Switch::Reboot);
    }

    /// Cuts a node's power: it says nothing more, and is reported unknown after 40 s.
    pub fn power_off(&self, node: &str) {
        self.switch(node, Switch::PowerOff);
    }

    /// Brings back a node that was powered off or never returned.
    pub fn power_on(&self, node: &str) {
        self.switch(node, Switch::PowerOn);
    }

    fn switch(&self, node: &str, switch: Switch) {
        let sender = self.knobs().switches.get(node).cloned();
        // A full queue means that the node has more than enough to do already.
        if let Some(Err(error)) = sender.map(|sender| sender.try_send(switch)) {
            tracing::debug!(node, %error, "switch ignored");
        }
    }

    fn options(&self) -> &KubeletOptions {
        &self.0.options
    }

    /// Returns the knobs, locked; never held over an await.
    fn knobs(&self) -> MutexGuard<'_, Knobs> {
        self.0.knobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
