//! The proof of leadership that every mutating request needs.
//!
//! In: until when we may act, as whoever holds the Lease tells. Out: yes or no, right now.
//! Must never: be checked once and remembered; the answer holds for one request.

use jiff::Timestamp;
use tokio::sync::watch;

use crate::clock::Clock;

/// Shows that this process may change the cluster, for as long as [`LeaderProof::is_valid`] says.
///
/// We act only while the time since the last renewal *was sent* is less than the duration of the
/// lease less the time-out of a request (design §4 rule 10), so that a request begun in time has
/// ended before another leader can begin. Cheap to clone; all clones are fenced together.
#[derive(Debug, Clone)]
pub struct LeaderProof {
    clock: Clock,
    valid_until: watch::Receiver<Option<Timestamp>>,
}

impl LeaderProof {
    /// Wraps the end of our right to act; `None` fences every holder at once.
    pub fn new(clock: Clock, valid_until: watch::Receiver<Option<Timestamp>>) -> Self {
        Self { clock, valid_until }
    }

    /// Returns whether a mutating request may be sent now.
    pub fn is_valid(&self) -> bool {
        self.valid_until.borrow().is_some_and(|until| self.clock.now() < until)
    }
}
