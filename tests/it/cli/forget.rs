//! `nodewright forget` as a process against a real API server.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use nodewright::api::{NodeWright, keys};
use nodewright::clock::Clock;
use nodewright::cluster::Disposition;
use nodewright::cluster::forget::{forget, remembered_on};
use nodewright::sim::scene::{NodeGroup, Scene};
use serde_json::{Value, json};

use super::explain::run;
use super::explain_rights::person;
use super::{Ran, Shell, nodewright};
use crate::control_plane::{ControlPlane, Controllers};
use crate::fleet::manifest;
use crate::scenario::Ground;

const MOTD: &str = "    motd:\n      version: 1.0.0\n      image: registry.example/motd\n";
const HERE: &str = "gpu-001";
const PICKED: &str = "2026-11-24T08:00:00Z";

#[test]
fn what_to_forget_is_a_node_and_perhaps_one_rollout() {
    assert_eq!(nodewright(&["forget"]).code, Some(2));
    for node in ["gpu-001", "node/", "pod/web"] {
        let ran = nodewright(&["forget", node]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{node}");
        assert!(ran.err.contains("written node/NAME"), "{}", ran.err);
    }
    let ran = nodewright(&["forget", "node/gpu-001", "--rollout", "Tuning"]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let both = nodewright(&["forget", "node/gpu-001", "--dry-run", "--confirm"]);
    assert_eq!(both.code, Some(2));
}

/// A resource without a daemon on an API server of its own, with three nodes.
struct Site {
    plane: Arc<ControlPlane>,
    resources: Api<NodeWright>,
    nodes: Api<Node>,
    pods: Api<Pod>,
}

impl Site {
    async fn start() -> Self {
        let plane = Arc::new(ControlPlane::start(Controllers::Standard).await);
        let ground = Ground::real(Arc::clone(&plane)).await;
        let scene = Scene::new(plane.client("test"), Clock::real(), 1);
        scene.add_nodes(&NodeGroup::new("gpu", 3).label("nodepool", "gpu")).await.expect("nodes");
        let resources: Api<NodeWright> = Api::all(ground.client("test"));
        let object = serde_yaml::from_str(&manifest("tuning", "count: 1", MOTD)).expect("valid");
        resources.create(&PostParams::default(), &object).await.expect("created");
        let pods = Api::namespaced(ground.client("test"), "default");
        Self { plane, resources, nodes: Api::all(ground.client("test")), pods }
    }

    async fn run(&self, words: &[&str]) -> Ran {
        run(&self.plane, &[&["forget", "node/gpu-001"], words].concat()).await
    }

    async fn node(&self) -> Node {
        self.nodes.get(HERE).await.expect("there")
    }

    /// Writes annotations of ours; those with null are taken off.
    async fn say(&self, annotations: &Value) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        self.nodes.patch(HERE, &PatchParams::default(), &patch).await.expect("patched");
    }

    /// Ready, or down for so long; returns since when.
    async fn is_down(&self, minutes: Option<i64>) -> String {
        let ago = SignedDuration::from_mins(minutes.unwrap_or(0));
        let since = format!("{:.0}", Clock::real().now().checked_sub(ago).expect("a time"));
        let status = minutes.map_or("True", |_| "Unknown");
        let now = format!("{:.0}", Clock::real().now());
        let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": since,
                           "lastHeartbeatTime": now});
        let patch = Patch::Strategic(json!({"status": {"conditions": [ready]}}));
        let done = self.nodes.patch_status(HERE, &PatchParams::default(), &patch).await;
        done.expect("patched");
        since
    }

    /// The record of a visit to this very node.
    async fn record(&self, outcome: Option<&str>) -> String {
        let cr_uid = self.resources.get("tuning").await.expect("there").uid();
        let mut record = json!({
            "v": 1, "crUid": cr_uid, "nodeUid": self.node().await.uid(), "machineId": "",
            "target": "t", "generation": 1, "visit": 7, "compartment": "__default__", "batch": 1,
            "order": 0, "picked": PICKED, "phase": "interrupting", "held": true,
        });
        if let Some(outcome) = outcome {
            record["outcome"] = json!(outcome);
        }
        record.to_string()
    }

    /// Two packages of a complete visit, as the daemon leaves them; nothing of the case before.
    async fn install(&self) {
        let complete = keys::status("tuning");
        self.say(&json!({
            keys::node_state("tuning"): entries("complete"), &complete: "complete",
            keys::rollout("tuning"): self.record(Some("complete")).await,
            keys::version("tuning"): "v0.20.0", keys::cordon("tuning"): null,
        }))
        .await;
        let patch = Patch::Merge(json!({"metadata": {"labels": {&complete: "complete"}}}));
        self.nodes.patch(HERE, &PatchParams::default(), &patch).await.expect("labelled");
        self.is_down(None).await;
    }
}

