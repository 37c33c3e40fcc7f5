//! The life of a package on a node, as one total table.
//!
//! In: where the package stands, whether an interrupt is owed, what is wanted of it, and what is
//! seen of it now. Out: the one step that follows. Everything in [`super`] that begins, records or
//! starts something for a package asks [`step`]; nothing else decides it.
//! Must never: look at anything but its four arguments, or leave a combination out. What cannot
//! be right is a [`Finding`] with a sentence.
//!
//! `tests/it/plan/lifecycle_table/steps.txt` spells the table out, with the differences from
//! upstream.

mod asked;
mod table;

use std::fmt;

use crate::model::{Group, Stage, State};

pub use asked::{Asked, watch};

/// What is wanted of a package, against what stands on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// The version that stands there, and nothing is known to differ; or nothing stands there.
    Same,
    /// The same version and content under another snapshot: what differs, such as
    /// `uninstall.enabled`, an interrupt or a time limit, runs nothing by itself.
    Restated,
    /// The same version from another image or digest.
    OtherImage,
    /// Config keys or the environment differ, and no changed key asks for an interrupt.
    OtherConfig,
    /// A config key differs that `configInterrupts` names.
    OtherConfigInterrupting,
    /// A higher version than the one that stands there.
    HigherVersion,
    /// A lower version, or one of the same rank; the one that stands there has no uninstall.
    LowerVersion,
    /// A lower version, or one of the same rank, and the one that stands there has an uninstall.
    LowerVersionAfterUninstall,
    /// `uninstall.apply` is true.
    UninstallAsked,
    /// The package is no longer in the manifest, and was installed with an uninstall.
    RemovedWithUninstall,
    /// The package is no longer in the manifest, and was installed without an uninstall.
    RemovedAsItIs,
    /// The resource is being deleted, and the package was installed with an uninstall that the
    /// resource has not taken back since.
    DeletedWithUninstall,
    /// The resource is being deleted, and the package has no uninstall, or none any more.
    DeletedAsItIs,
    /// It is to be uninstalled, and what it was installed with is not known any more.
    UninstallUnknown,
}

/// Whether an interrupt is due before the package is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owes {
    /// None.
    Nothing,
    /// One, which merges with those of the visit's other packages.
    Interrupt,
}

/// What is seen of a package on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// No visit has it in hand: the step says what the next one does first.
    Untouched,
    /// A visit has it in hand before its interrupt, and no executor of it exists.
    Idle,
    /// Its executor may be doing something on the host.
    Running,
    /// Its executor cannot start, and nothing of it ran on the host.
    CannotStart,
    /// Its executor cannot start, and was made for something else than what is recorded.
    Outdated,
    /// Its executor failed or was lost after its first stage was complete.
    FirstStageDone,
    /// Its executor ended well.
    Succeeded,
    /// Its executor failed, and attempts are left.
    Failed,
    /// Its executor failed at the last attempt.
    FailedForGood,
    /// Its executor was lost to something that is not its fault.
    Disrupted,
    /// It carries the visit's merged interrupt, which is recorded as begun and not issued.
    CarriesInterrupt,
    /// It carries the visit's merged interrupt, which was issued and is not proven.
    InterruptIssued,
    /// Another package carries the visit's merged interrupt, which is under way.
    InterruptElsewhere,
    /// The merged interrupt is done: a reboot is proven, or the executor ended well.
    InterruptDone,
    /// The node did not come back from its reboot in time.
    RebootOverdue,
    /// A visit has it in hand after its interrupt, and no executor of it exists.
    AfterInterrupt,
    /// A visit had it in hand, is after its interrupt, and cannot go on from where it stands.
    Spent,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// It is as wanted.
    Rest,
    /// What stands there is left on the host, stays recorded, and counts for nothing.
    Leave,
    /// What is seen is not about where the package stands: nothing is recorded.
    Keep,
    /// The wanted snapshot is recorded for what stands there; nothing runs.
    Adopt,
    /// The wanted version is recorded as begun at this stage.
    Begin(Stage),
    /// What had begun goes on from this stage, under the wanted snapshot where there is one.
    Resume(Stage),
    /// What a visit has in hand goes on from this stage under the wanted snapshot, its attempts
    /// counted anew.
    Follow(Stage),
    /// The uninstall of what stands there is recorded as begun.
    BeginUninstall,
    /// An executor is created.
    Start(Group),
    /// Its executor is waited for.
    Await,
    /// Its executor is deleted, for it does what is no longer recorded.
    Replace,
    /// The visit's one merged interrupt is waited for.
    AwaitInterrupt,
    /// The failed attempt is recorded at this stage.
    Retry(Stage),
    /// The executor is created again; the lost one costs no attempt.
    Again,
    /// The failure is recorded at this stage and ends the visit.
    GiveUp(Stage),
    /// This is recorded.
    Reach(Stage, State),
    /// It is recorded complete: at post-interrupt where the package declares an interrupt, else at
    /// config.
    Complete,
    /// Its entry is removed: what it named is not on the host any more.
    Remove,
    /// What is due waits for the next visit: an interrupt was spent on it in this one.
    Later,
    /// The interrupt that is recorded as begun, and was not issued, is taken back: somebody has
    /// changed the entry of the package that carries it.
    Withdraw,
    /// Nothing is done until a person has looked at it.
    Finding(Finding),
}

