//! Forty pods of every kind that drains have failed on, on one node (failures A).
//!
//! The same story on the embedded cluster and on a real API server with its eviction API and its
//! disruption controller: the daemon waits for who must finish, moves who may be moved, once each,
//! names who is in the way, and reboots when the last one has gone. A second, empty node is not
//! held up.

mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use nodewright::clock::Clock;
use nodewright::report::FleetState;
use nodewright::sim::keys::REBOOTS;
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, Controllers};
use crate::fleet::manifest;
use crate::scenario::{Ground, NAMESPACE, World};
use pods::{BUDGETS, Fate, KINDS, NODE, add_all};

/// How many times as fast as the machine's clock it runs on a real API server.
const SPEED_ON_REAL: u32 = 4;

const KERNEL: &str = "    kernel:
      version: 1.0.0
      image: registry.example/kernel
      interrupt:
        type: reboot
";

#[tokio::test(start_paused = true)]
async fn forty_pods_are_drained_in_order_on_the_embedded_cluster() {
    let start = "2026-03-01T08:00:00Z".parse().expect("a valid time");
    let clock = Clock::starting_at(start, 1);
    let ground = Ground::embedded(clock).await;
    drain_forty(World::new(ground, clock, Duration::from_hours(2)).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn forty_pods_are_drained_in_order_on_a_real_api_server() {
    let plane = Arc::new(ControlPlane::start(Controllers::Standard).await);
    let ground = Ground::real(plane).await;
    let clock = Clock::starting_at(Clock::real().now(), SPEED_ON_REAL);
    let patience = Duration::from_secs(180 * u64::from(SPEED_ON_REAL));
    drain_forty(World::new(ground, clock, patience).await).await;
}

async fn drain_forty(mut world: World) {
    add_all(&world).await;
    let before = uids(&world).await;
    assert_eq!(before.len(), 40);
    world.tree.insert("tuning.yaml".to_owned(), manifest("tuning", "count: 2", KERNEL));
    world.push(true);
    world.start(&[]).expect("no flag is wrong");

    says(&world, "ProtectedPod", "protected: pod default/training-0 must finish").await;
    assert_eq!(moved(&world).await, BTreeMap::new(), "nothing is moved while it runs");
    // One is going already when its turn comes: a person deleted it.
    let pods: Api<Pod> = Api::namespaced(world.ground.client("person"), "default");
    pods.delete("going-0", &DeleteParams::default()).await.expect("deleted");
    finish(&world, "training-0").await;

    says(
        &world,
        "SeveralBudgets",
        "pod default/twice-0 is covered by more than one PodDisruptionBudget (default/twice-a, \
         default/twice-b): it can never be evicted",
    )
    .await;
    only_held_pods_are_left(&world, &before).await;
    condition(&world, "pod default/twice-0 is covered by more than one").await;
    the_other_node_is_done(&world).await;

    drop_budget(&world, "twice-b").await;
    says(
        &world,
        "BudgetNever",
        "PodDisruptionBudget default/never can never be satisfied: it wants 1 of 1 pods at all \
         times, so pod default/never-0 stays",
    )
    .await;
    drop_budget(&world, "never").await;
    says(
        &world,
        "UnhealthyPodHeld",
        "pod default/sick-0 is not ready, and PodDisruptionBudget default/sick still protects it",
    )
    .await;
    drop_budget(&world, "sick").await;
    says(
        &world,
        "DisruptionBudget",
        "PodDisruptionBudget default/paced needs 1 of 2 pods healthy and has 1",
    )
    .await;
    drop_budget(&world, "paced").await;

    let complete = world.until(|state| crate::fleet::is_complete(state).then_some(())).await;
    complete.unwrap_or_else(|why| panic!("{why}"));
    let node = node(&world, NODE).await;
    assert_eq!(node.spec.as_ref().and_then(|spec| spec.unschedulable), None, "schedulable again");
    assert_eq!(node.annotations().get(REBOOTS).map(String::as_str), Some("1"), "one reboot");
    who_stays_was_not_touched(&world, &before).await;
    each_was_moved_once_and_before_anything_ran(&world).await;
    world.end().await;
}

/// Waits until the daemon says so of the node, wherever it says it.
async fn says(world: &World, word: &str, text: &str) {
    let found = world.until(|state| said(state, word).filter(|said| said.contains(text))).await;
    found.unwrap_or_else(|why| panic!("{word} with {text:?}: {why}"));
}

fn said(state: &FleetState, word: &str) -> Option<String> {
    let needs = state.needs_person.iter().filter(|need| need.word == word);
    let waits = state.waits.iter().filter(|group| group.word == word);
    let needs = needs.map(|need| need.message.clone());
    needs.chain(waits.map(|group| group.example.clone())).next()
}

/// The status of the resource says it too, in upstream's condition.
async fn condition(world: &World, text: &str) {
    let resources: Api<nodewright::api::NodeWright> = Api::all(world.ground.client("test"));
    let found = world
        .eventually(async || {
            let status = resources.get("tuning").await.ok()?.status?;
            let status = serde_json::to_value(&status).ok()?;
            let conditions = status["conditions"].as_array()?.clone();
            let blocked = conditions.into_iter().find(|it| it["type"] == "DrainBlocked")?;
            let says = blocked["message"].as_str()?.contains(text);
            (says && blocked["status"] == "True").then_some(blocked)
        })
        .await;
    let blocked = found.unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(blocked["reason"], "PodDisruptionBudget");
    let message = blocked["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("1/2 nodes blocked draining; default/twice-0 on gpu-001"),
        "{message}"
    );
}

/// Waits until whoever may leave has left, and nobody else.
async fn only_held_pods_are_left(world: &World, before: &BTreeMap<String, String>) {
    let held: BTreeSet<&str> = ["never-0", "twice-0", "sick-0", "sick-1"].into();
    let left = world
        .eventually(async || {
            let there = uids(world).await;
            let same = |name: &&String| there.get(*name) == before.get(*name);
            let leaving = before.keys().filter(|name| fate(name) == Fate::Leaves).filter(same);
            let left: BTreeSet<String> = leaving.cloned().collect();
            // Of the two that are paced one may go.
            let others = left.iter().filter(|name| !name.starts_with("paced"));
            others.map(String::as_str).eq(held.iter().copied()).then_some(left)
        })
        .await;
    let left = left.unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(left.len(), held.len() + 1, "{left:?}");
    let cordoned = node(world, NODE).await.spec.and_then(|spec| spec.unschedulable);
    assert_eq!(cordoned, Some(true));
}

async fn the_other_node_is_done(world: &World) {
    let done = world
        .eventually(async || {
            let node = node(world, "gpu-002").await;
            (node.annotations().get(REBOOTS)? == "1").then_some(())
        })
        .await;
    done.unwrap_or_else(|why| panic!("an empty node is not held up by another: {why}"));
}

async fn who_stays_was_not_touched(world: &World, before: &BTreeMap<String, String>) {
    let there = uids(world).await;
    for (name, uid) in before.iter().filter(|(name, _)| fate(name) == Fate::Stays) {
        assert_eq!(there.get(name), Some(uid), "{name} is the pod it was");
    }
}

/// Reads it off the API server's own log: never twice, never one that stays, and no executor on
/// the node before the last one was let go, but the one that pulls its images before the cordon.
async fn each_was_moved_once_and_before_anything_ran(world: &World) {
    let moved = moved(world).await;
    for kind in KINDS {
        for number in 0..kind.count {
            let name = format!("{}-{number}", kind.name);
            let times = usize::from(kind.fate == Fate::Leaves && kind.name != "going");
            assert_eq!(moved.get(&name).copied().unwrap_or(0), times, "evictions of {name}");
        }
    }
    let log = log(world).await;
    let is_eviction = |entry: &&Entry| entry.subresource == "eviction" && entry.code == 201;
    let last = log.iter().filter(is_eviction).map(|entry| entry.position).max();
    let first = log
        .iter()
        .filter(|entry| {
            entry.namespace == NAMESPACE
                && entry.subresource.is_empty()
                && entry.code == 201
                && entry.name.contains(NODE)
                && !entry.name.contains("-pull-")
        })
        .map(|entry| entry.position)
        .min();
    let (last, first) = (last.expect("pods were moved"), first.expect("executors ran"));
    assert!(last < first, "an executor was started before the node was drained");
}

/// A request that created something under `pods`.
struct Entry {
    position: usize,
    namespace: String,
    name: String,
    subresource: String,
    code: u16,
}

async fn log(world: &World) -> Vec<Entry> {
    match &world.ground {
        Ground::Embedded(cluster) => cluster
            .requests()
            .into_iter()
            .filter(|it| it.resource == "pods" && it.verb == nodewright::sim::Verb::Create)
            .map(|it| Entry {
                position: it.sequence,
                namespace: it.namespace,
                name: it.name,
                subresource: it.subresource,
                code: it.code.unwrap_or(0),
            })
            .collect(),
        Ground::Real(plane) => plane
            .audit()
            .await
            .into_iter()
            .enumerate()
            .filter(|(_, it)| it.resource == "pods" && it.verb == "create")
            .map(|(position, it)| Entry {
                position,
                namespace: it.namespace,
                name: it.name,
                subresource: it.subresource,
                code: it.code,
            })
            .collect(),
    }
}

/// Returns how often each pod was let go by the eviction API.
async fn moved(world: &World) -> BTreeMap<String, usize> {
    let mut moved = BTreeMap::new();
    for entry in log(world).await {
        if entry.subresource == "eviction" && entry.code == 201 {
            *moved.entry(entry.name).or_default() += 1;
        }
    }
    moved
}

fn fate(name: &str) -> Fate {
    let (kind, _) = name.rsplit_once('-').expect("a name with a number");
    let kind = KINDS.iter().find(|known| known.name == kind);
    kind.map_or(Fate::Stays, |kind| kind.fate)
}

/// Returns the UIDs of the pods of the story that are on the node, by name.
async fn uids(world: &World) -> BTreeMap<String, String> {
    let pods: Api<Pod> = Api::all(world.ground.client("test"));
    let all = pods.list(&ListParams::default()).await.expect("pods").items;
    let on_node = all.into_iter().filter(|pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        node == Some(NODE) && pod.namespace().as_deref() != Some(NAMESPACE)
    });
    on_node.map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect()
}

async fn node(world: &World, name: &str) -> Node {
    let nodes: Api<Node> = Api::all(world.ground.client("test"));
    nodes.get(name).await.expect("the node")
}

async fn finish(world: &World, name: &str) {
    let pods: Api<Pod> = Api::namespaced(world.ground.client("kubelet"), "default");
    status(&pods, name, json!({"phase": "Succeeded"})).await;
}

async fn status(pods: &Api<Pod>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    pods.patch_status(name, &PatchParams::default(), &patch).await.expect("patched");
}

async fn drop_budget(world: &World, name: &str) {
    assert!(BUDGETS.iter().any(|(known, ..)| *known == name), "{name} is a budget of the story");
    let budgets: Api<PodDisruptionBudget> =
        Api::namespaced(world.ground.client("person"), "default");
    budgets.delete(name, &DeleteParams::default()).await.expect("deleted");
}
