//! `nodewright run`: the daemon.
//!
//! In: flags and the variables that stand in for them. Out: [`RunSettings`], in which nothing is
//! left to check, for the daemon. Must never: look at a variable itself where a flag could be.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, ValueEnum};

use super::environment::Environment;
use super::error::CliError;
use super::floor::FloorArgs;
use super::kubernetes::{self, ClusterArgs};
use super::logging::{self, LogFormat};
use super::values;
use super::{Exit, shutdown};
use crate::api::GoDuration;
use crate::clock::Clock;
use crate::cluster::EdgeSettings;
use crate::cluster::resources::Adoption;
use crate::daemon::http::ListenAddress;
use crate::daemon::{self, Daemon, Listen, SourceSettings, StatusSettings};
use crate::git::{Address, Remote, Source, Transport};
use crate::model::{Floor, NodeRules, Taint};

/// Where the wanted state comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SourceKind {
    /// A branch of a Git repository; the daemon writes it into the cluster.
    Git,
    /// The NodeWright objects that are in the cluster, whoever put them there.
    Cluster,
}

/// Follows a Git branch and keeps every node at what it says.
///
/// Runs until it is told to stop. Pulls the branch, writes its NodeWright and DeploymentPolicy
/// objects into the cluster, and moves the fleet there node by node: cordon, wait for protected
/// pods, drain, apply, interrupt, verify, uncordon. What happened is committed to the branch
/// nodewright-status/<cluster>. Several may run for one cluster: one works, the others wait.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct RunArgs {
    /// Takes the wanted state from Git, or from objects that something else applies.
    ///
    /// `git` owns the whole spec of the objects it writes. `cluster` is for Argo CD, Flux, Helm or
    /// kubectl; give --status-repo with it to have a status branch all the same.
    #[arg(long, value_enum, default_value_t = SourceKind::Git, value_name = "KIND")]
    pub source: SourceKind,
    /// Follows this repository: https://…, ssh://…, git@host:path, file:///… or a folder.
    ///
    /// Never with a password or token in it: those belong into the folder of --credentials.
    #[arg(long, value_name = "ADDRESS")]
    pub repo: Option<String>,
    /// Follows this branch of it.
    #[arg(long, value_name = "BRANCH", default_value = crate::git::BRANCH_DEFAULT)]
    pub revision: String,
    /// Reads only this folder of it.
    ///
    /// In it, `clusters/<cluster>/` and the pools that its cluster.yaml names; without a folder
    /// `clusters` all manifests.
    #[arg(long, value_name = "FOLDER", default_value = "", hide_default_value = true)]
    pub path: String,
    /// Names this cluster: its folder in the repository and its status branch.
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    pub cluster: String,
    /// Commits the status to this repository instead of the one that is followed.
    #[arg(long, value_name = "ADDRESS")]
    pub status_repo: Option<String>,
    /// Reads the credentials of --repo from this folder, usually a mounted Secret.
    ///
    /// Its files are named as the keys of a Flux Git secret: username and password, or identity
    /// and known_hosts, and ca.crt. They are read at each use, so a rotation needs no restart.
    #[arg(long, value_name = "FOLDER")]
    pub credentials: Option<PathBuf>,
    /// Reads the credentials for the status branch from this folder.
    ///
    /// Without it those of --credentials are used, unless --status-repo names another repository:
    /// a password is never sent to another server than it was given for.
    #[arg(long, value_name = "FOLDER")]
    pub status_credentials: Option<PathBuf>,
    /// Asks the server for new commits this often, at least 10s.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = values::poll)]
    pub poll: GoDuration,
    /// Keeps the clone of the repository in this folder; it may be deleted at any time.
    ///
    /// Without it: nodewright/<cluster> in XDG_CACHE_HOME or ~/.cache, or in /var/cache.
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
    /// Takes over objects that carry marks of Argo CD, Flux or Helm.
    ///
    /// Without it they are left alone and reported: two owners would undo each other's work for
    /// ever. Give it once, when Git takes over from one of them.
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "false",
        hide_default_value = true,
        action = ArgAction::Set,
        value_parser = BoolishValueParser::new(),
        value_name = "BOOL"
    )]
    pub adopt: bool,
    /// Where this process runs, and how it shows itself.
    #[command(flatten)]
    pub process: ProcessArgs,
    /// What a rollout may do where its manifest does not say.
    #[command(flatten)]
    pub floor: FloorArgs,
    /// What runs on the nodes.
    #[command(flatten)]
    pub nodes: NodeArgs,
    /// Which cluster to talk to.
    #[command(flatten)]
    pub kubernetes: ClusterArgs,
}

