//! What is due on a node: each wanted package against its entry and its snapshot.
//!
//! A package that was put there by upstream has no snapshot; it counts as configured as wanted, so
//! that taking over a cluster runs nothing again.

use std::collections::{BTreeMap, BTreeSet};

use super::select::Scope;
use super::takeover;
use crate::model::{Entries, Entry, Interrupt, Package, Record, Rollout, Stage, State};

/// What one package still needs on one node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Need {
    /// The stage to run next.
    pub stage: Stage,
    /// The interrupt it leads to.
    pub interrupt: Option<Interrupt>,
    /// Its work has begun; it is not a change that waits for its turn.
    pub begun: bool,
}

/// Returns what is due, by package name; a package that is absent is as wanted.
pub(crate) fn needs(
    scope: &Scope<'_>,
    entries: &Entries,
    record: Option<&Record>,
) -> BTreeMap<String, Need> {
    if scope.resource.deleting {
        return BTreeMap::new(); // Nothing is installed any more.
    }
    let wanted = scope.rollout.packages.values().filter(|package| !package.uninstall.apply);
    wanted
        .filter_map(|package| {
            let need = need(scope, package, entries, record)?;
            Some((package.name.clone(), need))
        })
        .collect()
}

/// Returns whether the entry says that nothing more is to run for it.
///
/// We end a package that declares an interrupt at post-interrupt even where the last change needed
/// none: upstream would otherwise interrupt it again when the cluster is handed back. One of
/// upstream's own that stands at config is complete only without an interrupt (B.2).
pub(crate) fn is_complete(entry: &Entry, package: &Package) -> bool {
    entry.is(Stage::PostInterrupt, State::Complete)
        || (entry.is(Stage::Config, State::Complete) && package.interrupt.is_none())
}

/// Returns the stage at which a package without an interrupt in scope is complete.
pub(crate) fn last_stage(package: &Package) -> Stage {
    if package.interrupt.is_some() { Stage::PostInterrupt } else { Stage::Config }
}

fn need(
    scope: &Scope<'_>,
    package: &Package,
    entries: &Entries,
    record: Option<&Record>,
) -> Option<Need> {
    let Some(entry) = entries.get(&package.id()) else {
        let stage = first_stage(package, entries);
        return Some(Need { stage, interrupt: package.interrupt.clone(), begun: false });
    };
    if is_overlaid(entry, entries) {
        let stage = Stage::Apply;
        return Some(Need { stage, interrupt: package.interrupt.clone(), begun: false });
    }
    let changed = changed_keys(scope, package, entry);
    let change_interrupt = package.interrupt_for(&changed);
    if is_complete(entry, package) {
        let stage = Stage::Config;
        let interrupt = change_interrupt;
        return (!changed.is_empty()).then_some(Need { stage, interrupt, begun: false });
    }
    let owed = record.and_then(|record| record.interrupts_due.get(&package.name)).cloned();
    let interrupted =
        entry.stage == Stage::PostInterrupt || entry.is(Stage::Interrupt, State::Complete);
    let interrupt = match (owed, record) {
        (Some(owed), _) => Some(owed),
        (None, Some(record)) if record.is_open() && entry.stage != Stage::Interrupt => None,
        // Its interrupt is behind it, whoever issued it.
        (None, _) if interrupted => None,
        // The record is gone, or its visit ended without this package: the safe side.
        (None, _) => takeover::interrupt_in_scope(scope, package, entry),
    };
    let interrupt = Interrupt::merge(interrupt.iter().chain(&change_interrupt));
    let stage = resume_stage(entry, interrupt.is_some())?;
    // A change that came while the package was past its configuration is configured first.
    let stage = if changed.is_empty() { stage } else { stage.min(Stage::Config) };
    Some(Need { stage, interrupt, begun: true })
}

/// Returns whether a visit has the entry at a place from which it goes on: what a visit writes.
/// Whoever else wrote another one, such as a later version of this daemon, it is begun anew.
pub(crate) fn is_under_way(record: &Record, entry: &Entry) -> bool {
    match entry.stage {
        Stage::Apply | Stage::Upgrade | Stage::Config | Stage::PostInterrupt => {
            matches!(entry.state, State::InProgress | State::Erroring)
        }
        Stage::Interrupt => {
            entry.state == State::Skipped && record.interrupts_due.contains_key(&entry.name)
        }
        Stage::Uninstall | Stage::UninstallInterrupt => false,
    }
}

