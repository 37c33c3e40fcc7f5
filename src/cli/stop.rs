//! `nodewright stop --all` and `nodewright go`: a person stops all new disruption, and lifts it.
//!
//! In: why, and how long to wait. Out: one annotation on the ConfigMap of the source; `stop` ends
//! when the daemon obeys it. Must never: say that it is stopped while it may not be.

use super::Exit;
use super::environment::Environment;
use super::error::{CliError, ErrorKind};
use super::kubernetes::{self, ClusterArgs, DaemonArgs};
use super::logging::{self, LogFormat};
use super::out::stdout;
use crate::api::GoDuration;
use crate::clock::Clock;
use crate::cluster::stop::{InForce, go, stop_all};

/// Stops all new disruption of all rollouts at once.
///
/// No batch is opened, no node is cordoned, no pod evicted, nothing more is started on hosts. What
/// runs there is let end, and nodes that are worked on stay as they are. When the command returns
/// with success the daemon obeys. It goes on where it was with: nodewright go
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct StopArgs {
    /// Stops everything; to stop one rollout, annotate it: nodewright.nvidia.com/pause=true.
    #[arg(long, required = true)]
    all: bool,
    /// Says why, for everybody who asks what the nodes wait for.
    #[arg(long, value_name = "TEXT", default_value = "by nodewright stop")]
    reason: String,
    /// Waits at most this long for the daemon to obey.
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    timeout: GoDuration,
    /// Where the daemon is.
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Which cluster to talk to.
    #[command(flatten)]
    kubernetes: ClusterArgs,
}

/// Lets everything go on that nodewright stop --all has stopped, where it was.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct GoArgs {
    /// Where the daemon is.
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Which cluster to talk to.
    #[command(flatten)]
    kubernetes: ClusterArgs,
}

pub(super) fn stop(args: &StopArgs, environment: &Environment) -> Result<Exit, CliError> {
    let StopArgs { all: _, reason, timeout, daemon: DaemonArgs { namespace }, kubernetes } = args;
    let clock = Clock::real();
    logging::start(LogFormat::Text, environment, clock)?;
    // Another one for each stop: the time to the millisecond.
    let note = format!("{reason}, at {:.3}", clock.now());
    let in_force: Result<InForce, CliError> = super::runtime()?.block_on(async {
        let client = kubernetes::connect(kubernetes).await?;
        Ok(stop_all(&client, namespace, clock, &note, timeout.get()).await?)
    });
    let said = match in_force? {
        InForce::Obeyed => "stopped: nothing new is disturbed, what runs is let end".to_owned(),
        InForce::NobodyLeads => {
            format!(
                "stopped: no daemon is at work in namespace {namespace}, and one that starts obeys"
            )
        }
        InForce::NoDaemon => {
            let message = format!(
                "nothing is stopped: no daemon has ever been at work in namespace {namespace}"
            );
            return Err(CliError::new(ErrorKind::Refused, message).hint(
                "name the daemon's namespace with --namespace, and its cluster with --context",
            ));
        }
        InForce::NotYet => {
            let message = format!(
                "the stop is written, and the daemon has not said within {timeout} that it obeys"
            );
            return Err(CliError::new(ErrorKind::Unreachable, message)
                .hint("it obeys as soon as it reads it: run the command again to wait for that")
                .hint("see whether it is alive: its /healthz and its log"));
        }
    };
    stdout().line(format!("{said}\nto go on where it was: nodewright go"))?;
    Ok(Exit::Success)
}

pub(super) fn go_on(args: &GoArgs, environment: &Environment) -> Result<Exit, CliError> {
    let GoArgs { daemon: DaemonArgs { namespace }, kubernetes } = args;
    let clock = Clock::real();
    logging::start(LogFormat::Text, environment, clock)?;
    let lifted: Result<Option<String>, CliError> = super::runtime()?.block_on(async {
        let client = kubernetes::connect(kubernetes).await?;
        Ok(go(&client, namespace, clock).await?)
    });
    stdout().line(match lifted? {
        Some(note) => format!("goes on where it was; the stop was: {}", note.escape_debug()),
        None => format!("nothing was stopped by the daemon in namespace {namespace}"),
    })?;
    Ok(Exit::Success)
}