/// Flags about this process.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Process")]
pub struct ProcessArgs {
    /// Keeps the Lease, executor pods and ConfigMaps in this namespace.
    #[arg(
        long, value_name = "NAME", default_value = "nodewright", value_parser = values::name,
        help_heading = "Kubernetes"
    )]
    pub namespace: String,
    /// Holds the Lease under this name, unique among replicas; the host's name if not given.
    #[arg(long, value_name = "NAME")]
    pub identity: Option<String>,
    /// Says which node this process runs on, so that it comes last in its batch.
    #[arg(long, value_name = "NODE")]
    pub own_node: Option<String>,
    /// Serves /healthz and /readyz at this address.
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    pub probes: ListenAddress,
    /// Serves /metrics at this address: plain HTTP, for everyone who can connect.
    ///
    /// Despite the port, which is upstream's, there is neither TLS nor authentication: let only the
    /// collector connect, with a NetworkPolicy, or listen on 127.0.0.1 behind a proxy.
    #[arg(long, value_name = "ADDRESS", default_value = ":8443")]
    pub metrics: ListenAddress,
    /// Writes log lines to standard error as text or as JSON.
    ///
    /// NODEWRIGHT_LOG says which lines, for example info or warn,nodewright=debug.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log: LogFormat,
}

/// Flags about executor pods and hosts.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Nodes")]
pub struct NodeArgs {
    /// Runs packages with this image of the agent; it must name a tag or a digest.
    #[arg(long, value_name = "IMAGE", value_parser = values::image)]
    pub agent_image: String,
    /// Pulls images with this Secret of the namespace, besides what the nodes have.
    #[arg(long, value_name = "SECRET", value_parser = values::name)]
    pub image_pull_secret: Option<String>,
    /// Copies packages below this folder of the hosts.
    #[arg(
        long, value_name = "FOLDER", default_value = "/var/lib/skyhook",
        value_parser = values::host_folder
    )]
    pub copy_dir_root: String,
    /// Logs the steps of packages below this folder of the hosts.
    #[arg(
        long, value_name = "FOLDER", default_value = "/var/log/skyhook",
        value_parser = values::host_folder
    )]
    pub agent_log_root: String,
    /// Ends a pod whose stages take longer, where its package names no stageTimeout; 0 never.
    ///
    /// A backstop: the kubelet ends the pod after the sum over its stages and a quarter of an hour.
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub stage_timeout: GoDuration,
    /// Applies packages again after each reboot of a node that was not ours: for hosts that forget.
    ///
    /// Paced like any change, at most once per boot. A reboot interrupt is not owed again; with
    /// runtimeRequired and autoTaintNewNodes the node is tainted again first.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true",
        num_args = 0..=1, action = clap::ArgAction::Set
    )]
    pub reapply_on_reboot: bool,
    /// Keeps workloads off a node by this taint until its runtimeRequired resources are complete.
    ///
    /// Taken off, with the one under the former name, when they are; put on nodes that join where
    /// autoTaintNewNodes is set.
    #[arg(
        long, value_name = "TAINT", value_parser = values::taint,
        default_value = "nodewright.nvidia.com=runtime-required:NoSchedule"
    )]
    pub runtime_required_taint: Taint,
}

