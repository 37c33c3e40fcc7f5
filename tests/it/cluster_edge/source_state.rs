//! The ConfigMap of the source: written with care, obeyed when people write to it.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use nodewright::api::keys::{ACCEPT, STOP};
use nodewright::cluster::source_state::{
    ManagedObject, SOURCE_NAME, SourceState, SourceStates, Stop,
};
use nodewright::cluster::{ClusterError, Disposition};
use nodewright::sim::Cluster;
use serde_json::{Value, json};

use super::{cluster, leader, writes};

const FIRST: &str = "main@sha1:1111111111111111111111111111111111111111";
const SECOND: &str = "main@sha1:2222222222222222222222222222222222222222";

fn states(cluster: &Cluster) -> SourceStates {
    SourceStates::new(cluster.client("daemon"), "nodewright", cluster.clock())
}

fn config_maps(cluster: &Cluster) -> Api<ConfigMap> {
    Api::namespaced(cluster.client("person"), "nodewright")
}

async fn person_writes(cluster: &Cluster, patch: Value) {
    let params = PatchParams::default();
    let patch = Patch::Merge(patch);
    config_maps(cluster).patch(SOURCE_NAME, &params, &patch).await.expect("patched");
}

fn state() -> SourceState {
    SourceState {
        seen: Some(SECOND.to_owned()),
        accepted: Some(FIRST.to_owned()),
        applied: Some(FIRST.to_owned()),
        managed: [ManagedObject::nodewright("tuning"), ManagedObject::policy("careful")].into(),
        ..SourceState::default()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_is_read_back_and_never_written_twice() {
    let cluster = cluster();
    let (proof, _fence) = leader(cluster.clock());
    let states = states(&cluster);
    let before = states.read().await.expect("read");
    assert_eq!(before, SourceState::default());

    let after = states.write(&proof, &before, &state()).await.expect("written");
    let read = states.read().await.expect("read");
    states.write(&proof, &read, &read).await.expect("nothing to do");

    assert_eq!(after, read);
    assert_eq!((&read.seen, &read.managed), (&state().seen, &state().managed));
    assert_eq!(writes(&cluster, "configmaps").len(), 1);
    let stored = config_maps(&cluster).get(SOURCE_NAME).await.expect("there").data.expect("data");
    assert_eq!(stored["managed"], "DeploymentPolicy/careful\nNodeWright/tuning");
}

#[tokio::test(start_paused = true)]
async fn people_stop_and_accept_and_the_daemon_clears_only_the_acceptance() {
    let cluster = cluster();
    let (proof, _fence) = leader(cluster.clock());
    let states = states(&cluster);
    states.write(&proof, &SourceState::default(), &state()).await.expect("written");
    let commit = "2".repeat(40);
    let annotations = json!({STOP: "ada: fire drill", ACCEPT: commit, "team": "gpu"});
    let patch = json!({"metadata": {"annotations": annotations}, "data": {"note": "theirs"}});
    person_writes(&cluster, patch).await;

    let read = states.read().await.expect("read");
    assert_eq!(read.stop, Some(Stop { note: "ada: fire drill".to_owned() }));
    assert!(read.accepts(&commit) && !read.accepts(&"1".repeat(40)));
    let wanted = SourceState {
        accepted: Some(SECOND.to_owned()),
        acceptance: None,
        stop: None,
        ..read.clone()
    };
    let written = states.write(&proof, &read, &wanted).await.expect("written");

    assert_eq!(written.acceptance, None);
    assert!(written.stop.is_some(), "only people lift a stop");
    let stored = config_maps(&cluster).get(SOURCE_NAME).await.expect("there");
    assert_eq!(stored.annotations()["team"], "gpu");
    assert_eq!(stored.data.expect("data")["note"], "theirs");
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_came_in_between_is_a_conflict() {
    let cluster = cluster();
    let (proof, _fence) = leader(cluster.clock());
    let states = states(&cluster);
    let read = states.write(&proof, &SourceState::default(), &state()).await.expect("written");
    person_writes(&cluster, json!({"metadata": {"annotations": {STOP: ""}}})).await;

    let wanted = SourceState { applied: Some(SECOND.to_owned()), ..read.clone() };
    let error = states.write(&proof, &read, &wanted).await.expect_err("somebody wrote");

    assert_eq!(error.disposition(), Disposition::Conflict);
    assert_eq!(states.read().await.expect("read").stop, Some(Stop { note: String::new() }));
}

#[tokio::test(start_paused = true)]
async fn without_leadership_nothing_leaves() {
    let cluster = cluster();
    let (proof, fence) = leader(cluster.clock());
    fence.send_replace(None);

    let result = states(&cluster).write(&proof, &SourceState::default(), &state()).await;

    assert!(matches!(result, Err(ClusterError::NotLeader { .. })), "{result:?}");
    assert_eq!(writes(&cluster, "configmaps"), []);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_a_person_broke_never_deletes_another_object() {
    let cluster = cluster();
    let (proof, _fence) = leader(cluster.clock());
    let states = states(&cluster);
    states.write(&proof, &SourceState::default(), &state()).await.expect("written");
    let list = "NodeWright/tuning\nNode/gpu-1\nNodeWright/\nDeploymentPolicy careful\n";
    person_writes(&cluster, json!({"data": {"managed": list}})).await;

    let read = states.read().await.expect("read");

    assert_eq!(read.managed, [ManagedObject::nodewright("tuning")].into());
}

#[tokio::test(start_paused = true)]
async fn a_person_accepts_what_was_read_and_nothing_newer() {
    let cluster = cluster();
    let (proof, _fence) = leader(cluster.clock());
    let states = states(&cluster);
    let read = states.write(&proof, &SourceState::default(), &state()).await.expect("written");
    let commit = "2222222222222222222222222222222222222222";
    let newer = SourceState { seen: Some(FIRST.to_owned()), ..read.clone() };
    let after = states.write(&proof, &read, &newer).await.expect("written");

    let refused = states.accept(&read, commit).await.expect_err("the daemon wrote since");
    assert_eq!(refused.disposition(), Disposition::Conflict);
    assert!(!states.read().await.expect("read").accepts(commit));

    states.accept(&after, commit).await.expect("accepted");
    let accepted = states.read().await.expect("read");
    assert!(accepted.accepts(commit));
    assert_eq!((accepted.seen, accepted.managed), (after.seen, after.managed));
}
