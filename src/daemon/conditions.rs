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

/// How long after a tick that had something to do they are looked at.
const GAP: Duration = Duration::from_secs(1);

/// What is remembered between ticks.
pub(super) struct Conditions {
    clock: Clock,
    /// When they were last looked at.
    at: Timestamp,
}

impl Conditions {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, at: clock.now() }
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
        let is_late = now >= tick::after(self.at, LATE_MAX);
        if executed.is_empty() || is_late {
            self.at = now;
            if actor.publish_conditions(proof, observed).await == Published::All {
                return None;
            }
        }
        Some(tick::after(self.clock.now(), GAP))
    }
}
