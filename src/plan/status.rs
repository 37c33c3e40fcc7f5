//! The status a rollout ought to show (upstream contract A.6, A.7, B.13).

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::{self, condition, first_names};
use super::select::Scope;
use super::{count, outlook};
use crate::model::{
    Condition, Guards, Memory, Outlook, Package, Reason, Status, StatusWord, Verdict, VerdictKind,
};

/// Returns the status that these verdicts and this memory amount to.
pub(crate) fn status(
    scope: &Scope<'_>,
    verdicts: &BTreeMap<String, Verdict>,
    memory: Memory,
    outlooks: &BTreeMap<String, Outlook>,
) -> Status {
    let nodes = Tally::new(scope, verdicts);
    let word = word(scope, &nodes, &memory);
    let before = scope.resource.status.as_ref();
    let observed_generation = if word == StatusWord::Complete {
        Some(scope.resource.generation)
    } else {
        before.and_then(|status| status.observed_generation)
    };
    Status {
        observed_generation,
        word,
        nodes_in_progress: count(nodes.working.len() + nodes.failed.len()),
        nodes_complete: count(nodes.done),
        nodes_total: count(nodes.total),
        packages: scope
            .rollout
            .packages
            .values()
            .map(|package| format!("{}:{}", package.name, package.version))
            .collect(),
        conditions: conditions(scope, verdicts, &nodes, word, outlooks),
        memory,
    }
}

/// Nodes by where they stand.
struct Tally<'a> {
    total: usize,
    done: usize,
    working: Vec<&'a str>,
    failed: Vec<&'a str>,
    blocked: Vec<&'a str>,
    waiting: Vec<&'a str>,
    /// In repair: the rollout is complete without them. A resource that is deleted is not.
    repaired: Vec<&'a str>,
    reasons: BTreeMap<&'static str, (usize, &'a Reason)>,
}

impl<'a> Tally<'a> {
    fn new(scope: &Scope<'_>, verdicts: &'a BTreeMap<String, Verdict>) -> Self {
        let mut tally = Self {
            total: scope.nodes.len(),
            done: 0,
            working: Vec::new(),
            failed: Vec::new(),
            blocked: Vec::new(),
            waiting: Vec::new(),
            repaired: Vec::new(),
            reasons: BTreeMap::new(),
        };
        let open = scope.records.iter().filter(|(_, record)| record.is_open());
        let open: BTreeSet<&str> = open.map(|(node, _)| node.name.as_str()).collect();
        for (name, verdict) in verdicts {
            let failed = matches!(
                verdict.reason,
                Reason::Failed { .. }
                    | Reason::InterruptFailed { .. }
                    | Reason::DrainTimedOut { .. }
            );
            match verdict.kind {
                VerdictKind::Done => {
                    tally.done += 1;
                    continue;
                }
                _ if verdict.is_through() && !scope.resource.deleting => {
                    tally.repaired.push(name);
                    continue;
                }
                _ if failed => tally.failed.push(name),
                _ if open.contains(name.as_str()) => tally.working.push(name),
                VerdictKind::Act => tally.working.push(name),
                VerdictKind::Blocked => tally.blocked.push(name),
                VerdictKind::Wait => tally.waiting.push(name),
            }
            tally.reasons.entry(verdict.reason.word()).or_insert((0, &verdict.reason)).0 += 1;
        }
        tally
    }

    fn left(&self) -> usize {
        self.total - self.done - self.repaired.len()
    }
}

/// Returns the one word (upstream contract B.13), with an open batch counting as in progress, so
/// that the moment between two nodes does not read as waiting.
fn word(scope: &Scope<'_>, nodes: &Tally<'_>, memory: &Memory) -> StatusWord {
    let policy_missing = nodes.reasons.contains_key("PolicyMissing");
    let batch_open =
        memory.compartments.values().any(|compartment| compartment.open_batch.is_some());
    let none_is_complete = nodes.total == 0 && scope.input.floor.guards == Guards::Upstream;
    if nodes.left() == 0 && (nodes.done > 0 || none_is_complete || scope.resource.deleting) {
        StatusWord::Complete
    } else if nodes.left() == 0 {
        StatusWord::Waiting
    } else if scope.resource.disabled {
        StatusWord::Disabled
    } else if scope.resource.paused {
        StatusWord::Paused
    } else if policy_missing {
        StatusWord::Blocked
    } else if !nodes.working.is_empty() || (batch_open && !nodes.waiting.is_empty()) {
        StatusWord::InProgress
    } else if nodes.failed.len() == nodes.left() {
        StatusWord::Erroring
    } else if nodes.blocked.len() + nodes.failed.len() == nodes.left() {
        StatusWord::Blocked
    } else if nodes.waiting.len() == nodes.left() {
        StatusWord::Waiting
    } else {
        StatusWord::Unknown
    }
}

