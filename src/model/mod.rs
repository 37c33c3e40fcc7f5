//! The validated nouns every other room speaks in. No I/O, no clock.
//!
//! In: nothing of ours. Out: plain types with their own invariants, and the one line of text that
//! each [`Reason`] has on every surface. Never here: a client, a file, the time of day, a decision.
#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm)]

mod action;
mod breadth;
mod budget;
mod desired;
mod digest;
mod executor;
mod finding;
mod input;
mod memory;
mod node;
mod node_names;
mod outlook;
mod package;
mod pattern;
mod pod;
mod policy;
mod reason;
mod record;
mod shared;
mod stage;
mod upstream;
mod version;

pub use action::{
    Action, ConfigMapRef, Eviction, EvictionMethod, ExecutorSpec, FinalizerWrite, Lane,
    NodeCleaning, NodeMetadata, NodePatch, PatchKind, SnapshotSpec, StatusWrite, TaintPatch,
    Urgency, Work,
};
pub use breadth::{Breadth, BreadthScope, approval};
pub use budget::Budget;
pub use desired::{Desired, DrainConfig, Rollout, Sequencing};
pub use digest::{digest_hex, short_hash};
pub use executor::{Executor, ExecutorPhase, Failure, Group, PULL_VISIT, VisitRef, Waiting};
pub use finding::{Finding, ObjectRef, Severity};
pub use input::{
    DisruptionBudget, Floor, Guards, Input, NodeRules, Observed, Opening, Plan, Refusal,
    RefusalCause, Rejection, Resource, STAGE_TIMEOUT_DEFAULT, Snapshot,
};
pub use memory::{
    BatchState, CompartmentStatus, CompletedPackages, Condition, Memory, OpenBatch, Status,
    StatusWord, Timings,
};
pub use node::{
    AtRelease, Claim, CordonMark, HOST_LOST_AFTER, Node, NodeRollout, Taint, TaintEffect,
};
pub use node_names::NodeNames;
pub use outlook::{
    BatchNow, Batches, FAILED_NAMES_MAX, Outlook, StopCause, StopRule, StopRuleBy, Stopped,
    stopped_way_out,
};
pub use package::{Interrupt, InterruptKind, Package, PackageId, Resources, Uninstall};
pub use pattern::Pattern;
pub use pod::{Controller, Pod, PodPhase, PodRef};
pub use policy::{Compartment, Growth, Pace, Policy, Strategy};
pub use reason::{Reason, Verdict, VerdictKind};
pub use record::{
    Entries, Entry, FORGOTTEN, InterruptRecord, Outcome, Phase, RECORD_VERSION, Record,
};
pub use shared::Shared;
pub use stage::{Stage, State};
pub use upstream::{UpstreamKind, UpstreamMaps, UpstreamRef, UpstreamStatus, UpstreamWork};
pub use version::{InvalidVersion, Version};

/// The compartment every node is in where no policy says otherwise (upstream contract B.10).
pub const DEFAULT_COMPARTMENT: &str = "__default__";
