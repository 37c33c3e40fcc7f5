//! How large the next batch is, and when there is none: upstream contract B.10 in whole numbers.
//!
//! In: a pace, the counters of a compartment, and how many nodes are in it. Out: the size of the
//! next batch, the counters after a verdict, and the sizes of the batches to come. Never here: a
//! node, a plan, the time.
//!
//! Differs from upstream: the budget caps the batch also where a strategy is set, and the cluster's
//! floor stops a rollout whose policy names no `failureThreshold`.

use crate::model::{BatchState, Growth, OpenBatch, Pace, Strategy};

/// A pace in a compartment of a certain size, under the floor of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// How the nodes are paced.
    pub pace: Pace,
    /// Nodes in the compartment, those among them that may not be picked included, and those in
    /// repair not.
    pub nodes: u32,
    /// Failed batches in a row that stop it where the strategy names no number; `None` never does.
    pub stop_after: Option<u32>,
}

/// Nodes by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// Nodes that have what is wanted.
    pub complete: u32,
    /// Nodes that failed for good.
    pub failed: u32,
}

/// What a forecast assumes of the batches to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assumption {
    /// Every node succeeds.
    Success,
    /// Every node fails, as in a batch whose package is broken.
    Failure,
}

/// The batches to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// Their sizes, in order.
    pub batches: Vec<u32>,
    /// After them the compartment stops, with nodes left.
    pub stops: bool,
}

impl Pacing {
    /// Returns how many nodes may be disturbed at once.
    pub fn ceiling(&self) -> u32 {
        self.pace.budget.ceiling(self.nodes)
    }

    /// Returns the most nodes that the next batch may have; the ceiling at most, and 1 at least
    /// where the ceiling is.
    pub fn next_batch(&self, state: &BatchState) -> u32 {
        let Some(strategy) = self.pace.strategy else { return self.ceiling() };
        self.grown(strategy, state).max(1).min(self.ceiling())
    }

    fn grown(&self, strategy: Strategy, state: &BatchState) -> u32 {
        let last = state.last_batch_size;
        if last == 0 {
            return strategy.initial_batch;
        }
        let slower = state.last_batch_failed && self.progress(state) < strategy.safety_limit;
        match strategy.growth {
            Growth::Fixed => strategy.initial_batch,
            Growth::Linear(delta) if slower => last.saturating_sub(delta),
            Growth::Linear(delta) => last.saturating_add(delta),
            Growth::Exponential(factor) if slower => last / factor.max(1),
            Growth::Exponential(factor) => last.saturating_mul(factor).min(self.nodes),
        }
    }

    /// Returns how much of the compartment is through, well or not, in percent.
    pub fn progress(&self, state: &BatchState) -> u32 {
        let through = u64::from(state.completed_nodes) + u64::from(state.failed_nodes);
        let percent = (through * 100).checked_div(u64::from(self.nodes)).unwrap_or(100);
        u32::try_from(percent).unwrap_or(u32::MAX)
    }

    /// Counts a batch that is over.
    ///
    /// `batch` is how its own nodes ended, `now` how all nodes of the compartment stand. A batch of
    /// which nobody ended is no batch: its nodes were let go, and it comes again.
    pub fn judge(&self, state: &mut BatchState, batch: Ended, now: Ended) {
        let size = batch.complete.saturating_add(batch.failed);
        if size == 0 {
            return;
        }
        state.current_batch = state.current_batch.saturating_add(1);
        state.last_batch_size = size;
        state.completed_nodes = now.complete;
        state.failed_nodes = now.failed;
        let percent = u64::from(batch.complete) * 100 / u64::from(size);
        let threshold = self.pace.strategy.map_or(100, |strategy| strategy.batch_threshold);
        state.last_batch_failed = percent < u64::from(threshold);
        if !state.last_batch_failed {
            state.consecutive_failures = 0;
            return;
        }
        state.consecutive_failures = state.consecutive_failures.saturating_add(1);
        state.should_stop = self.is_too_many(state);
    }

    /// Counts an open batch that is over, which may say nothing of the policy's pace.
    pub fn judge_open(&self, open: &OpenBatch, state: &mut BatchState, batch: Ended, now: Ended) {
        if open.says_no_pace(state) {
            self.judge_cut(state, batch, now);
        } else {
            self.judge(state, batch, now);
        }
    }

    /// Counts a batch that says nothing of the policy's pace, such as one that was cut down for a
    /// first use: the next one has the size it would have had.
    fn judge_cut(&self, state: &mut BatchState, batch: Ended, now: Ended) {
        let paced = state.last_batch_size;
        self.judge(state, batch, now);
        state.last_batch_size = paced;
    }

    /// Returns whether so many failed batches in a row stop the compartment.
    ///
    /// The safety limit is the policy's word on its own threshold; the cluster's floor knows none.
    fn is_too_many(&self, state: &BatchState) -> bool {
        let named = self
            .pace
            .strategy
            .and_then(|strategy| Some((strategy.failure_threshold?, strategy.safety_limit)));
        match named {
            Some((threshold, safety_limit)) => {
                self.progress(state) < safety_limit && state.consecutive_failures >= threshold
            }
            None => self.stop_after.is_some_and(|limit| state.consecutive_failures >= limit),
        }
    }

    /// Returns the batches in which `left` nodes will go, from the counters on.
    pub fn forecast(&self, state: &BatchState, left: u32, assumed: Assumption) -> Forecast {
        let now = Ended { complete: state.completed_nodes, failed: state.failed_nodes };
        self.forecast_from(state, now, left, assumed, None)
    }

    /// Returns the same where `now` is how all nodes of the compartment stand: they may have moved
    /// since the last verdict, by hand or with nodes that join and leave. A batch has at most `cut`
    /// nodes until the first that succeeds.
    pub fn forecast_from(
        &self,
        state: &BatchState,
        now: Ended,
        left: u32,
        assumed: Assumption,
        cut: Option<u32>,
    ) -> Forecast {
        let (mut state, mut now, mut left) = (state.clone(), now, left);
        let mut cut = cut;
        let mut batches = Vec::new();
        while left > 0 && !state.should_stop {
            let paced = self.next_batch(&state).min(left);
            let size = paced.min(cut.unwrap_or(paced));
            if size == 0 {
                return Forecast { batches, stops: true };
            }
            batches.push(size);
            left -= size;
            let batch = match assumed {
                Assumption::Success => Ended { complete: size, failed: 0 },
                Assumption::Failure => Ended { complete: 0, failed: size },
            };
            now.complete = now.complete.saturating_add(batch.complete);
            now.failed = now.failed.saturating_add(batch.failed);
            if size < paced {
                self.judge_cut(&mut state, batch, now);
            } else {
                self.judge(&mut state, batch, now);
            }
            cut = cut.filter(|_| assumed == Assumption::Failure);
        }
        Forecast { batches, stops: left > 0 }
    }
}
