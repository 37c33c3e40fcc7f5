//! `nodewright adopt`: what taking a cluster over from upstream's operator would do.
//!
//! In: one look at the live cluster. Out: text, and an exit code that says whether the daemon may
//! be started. Must never: write anything; the daemon takes over by running.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Exit;
use super::environment::Environment;
use super::error::{CliError, ErrorKind};
use super::kubernetes::{self, ClusterArgs, DaemonArgs};
use super::logging::{self, LogFormat};
use super::out::stdout;
use crate::clock::Clock;
use crate::cluster::source_state::SourceStates;
use crate::cluster::upstream_lease::{Rival, Rivals};
use crate::cluster::{EdgeSettings, Observer, View};
use crate::daemon::desired;
use crate::model::{Floor, Input, NodeRules};
use crate::plan::plan;
use crate::report::{Adoption, adoption};

/// How long the cluster may take to list everything; a fleet of 10,000 nodes takes seconds.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// Says what taking a cluster over from upstream's operator would do, and if it may begin.
///
/// The daemon takes over by running: it waits for what upstream still runs, credits it, goes on
/// where nodes stand, and runs nothing again. This changes nothing; it looks, and ends with 0 when
/// the daemon may be started, 3 when annotations on some node cannot be read (that node would be
/// left alone), and 4 while upstream's operator leads: both must never act at once.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct AdoptArgs {
    /// Also says for every node what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Where the daemon is.
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Which cluster to talk to.
    #[command(flatten)]
    kubernetes: ClusterArgs,
}

/// What was found in one look.
struct Found {
    adoption: Adoption,
    rival: Option<Rival>,
}

pub(super) fn main(args: &AdoptArgs, environment: &Environment) -> Result<Exit, CliError> {
    let AdoptArgs { dry_run, daemon: DaemonArgs { namespace }, kubernetes } = args;
    let clock = Clock::real();
    logging::start(LogFormat::Text, environment, clock)?;
    let found: Result<Found, CliError> =
        super::runtime()?.block_on(look(kubernetes, namespace, clock));
    let Found { adoption, rival } = found?;
    let lines = if *dry_run { &adoption.details } else { &adoption.summary };
    let mut out = stdout();
    for line in lines {
        out.line(line)?;
    }
    if lines.is_empty() {
        out.line("there is no NodeWright in this cluster: nothing to take over")?;
    }
    if let Some(rival) = rival {
        return Err(CliError::new(ErrorKind::Refused, rival.words())
            .hint("when its pods are gone, run this again; the daemon waits for it as well"));
    }
    for line in &adoption.malformed {
        out.line(format!("left alone until somebody corrects it: {line}"))?;
    }
    if adoption.malformed.is_empty() {
        out.line("nothing was changed; the daemon takes over when it is started")?;
        return Ok(Exit::Success);
    }
    Ok(Exit::Invalid)
}

async fn look(kubernetes: &ClusterArgs, namespace: &str, clock: Clock) -> Result<Found, CliError> {
    let client = kubernetes::connect(kubernetes).await?;
    // One plain question first: its error says at once what the watches would only repeat.
    SourceStates::new(client.clone(), namespace, clock).read().await?;
    let settings = EdgeSettings::new(namespace, "");
    let shutdown = CancellationToken::new();
    let (observer, mut tasks) = Observer::start(client, &settings, clock, shutdown.clone());
    if tokio::time::timeout(LIST_TIMEOUT, observer.ready()).await.is_err() {
        return Err(not_listed(&observer));
    }
    let rival = rival(&observer, clock).await;
    let input = input(&observer.observe(), clock);
    shutdown.cancel();
    tasks.shutdown().await;
    Ok(Found { adoption: adoption(&input, &plan(&input)), rival })
}

/// Returns who leads for upstream. A Lease that nobody gave up may be one that nobody renews any
/// more: it is watched for as long as it lasts.
async fn rival(observer: &Observer, clock: Clock) -> Option<Rival> {
    let mut rivals = Rivals::default();
    let first = rivals.leading(&observer.observe().upstream_leases, clock.now())?;
    clock.sleep(first.until.duration_since(clock.now()).unsigned_abs()).await;
    rivals.leading(&observer.observe().upstream_leases, clock.now())
}

fn input(view: &View, clock: Clock) -> Input {
    Input {
        now: clock.now(),
        desired: desired(view),
        observed: view.observed.clone(),
        halt: None,
        approvals: std::collections::BTreeMap::new(),
        opening: std::collections::BTreeMap::new(),
        floor: Floor::default(),
        rules: NodeRules::default(),
        own_node: None,
        own_pod: None,
    }
}

fn not_listed(observer: &Observer) -> CliError {
    let troubles = observer.troubles();
    let troubles: Vec<String> =
        troubles.iter().map(|(kind, trouble)| format!("{kind}: {}", trouble.error)).collect();
    let why = if troubles.is_empty() { "no answer".to_owned() } else { troubles.join("; ") };
    CliError::new(ErrorKind::Unreachable, format!("the cluster does not list everything: {why}"))
        .hint("this needs to list nodes, pods, jobs, leases, config maps and both kinds of ours")
}
