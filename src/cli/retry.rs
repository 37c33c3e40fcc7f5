//! `nodewright retry`: a person asks that a node on which a visit failed be tried again.
//!
//! In: a node, and the rollout where several failed there. Out: one patch that tests what was read,
//! or with `--dry-run` what it would do. Must never: touch a visit that is still open.

use super::Exit;
use super::environment::Environment;
use super::error::{CliError, ErrorKind};
use super::kubernetes::{self, ClusterArgs};
use super::logging::{self, LogFormat};
use super::out::stdout;
use super::values;
use crate::clock::Clock;
use crate::cluster::reset::batches;
use crate::cluster::retry::{FailedVisit, failed_visits, retry};
use crate::report::clean;

/// Longest message shown.
const TEXT_MAX_BYTES: usize = 1024;

/// Tries a node again on which a visit failed, without a new commit.
///
/// The failure is cleared from the node's annotations, nothing else: the node is picked again when
/// a batch has room. A rollout that was stopped stays stopped until its manifest changes, or:
/// nodewright deployment-policy reset.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct RetryArgs {
    /// The node, as node/NAME.
    #[arg(value_name = "node/NAME", value_parser = values::node)]
    node: String,
    /// The rollout, where more than one failed on the node.
    #[arg(long, value_name = "NAME")]
    rollout: Option<String>,
    /// Says what would be done, and does nothing.
    #[arg(long)]
    dry_run: bool,
    /// Which cluster to talk to.
    #[command(flatten)]
    kubernetes: ClusterArgs,
}

pub(super) fn main(args: &RetryArgs, environment: &Environment) -> Result<Exit, CliError> {
    let RetryArgs { node, rollout, dry_run, kubernetes } = args;
    let clock = Clock::real();
    logging::start(LogFormat::Text, environment, clock)?;
    let said: Result<String, CliError> = super::runtime()?.block_on(async {
        let client = kubernetes::connect(kubernetes).await?;
        let failed = failed_visits(&client, node, clock).await?;
        let visit = choose(node, rollout.as_deref(), failed)?;
        let what = visit.message.as_deref().unwrap_or("no message was recorded");
        let what = clean(what, TEXT_MAX_BYTES);
        let rollout = &visit.rollout;
        if *dry_run {
            return Ok(format!("would clear on node/{node} for {rollout}: {what}"));
        }
        retry(&client, &visit, clock).await?;
        let batches = batches(&client, rollout, clock).await?.unwrap_or_default();
        let is_stopped = batches.get(&visit.compartment).is_some_and(|state| state.should_stop);
        let next = if is_stopped {
            format!(
                "{rollout} is stopped there and picks nobody; once every such node is cleared: \
                 nodewright deployment-policy reset {rollout}"
            )
        } else {
            format!(
                "the node is picked again when a batch has room: nodewright explain node/{node}"
            )
        };
        Ok(format!("cleared on node/{node} for {rollout}: {what}\n{next}"))
    });
    stdout().line(said?)?;
    Ok(Exit::Success)
}

fn choose(
    node: &str,
    rollout: Option<&str>,
    failed: Option<Vec<FailedVisit>>,
) -> Result<FailedVisit, CliError> {
    let refused = |message: String| CliError::new(ErrorKind::Refused, message);
    let Some(failed) = failed else {
        return Err(refused(format!("there is no node {node} in this cluster"))
            .hint("kubectl get nodes lists them"));
    };
    let names: Vec<String> = failed.iter().map(|visit| visit.rollout.clone()).collect();
    let mut wanted: Vec<FailedVisit> = failed
        .into_iter()
        .filter(|visit| rollout.is_none_or(|rollout| visit.rollout == rollout))
        .collect();
    match (wanted.pop(), wanted.is_empty()) {
        (Some(visit), true) => Ok(visit),
        (Some(_), false) => {
            let names = names.join(", ");
            Err(CliError::usage(format!("several rollouts failed on node {node}: {names}"))
                .hint("name one of them with --rollout"))
        }
        (None, _) => {
            let whose = rollout.map(|name| format!(" of {name}")).unwrap_or_default();
            Err(refused(format!("no visit{whose} has failed on node {node}: nothing to retry"))
                .hint(format!("see what it waits for: nodewright explain node/{node}")))
        }
    }
}
