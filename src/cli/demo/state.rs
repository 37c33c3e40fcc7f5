//! What the cluster and the status branch say at the end of a chapter, compared with the story.
//!
//! In: nodes, resources, commits as they are. Out: a promise kept in words, or the sentence that
//! says how it was broken. Must never: ask the daemon; it is the one that is examined.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::Api;
use serde_json::Value;

use super::error::DemoError;
use super::world::World;
use crate::api::{NodeWright, keys};
use crate::git::{Told, parse_marks};
use crate::sim::Promise;

/// A package that each node of a pool should have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub rollout: &'a str,
    pub package: &'a str,
    pub version: &'a str,
}

/// Every node of the pool says that it has the package, complete, in this version and no other.
pub(super) fn has_package(nodes: &[Node], pool: &[String], wanted: Wanted<'_>) -> Promise {
    let Wanted { rollout, package, version } = wanted;
    for name in pool {
        let node = nodes.iter().find(|node| node.name_any() == *name);
        let node = node.ok_or_else(|| format!("node {name} is gone"))?;
        let text = node.annotations().get(&keys::node_state(rollout));
        let entries: Value = text
            .and_then(|text| serde_json::from_str(text).ok())
            .ok_or_else(|| format!("{name} does not say what is installed on it"))?;
        let found: Vec<(&String, &Value)> = entries
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| key.split('|').next() == Some(package))
            .collect();
        let is_right = matches!(found.as_slice(), [(key, entry)]
            if **key == format!("{package}|{version}") && entry["state"] == "complete");
        if !is_right {
            return Err(format!(
                "{name} should have {package} {version} alone, and says {entries}"
            ));
        }
    }
    Ok(format!("all {} nodes of {rollout} say {package} {version}, complete", pool.len()))
}

/// Each node was rebooted exactly so often since the beginning.
pub(super) fn reboots(world: &World, training: u32) -> Promise {
    let off = |pool: &[String], wanted: u32| {
        let count = |name: &&String| world.kubelet.reboots(name) != wanted;
        pool.iter().find(count).map(|name| {
            let found = world.kubelet.reboots(name);
            format!("{name} was rebooted {found} times since the beginning, not {wanted}")
        })
    };
    if let Some(wrong) = off(&world.training, training).or_else(|| off(&world.general, 0)) {
        return Err(wrong);
    }
    Ok(format!(
        "each of the {} training nodes has now been rebooted {}, no other node ever",
        world.training.len(),
        match training {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        }
    ))
}

/// No node is cordoned, and none carries a mark of ours.
pub(super) fn released(nodes: &[Node]) -> Promise {
    for node in nodes {
        let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
        let mark = node.annotations().keys().find(|key| key.starts_with(&keys::cordon("")));
        if is_cordoned || mark.is_some() {
            return Err(format!("{} was not given back", node.name_any()));
        }
    }
    Ok(format!("all {} nodes are open for pods again", nodes.len()))
}

/// What a resource is wanted to be: changes of it would change one of these.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spec {
    generation: Option<i64>,
    spec: Value,
}

impl Spec {
    pub async fn read(world: &World, name: &str) -> Result<Self, DemoError> {
        let api: Api<NodeWright> = Api::all(world.cluster.client("demo"));
        let object = api.get(name).await.map_err(DemoError::cluster("reading a NodeWright"))?;
        let spec = serde_json::to_value(&object.spec).unwrap_or_default();
        Ok(Self { generation: object.metadata.generation, spec })
    }

    /// The resource is as it was.
    pub fn is_kept(&self, now: &Self, name: &str) -> Promise {
        if self == now {
            let generation = now.generation.unwrap_or_default();
            return Ok(format!("{name} is still at its last good state, generation {generation}"));
        }
        Err(format!("{name} was changed from {self:?} to {now:?}"))
    }
}

/// The status branch holds commits of this cluster alone, numbered without a gap, and its last
/// page says that everything is done.
pub(super) fn status_branch(history: &[Told], readme: Option<&str>, cluster: &str) -> Promise {
    if history.is_empty() {
        return Err("there is no status branch".to_owned());
    }
    let numbers = (1..).zip(history.iter().rev());
    for (number, told) in numbers {
        let marks = parse_marks(&told.message);
        let is_right =
            marks.as_ref().is_some_and(|marks| marks.cluster == cluster && marks.seq == number);
        if !is_right {
            let commit = &told.commit;
            return Err(format!("status commit {commit} is not number {number}: {marks:?}"));
        }
    }
    let last = history.first().map(|told| told.message.as_str()).unwrap_or_default();
    if !last.contains("Nodewright-Phase: Complete") {
        return Err(format!("the last status commit does not say that all is complete: {last}"));
    }
    match readme {
        Some(page) if page.contains("nothing needs a person") => {}
        page => return Err(format!("the page of the status branch is {page:?}")),
    }
    Ok(format!(
        "the status branch has {} commits with trailers, numbered without a gap",
        history.len()
    ))
}
