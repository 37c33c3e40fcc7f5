//! What monitoring sees: upstream's gauges of the fleet, and how the daemon itself is doing.
//!
//! In: the input and the plan of a tick, and what the loop counts. Out: OpenMetrics text. The
//! fleet's series are computed anew from every tick, never patched, so a rollout that is gone
//! leaves none behind. Never here: a label that holds a node's name or the text of an error.
//!
//! Only the leader shows the fleet, the source and the status pushes: a standby that keeps old
//! figures would be counted twice in every sum.

mod fleet;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::model::{Finding, Input, Plan, Severity};
use crate::plan::Invariant;

use fleet::Fleet;
use text::{counters, gauges};

/// Bounds of `nodewright_tick_seconds`, in seconds: a decision takes milliseconds (design §12), a
/// tick that writes takes as long as the API server, and a request times out after 2 seconds.
const TICK_BUCKETS_SECONDS: [f64; 12] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// Every invariant: shown as 0 from the start, because a counter that begins at 1 has no increase.
const INVARIANTS: [Invariant; 16] = [
    Invariant::Ceiling,
    Invariant::Held,
    Invariant::PodsGone,
    Invariant::Order,
    Invariant::OneExecutor,
    Invariant::OneReboot,
    Invariant::ForeignCordon,
    Invariant::ForeignTaint,
    Invariant::HandsOff,
    Invariant::OpenBatch,
    Invariant::OrderNumbers,
    Invariant::OnePatch,
    Invariant::FirstUse,
    Invariant::Halted,
    Invariant::Approved,
    Invariant::Leaving,
];

/// Whether this process is the one that acts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Leadership {
    /// Another process acts, or nobody does.
    #[default]
    Standby,
    /// This one acts.
    Leader,
}

/// Whether the source lets new work begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SourceHold {
    /// The newest revision is accepted.
    #[default]
    Free,
    /// A revision is held until somebody accepts it, or the source cannot be read.
    Held,
}

/// All series of the process; share it in an [`Arc`].
#[derive(Debug)]
pub struct Metrics {
    series: Arc<Series>,
    registry: Registry,
}

/// The lock around [`Book`]; a scrape sees one tick or the next, never half of one.
#[derive(Debug)]
struct Series(Mutex<Book>);

#[derive(Debug)]
struct Book {
    leadership: Leadership,
    fleet: Fleet,
    source: Option<Source>,
    pushes: Option<Pushes>,
    actions: BTreeMap<(&'static str, &'static str), u64>,
    breaches: BTreeMap<Invariant, u64>,
    ticks: Histogram,
}

#[derive(Debug, Default)]
struct Source {
    last_success: Option<Timestamp>,
    hold: SourceHold,
    findings: BTreeMap<Severity, u64>,
}

#[derive(Debug, Default)]
struct Pushes {
    last_success: Option<Timestamp>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Returns metrics of a standby that has seen nothing.
    pub fn new() -> Self {
        let series = Arc::new(Series(Mutex::new(Book {
            leadership: Leadership::default(),
            fleet: Fleet::default(),
            source: None,
            pushes: None,
            actions: BTreeMap::new(),
            breaches: INVARIANTS.map(|invariant| (invariant, 0)).into(),
            ticks: Histogram::new(TICK_BUCKETS_SECONDS),
        })));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::clone(&series)));
        Self { series, registry }
    }

    /// Replaces the fleet's series by what this tick saw and decided, [`crate::plan::freeze`]
    /// included.
    pub fn observe(&self, input: &Input, plan: &Plan) {
        let fleet = Fleet::new(input, plan);
        self.book().fleet = fleet;
    }

    /// Says whether this process acts. Losing the lead drops the fleet's series.
    pub fn set_leadership(&self, leadership: Leadership) {
        let mut book = self.book();
        book.leadership = leadership;
        match leadership {
            Leadership::Leader => {}
            Leadership::Standby => book.fleet = Fleet::default(),
        }
    }

    /// Counts one action by its kind and what came of it: closed sets of words, both.
    pub fn count_action(&self, action: &'static str, outcome: &'static str) {
        *self.book().actions.entry((action, outcome)).or_default() += 1;
    }

    /// Counts a breach that the audit found.
    pub fn count_breach(&self, invariant: Invariant) {
        *self.book().breaches.entry(invariant).or_default() += 1;
    }

    /// Records how long a tick took, from looking to the last answer.
    pub fn observe_tick(&self, elapsed: Duration) {
        self.book().ticks.observe(elapsed.as_secs_f64());
    }

    /// Shows the source's series before its first success, as time 0: an alert on their age then
    /// also fires for a repository that was never reached. Without a Git source there are none.
    pub fn show_source(&self) {
        self.book().source.get_or_insert_default();
    }

    /// Records that the source was read at `now`, whatever the verdict on what was there.
    pub fn source_succeeded(&self, now: Timestamp) {
        self.book().source.get_or_insert_default().last_success = Some(now);
    }

    /// Says whether the source holds new work back.
    pub fn set_source_hold(&self, hold: SourceHold) {
        self.book().source.get_or_insert_default().hold = hold;
    }

    /// Replaces the number of findings by those of the newest revision.
    pub fn set_findings(&self, findings: &[Finding]) {
        let mut counts = BTreeMap::new();
        for finding in findings {
            *counts.entry(finding.severity).or_default() += 1;
        }
        self.book().source.get_or_insert_default().findings = counts;
    }

    /// Shows the series of status pushes before the first success, as time 0.
    pub fn show_status_pushes(&self) {
        self.book().pushes.get_or_insert_default();
    }

    /// Records that at `now` the status branch was as it should be: pushed, or nothing to push.
    pub fn status_push_succeeded(&self, now: Timestamp) {
        self.book().pushes.get_or_insert_default().last_success = Some(now);
    }

    /// Returns everything as OpenMetrics text, see [`Self::CONTENT_TYPE`]. Families and series
    /// are in a fixed order, so equal states are equal texts.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("a String takes any text, and no histogram is a native one");
        text
    }

    /// The `Content-Type` of [`Self::encode`].
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    fn book(&self) -> MutexGuard<'_, Book> {
        self.series.book()
    }
}

