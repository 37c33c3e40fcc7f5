//! How a rollout is paced: compartments of nodes, each with a budget and a strategy.

use std::collections::BTreeMap;

use kube::core::{Selector, SelectorExt};

use super::budget::Budget;

/// A DeploymentPolicy with every default filled in (upstream contract A.5).
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// metadata.name.
    pub name: String,
    /// For nodes that no compartment selects.
    pub fallback: Pace,
    /// Groups of nodes with a pace of their own, as written.
    pub compartments: Vec<Compartment>,
    /// Batches start small again after completion and with a new target, unless the resource says
    /// otherwise.
    pub reset: bool,
}

/// Nodes with a pace of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct Compartment {
    /// Its name, unique in the policy.
    pub name: String,
    /// Which nodes.
    pub nodes: Selector,
    /// How they are paced.
    pub pace: Pace,
}

impl Compartment {
    /// Returns whether a node with these labels is among its nodes, unless a more cautious one has
    /// it.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.nodes.matches(labels)
    }
}

/// A ceiling, and how batches grow below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How many nodes may be disturbed at once.
    pub budget: Budget,
    /// `None`: each batch has the size of the ceiling, and no failure stops it.
    pub strategy: Option<Strategy>,
}

/// How batches grow, shrink and stop (upstream contract A.5, B.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strategy {
    /// How the next batch follows from the last.
    pub growth: Growth,
    /// Nodes in the first batch, 1 or more.
    pub initial_batch: u32,
    /// Percent of a batch that must succeed, 1 to 100.
    pub batch_threshold: u32,
    /// Failed batches in a row that stop the compartment, 1 or more.
    pub failure_threshold: Option<u32>,
    /// Percent of progress, 1 to 100, from which on failures neither slow nor stop it.
    pub safety_limit: u32,
}

/// How the next batch follows from the last.
///
/// The order is that of caution: of several compartments with the same node, the most cautious has
/// it (upstream contract B.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Growth {
    /// All batches have the size of the first.
    Fixed,
    /// So many nodes more, or fewer after a failure.
    Linear(u32),
    /// So many times the nodes, or that part of them after a failure.
    Exponential(u32),
}
