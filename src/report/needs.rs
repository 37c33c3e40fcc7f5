//! Sorts what stands still: what needs a person, what goes on by itself, what is off on purpose.
//!
//! In: verdicts, findings, the source. Out: groups of nodes with one text each. Never here: a
//! second wording of a reason.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::model::{
    Finding, Input, Node, Plan, Reason, Severity, Stopped, Verdict, stopped_way_out,
};

use super::concern::{Concern, concern, label, since, way_out_for};
use super::state::{NamedNodes, Need, RolloutState, SourceView, WaitGroup};
use super::survey::{failing_since, selected};
use super::wording::{MESSAGE_MAX_BYTES, clean};

/// Names kept per group: `status.json` stays bounded whatever the size of the fleet.
pub(super) const NAMES_MAX: usize = 20;

/// Words of the reasons that make a batch fail.
const FAILURES: [&str; 3] = ["DrainTimedOut", "Failed", "InterruptFailed"];

/// What was found.
pub(super) struct Found {
    pub needs_person: Vec<Need>,
    pub waits: Vec<WaitGroup>,
    pub on_purpose: Vec<WaitGroup>,
}

/// Sorts everything that stands still.
pub(super) fn find(
    input: &Input,
    plan: &Plan,
    source: &SourceView,
    rollouts: &BTreeMap<String, RolloutState>,
) -> Found {
    let mut found =
        Found { needs_person: of_source(source), waits: Vec::new(), on_purpose: Vec::new() };
    for (name, why) in &input.desired.invalid {
        let reason = Reason::InvalidResource { why: why.clone() };
        found.needs_person.push(of_rollout(name, &reason, None));
    }
    for (name, rollout) in rollouts {
        let stands: Vec<_> = selected(input, plan, name)
            .filter(|(_, verdict)| !is_said_once(verdict, input, rollout, name))
            .collect();
        let mut needs = needs_of_nodes(name, &stands);
        for (compartment, stopped) in rollout.stops() {
            if !explains(&mut needs, name, compartment, stopped) {
                let reason = stopped.clone().reason(compartment);
                found.needs_person.push(of_rollout(name, &reason, None));
            }
        }
        found.needs_person.extend(needs);
        found.waits.extend(groups(name, &stands, Concern::Waits));
        found.on_purpose.extend(groups(name, &stands, Concern::OnPurpose));
    }
    found
}

/// Returns whether a failure that is told says what stopped the compartment; it then says that it
/// did. What failed is what stopped it: one thing to do, said once.
fn explains(needs: &mut [Need], rollout: &str, compartment: &str, stopped: &Stopped) -> bool {
    let culprits = stopped.cause.iter().flat_map(|cause| &cause.nodes);
    let culprits: BTreeSet<&String> = culprits.collect();
    let mut failures = needs.iter_mut().filter(|need| {
        let is_culprit = |node: &String| culprits.is_empty() || culprits.contains(node);
        FAILURES.contains(&need.word.as_str()) && need.nodes.first.iter().any(is_culprit)
    });
    let Some(need) = failures.next() else { return false };
    let who = stopped.cause.as_ref().map(|cause| format!(" (failed: {})", cause.who()));
    let what = Stopped { cause: None, ..stopped.clone() }.reason(compartment);
    let way_out = stopped_way_out(rollout, stopped.cause.as_ref());
    need.stopped = Some(format!("{what}{}; way out: {way_out}", who.unwrap_or_default()));
    true
}

/// Returns whether the reason is that of the whole rollout and named as such already.
fn is_said_once(verdict: &Verdict, input: &Input, rollout: &RolloutState, name: &str) -> bool {
    let reason = &verdict.reason;
    (matches!(reason, Reason::Stopped { .. }) && rollout.stopped().is_some())
        || (matches!(reason, Reason::InvalidResource { .. })
            && input.desired.invalid.contains_key(name))
}

fn of_source(source: &SourceView) -> Vec<Need> {
    let error = source.error.as_ref().map(|error| Need {
        since: Some(error.since),
        ..bare("SourceError", &error.what, &error.way_out)
    });
    let held = source.held.as_ref().map(|held| Need {
        place: Some(held.revision.clone()),
        ..bare("SourceHeld", &held.why, &held.way_out)
    });
    let refused = source
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(of_finding);
    error.into_iter().chain(held).chain(refused).collect()
}

fn of_finding(finding: &Finding) -> Need {
    let rollout = finding.object.as_ref().filter(|object| object.kind == "NodeWright");
    Need {
        rollout: rollout.map(|object| object.name.clone()),
        place: Some(finding.place()),
        ..bare(&finding.code, &finding.message, &finding.way_out)
    }
}

fn of_rollout(name: &str, reason: &Reason, since: Option<Timestamp>) -> Need {
    Need {
        rollout: Some(name.to_owned()),
        since,
        ..bare(reason.word(), &reason.to_string(), &way_out_for(reason, name))
    }
}

fn bare(word: &str, message: &str, way_out: &str) -> Need {
    Need {
        word: word.to_owned(),
        rollout: None,
        nodes: NamedNodes::default(),
        place: None,
        message: clean(message, MESSAGE_MAX_BYTES),
        way_out: way_out.to_owned(),
        since: None,
        stopped: None,
    }
}

/// Returns one need for all nodes that say the same.
fn needs_of_nodes(rollout: &str, stands: &[(&Node, &Verdict)]) -> Vec<Need> {
    let mut needs: BTreeMap<(&str, String), Need> = BTreeMap::new();
    for (node, verdict) in stands {
        let reason = &verdict.reason;
        if concern(verdict) != Concern::NeedsPerson {
            continue;
        }
        let began = since(reason).or_else(|| failing_since(node, rollout));
        let need = needs
            .entry((reason.word(), reason.to_string()))
            .or_insert_with(|| of_rollout(rollout, reason, began));
        need.since = earlier(need.since, began);
        need.nodes.total += 1;
        if need.nodes.first.len() < NAMES_MAX {
            need.nodes.first.push(node.name.clone());
        }
    }
    needs.into_values().collect()
}

/// Returns one group for all nodes that wait for the same kind of thing.
fn groups(rollout: &str, stands: &[(&Node, &Verdict)], wanted: Concern) -> Vec<WaitGroup> {
    let mut groups: BTreeMap<&str, WaitGroup> = BTreeMap::new();
    for (node, verdict) in stands {
        let reason = &verdict.reason;
        if concern(verdict) != wanted {
            continue;
        }
        let began = since(reason);
        let group = groups.entry(reason.word()).or_insert_with(|| WaitGroup {
            rollout: rollout.to_owned(),
            word: reason.word().to_owned(),
            label: label(reason).to_owned(),
            nodes: 0,
            example_node: node.name.clone(),
            example: clean(&reason.to_string(), MESSAGE_MAX_BYTES),
            since: began,
        });
        group.nodes += 1;
        if began.is_some() && began == earlier(group.since, began) && began != group.since {
            group.since = began;
            group.example_node = node.name.clone();
            group.example = clean(&reason.to_string(), MESSAGE_MAX_BYTES);
        }
    }
    groups.into_values().collect()
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
