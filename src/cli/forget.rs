//! `nodewright forget`: a person says that a node does not come back, or that its host was made
//! anew: nothing its annotations say of packages is counted on any more.
//!
//! In: a node, and perhaps one rollout. Out: one patch that tests what was read, or what it would
//! be. Must never: do it unconfirmed, or while something of ours may be at work on the host.

use jiff::{SignedDuration, Timestamp};

use super::Exit;
use super::confirm::ConfirmArgs;
use super::environment::Environment;
use super::error::{CliError, ErrorKind};
use super::kubernetes::{self, ClusterArgs};
use super::logging::{self, LogFormat};
use super::out::stdout;
use super::values;
use crate::clock::Clock;
use crate::cluster::forget::{
    Keeper, Obstacle, Remembered, RememberedNode, Visit, forget, remembered_on,
};
use crate::cluster::{ClusterError, Disposition};
use crate::model::HOST_LOST_AFTER;
use crate::report::clean;

/// Longest line with words of others.
const TEXT_MAX_BYTES: usize = 512;

/// Lets a node go that never comes back, or whose host was made anew.
///
/// What its annotations say is on the host is not counted on any more, and recorded as left: a
/// deletion goes on without the node, its visit is closed, its cordon of ours lifted. If it is
/// there again, everything is installed from its first stage when a batch has room. What nothing
/// looked after any more, or was recorded as left before, is taken off the list. Nothing is changed
/// on the host. While something may be at work there, it is refused.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ForgetArgs {
    /// The node, as node/NAME.
    #[arg(value_name = "node/NAME", value_parser = values::node)]
    node: String,
    /// Only what this rollout has there.
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    rollout: Option<String>,
    /// Whether to do it.
    #[command(flatten)]
    confirm: ConfirmArgs,
    /// Which cluster to talk to.
    #[command(flatten)]
    kubernetes: ClusterArgs,
}

pub(super) fn main(args: &ForgetArgs, environment: &Environment) -> Result<Exit, CliError> {
    let clock = Clock::real();
    logging::start(LogFormat::Text, environment, clock)?;
    let said: Result<String, CliError> = super::runtime()?.block_on(async {
        let client = kubernetes::connect(&args.kubernetes).await?;
        let known = remembered_on(&client, &args.node, clock).await?;
        let known = known.ok_or_else(|| {
            refused(format!("there is no node {} in this cluster", args.node))
                .hint("kubectl get nodes lists them")
        })?;
        let chosen = chosen(args, &known)?;
        check(&known, &chosen)?;
        if !args.confirm.is_given() {
            let lines = lines(&known, &chosen, Tense::Would);
            return args.confirm.told(lines, |lines| unconfirmed(args, lines));
        }
        forget(&client, &known, &chosen, clock).await.map_err(|error| unwritten(args, error))?;
        Ok(lines(&known, &chosen, Tense::Did))
    });
    stdout().line(said?)?;
    Ok(Exit::Success)
}

fn refused(message: String) -> CliError {
    CliError::new(ErrorKind::Refused, message)
}

/// Returns what is asked for of what the node says.
fn chosen(args: &ForgetArgs, known: &RememberedNode) -> Result<Vec<Remembered>, CliError> {
    let node = &args.node;
    let wanted = |it: &&Remembered| args.rollout.as_ref().is_none_or(|name| *name == it.rollout);
    let chosen: Vec<Remembered> = known.rollouts.iter().filter(wanted).cloned().collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let whose = args.rollout.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
    Err(refused(format!("nothing is recorded{whose} on node {node}: nothing to forget"))
        .hint(format!("see what is there: nodewright explain node/{node}")))
}

