//! The NodeWright resource: one set of packages on one set of nodes.
//!
//! In and out: JSON of `nodewright.nvidia.com/v1alpha1` `NodeWright` (upstream contract A.2).
//! Must never: reject what the CRD lets through; rules between fields are `manifest`'s and CEL's.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::duration::GoDuration;
use crate::api::lenient::{is_default, null_as_default, null_as_true, some_yes, yes};
use crate::api::package::Package;
use crate::api::status::NodeWrightStatus;

/// Where in the order a resource stands that does not say (upstream contract A.2).
pub const PRIORITY_DEFAULT: i32 = 200;

/// What should be on which nodes, and how fast it may get there (upstream contract A.2).
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nodewright.nvidia.com",
    version = "v1alpha1",
    kind = "NodeWright",
    plural = "nodewrights",
    status = "NodeWrightStatus",
    derive = "PartialEq",
    doc = "Packages for the host operating system of a set of nodes, and how they roll out."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeWrightSpec {
    /// One package at a time per node, instead of every package that is ready.
    #[serde(default, deserialize_with = "null_as_default")]
    pub serial: bool,

    /// Which nodes; empty selects all of them.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub node_selectors: LabelSelector,

    /// Workload pods that must finish before a node is drained; empty protects none.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub pod_non_interrupt_labels: LabelSelector,

    /// Name of the DeploymentPolicy that paces the rollout; not together with interruptionBudget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_policy: Option<String>,

    /// Overrides of the policy for this resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_policy_options: Option<DeploymentPolicyOptions>,

    /// How many nodes may be worked on at a time; not together with deploymentPolicy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interruption_budget: Option<InterruptionBudget>,

    /// How nodes are drained before an interrupt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_config: Option<DrainConfig>,

    /// The packages, by name.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub packages: BTreeMap<String, Package>,

    /// Taints beyond the usual ones that neither keep a node out nor stop package pods.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub additional_tolerations: Vec<Toleration>,

    /// Workloads stay off a node, by a taint, until it is complete.
    #[serde(default, deserialize_with = "null_as_default")]
    pub runtime_required: bool,

    /// Leaves a node cordoned when the runtime-required taint is removed.
    #[serde(default, deserialize_with = "null_as_default")]
    pub runtime_required_cordon_after: bool,

    /// Taints nodes that join later; needs runtimeRequired.
    #[serde(default, deserialize_with = "null_as_default")]
    pub auto_taint_new_nodes: bool,

    /// Lower runs first.
    #[serde(default = "priority_default", deserialize_with = "null_as_priority_default")]
    pub priority: i32,

    /// Whether resources of lower priority wait for each node, or for all nodes of this one.
    #[serde(default, deserialize_with = "null_as_default")]
    pub sequencing: Sequencing,
}

impl Default for NodeWrightSpec {
    fn default() -> Self {
        Self {
            serial: false,
            node_selectors: LabelSelector::default(),
            pod_non_interrupt_labels: LabelSelector::default(),
            deployment_policy: None,
            deployment_policy_options: None,
            interruption_budget: None,
            drain_config: None,
            packages: BTreeMap::new(),
            additional_tolerations: Vec::new(),
            runtime_required: false,
            runtime_required_cordon_after: false,
            auto_taint_new_nodes: false,
            priority: PRIORITY_DEFAULT,
            sequencing: Sequencing::default(),
        }
    }
}

/// How a resource holds back those that come after it (upstream contract A.2, B.9).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum Sequencing {
    /// A node goes on to the next resource when it is done with this one.
    #[default]
    Node,
    /// No node goes on before all nodes are done with this one.
    All,
}

/// Overrides of a policy for one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPolicyOptions {
    /// Whether batches start small again after completion; null leaves it to the policy.
    #[serde(default = "some_yes", skip_serializing_if = "Option::is_none")]
    pub reset_batch_state_on_completion: Option<bool>,
}

/// How many nodes may be worked on at a time: a share or a number; neither means all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptionBudget {
    /// Share of the nodes, 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i32>,
    /// Number of nodes, 0 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
}

/// How nodes are drained (upstream contract A.2, B.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainConfig {
    /// Deletes pods instead of evicting them, which bypasses disruption budgets.
    #[serde(default, deserialize_with = "null_as_default")]
    pub disable_eviction: bool,
    /// Whether a pod with an emptyDir may be evicted; false lets it hold the drain.
    #[serde(default = "yes", deserialize_with = "null_as_true")]
    pub delete_empty_dir_data: bool,
    /// Whether a pod without a controller may be evicted; false lets it hold the drain.
    #[serde(default = "yes", deserialize_with = "null_as_true")]
    pub force: bool,
    /// Leaves pods of DaemonSets alone.
    #[serde(default = "yes", deserialize_with = "null_as_true")]
    pub ignore_daemon_sets: bool,
    /// How long a drain may take before the node counts as erroring; 0 or none is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<GoDuration>,
    /// Grace given to evicted pods, rounded up to seconds; none is each pod's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<GoDuration>,
}

impl Default for DrainConfig {
    fn default() -> Self {
        Self {
            disable_eviction: false,
            delete_empty_dir_data: true,
            force: true,
            ignore_daemon_sets: true,
            timeout: None,
            grace_period: None,
        }
    }
}

const fn priority_default() -> i32 {
    PRIORITY_DEFAULT
}

fn null_as_priority_default<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<i32, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(PRIORITY_DEFAULT))
}
