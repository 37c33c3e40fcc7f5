//! Everything people read, and nothing else: all wording in one place.
//!
//! In: a planner's [`Input`](crate::model::Input) and [`Plan`](crate::model::Plan), and what Git
//! says of itself. Out: text and bytes, equal for equal state. Never here: a clock, a file, a
//! client, a log line, a decision about the fleet.
#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm)]

mod adoption;
mod concern;
pub mod events;
pub mod explain;
pub mod findings;
mod leftovers;
mod needs;
pub mod plan_text;
pub mod progress;
mod state;
pub mod status_branch;
mod survey;
mod wording;

pub use adoption::{Adoption, adoption};
pub use concern::{Concern, concern, label, since, way_out, way_out_for};
pub use state::{
    CompartmentState, Effect, FleetPhase, FleetState, HeldRevision, InterruptFacts, LeftBehind,
    NamedNodes, Need, NodeFacts, PackageState, RolloutState, SettledEntry, SourceError, SourceMode,
    SourceView, VisitFacts, WaitGroup,
};
pub use wording::{clean, short_revision};
