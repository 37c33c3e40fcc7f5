//! The same code on a real API server: what it accepts, and what it makes of what we send.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use nodewright::api::crd::crds;
use nodewright::api::keys::{PAUSE, STOP};
use nodewright::api::{DeploymentPolicy, NodeWright};
use nodewright::clock::Clock;
use nodewright::cluster::events::{Events, News, Regarding, RegardingKind, Severity};
use nodewright::cluster::lease::LEASE_NAME;
use nodewright::cluster::resources::{Applied, Applier, Outcome, Wanted, read_live, steps};
use nodewright::cluster::source_state::{ManagedObject, SOURCE_NAME, SourceState, SourceStates};
use nodewright::cluster::{Disposition, Leader, LeaderProof};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::resources::{managed, nodewright, nodewright_spec, policy, wanted};
use crate::control_plane::{ControlPlane, Controllers, eventually};

/// Enough for an API server on a machine that is busy compiling.
const LIMIT: Duration = Duration::from_secs(60);

const NAMESPACE: &str = "nodewright";

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn a_real_api_server_takes_all_that_we_write() {
    let plane = ControlPlane::start(Controllers::None).await;
    plane.ensure_namespace(NAMESPACE).await;
    let (client, clock) = (plane.client("edge/1"), Clock::real());
    let stop = CancellationToken::new();
    let mut first = Leader::start(client.clone(), "first", NAMESPACE, clock, &stop);
    begins_to_lead(&mut first).await;
    let proof = first.proof().expect("it leads");

    source_state(&client, clock, &proof).await;
    custom_resources(&client, clock, &proof).await;
    events(&client, clock, &proof).await;

    drop(proof);
    let mut second = Leader::start(client.clone(), "second", NAMESPACE, clock, &stop);
    first.stop().await;
    begins_to_lead(&mut second).await;
    assert_eq!(second.epoch(), Some(2));
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let spec = leases.get(LEASE_NAME).await.expect("the Lease").spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("second"));
    second.stop().await;
}

async fn begins_to_lead(leader: &mut Leader) {
    let limit = Clock::real().real_duration(LIMIT);
    let leads = async {
        while leader.proof().is_none() {
            leader.changed().await;
        }
    };
    tokio::time::timeout(limit, leads).await.expect("it leads in time");
}

async fn source_state(client: &Client, clock: Clock, proof: &LeaderProof) {
    let states = SourceStates::new(client.clone(), NAMESPACE, clock);
    let nothing = states.read().await.expect("read");
    let wanted = SourceState {
        seen: Some("main@sha1:1".to_owned()),
        managed: managed([ManagedObject::nodewright("edge")]),
        ..nothing.clone()
    };
    let written = states.write(proof, &nothing, &wanted).await.expect("created");
    let api: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(client.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {STOP: "drill"}}}));
    api.patch(SOURCE_NAME, &PatchParams::default(), &patch).await.expect("stopped");

    let wanted = SourceState { applied: wanted.seen.clone(), ..written.clone() };
    let error = states.write(proof, &written, &wanted).await.expect_err("somebody wrote");
    assert_eq!(error.disposition(), Disposition::Conflict);
    let read = states.read().await.expect("read");
    let wanted = SourceState { applied: read.seen.clone(), ..read.clone() };
    let written = states.write(proof, &read, &wanted).await.expect("written");
    assert_eq!(written.managed, wanted.managed);
    assert!(written.stop.is_some());
}

