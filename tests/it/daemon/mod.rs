//! The loop: leadership, stop, faults, kills between any two writes.

mod budgets;
mod conditions;
mod cordons;
mod deletion;
mod failures;
mod faults;
mod idle;
mod invalid;
mod kills;
mod leadership;
mod pulls;
mod real_agent;
mod references;
mod rival;
mod safety;
mod source;
mod story;
mod takeover;
mod writes;

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{Api, ListParams, PostParams};
use nodewright::api::NodeWright;
use nodewright::daemon::{Daemon, Settings, SourceSettings};
use nodewright::sim::{KubeletOptions, Pull, Request, Rule, Script};
use serde_json::{Value, json};

use crate::fleet::{Fleet, manifest};

/// Containers and reboots that take next to no time: fewer ticks and renewals to play.
fn quick() -> KubeletOptions {
    let moment = Duration::from_millis(20);
    let script = Script {
        rules: vec![Rule::any().takes(moment)],
        images: vec![(String::new(), Pull::Takes(moment))],
        ..Script::default()
    };
    let reboot_time = Duration::from_secs(1);
    KubeletOptions { reboot_time, script, ..KubeletOptions::default() }
}

/// A daemon that reads the resources in the cluster and writes no status branch.
fn without_git(fleet: &Fleet, agent: &str) -> Daemon {
    let settings =
        Settings { source: SourceSettings::Cluster, status: None, ..fleet.settings(agent) };
    Daemon::start(settings, fleet.cluster.client(agent), fleet.clock)
}

fn nodewrights(fleet: &Fleet) -> Api<NodeWright> {
    Api::all(fleet.cluster.client("person"))
}

/// Creates the NodeWright, as a person with kubectl does.
async fn create(fleet: &Fleet, budget: &str, packages: &str) {
    let object = serde_yaml::from_str(&manifest("tuning", budget, packages)).expect("a manifest");
    nodewrights(fleet).create(&PostParams::default(), &object).await.expect("created");
}

/// Changes the packages of the NodeWright, as a person with kubectl does.
async fn change(fleet: &Fleet, budget: &str, packages: &str) {
    let wanted: NodeWright =
        serde_yaml::from_str(&manifest("tuning", budget, packages)).expect("a manifest");
    let mut object = nodewrights(fleet).get("tuning").await.expect("there");
    object.spec = wanted.spec;
    nodewrights(fleet).replace("tuning", &PostParams::default(), &object).await.expect("changed");
}

/// One entry of `spec.packages`.
fn package(name: &str, version: &str, rest: &str) -> String {
    let lines: String = rest.lines().map(|line| format!("      {line}\n")).collect();
    format!("    {name}:\n      version: {version}\n      image: registry.example/{name}\n{lines}")
}

fn mutating(fleet: &Fleet, agent: &str) -> Vec<Request> {
    let requests = fleet.cluster.requests().into_iter();
    requests.filter(|it| it.user_agent == agent && it.verb.is_mutating()).collect()
}

/// What the nodes and the resource say at the end, without times, UIDs and counts of visits.
async fn end_state(fleet: &Fleet) -> Value {
    let mut nodes = serde_json::Map::new();
    for node in fleet.nodes().await {
        let ours = node.annotations().iter().filter(|(key, _)| key.contains("nodewright"));
        let annotations: serde_json::Map<String, Value> = ours
            .map(|(key, text)| {
                let value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
                (key.clone(), lasting(value))
            })
            .collect();
        let state = json!({
            "annotations": annotations,
            "labels": node.labels(),
            "spec": node.spec,
        });
        nodes.insert(node.name_any(), state);
    }
    let tuning = nodewrights(fleet).get_opt("tuning").await.expect("readable");
    let status = tuning.map(|tuning| serde_json::to_value(&tuning.status).expect("JSON"));
    json!({ "nodes": nodes, "status": status.map(lasting) })
}

/// Takes away what may differ between two runs that end the same.
fn lasting(value: Value) -> Value {
    match value {
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => json!("a time"),
        Value::Array(values) => values.into_iter().map(lasting).collect(),
        Value::Object(map) => {
            let passing = ["visit", "crUid", "nodeUid", "machineId", "bootBefore", "bootLast"];
            let kept = map.into_iter().filter(|(key, _)| !passing.contains(&key.as_str()));
            Value::Object(kept.map(|(key, value)| (key, lasting(value))).collect())
        }
        value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => value,
    }
}

/// Waits until nothing is left of the executors.
async fn assert_cleaned_up(fleet: &Fleet) {
    fleet.clock.sleep(Duration::from_mins(3)).await;
    let pods: Api<k8s_openapi::api::core::v1::Pod> =
        Api::namespaced(fleet.cluster.client("test"), "nodewright");
    let left = pods.list(&ListParams::default()).await.expect("a list").items;
    let left: Vec<String> = left.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(left, Vec::<String>::new(), "executors are left");
}
