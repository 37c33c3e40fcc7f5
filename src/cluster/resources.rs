//! Custom resources written from Git: what to do with each, and doing it.
//!
//! In: what a revision wants, what is in the cluster, what came from Git before. Out: steps in
//! order (pure), and what became of each. Git owns the whole `.spec` of an object and one
//! annotation, the config digest; labels and annotations of a manifest are not applied, those that
//! others put on the object stay (design §8, Applying a revision).
//! Must never: delete what the list of managed objects does not name, write to an object that
//! Argo CD, Flux or Helm owns without being told to, or touch a unit that was refused.

mod apply;
mod foreign;
mod live;
mod steps;

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::Value;

pub use self::apply::{Applied, Applier, Outcome};
pub use self::foreign::{ForeignOwner, Tool};
pub use self::live::{Live, read_live};
pub use self::steps::{listed_after, listed_before, steps};
use super::source_state::{ManagedKind, ManagedObject};
use crate::api::{DeploymentPolicy, DeploymentPolicySpec, NodeWright, NodeWrightSpec};

/// What a revision wants of the cluster.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The objects, in any order.
    pub objects: Vec<WantedObject>,
    /// Objects that are in Git but whose unit was refused: left as they are.
    pub refused: BTreeSet<ManagedObject>,
    /// Whether what is not in Git any more is deleted.
    pub pruning: Pruning,
    /// Whether objects of other tools are taken over.
    pub adoption: Adoption,
}

/// Whether what is not in Git any more is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pruning {
    /// It is, if the list of managed objects names it.
    Allowed,
    /// Nothing is: a document could not be read, so nobody knows what is gone.
    Held,
}

/// Whether objects of other tools are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adoption {
    /// They are left as they are.
    Refused,
    /// They are written like all others (`--adopt`).
    Allowed,
}

/// One object as Git wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedObject {
    /// Which object.
    pub object: ManagedObject,
    /// Digest of the rendered desired state of its unit.
    pub digest: String,
    /// Its place among those of its kind, lower first; 0 for policies.
    pub priority: i32,
    /// The policy that it names.
    pub policy: Option<String>,
    spec: Value,
}

/// One step towards a revision.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The object is not there.
    Create(WantedObject),
    /// It differs; `live` is the version that was looked at.
    Replace {
        /// What it is to be.
        wanted: WantedObject,
        /// What it is.
        live: Box<DynamicObject>,
    },
    /// It is being deleted and back in Git: nothing can be done until it is gone.
    Wait {
        /// What it is to be.
        wanted: WantedObject,
        /// When the deletion was asked for, as the API server says.
        since: Timestamp,
    },
    /// Another tool owns it.
    Refuse {
        /// Which object.
        object: ManagedObject,
        /// Whose it is.
        owner: ForeignOwner,
    },
    /// It is not in Git any more.
    Delete {
        /// Which object.
        object: ManagedObject,
        /// The object that was looked at, and not another of that name.
        uid: String,
        /// The version that was looked at.
        version: String,
    },
    /// A policy that is not in Git any more, but that an object still names: deleted later.
    Keep {
        /// Which policy.
        object: ManagedObject,
        /// An object that names it, the first by name.
        named_by: ManagedObject,
    },
}

impl WantedObject {
    /// Wants a NodeWright; `digest` is of its rendered unit.
    ///
    /// # Panics
    /// Never: a spec is plain data with string keys.
    pub fn nodewright(resource: &NodeWright, digest: &str) -> Self {
        let name = resource.metadata.name.as_deref().unwrap_or_default();
        Self {
            object: ManagedObject::nodewright(name),
            digest: digest.to_owned(),
            priority: resource.spec.priority,
            policy: resource.spec.deployment_policy.clone(),
            spec: serde_json::to_value(&resource.spec).expect("a spec is plain data"),
        }
    }

    /// Wants a DeploymentPolicy; `digest` is of its rendered content.
    ///
    /// # Panics
    /// Never: a spec is plain data with string keys.
    pub fn policy(resource: &DeploymentPolicy, digest: &str) -> Self {
        let name = resource.metadata.name.as_deref().unwrap_or_default();
        Self {
            object: ManagedObject::policy(name),
            digest: digest.to_owned(),
            priority: 0,
            policy: None,
            spec: serde_json::to_value(&resource.spec).expect("a spec is plain data"),
        }
    }

    /// Returns whether a live spec means the same: defaults, order and `null` do not count.
    fn means_the_same(&self, live: &Value) -> bool {
        match self.object.kind {
            ManagedKind::DeploymentPolicy => same::<DeploymentPolicySpec>(&self.spec, live),
            ManagedKind::NodeWright => same::<NodeWrightSpec>(&self.spec, live),
        }
    }
}

impl Step {
    /// Returns the object that the step is about.
    pub fn object(&self) -> &ManagedObject {
        match self {
            Self::Create(wanted) | Self::Replace { wanted, .. } | Self::Wait { wanted, .. } => {
                &wanted.object
            }
            Self::Refuse { object, .. }
            | Self::Delete { object, .. }
            | Self::Keep { object, .. } => object,
        }
    }

    /// Returns the policy that the object will name after the step.
    fn policy(&self) -> Option<&str> {
        match self {
            Self::Create(wanted) | Self::Replace { wanted, .. } | Self::Wait { wanted, .. } => {
                wanted.policy.as_deref()
            }
            Self::Refuse { .. } | Self::Delete { .. } | Self::Keep { .. } => None,
        }
    }
}

/// Compares two specs in their parsed form; what cannot be parsed equals nothing.
///
/// Both sides are read from JSON, so that a value that JSON cannot carry (an explicit `null` that
/// is not written) makes no difference that would be written again and again.
fn same<T: serde::de::DeserializeOwned + PartialEq>(wanted: &Value, live: &Value) -> bool {
    let parse = |spec: &Value| serde_json::from_value::<T>(spec.clone()).ok();
    parse(wanted).is_some_and(|wanted| parse(live).is_some_and(|live| wanted == live))
}
