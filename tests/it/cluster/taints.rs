//! Taints of a node, changed beside those of others: on the embedded cluster and a real one.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint as WireTaint};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodewright::cluster::{Actor, LeaderProof, Observer, Outcome};
use nodewright::model::{self, Action, CordonMark, NodeRules, Taint, TaintEffect, TaintPatch};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::settings;
use super::world::{World, parse};

fn patch(node: &model::Node) -> TaintPatch {
    TaintPatch {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        rollout: "gpu".to_owned(),
        before: node.taints.clone(),
        after: node.taints.clone(),
        auto_taint_mark: None,
        cordon_after: None,
    }
}

fn runtime() -> Taint {
    NodeRules::default().runtime_taint
}

fn former() -> Taint {
    NodeRules::default().runtime_taints_recognised[0].clone()
}

/// The node joins: our taint and the mark beside whatever is there.
fn joins(node: &model::Node) -> TaintPatch {
    let mut patch = patch(node);
    patch.after.push(runtime());
    patch.auto_taint_mark = Some(runtime().key);
    patch
}

/// Everything is complete: both taints go, the node stays cordoned.
fn opens(node: &model::Node) -> TaintPatch {
    let mut patch = patch(node);
    patch.after.retain(|taint| *taint != runtime() && *taint != former());
    patch.cordon_after = Some(true);
    patch
}

fn keys(node: &Node) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    taints.into_iter().map(|taint| taint.key).collect()
}

/// What the story needs of a cluster.
struct Ground<'a> {
    nodes: Api<Node>,
    observer: &'a Observer,
    actor: &'a Actor,
    proof: &'a LeaderProof,
}

impl Ground<'_> {
    /// Returns the node as the daemon knows it, once that is what the server has.
    async fn known(&self, name: &str) -> model::Node {
        let there = self.nodes.get(name).await.expect("it is there");
        let version = there.resource_version().expect("a version");
        loop {
            let known = self.observer.observe().observed.nodes.get(name).cloned();
            if let Some(known) = known.filter(|known| known.resource_version == version) {
                return known;
            }
            self.observer.changed().await;
        }
    }

    async fn change(&self, patch: TaintPatch) -> Outcome {
        let mut executed = self.actor.execute(self.proof, vec![Action::PatchTaints(patch)]).await;
        executed.pop().expect("one action has one outcome").outcome
    }

    async fn meddle(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.nodes.patch(name, &PatchParams::default(), &patch).await.expect("accepted");
    }

    /// A node joins and is opened, while others write their taints.
    async fn story(&self, name: &str, annotations: Value) {
        let node = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"taints": [
                {"key": "theirs", "effect": "NoExecute", "value": "x",
                 "timeAdded": "2026-03-01T08:00:00Z"},
                {"key": "skyhook.nvidia.com", "effect": "NoSchedule", "value": "runtime-required"},
            ]},
        });
        self.nodes.create(&PostParams::default(), &parse(node)).await.expect("accepted");
        assert!(matches!(self.change(joins(&self.known(name).await)).await, Outcome::Done));
        let there = self.nodes.get(name).await.expect("it is there");
        assert!(keys(&there).contains(&"nodewright.nvidia.com".to_owned()));
        let mark = &there.annotations()["nodewright.nvidia.com/autoTaint_nodewright.nvidia.com"];
        assert_eq!(mark, "true");

        // Somebody puts another one in front, and the daemon has not seen it yet.
        let stale = self.known(name).await;
        let mut taints = there.spec.and_then(|spec| spec.taints).expect("taints");
        let first = json!({"key": "first", "effect": "PreferNoSchedule"});
        taints.insert(0, parse::<WireTaint>(first));
        self.meddle(name, json!({"spec": {"taints": taints}})).await;
        let outcome = self.change(opens(&stale)).await;
        assert!(matches!(outcome, Outcome::Conflict { .. }), "{outcome:?}");

        assert!(matches!(self.change(opens(&self.known(name).await)).await, Outcome::Done));
        let there = self.nodes.get(name).await.expect("it is there");
        let left = keys(&there);
        assert!(left.starts_with(&["first".to_owned(), "theirs".to_owned()]), "{left:?}");
        assert!(!left.contains(&"skyhook.nvidia.com".to_owned()), "{left:?}");
        assert!(!left.contains(&"nodewright.nvidia.com".to_owned()), "{left:?}");
        let spec = there.spec.expect("a spec");
        assert_eq!(spec.unschedulable, Some(true));
        let theirs = spec.taints.unwrap_or_default().into_iter().find(|it| it.key == "theirs");
        assert!(theirs.expect("kept").time_added.is_some(), "nothing of theirs is lost");

        // Somebody opens the node: the mark goes alone.
        self.meddle(name, json!({"spec": {"unschedulable": null}})).await;
        let known = self.known(name).await;
        assert_eq!(known.cordons, [CordonMark::RuntimeRequired]);
        let dropped = TaintPatch { cordon_after: Some(false), ..patch(&known) };
        assert!(matches!(self.change(dropped).await, Outcome::Done));
        assert_eq!(self.known(name).await.cordons, []);
    }

    /// A node without any taint, which one is put on and taken off.
    async fn bare(&self, name: &str) {
        let node = json!({"metadata": {"name": name, "annotations": {"theirs": "kept"}}});
        self.nodes.create(&PostParams::default(), &parse(node)).await.expect("accepted");
        // Controllers of the cluster have their own: off, so that there is none.
        self.meddle(name, json!({"spec": {"taints": null}})).await;
        let bare = self.known(name).await;
        self.meddle(name, json!({"metadata": {"labels": {"written": "meanwhile"}}})).await;
        let mut stale = joins(&bare);
        stale.before.clear();
        stale.after = vec![runtime()];
        let outcome = self.change(stale).await;
        assert!(matches!(outcome, Outcome::Conflict { .. }), "{outcome:?}");
        assert!(matches!(self.change(joins(&self.known(name).await)).await, Outcome::Done));
        let there = self.nodes.get(name).await.expect("it is there");
        assert!(keys(&there).contains(&"nodewright.nvidia.com".to_owned()));
        assert_eq!(there.annotations()["theirs"], "kept");
    }
}

