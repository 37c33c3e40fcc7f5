//! The commands about workload pods, their budgets, and how executors end.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use nodewright::sim::kubelet::Pull;
use nodewright::sim::scene::{Budget, Owner, Workload};
use serde_json::{Value, json};

use super::commands::{Printed, in_namespace, with_causes};
use super::ground::{Ground, NAMESPACE};
use super::view;
use super::world::World;

/// A finalizer as a log collector sets it.
const HOLD: &str = "example.com/hold";

/// Runs a command if it is one of these.
pub async fn run(world: &World, words: &[&str]) -> Option<Printed> {
    Some(match words {
        ["workload", pod, "on", node, options @ ..] => workload(world, pod, node, options).await,
        ["finish", pod] => finish(world, pod).await,
        ["pdb", budget, options @ ..] => add_budget(world, budget, options).await,
        ["drop", "pdb", budget] => drop_budget(world, budget).await,
        ["rule", rule] => match rule.parse() {
            Ok(rule) => {
                world.kubelet.rewrite(|script| script.rules.push(rule));
                Ok(String::new())
            }
            Err(error) => Err(format!("{error}")),
        },
        ["no", "rules"] => {
            world.kubelet.rewrite(|script| script.rules.clear());
            Ok(String::new())
        }
        ["image", part, "missing"] => {
            let rule = ((*part).to_owned(), Pull::Missing);
            world.kubelet.rewrite(|script| script.images.push(rule));
            Ok(String::new())
        }
        ["image", part, "found"] => {
            world.kubelet.rewrite(|script| script.images.retain(|(known, _)| known != part));
            Ok(String::new())
        }
        ["deaf", node] => {
            world.kubelet.rewrite(|script| {
                script.deaf.insert((*node).to_owned());
            });
            Ok(String::new())
        }
        ["hears", node] => {
            world.kubelet.rewrite(|script| {
                script.deaf.remove(*node);
            });
            Ok(String::new())
        }
        ["kill", "executors", node] => kill_executors(world, node).await,
        ["hold", "executors", node] => hold_executors(world, node, json!([HOLD])).await,
        ["free", "executors", node] => hold_executors(world, node, json!(null)).await,
        ["lost", node] => {
            world.kubelet.rewrite(|script| {
                script.never_returning.insert((*node).to_owned());
            });
            Ok(String::new())
        }
        _ => return None,
    })
}

/// As a person does who deletes them with kubectl.
async fn kill_executors(world: &World, node: &str) -> Printed {
    for pod in view::executors(world, node).await? {
        let deleted = executors(world).delete(&pod.name_any(), &DeleteParams::default()).await;
        deleted.map_err(|error| with_causes(&error))?;
    }
    Ok(String::new())
}

async fn hold_executors(world: &World, node: &str, finalizers: Value) -> Printed {
    let change = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    for pod in view::executors(world, node).await? {
        let held = executors(world).patch(&pod.name_any(), &PatchParams::default(), &change).await;
        match held {
            // One that was on its way out is gone with its last finalizer.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            other => drop(other.map_err(|error| with_causes(&error))?),
        }
    }
    Ok(String::new())
}

fn executors(world: &World) -> Api<Pod> {
    Api::namespaced(world.ground.client("person"), NAMESPACE)
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
    world.scene().add_workload(&workload).await.map_err(|error| with_causes(&error))?;
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
    ended.map(|_| String::new()).map_err(|error| with_causes(&error))
}

async fn add_budget(world: &World, budget: &str, options: &[&str]) -> Printed {
    let (namespace, name) = in_namespace(budget)?;
    world.ground.ensure_namespace(namespace).await;
    let options = options.iter().filter_map(|option| option.split_once('='));
    let (amounts, labels): (Vec<_>, Vec<_>) = options.partition(|(key, _)| *key == "min");
    let (_, least) = amounts.first().ok_or("name how many must stay: min=1")?;
    let rule = Budget::MinAvailable((*least).to_owned());
    let added = world.scene().add_budget(namespace, name, &labels, &rule).await;
    added.map_err(|error| with_causes(&error))?;
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
    dropped.map(|_| String::new()).map_err(|error| with_causes(&error))
}

fn budgets(client: Client, namespace: &str) -> Api<PodDisruptionBudget> {
    Api::namespaced(client, namespace)
}
