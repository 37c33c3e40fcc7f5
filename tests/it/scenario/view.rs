//! What `show` prints: the cluster, the fleet and the executors as lines of text.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use nodewright::api::keys;
use nodewright::api::status::CompartmentStatus;
use nodewright::sim::keys::REBOOTS;
use nodewright::sim::kubelet::Run;
use serde_json::Value;

use super::commands::{Printed, in_namespace, with_causes};
use super::ground::NAMESPACE;
use super::world::World;
use super::{explain, facts, nodes, resources};

/// ConfigMaps that are always there: of Kubernetes, and what the daemon knows of its source.
const STANDING: [&str; 2] = ["kube-root-ca.crt", "nodewright-source"];

/// Prints a fact.
pub async fn show(world: &World, fact: &[&str]) -> Printed {
    let state = world.state();
    let state = || state.as_deref().ok_or("the daemon has not looked yet");
    match fact {
        ["nodes"] => {
            let nodes: Api<Node> = Api::all(world.ground.client("test"));
            let nodes =
                nodes.list(&ListParams::default()).await.map_err(|error| with_causes(&error))?;
            Ok(nodes.items.iter().map(line_of).collect::<Vec<_>>().join("\n"))
        }
        // How often an image is asked for depends on time: a pull is believed for an hour, and goes
        // with the pods of its visit.
        ["runs", node] => Ok(runs(world, node, |container| !container.starts_with("pull-"))),
        ["runs", node, package] => Ok(runs(world, node, |container| {
            container.strip_prefix(package).is_some_and(|it| it.is_empty() || it.starts_with('-'))
        })),
        ["batches", rollout] => batches(world, rollout).await,
        ["compartments", rollout] => compartments(world, rollout).await,
        ["explain", rollout, flags @ ..] => explain::resource(world, rollout, flags).await,
        ["marks", node] => marks(world, node).await,
        ["left"] => left(world).await,
        ["conditions", rollout] => conditions(world, rollout).await,
        ["resources"] => packages(world).await,
        ["needs"] => Ok(facts::needs(state()?, None).unwrap_or_else(|| "nothing".to_owned())),
        ["findings"] => {
            let findings = state()?.source.findings.iter();
            let lines = findings.map(|it| {
                format!(
                    "{}: {} {}: {}\n  way out: {}",
                    it.place(),
                    it.severity,
                    it.code,
                    it.message,
                    it.way_out
                )
            });
            Ok(lines.collect::<Vec<_>>().join("\n"))
        }
        ["evicted", pod] => {
            let (namespace, name) = in_namespace(pod)?;
            let pods: Api<Pod> = Api::namespaced(world.ground.client("test"), namespace);
            let pod = pods.get_opt(name).await.map_err(|error| with_causes(&error))?;
            Ok(if pod.is_some() { "it stayed" } else { "it was moved" }.to_owned())
        }
        _ => Err("there is no such fact to show; see scenario/facts.rs".to_owned()),
    }
}

/// Returns a node as one line: who cordoned it, how often it was rebooted, its packages.
pub fn line_of(node: &Node) -> String {
    let mut text = node.name_any();
    let marks = cordon_marks(node);
    match (is_cordoned(node), marks.is_empty()) {
        (false, true) => {}
        (true, true) => text += " cordoned by others",
        (true, false) => text += &format!(" cordoned by {}", marks.join(", ")),
        (false, false) => text += &format!(" schedulable with marks of {}", marks.join(", ")),
    }
    match node.annotations().get(REBOOTS).map(String::as_str) {
        None => {}
        Some("1") => text += ", rebooted once",
        Some(times) => text += &format!(", rebooted {times} times"),
    }
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    for taint in taints.filter(|taint| !nodes::is_of_kubernetes(taint)) {
        let value = taint.value.as_deref().unwrap_or_default();
        text += &format!(", tainted {}={value}:{}", taint.key, taint.effect);
    }
    for (key, value) in node.annotations() {
        let Some(rollout) = key.strip_prefix(&keys::node_state("")) else { continue };
        let entries: BTreeMap<String, Value> = serde_json::from_str(value).unwrap_or_default();
        for (package, entry) in entries {
            let word = |key: &str| entry[key].as_str().unwrap_or("?").to_owned();
            if entry.get("left").is_some() {
                text += &format!("; {rollout}: {package} left");
                continue;
            }
            text += &format!("; {rollout}: {package} {} {}", word("stage"), word("state"));
        }
    }
    text
}