fn entries(state: &str) -> String {
    let entry = |name: &str| {
        json!({"name": name, "version": "1.0.0", "image": "i", "stage": "config", "state": state,
               "snapshot": "nw-0123456789abcdef", "theirs": 1})
    };
    json!({"motd|1.0.0": entry("motd"), "kernel|1.0.0": entry("kernel")}).to_string()
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn a_node_is_let_go_of_once_it_is_confirmed_and_nothing_may_be_at_work_there() {
    let site = Site::start().await;
    of_nothing(&site).await;
    while_at_work(&site).await;
    of_a_ready_one(&site).await;
    of_a_lost_one(&site).await;
    of_one_that_changed(&site).await;
    without_the_right(&site).await;
    of_what_is_gone(&site).await;
}

async fn of_nothing(site: &Site) {
    let ran = run(&site.plane, &["forget", "node/gpu-009", "-y"]).await;
    let said = "error: there is no node gpu-009 in this cluster\nhint: kubectl get nodes lists \
                them\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(4), "", said));
    let ran = site.run(&["-y"]).await;
    let said = "error: nothing is recorded on node gpu-001: nothing to forget\nhint: see what is \
                there: nodewright explain node/gpu-001\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(4), "", said));
    site.install().await;
    let ran = site.run(&["-y", "--rollout", "other"]).await;
    assert_eq!(ran.code, Some(4));
    assert!(ran.err.contains("nothing is recorded of other on node gpu-001"), "{}", ran.err);
}

async fn while_at_work(site: &Site) {
    let open = json!({keys::rollout("tuning"): site.record(None).await});
    let failed = json!({keys::rollout("tuning"): site.record(Some("erroring")).await,
                        keys::cordon("tuning"): "true"});
    let stray = json!({keys::rollout("tuning"): null, keys::cordon("tuning"): "true"});
    let upstreams = json!({keys::rollout("tuning"): null,
                           keys::node_state("tuning"): entries("in_progress")});
    let malformed = json!({keys::rollout("tuning"): "{}"});
    let wait = "wait for its end: nodewright explain node/gpu-001; if the machine is gone for \
                good: kubectl delete node gpu-001";
    let under_way = format!("tuning: a visit is under way since {PICKED}");
    let cases: [(&Value, Option<i64>, &str, &str); 7] = [
        (&open, None, &under_way, wait),
        (&open, Some(50), &under_way, "a host may take an hour to reboot: ask again after 20"),
        (
            &failed,
            None,
            "tuning: it keeps the node cordoned after a failure",
            "try it again: nodewright retry node/gpu-001 --rollout tuning; or from the first \
             stage: nodewright reset tuning --node gpu-001 --confirm",
        ),
        (&failed, Some(50), "keeps the node cordoned", "ask again after 20"),
        (&stray, Some(200), "tuning: the daemon is about to let the node go", "ask again once"),
        (&upstreams, None, "tuning: upstream's operator has begun what has not ended", wait),
        (
            &malformed,
            Some(200),
            "tuning: an annotation cannot be read: rollout: missing field",
            "take the annotation off first: nodewright reset tuning --node gpu-001 --confirm",
        ),
    ];
    for (annotations, down, standing, way_out) in cases {
        site.install().await;
        site.say(annotations).await;
        site.is_down(down).await;
        let before = site.node().await;
        for words in [&["--confirm"][..], &["--dry-run"], &[]] {
            let ran = site.run(words).await;
            assert_eq!((ran.code, ran.out.as_str()), (Some(4), ""), "{annotations}");
            assert!(ran.err.starts_with("error: node gpu-001 is not let go, it is"), "{}", ran.err);
            assert!(ran.err.contains(standing), "{standing}: {}", ran.err);
            assert!(ran.err.contains(&format!("\nhint: {way_out}")) || ran.err.contains(way_out));
        }
        assert_eq!(site.node().await.annotations(), before.annotations());
    }
    running(site, wait).await;
}

/// A pod of a rollout that has not ended; one that pulls changes nothing on the host.
async fn running(site: &Site, wait: &str) {
    site.install().await;
    for (name, group) in [("tuning-pull", "pull"), ("tuning-install", "install")] {
        let pod = serde_json::from_value(json!({
            "metadata": {"name": name,
                         "labels": {keys::NAME: "tuning", keys::GROUP: group}},
            "spec": {"nodeName": HERE, "containers": [{"name": "c", "image": "i"}],
                     "automountServiceAccountToken": false},
        }));
        let pod = pod.expect("a pod");
        site.pods.create(&PostParams::default(), &pod).await.expect("created");
        let ran = site.run(&["--dry-run"]).await;
        if group == "pull" {
            assert_eq!(ran.code, Some(0), "{}", ran.err);
            continue;
        }
        assert_eq!((ran.code, ran.out.as_str()), (Some(4), ""));
        let standing = "tuning: its pods may be at work there: tuning-install\n";
        assert!(ran.err.contains(standing) && ran.err.contains(wait), "{}", ran.err);
    }
    let now = DeleteParams::default().grace_period(0);
    site.pods.delete("tuning-install", &now).await.expect("deleted");
}

async fn of_a_ready_one(site: &Site) {
    site.install().await;
    let before = site.node().await;
    let would = "gpu-001: would forget kernel|1.0.0, motd|1.0.0 of tuning; recorded as left, \
                 installed again when the node is ready and a batch has room\n";
    let ran = site.run(&["--dry-run"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), would), "{}", ran.err);
    let ran = site.run(&[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(4), ""));
    let said = format!("error: node gpu-001 is not let go without --confirm:\n{would}hint: ");
    assert!(ran.err.starts_with(&said), "{}", ran.err);
    assert_eq!(site.node().await.annotations(), before.annotations(), "nothing was written");

    let ran = site.run(&["--confirm"]).await;
    let forgot = would.replace("would forget", "forgot");
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), forgot.as_str()), "{}", ran.err);
    let node = site.node().await;
    let state: Value = parsed(&node, &keys::node_state("tuning"));
    for package in ["kernel|1.0.0", "motd|1.0.0"] {
        let entry = &state[package];
        let left = entry["left"].as_str().expect("when it was");
        assert!(left.parse::<Timestamp>().is_ok(), "{left}");
        assert_eq!((&entry["snapshot"], &entry["theirs"]), (&Value::Null, &json!(1)));
    }
    let ours: Vec<&String> =
        node.annotations().keys().filter(|key| key.starts_with(keys::PREFIX)).collect();
    assert_eq!(ours, [&keys::node_state("tuning"), &keys::rollout("tuning")]);
    let record = &keys::rollout("tuning");
    assert_eq!(node.annotations()[record], before.annotations()[record], "it had ended well");
    assert!(!node.labels().contains_key(&keys::status("tuning")));

    // What is recorded as left is on a list; asked again, it is taken off.
    let ran = site.run(&["-y"]).await;
    let off = "gpu-001: forgot kernel|1.0.0, motd|1.0.0 of tuning; nothing of it is listed any \
               more\n";
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), off), "{}", ran.err);
    assert!(!site.node().await.annotations().contains_key(&keys::node_state("tuning")));
    assert_eq!(site.run(&["-y"]).await.code, Some(4), "nothing is left to forget");
}

