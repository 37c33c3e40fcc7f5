//! `nodewright reset` and `nodewright deployment-policy reset` against a real API server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use nodewright::api::status::BatchState;
use nodewright::api::{NodeWright, keys};
use nodewright::clock::Clock;
use nodewright::sim::scene::{NodeGroup, Scene};
use serde_json::{Value, json};

use super::explain::run;
use super::{Ran, nodewright};
use crate::control_plane::{ControlPlane, Controllers};
use crate::fleet::manifest;
use crate::scenario::Ground;

const MOTD: &str = "    motd:\n      version: 1.0.0\n      image: registry.example/motd\n";

/// A stop of one compartment and an ordinary batch of the other.
fn stopped() -> Value {
    let state = |batch: u32, failures: u32, stop: bool| {
        json!({
            "matched": 2, "ceiling": 1, "inProgress": 0, "completed": 0, "progressPercent": 0,
            "batchState": {
                "currentBatch": batch, "consecutiveFailures": failures, "completedNodes": 0,
                "failedNodes": failures, "shouldStop": stop, "lastBatchSize": 1,
                "lastBatchFailed": stop,
            },
        })
    };
    let statuses = json!({"edge": state(3, 2, true), "core": state(2, 0, false)});
    json!({"status": {"compartmentStatuses": statuses}})
}

#[test]
fn what_to_reset_is_a_resource_and_perhaps_a_package() {
    let no_name = nodewright(&["reset"]);
    assert_eq!(no_name.code, Some(2));
    let ran = nodewright(&["reset", "tuning", "--package", "motd:"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("written NAME or NAME:VERSION"), "{}", ran.err);
    let both = nodewright(&["reset", "tuning", "--dry-run", "--confirm"]);
    assert_eq!(both.code, Some(2));
    let policy = nodewright(&["deployment-policy"]);
    assert_eq!(policy.code, Some(2));
}

/// A resource without a daemon on an API server of its own, with two nodes.
struct Site {
    plane: Arc<ControlPlane>,
    resources: Api<NodeWright>,
    nodes: Api<Node>,
}

impl Site {
    async fn start() -> Self {
        let plane = Arc::new(ControlPlane::start(Controllers::Standard).await);
        let ground = Ground::real(Arc::clone(&plane)).await;
        let scene = Scene::new(plane.client("test"), Clock::real(), 1);
        scene.add_nodes(&NodeGroup::new("gpu", 2).label("nodepool", "gpu")).await.expect("nodes");
        let resources = Api::all(ground.client("test"));
        Self { plane, resources, nodes: Api::all(ground.client("test")) }
    }

    async fn run(&self, words: &[&str]) -> Ran {
        run(&self.plane, words).await
    }

    async fn create(&self) {
        let object = serde_yaml::from_str(&manifest("tuning", "count: 1", MOTD)).expect("valid");
        self.resources.create(&PostParams::default(), &object).await.expect("created");
    }

    async fn stop(&self) -> Option<String> {
        let patch = Patch::Merge(stopped());
        let done = self.resources.patch_status("tuning", &PatchParams::default(), &patch).await;
        done.expect("stopped").resource_version()
    }

    /// Records three packages on gpu-001, under a cordon and with a visit of ours.
    async fn install(&self) {
        let entry = |name: &str, version: &str| {
            json!({"name": name, "version": version, "image": "i", "stage": "config",
                   "state": "complete"})
        };
        let entries = json!({
            "motd|1.0.0": entry("motd", "1.0.0"), "motd|0.9.0": entry("motd", "0.9.0"),
            "kernel|2.0.0": entry("kernel", "2.0.0"),
        });
        let word = keys::status("tuning");
        let patch = Patch::Merge(json!({"metadata": {
            "annotations": {
                keys::node_state("tuning"): entries.to_string(), &word: "complete",
                keys::rollout("tuning"): "{}", keys::cordon("tuning"): "true",
            },
            "labels": {&word: "complete"},
        }}));
        self.nodes.patch("gpu-001", &PatchParams::default(), &patch).await.expect("marked");
    }
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn batches_begin_again_and_packages_are_forgotten_once_it_is_confirmed() {
    let site = Site::start().await;
    for words in [&["reset", "tuning"][..], &["dp", "reset", "tuning"]] {
        let ran = site.run(words).await;
        let refused = "error: there is no NodeWright tuning in this cluster\n\
                       hint: kubectl get nodewrights lists them\n";
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(4), "", refused));
    }
    site.create().await;
    begins_again(&site).await;
    site.install().await;
    forgets_one_package(&site).await;
    forgets_everything(&site).await;
}

