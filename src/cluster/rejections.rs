//! What the API server does not let us create is remembered, so that the planner can say so and
//! give up in time.
//!
//! In: an action and what became of it. Out: an entry in the store, or its end.
//! Must never: remember a conflict or an outage: those pass by themselves.

use super::act::{Actor, Outcome};
use super::error::ClusterError;
use crate::model::Action;

impl Actor {
    /// Remembers that an object could not be created, or forgets it once it could.
    pub(super) fn remember(&self, action: &Action, outcome: &Outcome) {
        let key = match action {
            Action::CreateExecutor(spec) => {
                spec.visit.executor_key(spec.work.group(), &spec.work.package().name)
            }
            Action::CreateSnapshot(spec) => spec.package.snapshot_name(&spec.rollout),
            Action::DeleteSnapshot(_)
            | Action::WriteStatus(_)
            | Action::WriteNodeMetadata(_)
            | Action::PatchNode(_)
            | Action::Evict(_)
            | Action::DeleteExecutors { .. }
            | Action::PatchTaints(_)
            | Action::SetFinalizer(_)
            | Action::CleanNode(_)
            | Action::DeleteUpstreamWork { .. }
            | Action::DeleteExecutor { .. } => return,
        };
        match outcome {
            Outcome::GaveUp(error) => {
                self.store.note_rejection(key, self.clock.now(), words(error));
            }
            Outcome::Done => self.store.forget_rejection(&key),
            Outcome::Conflict { .. }
            | Outcome::Blocked { .. }
            | Outcome::OutdatedCrd { .. }
            | Outcome::Retry(_)
            | Outcome::Unknown(_)
            | Outcome::Skipped => {}
        }
    }
}

/// Returns why, for people: the server's own words where there are some.
fn words(error: &ClusterError) -> String {
    match error {
        ClusterError::Refused { status, .. } => {
            format!("refused by the API server ({}): {}", status.reason, status.message)
        }
        ClusterError::InTheWay { object, .. } => {
            format!("{object} is there with other content: delete it, if nobody needs it")
        }
        ClusterError::NotLeader { .. }
        | ClusterError::TimedOut { .. }
        | ClusterError::Broken { .. }
        | ClusterError::Unreadable { .. }
        | ClusterError::TooLarge { .. }
        | ClusterError::Unusable { .. }
        | ClusterError::Unbuildable { .. } => error.to_string(),
    }
}
