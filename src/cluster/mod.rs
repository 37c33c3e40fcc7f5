//! The Kubernetes edge: watch, observe, act.
//!
//! In: a client, the actions of a plan and the proof of leadership. Out: what was seen, trimmed to
//! what something depends on, and what became of each action.
//! Must never: decide anything. An action is one exact change with its precondition; where an
//! `if` about the fleet seems needed, the plan lacks an output. Every mutating request goes
//! through [`requests`] or `fence` (typed ones), which check leadership and bound the time.

pub mod act;
pub mod approve;
mod budgets;
mod claims;
pub mod conditions;
pub mod connect;
pub mod error;
pub mod events;
pub mod executor;
mod executor_pull;
pub mod executor_state;
mod executor_volumes;
mod fence;
pub mod forget;
pub mod lease;
pub mod legacy;
pub mod metadata;
pub mod mirror;
pub mod names;
pub mod node_patch;
pub mod node_state;
mod node_writes;
pub mod observe;
mod person;
mod rejections;
mod removals;
pub mod requests;
pub mod reset;
pub mod resources;
pub mod retry;
pub mod secrets;
pub mod settings;
pub mod shelf;
pub mod slim;
pub mod slim_node;
pub mod slim_pod;
pub mod snapshot;
pub mod source_state;
pub mod source_watch;
pub mod status;
pub mod stop;
pub mod store;
pub mod upstream;
pub mod upstream_lease;
mod upstream_status;
mod writes;

pub use act::{Actor, Executed, Outcome};
pub use connect::{client, client_named};
pub use error::{ClusterError, Disposition};
pub use lease::{Leader, LeaderProof};
pub use observe::Observer;
pub use settings::EdgeSettings;
pub use store::View;
