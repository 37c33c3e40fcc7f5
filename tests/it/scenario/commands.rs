//! The commands that do something; what they print says what was done.

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use nodewright::cluster::source_state::SourceStates;
use nodewright::sim::scene::{Budget, NodeGroup, Owner, Workload};
use serde_json::{Value, json};

use super::facts;
use super::file::Step;
use super::ground::{Ground, NAMESPACE};
use super::world::World;

/// What a command prints, or why it failed.
pub type Printed = Result<String, String>;

/// Runs one command.
pub async fn run(world: &mut World, step: &Step) -> Printed {
    let words: Vec<&str> = step.command.split_whitespace().collect();
    let input = step.input.as_str();
    match &words[..] {
        ["nodes", prefix, count, labels @ ..] => nodes(world, prefix, count, labels).await,
        ["annotate", node, key] => {
            let change = json!({"metadata": {"annotations": {*key: input.trim_end()}}});
            change_node(world, node, "upstream", change).await
        }
        ["cordon", node] => {
            change_node(world, node, "kubectl", json!({"spec": {"unschedulable": true}})).await
        }
        ["uncordon", node] => {
            change_node(world, node, "kubectl", json!({"spec": {"unschedulable": null}})).await
        }
        ["workload", pod, "on", node, options @ ..] => workload(world, pod, node, options).await,
        ["finish", pod] => finish(world, pod).await,
        ["pdb", budget, options @ ..] => add_budget(world, budget, options).await,
        ["drop", "pdb", budget] => drop_budget(world, budget).await,
        ["rule", rule] => {
            let rule = rule.parse().map_err(|error| format!("{error}"))?;
            world.kubelet.rewrite(|script| script.rules.push(rule));
            Ok(String::new())
        }
        ["no", "rules"] => {
            world.kubelet.rewrite(|script| script.rules.clear());
            Ok(String::new())
        }
        ["write", file] => {
            world.tree.insert((*file).to_owned(), input.to_owned());
            Ok(String::new())
        }
        ["replace", file, ..] => replace(world, file, &step.command),
        ["remove", file] => {
            world.tree.remove(*file).ok_or_else(|| format!("there is no {file}"))?;
            Ok(String::new())
        }
        ["push"] => {
            world.push(true);
            Ok(String::new())
        }
        ["push", "rewritten"] => {
            world.push(false);
            Ok(String::new())
        }
        ["accept"] => accept(world).await,
        ["start"] => {
            world.start();
            Ok(String::new())
        }
        ["stop"] => {
            let daemon = world.daemon.take().ok_or("the daemon is not started")?;
            daemon.stop().await.map_err(|error| error.to_string())?;
            Ok(String::new())
        }
        ["until", fact @ ..] => facts::until(world, fact).await,
        ["show", fact @ ..] => facts::show(world, fact).await,
        ["expect", fact @ ..] => facts::expect(world, fact),
        _ => Err("there is no such command; see scenario/mod.rs".to_owned()),
    }
}

async fn nodes(world: &World, prefix: &str, count: &str, labels: &[&str]) -> Printed {
    let count = count.parse().map_err(|_| format!("{count} is no number"))?;
    let mut group = NodeGroup::new(prefix, count).gpus(8);
    for (key, value) in labels.iter().filter_map(|label| label.split_once('=')) {
        group = group.label(key, value);
    }
    let names = world.scene().add_nodes(&group).await.map_err(|error| chain(&error))?;
    let api: Api<Node> = Api::all(world.ground.client("test"));
    world
        .eventually(async || {
            for name in &names {
                let node = api.get(name).await.ok()?;
                let conditions = node.status?.conditions.unwrap_or_default();
                let is_ready =
                    conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
                // The taint of a new node goes with its first heartbeats.
                let taints = node.spec?.taints.unwrap_or_default();
                (is_ready && taints.is_empty()).then_some(())?;
            }
            Some(())
        })
        .await?;
    Ok(String::new())
}

async fn change_node(world: &World, node: &str, manager: &str, change: Value) -> Printed {
    let api: Api<Node> = Api::all(world.ground.client("test"));
    let field_manager = Some(manager.to_owned());
    let parameters = PatchParams { field_manager, ..PatchParams::default() };
    let changed = api.patch(node, &parameters, &Patch::Merge(change)).await;
    changed.map(|_| String::new()).map_err(|error| chain(&error))
}

