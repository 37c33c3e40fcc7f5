//! `nodewright explain`: why a node or a resource is where it is, from the live cluster.
//!
//! In: a name. Out: the planner's own answer as text or JSON. It looks through the same watches
//! and asks the same planner as the daemon does. Must never: write anything, or take the Lease.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use kube::Client;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::Exit;
use super::environment::Environment;
use super::error::{CliError, ErrorKind};
use super::kubernetes::{self, ClusterArgs};
use super::logging::{self, LogFormat};
use super::out::stdout;
use super::run::FloorArgs;
use super::values;
use crate::clock::Clock;
use crate::cluster::source_state::{SourceState, SourceStates};
use crate::cluster::store::WatchTrouble;
use crate::cluster::{EdgeSettings, Observer, View};
use crate::manifest::{self, nearest};
use crate::model::{Floor, Input, NodeRules, Opening, Reason};
use crate::plan::plan;
use crate::report::explain;

/// How long the API server may take to list everything.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a refusal is looked for while everything is listed.
const LOOK: Duration = Duration::from_millis(250);

/// Layout of the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Says why a node or a resource is where it is, what comes next, and what you can do.
///
/// Reads the live cluster and asks the planner that the daemon asks; nothing is written, and no
/// daemon needs to run. What only the daemon remembers, such as an eviction that a budget has just
/// refused, is not known here: the drain then counts as going on.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ExplainArgs {
    /// What to explain: node/NAME, or the NAME of a NodeWright.
    #[arg(value_name = "node/NAME or NAME", value_parser = subject)]
    subject: Subject,
    /// Prints text, or JSON for programs.
    #[arg(long, short, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    output: Output,
    /// Finds the daemon's ConfigMaps and executors in this namespace.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "nodewright",
        value_parser = values::name,
        help_heading = "Kubernetes"
    )]
    namespace: String,
    /// What the daemon was told; give the same.
    #[command(flatten)]
    floor: FloorArgs,
    /// Which cluster to talk to.
    #[command(flatten)]
    kubernetes: ClusterArgs,
}

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    Node(String),
    Resource(String),
}

fn subject(text: &str) -> Result<Subject, String> {
    let expected = || "node/NAME or the NAME of a NodeWright is expected".to_owned();
    match text.split_once('/') {
        _ if text.is_empty() => Err(expected()),
        Some((_, "")) => Err(expected()),
        Some(("node" | "nodes" | "no", name)) => Ok(Subject::Node(name.to_owned())),
        Some(("nodewright" | "nodewrights" | "nw", name)) => Ok(Subject::Resource(name.to_owned())),
        None => Ok(Subject::Resource(text.to_owned())),
        Some(_) => Err(expected()),
    }
}

pub(super) fn main(args: &ExplainArgs, environment: &Environment) -> Result<Exit, CliError> {
    let clock = Clock::real();
    logging::start(LogFormat::Text, environment, clock)?;
    let told: Result<String, CliError> = super::runtime()?.block_on(async {
        let client = kubernetes::connect(&args.kubernetes).await?;
        let states = SourceStates::new(client.clone(), &args.namespace, clock);
        let source = states.read().await?;
        let view = look(client, &args.namespace, clock).await?;
        let input = input(&view, &source, &args.floor, clock);
        story(&input, source.applied.as_deref(), args)
    });
    stdout().text(&told?)?;
    Ok(Exit::Success)
}

/// Lists everything once, as the daemon does.
async fn look(client: Client, namespace: &str, clock: Clock) -> Result<View, CliError> {
    let shutdown = CancellationToken::new();
    // Nothing is started, so no image of the agent is needed.
    let settings = EdgeSettings::new(namespace, "");
    let (observer, mut tasks) = Observer::start(client, &settings, clock, shutdown.clone());
    let mut waited = Duration::ZERO;
    let view = loop {
        tokio::select! {
            () = observer.ready() => break Ok(observer.observe()),
            () = clock.sleep(LOOK) => waited += LOOK,
        }
        let troubles = observer.troubles();
        if !troubles.is_empty() || waited >= PATIENCE {
            break Err(unlisted(&troubles));
        }
    };
    shutdown.cancel();
    // A watch that outlives its connection would warn about it.
    tasks.shutdown().await;
    view
}

