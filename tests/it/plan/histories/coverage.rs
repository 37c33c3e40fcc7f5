//! What occurred in the histories: a rule about something that never happens proves nothing.

use std::collections::BTreeSet;

use nodewright::model::Plan;

/// Words of reasons and actions that occurred.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    pub reasons: BTreeSet<&'static str>,
    pub actions: BTreeSet<&'static str>,
}

impl Coverage {
    /// Takes in one plan.
    pub fn learn(&mut self, plan: &Plan) {
        for verdict in plan.verdicts.values().flat_map(|nodes| nodes.values()) {
            self.reasons.insert(verdict.reason.word());
        }
        self.actions.extend(plan.actions.iter().map(|action| action.word()));
    }

    /// Takes in another history's.
    pub fn merge(&mut self, other: Self) {
        self.reasons.extend(other.reasons);
        self.actions.extend(other.actions);
    }
}
