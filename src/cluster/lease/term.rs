//! The election: wait for the Lease, lead, lose it or give it up, and again.
//!
//! In: a candidate and the signal to stop. Out: the current term, for everyone who watches.
//! Must never: hold a proof valid that no renewal stands behind, or give the Lease up while a
//! request of this process may still be under way.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::candidate::{Candidate, Held, Renewal};
use super::{LeaderProof, RENEW_PERIOD, RETRY_PERIOD, Term};
use crate::cluster::error::ClusterError;
use crate::cluster::fence::REQUEST_TIMEOUT;

/// Why a term ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The Lease was lost, or could not be renewed in time.
    Lost,
    /// This process stops.
    Stopped,
}

/// Says each trouble once, until it changes.
#[derive(Debug, Default)]
struct Trouble(Option<String>);

/// Takes part in the election until `stop`; then fences, gives the Lease up and returns.
pub(super) async fn run(
    mut candidate: Candidate,
    terms: watch::Sender<Option<Term>>,
    stop: CancellationToken,
) {
    while let Some(held) = wait_to_lead(&mut candidate, &stop).await {
        if lead(&mut candidate, held, &terms, &stop).await == End::Stopped {
            break;
        }
    }
}

/// Looks at the Lease again and again until it is ours; `None` when this process stops first.
async fn wait_to_lead(candidate: &mut Candidate, stop: &CancellationToken) -> Option<Held> {
    let mut trouble = Trouble::default();
    let mut told = None;
    loop {
        if stop.is_cancelled() {
            return None;
        }
        match candidate.try_to_lead().await {
            Ok(Some(held)) => return Some(held),
            Ok(None) => {
                trouble.over();
                let holder = candidate.seen_holder().map(str::to_owned);
                if holder != told {
                    let identity = candidate.identity();
                    tracing::info!(
                        identity,
                        holder,
                        "another process leads, waiting for its lease"
                    );
                    told = holder;
                }
            }
            Err(error) => trouble.say(&error, "lease cannot be taken, trying again"),
        }
        pause(candidate, RETRY_PERIOD, stop).await;
    }
}

/// Leads until the Lease is lost or this process stops.
async fn lead(
    candidate: &mut Candidate,
    mut held: Held,
    terms: &watch::Sender<Option<Term>>,
    stop: &CancellationToken,
) -> End {
    let clock = candidate.clock();
    let (valid_until, receiver) = watch::channel(Some(held.valid_until()));
    let proof = LeaderProof::new(clock, receiver);
    terms.send_replace(Some(Term { proof, epoch: held.epoch }));
    tracing::info!(identity = candidate.identity(), epoch = held.epoch, "leading");
    let mut trouble = Trouble::default();
    let mut wait = RENEW_PERIOD;
    let end = loop {
        pause(candidate, wait.min(until(clock.now(), held.valid_until())), stop).await;
        if stop.is_cancelled() {
            break End::Stopped;
        }
        if clock.now() >= held.valid_until() {
            tracing::warn!(
                epoch = held.epoch,
                since = %held.sent,
                "not leading any more: the lease could not be renewed in time"
            );
            break End::Lost;
        }
        let answer = tokio::select! {
            answer = candidate.renew(&held) => answer,
            () = clock.sleep(until(clock.now(), held.valid_until())) => continue,
        };
        match answer {
            Ok(Renewal::Kept(renewed)) => {
                held = *renewed;
                valid_until.send_replace(Some(held.valid_until()));
                wait = RENEW_PERIOD;
                trouble.over();
            }
            Ok(Renewal::Lost { holder }) => {
                tracing::warn!(
                    epoch = held.epoch,
                    holder,
                    "not leading any more: the lease is gone"
                );
                break End::Lost;
            }
            Err(error) => {
                trouble.say(&error, "lease cannot be renewed, trying again until it runs out");
                wait = RETRY_PERIOD;
            }
        }
    };
    valid_until.send_replace(None);
    terms.send_replace(None);
    if end == End::Stopped {
        give_up(candidate, &held, &valid_until).await;
    }
    end
}

/// Gives the Lease up when nobody holds a proof any more, or every request has had its time.
async fn give_up(
    candidate: &mut Candidate,
    held: &Held,
    valid_until: &watch::Sender<Option<Timestamp>>,
) {
    let clock = candidate.clock();
    tokio::select! {
        () = valid_until.closed() => {}
        () = clock.sleep(REQUEST_TIMEOUT) => {}
    }
    let epoch = held.epoch;
    match candidate.give_up(held).await {
        Ok(Renewal::Kept(_)) => tracing::info!(epoch, "lease given up"),
        Ok(Renewal::Lost { holder }) => {
            tracing::info!(epoch, holder, "lease was not ours any more");
        }
        Err(error) => {
            tracing::warn!(
                epoch,
                error = &error as &dyn std::error::Error,
                "lease not given up, the next leader waits until it runs out"
            );
        }
    }
}

/// Waits, but not longer than until this process is to stop.
async fn pause(candidate: &Candidate, duration: Duration, stop: &CancellationToken) {
    let clock = candidate.clock();
    tokio::select! {
        () = stop.cancelled() => {}
        () = clock.sleep(duration) => {}
    }
}

/// Returns how long it is until a time, zero if it has passed.
fn until(now: Timestamp, time: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or_default()
}

impl Trouble {
    fn say(&mut self, error: &ClusterError, consequence: &str) {
        let text = error.to_string();
        if self.0.as_ref() != Some(&text) {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, consequence, "lease request failed");
            self.0 = Some(text);
        }
    }

    fn over(&mut self) {
        if self.0.take().is_some() {
            tracing::info!("lease requests succeed again");
        }
    }
}