fn conditions(
    scope: &Scope<'_>,
    verdicts: &BTreeMap<String, Verdict>,
    nodes: &Tally<'_>,
    word: StatusWord,
    outlooks: &BTreeMap<String, Outlook>,
) -> Vec<Condition> {
    let mut all = vec![ready(nodes, word), beside_workloads(scope)];
    all.extend(conditions::of_verdicts(scope, verdicts));
    all.extend(outlook::stopped_condition(&scope.rollout.name, outlooks));
    all.extend(outlook::failures_condition(outlooks));
    all.extend(super::drain::blocked_condition(verdicts, scope.nodes.len()));
    conditions::mirror(scope, word, &mut all);
    // In the order in which they are read back: a status that says the same is the same.
    all.sort_by(|one, other| one.kind.cmp(&other.kind));
    all
}

fn ready(nodes: &Tally<'_>, word: StatusWord) -> Condition {
    let reason = match word {
        _ if nodes.total == 0 => "NoNodesMatched",
        StatusWord::Complete => "NodesConverged",
        StatusWord::InProgress => "Progressing",
        StatusWord::Blocked => "Blocked",
        StatusWord::Erroring => "Erroring",
        StatusWord::Paused => "Paused",
        StatusWord::Waiting => "Waiting",
        StatusWord::Disabled => "Disabled",
        StatusWord::Unknown => "Unknown",
    };
    let mut message = if nodes.total == 0 {
        "no node matches spec.nodeSelectors".to_owned()
    } else {
        format!("{}/{} nodes complete", nodes.done, nodes.total)
    };
    if !nodes.repaired.is_empty() {
        let (number, names) = (nodes.repaired.len(), first_names(&nodes.repaired));
        message.push_str(&format!(", except {number} in repair ({names})"));
    }
    for (label, names) in
        [("in progress", &nodes.working), ("erroring", &nodes.failed), ("blocked", &nodes.blocked)]
    {
        if !names.is_empty() {
            message.push_str(&format!(", {} {label} ({})", names.len(), first_names(names)));
        }
    }
    if !nodes.waiting.is_empty() {
        message.push_str(&format!(", {} waiting", nodes.waiting.len()));
    }
    for (word, (number, first)) in &nodes.reasons {
        message.push_str(&format!("; {word}: {number}"));
        // What failed is what a person reads this for; the rest is on the nodes.
        if matches!(
            first,
            Reason::Failed { .. }
                | Reason::InterruptFailed { .. }
                | Reason::PullFailed { .. }
                | Reason::SelectsEverything { .. }
        ) {
            message.push_str(&format!(", first: {first}"));
        }
    }
    condition("Ready", word == StatusWord::Complete, reason, &message)
}

/// Says whether pods are moved at all: without an interrupt a package runs beside the workloads,
/// and `podNonInterruptLabels` and `drainConfig` have no effect (upstream contract B.6).
fn beside_workloads(scope: &Scope<'_>) -> Condition {
    let interrupts =
        |package: &&Package| package.interrupt.is_some() || !package.config_interrupts.is_empty();
    let interrupting: Vec<&str> = scope
        .rollout
        .packages
        .values()
        .filter(interrupts)
        .map(|package| package.name.as_str())
        .collect();
    if interrupting.is_empty() {
        let message = "no package has an interrupt: nodes are neither cordoned nor drained, and \
                       packages run beside the workloads; podNonInterruptLabels has no effect";
        return condition("RunsBesideWorkloads", true, "NoInterrupt", message);
    }
    let message = format!("nodes are cordoned and drained for {}", first_names(&interrupting));
    condition("RunsBesideWorkloads", false, "Interrupts", &message)
}
