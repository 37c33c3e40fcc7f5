//! What changes in the cluster is seen, and only what something depends on wakes anybody.

use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use nodewright::api::{DeploymentPolicy, NodeWright};
use nodewright::sim::{Fault, Matching, Verb};
use serde_json::json;

use super::world::{DAEMON, World, parse, soon, workload};

/// Longer than any wake-up takes on the embedded cluster.
const QUIET: Duration = Duration::from_secs(5);

/// Waits until nothing wakes any more.
async fn settle(world: &World) {
    while tokio::time::timeout(QUIET, world.observer.changed()).await.is_ok() {}
}

async fn is_woken(world: &World) -> bool {
    tokio::time::timeout(QUIET, world.observer.changed()).await.is_ok()
}

fn requests(world: &World, verb: Verb, resource: &str) -> usize {
    let requests = world.cluster.requests();
    let is_one = |it: &&nodewright::sim::Request| {
        it.user_agent == DAEMON && it.verb == verb && it.resource == resource
    };
    requests.iter().filter(is_one).count()
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_wakes_nothing_but_moves_the_version() {
    let world = World::new().await;
    let status = |heartbeat: &str, ready: &str| {
        Patch::Merge(json!({"status": {"conditions": [{
            "type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat,
            "lastTransitionTime": "2026-03-01T07:00:00Z",
        }]}}))
    };
    let (api, params) = (world.nodes(), PatchParams::default());
    api.patch_status("gpu-1", &params, &status("2026-03-01T08:00:00Z", "True")).await.unwrap();
    world.until(|view| view.observed.nodes["gpu-1"].ready).await;
    settle(&world).await;

    let node =
        api.patch_status("gpu-1", &params, &status("2026-03-01T08:05:00Z", "True")).await.unwrap();
    assert!(!is_woken(&world).await);
    assert_eq!(Some(world.node().resource_version), node.metadata.resource_version);

    api.patch_status("gpu-1", &params, &status("2026-03-01T08:10:00Z", "False")).await.unwrap();
    assert!(is_woken(&world).await, "a node that is not ready matters");
    assert!(!world.node().ready);
}

#[tokio::test(start_paused = true)]
async fn what_others_write_on_a_node_wakes_nothing() {
    let world = World::new().await;
    settle(&world).await;
    world.meddle_with_node(json!({"metadata": {"annotations": {"theirs": "changed"}}})).await;
    assert!(!is_woken(&world).await);
    world.meddle_with_node(json!({"spec": {"unschedulable": true}})).await;
    assert!(is_woken(&world).await);
    assert_eq!(world.node().unschedulable_manager.as_deref(), Some("test"));
}

#[tokio::test(start_paused = true)]
async fn pods_are_seen_while_they_matter() {
    let world = World::new().await;
    world.add_workload("train", json!({"app": "train"})).await;
    let api = world.pods("default");
    let done = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    api.patch_status("train", &PatchParams::default(), &done).await.unwrap();
    world.until(|view| workload(view, "train").is_none()).await;
    assert!(world.view().observed.executors.is_empty());
}

#[tokio::test(start_paused = true)]
async fn labels_of_ours_elsewhere_make_no_executor() {
    let world = World::new().await;
    let labels = json!({
        "nodewright.nvidia.com/name": "gpu", "nodewright.nvidia.com/package": "k-1",
        "nodewright.nvidia.com/visit": "1-12345678",
    });
    world.add_workload("liar", labels).await;
    let view = world.view();
    assert!(!workload(&view, "liar").unwrap().executor);
    assert!(view.observed.executors.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_cannot_be_read_hides_no_other() {
    let world = World::new().await;
    // The pattern of the CRD lets it through; Go could not hold it.
    let spec = parse(json!({"packages": {}, "priority": 300}));
    let rollout = NodeWright::new("odd", spec);
    let mut rollout = serde_json::to_value(&rollout).unwrap();
    rollout["spec"]["drainConfig"] = json!({"timeout": "9999999999999h"});
    let request = http::Request::post("/apis/nodewright.nvidia.com/v1alpha1/nodewrights")
        .header("content-type", "application/json")
        .body(rollout.to_string().into_bytes())
        .unwrap();
    world.cluster.client("test").request_text(request).await.unwrap();
    world.until(|view| view.unreadable_nodewrights.contains_key("odd")).await;
    world.add_rollout("late").await;
    world.until(|view| view.nodewrights.contains_key("late")).await;

    let view = world.view();
    assert!(view.unreadable_nodewrights["odd"].contains("longer than Go can hold"));
    assert!(view.nodewrights.contains_key("gpu"));
    let odd = &view.observed.resources["odd"];
    assert!(!odd.uid.is_empty() && odd.status.is_none());
}

#[tokio::test(start_paused = true)]
async fn policies_and_marks_of_resources_are_seen() {
    let world = World::new().await;
    let policy = DeploymentPolicy::new("slow", parse(json!({"default": {"budget": {"count": 1}}})));
    world.policies().create(&PostParams::default(), &policy).await.unwrap();
    let pause = Patch::Merge(json!({"metadata": {"annotations": {
        "nodewright.nvidia.com/pause": "true", "nodewright.nvidia.com/disable": "True",
    }}}));
    world.nodewrights().patch("gpu", &PatchParams::default(), &pause).await.unwrap();
    world
        .until(|view| view.observed.resources["gpu"].paused && view.policies.contains_key("slow"))
        .await;
    let gpu = &world.view().observed.resources["gpu"];
    assert!(!gpu.disabled, "only exactly \"true\" counts");
    assert_eq!((gpu.generation, gpu.deleting, &gpu.status), (1, false, &None));
}

#[tokio::test(start_paused = true)]
async fn watches_that_break_or_expire_lose_nothing() {
    let world = World::new().await;
    world.cluster.faults().drop_watches("nodes");
    world.add_node("gpu-2").await;
    world.until(|view| view.observed.nodes.contains_key("gpu-2")).await;

    world.cluster.faults().stall_watches("nodes");
    world.nodes().delete("gpu-2", &Default::default()).await.unwrap();
    world.add_node("gpu-3").await;
    world.cluster.expire_watches("nodes");
    world.cluster.faults().resume_watches("nodes");
    world
        .until(|view| {
            let nodes = &view.observed.nodes;
            nodes.contains_key("gpu-3") && !nodes.contains_key("gpu-2")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_is_named_until_it_works() {
    let world = World::new().await;
    let lists = Matching::any().user_agent(DAEMON).resource("nodes");
    world.cluster.faults().next(lists, 4, Fault::Unavailable);
    world.cluster.expire_watches("nodes");
    world.cluster.faults().drop_watches("nodes");
    soon(async {
        while world.observer.troubles().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let troubles = world.observer.troubles();
    let trouble = &troubles["nodes"];
    assert!(trouble.error.contains("503") || trouble.error.contains("Unavailable"), "{trouble:?}");
    world.add_node("gpu-2").await;
    world.until(|view| view.observed.nodes.contains_key("gpu-2")).await;
    assert!(world.observer.troubles().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_lists_everything_anew() {
    let world = World::new().await;
    let kinds = ["nodes", "pods", "configmaps", "nodewrights", "deploymentpolicies"];
    let before = kinds.map(|kind| requests(&world, Verb::List, kind));
    world.cluster.faults().stall_watches("nodes");
    world.add_node("gpu-2").await;
    soon(world.observer.refresh()).await;
    assert!(world.view().observed.nodes.contains_key("gpu-2"), "the watch could not have said so");
    let after = kinds.map(|kind| requests(&world, Verb::List, kind));
    for (kind, (before, after)) in kinds.iter().zip(before.into_iter().zip(after)) {
        assert_eq!(after, before + 1, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_end_after_shutdown() {
    World::new().await.stop().await;
}
