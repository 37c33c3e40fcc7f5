//! The flags of the safety floor, the same for every verb that plans.
//!
//! In: flags and the variables that stand in for them. Out: [`Floor`]. Must never: loosen what a
//! manifest says.

use clap::ValueEnum;

use super::values;
use crate::api::GoDuration;
use crate::model::{Floor, Guards};

/// Whose rules hold where a manifest leaves something open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// Those of upstream's operator: no floor.
    Upstream,
}

/// Flags about how much may be disturbed (design §7, the safety floor).
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Safety floor")]
pub struct FloorArgs {
    /// Disturbs at most this percentage of a rollout's nodes where it names no budget.
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = values::percent)]
    pub max_disturbed: u32,
    /// Stops a rollout after so many failed batches in a row where its policy names no threshold.
    #[arg(
        long, value_name = "BATCHES", default_value = "2",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub stop_after: u32,
    /// Starts with so many nodes when a package, or its configuration, is new to the cluster.
    ///
    /// The rollout goes on at its own pace once one of them has everything. Where the first fails,
    /// another one is tried, as far as failed batches in a row are allowed.
    #[arg(
        long, value_name = "NODES", default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub first_use: u32,
    /// Turns the floor off: manifests alone say how fast, as with upstream's operator.
    ///
    /// Without a budget all nodes at once, a budget of zero takes one node at a time, failures stop
    /// only where a policy names a threshold, nothing starts with one node, a resource that matches
    /// no node is complete, and one that selects every node waits for nobody.
    #[arg(
        long, value_enum, value_name = "WHOSE",
        conflicts_with_all = ["max_disturbed", "stop_after", "first_use"]
    )]
    pub compat: Option<Compat>,
    /// Goes on without a node that is down for longer than this before it is picked.
    ///
    /// It is in repair then: not counted as disturbed, not picked, and the rollout completes
    /// without it. It is caught up when it returns. A node that breaks while it is worked on always
    /// counts.
    #[arg(long, value_name = "DURATION", default_value = "2h")]
    pub repair_after: GoDuration,
}

impl FloorArgs {
    /// Returns the limits that these flags amount to.
    pub fn floor(&self) -> Floor {
        let Self { max_disturbed, stop_after, first_use, compat, repair_after } = self;
        let repair_after = repair_after.get();
        if *compat == Some(Compat::Upstream) {
            return Floor { repair_after, ..Floor::upstream() };
        }
        Floor {
            max_disturbed_percent: *max_disturbed,
            stop_after: Some(*stop_after),
            first_use: Some(*first_use),
            repair_after,
            guards: Guards::Ours,
        }
    }
}
