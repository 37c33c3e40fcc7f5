//! The client for the API server, made in this one place.
//!
//! In: a kubeconfig and a context, or neither: then `KUBECONFIG`, `~/.kube/config`, and the
//! service account of the pod, in this order. Out: a client that says who we are and never tries a
//! request again on its own: the daemon decides again from what it sees (design §4 rule 8).

use std::path::PathBuf;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

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
    #[error("no client can be made for {address}")]
    Client {
        /// The API server.
        address: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Who we are in the API server's audit log.
const NAME: &str = concat!("nodewright/", env!("CARGO_PKG_VERSION"));

/// Returns a client for the cluster; nothing is sent yet.
pub(super) async fn connect(args: &ClusterArgs) -> Result<Client, ConnectError> {
    let ClusterArgs { kubeconfig, context } = args;
    let mut config = if kubeconfig.is_none() && context.is_none() {
        Config::infer().await.map_err(|source| ConnectError::Infer { source: Box::new(source) })?
    } else {
        configured(args).await.map_err(|source| ConnectError::Kubeconfig {
            file: kubeconfig.clone(),
            context: context.clone(),
            source: Box::new(source),
        })?
    };
    // kube would ask up to 15 times more after a 429, 503 or 504. A refused eviction is an answer.
    config.default_retry = false;
    config.headers.push((USER_AGENT, HeaderValue::from_static(NAME)));
    let address = config.cluster_url.to_string();
    Client::try_from(config)
        .map_err(|source| ConnectError::Client { address, source: Box::new(source) })
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