/// What the daemon is told; nothing is left to check.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSettings {
    /// Name of the cluster.
    pub cluster: String,
    /// What is followed; `None`: the objects that are in the cluster.
    pub git: Option<GitSettings>,
    /// Where the status branch is; `None`: nowhere.
    pub status: Option<Remote>,
    /// Folder for clones.
    pub cache: PathBuf,
    /// Who holds the Lease.
    pub identity: String,
    /// What a rollout may do where its manifest does not say.
    pub floor: Floor,
    /// Packages are applied again after each reboot.
    pub reapply_on_reboot: bool,
    /// What the edge does on nodes.
    pub edge: EdgeSettings,
    /// Which node this process runs on.
    pub own_node: Option<String>,
    /// Where /healthz and /readyz are served.
    pub probes: ListenAddress,
    /// Where /metrics is served.
    pub metrics: ListenAddress,
    /// Which cluster to talk to.
    pub kubernetes: ClusterArgs,
}

/// What is followed in Git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSettings {
    /// The branch.
    pub source: Source,
    /// The folder in it; empty is the root.
    pub path: String,
    /// What to do with objects of other tools.
    pub adoption: Adoption,
}

/// Where the kernel says what this machine is called; in a pod that is the pod's name.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// Where the cache is when the process has no home.
const CACHE_OF_SERVICES: &str = "/var/cache";

/// Starts the daemon, and ends with it.
pub(super) fn main(args: RunArgs, environment: &Environment) -> Result<Exit, CliError> {
    let clock = Clock::real();
    logging::start(args.process.log, environment, clock)?;
    let settings = args.settings(environment)?;
    super::runtime()?.block_on(async {
        let client = kubernetes::connect(&settings.kubernetes).await?;
        let shutdown = shutdown::requested().map_err(CliError::no_signals)?;
        serve(settings, client, clock, shutdown).await
    })
}

/// Runs the daemon until `shutdown` is done.
async fn serve(
    settings: RunSettings,
    client: kube::Client,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) -> Result<Exit, CliError> {
    let executable = std::env::current_exe().map_err(CliError::no_executable)?;
    let mut daemon = Daemon::start(settings.for_daemon(executable), client, clock);
    tokio::select! {
        ended = daemon.ended() => ended?,
        () = shutdown => daemon.stop().await?,
    }
    Ok(Exit::Success)
}

impl RunSettings {
    /// Returns what the daemon is told; `executable` runs fetch and push as a child.
    fn for_daemon(self, executable: PathBuf) -> daemon::Settings {
        let Self {
            cluster,
            git,
            status,
            cache,
            identity,
            floor,
            reapply_on_reboot,
            edge,
            own_node,
            probes,
            metrics,
            kubernetes: _,
        } = self;
        let followed = git.as_ref().map(|git| git.source.remote.address.clone());
        let rules = NodeRules {
            runtime_taint: edge.runtime_required_taint.clone(),
            reapply_on_reboot,
            default_stage_timeout: edge.default_stage_timeout,
            ..NodeRules::default()
        };
        let adoption = git.as_ref().map_or(Adoption::Refused, |git| git.adoption);
        // Another one for each process: how a candidate knows its own Lease again.
        let identity = format!("{identity}-{:08x}", fastrand::u32(..));
        daemon::Settings {
            cluster,
            source: git.map_or(SourceSettings::Cluster, |git| SourceSettings::Git {
                source: git.source,
                path: git.path,
            }),
            status: status.map(|remote| {
                // One clone serves both where both are one repository.
                let is_same = followed.as_ref() == Some(&remote.address);
                let cache = if is_same { cache } else { cache.join("status") };
                StatusSettings { remote, cache }
            }),
            transport: Transport::new(executable),
            edge,
            identity,
            own_node,
            floor,
            rules,
            adoption,
            listen: Some(Listen { probes, metrics }),
        }
    }
}