/// Returns whether another version of the package was begun on top of this one and not finished,
/// as after a commit that is reverted while its nodes are being visited: what is on the host is
/// then neither of the two.
fn is_overlaid(entry: &Entry, entries: &Entries) -> bool {
    entries.values().any(|other| {
        other.name == entry.name
            && other.version != entry.version
            && other.state != State::Complete
            && other.since >= entry.since
    })
}

/// Returns the stage a version that is not on the node begins with.
///
/// Upgrade only from a lower version whose `apply` was completed: a package that never came past
/// it has nothing to upgrade from, and its `upgrade` steps may be none at all.
fn first_stage(package: &Package, entries: &Entries) -> Stage {
    let from_lower = entries.values().any(|entry| {
        let lower = entry
            .version
            .parse::<crate::model::Version>()
            .is_ok_and(|version| version.precedence(&package.version) == std::cmp::Ordering::Less);
        let applied = match entry.stage {
            Stage::Apply | Stage::Upgrade => entry.state == State::Complete,
            Stage::Config | Stage::Interrupt | Stage::PostInterrupt => true,
            Stage::Uninstall | Stage::UninstallInterrupt => false,
        };
        entry.name == package.name && lower && applied
    });
    if from_lower { Stage::Upgrade } else { Stage::Apply }
}

/// Returns the stage to go on with, `None` when nothing is left.
fn resume_stage(entry: &Entry, interrupt_due: bool) -> Option<Stage> {
    let complete = entry.state == State::Complete;
    match entry.stage {
        Stage::Apply | Stage::Upgrade if complete => Some(Stage::Config),
        Stage::Config if complete => interrupt_due.then_some(Stage::Interrupt),
        Stage::Interrupt if complete => Some(Stage::PostInterrupt),
        Stage::PostInterrupt if complete => None,
        // The manifest has lost its interrupt meanwhile: the package ends where one without ends.
        Stage::Interrupt if !interrupt_due => Some(Stage::Config),
        Stage::Apply | Stage::Upgrade | Stage::Config | Stage::Interrupt | Stage::PostInterrupt => {
            Some(entry.stage)
        }
        // An uninstall that is no longer asked for: what is left on the host is not known.
        Stage::Uninstall | Stage::UninstallInterrupt => Some(Stage::Apply),
    }
}

/// Returns the config keys that differ between what was put on the node and what is wanted.
///
/// A snapshot that somebody deleted cannot be compared: then every key counts as changed, unless
/// its name, which is a digest of its content, says that it was the wanted one.
pub(crate) fn changed_keys(
    scope: &Scope<'_>,
    package: &Package,
    entry: &Entry,
) -> BTreeSet<String> {
    match &entry.snapshot {
        None => BTreeSet::new(),
        Some(name) if name == scope.snapshot_name(package) => BTreeSet::new(),
        Some(name) => match scope.input.observed.snapshots.get(name) {
            Some(snapshot) => package.changed_keys(&snapshot.package),
            None => package.config_map.keys().cloned().collect(),
        },
    }
}

/// Returns the names of the packages that may run now: due, and everything they depend on is
/// complete (upstream contract B.4). With `serial`, only the first of them by name.
pub(crate) fn ready<'a>(
    rollout: &'a Rollout,
    needs: &BTreeMap<String, Need>,
    entries: &Entries,
) -> Vec<&'a Package> {
    let due = rollout.packages.values().filter(|package| needs.contains_key(&package.name));
    let ready = due.filter(|package| {
        package.depends_on.iter().all(|(name, version)| {
            let parent = rollout.packages.get(name);
            let exact = parent.is_some_and(|parent| parent.version.as_str() == version.as_str());
            let there = parent.is_some_and(|parent| entries.contains_key(&parent.id()));
            exact && there && !needs.contains_key(name)
        })
    });
    if rollout.serial { ready.take(1).collect() } else { ready.collect() }
}
