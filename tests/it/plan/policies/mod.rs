//! Rollouts by DeploymentPolicy: the arithmetic of batches, and what it does to nodes.

mod changes;
mod compartments;
pub(super) mod forecasts;
mod laws;
mod outlooks;
mod resets;
mod several;
mod worked;

use nodewright::model::{Budget, Growth, Pace, Strategy};
use nodewright::plan::pace::Pacing;

/// A strategy with upstream's defaults (upstream contract A.5).
fn strategy(growth: Growth, initial_batch: u32) -> Strategy {
    Strategy {
        growth,
        initial_batch,
        batch_threshold: 100,
        failure_threshold: None,
        safety_limit: 50,
    }
}

fn pacing(budget: Budget, strategy: Option<Strategy>, nodes: u32) -> Pacing {
    Pacing { pace: Pace { budget, strategy }, nodes, stop_after: None }
}