async fn begins_again(site: &Site) {
    let stopped = site.stop().await;
    let ran = site.run(&["deployment-policy", "reset", "tuning", "--dry-run"]).await;
    let would = "tuning, core: would begin again; was at batch 2\n\
                 tuning, edge: would begin again; was stopped after batch 2, failed batches in a \
                 row: 2\n";
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), would), "{}", ran.err);
    let now = site.resources.get("tuning").await.expect("there").resource_version();
    assert_eq!(now, stopped, "a dry run writes nothing");
    let ran = site.run(&["deployment-policy", "reset", "tuning", "--confirm"]).await;
    let begins = would.replace("would begin again", "begins again");
    assert_eq!((ran.code, ran.out), (Some(0), begins), "{}", ran.err);
    let status = site.resources.get("tuning").await.expect("there").status.expect("a status");
    for (name, compartment) in &status.compartment_statuses {
        let state = compartment.batch_state.expect("counters");
        assert_eq!((state, compartment.matched), (BatchState::default(), 2), "{name}");
    }
    let ran = site.run(&["dp", "reset", "tuning"]).await;
    let first = "tuning: every compartment is at its first batch\n";
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), first), "{}", ran.err);
}

async fn forgets_one_package(site: &Site) {
    let ran = site.run(&["reset", "tuning", "--package", "motd:0.9.0", "-y"]).await;
    let forgot = "gpu-001: forgot motd|0.9.0 of tuning\n";
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), forgot), "{}", ran.err);
    let ran = site.run(&["reset", "tuning", "--package", "motd:0.9.0", "-y"]).await;
    assert_eq!(ran.code, Some(4));
    assert!(ran.err.contains("package motd of tuning is recorded on no node"), "{}", ran.err);
    let ran = site.run(&["reset", "tuning", "--node", "gpu-002"]).await;
    assert_eq!(ran.code, Some(4));
    assert!(ran.err.contains("nothing is recorded of tuning on node gpu-002"), "{}", ran.err);
}

async fn forgets_everything(site: &Site) {
    site.stop().await;
    let before = site.nodes.get("gpu-001").await.expect("there").annotations().clone();
    let ran = site.run(&["reset", "tuning"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(4), ""));
    let said = "error: tuning is not reset without --confirm:\n\
                gpu-001: would forget kernel|2.0.0, motd|1.0.0 of tuning\n\
                tuning, core: would begin again; was at batch 2\n";
    assert!(ran.err.starts_with(said), "{}", ran.err);
    assert_eq!(site.nodes.get("gpu-001").await.expect("there").annotations(), &before);
    let ran = site.run(&["reset", "tuning", "--confirm"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let said = "gpu-001: forgot kernel|2.0.0, motd|1.0.0 of tuning\ntuning, core: begins again";
    assert!(ran.out.starts_with(said), "{}", ran.out);
    let node = site.nodes.get("gpu-001").await.expect("there");
    let left: Vec<&String> =
        node.annotations().keys().filter(|key| key.starts_with(keys::PREFIX)).collect();
    let kept = [&keys::cordon("tuning"), &keys::rollout("tuning")];
    assert_eq!(left, kept, "visits and cordons are the daemon's");
    assert!(!node.labels().contains_key(&keys::status("tuning")));
}
