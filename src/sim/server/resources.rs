//! What is served: the kinds of the embedded API server and how a path names one.
//!
//! Built-in kinds go through the Go-like funnel of their Rust type on every write: unknown fields
//! are dropped, a wrong type is a 400, exactly as a typed server does. Kinds of CRDs go through
//! their schema (`schema.rs`). A kind never knows the store.

use std::sync::Arc;

use k8s_openapi::Resource;
use k8s_openapi::api::{apps, batch, coordination, core, events, policy, rbac, scheduling};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::schema::Schema;

/// One served resource in one version.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub scope: Scope,
    /// Whether `/status` is served, and so whether a write to the object leaves status alone.
    pub status: bool,
    /// Whether a PUT without a resourceVersion is accepted.
    pub unconditional_update: bool,
    /// Whether `metadata.generation` counts changes of the spec.
    pub generation: bool,
    pub origin: Origin,
}

/// Where objects of a kind live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Cluster,
    Namespaced,
}

/// Whether a kind has the subresource `/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Served,
    Absent,
}

/// Who checks the objects of a kind.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// A Rust type of k8s-openapi: the function is a round trip through it.
    BuiltIn(fn(Value) -> Result<Value, serde_json::Error>),
    /// A version of a CRD.
    Custom(Arc<Schema>),
}

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

impl Kind {
    /// Returns `plural` or `plural.group`, as messages name a resource.
    pub fn qualified(&self) -> String {
        qualify(&self.plural, &self.group)
    }

    /// Returns `Kind` or `Kind.group`, as messages of validation name it.
    pub fn qualified_kind(&self) -> String {
        qualify(&self.kind, &self.group)
    }

    /// Returns the `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns whether this is the kind of a CRD.
    pub fn is_custom(&self) -> bool {
        match self.origin {
            Origin::BuiltIn(_) => false,
            Origin::Custom(_) => true,
        }
    }

    /// Returns whether this is the built-in kind of that plural; no two of ours share one but
    /// events, whose rules are the same.
    pub fn is(&self, plural: &str) -> bool {
        self.plural == plural && !self.is_custom()
    }
}

impl Address {
    /// Returns what `path` names, or `None` if it is not the path of a resource.
    pub fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, inner @ ..]
                if !matches!(inner, [] | ["status" | "finalize"]) =>
            {
                (Some((*namespace).to_owned()), inner)
            }
            outer => (None, outer),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
            _ => return None,
        };
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespace,
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
        })
    }
}

/// Returns the kinds every cluster serves.
pub(super) fn built_in() -> Vec<Kind> {
    use Scope::{Cluster, Namespaced};
    use Status::{Absent, Served};
    vec![
        kind::<core::v1::Namespace>(Cluster, Served),
        kind::<core::v1::Node>(Cluster, Served),
        kind::<core::v1::Pod>(Namespaced, Served),
        kind::<core::v1::ConfigMap>(Namespaced, Absent),
        kind::<core::v1::Secret>(Namespaced, Absent),
        kind::<core::v1::Event>(Namespaced, Absent),
        kind::<core::v1::Service>(Namespaced, Served),
        kind::<core::v1::ServiceAccount>(Namespaced, Absent),
        kind::<apps::v1::Deployment>(Namespaced, Served),
        kind::<apps::v1::ReplicaSet>(Namespaced, Served),
        kind::<apps::v1::StatefulSet>(Namespaced, Served),
        kind::<apps::v1::DaemonSet>(Namespaced, Served),
        kind::<batch::v1::Job>(Namespaced, Served),
        kind::<coordination::v1::Lease>(Namespaced, Absent),
        kind::<policy::v1::PodDisruptionBudget>(Namespaced, Served),
        kind::<events::v1::Event>(Namespaced, Absent),
        kind::<rbac::v1::ClusterRole>(Cluster, Absent),
        kind::<rbac::v1::ClusterRoleBinding>(Cluster, Absent),
        kind::<scheduling::v1::PriorityClass>(Cluster, Absent),
        kind::<extensions::CustomResourceDefinition>(Cluster, Served),
    ]
}

/// Returns one built-in kind; what differs beyond the arguments is decided here.
fn kind<T: Resource + Serialize + DeserializeOwned>(scope: Scope, status: Status) -> Kind {
    Kind {
        group: T::GROUP.to_owned(),
        version: T::VERSION.to_owned(),
        kind: T::KIND.to_owned(),
        plural: T::URL_PATH_SEGMENT.to_owned(),
        scope,
        status: status == Status::Served,
        unconditional_update: !matches!(T::KIND, "Lease" | "PodDisruptionBudget"),
        generation: status == Status::Served
            && !matches!(T::KIND, "Namespace" | "Node" | "Service"),
        origin: Origin::BuiltIn(round_trip::<T>),
    }
}

fn round_trip<T: Serialize + DeserializeOwned>(object: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(object)?)
}

fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}