impl Series {
    fn book(&self) -> MutexGuard<'_, Book> {
        // Every change is one assignment, so a book is whole also after a panic elsewhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Series {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let book = self.book();
        let Book { leadership, fleet, source, pushes, actions, breaches, ticks } = &*book;
        match leadership {
            Leadership::Standby => {}
            Leadership::Leader => {
                fleet.encode(&mut encoder)?;
                source.as_ref().map_or(Ok(()), |source| source.encode(&mut encoder))?;
                pushes.as_ref().map_or(Ok(()), |pushes| pushes.encode(&mut encoder))?;
            }
        }
        let leads = u64::from(*leadership == Leadership::Leader);
        gauges(
            &mut encoder,
            ("nodewright_leader", "1 if this process holds the Lease and acts."),
            [([], leads)],
        )?;
        counters(
            &mut encoder,
            ("nodewright_actions", "Actions by kind and by what came of them."),
            actions.iter().map(|(&(action, outcome), &count)| {
                ([("action", action), ("outcome", outcome)], count)
            }),
        )?;
        counters(
            &mut encoder,
            ("nodewright_audit_breaches", "Plans the audit refused, each a defect in NodeWright."),
            breaches
                .iter()
                .map(|(&invariant, &count)| ([("invariant", invariant_word(invariant))], count)),
        )?;
        let help = "Time of a tick, from looking to the last answer.";
        let unit = Unit::Seconds;
        let metric = encoder.encode_descriptor(
            "nodewright_tick",
            help,
            Some(&unit),
            MetricType::Histogram,
        )?;
        ticks.encode(metric)
    }
}

impl Source {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Self { last_success, hold, findings } = self;
        gauges(
            encoder,
            (
                "nodewright_source_last_success_timestamp_seconds",
                "When the source was last read; 0 is never.",
            ),
            [([], seconds(*last_success))],
        )?;
        gauges(
            encoder,
            ("nodewright_source_held", "1 while the source keeps new work from beginning."),
            [([], u64::from(*hold == SourceHold::Held))],
        )?;
        gauges(
            encoder,
            ("nodewright_source_findings", "Findings in the newest revision by severity."),
            [Severity::Note, Severity::Warning, Severity::Error].iter().map(|severity| {
                let count = findings.get(severity).copied().unwrap_or_default();
                ([("severity", severity_word(*severity))], count)
            }),
        )
    }
}

impl Pushes {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Self { last_success } = self;
        gauges(
            encoder,
            (
                "nodewright_status_push_last_success_timestamp_seconds",
                "When the status branch was last as it should be; 0 is never.",
            ),
            [([], seconds(*last_success))],
        )
    }
}

fn seconds(at: Option<Timestamp>) -> u64 {
    at.and_then(|at| u64::try_from(at.as_second()).ok()).unwrap_or_default()
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn invariant_word(invariant: Invariant) -> &'static str {
    match invariant {
        Invariant::Ceiling => "Ceiling",
        Invariant::Held => "Held",
        Invariant::PodsGone => "PodsGone",
        Invariant::Order => "Order",
        Invariant::OneExecutor => "OneExecutor",
        Invariant::OneReboot => "OneReboot",
        Invariant::ForeignCordon => "ForeignCordon",
        Invariant::ForeignTaint => "ForeignTaint",
        Invariant::HandsOff => "HandsOff",
        Invariant::OpenBatch => "OpenBatch",
        Invariant::OrderNumbers => "OrderNumbers",
        Invariant::OnePatch => "OnePatch",
        Invariant::FirstUse => "FirstUse",
        Invariant::Halted => "Halted",
        Invariant::Approved => "Approved",
        Invariant::Leaving => "Leaving",
    }
}
