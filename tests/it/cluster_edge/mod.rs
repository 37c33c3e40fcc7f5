//! Leadership, resources from Git, their list and events: production code on the embedded cluster.
//!
//! Every test runs under paused time; a second costs nothing.

mod events;
mod lease;
mod real;
mod resources;
mod source_state;

use std::time::Duration;

use nodewright::clock::Clock;
use nodewright::cluster::LeaderProof;
use nodewright::sim::{Cluster, Request};
use tokio::sync::watch;

/// Longer than any test takes on its own clock.
const TEST_DURATION: Duration = Duration::from_secs(24 * 3600);

fn cluster() -> Cluster {
    let start = "2026-03-01T08:00:00Z".parse().expect("a valid time");
    Cluster::new(Clock::starting_at(start, 1))
}

/// Returns a proof that holds, and what fences it.
fn leader(clock: Clock) -> (LeaderProof, watch::Sender<Option<jiff::Timestamp>>) {
    let until = clock.now().saturating_add(TEST_DURATION).expect("in range");
    let (sender, receiver) = watch::channel(Some(until));
    (LeaderProof::new(clock, receiver), sender)
}

/// Returns the mutating requests for a resource so far.
fn writes(cluster: &Cluster, plural: &str) -> Vec<Request> {
    let requests = cluster.requests().into_iter();
    requests.filter(|it| it.verb.is_mutating() && it.resource == plural).collect()
}
