//! Leadership, resources from Git, their list and events: the production code on the embedded cluster.
//!
//! Every test runs under paused time; a second costs nothing.

mod lease;

use nodewright::clock::Clock;
use nodewright::sim::{Cluster, Request};

fn cluster() -> Cluster {
    let start = "2026-03-01T08:00:00Z".parse().expect("a valid time");
    Cluster::new(Clock::starting_at(start, 1))
}

/// Returns the mutating requests for a resource so far.
fn writes(cluster: &Cluster, plural: &str) -> Vec<Request> {
    let requests = cluster.requests().into_iter();
    requests.filter(|it| it.verb.is_mutating() && it.resource == plural).collect()
}
