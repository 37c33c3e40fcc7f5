//! The custom resources and annotations exactly as users and the cluster see them.
//!
//! In: nothing. Out: serde types of the two resources, their CRDs, every key on nodes and
//! objects, and the size bounds of what we write into annotations.
//! Must never: decide anything, resolve a default that the API does not state, or know YAML.
//! A type here follows the wire; the validated form is in `model`, the way there in `manifest`.

#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod annotations;
pub mod crd;
pub mod deployment_policy;
pub mod duration;
pub mod keys;
pub mod lenient;
pub mod nodewright;
pub mod package;
pub mod status;

pub use deployment_policy::{DeploymentPolicy, DeploymentPolicySpec};
pub use duration::GoDuration;
pub use nodewright::{NodeWright, NodeWrightSpec};
pub use package::Package;
pub use status::NodeWrightStatus;

/// API group of both resources (upstream contract A.1).
pub const GROUP: &str = "nodewright.nvidia.com";

/// The only version upstream serves (upstream contract A.1).
pub const VERSION: &str = "v1alpha1";
