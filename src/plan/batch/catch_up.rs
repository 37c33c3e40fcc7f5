//! The batches of nodes that join a stopped compartment: beside the rollout, and without a verdict.
//!
//! They are opened and filled as every batch is, so no ceiling is broken and no order number is
//! given twice, but they go to the packages that were complete before, and say nothing of those
//! that stopped it.

use std::collections::BTreeMap;

use super::{Turn, budget_used, members};
use crate::model::{Memory, Node, OpenBatch, Plan, Reason, Verdict};
use crate::plan::count;
use crate::plan::first_use::FirstUse;
use crate::plan::pull::Pulls;
use crate::plan::select::Scope;

impl<'a> Turn<'_, 'a> {
    /// Returns whether the open batch is to packages other than those wanted.
    pub(super) fn catches_up(&self) -> bool {
        let open = self.status.open_batch.as_ref();
        open.is_some_and(|open| open.target != self.scope.target)
    }

    /// Returns what the others wait for while such a batch is open.
    pub(super) fn stands_beside(&self, verdicts: &BTreeMap<String, Verdict>) -> Reason {
        let stopped = self.stopped(verdicts);
        let name = &self.compartment.name;
        stopped.map_or(Reason::PreparingBatch, |stopped| stopped.reason(name))
    }

    /// Opens, fills or ends a batch of nodes that join; returns what those wait for that are not
    /// picked.
    pub(super) fn catch_up(
        &mut self,
        memory: &mut Memory,
        joining: &[&'a Node],
        verdicts: &mut BTreeMap<String, Verdict>,
        plan: &mut Plan,
    ) -> Reason {
        let name = &self.compartment.name;
        let earlier = self.joiners.scope_in(name);
        let Some(open) = self.status.open_batch.clone() else {
            return match earlier.filter(|_| !self.joiners.failed_in(name)) {
                Some(earlier) => self.open_beside(earlier, memory, joining, plan),
                None => self.stands_beside(verdicts),
            };
        };
        // The last batch of what stopped it: these wait for its verdict.
        if open.target == self.scope.target {
            return Reason::PreparingBatch;
        }
        let members = members(self.scope, &open);
        let over = members.iter().all(|(_, record)| !record.is_open());
        let full = open.given >= open.size && open.refused.is_empty();
        let halted = self.scope.input.halt.is_some();
        if let Some(earlier) = earlier.filter(|earlier| earlier.target == open.target) {
            let pulls = Pulls::new(earlier);
            let stuck = || !members.is_empty() && pulls.all_fail(joining, &open);
            if !over || halted || !(full || joining.is_empty() || stuck()) {
                let first = FirstUse::new(earlier);
                return self.fill(&first, &pulls, &open, joining, verdicts, plan);
            }
        }
        if over {
            self.status.open_batch = None;
        }
        Reason::PreparingBatch
    }

    /// Opens a batch beside the rollout, if a node of it could be picked.
    fn open_beside(
        &mut self,
        earlier: &Scope<'a>,
        memory: &mut Memory,
        joining: &[&'a Node],
        plan: &Plan,
    ) -> Reason {
        let ceiling = self.compartment.pacing.ceiling();
        let disturbed = self.disturbed(plan);
        let free_ride = joining.iter().any(|node| earlier.is_disturbed(node));
        if ceiling == 0 {
            return Reason::BudgetZero;
        }
        if joining.is_empty() || (count(disturbed.len()) >= ceiling && !free_ride) {
            return budget_used(ceiling, disturbed);
        }
        let size = ceiling.min(count(joining.len()));
        self.status.open_batch = Some(OpenBatch {
            target: earlier.target.clone(),
            number: self.status.batch_state.current_batch,
            size,
            order_from: memory.order_next,
            given: 0,
            refused: Vec::new(),
            opened: self.scope.input.now,
            first_use: false,
        });
        memory.order_next = memory.order_next.saturating_add(size);
        Reason::PreparingBatch
    }
}
