//! Keys under the former prefix: read where ours are absent, moved by the first patch.

use std::collections::BTreeMap;

use nodewright::cluster::Outcome;
use nodewright::cluster::node_state::read_annotations;
use nodewright::model::{Action, CordonMark, NodePatch, PatchKind, Stage, State, StatusWord};
use serde_json::json;

use super::super::world::World;

const FORMER: &str = "skyhook.nvidia.com";

/// What upstream v0.15 writes on a node in the middle of a rollout, and a field of a later one.
const ENTRIES: &str = r#"{"kernel-tuning|1.4.0":{"name":"kernel-tuning","version":"1.4.0",
    "image":"ghcr.io/acme/kernel-tuning","stage":"config","state":"in_progress","restarts":1,
    "laterField":{"a":1}}}"#;

fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn former_keys_are_read_where_the_rollout_has_no_present_ones() {
    let (rollouts, cordons) = read_annotations(&annotations(&[
        ("skyhook.nvidia.com/nodeState_gpu", ENTRIES),
        ("skyhook.nvidia.com/status_gpu", "in_progress"),
        ("skyhook.nvidia.com/cordon_gpu", "true"),
        ("skyhook.nvidia.com/drainStart_gpu", "2026-03-01T08:00:00Z"),
        ("skyhook.nvidia.com/version_cpu", "v0.15.0"),
        ("skyhook.nvidia.com/runtimeRequiredCordon", "true"),
        ("skyhook.nvidia.com/autoTaint_skyhook.nvidia.com", "true"),
    ]));
    let gpu = &rollouts["gpu"];
    let entry = gpu.entries.values().next().expect("one entry");
    assert!(entry.is(Stage::Config, State::InProgress) && entry.snapshot.is_none());
    assert_eq!(entry.other["laterField"], json!({"a": 1}), "what is not known is kept");
    assert_eq!(gpu.status, Some(StatusWord::InProgress));
    assert!(gpu.legacy && gpu.drain_start.is_some());
    assert!(rollouts["cpu"].legacy, "a version alone must go as well");
    let mark = CordonMark::Rollout("gpu".to_owned());
    assert_eq!(cordons, [mark, CordonMark::RuntimeRequired]);
}

/// Upstream copies the keys when it is upgraded and lets the former ones stand for a day.
#[test]
fn a_former_key_does_not_speak_where_there_is_a_present_one() {
    let (rollouts, cordons) = read_annotations(&annotations(&[
        ("nodewright.nvidia.com/nodeState_gpu", "{}"),
        ("skyhook.nvidia.com/nodeState_gpu", ENTRIES),
        ("skyhook.nvidia.com/cordon_gpu", "true"),
        ("nodewright.nvidia.com/nodeState_cpu", "{}"),
        ("skyhook.nvidia.com/nodeState_cpu", "not JSON"),
    ]));
    assert!(rollouts["gpu"].entries.is_empty() && rollouts["gpu"].legacy);
    assert_eq!(rollouts["cpu"].malformed, None, "a copy nobody reads hurts nobody");
    assert_eq!(cordons, [], "the cordon that stands now may be somebody else's");
}

#[test]
fn a_malformed_former_annotation_is_named_for_its_rollout_only() {
    let (rollouts, _) = read_annotations(&annotations(&[
        ("skyhook.nvidia.com/nodeState_gpu", "{"),
        ("skyhook.nvidia.com/nodeState_cpu", "{}"),
    ]));
    assert!(rollouts["gpu"].malformed.as_ref().is_some_and(|why| why.starts_with("nodeState: ")));
    assert_eq!(rollouts["cpu"].malformed, None);
}

