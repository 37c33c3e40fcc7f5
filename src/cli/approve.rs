//! `nodewright approve`: a person has seen what a resource selects, and means it.
//!
//! In: a NodeWright. Out: one annotation on the ConfigMap of the source, which counts for this
//! object and this selector alone, or with `--dry-run` what would be approved. Must never: approve
//! what was not shown.

use super::Exit;
use super::deployment_policy::no_such;
use super::environment::Environment;
use super::error::{CliError, ErrorKind};
use super::kubernetes::{self, ClusterArgs, DaemonArgs};
use super::logging::{self, LogFormat};
use super::out::stdout;
use super::values;
use crate::clock::Clock;
use crate::cluster::ClusterError;
use crate::cluster::approve::{Selection, SelectionError, approve, selection};

/// Lets a NodeWright begin that selects every node of the cluster, or nodes of the control plane.
///
/// Such a selector is more often a slip than meant, so nobody is picked before a person has said
/// that it is. The approval counts for this object and its nodeSelectors as they are; any other
/// selector is judged again. How fast it goes is up to its budget or policy.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ApproveArgs {
    /// The NodeWright that waits; explain and the status branch name it.
    #[arg(value_name = "NODEWRIGHT", value_parser = values::name)]
    resource: String,
    /// Says what would be approved, and does nothing.
    #[arg(long)]
    dry_run: bool,
    /// Where the daemon is.
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Which cluster to talk to.
    #[command(flatten)]
    kubernetes: ClusterArgs,
}

pub(super) fn main(args: &ApproveArgs, environment: &Environment) -> Result<Exit, CliError> {
    let ApproveArgs { resource, dry_run, daemon: DaemonArgs { namespace }, kubernetes } = args;
    let clock = Clock::real();
    logging::start(LogFormat::Text, environment, clock)?;
    let said: Result<String, CliError> = super::runtime()?.block_on(async {
        let client = kubernetes::connect(kubernetes).await?;
        let found = selection(&client, namespace, resource, clock).await.map_err(unread)?;
        let found = found.ok_or_else(|| no_such(resource))?;
        let Selection { breadth: Some(breadth), approved, .. } = &found else {
            let message = format!(
                "{resource} selects neither every node nor the control plane: nothing to approve"
            );
            return Err(CliError::new(ErrorKind::Refused, message)
                .hint(format!("see what it waits for: nodewright explain {resource}")));
        };
        if *approved {
            return Ok(format!("{resource} has been approved before: its {breadth}"));
        }
        if *dry_run {
            return Ok(format!("would approve {resource}: its {breadth}"));
        }
        approve(&client, namespace, resource, &found, clock)
            .await
            .map_err(|error| refused(error, namespace))?;
        Ok(format!("approved {resource}: its {breadth}\nit begins within seconds"))
    });
    stdout().line(said?)?;
    Ok(Exit::Success)
}

fn unread(error: SelectionError) -> CliError {
    match error {
        SelectionError::Cluster(error) => error.into(),
        SelectionError::Selector { .. } => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let message = format!("{error}: {}", source.unwrap_or_default());
            CliError::new(ErrorKind::InvalidConfiguration, message)
                .hint("correct it where the resource comes from: nodewright validate")
        }
    }
}

/// The ConfigMap is made by the first daemon of the namespace.
fn refused(error: ClusterError, namespace: &str) -> CliError {
    if error.code() != Some(404) {
        return error.into();
    }
    let message =
        format!("nothing is approved: no daemon has ever been at work in namespace {namespace}");
    CliError::new(ErrorKind::Refused, message)
        .hint("name the daemon's namespace with --namespace, and its cluster with --context")
}
