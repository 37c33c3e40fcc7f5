//! What `env.valueFrom` refers to: a rotated Secret is a change, a missing one is named, and no
//! value is seen anywhere.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use nodewright::api::NodeWright;
use serde_json::json;

use super::{create, nodewrights, package, quick, without_git};
use crate::fleet::{Fleet, is_complete, until};

const ENV: &str = "env:\n\
  - name: LICENSE\n\
  \x20 valueFrom:\n\
  \x20   secretKeyRef: {name: license, key: token}\n\
  - name: EXTRA\n\
  \x20 valueFrom:\n\
  \x20   configMapKeyRef: {name: extra, key: level, optional: true}";

fn secrets(fleet: &Fleet) -> Api<Secret> {
    Api::namespaced(fleet.cluster.client("person"), "nodewright")
}

async fn set(fleet: &Fleet, value: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "license"},
        "data": {"token": value, "unused": "eA=="},
    });
    let api = secrets(fleet);
    let secret: Secret = serde_json::from_value(secret).expect("a Secret");
    if api.get_opt("license").await.expect("an answer").is_none() {
        api.create(&PostParams::default(), &secret).await.expect("created");
    } else {
        let patch = Patch::Merge(&secret);
        api.patch("license", &PatchParams::default(), &patch).await.expect("changed");
    }
}

async fn snapshots(fleet: &Fleet) -> Vec<String> {
    let api: Api<ConfigMap> = Api::namespaced(fleet.cluster.client("test"), "nodewright");
    let all = api.list(&ListParams::default()).await.expect("a list").items;
    let names = all.iter().filter_map(|it| it.metadata.name.clone());
    names.filter(|name| name.starts_with("nw-")).collect()
}

/// Everything that the daemon has written, as text.
fn written(fleet: &Fleet) -> String {
    let requests = super::mutating(fleet, "daemon").into_iter();
    requests.map(|request| request.body.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn h11_a_missing_secret_is_named_and_a_rotated_one_is_a_change() {
    let fleet = Fleet::with(1, quick()).await;
    create(&fleet, "count: 1", &package("sysctl", "1.0.0", ENV)).await;
    let daemon = without_git(&fleet, "daemon");
    fleet.clock.sleep(Duration::from_mins(1)).await;
    let state = daemon.fleet().borrow().clone().expect("it leads");
    let told = format!("{:?}", state.needs_person);
    assert!(told.contains("Secret nodewright/license, which does not exist"), "{told}");
    assert!(fleet.kubelet.runs().is_empty(), "nothing starts");

    set(&fleet, "Zmlyc3QtdmFsdWU=").await;
    until(&daemon, fleet.clock, is_complete).await;
    let first = snapshots(&fleet).await;
    let quiet = fleet.kubelet.runs().len();
    fleet.clock.sleep(Duration::from_mins(10)).await;
    assert_eq!(fleet.kubelet.runs().len(), quiet, "the same value is no change");

    set(&fleet, "c2Vjb25kLXZhbHVl").await;
    fleet.clock.sleep(Duration::from_mins(5)).await;
    let second = snapshots(&fleet).await;
    assert!(second.iter().any(|name| !first.contains(name)), "{first:?} {second:?}");
    daemon.stop().await.expect("a graceful stop");

    let everything = written(&fleet);
    let plain = ["first-value", "second-value", "Zmlyc3QtdmFsdWU=", "c2Vjb25kLXZhbHVl"];
    for value in plain {
        assert!(!everything.contains(value), "{value} is written somewhere");
    }
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_configmap_in_a_snapshots_place_is_named() {
    let fleet = Fleet::with(1, quick()).await;
    let text = crate::fleet::manifest("tuning", "count: 1", &package("sysctl", "1.0.0", ""));
    let object: NodeWright = serde_yaml::from_str(&text).expect("a manifest");
    let desired = nodewright::manifest::desired(std::slice::from_ref(&object), &[]);
    let name = desired.rollouts["tuning"].packages["sysctl"].snapshot_name("tuning");
    let api: Api<ConfigMap> = Api::namespaced(fleet.cluster.client("person"), "nodewright");
    let foreign = json!({"metadata": {"name": name}, "data": {"mine": "yes"}});
    let foreign: ConfigMap = serde_json::from_value(foreign).expect("a ConfigMap");
    api.create(&PostParams::default(), &foreign).await.expect("created");
    create(&fleet, "count: 1", &package("sysctl", "1.0.0", "")).await;
    let daemon = without_git(&fleet, "daemon");
    fleet.clock.sleep(Duration::from_mins(1)).await;
    let state = daemon.fleet().borrow().clone().expect("it leads");
    let told = format!("{:?}", state.needs_person);
    assert!(told.contains(&format!("nodewright/{name} is there with other content")), "{told}");
    assert!(nodewrights(&fleet).get("tuning").await.is_ok());
    api.delete(&name, &kube::api::DeleteParams::default()).await.expect("deleted");
    until(&daemon, fleet.clock, is_complete).await;
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}
