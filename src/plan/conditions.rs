//! The conditions of a resource in upstream's words (upstream contract A.7), beside `Ready`.
//!
//! In: the verdicts of a tick and what the nodes' entries say. Out: conditions, bounded whatever
//! the size of the fleet. Those that hold are written, others are left out; `TaintNotTolerable` and
//! `NodesIgnored` are always there, as upstream has them.

use std::collections::BTreeMap;

use super::limits::cut;
use super::select::Scope;
use crate::model::{
    Condition, Entry, Executor, Group, Node, Reason, Stage, State, StatusWord, Verdict,
};

/// Names a condition spells out; the rest are a number.
const NAMES_MAX: usize = 10;

/// Names of nodes with a malformed state, and how much of each is shown, as upstream has it.
const MALFORMED_NAMES_MAX: usize = 5;
const MALFORMED_NAME_CHARS_MAX: usize = 10;

/// Longest message of a condition, so that the status stays small at any size of fleet.
pub(crate) const CONDITION_BYTES_MAX: usize = 1024;

/// Prefix under which older consumers look for conditions.
const PREFIX: &str = "nodewright.nvidia.com/";

/// Conditions that are written under the prefix too.
const MIRRORED: [&str; 5] =
    ["Ready", "TaintNotTolerable", "NodesIgnored", "ApplyPackage", "DeploymentPolicyNotFound"];

/// A word, the way out, and the reasons it is for.
type Obstruction = (&'static str, &'static str, fn(&Reason) -> bool);

/// Verdicts by node.
type Verdicts = BTreeMap<String, Verdict>;

/// Returns the conditions that these verdicts amount to, without the mirrored ones.
pub(crate) fn of_verdicts(scope: &Scope<'_>, verdicts: &Verdicts) -> Vec<Condition> {
    let going = going(scope);
    let found = [
        Some(selection("NodesIgnored", verdicts, |it| matches!(it, Reason::Ignored))),
        Some(selection("TaintNotTolerable", verdicts, |it| {
            matches!(it, Reason::TaintNotTolerated { .. })
        })),
        apply_package(scope),
        policy_not_found(verdicts),
        blocked(verdicts),
        uninstall(&going, State::InProgress),
        uninstall(&going, State::Erroring),
        malformed(verdicts),
        deletion_blocked(scope, verdicts),
    ];
    found.into_iter().flatten().collect()
}

/// Adds the conditions under the prefix, and the last change of the status word.
pub(crate) fn mirror(scope: &Scope<'_>, word: StatusWord, all: &mut Vec<Condition>) {
    let mirrored: Vec<Condition> = all
        .iter()
        .filter(|condition| MIRRORED.contains(&condition.kind.as_str()))
        .map(|it| Condition { kind: format!("{PREFIX}{}", it.kind), ..it.clone() })
        .collect();
    all.extend(mirrored);
    let kind = format!("{PREFIX}Transition");
    let before = scope.resource.status.as_ref();
    let known = before.and_then(|status| status.conditions.iter().find(|it| it.kind == kind));
    let word_before = before.map_or(StatusWord::Unknown, |status| status.word);
    all.push(match known {
        Some(known) if word_before == word => known.clone(),
        Some(_) | None => {
            let message = format!("Transitioned [{word_before}] -> [{word}]");
            condition(&kind, true, word.as_str(), &message)
        }
    });
}

pub(crate) fn condition(kind: &str, is_true: bool, reason: &str, message: &str) -> Condition {
    Condition {
        kind: kind.to_owned(),
        is_true,
        reason: reason.to_owned(),
        message: cut(message, CONDITION_BYTES_MAX),
    }
}

pub(crate) fn first_names(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn counted(nodes: usize) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

fn nodes_with(verdicts: &Verdicts, is: impl Fn(&Reason) -> bool) -> Vec<&str> {
    let found = verdicts.iter().filter(|(_, verdict)| is(&verdict.reason));
    found.map(|(name, _)| name.as_str()).collect()
}

fn selection(kind: &str, verdicts: &Verdicts, is: impl Fn(&Reason) -> bool) -> Condition {
    let names = nodes_with(verdicts, is);
    let message = match names.len() {
        0 => "no node".to_owned(),
        1 => format!("1 node: {}", names[0]),
        // Beyond this many upstream gives the number alone.
        many if many <= NAMES_MAX => format!("{many} nodes: {}", names.join(", ")),
        many => format!("{many} nodes"),
    };
    condition(kind, !names.is_empty(), kind, &message)
}

/// The last start of a package; it stays when the pod is gone.
fn apply_package(scope: &Scope<'_>) -> Option<Condition> {
    let own = scope.input.observed.executors.values().filter(|executor| {
        let name = &scope.rollout.name;
        executor.visit.rollout == *name && executor.group != Group::Pull
    });
    let newest = own.max_by_key(|executor| (executor.created, &executor.reference.name));
    if let Some(Executor { package, visit, .. }) = newest {
        let message = format!("applying package [{}] on node [{}]", package, visit.node);
        return Some(condition("ApplyPackage", true, "ApplyPackage", &message));
    }
    let before = scope.resource.status.as_ref()?;
    before.conditions.iter().find(|it| it.kind == "ApplyPackage").cloned()
}

fn policy_not_found(verdicts: &Verdicts) -> Option<Condition> {
    let missing = verdicts.values().find_map(|verdict| {
        let Reason::PolicyMissing { policy } = &verdict.reason else { return None };
        Some(policy)
    })?;
    let message = format!("DeploymentPolicy {missing} does not exist");
    Some(condition("DeploymentPolicyNotFound", true, "DeploymentPolicyNotFound", &message))
}

fn blocked(verdicts: &Verdicts) -> Option<Condition> {
    let gone = nodes_with(verdicts, |it| matches!(it, Reason::DependencyMissing { .. }));
    let protected = nodes_with(verdicts, |it| matches!(it, Reason::ProtectedPod { .. }));
    let (reason, names) = match (gone.is_empty(), protected.is_empty()) {
        (false, _) => ("DependencyUninstalled", gone),
        (true, false) => ("NonInterruptPodsRunning", protected),
        (true, true) => return None,
    };
    let first = verdicts.get(names[0])?;
    let nodes = counted(names.len());
    let message = format!("{nodes} ({}): {}", first_names(&names), first.reason);
    Some(condition("Blocked", true, reason, &message))
}

/// A node with packages that are being uninstalled, and what its record says.
type Going<'a> = (&'a Node, Vec<&'a Entry>, Option<&'a str>);

