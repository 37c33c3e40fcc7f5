//! The commands about nodes: what people, other programs and machines do to them.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use nodewright::api::keys;
use nodewright::cluster::Disposition;
use nodewright::cluster::forget::{forget as let_go, remembered_on};
use nodewright::cluster::reset::{recorded, reset_batches, reset_node};
use nodewright::cluster::retry::{failed_visits, retry as try_again};
use nodewright::sim::scene::{NodeGroup, Scene};
use serde_json::{Value, json};

use super::commands::{Printed, with_causes};
use super::world::World;

/// GPUs of every node.
const GPUS: u32 = 8;

/// Runs a command if it is one of these.
pub async fn run(world: &World, words: &[&str], input: &str) -> Option<Printed> {
    Some(match words {
        ["nodes", prefix, count, labels @ ..] => nodes(world, prefix, count, labels).await,
        ["drop", "node", node] => drop_node(world, node).await,
        ["replace", "node", node] => replace_node(world, node).await,
        ["annotate", node, key] => {
            let value = if input.is_empty() { Value::Null } else { json!(input.trim_end()) };
            change(world, node, "upstream", json!({"metadata": {"annotations": {*key: value}}}))
                .await
        }
        ["label", node, label] => {
            let (key, value) = match (label.split_once('='), label.strip_suffix('-')) {
                (Some((key, value)), _) => (key, json!(value)),
                (None, Some(key)) => (key, Value::Null),
                (None, None) => return Some(Err("write KEY=VALUE or KEY-".to_owned())),
            };
            change(world, node, "kubectl", json!({"metadata": {"labels": {key: value}}})).await
        }
        ["taint", node, taint] => self::taint(world, node, taint).await,
        ["cordon", node] => cordon(world, node, "kubectl", json!(true)).await,
        ["cordon", node, "as", name] => cordon(world, node, name, json!(true)).await,
        ["uncordon", node] => cordon(world, node, "kubectl", Value::Null).await,
        ["uncordon", node, "as", name] => cordon(world, node, name, Value::Null).await,
        ["reboot", node] => switch(|| world.kubelet.reboot(node)),
        ["power", "off", node] => switch(|| world.kubelet.power_off(node)),
        ["power", "on", node] => switch(|| world.kubelet.power_on(node)),
        ["entry", node, rollout, package, version, stage, state] => {
            let set = |entries: &mut BTreeMap<String, Value>| {
                let entry = entries.entry(format!("{package}|{version}")).or_insert_with(|| {
                    let image = format!("registry.example/{package}");
                    json!({"name": package, "version": version, "image": image})
                });
                entry["stage"] = json!(stage);
                entry["state"] = json!(state);
                Ok(())
            };
            entries(world, node, rollout, set).await
        }
        ["drop", "entry", node, rollout, package, version] => {
            let take = |entries: &mut BTreeMap<String, Value>| {
                let name = format!("{package}|{version}");
                entries.remove(&name).map(drop).ok_or(format!("{node} has no entry {name}"))
            };
            entries(world, node, rollout, take).await
        }
        ["reset", "batches", rollout] => again(world, rollout).await,
        ["reset", "all", rollout] => reset_all(world, rollout).await,
        ["reset", node, rollout] => reset(world, node, rollout).await,
        ["forget", node] => forget(world, node).await,
        ["down", node, hours] => down(world, node, hours).await,
        ["retry", node, rollout] => retry(world, node, rollout).await,
        _ => return None,
    })
}

/// As `nodewright reset --node` does.
async fn reset(world: &World, node: &str, rollout: &str) -> Printed {
    let client = world.ground.client("person");
    let gone = reset_node(&client, node, rollout, None, world.clock).await;
    gone.map_err(|error| with_causes(&error)).map(|_| String::new())
}

/// As `nodewright reset` does.
async fn reset_all(world: &World, rollout: &str) -> Printed {
    let client = world.ground.client("person");
    let found =
        recorded(&client, rollout, world.clock).await.map_err(|error| with_causes(&error))?;
    for found in found {
        reset(world, &found.node, rollout).await?;
    }
    again(world, rollout).await
}

/// As `nodewright deployment-policy reset` does.
async fn again(world: &World, rollout: &str) -> Printed {
    let client = world.ground.client("person");
    let before = reset_batches(&client, rollout, world.clock).await;
    let before = before.map_err(|error| with_causes(&error))?;
    before.map(|_| String::new()).ok_or_else(|| format!("there is no resource {rollout}"))
}

