//! What taking a cluster over from upstream's operator would do, node by node.
//!
//! In: one look at the cluster and the plan for it. Out: text. Never here: a decision; what would
//! happen is what the plan says, and this only puts beside it what upstream left.

use std::collections::BTreeMap;

use crate::model::{
    CordonMark, Entry, Input, Node, Plan, Reason, Rollout, Stage, State, UpstreamStatus, Verdict,
    VerdictKind,
};

/// Names in one line; the rest is a number, so that a large fleet can be read.
const NAMES_MAX: usize = 10;

/// The stages of an install in their order; an upgrade stands in the place of apply.
const ORDER: [Stage; 4] = [Stage::Apply, Stage::Config, Stage::Interrupt, Stage::PostInterrupt];

/// What a cluster that upstream ran would go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// One line for each rollout, and what is to be known of all its nodes.
    pub summary: Vec<String>,
    /// The same, with a paragraph for every node that is not simply complete.
    pub details: Vec<String>,
    /// Nodes whose annotations cannot be read, as `rollout node: why`.
    pub malformed: Vec<String>,
}

/// Returns what taking over would do.
pub fn adoption(input: &Input, plan: &Plan) -> Adoption {
    let mut adoption = Adoption { summary: Vec::new(), details: Vec::new(), malformed: Vec::new() };
    for rollout in input.desired.rollouts.values() {
        let none = BTreeMap::new();
        let verdicts = plan.verdicts.get(&rollout.name).unwrap_or(&none);
        let headline = headline(input, rollout, verdicts);
        adoption.summary.push(headline.clone());
        adoption.details.push(headline);
        adoption.details.extend(of_status(input, rollout));
        let complete: Vec<&str> = verdicts
            .iter()
            .filter(|(name, verdict)| is_plain(input, rollout, name, verdict))
            .map(|(name, _)| name.as_str())
            .collect();
        if !complete.is_empty() {
            adoption.details.push(format!("  complete as is: {}", names(&complete)));
        }
        for (name, verdict) in verdicts {
            let Some(node) = input.observed.nodes.get(name) else { continue };
            if let Reason::MalformedState { why } = &verdict.reason {
                adoption.malformed.push(format!("{} {name}: {why}", rollout.name));
            }
            if !is_plain(input, rollout, name, verdict) {
                adoption.details.extend(paragraph(input, rollout, node, verdict));
            }
        }
    }
    for (name, why) in &input.desired.invalid {
        let line = format!("rollout {name} cannot be read, and its nodes are left alone: {why}");
        adoption.summary.push(line.clone());
        adoption.details.push(line);
    }
    adoption
}

fn headline(input: &Input, rollout: &Rollout, verdicts: &BTreeMap<String, Verdict>) -> String {
    let count = |test: &dyn Fn(&str, &Verdict) -> bool| {
        verdicts.iter().filter(|(name, verdict)| test(name, verdict)).count()
    };
    let complete = count(&|_, verdict| verdict.kind == VerdictKind::Done);
    let waiting = count(&|_, verdict| matches!(verdict.reason, Reason::UpstreamWork { .. }));
    let malformed = count(&|_, verdict| matches!(verdict.reason, Reason::MalformedState { .. }));
    let going_on = count(&|name, verdict| {
        let node = input.observed.nodes.get(name);
        verdict.kind != VerdictKind::Done
            && !matches!(
                verdict.reason,
                Reason::UpstreamWork { .. } | Reason::MalformedState { .. }
            )
            && node.is_some_and(|node| unfinished(rollout, node).next().is_some())
    });
    let rest = verdicts.len() - complete - waiting - malformed - going_on;
    let mut parts = vec![format!("{complete} complete as they are")];
    for (number, words) in [
        (going_on, "go on where upstream left them"),
        (waiting, "wait for what upstream still runs"),
        (malformed, "cannot be read and are left alone"),
        (rest, "have work that upstream had not begun"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {words}"));
        }
    }
    format!("rollout {}: {} nodes, {}", rollout.name, verdicts.len(), parts.join(", "))
}

/// Returns what upstream remembers of the rollout as a whole.
fn of_status(input: &Input, rollout: &Rollout) -> Vec<String> {
    let resource = input.observed.resources.get(&rollout.name);
    let Some(upstream) = resource.and_then(|resource| resource.upstream.as_ref()) else {
        return Vec::new();
    };
    let mut lines = vec![format!("  order numbers go on from {}", upstream.order_next())];
    for (name, batch) in upstream.batches.iter().filter(|(_, batch)| batch.should_stop) {
        lines.push(format!(
            "  compartment {name} was stopped after {} failed batches in a row, and stays so",
            batch.consecutive_failures
        ));
    }
    lines
}