fn going<'a>(scope: &Scope<'a>) -> Vec<Going<'a>> {
    let at = |stage: Stage| matches!(stage, Stage::Uninstall | Stage::UninstallInterrupt);
    let going = scope.nodes.iter().copied().filter_map(|node| {
        // Hardly any is, and what an entry says is read sooner than whose host it is about.
        let any = node.entries(&scope.rollout.name).values().any(|entry| at(entry.stage));
        let entries = any.then(|| scope.entries(node).values())?;
        let entries = entries.filter(|entry| at(entry.stage)).collect();
        let message = scope.record(node).and_then(|record| record.message.as_deref());
        Some((node, entries, message))
    });
    going.collect()
}

/// Packages that are being uninstalled, or whose uninstall fails.
fn uninstall(going: &[Going<'_>], state: State) -> Option<Condition> {
    let mut names = Vec::new();
    let mut first = None;
    for (node, entries, message) in going {
        if let Some(entry) = entries.iter().find(|entry| entry.state == state) {
            names.push(node.name.as_str());
            first.get_or_insert((entry.id(), *message));
        }
    }
    let (package, message) = first?;
    let nodes = format!("{} ({})", counted(names.len()), first_names(&names));
    let why = message.map(|message| format!(": {message}")).unwrap_or_default();
    Some(if state == State::Erroring {
        let message = format!("uninstall of {package} fails on {nodes}{why}");
        condition("UninstallFailed", true, "UninstallPodFailing", &message)
    } else {
        let message = format!("uninstalling {package} on {nodes}");
        condition("UninstallInProgress", true, "UninstallInProgress", &message)
    })
}

fn malformed(verdicts: &Verdicts) -> Option<Condition> {
    let names = nodes_with(verdicts, |it| matches!(it, Reason::MalformedState { .. }));
    let short = |name: &&str| match name.char_indices().nth(MALFORMED_NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => (*name).to_owned(),
    };
    let shown: Vec<String> = names.iter().take(MALFORMED_NAMES_MAX).map(short).collect();
    let message = format!("{}: {}", counted(names.len()), shown.join(", "));
    (!names.is_empty()).then(|| condition("NodeStateMalformed", true, "ParseError", &message))
}

/// Why the resource cannot be deleted, with the way out; the first that applies.
fn deletion_blocked(scope: &Scope<'_>, verdicts: &Verdicts) -> Option<Condition> {
    if !scope.resource.deleting {
        return None;
    }
    let is_held: fn(&Reason) -> bool = |it| matches!(it, Reason::DeletionBlocked { .. });
    let held = if scope.resource.disabled {
        (
            "DisabledWithPendingUninstall",
            "remove the annotation nodewright.nvidia.com/disable, or set uninstall.enabled to \
             false to leave them there",
        )
    } else if scope.resource.paused {
        (
            "PausedWithPendingUninstall",
            "remove the annotation nodewright.nvidia.com/pause, or set uninstall.enabled to \
             false to leave them there",
        )
    } else {
        (
            "BudgetZero",
            "raise interruptionBudget, or set uninstall.enabled to false to leave them there",
        )
    };
    let kinds: [Obstruction; 5] = [
        ("MalformedNodeState", "repair or remove the annotation on the node", |it| {
            matches!(it, Reason::MalformedState { .. })
        }),
        (held.0, held.1, is_held),
        (
            "UninstallFailed",
            "nodewright retry node/NAME, or set uninstall.enabled to false to leave it there",
            |it| matches!(it, Reason::Failed { .. } | Reason::InterruptFailed { .. }),
        ),
        ("UninstallUnknown", "the deletion then goes on by itself", |it| {
            matches!(it, Reason::PackageFinding { .. })
        }),
        (
            "NodesNotEligible",
            "make the node eligible, delete it, or set uninstall.enabled to false; one that never \
             comes back is let go by nodewright forget node/NAME",
            |it| {
                matches!(
                    it,
                    Reason::Ignored
                        | Reason::TaintNotTolerated { .. }
                        | Reason::NodeNotReady { .. }
                        | Reason::InRepair { .. }
                )
            },
        ),
    ];
    kinds.into_iter().find_map(|(reason, way_out, is)| {
        let names = nodes_with(verdicts, is);
        let first = verdicts.get(*names.first()?)?;
        let nodes = format!("{} ({})", counted(names.len()), first_names(&names));
        let message = format!("{nodes}: {}; {way_out}", first.reason);
        Some(condition("DeletionBlocked", true, reason, &message))
    })
}
