//! NodeWright: a package manager for the host operating system of a Kubernetes fleet.
//!
//! The rooms and who may import whom are written in `tests/it/tidy.rs`, which enforces them.
//!
//! One concept, one word, everywhere:
//! *rollout* (one NodeWright resource on its nodes), *package*, *stage*, *state*, *entry* (a
//! package version's state on a node), *snapshot* (what a package looked like when it was put
//! there), *visit* (one stay on a node: pick, work, release), *record* (what the node's annotation
//! says of the visit), *batch*, *compartment*, *ceiling*, *verdict*, *reason*, *action*, *finding*.

pub mod agent;
pub mod api;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod daemon;
pub mod git;
pub mod manifest;
pub mod model;
pub mod plan;
pub mod report;
pub mod sim;
