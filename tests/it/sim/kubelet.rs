//! The kubelet plays pods.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use nodewright::sim::scene::{Scene, Workload};
use nodewright::sim::{Cluster, Kubelet, KubeletOptions, Pull, Rule, Script};
use serde_json::{Value, json};

use super::{add_node, cluster, parse, phase, pods, refused, start_kubelet, until, until_gone};

fn executor(name: &str, extra: Value) -> Pod {
    let agent = |stage: &str, mode: &str| {
        json!({
            "name": format!("tuning-{stage}"), "image": "registry.example/agent:1",
            "args": [mode, "/root", "/copy"],
        })
    };
    let mut pod = json!({
        "metadata": {
            "name": name,
            "labels": {"nodewright.nvidia.com/name": "cr", "nodewright.nvidia.com/attempt": "1"},
        },
        "spec": {
            "nodeName": "n1", "restartPolicy": "Never",
            "initContainers": [
                {
                    "name": "tuning-init", "image": "registry.example/tuning:1",
                    "command": ["/bin/sh"], "args": ["-c", "cp"],
                },
                agent("apply", "apply"), agent("applycheck", "apply-check"),
            ],
            "containers": [{"name": "done", "image": "registry.example/tuning:1"}],
        },
    });
    json_patch::merge(&mut pod, &extra);
    parse(pod)
}

fn end(pod: &Pod, container: &str) -> ContainerStateTerminated {
    let status = pod.status.as_ref().expect("a status");
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let found = all.clone().find(|one| one.name == container).expect("such a container");
    found.state.clone().and_then(|state| state.terminated).expect("it ended")
}

fn waiting(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let first = status.init_container_statuses.as_ref()?.first()?;
    first.state.as_ref()?.waiting.as_ref()?.reason.clone()
}

async fn with_node(script: Script) -> (Cluster, Kubelet, Api<Pod>) {
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let kubelet = start_kubelet(&cluster, KubeletOptions { script, ..Default::default() });
    let api = pods(&cluster);
    (cluster, kubelet, api)
}

