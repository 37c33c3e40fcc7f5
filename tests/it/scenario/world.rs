//! Everything a scenario acts on: a repository, a cluster, a kubelet, and the daemon between.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use nodewright::cli::FloorArgs;
use nodewright::clock::Clock;
use nodewright::cluster::EdgeSettings;
use nodewright::cluster::resources::Adoption;
use nodewright::daemon::{Daemon, Settings, SourceSettings, StatusSettings};
use nodewright::git::{CommitId, Source, Transport};
use nodewright::model::{Floor, NodeRules};
use nodewright::report::FleetState;
use nodewright::sim::scene::Scene;
use nodewright::sim::{Kubelet, KubeletOptions};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ground::{Ground, NAMESPACE};
use super::watcher::Watcher;
use crate::git::Origin;

/// Name of the cluster, as `--cluster` has it.
pub const CLUSTER: &str = "dev";

/// Long enough to be seen, short enough for a clock that cannot be paused.
const REBOOT_TIME: Duration = Duration::from_secs(5);

/// The flags of the safety floor, read as `nodewright run` reads them.
#[derive(clap::Parser)]
struct FloorFlags {
    #[command(flatten)]
    floor: FloorArgs,
}

pub struct World {
    pub ground: Ground,
    pub clock: Clock,
    pub origin: Origin,
    /// The files of the next commit.
    pub tree: BTreeMap<String, String>,
    /// The last commit.
    pub pushed: Option<CommitId>,
    pub kubelet: Kubelet,
    pub daemon: Option<Daemon>,
    pub watcher: Watcher,
    /// How long, on our clock, one thing that is waited for may take.
    pub patience: Duration,
    cache: tempfile::TempDir,
    starts: u32,
    stop_kubelet: CancellationToken,
    kubelet_task: JoinHandle<()>,
}

impl World {
    pub async fn new(ground: Ground, clock: Clock, patience: Duration) -> Self {
        let options = KubeletOptions { reboot_time: REBOOT_TIME, ..KubeletOptions::default() };
        let kubelet = Kubelet::new(options);
        let stop_kubelet = CancellationToken::new();
        let playing = kubelet.clone();
        let (client, token) = (ground.client("kubelet"), stop_kubelet.clone());
        let kubelet_task = tokio::spawn(async move {
            playing.run(client, clock, token.cancelled_owned()).await;
        });
        let watcher = Watcher::start(ground.client("watcher"), clock).await;
        Self {
            ground,
            clock,
            origin: Origin::new(),
            tree: BTreeMap::new(),
            pushed: None,
            kubelet,
            daemon: None,
            watcher,
            patience,
            cache: tempfile::tempdir().expect("a temporary folder"),
            starts: 0,
            stop_kubelet,
            kubelet_task,
        }
    }

    pub fn scene(&self) -> Scene {
        Scene::new(self.ground.client("test"), self.clock, 1)
    }

    /// Starts the daemon as a new process would: with an identity of its own.
    ///
    /// Flags: `--source cluster` (the resources in the cluster are what is wanted, and nothing is
    /// written to Git), `--reapply-on-reboot`, and those of the safety floor as `run` has them.
    pub fn start(&mut self, flags: &[&str]) -> Result<(), String> {
        self.starts += 1;
        let cache = self.cache.path().join("cache");
        let source = Source::new(self.origin.remote(), cache.clone());
        let mut settings = Settings {
            cluster: CLUSTER.to_owned(),
            source: SourceSettings::Git { source, path: String::new() },
            status: Some(StatusSettings { remote: self.origin.remote(), cache }),
            transport: Transport::new(PathBuf::from(env!("CARGO_BIN_EXE_nodewright"))),
            edge: EdgeSettings::new(NAMESPACE, "registry.example/agent:7"),
            identity: format!("nodewright-{}", self.starts),
            own_node: None,
            floor: Floor::default(),
            rules: NodeRules::default(),
            adoption: Adoption::Refused,
            listen: None,
        };
        let mut floor = Vec::new();
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            match *flag {
                "--reapply-on-reboot" => settings.rules.reapply_on_reboot = true,
                "--source" if flags.next() == Some(&"cluster") => {
                    settings.source = SourceSettings::Cluster;
                    settings.status = None;
                }
                other => floor.push(other),
            }
        }
        settings.floor = self::floor(&floor)?;
        let client = self.ground.daemon_client();
        self.daemon = Some(Daemon::start(settings, client, self.clock));
        Ok(())
    }

    /// Commits the files and, where `on_top`, keeps the history.
    pub fn push(&mut self, on_top: bool) {
        let files: Vec<_> =
            self.tree.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let parent = self.origin.tip("main").filter(|_| on_top);
        let commit = self.origin.commit_on("main", parent.as_ref(), &files, "a change\n");
        self.pushed = Some(commit);
    }

    /// Waits for a tick of the daemon after which `found` finds something, within our patience.
    pub async fn until<T>(&self, found: impl Fn(&FleetState) -> Option<T>) -> Result<T, String> {
        let daemon = self.daemon.as_ref().ok_or("the daemon is not started")?;
        let mut fleet = daemon.fleet();
        let seen = tokio::time::timeout(self.clock.real_duration(self.patience), async {
            loop {
                let state = fleet.borrow_and_update().clone();
                if let Some(found) = state.as_deref().and_then(&found) {
                    return Some(found);
                }
                fleet.changed().await.ok()?;
            }
        });
        match seen.await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err("the daemon ended".to_owned()),
            Err(_elapsed) => Err(self.not_reached()),
        }
    }

    /// Looks again and again, on our clock, until `look` finds something.
    pub async fn eventually<T>(
        &self,
        mut look: impl AsyncFnMut() -> Option<T>,
    ) -> Result<T, String> {
        let deadline = self.clock.now() + self.patience;
        loop {
            if let Some(found) = look().await {
                return Ok(found);
            }
            if self.clock.now() > deadline {
                return Err(self.not_reached());
            }
            self.clock.sleep(Duration::from_millis(500)).await;
        }
    }

    /// Returns the fleet after the last tick.
    pub fn state(&self) -> Option<Arc<FleetState>> {
        self.daemon.as_ref().and_then(|daemon| daemon.fleet().borrow().clone())
    }

    fn not_reached(&self) -> String {
        let Some(state) = self.state() else {
            return "not reached; the daemon has not looked yet".to_owned();
        };
        let FleetState { source, phase, rollouts, needs_person, waits, on_purpose, .. } = &*state;
        format!(
            "not reached; the fleet is {phase:?}, source {source:?}\n{rollouts:#?}\n\
             needs a person: {needs_person:#?}\nwaits: {waits:#?}\non purpose: {on_purpose:#?}"
        )
    }

    /// Ends everything that was started.
    pub async fn end(mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop().await.expect("a graceful stop");
        }
        self.watcher.stop().await;
        self.stop_kubelet.cancel();
        self.kubelet_task.await.expect("the kubelet ends");
    }
}

/// Returns the safety floor that these flags amount to, as `run` and `explain` have them.
pub fn floor(flags: &[&str]) -> Result<Floor, String> {
    let all = ["start"].iter().chain(flags);
    let parsed = FloorFlags::try_parse_from(all).map_err(|error| error.to_string())?;
    Ok(parsed.floor.floor())
}
