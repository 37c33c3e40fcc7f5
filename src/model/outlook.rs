//! What is to come of a compartment: its batches, and what would stop them.
//!
//! In: nothing. Out: numbers, and the one wording of them that every surface shows. Of bounded
//! size, whatever the size of the fleet. Never here: arithmetic on batches, a node, the time.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Reason;

/// Different sizes that a text spells out; a fleet that grows is past its largest batch by then.
const SIZES_SHOWN_MAX: usize = 8;

/// Batches of the same size from which on they are told as `4 ×10`.
const TIMES_MIN: u32 = 3;

/// Failed nodes that are named.
pub const FAILED_NAMES_MAX: usize = 5;

/// Sizes of batches, in order; equal ones that follow each other are kept once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Batches {
    runs: Vec<Run>,
}

/// Batches of the same size that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    size: u32,
    times: u32,
}

impl Batches {
    /// Adds the next batch.
    pub fn push(&mut self, size: u32) {
        match self.runs.last_mut() {
            Some(last) if last.size == size => last.times = last.times.saturating_add(1),
            Some(_) | None => self.runs.push(Run { size, times: 1 }),
        }
    }

    /// Returns how many batches there are.
    pub fn count(&self) -> u32 {
        self.runs.iter().map(|run| run.times).fold(0, u32::saturating_add)
    }

    /// Returns how many nodes they have together.
    pub fn nodes(&self) -> u32 {
        let all = self.runs.iter().map(|run| run.size.saturating_mul(run.times));
        all.fold(0, u32::saturating_add)
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the same batches after one of this size.
    #[must_use]
    pub fn after(&self, size: u32) -> Self {
        let mut all = Self::from_iter([size]);
        for run in &self.runs {
            match all.runs.last_mut() {
                Some(last) if last.size == run.size => {
                    last.times = last.times.saturating_add(run.times);
                }
                Some(_) | None => all.runs.push(*run),
            }
        }
        all
    }
}

impl FromIterator<u32> for Batches {
    fn from_iter<I: IntoIterator<Item = u32>>(sizes: I) -> Self {
        let mut batches = Self::default();
        sizes.into_iter().for_each(|size| batches.push(size));
        batches
    }
}

/// `1, 2, 4 ×10, 3`; what is too much is a number.
impl fmt::Display for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let mut told = 0;
        for (index, Run { size, times }) in self.runs.iter().take(SIZES_SHOWN_MAX).enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match times {
                ..TIMES_MIN => {
                    f.write_str(&vec![size.to_string(); *times as usize].join(", "))?;
                }
                TIMES_MIN.. => write!(f, "{size} ×{times}")?,
            }
            told += times;
        }
        match self.count() - told {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The batch that is open, as far as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchNow {
    /// Its number.
    pub number: u32,
    /// Nodes it has or will have.
    pub size: u32,
    /// Nodes of it that failed for good so far.
    pub failed: u32,
}

/// What stops a compartment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopRule {
    /// Percent of a batch that must succeed, or it has failed.
    pub succeed_percent: u32,
    /// Failed batches in a row that stop it; `None`: no number of them does.
    pub after: Option<u32>,
    /// Whose word that is.
    pub by: StopRuleBy,
    /// Nodes through from which on failures neither slow nor stop it, and the percentage that this
    /// is; `None`: they always count.
    pub safe_from: Option<(u32, u32)>,
}

/// Who says when a compartment stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopRuleBy {
    /// `failureThreshold` of the policy.
    Policy,
    /// The cluster, `--stop-after`.
    Floor,
}

/// What stopped a compartment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopCause {
    /// Nodes of the last failed batch that failed, the first few by name.
    pub nodes: Vec<String>,
    /// How many of that batch failed.
    pub in_batch: u32,
    /// How many failed in all batches.
    pub total: u32,
    /// Which step failed and what it said, as the first of them recorded it.
    pub why: String,
}

impl StopCause {
    /// Returns which nodes failed, and how many.
    pub fn who(&self) -> String {
        let Self { nodes, in_batch, total, why: _ } = self;
        let named = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let more = match in_batch.saturating_sub(named) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let all = if total > in_batch { format!(", {total} in all") } else { String::new() };
        format!("{}{more}{all}", nodes.join(", "))
    }
}

impl fmt::Display for StopCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed: {}; {}", self.who(), self.why)
    }
}

/// Returns how a rollout that was stopped goes on again.
pub fn stopped_way_out(rollout: &str, cause: Option<&StopCause>) -> String {
    let failed = cause.and_then(|cause| cause.nodes.first());
    let retry =
        failed.map(|node| format!("nodewright retry node/{node}, then ")).unwrap_or_default();
    format!(
        "fix the package or its configuration and commit: a changed package is tried again; to go \
         on with the same one: {retry}nodewright deployment-policy reset {rollout}"
    )
}

/// A compartment that opens no more batches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    /// The last batch that failed.
    pub batch: u32,
    /// Failed batches in a row.
    pub failures: u32,
    /// What stopped it, where nodes still say so.
    pub cause: Option<StopCause>,
}