/// As `nodewright retry` does.
async fn retry(world: &World, node: &str, rollout: &str) -> Printed {
    let client = world.ground.client("person");
    let failed =
        failed_visits(&client, node, world.clock).await.map_err(|error| with_causes(&error))?;
    let visit = failed.into_iter().flatten().find(|visit| visit.rollout == *rollout);
    let visit = visit.ok_or_else(|| format!("no visit of {rollout} failed on {node}"))?;
    try_again(&client, &visit, world.clock).await.map_err(|error| with_causes(&error))?;
    Ok(String::new())
}

/// As `nodewright forget --confirm` does.
async fn forget(world: &World, node: &str) -> Printed {
    let client = world.ground.client("person");
    loop {
        let memory =
            remembered_on(&client, node, world.clock).await.map_err(|it| with_causes(&it))?;
        let memory = memory.ok_or_else(|| format!("there is no node {node}"))?;
        let obstacles = memory.rollouts.iter().filter_map(|it| Some((it, it.obstacle.as_ref()?)));
        let refusals = obstacles.map(|(it, why)| format!("refused: {}: {why}\n", it.rollout));
        let refusals: String = refusals.collect();
        if !refusals.is_empty() {
            return Ok(refusals);
        }
        let said = memory.rollouts.iter().map(|it| {
            let names = [it.entries.clone(), it.left.clone()].concat().join(", ");
            let kept = if it.is_taken_off() { "taken off" } else { "recorded as left" };
            format!("{}: {names} {kept}\n", it.rollout)
        });
        match let_go(&client, &memory, &memory.rollouts, world.clock).await {
            Ok(()) => return Ok(said.collect()),
            Err(error) if error.disposition() == Disposition::Conflict => {}
            Err(error) => return Err(with_causes(&error)),
        }
    }
}

/// Since when a node is down is what whoever misses it says.
async fn down(world: &World, node: &str, hours: &str) -> Printed {
    let hours: i64 = hours.parse().map_err(|_| format!("{hours} is no number"))?;
    let since = world.clock.now().checked_sub(SignedDuration::from_hours(hours));
    let since = since.map_err(|error| with_causes(&error))?;
    // Not before somebody else has said so: whoever says it last says since when.
    until_ready_is(world, node, "Unknown").await?;
    let condition = json!({
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "",
        "lastTransitionTime": format!("{since:.0}"),
    });
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    let changed = api(world).patch_status(node, &PatchParams::default(), &patch).await;
    changed.map(|_| String::new()).map_err(|error| with_causes(&error))
}

async fn until_ready_is(world: &World, name: &str, status: &str) -> Result<(), String> {
    let api = api(world);
    world
        .eventually(async || {
            let conditions = api.get(name).await.ok()?.status?.conditions?;
            let is_so = conditions.iter().any(|it| it.type_ == "Ready" && it.status == status);
            is_so.then_some(())
        })
        .await
}

fn switch(turn: impl FnOnce()) -> Printed {
    turn();
    Ok(String::new())
}

async fn nodes(world: &World, prefix: &str, count: &str, labels: &[&str]) -> Printed {
    let count = count.parse().map_err(|_| format!("{count} is no number"))?;
    let mut group = NodeGroup::new(prefix, count).gpus(GPUS);
    for (key, value) in labels.iter().filter_map(|label| label.split_once('=')) {
        group = group.label(key, value);
    }
    let names = world.scene().add_nodes(&group).await.map_err(|error| with_causes(&error))?;
    for name in &names {
        until_ready(world, name).await?;
    }
    Ok(String::new())
}

/// Waits until a node is ready, and free of the taints that say it is not.
async fn until_ready(world: &World, name: &str) -> Result<(), String> {
    let api = api(world);
    world
        .eventually(async || {
            let node = api.get(name).await.ok()?;
            let conditions = node.status?.conditions.unwrap_or_default();
            let is_ready = conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
            // The taint of a new node goes with its first heartbeats.
            let taints = node.spec?.taints.unwrap_or_default();
            let mut judged = taints.iter().filter(|taint| is_of_kubernetes(taint));
            (is_ready && judged.next().is_none()).then_some(())
        })
        .await
}

