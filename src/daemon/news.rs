//! Events for `kubectl describe node`: what was done, and what changed.
//!
//! In: executed actions and verdicts. Out: events, best effort: a rollout never waits for one.

use std::collections::BTreeMap;

use super::pull::chain;
use crate::cluster::events::{Events, News, Regarding, RegardingKind, Severity};
use crate::cluster::{Executed, LeaderProof, Outcome};
use crate::model::{Input, Outlook, Plan, Verdict};
use crate::report::events::{self, Event, EventKind};

/// Verdicts by rollout, then node.
pub(super) type Verdicts = BTreeMap<String, BTreeMap<String, Verdict>>;

/// What is to come, by rollout, then compartment.
pub(super) type Outlooks = BTreeMap<String, BTreeMap<String, Outlook>>;

/// Tells what this tick did, and which verdicts, stops and holds are new since `previous`.
pub(super) fn tell(
    outlet: &Events,
    proof: &LeaderProof,
    input: &Input,
    plan: &Plan,
    executed: &[Executed],
    previous: Option<(&Verdicts, &Outlooks)>,
) {
    let done = executed.iter().filter(|executed| matches!(executed.outcome, Outcome::Done));
    for event in done.filter_map(|executed| events::of_action(&executed.action)) {
        tell_one(outlet, proof, input, event);
    }
    for Executed { action, outcome } in executed {
        if let Outcome::GaveUp(error) = outcome
            && let Some(event) = events::of_refusal(action, &chain(error))
        {
            tell_one(outlet, proof, input, event);
        }
    }
    for (rollout, verdicts) in &plan.verdicts {
        let known = previous.and_then(|(known, _)| known.get(rollout));
        if let Some(event) = events::of_hold(rollout, known, verdicts) {
            tell_one(outlet, proof, input, event);
        }
    }
    // After a start nobody knows what else was told before: it is not told again.
    let Some((verdicts_before, outlooks_before)) = previous else { return };
    for (rollout, outlooks) in &plan.outlooks {
        let Some(known) = outlooks_before.get(rollout) else { continue };
        for (compartment, outlook) in outlooks {
            let before = known.get(compartment);
            if let Some(event) = events::of_stop(rollout, compartment, before, outlook) {
                tell_one(outlet, proof, input, event);
            }
        }
    }
    for (rollout, verdicts) in &plan.verdicts {
        let known = verdicts_before.get(rollout);
        for (node, verdict) in verdicts {
            let before = known.and_then(|known| known.get(node));
            if let Some(event) = events::of_verdict(rollout, node, before, verdict) {
                tell_one(outlet, proof, input, event);
            }
        }
    }
}

fn tell_one(outlet: &Events, proof: &LeaderProof, input: &Input, event: Event) {
    let Event { node, rollout, kind, reason, action, note } = event;
    let (kind_about, name) = match node {
        Some(node) => (RegardingKind::Node, node),
        None => (RegardingKind::NodeWright, rollout),
    };
    let uid = match kind_about {
        RegardingKind::Node => input.observed.nodes.get(&name).map(|node| &node.uid),
        RegardingKind::NodeWright => input.observed.resources.get(&name).map(|found| &found.uid),
    };
    let Some(uid) = uid.cloned() else { return };
    let regarding = Regarding { kind: kind_about, uid, name };
    let severity = match kind {
        EventKind::Normal => Severity::Normal,
        EventKind::Warning => Severity::Warning,
    };
    let (reason, action) = (reason.to_owned(), action.to_owned());
    outlet.tell(proof, News { regarding, severity, reason, action, note });
}