/// Refuses while something stands in the way, with what to do instead of the first.
fn check(known: &RememberedNode, chosen: &[Remembered]) -> Result<(), CliError> {
    let node = &known.node;
    let found: Vec<(&str, &Obstacle)> =
        chosen.iter().filter_map(|it| Some((it.rollout.as_str(), it.obstacle.as_ref()?))).collect();
    let Some((rollout, obstacle)) = found.first() else { return Ok(()) };
    let what: Vec<String> =
        found.iter().map(|(name, it)| clean(&format!("{name}: {it}"), TEXT_MAX_BYTES)).collect();
    let state = state(known);
    let message = format!("node {node} is not let go, it {state}:\n{}", what.join("\n"));
    Err(refused(message).hint(way_out(known, rollout, obstacle)))
}

/// Says how the host is, and since when.
fn state(known: &RememberedNode) -> String {
    match known.down {
        Some(since) => format!("is down since {since:.0}"),
        None => "is not known to be down".to_owned(),
    }
}

fn way_out(known: &RememberedNode, rollout: &str, obstacle: &Obstacle) -> String {
    let node = &known.node;
    let gone = format!("if the machine is gone for good: kubectl delete node {node}");
    match (obstacle, known.down) {
        (Obstacle::Unreadable(_), _) => format!(
            "take the annotation off first: nodewright reset {rollout} --node {node} --confirm"
        ),
        (Obstacle::BeingLeft, _) => format!(
            "ask again once it has: nodewright explain node/{node}; a daemon has to run for it"
        ),
        (Obstacle::Cordon, None) => format!(
            "try it again: nodewright retry node/{node} --rollout {rollout}; or from the first \
             stage: nodewright reset {rollout} --node {node} --confirm"
        ),
        (Obstacle::Visit(_) | Obstacle::Running(_) | Obstacle::Unfinished, None) => {
            format!("wait for its end: nodewright explain node/{node}; {gone}")
        }
        (_, Some(since)) => {
            let limit = SignedDuration::try_from(HOST_LOST_AFTER).unwrap_or(SignedDuration::MAX);
            let at = since.checked_add(limit).unwrap_or(Timestamp::MAX);
            format!("a host may take an hour to reboot: ask again after {at:.0}; {gone}")
        }
    }
}

/// Whether it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tense {
    Would,
    Did,
}

fn lines(known: &RememberedNode, chosen: &[Remembered], tense: Tense) -> String {
    let lines: Vec<String> =
        chosen.iter().map(|remembered| line(&known.node, remembered, tense)).collect();
    lines.join("\n")
}

fn line(node: &str, remembered: &Remembered, tense: Tense) -> String {
    let verb = match tense {
        Tense::Would => "would forget",
        Tense::Did => "forgot",
    };
    let rollout = &remembered.rollout;
    let names: Vec<&str> =
        remembered.entries.iter().chain(&remembered.left).map(String::as_str).collect();
    let what = if names.is_empty() { "the status".to_owned() } else { names.join(", ") };
    let mut text = format!("{node}: {verb} {what} of {rollout}");
    match remembered.visit {
        Some(Visit::Open(since)) => text += &format!("; its visit since {since:.0} ends"),
        Some(Visit::Failed) => text += "; its failed visit is closed",
        None => {}
    }
    if remembered.cordoned {
        text += "; the daemon lifts our cordon";
    }
    text += match remembered.keeper {
        _ if remembered.is_taken_off() => "; nothing of it is listed any more",
        Keeper::Deletion => "; recorded as left, the deletion goes on without the node",
        Keeper::Rollout | Keeper::Deselected | Keeper::Gone => {
            "; recorded as left, installed again when the node is ready and a batch has room"
        }
    };
    text
}

/// The refusal that says what `--confirm` would do.
fn unconfirmed(args: &ForgetArgs, lines: &str) -> CliError {
    refused(format!("node {} is not let go without --confirm:\n{lines}", args.node))
        .hint("if what is on its host is not to be counted on, repeat it with --confirm")
}

fn unwritten(args: &ForgetArgs, error: ClusterError) -> CliError {
    if error.disposition() != Disposition::Conflict {
        return error.into();
    }
    refused(format!("node {} changed since it was read: nothing was forgotten", args.node))
        .hint("look again, then repeat it")
}
