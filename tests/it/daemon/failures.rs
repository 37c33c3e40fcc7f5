//! What goes wrong on nodes: seen, named, bounded, and mended by a new commit.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use nodewright::report::FleetState;
use nodewright::sim::scene::{Budget, Owner, Workload};
use nodewright::sim::{Rule, Script};
use serde_json::json;

use super::{change, create, nodewrights, package, quick, without_git};
use crate::fleet::{Fleet, is_complete, until};

const REBOOT: &str = "interrupt:\n  type: reboot";

fn nodes(fleet: &Fleet) -> Api<Node> {
    Api::all(fleet.cluster.client("person"))
}

/// Everything a person is told, in one text.
fn told(state: &FleetState) -> String {
    format!("{:?} {:?} {:?}", state.needs_person, state.waits, state.on_purpose)
}

#[tokio::test(start_paused = true)]
async fn a_failing_stage_is_tried_four_times_stops_the_rollout_and_is_mended_by_a_new_version() {
    let fleet = Fleet::with(4, quick()).await;
    let fails = Rule::any().stage("apply").exits(3);
    fleet.kubelet.rewrite(|script| script.rules.insert(0, fails));
    create(&fleet, "count: 1", &package("sysctl", "1.0.0", "")).await;
    let daemon = without_git(&fleet, "daemon");
    let stopped = until(&daemon, fleet.clock, |state| {
        state.rollouts.values().any(|rollout| rollout.stopped().is_some())
    })
    .await;

    let runs = fleet.kubelet.runs();
    let tries: Vec<_> =
        runs.iter().filter(|it| it.exit_code == 3 && it.node == "gpu-001").collect();
    assert_eq!(tries.len(), 4, "{tries:#?}");
    for (pair, seconds) in tries.windows(2).zip([10, 20, 40]) {
        let pause = pair[1].started.duration_since(pair[0].finished).as_secs();
        // The kubelet says when a container ended to the second.
        assert!((seconds - 1..seconds + 5).contains(&pause), "waited {pause} s, not {seconds}");
    }
    let touched: Vec<_> = ["gpu-003", "gpu-004"]
        .into_iter()
        .filter(|node| runs.iter().any(|it| it.node == *node))
        .collect();
    assert!(touched.is_empty(), "begun after two failed batches: {touched:?}");
    let visit = stopped.nodes["gpu-001"]["tuning"].visit.clone().expect("a visit");
    let message = visit.message.unwrap_or_default();
    assert!(message.contains("apply.sh") && message.contains("exit code 3"), "{message}");
    assert!(told(&stopped).contains("apply.sh"), "{}", told(&stopped));
    fleet.clock.sleep(Duration::from_secs(5)).await;
    let status = nodewrights(&fleet).get("tuning").await.expect("there").status;
    let status = serde_json::to_string(&status).expect("JSON");
    assert!(status.contains("apply.sh"), "the conditions name the step: {status}");

    fleet.kubelet.rewrite(|script| drop(script.rules.remove(0)));
    change(&fleet, "count: 1", &package("sysctl", "1.0.1", "")).await;
    until(&daemon, fleet.clock, is_complete).await;
    daemon.stop().await.expect("a graceful stop");
    fleet.assert_released().await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_missing_is_named_within_a_minute() {
    let fleet = Fleet::with(1, quick()).await;
    fleet.kubelet.rewrite(|script| {
        script.images = vec![("sysctl".to_owned(), nodewright::sim::Pull::Missing)];
    });
    create(&fleet, "count: 1", &package("sysctl", "1.0.0", "")).await;
    let daemon = without_git(&fleet, "daemon");
    fleet.clock.sleep(Duration::from_mins(1)).await;
    let state = daemon.fleet().borrow().clone().expect("it leads");
    assert!(told(&state).contains("registry.example/sysctl"), "{}", told(&state));
    assert!(state.needs_person.is_empty(), "{}", told(&state));
    fleet.clock.sleep(Duration::from_mins(5)).await;
    let state = daemon.fleet().borrow().clone().expect("it leads");
    assert_eq!(state.needs_person.len(), 1, "{}", told(&state));
    assert!(state.needs_person[0].message.contains("registry.example/sysctl"), "{}", told(&state));
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_come_back_is_given_up_with_a_reason() {
    let fleet = Fleet::with(1, quick()).await;
    fleet.kubelet.rewrite(|script| {
        *script = Script { never_returning: ["gpu-001".to_owned()].into(), ..script.clone() };
    });
    create(&fleet, "count: 1", &package("kernel", "1.0.0", REBOOT)).await;
    let daemon = without_git(&fleet, "daemon");
    fleet.clock.sleep(Duration::from_mins(70)).await;
    let state = daemon.fleet().borrow().clone().expect("it leads");
    assert_eq!(state.rollouts["tuning"].nodes_erroring, 1, "{state:#?}");
    assert!(told(&state).contains("console"), "{}", told(&state));
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_that_lets_no_pod_go_is_named() {
    let fleet = Fleet::with(1, quick()).await;
    let set = Owner::ReplicaSet { name: "web".to_owned(), replicas: 1 };
    let web = Workload::new("web-1", "gpu-001").label("app", "web").owner(set);
    fleet.scene().add_workload(&web).await.expect("a workload");
    let none = Budget::MaxUnavailable("0".to_owned());
    fleet
        .scene()
        .add_budget("default", "web-budget", &[("app", "web")], &none)
        .await
        .expect("there");
    create(&fleet, "count: 1", &package("kernel", "1.0.0", REBOOT)).await;
    let daemon = without_git(&fleet, "daemon");
    fleet.clock.sleep(Duration::from_mins(1)).await;
    let state = daemon.fleet().borrow().clone().expect("it leads");
    assert!(told(&state).contains("web-budget"), "{}", told(&state));
    assert!(told(&state).contains("default/web-1"), "{}", told(&state));
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}

async fn cordon(fleet: &Fleet, node: &str, unschedulable: bool) {
    let params =
        PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({"spec": {"unschedulable": unschedulable}}));
    nodes(fleet).patch(node, &params, &patch).await.expect("patched");
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_on_a_node_that_a_person_uncordoned_until_it_is_cordoned_again() {
    let fleet = Fleet::with(1, quick()).await;
    fleet.kubelet.rewrite(|script| {
        script.rules = vec![Rule::any().takes(Duration::from_secs(20))];
    });
    create(&fleet, "count: 1", &package("kernel", "1.0.0", REBOOT)).await;
    let daemon = without_git(&fleet, "daemon");
    until(&daemon, fleet.clock, |state| {
        state.rollouts.values().any(|it| it.nodes_in_progress == 1)
    })
    .await;
    fleet.clock.sleep(Duration::from_secs(5)).await;
    cordon(&fleet, "gpu-001", false).await;
    fleet.clock.sleep(Duration::from_mins(20)).await;
    assert_eq!(fleet.kubelet.reboots("gpu-001"), 0, "rebooted a node that a person took back");

    cordon(&fleet, "gpu-001", true).await;
    until(&daemon, fleet.clock, is_complete).await;
    assert_eq!(fleet.kubelet.reboots("gpu-001"), 1);
    daemon.stop().await.expect("a graceful stop");
    fleet.assert_released().await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_in_its_visit_does_not_hold_up_the_others() {
    let fleet = Fleet::with(3, quick()).await;
    create(&fleet, "count: 1", &package("kernel", "1.0.0", REBOOT)).await;
    let daemon = without_git(&fleet, "daemon");
    until(&daemon, fleet.clock, |state| {
        state.rollouts.values().any(|it| it.nodes_in_progress == 1)
    })
    .await;
    nodes(&fleet).delete("gpu-001", &DeleteParams::default()).await.expect("deleted");
    let state = until(&daemon, fleet.clock, is_complete).await;
    assert_eq!(state.rollouts["tuning"].nodes_total, 2);
    daemon.stop().await.expect("a graceful stop");
    fleet.assert_released().await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_deleted_in_a_visit_leaves_no_node_cordoned() {
    let fleet = Fleet::with(2, quick()).await;
    create(&fleet, "count: 1", &package("kernel", "1.0.0", REBOOT)).await;
    let daemon = without_git(&fleet, "daemon");
    until(&daemon, fleet.clock, |state| {
        state.rollouts.values().any(|it| it.nodes_in_progress == 1)
    })
    .await;
    nodewrights(&fleet).delete("tuning", &DeleteParams::default()).await.expect("deleted");
    fleet.clock.sleep(Duration::from_mins(5)).await;
    daemon.stop().await.expect("a graceful stop");
    fleet.assert_released().await;
    fleet.stop().await;
}
