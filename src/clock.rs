//! The one injected clock: what time it is, and how to wait.
//!
//! `now` is a real start time plus what has passed on tokio's clock, times a speed. A test that
//! pauses tokio's clock therefore pauses ours; a demo that runs ten times faster makes back-offs,
//! heartbeats and reboots ten times shorter together. Deadlines compare times of this clock or
//! times a kubelet wrote, never the API server's.
#![expect(clippy::disallowed_methods, reason = "this is the place the bans point to")]

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time and waits; cheap to copy, the same for everyone who holds a copy.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Timestamp,
    began: Instant,
    speed: u32,
}

impl Clock {
    /// Returns a clock that runs with the machine's.
    pub fn real() -> Self {
        Self::starting_at(Timestamp::now(), 1)
    }

    /// Returns a clock that shows `start`, to the millisecond, now and runs `speed` times as fast
    /// as tokio's.
    pub fn starting_at(start: Timestamp, speed: u32) -> Self {
        let start = Timestamp::from_millisecond(start.as_millisecond()).unwrap_or(start);
        Self { start, began: Instant::now(), speed: speed.max(1) }
    }

    /// Returns the time now, to the millisecond.
    pub fn now(&self) -> Timestamp {
        let passed = self.began.elapsed().saturating_mul(self.speed);
        let millis = i64::try_from(passed.as_millis()).unwrap_or(i64::MAX);
        self.start.saturating_add(SignedDuration::from_millis(millis)).unwrap_or(Timestamp::MAX)
    }

    /// Waits until `duration` has passed on this clock.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration / self.speed).await;
    }

    /// Returns how long `duration` of this clock lasts on tokio's clock, for time-outs.
    pub fn real_duration(&self, duration: Duration) -> Duration {
        duration / self.speed
    }
}
