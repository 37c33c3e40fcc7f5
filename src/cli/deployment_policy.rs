//! `nodewright deployment-policy`: what a person can do about the batches of a rollout.
//!
//! In: a NodeWright. Out: the counters of its batches as in the beginning, or with `--dry-run` what
//! that would change. Must never: touch a node.

use super::Exit;
use super::environment::Environment;
use super::error::{CliError, ErrorKind};
use super::kubernetes::{self, ClusterArgs};
use super::logging::{self, LogFormat};
use super::out::stdout;
use super::values;
use crate::clock::Clock;
use crate::cluster::reset::{Batches, batches, reset_batches};
use crate::model::BatchState;

/// Begins the batches of a rollout again, also those of one that was stopped.
///
/// How fast nodes may be changed is the policy's own word and changes with a commit.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct DeploymentPolicyArgs {
    #[command(subcommand)]
    verb: PolicyVerb,
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
enum PolicyVerb {
    Reset(PolicyResetArgs),
}

/// Begins the batches of a NodeWright again, in each of its compartments.
///
/// The next batch is as small as the first, failures are forgotten, and a rollout that was stopped
/// goes on with the nodes that it has not touched. A node that failed stays as it is until its
/// package changes, or: nodewright retry node/NAME.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
struct PolicyResetArgs {
    /// The NodeWright, not the policy: one policy may pace several.
    #[arg(value_name = "NODEWRIGHT", value_parser = values::name)]
    resource: String,
    /// Says what would be done, and does nothing.
    #[arg(long)]
    dry_run: bool,
    /// Accepted because upstream's command asks for it; nothing is asked here.
    #[arg(long, short = 'y', hide = true)]
    confirm: bool,
    /// Which cluster to talk to.
    #[command(flatten)]
    kubernetes: ClusterArgs,
}

pub(super) fn main(
    args: &DeploymentPolicyArgs,
    environment: &Environment,
) -> Result<Exit, CliError> {
    let PolicyVerb::Reset(PolicyResetArgs { resource, dry_run, confirm: _, kubernetes }) =
        &args.verb;
    let clock = Clock::real();
    logging::start(LogFormat::Text, environment, clock)?;
    let found: Result<Option<Batches>, CliError> = super::runtime()?.block_on(async {
        let client = kubernetes::connect(kubernetes).await?;
        Ok(if *dry_run {
            batches(&client, resource, clock).await?
        } else {
            reset_batches(&client, resource, clock).await?
        })
    });
    let before = found?.ok_or_else(|| no_such(resource))?;
    let what = if *dry_run { "would begin again" } else { "begins again" };
    stdout().line(said(resource, &before, what))?;
    Ok(Exit::Success)
}

/// The refusal of a name that no NodeWright has.
pub(super) fn no_such(resource: &str) -> CliError {
    let message = format!("there is no NodeWright {resource} in this cluster");
    CliError::new(ErrorKind::Refused, message).hint("kubectl get nodewrights lists them")
}

/// Says what became of the batches that were not at their beginning.
pub(super) fn said(resource: &str, before: &Batches, what: &str) -> String {
    let begun: Vec<String> = before
        .iter()
        .filter(|(_, state)| **state != BatchState::default())
        .map(|(name, state)| format!("{resource}, {name}: {what}; was {}", standing(state)))
        .collect();
    if begun.is_empty() {
        return format!("{resource}: every compartment is at its first batch");
    }
    begun.join("\n")
}

fn standing(state: &BatchState) -> String {
    let BatchState { current_batch, consecutive_failures, should_stop, .. } = state;
    match (should_stop, consecutive_failures) {
        (true, failures) => {
            let last = current_batch.saturating_sub(1);
            format!("stopped after batch {last}, failed batches in a row: {failures}")
        }
        (false, 0) => format!("at batch {current_batch}"),
        (false, failures) => {
            format!("at batch {current_batch}, failed batches in a row: {failures}")
        }
    }
}
