//! The rows of the table, by what is seen.

use super::{At, Finding, Owes, Step, Wish};
use crate::model::{Group, Stage, State};

/// What the next visit does first; what a visit does first with a package it has not touched.
pub(super) fn due(at: At, owes: Owes, wish: Wish) -> Step {
    let Some((stage, state)) = at else { return absent(wish) };
    match wish {
        Wish::Same
        | Wish::Restated
        | Wish::OtherImage
        | Wish::OtherConfig
        | Wish::OtherConfigInterrupting => wanted(stage, state, owes, wish),
        Wish::HigherVersion => match (stage, state) {
            (Stage::UninstallInterrupt, _) => take_off(stage, state, owes),
            (Stage::Apply, State::Complete)
            | (Stage::Upgrade | Stage::Config | Stage::Interrupt | Stage::PostInterrupt, _) => {
                Step::Begin(Stage::Upgrade)
            }
            // A version that never came past its apply is nothing to upgrade from.
            (Stage::Apply | Stage::Uninstall, _) => Step::Begin(Stage::Apply),
        },
        Wish::LowerVersion => match stage {
            Stage::UninstallInterrupt => take_off(stage, state, owes),
            Stage::Apply
            | Stage::Upgrade
            | Stage::Config
            | Stage::Interrupt
            | Stage::PostInterrupt
            | Stage::Uninstall => Step::Begin(Stage::Apply),
        },
        // The interrupt that the uninstall owes is merged into that of the version that follows.
        Wish::LowerVersionAfterUninstall if (stage, state) == OFF => Step::Remove,
        Wish::LowerVersionAfterUninstall
        | Wish::UninstallAsked
        | Wish::RemovedWithUninstall
        | Wish::DeletedWithUninstall => take_off(stage, state, owes),
        // It failed, and a person has said since that it need not go: nothing holds the resource.
        Wish::DeletedAsItIs if has_failed_to_go(stage, state, owes) => Step::Leave,
        Wish::RemovedAsItIs | Wish::DeletedAsItIs => match stage {
            // One that was begun goes on.
            Stage::Uninstall | Stage::UninstallInterrupt => take_off(stage, state, owes),
            Stage::Apply
            | Stage::Upgrade
            | Stage::Config
            | Stage::Interrupt
            | Stage::PostInterrupt => Step::Leave,
        },
        Wish::UninstallUnknown => Step::Finding(Finding::UninstallUnknown),
    }
}

fn has_failed_to_go(stage: Stage, state: State, owes: Owes) -> bool {
    let at_stage = match stage {
        Stage::Uninstall => true,
        Stage::UninstallInterrupt => owes == Owes::Interrupt,
        Stage::Apply | Stage::Upgrade | Stage::Config | Stage::Interrupt | Stage::PostInterrupt => {
            false
        }
    };
    at_stage && state == State::Erroring
}

/// What an uninstall that ended and was not yet followed up says.
const OFF: (Stage, State) = (Stage::Uninstall, State::Complete);

/// Nothing of the package stands there: absent is uninstalled (upstream contract B.15).
fn absent(wish: Wish) -> Step {
    match wish {
        Wish::Same
        | Wish::Restated
        | Wish::OtherImage
        | Wish::OtherConfig
        | Wish::OtherConfigInterrupting
        | Wish::HigherVersion
        | Wish::LowerVersion
        | Wish::LowerVersionAfterUninstall => Step::Begin(Stage::Apply),
        Wish::UninstallAsked
        | Wish::RemovedWithUninstall
        | Wish::RemovedAsItIs
        | Wish::DeletedWithUninstall
        | Wish::DeletedAsItIs
        | Wish::UninstallUnknown => Step::Rest,
    }
}

/// The version that stands there is the wanted one.
fn wanted(stage: Stage, state: State, owes: Owes, wish: Wish) -> Step {
    let other_config = matches!(wish, Wish::OtherConfig | Wish::OtherConfigInterrupting);
    let complete = state == State::Complete;
    let stage = match stage {
        Stage::PostInterrupt if complete => return at_rest(wish),
        Stage::Config if complete && (other_config || owes == Owes::Nothing) => {
            return at_rest(wish);
        }
        Stage::Config if complete => Stage::Interrupt,
        Stage::Apply | Stage::Upgrade if complete => Stage::Config,
        Stage::Interrupt if complete => Stage::PostInterrupt,
        // The manifest has lost its interrupt meanwhile: it ends where one without ends.
        Stage::Interrupt if owes == Owes::Nothing => Stage::Config,
        Stage::Apply | Stage::Upgrade | Stage::Config | Stage::Interrupt | Stage::PostInterrupt => {
            stage
        }
        // It is off the host, or half of it is: put there again.
        Stage::Uninstall => Stage::Apply,
        // Too late to cancel.
        Stage::UninstallInterrupt => return take_off(stage, state, owes),
    };
    // A change that came while the package was past its configuration is configured first.
    Step::Resume(if other_config { stage.min(Stage::Config) } else { stage })
}