fn runs(world: &World, node: &str, is_shown: impl Fn(&str) -> bool) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let runs = world.kubelet.runs();
    let is_it =
        |run: &&Run| run.node == node && run.namespace == NAMESPACE && is_shown(&run.container);
    for run in runs.iter().filter(is_it) {
        let end =
            if run.exit_code == 0 { String::new() } else { format!(" exit {}", run.exit_code) };
        let what = format!("{}{end}", run.container);
        match counts.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count += 1,
            None => counts.push((what, 1)),
        }
    }
    let lines = counts.into_iter().map(|(what, count)| match count {
        1 => what,
        count => format!("{what} ×{count}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the conditions of a resource, one a line.
pub async fn conditions(world: &World, rollout: &str) -> Printed {
    let resource = resources::nodewrights(world).get(rollout).await;
    let resource = resource.map_err(|error| with_causes(&error))?;
    let conditions = resource.status.map(|status| status.conditions).unwrap_or_default();
    // The mirrored ones say the same again, and which start was the last depends on timing.
    let told = conditions
        .iter()
        .filter(|condition| !condition.type_.contains('/') && condition.type_ != "ApplyPackage");
    let mut lines: Vec<String> = told
        .map(|it| format!("{}={} {}: {}", it.type_, it.status, it.reason, it.message))
        .collect();
    lines.sort();
    Ok(lines.join("\n"))
}

async fn packages(world: &World) -> Printed {
    let list = resources::nodewrights(world).list(&ListParams::default()).await;
    let lines = list.map_err(|error| with_causes(&error))?.items.into_iter().map(|resource| {
        let packages = resource.spec.packages.iter();
        let packages = packages.map(|(name, package)| format!("{name}|{}", package.version));
        format!("{}: {}", resource.name_any(), packages.collect::<Vec<_>>().join(", "))
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns how many nodes each batch of each compartment had, as the nodes say.
async fn batches(world: &World, rollout: &str) -> Printed {
    let nodes: Api<Node> = Api::all(world.ground.client("test"));
    let nodes = nodes.list(&ListParams::default()).await.map_err(|error| with_causes(&error))?;
    let mut compartments: BTreeMap<String, BTreeMap<u64, usize>> = BTreeMap::new();
    for node in nodes.items {
        let Some(record) = node.annotations().get(&keys::rollout(rollout)) else { continue };
        let record: Value = serde_json::from_str(record).map_err(|error| with_causes(&error))?;
        let name = record["compartment"].as_str().unwrap_or("?").to_owned();
        let batches = compartments.entry(name).or_default();
        *batches.entry(record["batch"].as_u64().unwrap_or(0)).or_default() += 1;
    }
    let lines = compartments.into_iter().map(|(name, batches)| {
        let sizes: Vec<String> = batches.into_values().map(|size| size.to_string()).collect();
        format!("{name}: {}", sizes.join(", "))
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns each compartment of a resource, as its status says.
pub async fn compartments(world: &World, rollout: &str) -> Printed {
    let found =
        resources::nodewrights(world).get(rollout).await.map_err(|error| with_causes(&error))?;
    let statuses = found.status.unwrap_or_default().compartment_statuses;
    let lines = statuses.into_iter().map(|(name, status)| {
        let CompartmentStatus { matched, ceiling, completed, batch_state, .. } = status;
        let state = batch_state.unwrap_or_default();
        let mut line = format!(
            "{name}: {completed} of {matched} complete, ceiling {ceiling}, batch {}, last batch {}",
            state.current_batch, state.last_batch_size
        );
        if state.consecutive_failures > 0 {
            line += &format!(", failed in a row {}", state.consecutive_failures);
        }
        if state.should_stop {
            line += ", stopped";
        }
        line
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the keys of ours on a node; its conditions follow when there is time for them, and are a
/// matter of `daemon::conditions`.
async fn marks(world: &World, node: &str) -> Printed {
    let api: Api<Node> = Api::all(world.ground.client("test"));
    let node = api.get(node).await.map_err(|error| with_causes(&error))?;
    let is_ours =
        |key: &&String| key.starts_with(keys::PREFIX) || key.starts_with(keys::LEGACY_PREFIX);
    let annotations = node.annotations().keys().filter(is_ours);
    let annotations = annotations.map(|key| format!("annotation {key}"));
    let labels = node.labels().keys().filter(is_ours).map(|key| format!("label {key}"));
    let all: Vec<String> = annotations.chain(labels).collect();
    Ok(if all.is_empty() { "none".to_owned() } else { all.join("\n") })
}

/// Returns how many objects of each kind are in our namespace.
pub async fn left(world: &World) -> Printed {
    let executors = executors(world, None).await?.len();
    let config_maps: Api<ConfigMap> = Api::namespaced(world.ground.client("test"), NAMESPACE);
    let list =
        config_maps.list(&ListParams::default()).await.map_err(|error| with_causes(&error))?;
    let names: Vec<String> = list.items.iter().map(ResourceExt::name_any).collect();
    let ours: Vec<&String> =
        names.iter().filter(|name| !STANDING.contains(&name.as_str())).collect();
    let snapshots = ours.iter().filter(|name| name.starts_with("nw-")).count();
    let others = ours.len() - snapshots;
    Ok(format!("{executors} executors, {snapshots} snapshots, {others} other ConfigMaps"))
}

/// Returns the executor pods of a node, or of all nodes.
pub async fn executors(world: &World, node: impl Into<Option<&str>>) -> Result<Vec<Pod>, String> {
    let pods: Api<Pod> = Api::namespaced(world.ground.client("test"), NAMESPACE);
    let list = pods.list(&ListParams::default().labels(keys::NAME)).await;
    let mut pods = list.map(|list| list.items).map_err(|error| with_causes(&error))?;
    if let Some(node) = node.into() {
        let of = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        pods.retain(|pod| of(pod).as_deref() == Some(node));
    }
    Ok(pods)
}

/// Returns how often a container has ended on a node.
pub fn times_run(world: &World, node: &str, container: &str) -> usize {
    let runs = world.kubelet.runs();
    let is_it =
        |run: &&Run| run.node == node && run.namespace == NAMESPACE && run.container == container;
    runs.iter().filter(is_it).count()
}

/// Returns whether an executor on a node has come to this container and not ended it.
pub async fn is_begun(world: &World, node: &str, container: &str) -> bool {
    let here = executors(world, node).await.unwrap_or_default().into_iter();
    let mut statuses = here.filter_map(|pod| pod.status).flat_map(|status| {
        let main = status.container_statuses.unwrap_or_default();
        status.init_container_statuses.unwrap_or_default().into_iter().chain(main)
    });
    statuses.any(|status| {
        let running = status.state.is_some_and(|state| state.running.is_some());
        status.name == container && running
    })
}

/// Returns what an event about an object says; of several the first one told.
pub async fn event(world: &World, reason: &str, object: &str) -> Option<String> {
    let events: Api<Event> = Api::all(world.ground.client("test"));
    let list = events.list(&ListParams::default()).await.ok()?;
    let about = |event: &Event| {
        let regarding = event.regarding.as_ref().and_then(|it| it.name.as_deref());
        event.reason.as_deref() == Some(reason) && regarding == Some(object)
    };
    let mut found: Vec<Event> = list.items.into_iter().filter(about).collect();
    found.sort_by_key(|event| event.event_time.clone().map(|time| time.0));
    let first = found.into_iter().next()?;
    Some(format!("{}: {}", first.type_.unwrap_or_default(), first.note.unwrap_or_default()))
}

/// Returns whether a node is cordoned.
pub fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Returns the marks on a node that say who cordoned it.
fn cordon_marks(node: &Node) -> Vec<String> {
    let keys = node.annotations().keys();
    keys.filter_map(|key| key.strip_prefix("nodewright.nvidia.com/cordon_"))
        .map(str::to_owned)
        .collect()
}
