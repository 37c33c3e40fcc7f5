//! The ConfigMap `nodewright-source`: watched, not asked for; a stop is obeyed at once.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodewright::api::keys::STOP;
use nodewright::cluster::source_state::SOURCE_NAME;
use nodewright::sim::Verb;
use serde_json::json;

use super::{create, mutating, package, quick, without_git};
use crate::fleet::{Fleet, is_complete, until};

fn config_maps(fleet: &Fleet) -> Api<ConfigMap> {
    Api::namespaced(fleet.cluster.client("person"), "nodewright")
}

fn picks(fleet: &Fleet) -> usize {
    let patches = mutating(fleet, "daemon").into_iter().filter(|it| it.resource == "nodes");
    patches.filter(|it| it.body.to_string().contains("nodewright.nvidia.com/version_")).count()
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_nothing_new_begin_until_it_is_lifted() {
    let fleet = Fleet::with(4, quick()).await;
    let metadata = json!({"name": SOURCE_NAME, "annotations": {STOP: "ada: fire drill"}});
    let stopped: ConfigMap = serde_json::from_value(json!({"metadata": metadata})).expect("valid");
    config_maps(&fleet).create(&PostParams::default(), &stopped).await.expect("created");
    create(&fleet, "count: 1", &package("sysctl", "1.0.0", "")).await;
    let daemon = without_git(&fleet, "daemon");
    let state = until(&daemon, fleet.clock, |state| {
        state.waits.iter().any(|it| it.example.contains("fire drill"))
            || !state.needs_person.is_empty()
            || !state.on_purpose.is_empty()
    })
    .await;
    fleet.clock.sleep(Duration::from_mins(10)).await;
    assert_eq!(picks(&fleet), 0, "{state:#?}");

    let lift = Patch::Merge(json!({"metadata": {"annotations": {STOP: null}}}));
    config_maps(&fleet).patch(SOURCE_NAME, &PatchParams::default(), &lift).await.expect("lifted");
    let lifted = fleet.clock.now();
    until(&daemon, fleet.clock, is_complete).await;

    let first = mutating(&fleet, "daemon")
        .into_iter()
        .find(|it| it.time >= lifted && it.resource == "nodes");
    let first = first.expect("a node is picked");
    let waited = first.time.duration_since(lifted);
    assert!(waited < jiff::SignedDuration::from_secs(2), "picked {waited} after the stop ended");
    let reads =
        fleet.cluster.requests().into_iter().filter(|it| {
            it.user_agent == "daemon" && it.name == SOURCE_NAME && it.verb == Verb::Get
        });
    assert_eq!(reads.count(), 1, "read once when the term began, watched from then on");
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}