/// The wanted version is complete.
fn at_rest(wish: Wish) -> Step {
    match wish {
        Wish::Restated => Step::Adopt,
        Wish::OtherConfig | Wish::OtherConfigInterrupting => Step::Begin(Stage::Config),
        // An image alone never makes a complete package run again (upstream contract B.2).
        Wish::Same
        | Wish::OtherImage
        | Wish::HigherVersion
        | Wish::LowerVersion
        | Wish::LowerVersionAfterUninstall
        | Wish::UninstallAsked
        | Wish::RemovedWithUninstall
        | Wish::RemovedAsItIs
        | Wish::DeletedWithUninstall
        | Wish::DeletedAsItIs
        | Wish::UninstallUnknown => Step::Rest,
    }
}

/// What stands there goes: uninstall, then its interrupt if it owes one, then the entry.
///
/// Differs from upstream, which waits for an install to be complete first: one that failed, or was
/// broken off, is uninstalled too, so that it never keeps a resource from being deleted.
fn take_off(stage: Stage, state: State, owes: Owes) -> Step {
    let complete = state == State::Complete;
    match (stage, owes) {
        (Stage::Uninstall, Owes::Interrupt) if complete => Step::Resume(Stage::UninstallInterrupt),
        (Stage::Uninstall, Owes::Nothing) if complete => Step::Remove,
        (Stage::Uninstall, Owes::Nothing | Owes::Interrupt) => Step::Resume(Stage::Uninstall),
        (Stage::UninstallInterrupt, Owes::Nothing) => Step::Remove,
        (Stage::UninstallInterrupt, Owes::Interrupt) if complete => Step::Remove,
        (Stage::UninstallInterrupt, Owes::Interrupt) => Step::Resume(stage),
        (
            Stage::Apply | Stage::Upgrade | Stage::Config | Stage::Interrupt | Stage::PostInterrupt,
            Owes::Nothing | Owes::Interrupt,
        ) => Step::BeginUninstall,
    }
}

/// What a visit does with a package that it has in hand, before its interrupt.
pub(super) fn in_hand(at: At, owes: Owes, wish: Wish) -> Step {
    let Some((stage, state)) = at else { return absent(wish) };
    match wish {
        Wish::Same
        | Wish::Restated
        | Wish::OtherImage
        | Wish::OtherConfig
        | Wish::OtherConfigInterrupting => wanted_in_hand(stage, state, owes, wish),
        Wish::HigherVersion | Wish::LowerVersion if stage == Stage::UninstallInterrupt => {
            in_take_off(stage, state, owes)
        }
        Wish::HigherVersion | Wish::LowerVersion | Wish::UninstallUnknown => due(at, owes, wish),
        Wish::LowerVersionAfterUninstall
        | Wish::UninstallAsked
        | Wish::RemovedWithUninstall
        | Wish::RemovedAsItIs
        | Wish::DeletedWithUninstall
        | Wish::DeletedAsItIs => match stage {
            Stage::Uninstall if state == State::Complete => due(at, owes, wish),
            Stage::Uninstall | Stage::UninstallInterrupt => in_take_off(stage, state, owes),
            Stage::Apply
            | Stage::Upgrade
            | Stage::Config
            | Stage::Interrupt
            | Stage::PostInterrupt => due(at, owes, wish),
        },
    }
}

/// The version that a visit has in hand is the wanted one.
fn wanted_in_hand(stage: Stage, state: State, owes: Owes, wish: Wish) -> Step {
    let open = matches!(state, State::InProgress | State::Erroring);
    let as_recorded = wish == Wish::Same;
    let other_config = matches!(wish, Wish::OtherConfig | Wish::OtherConfigInterrupting);
    match stage {
        Stage::Apply | Stage::Upgrade | Stage::Config if open && as_recorded => {
            Step::Start(Group::Install)
        }
        Stage::Apply | Stage::Upgrade | Stage::Config if open => Step::Follow(stage),
        Stage::Interrupt if state == State::Skipped && owes == Owes::Interrupt => {
            if as_recorded {
                Step::AwaitInterrupt
            } else if other_config {
                Step::Follow(Stage::Config)
            } else {
                Step::Follow(Stage::Interrupt)
            }
        }
        Stage::PostInterrupt if open => Step::Start(Group::Verify),
        Stage::UninstallInterrupt => in_take_off(stage, state, owes),
        Stage::Apply
        | Stage::Upgrade
        | Stage::Config
        | Stage::Interrupt
        | Stage::PostInterrupt
        | Stage::Uninstall => wanted(stage, state, owes, wish),
    }
}

/// An uninstall that a visit has in hand.
fn in_take_off(stage: Stage, state: State, owes: Owes) -> Step {
    let open = matches!(state, State::InProgress | State::Erroring);
    match stage {
        Stage::Uninstall if open => Step::Start(Group::Uninstall),
        // Upstream knows no skipped one: it waits in progress.
        Stage::UninstallInterrupt if state == State::InProgress && owes == Owes::Interrupt => {
            Step::AwaitInterrupt
        }
        Stage::Apply
        | Stage::Upgrade
        | Stage::Config
        | Stage::Interrupt
        | Stage::PostInterrupt
        | Stage::Uninstall
        | Stage::UninstallInterrupt => take_off(stage, state, owes),
    }
}

