//! When to flush: says how changes of state are gathered into status commits.
//!
//! Pure; `now` comes in. Urgent changes (a rollout opened, stopped, failed, finished; a revision
//! held) go out after one second, at most three in a row and one per 30 s after that. Routine
//! changes (nodes) wait for quiet, but not for ever (gitops 3.3). Everything pending is one state,
//! so a slow remote only makes commits larger.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How long an urgent change waits for others that belong to it.
const URGENT_DELAY: Duration = Duration::from_secs(1);

/// How many urgent flushes may follow each other.
const BURST_MAX: u32 = 3;

/// How long it takes until one more urgent flush is allowed.
const REFILL: Duration = Duration::from_secs(30);

/// How long nothing must change before routine changes go out.
const QUIET: Duration = Duration::from_secs(5);

/// How long routine changes wait at most for quiet.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The shortest time between two flushes of routine changes.
const GAP_MIN: Duration = Duration::from_secs(30);

/// What each status branch in the repository adds to the gap: together they stay near the six
/// pushes a minute that forges recommend, without talking to each other.
const GAP_PER_BRANCH: Duration = Duration::from_secs(10);

/// Says how soon a change must be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// With the next batch.
    Routine,
    /// Within a second.
    Urgent,
}

/// Remembers what is pending and when the last flushes were.
#[derive(Debug, Clone)]
pub struct Pacer {
    urgent_since: Option<Timestamp>,
    routine_since: Option<Timestamp>,
    changed: Option<Timestamp>,
    flushed: Option<Timestamp>,
    tokens: u32,
    refilled: Timestamp,
}

impl Pacer {
    /// Returns a pacer with nothing pending.
    pub fn new(now: Timestamp) -> Self {
        Self {
            urgent_since: None,
            routine_since: None,
            changed: None,
            flushed: None,
            tokens: BURST_MAX,
            refilled: now,
        }
    }

    /// Notes that state changed.
    pub fn note(&mut self, urgency: Urgency, now: Timestamp) {
        self.changed = Some(now);
        match urgency {
            Urgency::Routine => self.routine_since.get_or_insert(now),
            Urgency::Urgent => self.urgent_since.get_or_insert(now),
        };
    }

    /// Returns when to flush; `None`: nothing is pending. A time in the past means now.
    ///
    /// `status_branches` is how many the repository has.
    pub fn due(&self, status_branches: u32) -> Option<Timestamp> {
        let urgent = self.urgent_since.map(|since| {
            let wanted = after(since, URGENT_DELAY);
            if self.tokens > 0 { wanted } else { wanted.max(after(self.refilled, REFILL)) }
        });
        let routine = self.routine_since.map(|since| {
            let quiet = after(self.changed.unwrap_or(since), QUIET);
            let wanted = quiet.min(after(since, WAIT_MAX));
            let gap = GAP_MIN.max(GAP_PER_BRANCH.saturating_mul(status_branches));
            self.flushed.map_or(wanted, |flushed| wanted.max(after(flushed, gap)))
        });
        match (urgent, routine) {
            (Some(urgent), Some(routine)) => Some(urgent.min(routine)),
            (one, other) => one.or(other),
        }
    }

    /// Notes that a flush begins: everything pending is in it.
    pub fn begin(&mut self, now: Timestamp) {
        self.refill(now);
        if self.urgent_since.is_some() {
            self.tokens = self.tokens.saturating_sub(1);
        }
        self.flushed = Some(now);
        self.urgent_since = None;
        self.routine_since = None;
        self.changed = None;
    }

    /// Notes that the flush failed: its content is pending again, with the routine's pace.
    pub fn failed(&mut self, now: Timestamp) {
        self.note(Urgency::Routine, now);
    }

    fn refill(&mut self, now: Timestamp) {
        if self.tokens >= BURST_MAX {
            self.refilled = now;
        }
        while self.tokens < BURST_MAX && after(self.refilled, REFILL) <= now {
            self.tokens += 1;
            self.refilled = after(self.refilled, REFILL);
        }
    }
}

fn after(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