#[tokio::test(start_paused = true)]
async fn j1_j4_taints_and_annotations_of_others_stay() {
    let world = World::new().await;
    let ground = Ground {
        nodes: world.nodes(),
        observer: &world.observer,
        actor: &world.actor,
        proof: &world.proof,
    };
    super::world::soon(ground.story("joins", json!({"theirs": "kept"}))).await;
    super::world::soon(ground.story("joins-without-annotations", json!(null))).await;
    super::world::soon(ground.bare("bare")).await;
    world.stop().await;
}

#[test]
fn a_taint_with_another_value_is_another() {
    let mine = Taint { value: "mine".to_owned(), ..runtime() };
    assert!(!NodeRules::default().is_runtime_taint(&mine));
    let no_execute = Taint { effect: TaintEffect::NoExecute, ..runtime() };
    assert!(!NodeRules::default().is_runtime_taint(&no_execute));
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn j1_j4_taints_and_annotations_of_others_stay_on_a_real_api_server() {
    use crate::control_plane::{ControlPlane, Controllers};
    let plane = ControlPlane::start(Controllers::None).await;
    plane.ensure_namespace("nodewright").await;
    let clock = nodewright::clock::Clock::real();
    let client = plane.client("taints/1");
    for crd in nodewright::api::crd::crds() {
        Api::all(client.clone()).create(&PostParams::default(), &crd).await.expect("accepted");
    }
    let shutdown = CancellationToken::new();
    let (observer, mut tasks) =
        Observer::start(client.clone(), &settings(), clock, shutdown.clone());
    let store = observer.store();
    let actor = Actor::new(client.clone(), settings(), clock, Arc::clone(&store));
    let (_lease, valid_until) = watch::channel(Some(Timestamp::MAX));
    let proof = LeaderProof::new(clock, valid_until);
    let ground =
        Ground { nodes: Api::all(client), observer: &observer, actor: &actor, proof: &proof };
    let limit = std::time::Duration::from_secs(120);
    let story = async {
        ground.story("joins", json!({"theirs": "kept"})).await;
        ground.story("joins-without-annotations", json!(null)).await;
        ground.bare("bare").await;
    };
    tokio::time::timeout(limit, story).await.expect("the API server answers in time");
    shutdown.cancel();
    while tasks.join_next().await.is_some() {}
}
