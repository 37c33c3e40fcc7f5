//! What is wanted, validated.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Toleration;
use kube::core::{Selector, SelectorExt};
use serde::Serialize;

use super::{Budget, Package, PackageId, Policy, digest_hex};

/// How a rollout blocks those after it (upstream contract B.9).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sequencing {
    /// A node is free for the next as soon as it is complete.
    #[default]
    Node,
    /// All nodes must be complete first.
    All,
}

/// How pods are moved off a node (upstream contract A.2, `drainConfig`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DrainConfig {
    /// Delete instead of evict, which bypasses disruption budgets.
    pub disable_eviction: bool,
    /// False: a pod with an emptyDir blocks the drain.
    pub delete_empty_dir: bool,
    /// False: a pod without a controller blocks the drain.
    pub force: bool,
    /// Pods of DaemonSets stay.
    pub ignore_daemon_sets: bool,
    /// `None` is no limit.
    pub timeout: Option<Duration>,
    /// `None` is the pod's own.
    pub grace_period: Option<Duration>,
}

impl Default for DrainConfig {
    fn default() -> Self {
        Self {
            disable_eviction: false,
            delete_empty_dir: true,
            force: true,
            ignore_daemon_sets: true,
            timeout: None,
            grace_period: None,
        }
    }
}

/// One NodeWright resource: which nodes, which packages, how fast.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// metadata.name, 1 to 50 characters.
    pub name: String,
    /// Lower runs first; at least 1, 200 by default.
    pub priority: i32,
    /// How it blocks those after it.
    pub sequencing: Sequencing,
    /// One package at a time on each node.
    pub serial: bool,
    /// Which nodes; an empty selector is all of them.
    pub nodes: Selector,
    /// Pods that must finish before a drain; `None` (empty in the manifest) protects nothing.
    pub protected: Option<Selector>,
    /// How many nodes at once; `None` leaves it to the policy or the cluster's floor.
    pub budget: Option<Budget>,
    /// Name of the DeploymentPolicy, never together with a budget.
    pub policy: Option<String>,
    /// Whether batches start small again after completion; `None` leaves it to the policy.
    pub reset_batches: Option<bool>,
    /// How pods are moved.
    pub drain: DrainConfig,
    /// Tolerations for executors and for the selection of nodes.
    pub tolerations: Vec<Toleration>,
    /// Only for nodes that must not run workloads before they are done.
    pub runtime_required: bool,
    /// Leave a node cordoned when its runtime-required taint goes.
    pub runtime_required_cordon_after: bool,
    /// Taint nodes that join; only together with `runtime_required`.
    pub auto_taint_new_nodes: bool,
    /// Packages by name.
    pub packages: BTreeMap<String, Package>,
}

impl Rollout {
    /// Returns what this rollout moves nodes to: 16 hex digits that change when, and only when,
    /// a package does. Batches and stops belong to a target.
    pub fn target(&self) -> String {
        let mut digest = digest_hex(&self.packages);
        digest.truncate(16);
        digest
    }

    /// Returns what this rollout moves nodes to while its resource is being deleted.
    pub fn leaving_target(&self) -> String {
        let mut digest = digest_hex(&("deleted", &self.packages));
        digest.truncate(16);
        digest
    }

    /// Returns whether a node with these labels is selected.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.nodes.matches(labels)
    }

    /// Returns whether a pod with these labels must finish before a drain.
    pub fn protects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.protected.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Returns the package with exactly this name and version.
    pub fn package(&self, id: &PackageId) -> Option<&Package> {
        self.packages.get(&id.name).filter(|package| package.version.as_str() == id.version)
    }
}

/// Everything that is wanted in a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Desired {
    /// By name.
    pub rollouts: BTreeMap<String, Rollout>,
    /// By name.
    pub policies: BTreeMap<String, Policy>,
    /// Resources in the cluster that cannot be read: name to what is wrong. They are frozen.
    pub invalid: BTreeMap<String, String>,
}
