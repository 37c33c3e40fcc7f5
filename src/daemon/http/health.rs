//! Whether the loop is alive and the process ready, for the kubelet's probes.
//!
//! In: signs of life from the loop. Out: two verdicts with their reason. Never here: a look at the
//! API server or Git; a process is not restarted because somebody else is down.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::clock::Clock;

/// Longest silence of a loop that is alive.
///
/// Requests time out after 2 seconds and run beside each other, and the first list of 10,000 nodes
/// takes under 10 (design §12); twelve times that is no slow tick any more.
pub const LOOP_SILENCE_MAX: Duration = Duration::from_secs(120);

/// Whether the loop still turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It gave a sign of life in time.
    Alive,
    /// It did not.
    Silent {
        /// Its last sign of life, or the start of the process.
        heard: Timestamp,
        /// The next one was due then.
        due: Timestamp,
    },
}

/// Whether decisions can be taken, or could be by a standby that takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The caches are not complete yet.
    Listing,
    /// Everything was listed once.
    Listed,
}

/// What the loop says of itself; share it in an [`std::sync::Arc`].
#[derive(Debug)]
pub struct Health {
    clock: Clock,
    silence_max: Duration,
    signs: Mutex<Signs>,
}

#[derive(Debug, Clone, Copy)]
struct Signs {
    heard: Timestamp,
    due: Timestamp,
    readiness: Readiness,
}

impl Health {
    /// Returns the health of a process that starts now: alive, and silent if nothing follows.
    pub fn new(clock: Clock, silence_max: Duration) -> Self {
        let now = clock.now();
        let signs =
            Signs { heard: now, due: after(now, silence_max), readiness: Readiness::Listing };
        Self { clock, silence_max, signs: Mutex::new(signs) }
    }

    /// Records a sign of life: at every tick, and at every retry while the caches are listed.
    pub fn alive(&self, now: Timestamp) {
        self.resting_until(now, now);
    }

    /// Records a sign of life before a rest, which is no silence: the loop wakes at `until`.
    pub fn resting_until(&self, now: Timestamp, until: Timestamp) {
        let mut signs = self.signs();
        signs.heard = now;
        signs.due = after(until.max(now), self.silence_max);
    }

    /// Says whether the caches are listed, for a leader as for a standby.
    pub fn set_readiness(&self, readiness: Readiness) {
        self.signs().readiness = readiness;
    }

    /// Returns whether the loop still turns.
    pub fn liveness(&self) -> Liveness {
        let Signs { heard, due, .. } = *self.signs();
        if self.clock.now() <= due { Liveness::Alive } else { Liveness::Silent { heard, due } }
    }

    /// Returns whether the caches are listed.
    pub fn readiness(&self) -> Readiness {
        self.signs().readiness
    }

    fn signs(&self) -> MutexGuard<'_, Signs> {
        // Plain values, each right by itself, also after a panic of whoever held the lock.
        self.signs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Liveness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alive => f.write_str("ok"),
            Self::Silent { heard, due } => write!(
                f,
                "the loop is silent since {heard:.0} and was due by {due:.0}: its last log lines \
                 say what it was doing"
            ),
        }
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listed => "ok",
            Self::Listing => {
                "the caches are not listed yet: if this stays, the log says which list fails, \
                 for want of the API server, of a CRD or of a right"
            }
        })
    }
}

fn after(start: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    start.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