/// What a step records as begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// Work that had not begun.
    New(Stage),
    /// Work that had begun, and goes on from this stage.
    Again(Stage),
    /// What a visit has in hand, and goes on under another snapshot.
    Following(Stage),
}

/// What a step records of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The stage and state where the package stands now.
    At(Stage, State),
    /// The end of an install, at the last of its stages.
    Complete,
    /// The end of an uninstall.
    Gone,
    /// A failed attempt at this stage.
    Failed(Stage),
    /// Nothing: it is not about where the package stands, or costs no attempt.
    Nothing,
}

impl Step {
    /// Returns what it records as begun; `None` where it begins nothing.
    pub(crate) fn beginning(self) -> Option<Beginning> {
        match self {
            Self::Begin(stage) => Some(Beginning::New(stage)),
            Self::BeginUninstall => Some(Beginning::New(Stage::Uninstall)),
            Self::Resume(stage) => Some(Beginning::Again(stage)),
            Self::Follow(stage) => Some(Beginning::Following(stage)),
            Self::Rest
            | Self::Leave
            | Self::Keep
            | Self::Adopt
            | Self::Start(_)
            | Self::Await
            | Self::Replace
            | Self::AwaitInterrupt
            | Self::Retry(_)
            | Self::Again
            | Self::GiveUp(_)
            | Self::Reach(..)
            | Self::Complete
            | Self::Remove
            | Self::Later
            | Self::Withdraw
            | Self::Finding(_) => None,
        }
    }

    /// Returns what it records of an end; `None` where it is no answer to one.
    pub(crate) fn ending(self) -> Option<Ending> {
        match self {
            Self::Reach(stage, state) => Some(Ending::At(stage, state)),
            Self::Complete => Some(Ending::Complete),
            Self::Remove => Some(Ending::Gone),
            Self::Retry(stage) | Self::GiveUp(stage) => Some(Ending::Failed(stage)),
            Self::Again | Self::Keep => Some(Ending::Nothing),
            Self::Rest
            | Self::Leave
            | Self::Adopt
            | Self::Begin(_)
            | Self::Resume(_)
            | Self::Follow(_)
            | Self::BeginUninstall
            | Self::Start(_)
            | Self::Await
            | Self::Replace
            | Self::AwaitInterrupt
            | Self::Later
            | Self::Withdraw
            | Self::Finding(_) => None,
        }
    }

    /// Returns whether the package has still to move before a shared interrupt or the visit's end.
    pub(crate) fn is_under_way(self) -> bool {
        match self {
            Self::Begin(_)
            | Self::Resume(_)
            | Self::Follow(_)
            | Self::BeginUninstall
            | Self::Start(_)
            | Self::Await
            | Self::Replace
            | Self::Retry(_)
            | Self::Again
            | Self::GiveUp(_)
            | Self::Reach(..)
            | Self::Complete
            | Self::Remove => true,
            Self::Rest
            | Self::Leave
            | Self::Keep
            | Self::Adopt
            | Self::AwaitInterrupt
            | Self::Later
            | Self::Withdraw
            | Self::Finding(_) => false,
        }
    }
}

/// What a person must look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// It is to be uninstalled, and its snapshot is gone.
    UninstallUnknown,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UninstallUnknown => {
                "it is to be uninstalled, and what it was installed with is not known any more: \
                 take it off the host by hand, then remove its entry from nodeState"
            }
        })
    }
}

/// Where a package stands: the stage and state of its entry, `None` without one.
pub type At = Option<(Stage, State)>;

/// Returns the step that follows: the table.
pub fn step(at: At, owes: Owes, wish: Wish, seen: Seen) -> Step {
    asked::note(at, owes, wish, seen);
    match seen {
        Seen::Untouched => table::due(at, owes, wish),
        Seen::Idle => table::in_hand(at, owes, wish),
        Seen::Running => Step::Await,
        Seen::CannotStart => table::cannot_start(at, owes, wish),
        Seen::Outdated => Step::Replace,
        Seen::FirstStageDone => match at {
            Some((Stage::Apply | Stage::Upgrade, state)) if state != State::Complete => {
                Step::Reach(Stage::Config, State::InProgress)
            }
            Some(_) | None => Step::Keep,
        },
        Seen::Succeeded => table::succeeded(at, owes, wish),
        Seen::Failed => table::at_open_stage(at).map_or(Step::Keep, Step::Retry),
        Seen::FailedForGood => table::at_open_stage(at).map_or(Step::Keep, Step::GiveUp),
        Seen::Disrupted => table::at_open_stage(at).map_or(Step::Keep, |_| Step::Again),
        Seen::CarriesInterrupt => table::carries_interrupt(at),
        Seen::InterruptIssued | Seen::InterruptElsewhere => Step::AwaitInterrupt,
        Seen::InterruptDone => table::interrupt_done(at, owes),
        Seen::RebootOverdue => table::reboot_overdue(at),
        Seen::AfterInterrupt => table::after_interrupt(at, owes, wish),
        Seen::Spent => table::for_later(table::due(at, owes, wish)),
    }
}
