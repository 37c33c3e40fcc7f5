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
use super::explain_references;
use super::floor::FloorArgs;
use super::kubernetes::{self, ClusterArgs, DaemonArgs};
use super::logging::{self, LogFormat};
use super::out::stdout;
use crate::clock::Clock;
use crate::cluster::source_state::{SOURCE_NAME, SourceState, SourceStates};
use crate::cluster::store::WatchTrouble;
use crate::cluster::{ClusterError, EdgeSettings, Observer, View};
use crate::manifest::{self, nearest};
use crate::model::{Desired, Input, NodeRules, Opening, Reason};
use crate::plan::plan;
use crate::report::explain::{self, Answer, NotKnown};

/// How long the API server may take to list everything.
const PATIENCE: Duration = Duration::from_secs(30);

/// Kinds without which there is nothing to answer.
const NEEDED: [&str; 2] = ["nodes", "nodewrights"];

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
    /// Where the daemon is.
    #[command(flatten)]
    daemon: DaemonArgs,
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
        let mut not_known = Vec::new();
        let source = source(&client, &args.daemon.namespace, clock, &mut not_known).await?;
        let view = look(client.clone(), &args.daemon.namespace, clock, &mut not_known).await?;
        let mut desired = wanted(&view);
        let missing = explain_references::resolve(
            &client,
            &args.daemon.namespace,
            clock,
            (&mut desired, &view.observed),
            &mut not_known,
        )
        .await;
        let mut input = input(&view, desired, &source, &args.floor, clock);
        for (name, reason) in missing {
            input.opening.entry(name).or_insert(Opening::Held(reason));
        }
        story(&input, source.applied.as_deref(), not_known, args)
    });
    stdout().text(&told?)?;
    Ok(Exit::Success)
}

/// Reads how far Git has come, and whether somebody stopped everything.
async fn source(
    client: &Client,
    namespace: &str,
    clock: Clock,
    not_known: &mut Vec<NotKnown>,
) -> Result<SourceState, CliError> {
    match SourceStates::new(client.clone(), namespace, clock).read().await {
        Ok(source) => Ok(source),
        Err(ClusterError::Refused { status, .. }) if status.code == 403 => {
            not_known.push(NotKnown {
                what: format!("ConfigMap {namespace}/{SOURCE_NAME}"),
                why: status.message,
                so: "a stop by hand, approvals and the applied revision of Git are not seen",
                way_out: format!("ask for the right to get configmaps in namespace {namespace}"),
            });
            Ok(SourceState::default())
        }
        Err(error) => Err(error.into()),
    }
}

/// Lists everything once, as the daemon does. Without nodes or resources there is no answer;
/// without another kind there is one that says so.
async fn look(
    client: Client,
    namespace: &str,
    clock: Clock,
    not_known: &mut Vec<NotKnown>,
) -> Result<View, CliError> {
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
        let (unlisted, troubles) = (observer.unlisted(), observer.troubles());
        if waited >= PATIENCE || NEEDED.iter().any(|kind| troubles.contains_key(kind)) {
            break Err(no_answer(&troubles));
        }
        if !unlisted.is_empty() && unlisted.iter().all(|kind| troubles.contains_key(kind)) {
            not_known.extend(troubles.iter().map(|(kind, it)| gap(kind, namespace, it)));
            break Ok(observer.observe());
        }
    };
    shutdown.cancel();
    // A watch that outlives its connection would warn about it.
    tasks.shutdown().await;
    view
}

/// Says what an answer without this kind may be wrong about.
fn gap(kind: &str, namespace: &str, trouble: &WatchTrouble) -> NotKnown {
    let so = match kind {
        "pods" => {
            "executors, drains and protected pods are not seen: what is said of a node at work \
             may be wrong"
        }
        "configmaps" => {
            "what packages were installed with is not seen: changes of configuration are not told"
        }
        "deploymentpolicies" => "a policy that a resource names counts as missing",
        _ => "work and leadership of upstream's operator are not seen",
    };
    let place = if kind == "configmaps" { format!(" in namespace {namespace}") } else { "".into() };
    NotKnown {
        what: kind.to_owned(),
        why: trouble.error.clone(),
        so,
        way_out: format!("ask for the right to list and watch {kind}{place}"),
    }
}

fn no_answer(troubles: &BTreeMap<&'static str, WatchTrouble>) -> CliError {
    let causes: Vec<String> =
        troubles.iter().map(|(kind, trouble)| format!("{kind}: {}", trouble.error)).collect();
    let message = if causes.is_empty() {
        format!("the API server has not listed everything within {} s", PATIENCE.as_secs())
    } else {
        format!("the API server does not list what is needed: {}", causes.join("; "))
    };
    CliError::new(ErrorKind::Unreachable, message).hint(
        "this needs the right to list and watch nodes and nodewrights; with it on pods and \
         deploymentpolicies, and on configmaps in the daemon's namespace, the answer is whole",
    )
}

/// Returns what the resources in the cluster want, as the daemon reads them.
fn wanted(view: &View) -> Desired {
    let nodewrights: Vec<_> =
        view.nodewrights.values().map(|object| object.as_ref().clone()).collect();
    let policies: Vec<_> = view.policies.values().map(|object| object.as_ref().clone()).collect();
    let mut desired = manifest::desired(&nodewrights, &policies);
    for (name, why) in &view.unreadable_nodewrights {
        desired.invalid.insert(name.clone(), why.clone());
    }
    desired
}

/// Makes the planner's input, as the daemon does.
fn input(
    view: &View,
    desired: Desired,
    source: &SourceState,
    floor: &FloorArgs,
    clock: Clock,
) -> Input {
    Input {
        now: clock.now(),
        desired,
        observed: view.observed.clone(),
        halt: source.stop.as_ref().map(|stop| Reason::StoppedByHand { note: stop.note.clone() }),
        approvals: source.approvals.clone(),
        opening: BTreeMap::new(),
        floor: floor.floor(),
        rules: NodeRules::default(),
        own_node: None,
        own_pod: None,
    }
}

fn story(
    input: &Input,
    revision: Option<&str>,
    not_known: Vec<NotKnown>,
    args: &ExplainArgs,
) -> Result<String, CliError> {
    let plan = plan(input);
    match &args.subject {
        Subject::Node(name) => {
            let story = explain::node(input, &plan, revision, name);
            let known = input.observed.nodes.keys().map(String::as_str);
            let answer = story.map(|story| Answer { story, not_known });
            print(answer, args.output).unwrap_or_else(|| Err(unknown("node", name, known)))
        }
        Subject::Resource(name) => {
            let story = explain::resource(input, &plan, revision, name);
            let invalid = input.desired.invalid.keys();
            let known = input.observed.resources.keys().chain(invalid).map(String::as_str);
            let answer = story.map(|story| Answer { story, not_known });
            print(answer, args.output).unwrap_or_else(|| Err(unknown("NodeWright", name, known)))
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
