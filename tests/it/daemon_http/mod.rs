//! What is served over HTTP: metrics of the fleet and of the daemon, probes, the servers' life.

mod connections;
mod daemon_series;
mod fleet_series;
mod probes;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::Selector;
use nodewright::clock::Clock;
use nodewright::daemon::http::{Health, LOOP_SILENCE_MAX, Servers, Surface};
use nodewright::daemon::metrics::Metrics;
use nodewright::model::{Budget, DrainConfig, Package, Rollout, Sequencing, Uninstall};
use nodewright::plan::world::{Fate, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Bound of every wait on a socket: far above what any of them takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn noon() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().expect("a constant")
}

fn package(name: &str, version: &str) -> Package {
    Package {
        env_digest: None,
        name: name.to_owned(),
        version: version.parse().expect("a version in a test"),
        image: format!("registry.example/{name}"),
        container_sha: None,
        agent_image_override: None,
        interrupt: None,
        config_interrupts: BTreeMap::new(),
        depends_on: BTreeMap::new(),
        config_map: BTreeMap::new(),
        env: Vec::new(),
        resources: None,
        graceful_shutdown: None,
        stage_timeout: None,
        uninstall: Uninstall::default(),
    }
}

/// A rollout of one package over all nodes, one at a time.
fn rollout(name: &str, package: Package) -> Rollout {
    Rollout {
        runtime_required_cordon_after: false,
        auto_taint_new_nodes: false,
        name: name.to_owned(),
        priority: 200,
        sequencing: Sequencing::Node,
        serial: false,
        nodes: Selector::default(),
        protected: None,
        budget: Some(Budget::Count(1)),
        policy: None,
        reset_batches: None,
        drain: DrainConfig::default(),
        tolerations: Vec::new(),
        runtime_required: false,
        packages: BTreeMap::from([(package.name.clone(), package)]),
    }
}

fn world(nodes: u32, rollout: Rollout) -> World {
    let mut world = World::new(noon());
    for number in 0..nodes {
        world.add_node(&format!("gpu-{number:02}"), &[]);
        world.pass(1);
    }
    world.set_rollout(rollout);
    world
}

/// Ticks until nothing changes.
fn settle(world: &mut World) {
    for _ in 0..100 {
        let (_, breaches, done) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        if done == 0 {
            return;
        }
    }
    panic!("the planner does not come to rest");
}

/// The lines of `text` that are series of `family`.
fn series<'a>(text: &'a str, family: &str) -> Vec<&'a str> {
    let is_family =
        |line: &&str| line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' ']));
    text.lines().filter(is_family).collect()
}

/// Servers on ports of loopback, with what they show.
struct Running {
    probes: SocketAddr,
    metrics: SocketAddr,
    health: Arc<Health>,
    book: Arc<Metrics>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(clock: Clock) -> Self {
        let loopback = "127.0.0.1:0".parse().expect("a constant");
        let servers = Servers::bind(loopback, loopback, clock).await.expect("ports on loopback");
        let health = Arc::new(Health::new(clock, LOOP_SILENCE_MAX));
        let book = Arc::new(Metrics::new());
        let stop = CancellationToken::new();
        Self {
            probes: servers.address(Surface::Probes),
            metrics: servers.address(Surface::Metrics),
            task: tokio::spawn(servers.serve(health.clone(), book.clone(), stop.clone())),
            health,
            book,
            stop,
        }
    }

    /// Stops the servers and waits for their end.
    async fn stop(self) {
        self.stop.cancel();
        within(self.task).await.expect("the servers do not panic");
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("an answer within the patience of a test")
}

/// What a server answers to one request, head and body.
async fn get(address: SocketAddr, path: &str) -> (String, String) {
    let answer = within(async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        io::Result::Ok(answer)
    });
    let answer = answer.await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}