impl RunArgs {
    /// Returns the settings, with what is missing filled in from the machine.
    ///
    /// # Errors
    /// The flags contradict each other, or an address or branch makes no sense.
    pub fn settings(self, environment: &Environment) -> Result<RunSettings, CliError> {
        let Self {
            source,
            repo,
            revision,
            path,
            cluster,
            status_repo,
            credentials,
            status_credentials,
            poll,
            cache,
            adopt,
            process,
            floor,
            nodes,
            kubernetes,
        } = self;
        let cache = cache.unwrap_or_else(|| cache_folder(environment).join(&cluster));
        let followed = repo.as_deref().map(|text| Address::parse("--repo", text)).transpose()?;
        let status_address =
            status_repo.as_deref().map(|text| Address::parse("--status-repo", text)).transpose()?;
        let git = match (source, &followed) {
            (SourceKind::Cluster, _) => None,
            (SourceKind::Git, None) => {
                return Err(CliError::usage("--source git needs a repository to follow")
                    .hint("name it with --repo, or NODEWRIGHT_REPO")
                    .hint("to work on the objects that are in the cluster: --source cluster"));
            }
            (SourceKind::Git, Some(address)) => {
                let remote = Remote { address: address.clone(), credentials: credentials.clone() };
                let source = Source::new(remote, cache.clone()).polled_every(poll.get());
                let source = source.following(&revision)?;
                let adoption = if adopt { Adoption::Allowed } else { Adoption::Refused };
                Some(GitSettings { source, path, adoption })
            }
        };
        let status = match (status_address, followed) {
            (Some(own), followed) => {
                let is_same = followed.as_ref() == Some(&own);
                let inherited = if is_same { credentials } else { None };
                let credentials = status_credentials.or(inherited);
                Some(Remote { address: own, credentials })
            }
            (None, Some(address)) => {
                Some(Remote { address, credentials: status_credentials.or(credentials) })
            }
            (None, None) => None,
        };
        // The log format has been obeyed before anything could be logged.
        let ProcessArgs { namespace, identity, own_node, probes, metrics, log: _ } = process;
        let identity = identity.map_or_else(|| host_name(environment), Ok)?;
        let reapply_on_reboot = nodes.reapply_on_reboot;
        let edge = nodes.edge_settings(&namespace);
        Ok(RunSettings {
            cluster,
            git,
            status,
            cache,
            identity,
            floor: floor.floor(),
            reapply_on_reboot,
            edge,
            own_node,
            probes,
            metrics,
            kubernetes,
        })
    }
}

impl NodeArgs {
    fn edge_settings(self, namespace: &str) -> EdgeSettings {
        let Self {
            agent_image,
            image_pull_secret,
            copy_dir_root,
            agent_log_root,
            stage_timeout,
            reapply_on_reboot: _,
            runtime_required_taint,
        } = self;
        EdgeSettings {
            image_pull_secret,
            copy_dir_root,
            agent_log_root,
            default_stage_timeout: stage_timeout.get(),
            runtime_required_taint,
            ..EdgeSettings::new(namespace, &agent_image)
        }
    }
}

/// Returns the folder for everything that may be deleted at any time.
pub(super) fn cache_folder(environment: &Environment) -> PathBuf {
    let folder = |name: &str| environment.get(name).map(PathBuf::from);
    let folder = folder("XDG_CACHE_HOME")
        .or_else(|| {
            folder("HOME").filter(|home| home.parent().is_some()).map(|home| home.join(".cache"))
        })
        .unwrap_or_else(|| PathBuf::from(CACHE_OF_SERVICES));
    folder.join("nodewright")
}

fn host_name(environment: &Environment) -> Result<String, CliError> {
    let of_kernel = std::fs::read_to_string(HOST_NAME_FILE).ok();
    let of_kernel = of_kernel.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    let of_shell = || environment.get("HOSTNAME")?.to_str().map(str::to_owned);
    of_kernel.or_else(of_shell).ok_or_else(|| {
        CliError::usage("this machine has no name to hold the Lease under")
            .hint("name one with --identity, unique among replicas")
    })
}