/// Returns whether Kubernetes sets and removes this taint by itself.
pub fn is_of_kubernetes(taint: &Taint) -> bool {
    taint.key.starts_with("node.kubernetes.io/")
}

async fn drop_node(world: &World, node: &str) -> Printed {
    let api = api(world);
    api.delete(node, &DeleteParams::default()).await.map_err(|error| with_causes(&error))?;
    let is_gone = async || matches!(api.get_opt(node).await, Ok(None)).then_some(());
    world.eventually(is_gone).await?;
    Ok(String::new())
}

/// The host is given back and another one joins under its name, with the same labels.
async fn replace_node(world: &World, node: &str) -> Printed {
    let labels = api(world).get(node).await.map_err(|error| with_causes(&error))?.labels().clone();
    drop_node(world, node).await?;
    let (prefix, number) = node.rsplit_once('-').ok_or("its name has no number")?;
    if number != "001" {
        return Err("only the first of a group can be replaced".to_owned());
    }
    let mut group = NodeGroup::new(prefix, 1).gpus(GPUS);
    for (key, value) in labels.iter().filter(|(key, _)| !key.starts_with("kubernetes.io/")) {
        group = group.label(key, value);
    }
    // Another seed is another machine.
    let scene = Scene::new(world.ground.client("test"), world.clock, 2);
    scene.add_nodes(&group).await.map_err(|error| with_causes(&error))?;
    until_ready(world, node).await?;
    Ok(String::new())
}

async fn cordon(world: &World, node: &str, who: &str, is_cordoned: Value) -> Printed {
    change(world, node, who, json!({"spec": {"unschedulable": is_cordoned}})).await
}

async fn change(world: &World, node: &str, who: &str, change: Value) -> Printed {
    let field_manager = Some(who.to_owned());
    let parameters = PatchParams { field_manager, ..PatchParams::default() };
    let changed = api(world).patch(node, &parameters, &Patch::Merge(change)).await;
    changed.map(|_| String::new()).map_err(|error| with_causes(&error))
}

async fn taint(world: &World, node: &str, text: &str) -> Printed {
    let wrong = || "write KEY=VALUE:EFFECT or KEY-".to_owned();
    if let Some(key) = text.strip_suffix('-') {
        return rewrite(world, node, |node| {
            let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
            let before = taints.len();
            taints.retain(|taint| taint.key != key);
            if taints.len() < before { Ok(()) } else { Err(format!("there is no taint {key}")) }
        })
        .await;
    }
    let (pair, effect) = text.split_once(':').ok_or_else(wrong)?;
    let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
    let taint = Taint {
        key: key.to_owned(),
        value: Some(value.to_owned()).filter(|value| !value.is_empty()),
        effect: effect.to_owned(),
        time_added: None,
    };
    rewrite(world, node, |node| {
        node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint.clone());
        Ok(())
    })
    .await
}

/// Rewrites the entries that a rollout has on a node.
async fn entries(
    world: &World,
    node: &str,
    rollout: &str,
    edit: impl Fn(&mut BTreeMap<String, Value>) -> Result<(), String>,
) -> Printed {
    let key = keys::node_state(rollout);
    rewrite(world, node, |node| {
        let text = node.annotations().get(&key).map_or("{}", String::as_str);
        let mut entries = serde_json::from_str(text).map_err(|error| with_causes(&error))?;
        edit(&mut entries)?;
        let text = serde_json::to_string(&entries).map_err(|error| with_causes(&error))?;
        node.annotations_mut().insert(key.clone(), text);
        Ok(())
    })
    .await
}

/// Reads a node, changes it and writes it back, again where somebody was faster.
async fn rewrite(
    world: &World,
    name: &str,
    edit: impl Fn(&mut Node) -> Result<(), String>,
) -> Printed {
    let api = api(world);
    let parameters =
        PostParams { field_manager: Some("kubectl".to_owned()), ..PostParams::default() };
    loop {
        let mut node = api.get(name).await.map_err(|error| with_causes(&error))?;
        edit(&mut node)?;
        match api.replace(name, &parameters, &node).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            other => return other.map(|_| String::new()).map_err(|error| with_causes(&error)),
        }
    }
}

fn api(world: &World) -> Api<Node> {
    Api::all(world.ground.client("test"))
}
