//! What is seen of a package during a visit: the last argument of the table.
//!
//! In: the node's record and executors. Out: one [`Seen`] per package.
//! Must never: decide what follows from it.

use super::super::due::Standing;
use super::super::lifecycle::Seen;
use super::super::select::Scope;
use super::attempt_key;
use crate::model::{Entry, Executor, Group, Node, Phase, Record, Stage};

/// Returns what is seen of a package now, once everything that has ended is recorded.
pub(crate) fn seen(
    scope: &Scope<'_>,
    node: &Node,
    record: &Record,
    standing: &Standing<'_>,
) -> Seen {
    if record.phase == Phase::Interrupting {
        return in_interrupt(scope, node, record, standing);
    }
    if let Some(executor) = active(scope, node, standing.name) {
        let recorded = standing.entry.is_some_and(|entry| {
            entry.snapshot.as_ref() == Some(&executor.snapshot)
                && group_of(entry.stage) == executor.group
        });
        return match executor.is_replaceable() {
            false => Seen::Running,
            true if recorded => Seen::CannotStart,
            true => Seen::Outdated,
        };
    }
    match standing.entry {
        Some(entry) if is_in_hand(record, entry) => match record.phase {
            Phase::Interrupted => Seen::AfterInterrupt,
            Phase::Picked | Phase::Interrupting | Phase::Released => Seen::Idle,
        },
        Some(entry) if record.phase == Phase::Interrupted && record.has_touched(entry) => {
            Seen::Spent
        }
        Some(_) | None => Seen::Untouched,
    }
}

fn in_interrupt(scope: &Scope<'_>, node: &Node, record: &Record, standing: &Standing<'_>) -> Seen {
    let carrier = record.interrupt.as_ref().map(|interrupt| &interrupt.package);
    if carrier.is_none_or(|carrier| carrier.name != standing.name) {
        return Seen::InterruptElsewhere;
    }
    let key = attempt_key(Group::Interrupt, standing.name);
    let recorded = record.attempts.get(&key).copied().unwrap_or(0);
    let issued = here(scope, node).iter().any(|executor| {
        executor.group == Group::Interrupt
            && executor.visit.rollout == scope.rollout.name
            && executor.visit.node_uid == node.uid
            && executor.visit.visit == record.visit
            && executor.package.name == standing.name
            && executor.attempt > recorded
    });
    if issued { Seen::InterruptIssued } else { Seen::CarriesInterrupt }
}

/// Returns the executor of any visit that may still do something for the package.
pub(crate) fn active<'a>(scope: &Scope<'a>, node: &Node, package: &str) -> Option<&'a Executor> {
    let of_package = |executor: &&&Executor| {
        executor.is_active()
            && executor.group != Group::Pull
            && executor.visit.rollout == scope.rollout.name
            && executor.package.name == package
    };
    let mut active: Vec<&Executor> = here(scope, node).iter().filter(of_package).copied().collect();
    // One that runs says more than one that cannot start.
    active.sort_by_key(|executor| executor.is_replaceable());
    active.first().copied()
}

/// Returns the group of executors that works at a stage.
pub(crate) fn group_of(stage: Stage) -> Group {
    match stage {
        Stage::Apply | Stage::Upgrade | Stage::Config => Group::Install,
        Stage::Interrupt | Stage::UninstallInterrupt => Group::Interrupt,
        Stage::PostInterrupt => Group::Verify,
        Stage::Uninstall => Group::Uninstall,
    }
}

/// Returns whether the visit goes on from where the entry is. One that waits for an interrupt
/// must be owed it by the record: it would wait for ever otherwise.
fn is_in_hand(record: &Record, entry: &Entry) -> bool {
    let waits = matches!(entry.stage, Stage::Interrupt | Stage::UninstallInterrupt);
    record.has_touched(entry) && (!waits || record.interrupts_due.contains_key(&entry.name))
}

fn here<'s, 'a>(scope: &'s Scope<'a>, node: &Node) -> &'s [&'a Executor] {
    scope.executors.get(node.name.as_str()).map_or(&[][..], Vec::as_slice)
}