impl Stopped {
    /// Returns the reason that every surface words it by.
    pub fn reason(self, compartment: &str) -> Reason {
        let Self { batch, failures, cause } = self;
        Reason::Stopped { compartment: compartment.to_owned(), batch, failures, cause }
    }
}

/// What is to come of a compartment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// Nodes in it.
    pub nodes: u32,
    /// Nodes that have what is wanted.
    pub complete: u32,
    /// Nodes that failed for good.
    pub failed: u32,
    /// The batch that is open.
    pub open: Option<BatchNow>,
    /// Number of the batch that is open or comes next.
    pub number: u32,
    /// The batches after the open one, if every node succeeds from now on.
    pub to_come: Batches,
    /// The batches after the open one, if every node fails from now on.
    pub if_failing: Batches,
    /// After those it stops, with nodes left.
    pub failing_stops: bool,
    /// What stops it.
    pub rule: StopRule,
    /// Failed batches in a row so far.
    pub failures: u32,
    /// Why no more batches are opened; `None` while they are.
    pub stopped: Option<Stopped>,
}

impl Outlook {
    /// Returns the number of the last batch, if every node succeeds from now on.
    pub fn last_number(&self) -> u32 {
        let before = self.number.saturating_sub(u32::from(self.open.is_none()));
        before.saturating_add(self.to_come.count())
    }

    /// Returns all batches from the open one on, if every node succeeds from now on.
    pub fn all_to_come(&self) -> Batches {
        match self.open {
            Some(open) => self.to_come.after(open.size),
            None => self.to_come.clone(),
        }
    }

    /// Returns whether nothing is left to do.
    pub fn is_over(&self) -> bool {
        self.open.is_none() && self.to_come.is_empty()
    }

    /// Returns the batches after the open one, in both cases.
    pub fn sizes(&self) -> String {
        let Self { to_come, if_failing, failing_stops, .. } = self;
        let then = if *failing_stops { "then it stops" } else { "and nothing stops it" };
        let failing = match (if_failing.is_empty(), self.open) {
            (true, Some(_)) if *failing_stops => "it stops after this one".to_owned(),
            (true, _) => return format!("{to_come}"),
            (false, _) => format!("{if_failing}, {then}"),
        };
        format!("{to_come}; if every node fails from now on: {failing}")
    }

    /// Returns what would stop it, in numbers of nodes, and how far it is from that.
    pub fn limits(&self) -> String {
        let StopRule { succeed_percent, after, by, safe_from } = self.rule;
        let Some(after) = after else {
            return "never: its policy names no failureThreshold, and the cluster no --stop-after"
                .to_owned();
        };
        let how = match after {
            1 => "the first batch in which fewer than".to_owned(),
            _ => format!("{after} batches in a row in each of which fewer than"),
        };
        let whose = match by {
            StopRuleBy::Policy => "failureThreshold",
            StopRuleBy::Floor => "the cluster's --stop-after",
        };
        let while_below = safe_from
            .map(|(from, percent)| {
                format!(
                    ", while fewer than {from} of {} nodes are through (safetyLimit {percent})",
                    self.nodes
                )
            })
            .unwrap_or_default();
        let so_far = self.failures;
        format!(
            "after {how} {succeed_percent} % succeed ({whose}){while_below}; so far {so_far} in a \
             row"
        )
    }

    /// Returns why it goes on although nodes failed; `None` where none did, or nothing goes on.
    pub fn goes_on(&self) -> Option<String> {
        if self.failed == 0 || self.stopped.is_some() || self.is_over() {
            return None;
        }
        let through = self.complete.saturating_add(self.failed);
        let (failed, nodes) = (self.failed, self.nodes);
        let because = match (self.rule.after, self.rule.safe_from) {
            (None, _) => "no number of failed batches stops it".to_owned(),
            (Some(_), Some((from, percent))) if through >= from => format!(
                "{through} are through, and from {from} on failures neither slow nor stop it \
                 (safetyLimit {percent})"
            ),
            (Some(after), _) => format!(
                "it stops after {after} failed {} in a row, so far {}",
                if after == 1 { "batch" } else { "batches" },
                self.failures
            ),
        };
        let open = self.open.filter(|open| open.failed > 0).map(|open| {
            let BatchNow { number, size, failed } = open;
            let most = (u64::from(size - failed) * 100).checked_div(u64::from(size)).unwrap_or(100);
            let percent = self.rule.succeed_percent;
            let verdict = if most < u64::from(percent) { "counts as failed" } else { "is allowed" };
            format!("; {failed} of {size} failed in batch {number}, which {verdict} ({percent} %)")
        });
        Some(format!("{failed} of {nodes} nodes failed: {because}{}", open.unwrap_or_default()))
    }

    /// Returns one word for why it goes on although nodes failed, for a condition.
    pub fn goes_on_word(&self) -> &'static str {
        let through = self.complete.saturating_add(self.failed);
        match (self.rule.after, self.rule.safe_from) {
            (None, _) => "NoFailureThreshold",
            (Some(_), Some((from, _))) if through >= from => "PastSafetyLimit",
            (Some(_), _) => "BelowFailureThreshold",
        }
    }
}