async fn workload(world: &World, pod: &str, node: &str, options: &[&str]) -> Printed {
    let (namespace, name) = in_namespace(pod)?;
    world.ground.ensure_namespace(namespace).await;
    let mut workload = Workload::new(name, node).namespace(namespace);
    for (key, value) in options.iter().filter_map(|option| option.split_once('=')) {
        workload = match key {
            "replicas" => {
                let replicas = value.parse().map_err(|_| format!("{value} is no number"))?;
                let set = name.rsplit_once('-').map_or(name, |(set, _)| set);
                workload.owner(Owner::ReplicaSet { name: set.to_owned(), replicas })
            }
            _ => workload.label(key, value),
        };
    }
    world.scene().add_workload(&workload).await.map_err(|error| chain(&error))?;
    let pods: Api<Pod> = Api::namespaced(world.ground.client("test"), namespace);
    world
        .eventually(async || {
            let status = pods.get(name).await.ok()?.status?;
            (status.phase.as_deref() == Some("Running")).then_some(())
        })
        .await?;
    Ok(String::new())
}

async fn finish(world: &World, pod: &str) -> Printed {
    let (namespace, name) = in_namespace(pod)?;
    let pods: Api<Pod> = Api::namespaced(world.ground.client("kubelet"), namespace);
    let status = json!({"status": {"phase": "Succeeded"}});
    let ended = pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await;
    ended.map(|_| String::new()).map_err(|error| chain(&error))
}

async fn add_budget(world: &World, budget: &str, options: &[&str]) -> Printed {
    let (namespace, name) = in_namespace(budget)?;
    world.ground.ensure_namespace(namespace).await;
    let options = options.iter().filter_map(|option| option.split_once('='));
    let (amounts, labels): (Vec<_>, Vec<_>) = options.partition(|(key, _)| *key == "min");
    let (_, least) = amounts.first().ok_or("name how many must stay: min=1")?;
    let rule = Budget::MinAvailable((*least).to_owned());
    let added = world.scene().add_budget(namespace, name, &labels, &rule).await;
    added.map_err(|error| chain(&error))?;
    let budgets: Api<PodDisruptionBudget> = budgets(world.ground.client("test"), namespace);
    if matches!(world.ground, Ground::Embedded(_)) {
        // It counts when it is asked for an eviction; a controller counts when it gets to it.
        return Ok(String::new());
    }
    world
        .eventually(async || {
            let status = budgets.get(name).await.ok()?.status?;
            (status.expected_pods.unwrap_or(0) > 0).then_some(())
        })
        .await?;
    Ok(String::new())
}

async fn drop_budget(world: &World, budget: &str) -> Printed {
    let (namespace, name) = in_namespace(budget)?;
    let budgets = budgets(world.ground.client("test"), namespace);
    let dropped = budgets.delete(name, &DeleteParams::default()).await;
    dropped.map(|_| String::new()).map_err(|error| chain(&error))
}

fn budgets(client: Client, namespace: &str) -> Api<PodDisruptionBudget> {
    Api::namespaced(client, namespace)
}

fn replace(world: &mut World, file: &str, command: &str) -> Printed {
    let change = command.split_once(file).map_or("", |(_, change)| change).trim();
    let (old, new) = change.split_once(" => ").ok_or("write: replace FILE OLD => NEW")?;
    let text = world.tree.get_mut(file).ok_or_else(|| format!("there is no {file}"))?;
    if !text.contains(old) {
        return Err(format!("{file} does not hold {old:?}"));
    }
    *text = text.replace(old, new);
    Ok(String::new())
}

/// Lets through what the daemon has seen, as the command line does.
async fn accept(world: &World) -> Printed {
    let states = SourceStates::new(world.ground.client("person"), NAMESPACE, world.clock);
    let pushed = world.pushed.as_ref().ok_or("nothing was pushed")?.to_string();
    world
        .eventually(async || {
            let state = states.read().await.ok()?;
            let is_seen = state.seen.as_ref().is_some_and(|seen| seen.ends_with(&pushed));
            if is_seen { states.accept(&state, &pushed).await.ok() } else { None }
        })
        .await?;
    Ok(String::new())
}

fn in_namespace(name: &str) -> Result<(&str, &str), String> {
    name.split_once('/').ok_or_else(|| format!("{name} names no namespace: write NAMESPACE/NAME"))
}

/// Returns an error with its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns whether a node is cordoned.
pub fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Returns the marks on a node that say who cordoned it.
pub fn cordon_marks(node: &Node) -> Vec<String> {
    let keys = node.annotations().keys();
    keys.filter_map(|key| key.strip_prefix("nodewright.nvidia.com/cordon_"))
        .map(str::to_owned)
        .collect()
}
