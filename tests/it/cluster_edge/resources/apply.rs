//! The other half: what the steps do, and do not do, to the embedded cluster.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodewright::api::NodeWright;
use nodewright::api::crd::crds;
use nodewright::api::keys::{CONFIG_DIGEST, PAUSE};
use nodewright::cluster::resources::{
    Adoption, Applied, Applier, Outcome, Wanted, listed_after, listed_before, read_live, steps,
};
use nodewright::cluster::source_state::ManagedObject;
use nodewright::cluster::{ClusterError, LeaderProof};
use nodewright::sim::{Cluster, Fault, Matching, Verb};
use serde_json::{Value, json};

use super::super::{leader, writes};
use super::{DIGEST, managed, nodewright, nodewright_spec, policy, wanted};

async fn cluster() -> Cluster {
    let cluster = super::super::cluster();
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client("install"));
    for crd in crds() {
        api.create(&PostParams::default(), &crd).await.expect("the CRD is accepted");
    }
    cluster
}

fn resources(cluster: &Cluster) -> Api<NodeWright> {
    Api::all(cluster.client("person"))
}

async fn person_writes(cluster: &Cluster, name: &str, patch: Value) {
    let params = PatchParams::default();
    resources(cluster).patch(name, &params, &Patch::Merge(patch)).await.expect("patched");
}

/// Reads, makes the steps and carries them out, as the daemon does.
async fn round(
    cluster: &Cluster,
    proof: &LeaderProof,
    wanted: &Wanted,
    managed: &BTreeSet<ManagedObject>,
) -> (Vec<Applied>, BTreeSet<ManagedObject>) {
    let client = cluster.client("daemon");
    let live = read_live(&client, cluster.clock()).await.expect("listed");
    let steps = steps(wanted, &live, managed);
    let listed = listed_before(wanted, managed, &steps);
    let applier = Applier::new(client, cluster.clock(), wanted.adoption);
    let applied = applier.apply(proof, steps).await;
    let listed = listed_after(&listed, &applied);
    (applied, listed)
}

fn outcomes(applied: &[Applied]) -> Vec<String> {
    applied.iter().map(|it| format!("{} {:?}", it.object, it.outcome)).collect()
}

fn two() -> Wanted {
    wanted(vec![
        policy("careful", 1),
        nodewright("a", &nodewright_spec("1.0.0", 200, Some("careful"))),
    ])
}

#[tokio::test(start_paused = true)]
async fn a_revision_is_written_once_and_an_unchanged_one_not_at_all() {
    let cluster = cluster().await;
    let (proof, _fence) = leader(cluster.clock());

    let (first, listed) = round(&cluster, &proof, &two(), &managed([])).await;
    let (second, listed_again) = round(&cluster, &proof, &two(), &listed).await;

    assert_eq!(outcomes(&first), ["DeploymentPolicy/careful Written", "NodeWright/a Written"]);
    assert_eq!(outcomes(&second), [""; 0]);
    assert_eq!(listed.len(), 2);
    assert_eq!(listed, listed_again);
    assert_eq!(writes(&cluster, "nodewrights").len(), 1);
    assert_eq!(writes(&cluster, "deploymentpolicies").len(), 1);
    let there = resources(&cluster).get("a").await.expect("there");
    assert_eq!(there.annotations()[CONFIG_DIGEST], DIGEST);
}

