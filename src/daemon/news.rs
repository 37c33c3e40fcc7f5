//! Events for `kubectl describe node`: what was done, and what changed.
//!
//! In: executed actions and verdicts. Out: events, best effort: a rollout never waits for one.

use std::collections::BTreeMap;

use crate::cluster::events::{Events, News, Regarding, RegardingKind, Severity};
use crate::cluster::{Executed, LeaderProof, Outcome};
use crate::model::{Input, Plan, Verdict};
use crate::report::events::{self, Event, EventKind};

/// Verdicts by rollout, then node.
pub(super) type Verdicts = BTreeMap<String, BTreeMap<String, Verdict>>;

/// Tells what this tick did, and which verdicts are new since `previous`.
pub(super) fn tell(
    outlet: &Events,
    proof: &LeaderProof,
    input: &Input,
    plan: &Plan,
    executed: &[Executed],
    previous: Option<&Verdicts>,
) {
    let done = executed.iter().filter(|executed| matches!(executed.outcome, Outcome::Done));
    for event in done.filter_map(|executed| events::of_action(&executed.action)) {
        tell_one(outlet, proof, input, event);
    }
    // After a start nobody knows what was told before: it is not told again.
    let Some(previous) = previous else { return };
    for (rollout, verdicts) in &plan.verdicts {
        let known = previous.get(rollout);
        for (node, verdict) in verdicts {
            let before = known.and_then(|known| known.get(node));
            if let Some(event) = events::of_verdict(rollout, node, before, verdict) {
                tell_one(outlet, proof, input, event);
            }
        }
    }
}

fn tell_one(outlet: &Events, proof: &LeaderProof, input: &Input, event: Event) {
    let Event { node, rollout: _, kind, reason, action, note } = event;
    let Some(known) = input.observed.nodes.get(&node) else { return };
    let regarding = Regarding { kind: RegardingKind::Node, uid: known.uid.clone(), name: node };
    let severity = match kind {
        EventKind::Normal => Severity::Normal,
        EventKind::Warning => Severity::Warning,
    };
    let (reason, action) = (reason.to_owned(), action.to_owned());
    outlet.tell(proof, News { regarding, severity, reason, action, note });
}