/// A pod that cannot start makes way for whatever else is wanted by now: for the record first.
pub(super) fn cannot_start(at: At, owes: Owes, wish: Wish) -> Step {
    let step = in_hand(at, owes, wish);
    if matches!(step, Step::Start(_)) {
        Step::Await
    } else if step.beginning().is_some() || matches!(step, Step::Adopt | Step::Remove) {
        step
    } else {
        Step::Replace
    }
}

pub(super) fn succeeded(at: At, owes: Owes, wish: Wish) -> Step {
    let Some(stage) = at_open_stage(at) else { return Step::Keep };
    match stage {
        Stage::Apply | Stage::Upgrade | Stage::Config => match owes {
            Owes::Interrupt => Step::Reach(Stage::Interrupt, State::Skipped),
            Owes::Nothing => Step::Complete,
        },
        Stage::PostInterrupt => Step::Complete,
        Stage::Uninstall => match (owes, wish) {
            // Its interrupt is owed by the version that follows it: one is enough for both.
            (
                Owes::Interrupt | Owes::Nothing,
                Wish::Same
                | Wish::Restated
                | Wish::OtherImage
                | Wish::OtherConfig
                | Wish::OtherConfigInterrupting
                | Wish::HigherVersion
                | Wish::LowerVersion
                | Wish::LowerVersionAfterUninstall,
            ) => Step::Remove,
            (
                Owes::Interrupt,
                Wish::UninstallAsked
                | Wish::RemovedWithUninstall
                | Wish::RemovedAsItIs
                | Wish::DeletedWithUninstall
                | Wish::DeletedAsItIs
                | Wish::UninstallUnknown,
            ) => Step::Reach(Stage::UninstallInterrupt, State::InProgress),
            (
                Owes::Nothing,
                Wish::UninstallAsked
                | Wish::RemovedWithUninstall
                | Wish::RemovedAsItIs
                | Wish::DeletedWithUninstall
                | Wish::DeletedAsItIs
                | Wish::UninstallUnknown,
            ) => Step::Remove,
        },
        // Interrupts end for all that wait for one, see `interrupt_done`.
        Stage::Interrupt | Stage::UninstallInterrupt => Step::Keep,
    }
}

/// Somebody who writes another stage, or that the interrupt is complete, before it was issued is
/// believed: what is due goes by that, and so does what an entry means that no visit writes here.
pub(super) fn carries_interrupt(at: At) -> Step {
    let interrupts = matches!(at, Some((Stage::Interrupt | Stage::UninstallInterrupt, _)));
    let open = matches!(at, Some((_, State::InProgress | State::Erroring)));
    if interrupts && open { Step::Start(Group::Interrupt) } else { Step::Withdraw }
}

/// The node did not come back: the failure is told where its reboot was recorded.
pub(super) fn reboot_overdue(at: At) -> Step {
    match at {
        Some((stage @ (Stage::Interrupt | Stage::UninstallInterrupt), _)) => Step::GiveUp(stage),
        Some((
            Stage::Apply | Stage::Upgrade | Stage::Config | Stage::PostInterrupt | Stage::Uninstall,
            _,
        ))
        | None => Step::Keep,
    }
}

/// Done for the package that carried it and for all that waited for it.
pub(super) fn interrupt_done(at: At, owes: Owes) -> Step {
    match (at, owes) {
        (Some((Stage::Interrupt, _)), Owes::Interrupt) => {
            Step::Reach(Stage::PostInterrupt, State::InProgress)
        }
        (Some((Stage::UninstallInterrupt, _)), Owes::Interrupt) => Step::Remove,
        (Some(_) | None, Owes::Nothing | Owes::Interrupt) => Step::Keep,
    }
}

/// After its interrupt a visit ends what it has in hand, and begins nothing again: no edit of a
/// manifest ever causes a second reboot (design §7).
pub(super) fn after_interrupt(at: At, owes: Owes, wish: Wish) -> Step {
    if let Some((Stage::PostInterrupt, State::InProgress | State::Erroring)) = at {
        return Step::Start(Group::Verify);
    }
    let step = in_hand(at, owes, wish);
    let Step::Follow(_) = step else { return for_later(step) };
    // It goes on with its own snapshot.
    if matches!(at, Some((Stage::Interrupt, _))) {
        Step::AwaitInterrupt
    } else {
        Step::Start(Group::Install)
    }
}

/// What would begin waits for the next visit.
pub(super) fn for_later(step: Step) -> Step {
    if step.beginning().is_some() { Step::Later } else { step }
}

/// Returns the stage that the package stands at and has not completed.
pub(super) fn at_open_stage(at: At) -> Option<Stage> {
    at.filter(|(_, state)| *state != State::Complete).map(|(stage, _)| stage)
}