fn parsed(node: &Node, key: &str) -> Value {
    serde_json::from_str(&node.annotations()[key]).expect("JSON")
}

async fn of_a_lost_one(site: &Site) {
    for (outcome, said) in [
        (None, format!("its visit since {PICKED} ends")),
        (Some("erroring"), "its failed visit is closed".to_owned()),
    ] {
        site.install().await;
        let (record, cordon) = (keys::rollout("tuning"), keys::cordon("tuning"));
        site.say(&json!({&record: site.record(outcome).await, &cordon: "true"})).await;
        site.is_down(Some(61)).await;
        let ran = site.run(&["-y"]).await;
        let forgot = format!(
            "gpu-001: forgot kernel|1.0.0, motd|1.0.0 of tuning; {said}; the daemon lifts our \
             cordon; recorded as left, installed again when the node is ready and a batch has \
             room\n"
        );
        assert_eq!((ran.code, ran.out), (Some(0), forgot), "{}", ran.err);
        let node = site.node().await;
        assert_eq!(node.annotations()[&cordon], "true", "cordons are the daemon's");
        let record = parsed(&node, &record);
        assert_eq!(
            (&record["outcome"], &record["phase"]),
            (&json!("released"), &json!("released"))
        );
        assert_eq!((&record["reason"], &record["visit"]), (&json!("Forgotten"), &json!(7)));
        let message = record["message"].as_str().expect("a message");
        assert!(message.contains("(nodewright forget); it was interrupting"), "{message}");
    }
}