/// Returns whether there is nothing to say of the node but that it is complete.
fn is_plain(input: &Input, rollout: &Rollout, name: &str, verdict: &Verdict) -> bool {
    let node = input.observed.nodes.get(name);
    verdict.kind == VerdictKind::Done
        && node
            .is_none_or(|node| cordon(rollout, node).is_none() && !has_former_keys(rollout, node))
}

fn paragraph(input: &Input, rollout: &Rollout, node: &Node, verdict: &Verdict) -> Vec<String> {
    let mut lines = vec![format!("  node {}: {}", node.name, outlook(rollout, node, verdict))];
    let mut add = |line: String| lines.push(format!("    {line}"));
    let upstream = input.observed.resources.get(&rollout.name);
    let upstream = upstream.and_then(|resource| resource.upstream.as_ref());
    if upstream.is_some_and(|upstream| is_running(upstream, node)) {
        add("goes first: it was in the batch that upstream was running".to_owned());
    }
    let done: Vec<String> = node.entries(&rollout.name).values().filter_map(never_again).collect();
    if !done.is_empty() {
        add(format!("never run again: {}", done.join(", ")));
    }
    let left = node.entries(&rollout.name).keys().filter(|id| rollout.package(id).is_none());
    let left: Vec<String> = left.map(ToString::to_string).collect();
    if !left.is_empty() {
        add(format!("no longer wanted, stays on the host: {}", left.join(", ")));
    }
    if let Some(words) = cordon(rollout, node) {
        add(words);
    }
    if has_former_keys(rollout, node) {
        add("has keys under skyhook.nvidia.com/, which the first patch moves".to_owned());
    }
    lines
}

/// Returns what would be done on the node.
fn outlook(rollout: &Rollout, node: &Node, verdict: &Verdict) -> String {
    if verdict.kind == VerdictKind::Done {
        return "complete as it is".to_owned();
    }
    if matches!(verdict.reason, Reason::UpstreamWork { .. } | Reason::MalformedState { .. }) {
        return verdict.reason.to_string();
    }
    let going_on: Vec<String> = unfinished(rollout, node)
        .map(|entry| format!("{} of {} ({})", entry.stage, entry.id(), entry.state))
        .collect();
    if going_on.is_empty() {
        return verdict.reason.to_string();
    }
    format!("goes on from {}: {}", going_on.join(" and "), verdict.reason)
}

fn is_running(upstream: &UpstreamStatus, node: &Node) -> bool {
    upstream.node_priority.contains_key(&node.name)
}

/// Returns the wanted entries that upstream began and did not end.
fn unfinished<'a>(rollout: &'a Rollout, node: &'a Node) -> impl Iterator<Item = &'a Entry> {
    node.entries(&rollout.name).values().filter(|entry| {
        let ended = matches!(entry.stage, Stage::Config | Stage::PostInterrupt)
            && entry.state == State::Complete;
        entry.snapshot.is_none() && !ended && rollout.package(&entry.id()).is_some()
    })
}

/// Returns the stages of an entry that are behind it.
fn never_again(entry: &Entry) -> Option<String> {
    let position = |stage: Stage| ORDER.iter().position(|other| *other == stage);
    let reached = match entry.stage {
        Stage::Upgrade => position(Stage::Apply),
        Stage::Uninstall | Stage::UninstallInterrupt => None,
        stage @ (Stage::Apply | Stage::Config | Stage::Interrupt | Stage::PostInterrupt) => {
            position(stage)
        }
    }?;
    let behind = reached + usize::from(entry.state == State::Complete);
    let last = ORDER.get(behind.checked_sub(1)?)?;
    Some(format!("{} up to {last}", entry.id()))
}

/// Returns who holds the node cordoned, and what becomes of it.
fn cordon(rollout: &Rollout, node: &Node) -> Option<String> {
    let others: Vec<String> = node
        .cordons
        .iter()
        .filter_map(|mark| match mark {
            CordonMark::Rollout(name) if *name == rollout.name => None,
            CordonMark::Rollout(name) => Some(format!("rollout {name}")),
            CordonMark::RuntimeRequired => Some("runtimeRequiredCordonAfter".to_owned()),
        })
        .collect();
    match (node.is_cordoned_by(&rollout.name), others.is_empty(), node.unschedulable) {
        (true, true, _) => Some("cordoned for this rollout: lifted when it is done".to_owned()),
        (true, false, _) => {
            Some(format!("cordoned for this rollout and for {}", others.join(", ")))
        }
        (false, false, true) => Some(format!("cordoned for {}", others.join(", "))),
        (false, true, true) => Some("cordoned by somebody else: never lifted".to_owned()),
        (false, _, false) => None,
    }
}

fn has_former_keys(rollout: &Rollout, node: &Node) -> bool {
    node.rollouts.get(&rollout.name).is_some_and(|state| state.legacy)
}

fn names(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
