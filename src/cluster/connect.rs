//! The client of a real cluster, as the rules for writing need it.
//!
//! In: a configuration, from a kubeconfig or from inside the cluster. Out: a client.
//! Must never: let the client repeat a request by itself.

use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::{Client, Config};

use super::error::ClusterError;
use crate::api::keys::FIELD_MANAGER;

/// A server that does not even accept the connection is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longer than a watch lasts (290 s), so that it only ends what hangs, such as a list that is
/// never answered.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// Returns a client that sends each request once.
///
/// kube would repeat a request that was answered 429, 503 or 504, after as long as the server asks:
/// past our own time-out, perhaps past the lease, and after a 504 perhaps a second time.
///
/// # Errors
/// The configuration cannot be used, for example a certificate in it cannot be read.
pub fn client(config: Config) -> Result<Client, ClusterError> {
    client_named(config, FIELD_MANAGER)
}

/// Returns the same client for a part that is not the daemon, so that the audit log of the API
/// server tells them apart.
///
/// # Errors
/// As [`client`].
pub fn client_named(mut config: Config, name: &str) -> Result<Client, ClusterError> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    let agent = format!("{name}/{}", env!("CARGO_PKG_VERSION"));
    let agent = HeaderValue::from_str(&agent).expect("name and version are plain text");
    config.headers.retain(|(name, _)| *name != USER_AGENT);
    config.headers.push((USER_AGENT, agent));
    let server = config.cluster_url.to_string();
    Client::try_from(config)
        .map_err(|source| ClusterError::Unusable { server, source: Box::new(source) })
}