/// What the daemon wrote meanwhile wins, whether a visit was recorded before or not.
async fn of_one_that_changed(site: &Site) {
    let client = site.plane.client("test");
    for before in [json!(site.record(Some("complete")).await), Value::Null] {
        site.install().await;
        site.say(&json!({keys::rollout("tuning"): before})).await;
        let read = remembered_on(&client, HERE, Clock::real()).await.expect("read").expect("there");
        site.say(&json!({keys::rollout("tuning"): site.record(None).await})).await;
        let now = site.node().await;
        let error = forget(&client, &read, &read.rollouts, Clock::real()).await;
        let error = error.expect_err("a visit began");
        assert_eq!(error.disposition(), Disposition::Conflict, "{error}");
        assert_eq!(site.node().await.annotations(), now.annotations());
    }
}

async fn without_the_right(site: &Site) {
    site.install().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let read = json!({"apiGroups": ["", "nodewright.nvidia.com"],
                      "resources": ["nodes", "pods", "nodewrights"], "verbs": ["get", "list"]});
    let kubeconfig = person(&site.plane, "reader", json!([read]), folder.path().into()).await;
    let ran = tokio::task::spawn_blocking(move || {
        let kubeconfig = kubeconfig.to_str().expect("a path as text");
        Shell::new().run(&["forget", "node/gpu-001", "-y", "--kubeconfig", kubeconfig])
    });
    let ran = ran.await.expect("it runs");
    assert_eq!((ran.code, ran.out.as_str()), (Some(6), ""), "{}", ran.err);
    assert!(ran.err.contains("cannot patch resource \"nodes\""), "{}", ran.err);
    assert!(ran.err.contains("hint: ask for the right that the answer names"), "{}", ran.err);
}

/// What nothing looks after any more is taken off at once, with what it left of its visits.
async fn of_what_is_gone(site: &Site) {
    site.install().await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"nodepool": "other"}}}));
    site.nodes.patch(HERE, &PatchParams::default(), &patch).await.expect("relabelled");
    let off = "gpu-001: forgot kernel|1.0.0, motd|1.0.0 of tuning; nothing of it is listed any \
               more\n";
    let ran = site.run(&["-y", "--rollout", "tuning"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), off), "{}", ran.err);
    let ours = |node: &Node| -> Vec<String> {
        let keys = node.annotations().keys().filter(|key| key.starts_with(keys::PREFIX));
        keys.cloned().collect()
    };
    assert_eq!(ours(&site.node().await), [keys::rollout("tuning")], "its batch may count on it");

    site.install().await;
    site.resources.delete("tuning", &DeleteParams::default()).await.expect("deleted");
    let ran = site.run(&["-y"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), off), "{}", ran.err);
    assert_eq!(ours(&site.node().await), Vec::<String>::new());
}
