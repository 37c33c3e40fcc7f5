//! `nodewright reset`: a person asks that packages run again from their first stage.
//!
//! In: a NodeWright, and which of its nodes or packages. Out: what is recorded of them taken off
//! the nodes and the batches begun again, or what that would be. Must never: do it unconfirmed.

use super::Exit;
use super::confirm::ConfirmArgs;
use super::deployment_policy::{no_such, said};
use super::environment::Environment;
use super::error::{CliError, ErrorKind};
use super::kubernetes::{self, ClusterArgs};
use super::logging::{self, LogFormat};
use super::out::stdout;
use super::values;
use crate::clock::Clock;
use crate::cluster::reset::{
    PackageChoice, Recorded, batches, recorded, reset_batches, reset_node,
};

/// Forgets what is installed, so that packages run again from their first stage.
///
/// Nothing is undone on the hosts. Nodes are picked again in batches, like in a first install, with
/// cordon, drain and interrupts; the batches begin again, and a rollout that was stopped goes on.
/// To lift a stop alone: nodewright deployment-policy reset.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ResetArgs {
    /// The NodeWright.
    #[arg(value_name = "NODEWRIGHT", value_parser = values::name)]
    resource: String,
    /// Only on this node; may be given several times. The batches stay as they are.
    #[arg(long = "node", value_name = "NAME", value_parser = values::name)]
    nodes: Vec<String>,
    /// Only this package, in this version or in all. The batches stay as they are.
    #[arg(long, value_name = "NAME[:VERSION]", value_parser = package)]
    package: Option<PackageChoice>,
    /// Leaves the batches as they are.
    #[arg(long)]
    skip_batch_reset: bool,
    /// Whether to do it.
    #[command(flatten)]
    confirm: ConfirmArgs,
    /// Which cluster to talk to.
    #[command(flatten)]
    kubernetes: ClusterArgs,
}

fn package(text: &str) -> Result<PackageChoice, String> {
    let (name, version) = match text.split_once(':') {
        Some((name, version)) => (name, Some(version.to_owned())),
        None => (text, None),
    };
    if version.as_ref().is_some_and(String::is_empty) {
        return Err("a package is expected, written NAME or NAME:VERSION".to_owned());
    }
    Ok(PackageChoice { name: values::name(name)?, version })
}

pub(super) fn main(args: &ResetArgs, environment: &Environment) -> Result<Exit, CliError> {
    let clock = Clock::real();
    logging::start(LogFormat::Text, environment, clock)?;
    let said: Result<String, CliError> = super::runtime()?.block_on(async {
        let client = kubernetes::connect(&args.kubernetes).await?;
        let before = batches(&client, &args.resource, clock).await?;
        let found = recorded(&client, &args.resource, clock).await?;
        if before.is_none() && found.is_empty() {
            return Err(no_such(&args.resource));
        }
        let chosen = args.chosen(found)?;
        let resets_batches = args.resets_batches();
        if !args.confirm.is_given() {
            let mut lines: Vec<String> =
                chosen.iter().map(|it| line(args, &it.node, &it.entries, "would forget")).collect();
            if let Some(before) = before.filter(|_| resets_batches) {
                lines.push(said(&args.resource, &before, "would begin again"));
            }
            return args.confirm.told(lines.join("\n"), |lines| unconfirmed(args, lines));
        }
        let mut lines = Vec::new();
        for Recorded { node, .. } in chosen {
            let package = args.package.as_ref();
            let gone = reset_node(&client, &node, &args.resource, package, clock).await?;
            lines.push(line(args, &node, &gone, "forgot"));
        }
        // Last, so that the daemon opens no batch over nodes that still look complete.
        if resets_batches
            && let Some(before) = reset_batches(&client, &args.resource, clock).await?
        {
            lines.push(said(&args.resource, &before, "begins again"));
        }
        Ok(lines.join("\n"))
    });
    stdout().line(said?)?;
    Ok(Exit::Success)
}

impl ResetArgs {
    fn resets_batches(&self) -> bool {
        !self.skip_batch_reset && self.nodes.is_empty() && self.package.is_none()
    }

    /// Returns the nodes to reset, with the packages that are wanted.
    fn chosen(&self, found: Vec<Recorded>) -> Result<Vec<Recorded>, CliError> {
        for node in &self.nodes {
            if !found.iter().any(|it| it.node == *node) {
                let message = format!("nothing is recorded of {} on node {node}", self.resource);
                return Err(CliError::new(ErrorKind::Refused, message)
                    .hint(format!("see what is there: nodewright explain node/{node}")));
            }
        }
        let chosen =
            found.into_iter().filter(|it| self.nodes.is_empty() || self.nodes.contains(&it.node));
        let Some(package) = &self.package else { return Ok(chosen.collect()) };
        let with_package = chosen.filter_map(|it| {
            let entries: Vec<String> =
                it.entries.into_iter().filter(|entry| package.selects(entry)).collect();
            (!entries.is_empty()).then_some(Recorded { node: it.node, entries })
        });
        let chosen: Vec<Recorded> = with_package.collect();
        if chosen.is_empty() {
            let message =
                format!("package {} of {} is recorded on no node", package.name, self.resource);
            return Err(CliError::new(ErrorKind::Refused, message)
                .hint(format!("see what is: nodewright explain {}", self.resource)));
        }
        Ok(chosen)
    }
}

fn line(args: &ResetArgs, node: &str, entries: &[String], what: &str) -> String {
    let resource = &args.resource;
    match entries {
        [] => format!("{node}: {what} the status of {resource}"),
        entries => format!("{node}: {what} {} of {resource}", entries.join(", ")),
    }
}

/// The refusal that says what `--confirm` would do.
fn unconfirmed(args: &ResetArgs, lines: &str) -> CliError {
    let what = if lines.is_empty() { "nothing is recorded" } else { lines };
    let message = format!("{} is not reset without --confirm:\n{what}", args.resource);
    CliError::new(ErrorKind::Refused, message)
        .hint("if packages are to run again from their first stage, repeat it with --confirm")
}
