//! One measured rollout: a control plane of its own, nodes, kubelets, daemon, a push.
//!
//! In goes a row, out comes what it took. Every process is a child that ends with this one, however
//! that ends. Nothing is measured of a rollout that did not end as it should.

use std::path::Path;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, PostParams};
use kube::runtime::watcher;
use nodewright::api::status::StatusWord;
use nodewright::api::{NodeWright, crd, keys};
use nodewright::clock::Clock;
use nodewright::sim::keys::REBOOTS;
use nodewright::sim::scene::{NodeGroup, Scene};
use serde_json::Value;

use crate::plane::{ControlPlane, Controllers, Program, with_causes, within};
use crate::repository::Origin;
use crate::requests::Requests;
use crate::rows::{Reboot, Row};
use crate::usage::Usage;

/// How long a node is away when it reboots: short, so that it is not the reboots that are measured.
pub const REBOOT_TIME: &str = "2s";

/// User agent of the bench's own requests, which are not counted.
const OWN_USER_AGENT: &str = "rollout-bench/1";

/// Namespace of the daemon and its executors.
const NAMESPACE: &str = "nodewright";

/// Name of the cluster, and of the rollout in it.
const CLUSTER: &str = "bench";
const ROLLOUT: &str = "tuning";

/// What every rollout may take, whatever its size.
const LIMIT: Duration = Duration::from_secs(180);

/// What a rollout may take for each package of each node: twice what upstream takes.
const LIMIT_PER_PACKAGE: Duration = Duration::from_millis(1500);

/// What was measured of one rollout, from the push to `complete`.
pub struct Measurement {
    /// From the push until the resource says `complete`.
    pub wall_seconds: f64,
    /// From the push until the resource is there.
    pub arrival_seconds: f64,
    pub requests: Requests,
    pub daemon: Usage,
    pub kubelets: Usage,
    pub api_server: Usage,
    pub etcd: Usage,
    /// Size of the resource as JSON.
    pub resource_bytes: usize,
}

