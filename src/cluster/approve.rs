//! A person's approval of a selector that takes in every node, or nodes of the control plane.
//!
//! In: a resource. Out: what it selects, and the annotation on the ConfigMap of the source by which
//! the daemon knows that a person has seen it. It needs no leadership. Must never: approve another
//! selector, or another object of that name, than the one that was shown.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, PartialObjectMeta};
use kube::core::Selector;
use kube::{Client, ResourceExt as _};

use super::error::ClusterError;
use super::fence::bounded;
use super::source_state::SourceStates;
use crate::api::NodeWright;
use crate::clock::Clock;
use crate::model::{Breadth, approval};

/// Objects in one page of a list, so that each answer comes within its time.
const PAGE: u32 = 500;

/// What a resource selects, and whether a person has approved it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// What is too broad about it; `None` where there is nothing to approve.
    pub breadth: Option<Breadth>,
    /// It is approved as it is.
    pub approved: bool,
    /// The text that approves it.
    approval: String,
    /// Resources that something was approved for and that are gone.
    gone: BTreeSet<String>,
}

/// Why nothing can be said of a selection.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// The API server did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The resource's selector means nothing.
    #[error("nodeSelectors of {resource} cannot be read")]
    Selector {
        /// The resource.
        resource: String,
        /// What is wrong with it.
        #[source]
        source: kube::core::ParseExpressionError,
    },
}

/// Returns what a resource selects; `None` when there is no such resource.
///
/// # Errors
/// The API server did not answer, or the selector cannot be read.
pub async fn selection(
    client: &Client,
    namespace: &str,
    resource: &str,
    clock: Clock,
) -> Result<Option<Selection>, SelectionError> {
    let resources: Api<NodeWright> = Api::all(client.clone());
    let all = ListParams::default();
    let listed = bounded(clock, "list nodewrights", resources.list(&all)).await?.items;
    let Some(found) = listed.iter().find(|it| it.name_any() == resource) else { return Ok(None) };
    let selector = Selector::try_from(found.spec.node_selectors.clone())
        .map_err(|source| SelectionError::Selector { resource: resource.to_owned(), source })?;
    let nodes = nodes(client, clock).await?;
    let nodes: Vec<_> = nodes.iter().map(|node| (node.name_any(), node.labels())).collect();
    let nodes = nodes.iter().map(|(name, labels)| (name.as_str(), *labels));
    let approval = approval(&found.uid().unwrap_or_default(), &selector);
    let mut approvals = SourceStates::new(client.clone(), namespace, clock).read().await?.approvals;
    let approved = approvals.remove(resource).as_ref() == Some(&approval);
    let live: BTreeSet<String> = listed.iter().map(|it| it.name_any()).collect();
    let gone = approvals.into_keys().filter(|name| !live.contains(name)).collect();
    Ok(Some(Selection { breadth: Breadth::of(&selector, nodes), approved, approval, gone }))
}

/// Approves what was shown.
///
/// # Errors
/// The API server did not take it, or no daemon has been at work in the namespace.
pub async fn approve(
    client: &Client,
    namespace: &str,
    resource: &str,
    seen: &Selection,
    clock: Clock,
) -> Result<(), ClusterError> {
    let states = SourceStates::new(client.clone(), namespace, clock);
    states.approve(resource, &seen.approval, &seen.gone).await
}

/// Lists the nodes without anything but their metadata.
async fn nodes(
    client: &Client,
    clock: Clock,
) -> Result<Vec<PartialObjectMeta<Node>>, ClusterError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut parameters = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = bounded(clock, "list nodes", nodes.list_metadata(&parameters)).await?;
        found.extend(page.items);
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => parameters = parameters.continue_token(&more),
            None => return Ok(found),
        }
    }
}
