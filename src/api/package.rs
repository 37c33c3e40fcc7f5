//! One package of a NodeWright resource, as written (upstream contract A.3).
//!
//! In and out: JSON. Must never: split an image reference or compare versions; `model` does.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::duration::GoDuration;
use crate::api::lenient::{is_default, null_as_default};

/// What is put on a node: an image with scripts, its configuration and what it needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Package {
    /// Same as the key in packages; it may be left out.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub name: String,

    /// Semantic version; also the image's tag when containerSHA is not given.
    pub version: String,

    /// Image repository without tag or digest.
    pub image: String,

    /// Digest that the image is pinned to instead of the version.
    #[serde(rename = "containerSHA", skip_serializing_if = "Option::is_none")]
    pub container_sha: Option<String>,

    /// Agent image for this package only, with its tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_image_override: Option<String>,

    /// What disturbs the node after the package is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<Interrupt>,

    /// Packages that come first, with the exact version.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub depends_on: BTreeMap<String, String>,

    /// Files handed to the package, by name.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub config_map: BTreeMap<String, String>,

    /// Interrupts for changes of single files, by name or glob, instead of the package's own.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub config_interrupts: BTreeMap<String, Interrupt>,

    /// Environment of the package's pods.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,

    /// Resources of the package's pods; all four or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// How long a pod may take to end when it is stopped, in whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graceful_shutdown: Option<GoDuration>,

    /// How long one stage may take; 0 is no limit, none is the daemon's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage_timeout: Option<GoDuration>,

    /// Whether the package has an uninstall, and whether it should run now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uninstall: Option<Uninstall>,
}

/// What disturbs a node, and with it the workloads on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt {
    /// The kind of interrupt.
    #[serde(rename = "type")]
    pub kind: InterruptType,
    /// The services to restart, for type service.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
}

/// The kinds of interrupt (upstream contract A.3).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum InterruptType {
    /// Restarts the named services.
    Service,
    /// Reboots the node.
    Reboot,
    /// Cordons and drains, then does nothing.
    Noop,
    /// Restarts what upstream's agent calls all services.
    RestartAllServices,
}

/// Resources of a package's pods; each greater than zero, limits not below requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Processor time asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_request: Option<Quantity>,
    /// Processor time at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<Quantity>,
    /// Memory asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_request: Option<Quantity>,
    /// Memory at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Quantity>,
}

/// The explicit uninstall of a package (upstream contract B.15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Uninstall {
    /// The package has an uninstall, which must run before it may be removed.
    #[serde(default, deserialize_with = "null_as_default")]
    pub enabled: bool,
    /// Uninstall it now; needs enabled.
    #[serde(default, deserialize_with = "null_as_default")]
    pub apply: bool,
}
