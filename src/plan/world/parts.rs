//! Small parts of the planner world.
//!
//! In: work and its end. Out: what an executor shows of it.
//! Must never: decide anything.

use crate::model::{Failure, Stage, Work};

/// How images come to nodes before they are picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Images {
    /// A pull has ended as soon as it is asked for.
    AtHand,
    /// A pull runs until [`super::World::end`] ends it, as other executors do.
    Pulled,
}

/// Returns the stage that an executor begins with.
pub(super) fn first_stage(work: &Work) -> Option<Stage> {
    match work {
        Work::Pull { .. } => None,
        Work::Uninstall { .. } => Some(Stage::Uninstall),
        Work::Install { stages, .. } => stages.first().copied(),
        Work::Interrupt { .. } => Some(Stage::Interrupt),
        Work::Verify { .. } => Some(Stage::PostInterrupt),
    }
}

/// Returns how an executor failed.
pub(super) fn failure(stage: Option<Stage>, message: &str, disrupted: bool) -> Failure {
    Failure {
        stage,
        in_check: false,
        step: stage.map(|_| "step.sh".to_owned()),
        exit_code: Some(1),
        message: message.to_owned(),
        disrupted,
    }
}
