//! `nodewright demo`: the whole system on an embedded cluster, as a story that proves itself.
//!
//! In: how many nodes, a seed, a speed. Out: text for a person who has never seen this, and exit
//! code 0 only if every step came out. The daemon is the production one, with its own Git transport
//! processes; only the cluster is played. Must never: leave a process or a temporary folder behind.

mod commits;
mod ending;
mod error;
mod examples;
mod folder;
mod screen;
mod state;
mod story;
mod watch;
mod workloads;
mod world;

use std::fs;
use std::path::PathBuf;

pub use self::error::DemoError;

use self::commits::{ADA, FIRST_MESSAGE, Pools};
use self::folder::Folder;
use self::screen::Screen;
use self::story::{BRANCH, CLUSTER, Story};
use self::watch::Watch;
use self::world::World;
use super::environment::Environment;
use super::error::CliError;
use super::{Exit, logging, shutdown};
use crate::clock::Clock;
use crate::cluster::EdgeSettings;
use crate::cluster::resources::Adoption;
use crate::daemon::{Daemon, Settings, SourceSettings, StatusSettings};
use crate::git::{Address, LocalRepository, Remote, STATUS_BRANCH_PREFIX, Source, Transport};
use crate::model::{Floor, NodeRules};
use crate::sim::Ledger;

/// Nodes of the training pool that the training job runs on: one of four, at least one.
const JOB_SHARE: usize = 4;

/// User agent of the daemon's requests.
const DAEMON: &str = "nodewright";

/// The image of the agent; nothing ever pulls it, the kubelets are played.
const AGENT_IMAGE: &str = "ghcr.io/nvidia/nodewright/agent:demo";

/// Plays a rollout, an upgrade around a training job, a broken commit and a revert.
///
/// Needs nothing but this program: the cluster is embedded, the repository is a folder. The daemon
/// is the real one. Each step is proven from the log of requests to the cluster, and the exit code
/// is 0 only if everything came out. Takes about half a minute.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoArgs {
    /// Plays with so many nodes, two thirds of which train.
    #[arg(
        long, value_name = "NUMBER", default_value = "12",
        value_parser = clap::value_parser!(u16).range(4..=200)
    )]
    nodes: u16,
    /// Chooses which nodes train and how long each takes to reboot.
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
    /// Runs the clock of the story so many times faster than yours.
    ///
    /// Time-outs become as much shorter: too fast for this machine, and the daemon loses its Lease.
    #[arg(
        long, value_name = "FACTOR", default_value = "20",
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    speed: u32,
    /// Keeps the repository and the logs in this folder, which must be new or empty.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

/// Returns every file of the compiled-in `examples-repo`, by its path there.
pub fn example_files() -> &'static [(&'static str, &'static str)] {
    &examples::FILES
}

/// Plays the demo.
pub(super) fn main(args: &DemoArgs, environment: &Environment) -> Result<Exit, CliError> {
    let mut folder = Folder::new(args.keep.as_deref())?;
    // Times in the log, in annotations and on the screen are of one clock. It begins with tokio's,
    // which needs no runtime.
    let clock = Clock::starting_at(Clock::real().now(), args.speed);
    let path = folder.daemon_log();
    let log = fs::File::create(&path).map_err(|source| DemoError::Folder { path, source })?;
    logging::start_in_file(log, environment, clock)?;
    let played = super::runtime()?.block_on(async {
        let shutdown = shutdown::requested().map_err(CliError::no_signals)?;
        Ok::<_, CliError>(play(args, &folder, clock, shutdown).await)
    })?;
    match played {
        Ok(()) => Ok(Exit::Success),
        Err(DemoError::Stopped) => Err(DemoError::Stopped.into()),
        Err(error) => {
            folder.keep();
            let logs = format!(
                "what happened is in {} and {}",
                folder.request_log().display(),
                folder.daemon_log().display()
            );
            let again = format!("nodes {}, seed {}, speed {}", args.nodes, args.seed, args.speed);
            Err(CliError::from(error).hint(logs).hint(format!("played with {again}")))
        }
    }
}

/// Sets the stage, plays the story, and tells where it ended.
async fn play(
    args: &DemoArgs,
    folder: &Folder,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) -> Result<(), DemoError> {
    let mut random = fastrand::Rng::with_seed(args.seed);
    let mut screen = Screen::new(clock);
    let world = World::new(usize::from(args.nodes), &mut random, clock).await?;
    let mut job_nodes = world.training.clone();
    random.shuffle(&mut job_nodes);
    job_nodes.truncate((world.training.len() / JOB_SHARE).max(1));
    job_nodes.sort();
    let repository = LocalRepository::init(&folder.repository(), BRANCH)?;
    let commit = repository.commit(BRANCH, (ADA, clock.now()), FIRST_MESSAGE, &examples::FILES)?;
    screen.say(&format!(
        "NodeWright demo: {} nodes, seed {}, a clock that runs {} times faster than yours. \
         Everything is in this process: an API server, the nodes' kubelets, a Git repository in a \
         folder, and the real daemon. Commit {} is the copy of examples-repo/.",
        args.nodes,
        args.seed,
        args.speed,
        &commit.as_str()[..7],
    ))?;
    let settings = settings(folder)?;
    let mut daemon = Daemon::start(settings, world.cluster.client(DAEMON), clock);
    let watch = Watch::new(daemon.fleet(), clock);
    let story = Story {
        world: &world,
        repository: &repository,
        screen: &mut screen,
        watch,
        pools: Pools::of_examples(),
        job_nodes,
    };
    let mut daemon_runs = true;
    let played = tokio::select! {
        played = story.play() => played,
        () = shutdown => Err(DemoError::Stopped),
        ended = daemon.ended() => {
            daemon_runs = false;
            Err(DemoError::DaemonEnded { source: ended.err() })
        }
    };
    let stopped = if daemon_runs { daemon.stop().await } else { Ok(()) };
    let ledger = Ledger::of(&world.cluster);
    let told = match played {
        Ok(()) => stopped
            .map_err(|source| DemoError::DaemonEnded { source: Some(source) })
            .and_then(|()| ending::tell(&mut screen, folder, &repository)),
        Err(error) => Err(error),
    };
    world.stop().await?;
    if folder.is_kept() || told.is_err() {
        let path = folder.request_log();
        fs::write(&path, ledger.text()).map_err(|source| DemoError::Folder { path, source })?;
    }
    told
}

/// The daemon's settings: its defaults, the repository in the folder, this very program as Git
/// transport.
fn settings(folder: &Folder) -> Result<Settings, DemoError> {
    let path = folder.repository();
    let text = path.to_str().ok_or_else(|| DemoError::FolderName { path: path.clone() })?;
    let remote = Remote { address: Address::parse("--keep", text)?, credentials: None };
    let executable = std::env::current_exe().map_err(DemoError::Executable)?;
    Ok(Settings {
        cluster: CLUSTER.to_owned(),
        source: SourceSettings::Git {
            source: Source::new(remote.clone(), folder.cache()),
            path: String::new(),
        },
        status: Some(StatusSettings { remote, cache: folder.cache() }),
        transport: Transport::new(executable),
        edge: EdgeSettings::new("nodewright", AGENT_IMAGE),
        identity: "demo".to_owned(),
        own_node: None,
        floor: Floor::default(),
        rules: NodeRules::default(),
        adoption: Adoption::Refused,
        listen: None,
    })
}

/// Returns the branch that the daemon writes.
fn status_branch() -> String {
    format!("{STATUS_BRANCH_PREFIX}{CLUSTER}")
}
