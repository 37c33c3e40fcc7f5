//! Begins packages: makes their entries, and what they owe, in the draft of a record.
//!
//! In: where each package stands. Out: the draft, with everything begun whose turn it is.
//! Must never: name a snapshot that does not exist yet.

use super::super::due::{self, Standing};
use super::super::gpus;
use super::super::lifecycle::Beginning;
use super::super::select::Scope;
use super::Draft;
use super::seen::seen;
use crate::model::{Entry, Node, PackageId, Record, Stage, State};

/// Begins every package whose turn it is; also used to make the entries of a pick.
pub(crate) fn begin_ready(
    scope: &Scope<'_>,
    node: &Node,
    standings: &[Standing<'_>],
    draft: &mut Draft,
) {
    let needs = due::needs_of(standings);
    let ready = due::ready(scope.rollout, &needs, &draft.entries);
    for standing in standings.iter().filter(|standing| ready.contains(&standing.name)) {
        let step = standing.step(seen(scope, node, &draft.record, standing));
        let Some(beginning) = step.beginning() else { continue };
        let begun = match beginning {
            Beginning::New(stage) | Beginning::Again(stage) => begin(scope, draft, standing, stage),
            Beginning::Following(stage) => follow(scope, draft, standing, stage),
        };
        if begun && standing.interrupt.is_some() {
            hold(scope, node, &mut draft.record);
        }
    }
}

/// Takes hold of the node: cordoned by us, or found cordoned and then left so afterwards.
pub(crate) fn hold(scope: &Scope<'_>, node: &Node, record: &mut Record) {
    if !record.held {
        record.held = true;
        record.prior_unschedulable = scope.is_foreign_cordon(node);
        record.cordoned = (!node.unschedulable).then_some(scope.input.now);
        gpus::remember(node, record);
    }
}

/// Begins a package at a stage. Returns false where its snapshot does not exist yet.
fn begin(scope: &Scope<'_>, draft: &mut Draft, standing: &Standing<'_>, stage: Stage) -> bool {
    let Some((id, entry)) = entry_at(scope, standing, stage) else { return false };
    draft.entries.retain(|other, entry| other.name != id.name || *other == id || !entry.untried);
    draft.entries.insert(id, entry);
    match &standing.interrupt {
        Some(interrupt) => {
            draft.record.interrupts_due.insert(standing.name.to_owned(), interrupt.clone());
        }
        None => {
            draft.record.interrupts_due.remove(standing.name);
        }
    }
    true
}

fn entry_at(
    scope: &Scope<'_>,
    standing: &Standing<'_>,
    stage: Stage,
) -> Option<(PackageId, Entry)> {
    let now = Some(scope.input.now);
    let (package, snapshot) = match stage {
        Stage::Uninstall | Stage::UninstallInterrupt => {
            due::uninstall_snapshot(scope, standing.wanted, standing.entry?)?
        }
        Stage::Apply | Stage::Upgrade | Stage::Config | Stage::Interrupt | Stage::PostInterrupt => {
            let wanted = standing.wanted?;
            (wanted, scope.snapshot_name(wanted).to_owned())
        }
    };
    if !scope.input.observed.snapshots.contains_key(&snapshot) {
        return None;
    }
    let id = standing.id_at(stage)?;
    let before = standing.entry.filter(|entry| entry.id() == id);
    let puts_there = matches!(stage, Stage::Apply | Stage::Upgrade);
    // What waits for an interrupt must reach the interrupt again through the record.
    let state = if stage == Stage::Interrupt { State::Skipped } else { State::InProgress };
    let entry = Entry {
        name: id.name.clone(),
        version: id.version.clone(),
        image: package.image.clone(),
        container_sha: package.container_sha.clone(),
        stage,
        state,
        restarts: None,
        applied: before
            .and_then(|before| before.put_there())
            .filter(|it| **it != snapshot)
            .cloned(),
        snapshot: Some(snapshot),
        untried: before.map_or(puts_there, |before| before.untried),
        since: now,
        left: None,
        other: before.map(|entry| entry.other.clone()).unwrap_or_default(),
    };
    Some((id, entry))
}

/// Brings an entry that has begun, but runs no pod now, to the package wanted now.
fn follow(scope: &Scope<'_>, draft: &mut Draft, standing: &Standing<'_>, stage: Stage) -> bool {
    let Some(wanted) = standing.wanted else { return false };
    let snapshot = scope.snapshot_name(wanted);
    if !scope.input.observed.snapshots.contains_key(snapshot) {
        return false;
    }
    let Some(entry) = draft.entries.get_mut(&wanted.id()) else { return false };
    entry.applied = entry.put_there().filter(|it| *it != snapshot).cloned();
    if entry.stage != stage {
        (entry.stage, entry.state) = (stage, State::InProgress);
        entry.since = Some(scope.input.now);
    }
    entry.snapshot = Some(snapshot.to_owned());
    entry.restarts = None;
    entry.image.clone_from(&wanted.image);
    entry.container_sha.clone_from(&wanted.container_sha);
    if let Some(interrupt) = &standing.interrupt {
        draft.record.interrupts_due.insert(standing.name.to_owned(), interrupt.clone());
    }
    true
}
