//! The client for the API server, made in this one place.
//!
//! In: a kubeconfig and a context, or neither: then `KUBECONFIG`, `~/.kube/config`, and the
//! service account of the pod, in this order. Out: a client as [`cluster::client`] makes it.
//! Must never: send anything.

use std::path::PathBuf;

use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::values;
use crate::cluster::{self, ClusterError};

/// Which cluster to talk to.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ClusterArgs {
    /// Reads the cluster's address and credentials from this kubeconfig.
    ///
    /// Without it: the files of KUBECONFIG, then ~/.kube/config, then the service account of the
    /// pod that this runs in.
    #[arg(long, value_name = "FILE", help_heading = "Kubernetes")]
    pub kubeconfig: Option<PathBuf>,
    /// Uses this context of the kubeconfig instead of its current one.
    #[arg(long, value_name = "NAME", help_heading = "Kubernetes")]
    pub context: Option<String>,
}

/// Where the daemon is.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct DaemonArgs {
    /// The namespace of the daemon: that of its Lease, its ConfigMaps and executors.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "nodewright",
        value_parser = values::name,
        help_heading = "Kubernetes"
    )]
    pub namespace: String,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig, or the context in it, cannot be used.
    #[error("{} cannot be used", shown(.file.as_ref(), .context.as_deref()))]
    Kubeconfig {
        /// The file; `None`: those of the environment.
        file: Option<PathBuf>,
        /// The context; `None`: the current one.
        context: Option<String>,
        /// Why.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// There is neither a kubeconfig nor a service account.
    #[error("no cluster to talk to was found")]
    Infer {
        /// What was tried.
        #[source]
        source: Box<InferConfigError>,
    },
    /// What the configuration says does not make a client.
    #[error(transparent)]
    Client(#[from] ClusterError),
}

/// Returns a client for the cluster; nothing is sent yet.
pub(super) async fn connect(args: &ClusterArgs) -> Result<Client, ConnectError> {
    Ok(cluster::client(config(args).await?)?)
}

/// Returns a client that the audit log shows under another name than the daemon's.
pub(super) async fn connect_as(name: &str, args: &ClusterArgs) -> Result<Client, ConnectError> {
    Ok(cluster::client_named(config(args).await?, name)?)
}

async fn config(args: &ClusterArgs) -> Result<Config, ConnectError> {
    let ClusterArgs { kubeconfig, context } = args;
    if kubeconfig.is_none() && context.is_none() {
        Config::infer().await.map_err(|source| ConnectError::Infer { source: Box::new(source) })
    } else {
        configured(args).await.map_err(|source| ConnectError::Kubeconfig {
            file: kubeconfig.clone(),
            context: context.clone(),
            source: Box::new(source),
        })
    }
}

async fn configured(args: &ClusterArgs) -> Result<Config, KubeconfigError> {
    let kubeconfig = match &args.kubeconfig {
        Some(file) => Kubeconfig::read_from(file)?,
        None => Kubeconfig::read()?,
    };
    let options =
        KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options).await
}

fn shown(file: Option<&PathBuf>, context: Option<&str>) -> String {
    let file = match file {
        Some(file) => format!("the kubeconfig {}", file.display()),
        None => "the kubeconfig".to_owned(),
    };
    match context {
        Some(context) => format!("{file} with the context {context}"),
        None => file,
    }
}
