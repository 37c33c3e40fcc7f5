//! The DeploymentPolicy resource: how a rollout is paced, compartment by compartment.
//!
//! In and out: JSON of `nodewright.nvidia.com/v1alpha1` `DeploymentPolicy` (upstream contract
//! A.5). Must never: leave a default to an admission webhook; reading fills them in.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::api::lenient::{is_default, null_as_default, some_yes};
use crate::api::status::DeploymentPolicyStatus;

/// Name of the compartment of nodes that no other selects; nobody else may have it.
pub const DEFAULT_COMPARTMENT: &str = "__default__";

const INITIAL_BATCH_DEFAULT: i32 = 1;
const BATCH_THRESHOLD_DEFAULT_PERCENT: i32 = 100;
const SAFETY_LIMIT_DEFAULT_PERCENT: i32 = 50;
const DELTA_DEFAULT: i32 = 1;
const GROWTH_FACTOR_DEFAULT: i32 = 2;

/// How rollouts that name this policy are paced (upstream contract A.5).
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nodewright.nvidia.com",
    version = "v1alpha1",
    kind = "DeploymentPolicy",
    plural = "deploymentpolicies",
    status = "DeploymentPolicyStatus",
    derive = "PartialEq",
    doc = "How rollouts are paced: compartments of nodes with a budget and a strategy each."
)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPolicySpec {
    /// For nodes that are in no compartment.
    #[serde(rename = "default")]
    pub fallback: Pace,

    /// Groups of nodes with their own pace.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub compartments: Vec<Compartment>,

    /// Whether batches start small again after completion.
    #[serde(default = "some_yes", skip_serializing_if = "Option::is_none")]
    pub reset_batch_state_on_completion: Option<bool>,
}

/// A budget, and a strategy unless the budget alone is the batch size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// The ceiling; exactly one of percent and count.
    pub budget: Budget,
    /// How batches grow; exactly one kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
}

/// A group of nodes with its own pace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compartment {
    /// Name of the compartment, unique in the policy.
    pub name: String,
    /// Which nodes.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub selector: LabelSelector,
    /// The ceiling; exactly one of percent and count.
    pub budget: Budget,
    /// How batches grow; exactly one kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
}

/// How many nodes at a time: exactly one of a share and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Share of the compartment's nodes, 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i32>,
    /// Number of nodes, 1 or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
}

/// How batches grow; exactly one is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// Batches of one size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Fixed>,
    /// Batches that grow by a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linear: Option<Linear>,
    /// Batches that grow by a factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponential: Option<Exponential>,
}

/// Batches of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fixed {
    /// Nodes in each batch, 1 or more.
    #[serde(default = "initial_batch", deserialize_with = "or_initial_batch")]
    pub initial_batch: i32,
    /// Share of a batch that must succeed, 1 to 100.
    #[serde(default = "batch_threshold", deserialize_with = "or_batch_threshold")]
    pub batch_threshold: i32,
    /// Failed batches in a row that stop the rollout, 1 or more; none never stops it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<i32>,
    /// Progress, 1 to 100 percent, from which on failures neither slow nor stop the rollout.
    #[serde(default = "safety_limit", deserialize_with = "or_safety_limit")]
    pub safety_limit: i32,
}

/// Batches that grow by a number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Linear {
    /// Nodes in the first batch, 1 or more.
    #[serde(default = "initial_batch", deserialize_with = "or_initial_batch")]
    pub initial_batch: i32,
    /// Nodes more in each batch than in the last, 1 or more.
    #[serde(default = "delta", deserialize_with = "or_delta")]
    pub delta: i32,
    /// Share of a batch that must succeed, 1 to 100.
    #[serde(default = "batch_threshold", deserialize_with = "or_batch_threshold")]
    pub batch_threshold: i32,
    /// Failed batches in a row that stop the rollout, 1 or more; none never stops it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<i32>,
    /// Progress, 1 to 100 percent, from which on failures neither slow nor stop the rollout.
    #[serde(default = "safety_limit", deserialize_with = "or_safety_limit")]
    pub safety_limit: i32,
}

/// Batches that grow by a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exponential {
    /// Nodes in the first batch, 1 or more.
    #[serde(default = "initial_batch", deserialize_with = "or_initial_batch")]
    pub initial_batch: i32,
    /// How many times the last batch the next one is, 2 or more.
    #[serde(default = "growth_factor", deserialize_with = "or_growth_factor")]
    pub growth_factor: i32,
    /// Share of a batch that must succeed, 1 to 100.
    #[serde(default = "batch_threshold", deserialize_with = "or_batch_threshold")]
    pub batch_threshold: i32,
    /// Failed batches in a row that stop the rollout, 1 or more; none never stops it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<i32>,
    /// Progress, 1 to 100 percent, from which on failures neither slow nor stop the rollout.
    #[serde(default = "safety_limit", deserialize_with = "or_safety_limit")]
    pub safety_limit: i32,
}

/// Defines the default of a field and the reading of `null` as that default.
macro_rules! default_number {
    ($name:ident, $or_name:ident, $value:expr) => {
        const fn $name() -> i32 {
            $value
        }

        fn $or_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
            Ok(Option::deserialize(deserializer)?.unwrap_or($value))
        }
    };
}

default_number!(initial_batch, or_initial_batch, INITIAL_BATCH_DEFAULT);
default_number!(batch_threshold, or_batch_threshold, BATCH_THRESHOLD_DEFAULT_PERCENT);
default_number!(safety_limit, or_safety_limit, SAFETY_LIMIT_DEFAULT_PERCENT);
default_number!(delta, or_delta, DELTA_DEFAULT);
default_number!(growth_factor, or_growth_factor, GROWTH_FACTOR_DEFAULT);
