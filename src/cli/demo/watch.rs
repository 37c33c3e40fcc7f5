//! Follows the daemon: shows what changes and waits for what must come.
//!
//! In: the state of the fleet after each tick. Out: a line for each change. Must never: wait for
//! ever; what does not come in time is an error that says how far it got.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::error::DemoError;
use super::screen::Screen;
use crate::clock::Clock;
use crate::report::{FleetState, progress};

/// Longest time, on the simulated clock, that a step may take; each takes a few minutes.
const PATIENCE: Duration = Duration::from_mins(30);

/// How often something is asked that nobody announces; well below what a person notices.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Shortest time between two looks: what came and went meanwhile is not worth a line.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

type State = Option<Arc<FleetState>>;

/// What the daemon says of the fleet, and what of it was shown.
pub(super) struct Watch {
    fleet: watch::Receiver<State>,
    clock: Clock,
    shown: State,
}

impl Watch {
    pub fn new(fleet: watch::Receiver<State>, clock: Clock) -> Self {
        Self { fleet, clock, shown: None }
    }

    /// Shows progress until the fleet is as `wanted`, and returns what it is then.
    pub async fn until(
        &mut self,
        screen: &mut Screen,
        (chapter, what): (&str, &str),
        mut wanted: impl FnMut(&FleetState) -> bool,
    ) -> Result<Arc<FleetState>, DemoError> {
        let began = self.clock.now();
        loop {
            let state = self.fleet.borrow_and_update().clone();
            if let Some(state) = state {
                self.show(screen, &state)?;
                if wanted(&state) {
                    return Ok(state);
                }
            }
            let left = self.left(began);
            let changed = self.clock.real_duration(left);
            match tokio::time::timeout(changed, self.fleet.changed()).await {
                Ok(Ok(())) => self.clock.sleep(SHOWN_EVERY).await,
                // The daemon is gone; whoever runs the story hears why.
                Ok(Err(_)) => return std::future::pending().await,
                Err(_) => return Err(self.late(chapter, what)),
            }
        }
    }

    /// Asks again and again until `ask` has an answer; shows progress meanwhile.
    pub async fn asking<T>(
        &mut self,
        screen: &mut Screen,
        (chapter, what): (&str, &str),
        mut ask: impl AsyncFnMut() -> Result<Option<T>, DemoError>,
    ) -> Result<T, DemoError> {
        let began = self.clock.now();
        while !self.left(began).is_zero() {
            let state = self.fleet.borrow_and_update().clone();
            if let Some(state) = state {
                self.show(screen, &state)?;
            }
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            self.clock.sleep(ASKED_EVERY).await;
        }
        Err(self.late(chapter, what))
    }

    fn show(&mut self, screen: &mut Screen, state: &Arc<FleetState>) -> Result<(), DemoError> {
        for line in progress::lines(self.shown.as_deref(), state) {
            screen.progress(&line)?;
        }
        self.shown = Some(Arc::clone(state));
        Ok(())
    }

    fn left(&self, began: Timestamp) -> Duration {
        let passed: SignedDuration = self.clock.now().duration_since(began);
        PATIENCE.saturating_sub(passed.unsigned_abs())
    }

    fn late(&self, chapter: &str, what: &str) -> DemoError {
        let last = self.shown.as_deref().map(|state| progress::lines(None, state));
        let last = last.unwrap_or_else(|| vec!["the daemon has said nothing".to_owned()]);
        let minutes = PATIENCE.as_secs() / 60;
        DemoError::NotAsPromised {
            chapter: chapter.to_owned(),
            what: format!(
                "after {minutes} minutes of the simulated clock still not: {what}; last: {}",
                last.join(" / ")
            ),
        }
    }
}
