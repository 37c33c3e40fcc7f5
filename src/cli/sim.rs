//! `nodewright sim`: parts of a cluster that are played.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::environment::Environment;
use super::error::CliError;
use super::kubernetes::{self, ClusterArgs};
use super::logging::{self, LogFormat};
use super::{Exit, shutdown};
use crate::api::GoDuration;
use crate::clock::Clock;
use crate::sim::kubelet;
use crate::sim::{KubeletOptions, Rule, Script};

/// How the API server's audit log names the kubelets that are played.
const USER_AGENT: &str = "nodewright-sim-kubelet";

/// A real kubelet's: its generic lifecycle generator relists once a second.
const RELIST_PERIOD: Duration = Duration::from_secs(1);

/// Plays parts of a cluster that are not there.
///
/// For trying NodeWright on a bare control plane, and for measuring on one. Nothing of it belongs
/// into a cluster with real nodes.
#[derive(Debug, clap::Args)]
pub struct SimArgs {
    #[command(subcommand)]
    part: Part,
}

/// What can be played.
#[derive(Debug, clap::Subcommand)]
enum Part {
    Kubelet(KubeletArgs),
}

/// Plays the kubelets of Node objects that no machine stands behind.
///
/// Renews leases, reports nodes ready, runs pods to an outcome, and reboots. Without rules every
/// container succeeds after half a second. Runs until it is told to stop. Choose the nodes with
/// --selector where there is any real one.
#[derive(Debug, clap::Args)]
struct KubeletArgs {
    /// Plays only the nodes with these labels, for example example.com/fake=true.
    #[arg(long, value_name = "LABELS")]
    selector: Option<String>,
    /// Says how containers end, for example stage=apply,attempt=1,exit=3; the first match decides.
    ///
    /// Conditions: node (`gpu-*`: all whose names begin so), package, stage, container, attempt.
    /// Outcome: seconds, exit, message. May be given many times.
    #[arg(long, value_name = "RULE")]
    rule: Vec<Rule>,
    /// Reads more rules from this file, one a line; lines that start with # are comments.
    ///
    /// They come after those of --rule. May be given many times.
    #[arg(long, value_name = "FILE")]
    script: Vec<PathBuf>,
    /// Lets a node be away this long when it reboots.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    reboot_time: GoDuration,
    /// Lets this node never come back from a reboot; may be given many times.
    #[arg(long, value_name = "NODE")]
    never_returning: Vec<String>,
    /// Writes log lines as text or as JSON; NODEWRIGHT_LOG says which.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    log: LogFormat,
    /// Which cluster to talk to.
    #[command(flatten)]
    kubernetes: ClusterArgs,
}

pub(super) fn main(args: SimArgs, environment: &Environment) -> Result<Exit, CliError> {
    match args.part {
        Part::Kubelet(args) => play_kubelet(args, environment),
    }
}

fn play_kubelet(args: KubeletArgs, environment: &Environment) -> Result<Exit, CliError> {
    let KubeletArgs {
        selector,
        rule: mut rules,
        script,
        reboot_time,
        never_returning,
        log,
        kubernetes,
    } = args;
    let clock = Clock::real();
    logging::start(log, environment, clock)?;
    for file in &script {
        rules.extend(rules_of(file)?);
    }
    let options = KubeletOptions {
        nodes: selector,
        relist_period: RELIST_PERIOD,
        reboot_time: reboot_time.get(),
        script: Script {
            rules,
            never_returning: never_returning.into_iter().collect(),
            ..Script::default()
        },
        ..KubeletOptions::default()
    };
    super::runtime()?.block_on(async {
        let client = kubernetes::connect_as(USER_AGENT, &kubernetes).await?;
        let shutdown = shutdown::requested().map_err(CliError::no_signals)?;
        tracing::info!("playing kubelets");
        kubelet::run(client, clock, options, shutdown).await;
        Ok(Exit::Success)
    })
}

fn rules_of(file: &Path) -> Result<Vec<Rule>, CliError> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        CliError::usage(format!("the script {shown} cannot be read: {error}"))
            .hint("name a file with one rule a line, such as stage=apply,exit=3")
    })?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let rules = lines.map(|(number, line)| {
        line.parse().map_err(|error| CliError::usage(format!("{shown}:{number}: {error}")))
    });
    rules.collect()
}
