//! What was told a short while ago, so that the same is counted and not told again.
//!
//! In: news and the time. Out: whether it is new, one more of a series, or too soon to count.
//! Must never: grow with the fleet: what is old goes, and of the rest the oldest.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{NAME_MAX_BYTES, News, Regarding, Severity};
use crate::api::annotations::cut;

/// How long after its last telling an event is still continued, as long as Kubernetes' own
/// recorder does.
const SERIES_PERIOD: Duration = Duration::from_secs(6 * 60);

/// How often a series is written at most; what comes in between only counts.
const COUNT_PERIOD: Duration = Duration::from_secs(30);

/// How many different notes one reason may put on one object within a series' time.
///
/// A note with a number that changes each second must not fill the API server; from here on the
/// newest note is counted up whatever the next one says.
const NOTES_MAX: usize = 5;

/// How many reasons on objects are remembered: a kilobyte each, a few megabytes together.
const SUBJECTS_MAX: usize = 4096;

/// What was told lately.
#[derive(Debug, Default)]
pub(super) struct Memory {
    subjects: BTreeMap<Subject, Vec<Series>>,
    names: u32,
}

/// How news is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// As a new Event.
    New,
    /// By counting up an Event.
    Again { name: String, count: i32 },
    /// Not now: it was counted, and written a moment ago.
    Known,
}

/// A reason on an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    regarding: Regarding,
    severity: Severity,
    reason: String,
    action: String,
}

#[derive(Debug)]
struct Series {
    note: String,
    name: String,
    count: i32,
    told: Timestamp,
    written: Timestamp,
}

impl Memory {
    /// Says how news is to be told, and counts it.
    pub fn tell(&mut self, news: &News, now: Timestamp) -> Telling {
        let Some(known) = self.subjects.get_mut(&Subject::of(news)) else { return Telling::New };
        known.retain(|series| is_within(series.told, SERIES_PERIOD, now));
        let full = known.len() >= NOTES_MAX;
        let at = known.iter().position(|series| series.note == news.note);
        let Some(at) = at.or(full.then(|| known.len().saturating_sub(1))) else {
            return Telling::New;
        };
        let Some(series) = known.get_mut(at) else { return Telling::New };
        series.count = series.count.saturating_add(1);
        series.told = now;
        if is_within(series.written, COUNT_PERIOD, now) {
            return Telling::Known;
        }
        series.written = now;
        Telling::Again { name: series.name.clone(), count: series.count }
    }

    /// Remembers a new Event; forgets what is old and, when there is no room, what is oldest.
    pub fn created(&mut self, news: &News, name: String, now: Timestamp) {
        let series = Series { note: news.note.clone(), name, count: 1, told: now, written: now };
        let subject = Subject::of(news);
        if self.subjects.len() >= SUBJECTS_MAX && !self.subjects.contains_key(&subject) {
            self.make_room(now);
        }
        let known = self.subjects.entry(subject).or_default();
        known.retain(|there| there.note != series.note);
        known.push(series);
    }

    /// Returns a name for a new Event that no other of this process has.
    pub fn name(&mut self, regarding: &Regarding, now: Timestamp) -> String {
        self.names = self.names.wrapping_add(1);
        let (name, digits) = (cut(&regarding.name, NAME_MAX_BYTES), now.as_millisecond());
        format!("{name}.{:011x}{:05x}", digits, self.names & 0xf_ffff)
    }

    fn make_room(&mut self, now: Timestamp) {
        let last = |known: &Vec<Series>| known.iter().map(|series| series.told).max();
        self.subjects
            .retain(|_, known| last(known).is_some_and(|told| is_within(told, SERIES_PERIOD, now)));
        if self.subjects.len() >= SUBJECTS_MAX {
            let oldest = self.subjects.iter().min_by_key(|(_, known)| last(known));
            if let Some(oldest) = oldest.map(|(subject, _)| subject.clone()) {
                self.subjects.remove(&oldest);
            }
        }
    }
}

impl Subject {
    fn of(news: &News) -> Self {
        let News { regarding, severity, reason, action, note: _ } = news;
        Self {
            regarding: regarding.clone(),
            severity: *severity,
            reason: reason.clone(),
            action: action.clone(),
        }
    }
}

fn is_within(since: Timestamp, period: Duration, now: Timestamp) -> bool {
    let period = SignedDuration::try_from(period).unwrap_or(SignedDuration::MAX);
    now.duration_since(since) < period
}