async fn taken_over() -> World {
    let world = World::new().await;
    world
        .meddle_with_node(json!({
            "metadata": {
                "annotations": {
                    "skyhook.nvidia.com/nodeState_gpu": ENTRIES,
                    "skyhook.nvidia.com/status_gpu": "in_progress",
                    "skyhook.nvidia.com/version_gpu": "v0.15.0",
                    "skyhook.nvidia.com/cordon_gpu": "true",
                    "skyhook.nvidia.com/nodeState_cpu": "{}",
                },
                "labels": { "skyhook.nvidia.com/status_gpu": "in_progress" },
            },
            "spec": { "unschedulable": true },
        }))
        .await;
    world
        .until(|view| {
            let node = &view.observed.nodes["gpu-1"];
            node.rollouts.get("gpu").is_some_and(|state| state.legacy) && !node.is_new
        })
        .await;
    world
}

#[tokio::test(start_paused = true)]
async fn the_first_patch_writes_ours_and_removes_the_former_ones() {
    let world = taken_over().await;
    let pick = NodePatch { cordon_mark: None, unschedulable: None, ..world.pick() };
    let before = world.mutations().len();
    assert!(matches!(world.execute_one(Action::PatchNode(pick)).await, Outcome::Done));
    assert_eq!(world.mutations().len(), before + 1, "one patch");
    let node = world.nodes().get("gpu-1").await.expect("it is there");
    let annotations = node.metadata.annotations.expect("some");
    let former: Vec<&String> = annotations.keys().filter(|key| key.starts_with(FORMER)).collect();
    assert_eq!(former, ["skyhook.nvidia.com/nodeState_cpu"], "another rollout's are left");
    assert_eq!(annotations["nodewright.nvidia.com/cordon_gpu"], "true", "the cordon is not lost");
    assert_eq!(annotations["nodewright.nvidia.com/version_gpu"], "v0.20.0");
    assert_eq!(annotations["theirs"], "kept");
    let labels = node.metadata.labels.expect("some");
    assert_eq!(labels["nodewright.nvidia.com/status_gpu"], "in_progress");
    assert!(!labels.contains_key("skyhook.nvidia.com/status_gpu"));
    assert!(!world.node().rollouts["gpu"].legacy);
    world.stop().await;
}

/// A patch that says nothing of the entries must not lose them with their former key.
#[tokio::test(start_paused = true)]
async fn what_a_patch_does_not_mention_moves_as_it_stands() {
    let world = taken_over().await;
    let node = world.node();
    let state = &node.rollouts["gpu"];
    let (record_text, entries_text) = (state.record_text.clone(), state.entries_text.clone());
    let patch = NodePatch {
        record: Some(world.record()),
        ..world.node_patch(PatchKind::Progress { record_text, entries_text })
    };
    assert!(matches!(world.execute_one(Action::PatchNode(patch)).await, Outcome::Done));
    let annotations = world.nodes().get("gpu-1").await.expect("there").metadata.annotations;
    let annotations = annotations.expect("some");
    assert_eq!(annotations["nodewright.nvidia.com/nodeState_gpu"], ENTRIES, "to the byte");
    assert_eq!(annotations["nodewright.nvidia.com/status_gpu"], "in_progress");
    assert!(!annotations.contains_key("skyhook.nvidia.com/nodeState_gpu"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn release_takes_both_marks_off() {
    let world = taken_over().await;
    let resource_version = world.node().resource_version;
    let patch = NodePatch {
        cordon_mark: Some(false),
        unschedulable: Some(false),
        ..world.node_patch(PatchKind::Release { resource_version })
    };
    assert!(matches!(world.execute_one(Action::PatchNode(patch)).await, Outcome::Done));
    let node = world.node();
    assert!(!node.unschedulable && node.cordons.is_empty());
    assert_eq!(node.rollouts["gpu"].entries_text.as_deref(), Some(ENTRIES));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_former_ignore_label_is_obeyed() {
    let world = World::new().await;
    let label = json!({"metadata": {"labels": {"skyhook.nvidia.com/ignore": "true"}}});
    world.meddle_with_node(label).await;
    world.until(|view| view.observed.nodes["gpu-1"].ignored).await;
    world.stop().await;
}
