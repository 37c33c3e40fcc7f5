//! The maps that upstream keeps in a status: read while they are there, kept until dropped.

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use nodewright::api::NodeWright;
use nodewright::cluster::Outcome;
use nodewright::model::{Action, StatusWord, StatusWrite, UpstreamMaps};
use serde_json::{Value, json};

use super::super::act::status_write;
use super::super::world::World;

const MAPS: [&str; 5] = ["nodeState", "nodeStatus", "nodeBootIds", "nodePriority", "configUpdates"];

/// What upstream v0.20 writes in the middle of a rollout.
async fn upstreams(world: &World) {
    let status = json!({
        "status": "in_progress",
        "nodeState": {"gpu-1": {"kernel-tuning|1.4.0": {
            "name": "kernel-tuning", "version": "1.4.0", "image": "i", "stage": "apply",
            "state": "in_progress",
        }}},
        "nodeStatus": {"gpu-1": "in_progress"},
        "nodeBootIds": {"gpu-1": "boot-7"},
        "nodePriority": {"gpu-1": "2026-03-01T07:59:00Z"},
        "nodeOrderOffset": 4,
        "configUpdates": {"kernel-tuning": ["sysctl.conf"]},
        "compartmentStatuses": {"__default__": {
            "matched": 1, "ceiling": 1, "inProgress": 1, "completed": 0, "progressPercent": 0,
            "batchState": {"currentBatch": 3, "consecutiveFailures": 1, "shouldStop": true},
        }},
    });
    let patch = Patch::Merge(json!({ "status": status }));
    let api = world.nodewrights();
    api.patch_status("gpu", &PatchParams::default(), &patch).await.expect("accepted");
    world.until(|view| view.observed.resources["gpu"].upstream.is_some()).await;
}

async fn raw_status(world: &World) -> Value {
    let kind = ApiResource::erase::<NodeWright>(&());
    let api: Api<DynamicObject> = Api::all_with(world.cluster.client("test"), &kind);
    api.get("gpu").await.expect("it is there").data["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn what_upstream_remembers_is_read() {
    let world = World::new().await;
    assert_eq!(world.view().observed.resources["gpu"].upstream, None);
    upstreams(&world).await;
    let read = world.view().observed.resources["gpu"].upstream.clone().expect("it is there");
    assert_eq!(read.order_next(), 5, "four were given and one is out");
    assert_eq!(read.node_boot_ids["gpu-1"], "boot-7");
    assert!(read.config_updates["kernel-tuning"].contains("sysctl.conf"));
    let batch = &read.batches["__default__"];
    assert_eq!((batch.current_batch, batch.consecutive_failures, batch.should_stop), (3, 1, true));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_of_ours_leaves_the_maps_until_it_drops_them() {
    let world = World::new().await;
    upstreams(&world).await;
    let write = status_write(&world, StatusWord::InProgress);
    let outcome = world.execute_one(Action::WriteStatus(write.clone())).await;
    assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
    let status = raw_status(&world).await;
    assert!(MAPS.iter().all(|map| status[map].is_object()), "{status}");
    assert_eq!(status["rollout"]["target"], "t", "and ours is there");

    let drop = StatusWrite {
        resource_version: world.view().observed.resources["gpu"].resource_version.clone(),
        upstream: UpstreamMaps::Drop,
        ..write
    };
    let outcome = world.execute_one(Action::WriteStatus(drop)).await;
    assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
    let status = raw_status(&world).await;
    assert!(MAPS.iter().all(|map| status.get(map).is_none()), "{status}");
    assert_eq!(status["rollout"]["target"], "t");
    assert_eq!(world.view().observed.resources["gpu"].upstream, None);
    world.stop().await;
}