#[tokio::test(start_paused = true)]
async fn an_edit_by_hand_is_put_back_and_a_pause_stays() {
    let cluster = cluster().await;
    let (proof, _fence) = leader(cluster.clock());
    let (_, listed) = round(&cluster, &proof, &two(), &managed([])).await;
    let edit = json!({
        "metadata": {"annotations": {PAUSE: "true"}, "labels": {"team": "gpu"}},
        "spec": {"serial": true, "interruptionBudget": null},
        "status": {"status": "paused"},
    });
    person_writes(&cluster, "a", edit).await;

    let (applied, _) = round(&cluster, &proof, &two(), &listed).await;

    assert_eq!(outcomes(&applied), ["NodeWright/a Written"]);
    let there = resources(&cluster).get("a").await.expect("there");
    assert!(!there.spec.serial, "the spec is Git's");
    assert_eq!(there.annotations()[PAUSE], "true");
    assert_eq!(there.labels()["team"], "gpu");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_reads_again_and_loses_nothing() {
    let cluster = cluster().await;
    let (proof, _fence) = leader(cluster.clock());
    let (_, listed) = round(&cluster, &proof, &two(), &managed([])).await;
    let client = cluster.client("daemon");
    let wanted = wanted(vec![
        policy("careful", 1),
        nodewright("a", &nodewright_spec("1.1.0", 200, Some("careful"))),
    ]);
    let live = read_live(&client, cluster.clock()).await.expect("listed");
    let steps = steps(&wanted, &live, &listed);
    person_writes(&cluster, "a", json!({"metadata": {"annotations": {PAUSE: "true"}}})).await;

    let applier = Applier::new(client, cluster.clock(), Adoption::Refused);
    let applied = applier.apply(&proof, steps).await;

    assert_eq!(outcomes(&applied), ["NodeWright/a Written"]);
    let there = resources(&cluster).get("a").await.expect("there");
    assert_eq!(there.spec.packages["tuning"].version, "1.1.0");
    assert_eq!(there.annotations()[PAUSE], "true", "written between our read and our write");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_another_tool_won_is_refused() {
    let cluster = cluster().await;
    let (proof, _fence) = leader(cluster.clock());
    let (_, listed) = round(&cluster, &proof, &two(), &managed([])).await;
    let client = cluster.client("daemon");
    let wanted = wanted(vec![nodewright("a", &nodewright_spec("1.1.0", 200, None))]);
    let live = read_live(&client, cluster.clock()).await.expect("listed");
    let steps = steps(&wanted, &live, &listed);
    let mark = json!({"argocd.argoproj.io/tracking-id": "x"});
    person_writes(&cluster, "a", json!({"metadata": {"annotations": mark}})).await;

    let applier = Applier::new(client, cluster.clock(), Adoption::Refused);
    let applied = applier.apply(&proof, steps).await;

    let outcome = &applied.first().expect("one step").outcome;
    assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    let there = resources(&cluster).get("a").await.expect("there");
    assert_eq!(there.spec.packages["tuning"].version, "1.0.0");
}

#[tokio::test(start_paused = true)]
async fn only_listed_objects_are_pruned() {
    let cluster = cluster().await;
    let (proof, _fence) = leader(cluster.clock());
    let (_, listed) = round(&cluster, &proof, &two(), &managed([])).await;
    let by_hand = json!({"metadata": {"name": "by-hand"}, "spec": {}});
    let by_hand: NodeWright = serde_json::from_value(by_hand).expect("a valid NodeWright");
    resources(&cluster).create(&PostParams::default(), &by_hand).await.expect("created");

    let (applied, listed) = round(&cluster, &proof, &wanted(Vec::new()), &listed).await;
    assert_eq!(applied.len(), 2, "{:?}", outcomes(&applied));
    assert_eq!(listed, managed([ManagedObject::policy("careful")]), "it is named until a is gone");
    let (applied, listed) = round(&cluster, &proof, &wanted(Vec::new()), &listed).await;

    assert_eq!(outcomes(&applied), ["DeploymentPolicy/careful Deleted"]);
    assert_eq!(listed, managed([]));
    let names: Vec<String> = resources(&cluster)
        .list(&kube::api::ListParams::default())
        .await
        .expect("listed")
        .iter()
        .map(NodeWright::name_any)
        .collect();
    assert_eq!(names, ["by-hand"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_read_back_and_not_repeated() {
    for fault in [Fault::AnswerLost, Fault::NeverAnswered] {
        let cluster = cluster().await;
        let (proof, _fence) = leader(cluster.clock());
        let creates = Matching::any().user_agent("daemon").verb(Verb::Create);
        cluster.faults().next(creates.resource("nodewrights"), 1, fault);

        let (applied, _) = round(&cluster, &proof, &two(), &managed([])).await;

        assert_eq!(
            outcomes(&applied),
            ["DeploymentPolicy/careful Written", "NodeWright/a Unchanged",]
        );
        assert_eq!(writes(&cluster, "nodewrights").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_cannot_be_written_holds_the_resources_that_name_it() {
    let cluster = cluster().await;
    let (proof, _fence) = leader(cluster.clock());
    let policies = Matching::any().resource("deploymentpolicies").verb(Verb::Create);
    cluster.faults().next(policies, 1, Fault::InternalError);
    let mut wanted = two();
    wanted.objects.push(nodewright("b", &nodewright_spec("1.0.0", 300, None)));

    let (applied, _) = round(&cluster, &proof, &wanted, &managed([])).await;

    let outcomes = outcomes(&applied);
    assert!(outcomes[0].starts_with("DeploymentPolicy/careful Failed"), "{outcomes:?}");
    assert!(outcomes[1].starts_with("NodeWright/a Held"), "{outcomes:?}");
    assert_eq!(outcomes[2], "NodeWright/b Written", "another unit goes on");
}

#[tokio::test(start_paused = true)]
async fn an_outdated_crd_is_told_and_not_fought() {
    let cluster = super::super::cluster();
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client("install"));
    for crd in crds() {
        let mut crd = serde_json::to_value(crd).expect("JSON");
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        if let Some(Value::Object(fields)) = crd.pointer_mut(spec) {
            fields.remove("drainConfig");
        }
        let crd = serde_json::from_value(crd).expect("a valid CRD");
        api.create(&PostParams::default(), &crd).await.expect("the CRD is accepted");
    }
    let (proof, _fence) = leader(cluster.clock());
    let mut spec = nodewright_spec("1.0.0", 200, None);
    spec["drainConfig"] = json!({"force": false});

    let wanted = wanted(vec![nodewright("a", &spec)]);
    let (applied, _) = round(&cluster, &proof, &wanted, &managed([])).await;

    assert_eq!(outcomes(&applied), ["NodeWright/a Altered"]);
}

#[tokio::test(start_paused = true)]
async fn without_leadership_nothing_leaves() {
    let cluster = cluster().await;
    let (proof, fence) = leader(cluster.clock());
    fence.send_replace(None);

    let (applied, _) = round(&cluster, &proof, &two(), &managed([])).await;

    let outcome = &applied.first().expect("a step").outcome;
    assert!(matches!(outcome, Outcome::Failed(ClusterError::NotLeader { .. })), "{outcome:?}");
    assert_eq!(writes(&cluster, "nodewrights"), []);
    assert_eq!(writes(&cluster, "deploymentpolicies"), []);
}