#[tokio::test(start_paused = true)]
async fn an_executor_runs_its_containers_in_order_and_succeeds() {
    let (_cluster, kubelet, api) = with_node(Script::default()).await;
    let params = PostParams::default();
    api.create(&params, &executor("e", json!({}))).await.expect("created");
    let pod = until(&api, "e", |pod| phase(pod) == "Succeeded").await;
    let message = end(&pod, "tuning-apply").message.expect("a termination message");
    let summary: Value = serde_json::from_str(&message).expect("the agent's summary is JSON");
    assert_eq!((&summary["v"], &summary["mode"]), (&json!(1), &json!("apply")));
    assert_eq!(summary["exit_code"], 0);
    assert_eq!(end(&pod, "tuning-init").message, None, "only the agent leaves a summary");
    assert!(end(&pod, "tuning-apply").finished_at <= end(&pod, "tuning-applycheck").started_at);
    let ran: Vec<String> = kubelet.runs().into_iter().map(|run| run.container).collect();
    assert_eq!(ran, ["tuning-init", "tuning-apply", "tuning-applycheck", "done"]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_makes_the_first_attempt_of_a_stage_fail() {
    let rule: Rule = "package=tuning,stage=apply,attempt=1,exit=3,seconds=20".parse().expect("ok");
    let script = Script { rules: vec![rule], ..Default::default() };
    let (_cluster, kubelet, api) = with_node(script).await;
    let params = PostParams::default();
    api.create(&params, &executor("e", json!({}))).await.expect("created");
    let pod = until(&api, "e", |pod| phase(pod) == "Failed").await;
    let failed = end(&pod, "tuning-apply");
    assert_eq!((failed.exit_code, failed.reason.as_deref()), (3, Some("Error")));
    let took = failed.finished_at.expect("an end").0 - failed.started_at.expect("a start").0;
    assert_eq!(took.get_seconds(), 20);
    let again = json!({"metadata": {"labels": {"nodewright.nvidia.com/attempt": "2"}}});
    api.create(&params, &executor("e2", again)).await.expect("created");
    until(&api, "e2", |pod| phase(pod) == "Succeeded").await;
    let codes: Vec<(u32, i32)> = kubelet
        .runs()
        .into_iter()
        .filter(|run| run.container == "tuning-apply")
        .map(|run| (run.attempt, run.exit_code))
        .collect();
    assert_eq!(codes, [(1, 3), (2, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_is_for_all_nodes_whose_names_begin_so() {
    for (nodes, exit_code) in [("n*", 3), ("m*", 0), ("*", 3), ("n", 0)] {
        let fails = format!("node={nodes},exit=3").parse().expect("a rule");
        let script = Script { rules: vec![fails], ..Default::default() };
        let (_cluster, kubelet, api) = with_node(script).await;
        api.create(&PostParams::default(), &executor("e", json!({}))).await.expect("created");
        let phase_wanted = if exit_code == 0 { "Succeeded" } else { "Failed" };
        until(&api, "e", |pod| phase(pod) == phase_wanted).await;
        assert!(kubelet.runs().iter().all(|run| run.exit_code == exit_code), "{nodes}");
    }
}

#[tokio::test(start_paused = true)]
async fn rules_that_cannot_be_read_say_why() {
    let error = "stage=apply,exit=x".parse::<Rule>().expect_err("not a number");
    assert_eq!(error.to_string(), "exit=\"x\" is not a whole number");
    let error = "pod=x".parse::<Rule>().expect_err("no such key");
    assert!(error.to_string().contains("known are node, package, stage"));
    assert!("apply".parse::<Rule>().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_missing_image_backs_off_until_it_is_there() {
    let script =
        Script { images: vec![("tuning:1".to_owned(), Pull::Missing)], ..Default::default() };
    let (_cluster, kubelet, api) = with_node(script).await;
    api.create(&PostParams::default(), &executor("e", json!({}))).await.expect("created");
    until(&api, "e", |pod| waiting(pod).as_deref() == Some("ErrImagePull")).await;
    let pod = until(&api, "e", |pod| waiting(pod).as_deref() == Some("ImagePullBackOff")).await;
    assert_eq!(phase(&pod), "Pending");
    kubelet.rewrite(|script| script.images.clear());
    until(&api, "e", |pod| phase(pod) == "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_past_its_deadline_fails() {
    let script = Script { rules: vec![Rule::any().stage("apply").hangs()], ..Default::default() };
    let (_cluster, _kubelet, api) = with_node(script).await;
    let limit = json!({"spec": {"activeDeadlineSeconds": 60}});
    api.create(&PostParams::default(), &executor("e", limit)).await.expect("created");
    let pod = until(&api, "e", |pod| phase(pod) == "Failed").await;
    assert_eq!(pod.status.and_then(|status| status.reason).as_deref(), Some("DeadlineExceeded"));
}

#[tokio::test(start_paused = true)]
async fn a_workload_runs_until_deleted_and_takes_its_time_to_end() {
    let (cluster, kubelet, api) = with_node(Script::default()).await;
    let scene = Scene::new(cluster.client("scene"), cluster.clock(), 1);
    let web = Workload::new("web", "n1").termination(60, Some(20));
    scene.add_workload(&web).await.expect("added");
    let pod = until(&api, "web", |pod| phase(pod) == "Running").await;
    let conditions = pod.status.and_then(|status| status.conditions).expect("conditions");
    assert!(conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"));
    let before = cluster.clock().now();
    api.delete("web", &DeleteParams::default()).await.expect("accepted");
    until_gone(&api, "web").await;
    assert_eq!(cluster.clock().now().duration_since(before).as_secs(), 20);
    assert_eq!(kubelet.runs(), [], "it did not end by itself");
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_ignores_its_end_gets_the_grace_period_and_no_more() {
    let (cluster, _kubelet, api) = with_node(Script::default()).await;
    let scene = Scene::new(cluster.client("scene"), cluster.clock(), 1);
    let stubborn = Workload::new("stubborn", "n1").termination(600, Some(9000));
    scene.add_workload(&stubborn).await.expect("added");
    until(&api, "stubborn", |pod| phase(pod) == "Running").await;
    let before = cluster.clock().now();
    api.delete("stubborn", &DeleteParams::default()).await.expect("accepted");
    cluster.clock().sleep(Duration::from_secs(100)).await;
    api.delete("stubborn", &DeleteParams::default().grace_period(300)).await.expect("accepted");
    until_gone(&api, "stubborn").await;
    assert_eq!(cluster.clock().now().duration_since(before).as_secs(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_workload_can_end_by_itself() {
    let (cluster, kubelet, api) = with_node(Script::default()).await;
    let scene = Scene::new(cluster.client("scene"), cluster.clock(), 1);
    let training = Workload::new("training", "n1").finishes_after_seconds(600);
    scene.add_workload(&training).await.expect("added");
    until(&api, "training", |pod| phase(pod) == "Running").await;
    until(&api, "training", |pod| phase(pod) == "Succeeded").await;
    assert_eq!(kubelet.runs().len(), 1);
    api.delete("training", &DeleteParams::default()).await.expect("accepted");
    assert_eq!(refused(api.get("training").await).code, 404, "an ended pod goes at once");
}

#[tokio::test(start_paused = true)]
async fn a_running_workload_ends_when_it_is_told_to() {
    let (cluster, _kubelet, api) = with_node(Script::default()).await;
    let scene = Scene::new(cluster.client("scene"), cluster.clock(), 1);
    scene.add_workload(&Workload::new("training", "n1")).await.expect("added");
    until(&api, "training", |pod| phase(pod) == "Running").await;
    let ends =
        json!({"metadata": {"annotations": {"sim.nodewright.dev/finishes-after-seconds": "0"}}});
    api.patch("training", &PatchParams::default(), &Patch::Merge(&ends)).await.expect("patched");
    until(&api, "training", |pod| phase(pod) == "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_server_do_not_stop_a_kubelet() {
    use nodewright::sim::{Fault, Matching};
    let (cluster, _kubelet, api) = with_node(Script::default()).await;
    let of_kubelet = Matching::writes().user_agent("kubelet").resource("pods");
    cluster.faults().next(of_kubelet.clone(), 2, Fault::InternalError);
    cluster.faults().after(of_kubelet, 2, 1, Fault::AnswerLost);
    api.create(&PostParams::default(), &executor("e", json!({}))).await.expect("created");
    cluster.faults().drop_watches("pods");
    until(&api, "e", |pod| phase(pod) == "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_starts_again_goes_on_where_it_was() {
    let script = Script { rules: vec![Rule::any().stage("apply").hangs()], ..Default::default() };
    let cluster = cluster();
    add_node(&cluster, "n1").await;
    let first = Kubelet::new(KubeletOptions { script, ..Default::default() });
    let (running, client, clock) = (first.clone(), cluster.client("kubelet"), cluster.clock());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let shutdown = async { drop(stopped.await) };
        running.run(client, clock, shutdown).await;
    });
    let api = pods(&cluster);
    api.create(&PostParams::default(), &executor("e", json!({}))).await.expect("created");
    let runs_apply = |pod: &Pod| {
        let all = pod.status.as_ref().and_then(|status| status.init_container_statuses.as_ref());
        let apply = all.and_then(|all| all.iter().find(|one| one.name == "tuning-apply"));
        apply.and_then(|one| one.state.as_ref()).is_some_and(|state| state.running.is_some())
    };
    until(&api, "e", runs_apply).await;
    stop.send(()).expect("it listens");
    task.await.expect("it ends in order");
    let second = start_kubelet(&cluster, KubeletOptions::default());
    until(&api, "e", |pod| phase(pod) == "Succeeded").await;
    let ran: Vec<String> = second.runs().into_iter().map(|run| run.container).collect();
    assert_eq!(ran, ["tuning-apply", "tuning-applycheck", "done"]);
}