/// Why a rollout could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A message of the harness says what to do.
    #[error("{0}")]
    Plane(String),
    /// It did not end as it should.
    #[error("{what} did not happen within {} s; the end of the daemon's log:\n{log}",
        limit.as_secs())]
    TooLate { what: String, limit: Duration, log: String },
    /// It says complete, and is not.
    #[error("the resource says complete, and {nodes} nodes are not, {first} first")]
    NotComplete { nodes: usize, first: String },
    /// A request of the bench itself.
    #[error("cannot {what}")]
    Request { what: &'static str, source: Box<kube::Error> },
    /// Nodes were not made.
    #[error("cannot make the nodes")]
    Scene(#[from] nodewright::sim::scene::SceneError),
    /// The repository cannot be written.
    #[error("cannot write the repository")]
    Git(#[from] git2::Error),
    /// The kernel does not say what a process has used.
    #[error("cannot read what a process has used")]
    Usage(#[source] std::io::Error),
    /// The log was asked for and cannot be kept.
    #[error("cannot keep the daemon's log")]
    Log(#[source] std::io::Error),
}

/// Everything that runs.
struct Fleet {
    plane: ControlPlane,
    client: kube::Client,
    origin: Origin,
    kubelets: Program,
    daemon: Program,
}

/// Starts everything, measures one rollout, ends everything.
pub async fn measure(row: &Row, logs: Option<&Path>) -> Result<Measurement, BenchError> {
    let mut fleet = Fleet::start(row).await?;
    let measured = fleet.roll_out(row).await;
    if let Some(folder) = logs {
        fleet.keep_log(row, folder).map_err(BenchError::Log)?;
    }
    fleet.daemon.terminate();
    measured
}

impl Fleet {
    async fn start(row: &Row) -> Result<Self, BenchError> {
        let plane = ControlPlane::try_start(Controllers::None).await;
        let plane = plane.map_err(|error| BenchError::Plane(with_causes(&error)))?;
        let client = plane.client(OWN_USER_AGENT);
        plane.ensure_namespace(NAMESPACE).await;
        for definition in crd::crds() {
            let (api, parameters) = (Api::all(client.clone()), PostParams::default());
            api.create(&parameters, &definition).await.map_err(request("create a CRD"))?;
        }
        let scene = Scene::new(client.clone(), Clock::real(), 1);
        scene.add_nodes(&NodeGroup::new("gpu", row.nodes).label("nodepool", "gpu")).await?;
        let origin = Origin::new(plane.folder())?;
        let kubelets = plane.spawn("kubelet", &kubelet_arguments(&plane));
        let daemon = plane.spawn("daemon", &daemon_arguments(&plane, &origin));
        let fleet = Self { plane, client, origin, kubelets, daemon };
        fleet.settles(row).await?;
        Ok(fleet)
    }

    /// Waits until every node is ready and has its lease, and the daemon has read the repository.
    async fn settles(&self, row: &Row) -> Result<(), BenchError> {
        let limit = self.limit(row);
        let (nodes, leases): (Api<Node>, Api<Lease>) = (
            Api::all(self.client.clone()),
            Api::namespaced(self.client.clone(), "kube-node-lease"),
        );
        self.wait("every node is ready", limit, async || {
            let listed = nodes.list(&ListParams::default()).await.ok()?;
            listed.items.iter().all(is_ready).then_some(())
        })
        .await?;
        self.wait("every node has its lease", limit, async || {
            let listed = leases.list(&ListParams::default()).await.ok()?;
            (listed.items.len() == row.nodes).then_some(())
        })
        .await?;
        let says_so = async || self.origin.has_status(CLUSTER).then_some(());
        self.wait("the daemon says that there is nothing yet", limit, says_so).await
    }

    async fn roll_out(&self, row: &Row) -> Result<Measurement, BenchError> {
        let before = (self.plane.audit().await.len(), self.usage()?);
        let clock = Clock::real();
        let resources: Api<NodeWright> = Api::all(self.client.clone());
        let mut events = watcher(resources, watcher::Config::default()).boxed();
        let pushed = clock.now();
        self.origin.push("tuning.yaml", &manifest(row))?;
        let passed = || clock.now().duration_since(pushed).as_secs_f64();
        let limit = self.limit(row);
        let completion = async {
            let mut arrival = None;
            loop {
                let Some(Ok(watcher::Event::Apply(found) | watcher::Event::InitApply(found))) =
                    events.next().await
                else {
                    continue;
                };
                let arrived = *arrival.get_or_insert_with(passed);
                let status = found.status.as_ref().and_then(|status| status.status);
                if status == Some(StatusWord::Complete) {
                    return (arrived, passed(), found);
                }
            }
        };
        let completed = tokio::time::timeout(limit, completion).await;
        let Ok((arrival_seconds, wall_seconds, resource)) = completed else {
            return Err(self.too_late("complete", limit));
        };
        let usage = self.usage()?;
        let requests = Requests::count(&self.plane.audit().await[before.0..]);
        self.ended_well(row).await?;
        let [daemon, kubelets, api_server, etcd] =
            std::array::from_fn(|index| usage[index].since(before.1[index]));
        let resource_bytes = serde_json::to_vec(&resource).map_or(0, |bytes| bytes.len());
        Ok(Measurement {
            wall_seconds,
            arrival_seconds,
            requests,
            daemon,
            kubelets,
            api_server,
            etcd,
            resource_bytes,
        })
    }

    /// Returns what daemon, kubelets, API server and etcd have used.
    fn usage(&self) -> Result<[Usage; 4], BenchError> {
        let processes = self.plane.processes();
        let of = |wanted: &str| processes.iter().find(|(name, _)| *name == wanted);
        let of = |wanted| of(wanted).map_or(0, |(_, process)| *process);
        let [daemon, kubelets, api_server, etcd] =
            [self.daemon.id(), self.kubelets.id(), of("kube-apiserver"), of("etcd")]
                .map(|process| Usage::of(process).map_err(BenchError::Usage));
        Ok([daemon?, kubelets?, api_server?, etcd?])
    }

    /// Checks on the nodes what the resource says: a fast wrong answer is none.
    async fn ended_well(&self, row: &Row) -> Result<(), BenchError> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let listed = nodes.list(&ListParams::default()).await.map_err(request("list nodes"))?;
        let unfinished: Vec<String> = listed
            .items
            .iter()
            .filter(|node| !is_done(node, row))
            .map(|node| node.name_any())
            .collect();
        match unfinished.first() {
            None => Ok(()),
            Some(first) => {
                Err(BenchError::NotComplete { nodes: unfinished.len(), first: first.clone() })
            }
        }
    }

    async fn wait(
        &self,
        what: &str,
        limit: Duration,
        attempt: impl AsyncFnMut() -> Option<()>,
    ) -> Result<(), BenchError> {
        within(limit, attempt).await.ok_or_else(|| self.too_late(what, limit))
    }

    fn too_late(&self, what: &str, limit: Duration) -> BenchError {
        BenchError::TooLate { what: what.to_owned(), limit, log: self.daemon.log_end() }
    }

    fn limit(&self, row: &Row) -> Duration {
        let work = u32::try_from(row.nodes * row.packages).unwrap_or(u32::MAX);
        LIMIT.saturating_add(LIMIT_PER_PACKAGE.saturating_mul(work))
    }

    fn keep_log(&self, row: &Row, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let Row { nodes, packages, budget, reboot } = row;
        let name = format!("{nodes}-{packages}-{budget:?}-{reboot:?}.log").to_lowercase();
        std::fs::copy(self.plane.folder().join("daemon.log"), folder.join(name)).map(drop)
    }
}

fn kubelet_arguments(plane: &ControlPlane) -> Vec<String> {
    let kubeconfig = plane.kubeconfig().display().to_string();
    let arguments = ["sim", "kubelet", "--reboot-time", REBOOT_TIME, "--kubeconfig", &kubeconfig];
    arguments.map(str::to_owned).into()
}

fn daemon_arguments(plane: &ControlPlane, origin: &Origin) -> Vec<String> {
    let (repository, kubeconfig) = (origin.address(), plane.kubeconfig().display().to_string());
    let cache = plane.folder().join("cache").display().to_string();
    let mut arguments = vec!["run".to_owned()];
    for (flag, value) in [
        ("--repo", repository.as_str()),
        ("--cluster", CLUSTER),
        ("--cache", &cache),
        ("--identity", "nodewright-a"),
        ("--namespace", NAMESPACE),
        ("--agent-image", "registry.example/agent:7"),
        // Else a package that is new to the cluster begins with one node.
        ("--compat", "upstream"),
        ("--probes", "127.0.0.1:0"),
        ("--metrics", "127.0.0.1:0"),
        ("--kubeconfig", &kubeconfig),
    ] {
        arguments.extend([flag.to_owned(), value.to_owned()]);
    }
    arguments
}

/// Returns the resource of a row; its packages have no dependencies.
fn manifest(row: &Row) -> String {
    let interrupt = match row.reboot {
        Reboot::Without => "",
        Reboot::With => "      interrupt:\n        type: reboot\n",
    };
    let packages: String = ('a'..='z')
        .take(row.packages)
        .map(|letter| {
            let image = format!("registry.example/package-{letter}");
            format!(
                "    package-{letter}:\n      version: 1.0.0\n      image: {image}\n{interrupt}"
            )
        })
        .collect();
    format!(
        "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata:\n  \
         name: {ROLLOUT}\nspec:\n  nodeSelectors:\n    matchLabels:\n      nodepool: gpu\n  \
         interruptionBudget:\n    {}\n  packages:\n{packages}",
        row.budget.manifest()
    )
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = |it: &NodeCondition| it.type_ == "Ready" && it.status == "True";
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    conditions.into_iter().any(is_ready) && taints.is_none_or(Vec::is_empty)
}

/// Tells whether a node has every package, was let go, and was rebooted once where that is asked.
fn is_done(node: &Node, row: &Row) -> bool {
    let text = node.annotations().get(&keys::node_state(ROLLOUT));
    let entries: Value =
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    let entries = entries.as_object();
    let complete = entries
        .map_or(0, |entries| entries.values().filter(|entry| entry["state"] == "complete").count());
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let reboots = node.annotations().get(REBOOTS).map(String::as_str);
    let wanted_reboots = match row.reboot {
        Reboot::Without => None,
        Reboot::With => Some("1"),
    };
    complete == row.packages && !is_cordoned && reboots == wanted_reboots
}

fn request(what: &'static str) -> impl Fn(kube::Error) -> BenchError {
    move |source| BenchError::Request { what, source: Box::new(source) }
}
