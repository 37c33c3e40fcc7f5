//! A person's stop of everything, and how it is known to be in force.
//!
//! In: a note. Out: the annotation on the ConfigMap of the source, and whether the daemon obeys it.
//! The leader writes the note of the stop that it obeys beside it, under its Lease, at the begin of
//! a tick: every request of earlier ticks has been answered then, and no later one disturbs
//! anything. Another daemon reads the ConfigMap anew before its first tick as leader, so neither a
//! second one nor a cache that lags is an exception. Must never: say that a stop is in force which
//! nobody has acknowledged, while somebody leads.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::Api;

use super::error::ClusterError;
use super::fence::bounded;
use super::lease::{LEASE_DURATION, LEASE_NAME};
use super::source_state::{SourceState, SourceStates};
use crate::clock::Clock;

/// How often the ConfigMap is read while a stop is waited for: a person is waiting.
const POLL: Duration = Duration::from_millis(250);

/// A Lease that is not renewed for so long has no leader: one who held it ends what it does before
/// its duration is over (design §4 rule 10), and what it sent last is answered within the margin.
const LEADERLESS_AFTER: Duration = LEASE_DURATION.saturating_add(Duration::from_secs(5));

/// What came of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InForce {
    /// The leader obeys it.
    Obeyed,
    /// Nobody leads; whoever does later finds the stop first.
    NobodyLeads,
    /// Somebody leads and has not acknowledged it yet.
    NotYet,
    /// No daemon has ever been at work in this namespace: nothing is written, nothing is stopped.
    NoDaemon,
}

/// Writes a stop and waits until it is in force, `patience` at most.
///
/// `note` must be another one for each stop, or the acknowledgement of an earlier one would do.
///
/// # Errors
/// The API server did not take the stop, or did not answer whether it is obeyed.
pub async fn stop_all(
    client: &Client,
    namespace: &str,
    clock: Clock,
    note: &str,
    patience: Duration,
) -> Result<InForce, ClusterError> {
    let states = SourceStates::new(client.clone(), namespace, clock);
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let read = async || bounded(clock, "read the Lease", leases.get_opt(LEASE_NAME)).await;
    // Where nobody ever led, the daemon that is meant runs elsewhere and would go on.
    if read().await?.is_none() {
        return Ok(InForce::NoDaemon);
    }
    let mut state = states.stop(Some(note)).await?;
    let began = clock.now();
    let mut renewed = (None, began);
    loop {
        if state.obeyed.as_deref() == Some(note) {
            return Ok(InForce::Obeyed);
        }
        let Some(version) =
            read().await?.filter(is_held).and_then(|it| it.metadata.resource_version)
        else {
            return Ok(InForce::NobodyLeads);
        };
        let now = clock.now();
        if renewed.0.as_ref() != Some(&version) {
            renewed = (Some(version), now);
        }
        if now.duration_since(renewed.1).unsigned_abs() > LEADERLESS_AFTER {
            return Ok(InForce::NobodyLeads);
        }
        if now.duration_since(began).unsigned_abs() > patience {
            return Ok(InForce::NotYet);
        }
        clock.sleep(POLL).await;
        state = states.read().await?;
    }
}

/// Lifts a stop; returns what it said, or nothing if there was none.
///
/// # Errors
/// The API server did not take it.
pub async fn go(
    client: &Client,
    namespace: &str,
    clock: Clock,
) -> Result<Option<String>, ClusterError> {
    let states = SourceStates::new(client.clone(), namespace, clock);
    let SourceState { stop, .. } = states.read().await?;
    let Some(stop) = stop else { return Ok(None) };
    states.stop(None).await?;
    Ok(Some(stop.note))
}

fn is_held(lease: &Lease) -> bool {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    holder.is_some_and(|holder| !holder.is_empty())
}
