//! `nodewright accept`: a person lets a held commit through.
//!
//! In: a commit. Out: one annotation on the ConfigMap of the source, which the daemon obeys for
//! exactly this commit. Must never: let through a commit that is not the one being held.

use super::Exit;
use super::environment::Environment;
use super::error::{CliError, ErrorKind};
use super::kubernetes::{self, ClusterArgs, DaemonArgs};
use super::logging::{self, LogFormat};
use super::out::stdout;
use crate::clock::Clock;
use crate::cluster::source_state::{SourceState, SourceStates};
use crate::git::{CommitId, Revision};

/// Lets one commit through that the daemon holds back.
///
/// A commit is held when it does not descend from the accepted one, as after a forced push, or
/// when it holds no resources where there were some. Look at it first: git diff <accepted> <held>.
/// The permission counts for this commit alone; a later one is judged again.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct AcceptArgs {
    /// The commit, with all its 40 digits; the status names it.
    #[arg(value_name = "COMMIT")]
    commit: CommitId,
    /// Where the daemon is.
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Which cluster to talk to.
    #[command(flatten)]
    kubernetes: ClusterArgs,
}

pub(super) fn main(args: &AcceptArgs, environment: &Environment) -> Result<Exit, CliError> {
    let AcceptArgs { commit, daemon: DaemonArgs { namespace }, kubernetes } = args;
    let clock = Clock::real();
    logging::start(LogFormat::Text, environment, clock)?;
    let said: Result<String, CliError> = super::runtime()?.block_on(async {
        let client = kubernetes::connect(kubernetes).await?;
        let states = SourceStates::new(client, namespace, clock);
        let state = states.read().await?;
        match judge(&state, commit, namespace)? {
            Standing::InForce => Ok(format!("{commit} is in force already")),
            Standing::LetThrough => Ok(format!("{commit} has been let through before")),
            Standing::Held(revision) => {
                states.accept(&state, commit.as_str()).await?;
                Ok(format!("{revision} is let through; the daemon applies it within seconds"))
            }
        }
    });
    stdout().line(said?)?;
    Ok(Exit::Success)
}

/// How a commit stands with the daemon.
enum Standing {
    InForce,
    LetThrough,
    Held(Revision),
}

fn judge(state: &SourceState, commit: &CommitId, namespace: &str) -> Result<Standing, CliError> {
    let revision = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
    let accepted: Option<Revision> = revision(&state.accepted);
    if accepted.is_some_and(|accepted| accepted.commit == *commit) {
        return Ok(Standing::InForce);
    }
    if state.accepts(commit.as_str()) {
        return Ok(Standing::LetThrough);
    }
    let Some(seen) = revision(&state.seen) else {
        let message = format!("no daemon in namespace {namespace} has seen a commit yet");
        return Err(CliError::new(ErrorKind::Refused, message)
            .hint("name the daemon's namespace with --namespace, and its cluster with --context"));
    };
    if seen.commit != *commit {
        let message = format!("the daemon has seen {seen}, which is another commit");
        return Err(CliError::new(ErrorKind::Refused, message)
            .hint(format!("look at that one, then: nodewright accept {}", seen.commit)));
    }
    Ok(Standing::Held(seen))
}