async fn custom_resources(client: &Client, clock: Clock, proof: &LeaderProof) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds() {
        api.create(&PostParams::default(), &crd).await.expect("the CRD is accepted");
    }
    let live =
        eventually("the CRDs are served", LIMIT, async || read_live(client, clock).await.ok());
    assert!(live.await.is_empty());
    let mut wanted = wanted(vec![
        policy("careful", 1),
        nodewright("edge", &nodewright_spec("1.0.0", 200, Some("careful"))),
    ]);
    let both = managed([ManagedObject::nodewright("edge"), ManagedObject::policy("careful")]);

    // A create within 2 s of its CRD takes the API server 2 s, which is as long as we wait: then
    // the object is found when it is read back.
    let first = round(client, clock, proof, &wanted).await;
    assert!(matches!(first[..], ["Written" | "Unchanged", "Written" | "Unchanged"]), "{first:?}");
    assert_eq!(round(client, clock, proof, &wanted).await, [""; 0], "nothing differs");

    let resources: Api<NodeWright> = Api::all(client.clone());
    let edit = json!({"metadata": {"annotations": {PAUSE: "true"}}, "spec": {"serial": true}});
    let params = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..<_>::default() };
    let stale = read_live(client, clock).await.expect("listed");
    resources.patch("edge", &params, &Patch::Merge(edit)).await.expect("edited");
    wanted.objects.pop();
    wanted.objects.push(nodewright("edge", &nodewright_spec("1.1.0", 200, Some("careful"))));
    let applier = Applier::new(client.clone(), clock, wanted.adoption);
    let applied = applier.apply(proof, steps(&wanted, &stale, &both)).await;
    assert_eq!(words(&applied), ["Written"], "after a conflict and another look");
    let there = resources.get("edge").await.expect("there");
    assert_eq!(there.spec.packages["tuning"].version, "1.1.0");
    assert!(!there.spec.serial);
    assert_eq!(there.annotations()[PAUSE], "true");
    let managers = there.metadata.managed_fields.unwrap_or_default();
    let ours = managers.iter().any(|it| it.manager.as_deref() == Some("nodewright-source"));
    assert!(ours, "the spec's writer is seen as the source: {managers:?}");

    wanted.objects.clear();
    for expected in [vec!["Deleted", "Kept"], vec!["Deleted"], Vec::new()] {
        let live = read_live(client, clock).await.expect("listed");
        let applied = applier.apply(proof, steps(&wanted, &live, &both)).await;
        assert_eq!(words(&applied), expected);
    }
    let policies: Api<DeploymentPolicy> = Api::all(client.clone());
    assert!(policies.list(&ListParams::default()).await.expect("listed").items.is_empty());
}

async fn round(
    client: &Client,
    clock: Clock,
    proof: &LeaderProof,
    wanted: &Wanted,
) -> Vec<&'static str> {
    let live = read_live(client, clock).await.expect("listed");
    let applier = Applier::new(client.clone(), clock, wanted.adoption);
    words(&applier.apply(proof, steps(wanted, &live, &managed([]))).await)
}

fn words(applied: &[Applied]) -> Vec<&'static str> {
    let word = |it: &Applied| match &it.outcome {
        Outcome::Written => "Written",
        Outcome::Unchanged => "Unchanged",
        Outcome::Altered => "Altered",
        Outcome::Deleted => "Deleted",
        Outcome::Waiting { .. } => "Waiting",
        Outcome::Refused(_) => "Refused",
        Outcome::Kept { .. } => "Kept",
        Outcome::Held { .. } => "Held",
        Outcome::Failed(error) => panic!("{}: {error:?}", it.object),
    };
    applied.iter().map(word).collect()
}

async fn events(client: &Client, clock: Clock, proof: &LeaderProof) {
    // Ten times as fast, so that the second telling is due while we look.
    let fast = Clock::starting_at(clock.now(), 10);
    let events = Events::start(client.clone(), "nodewright-0", fast);
    let news = News {
        regarding: Regarding {
            kind: RegardingKind::Node,
            name: "gpu-1".to_owned(),
            uid: "c0ffee".to_owned(),
        },
        severity: Severity::Warning,
        reason: "Drain".to_owned(),
        action: "DrainTimeout".to_owned(),
        note: "ä".repeat(4000),
    };
    let api: Api<Event> = Api::namespaced(client.clone(), "default");
    let params =
        ListParams::default().fields("reportingController=nodewright.nvidia.com/nodewright");
    let count = eventually("the event is counted up", LIMIT, async || {
        events.tell(proof, news.clone());
        let list = api.list(&params).await.expect("listed").items;
        list.first().and_then(|event| event.series.as_ref()).map(|series| series.count)
    });
    assert!(count.await >= 2);
    assert_eq!(events.dropped(), 0);
}
