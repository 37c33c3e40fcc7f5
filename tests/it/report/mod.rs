//! Everything people read: snapshots of every surface, and equal bytes for equal state.
mod every_reason;
mod explain;
mod messages;
mod progress;
mod reasons;
mod status_branch;
mod world;
