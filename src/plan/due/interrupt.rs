//! The interrupt that a package leads to on its way from where it stands.
//!
//! In: what is wanted, the entry, and what the record says is owed. Out: one interrupt, merged.
//! Must never: forget one that is owed, or owe again what has been.

use super::super::select::Scope;
use super::super::takeover;
use super::{Wish, changed_keys, installed};
use crate::model::{Entry, Interrupt, Package, Record, Stage, State};

/// Returns the interrupt that the package leads to on its way from where it stands.
pub(super) fn interrupt(
    scope: &Scope<'_>,
    wanted: Option<&Package>,
    entry: Option<&Entry>,
    record: Option<&Record>,
    wish: Wish,
) -> Option<Interrupt> {
    let declared = wanted.and_then(|wanted| wanted.interrupt.as_ref());
    let name = wanted.map(|wanted| &wanted.name).or(entry.map(|entry| &entry.name));
    let owed = record.zip(name).and_then(|(record, name)| record.interrupts_due.get(name));
    let Some(entry) = entry else { return Interrupt::merge(owed.into_iter().chain(declared)) };
    let of_installed =
        || installed(scope, wanted, entry).and_then(|installed| installed.interrupt.as_ref());
    let taken_off = || Interrupt::merge(owed.into_iter().chain(of_installed()));
    match (wish, entry.stage) {
        (_, Stage::UninstallInterrupt) => taken_off(),
        (Wish::HigherVersion | Wish::LowerVersion, _) => declared.cloned(),
        (
            Wish::Same
            | Wish::Restated
            | Wish::OtherImage
            | Wish::OtherConfig
            | Wish::OtherConfigInterrupting,
            Stage::Uninstall,
        ) => Interrupt::merge(owed.into_iter().chain(declared)),
        (
            Wish::Same
            | Wish::Restated
            | Wish::OtherImage
            | Wish::OtherConfig
            | Wish::OtherConfigInterrupting,
            Stage::Apply | Stage::Upgrade | Stage::Config | Stage::Interrupt | Stage::PostInterrupt,
        ) => wanted.and_then(|wanted| of_wanted(scope, wanted, entry, record)),
        (
            Wish::LowerVersionAfterUninstall
            | Wish::UninstallAsked
            | Wish::RemovedWithUninstall
            | Wish::DeletedWithUninstall,
            _,
        )
        | (Wish::RemovedAsItIs | Wish::DeletedAsItIs, Stage::Uninstall) => taken_off(),
        (Wish::RemovedAsItIs | Wish::DeletedAsItIs | Wish::UninstallUnknown, _) => owed.cloned(),
    }
}

/// Returns the interrupt of a version that stands there and is the wanted one.
fn of_wanted(
    scope: &Scope<'_>,
    wanted: &Package,
    entry: &Entry,
    record: Option<&Record>,
) -> Option<Interrupt> {
    let change = wanted.interrupt_for(&changed_keys(scope, wanted, entry));
    let complete = entry.is(Stage::PostInterrupt, State::Complete)
        || (entry.is(Stage::Config, State::Complete) && wanted.interrupt.is_none());
    if complete {
        return change;
    }
    let owed = record.and_then(|record| record.interrupts_due.get(&wanted.name));
    let interrupted =
        entry.stage == Stage::PostInterrupt || entry.is(Stage::Interrupt, State::Complete);
    let owed = match (owed, record) {
        (Some(owed), _) => Some(owed.clone()),
        (None, Some(record)) if record.is_at(entry) && entry.stage != Stage::Interrupt => None,
        // Its interrupt is behind it, whoever issued it.
        (None, _) if interrupted => None,
        // The record is gone, or its visit ended without this package, or has yet to come to it.
        (None, _) => takeover::interrupt_in_scope(scope, wanted, entry),
    };
    Interrupt::merge(owed.iter().chain(&change))
}
