//! Typed requests, bounded in time and fenced by leadership.
//!
//! In: a request of a typed client, not yet sent. Out: its answer, or an error that says whether
//! the change may have been made.
//! Must never: send a mutating request without leadership, repeat one, or wait without bound.

use std::time::Duration;

use super::error::ClusterError;
use super::lease::LeaderProof;
use super::settings::REQUEST_TIMEOUT_DEFAULT;
use crate::clock::Clock;

/// How long a request of this module's callers may take; design §4 rule 10 is built on it.
pub(super) const REQUEST_TIMEOUT: Duration = REQUEST_TIMEOUT_DEFAULT;

/// Sends a request that changes something, if we may act now; `what` begins every message.
///
/// A future does nothing before it is polled, so a request that is refused here never leaves.
pub(super) async fn fenced<T>(
    proof: &LeaderProof,
    clock: Clock,
    what: &str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, ClusterError> {
    if !proof.is_valid() {
        return Err(ClusterError::NotLeader { request: what.to_owned() });
    }
    bounded(clock, what, request).await
}

/// Waits for the answer of a request, but not for ever.
pub(super) async fn bounded<T>(
    clock: Clock,
    what: &str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, ClusterError> {
    let limit = clock.real_duration(REQUEST_TIMEOUT);
    let what = what.to_owned();
    match tokio::time::timeout(limit, request).await {
        Err(_elapsed) => Err(ClusterError::TimedOut { request: what, after: REQUEST_TIMEOUT }),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(ClusterError::Refused { request: what, status }),
        Ok(Err(kube::Error::SerdeError(source))) => {
            Err(ClusterError::Unreadable { request: what, source })
        }
        Ok(Err(source)) => Err(ClusterError::Broken { request: what, source: Box::new(source) }),
    }
}
