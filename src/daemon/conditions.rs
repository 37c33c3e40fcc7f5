//! When the conditions of nodes that others read are written: after everything that moves a node.
//!
//! In: what a tick did. Out: writes of conditions, and when to look again.
//! Must never: make a node wait. A rollout that keeps the API server busy has them late.

use std::time::Duration;

use jiff::Timestamp;

use super::tick;
use crate::clock::Clock;
use crate::cluster::conditions::Published;
use crate::cluster::{Actor, Executed, LeaderProof};
use crate::model::Observed;

/// How long they may be late while every tick has something to do.
const LATE_MAX: Duration = Duration::from_secs(30);

/// How long after a tick that had something to do, or wrote only some, they are looked at.
const GAP: Duration = Duration::from_secs(1);

/// How long nothing is tried after a failure: one node that cannot be written must not have the API
/// server asked, and the log written, every second.
const FAILED_PAUSE: Duration = Duration::from_secs(30);

/// How long nothing is tried while the right to do it is missing.
const FORBIDDEN_PAUSE: Duration = Duration::from_mins(10);

/// What is remembered between ticks.
pub(super) struct Conditions {
    clock: Clock,
    /// From when on they may be looked at again.
    from: Timestamp,
    /// From when on they are looked at whatever else there is to do.
    late_from: Timestamp,
}

impl Conditions {
    pub(super) fn new(clock: Clock) -> Self {
        let now = clock.now();
        Self { clock, from: now, late_from: tick::after(now, LATE_MAX) }
    }

    /// Writes them when nothing else was done, or was for too long; returns when to look again.
    pub(super) async fn publish(
        &mut self,
        actor: &Actor,
        proof: &LeaderProof,
        observed: &Observed,
        executed: &[Executed],
    ) -> Option<Timestamp> {
        let now = self.clock.now();
        if now < self.from {
            return Some(self.from);
        }
        if !executed.is_empty() && now < self.late_from {
            return Some(tick::after(now, GAP));
        }
        let published = actor.publish_conditions(proof, observed).await;
        let now = self.clock.now();
        self.late_from = tick::after(now, LATE_MAX);
        let pause = match published {
            Published::All => return None,
            Published::Partly => GAP,
            Published::Failed => FAILED_PAUSE,
            Published::Forbidden => FORBIDDEN_PAUSE,
        };
        self.from = tick::after(now, pause);
        Some(self.from)
    }
}