fn unlisted(troubles: &BTreeMap<&'static str, WatchTrouble>) -> CliError {
    let causes: Vec<String> =
        troubles.iter().map(|(kind, trouble)| format!("{kind}: {}", trouble.error)).collect();
    let message = if causes.is_empty() {
        format!("the API server has not listed everything within {} s", PATIENCE.as_secs())
    } else {
        format!("the API server does not list what is needed: {}", causes.join("; "))
    };
    CliError::new(ErrorKind::Unreachable, message).hint(
        "this needs the right to list and watch nodes, pods, nodewrights and deploymentpolicies, \
         and configmaps in the daemon's namespace",
    )
}

/// Makes the planner's input, as the daemon does.
fn input(view: &View, source: &SourceState, floor: &FloorArgs, clock: Clock) -> Input {
    let nodewrights: Vec<_> =
        view.nodewrights.values().map(|object| object.as_ref().clone()).collect();
    let policies: Vec<_> = view.policies.values().map(|object| object.as_ref().clone()).collect();
    let mut desired = manifest::desired(&nodewrights, &policies);
    for (name, why) in &view.unreadable_nodewrights {
        desired.invalid.insert(name.clone(), why.clone());
    }
    let held = source.stop.as_ref().map(|stop| {
        let why = format!("stopped by hand ({})", stop.note);
        Opening::Held(Reason::SourceHeld { why })
    });
    let opening =
        desired.rollouts.keys().filter_map(|name| Some((name.clone(), held.clone()?))).collect();
    Input {
        now: clock.now(),
        desired,
        observed: view.observed.clone(),
        opening,
        floor: Floor {
            max_disturbed_percent: floor.max_disturbed,
            stop_after: Some(floor.stop_after),
        },
        rules: NodeRules::default(),
        own_node: None,
        own_pod: None,
    }
}

fn story(input: &Input, revision: Option<&str>, args: &ExplainArgs) -> Result<String, CliError> {
    let plan = plan(input);
    match &args.subject {
        Subject::Node(name) => {
            let story = explain::node(input, &plan, revision, name);
            let known = input.observed.nodes.keys().map(String::as_str);
            print(story, args.output).unwrap_or_else(|| Err(unknown("node", name, known)))
        }
        Subject::Resource(name) => {
            let story = explain::resource(input, &plan, revision, name);
            let invalid = input.desired.invalid.keys();
            let known = input.observed.resources.keys().chain(invalid).map(String::as_str);
            print(story, args.output).unwrap_or_else(|| Err(unknown("NodeWright", name, known)))
        }
    }
}

fn print<S: Serialize + std::fmt::Display>(
    story: Option<S>,
    output: Output,
) -> Option<Result<String, CliError>> {
    let story = story?;
    Some(match output {
        Output::Text => Ok(story.to_string()),
        Output::Json => serde_json::to_string_pretty(&story)
            .map(|text| format!("{text}\n"))
            .map_err(|error| CliError::new(ErrorKind::Internal, error)),
    })
}

fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> CliError {
    const SHOWN_MAX: usize = 5;
    let known: Vec<&str> = known.collect();
    let error = CliError::usage(format!("there is no {kind} {name} in this cluster"));
    match (nearest(name, &known), known.len()) {
        (Some(near), _) => error.hint(format!("did you mean {near}?")),
        (None, 0) => error.hint(format!("this cluster has no {kind} at all: is it the right one?")),
        (None, all) => {
            let first = known.iter().take(SHOWN_MAX).copied().collect::<Vec<_>>().join(", ");
            error.hint(format!("there are {all}, for example: {first}"))
        }
    }
}
