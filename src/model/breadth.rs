//! Selectors that take in more than people mean: every node there is, or the control plane.
//!
//! In: a selector, and the nodes with their labels. Out: what is too broad about it, in numbers,
//! and the text by which a person approves exactly this. Never here: whether it was approved.

use std::collections::BTreeMap;
use std::fmt;

use kube::core::{Selector, SelectorExt};
use serde::{Deserialize, Serialize};

use super::digest_hex;

/// Labels by which a node says that it is of the control plane, under the name of today and the
/// one before it.
const CONTROL_PLANE: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// Labels that kubelets put on every node of a kind: who selects by them alone selects machines,
/// and no pool.
const OF_EVERY_NODE: [&str; 4] =
    ["kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch"];

/// The label that every node has, with a value of its own.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Nodes of the control plane that are named.
const NAMES_MAX: usize = 3;

/// What is too broad about a selector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Breadth {
    /// What it takes in.
    pub scope: BreadthScope,
    /// Nodes that it selects.
    pub nodes: u32,
    /// Nodes of the control plane among them.
    pub control_plane: u32,
    /// The first of these.
    pub first: Vec<String>,
}

/// What a selector takes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BreadthScope {
    /// Every node of the cluster, by nothing that an operator gave them.
    Everything,
    /// Some nodes of the control plane.
    ControlPlane,
}

impl Breadth {
    /// Returns what is too broad about a selector; `None` where nothing is.
    ///
    /// A pool's own label that every node of a small cluster has is no reason: whoever adds a node
    /// without it has it left out. `nodes` are those of the whole cluster, by name.
    pub fn of<'n>(
        selector: &Selector,
        nodes: impl Iterator<Item = (&'n str, &'n BTreeMap<String, String>)>,
    ) -> Option<Self> {
        let mut found =
            Self { scope: BreadthScope::Everything, nodes: 0, control_plane: 0, first: Vec::new() };
        for (name, labels) in nodes {
            if !selector.matches(labels) {
                found.scope = BreadthScope::ControlPlane;
                continue;
            }
            found.nodes = found.nodes.saturating_add(1);
            if CONTROL_PLANE.iter().any(|label| labels.contains_key(*label)) {
                found.control_plane = found.control_plane.saturating_add(1);
                if found.first.len() < NAMES_MAX {
                    found.first.push(name.to_owned());
                }
            }
            let is_everything = found.scope == BreadthScope::Everything;
            if is_everything && !selector.selects_all() && !selector.matches(&bare(labels)) {
                found.scope = BreadthScope::ControlPlane;
            }
        }
        let is_broad = match found.scope {
            BreadthScope::Everything => found.nodes > 0,
            BreadthScope::ControlPlane => found.control_plane > 0,
        };
        is_broad.then_some(found)
    }
}

/// Returns the text by which a person approves this selector, however many nodes it takes in, of
/// this very resource: one that is made again, or selects by something else, asks again.
pub fn approval(resource_uid: &str, selector: &Selector) -> String {
    digest_hex(&(resource_uid, selector.to_string()))
}

/// Returns what the labels of a node would be if nobody had given it any.
fn bare(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let given = labels.iter().filter_map(|(key, value)| match key.as_str() {
        HOSTNAME => Some((key.clone(), String::new())),
        key if OF_EVERY_NODE.contains(&key) => Some((key.to_owned(), value.clone())),
        _ => None,
    });
    given.collect()
}

/// `nodeSelectors selects every node of the cluster: 12, 3 of the control plane (cp-1, cp-2, cp-3)`
impl fmt::Display for Breadth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, nodes, control_plane, first } = self;
        let named = || {
            let unnamed = usize::try_from(*control_plane).unwrap_or(usize::MAX) - first.len();
            let more = if unnamed == 0 { String::new() } else { format!(" and {unnamed} more") };
            format!("{control_plane} of the control plane ({}{more})", first.join(", "))
        };
        match (scope, control_plane) {
            (BreadthScope::Everything, 0) => {
                write!(f, "nodeSelectors selects every node of the cluster: {nodes}")
            }
            (BreadthScope::Everything, _) => {
                write!(f, "nodeSelectors selects every node of the cluster: {nodes}, {}", named())
            }
            (BreadthScope::ControlPlane, _) => {
                let nodes = if *nodes == 1 { "1 node".into() } else { format!("{nodes} nodes") };
                write!(f, "nodeSelectors selects {nodes}, {}", named())
            }
        }
    }
}
