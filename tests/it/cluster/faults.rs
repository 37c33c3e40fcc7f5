//! Lost answers, refusals and lanes: nothing is done twice, nothing is hidden.

use std::time::Duration;

use nodewright::cluster::names::executor_name;
use nodewright::cluster::{Actor, ClusterError, EdgeSettings, Outcome};
use nodewright::model::{
    Action, ConfigMapRef, Eviction, EvictionMethod, NodeMetadata, Phase, SnapshotSpec, VisitRef,
};
use nodewright::sim::{Fault, Matching, Verb};
use serde_json::json;

use super::world::{DAEMON, World, workload};
use super::{executor_spec, install, package};

fn writes() -> Matching {
    Matching::writes().user_agent(DAEMON)
}

fn is_unknown(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unknown(ClusterError::TimedOut { .. } | ClusterError::Broken { .. }))
}

/// Executes an action whose answer is lost; it is asked for once, and done.
async fn lose(world: &World, fault: Fault, action: Action) {
    let before = world.mutations().len();
    world.cluster.faults().next(writes(), 1, fault);
    let outcome = world.execute_one(action.clone()).await;
    assert!(is_unknown(&outcome), "{action:?}: {outcome:?}");
    assert_eq!(world.mutations().len(), before + 1, "never asked twice");
}

#[tokio::test(start_paused = true)]
async fn lost_answers_of_node_patches_are_read_back() {
    for fault in [Fault::AnswerLost, Fault::NeverAnswered] {
        let world = World::new().await;
        // No watch tells: what is known afterwards was read back.
        world.cluster.faults().stall_watches("nodes");
        let began = world.cluster.clock().now();
        lose(&world, fault, Action::PatchNode(world.pick())).await;
        assert!(world.cluster.clock().now().duration_since(began).as_secs() <= 2);
        assert!(world.node().unschedulable && world.node().is_cordoned_by("gpu"));
        lose(&world, Fault::AnswerLost, Action::PatchNode(world.progress())).await;
        let record = world.node().rollouts["gpu"].record.clone();
        assert_eq!(record.map(|record| record.phase), Some(Phase::Interrupting));
    }
}

#[tokio::test(start_paused = true)]
async fn lost_answers_about_objects_are_read_back() {
    let world = World::new().await;
    for plural in ["nodes", "pods", "configmaps", "nodewrights"] {
        world.cluster.faults().stall_watches(plural);
    }
    let rollout_uid = world.rollout_uid().await;
    let (rollout, package) = ("gpu".to_owned(), package());
    let name = package.snapshot_name("gpu");
    let spec = SnapshotSpec { rollout: rollout.clone(), package: package.clone() };
    lose(&world, Fault::AnswerLost, Action::CreateSnapshot(spec)).await;
    let uid = world.view().observed.snapshots[&name].uid.clone();
    let delete = ConfigMapRef { rollout: rollout.clone(), name: name.clone(), uid };
    lose(&world, Fault::AnswerLost, Action::DeleteSnapshot(delete)).await;
    assert!(world.view().observed.snapshots.is_empty());

    let metadata = NodeMetadata {
        node: "gpu-1".to_owned(),
        node_uid: world.node().uid,
        rollout: rollout.clone(),
        rollout_uid: rollout_uid.clone(),
        packages: [(package.name.clone(), package)].into(),
    };
    let write = Action::WriteNodeMetadata(metadata);
    lose(&world, Fault::AnswerLost, write.clone()).await;
    assert!(matches!(world.execute_one(write).await, Outcome::Done), "harmless to repeat");

    let mut spec = executor_spec(install());
    spec.rollout_uid = rollout_uid;
    let executor = executor_name(&spec);
    lose(&world, Fault::NeverAnswered, Action::CreateExecutor(spec.clone())).await;
    let reference = world.view().observed.executors[&executor].reference.clone();
    let delete = Action::DeleteExecutor {
        rollout: "gpu".to_owned(),
        node: "gpu-1".to_owned(),
        pod: reference,
    };
    lose(&world, Fault::AnswerLost, delete).await;
    assert!(world.view().observed.executors.get(&executor).is_none_or(|it| it.terminating));
    let visits: Vec<VisitRef> = vec![spec.visit];
    lose(&world, Fault::AnswerLost, Action::DeleteExecutors { rollout, visits }).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_an_eviction_is_read_back() {
    let world = World::new().await;
    let pod = world.add_workload("web", json!({"app": "web"})).await;
    world.cluster.faults().stall_watches("pods");
    let evict = Action::Evict(Eviction {
        node: "gpu-1".to_owned(),
        rollout: "gpu".to_owned(),
        pod,
        method: EvictionMethod::Evict,
        grace_period: None,
    });
    lose(&world, Fault::AnswerLost, evict).await;
    assert!(workload(&world.view(), "web").is_none_or(|pod| pod.terminating));
}

#[tokio::test(start_paused = true)]
async fn a_late_event_does_not_undo_what_was_written() {
    let world = World::new().await;
    world.cluster.faults().stall_watches("nodes");
    world.meddle_with_node(json!({"metadata": {"labels": {"late": "event"}}})).await;
    let stale = world.pick();
    assert!(matches!(world.execute_one(Action::PatchNode(stale)).await, Outcome::Conflict { .. }));
    assert!(matches!(world.execute_one(Action::PatchNode(world.pick())).await, Outcome::Done));
    world.cluster.faults().resume_watches("nodes");
    world.add_node("gpu-2").await;
    world
        .until(|view| {
            // The event of the label tells of a node that was not picked yet.
            assert!(view.observed.nodes["gpu-1"].unschedulable);
            view.observed.nodes.contains_key("gpu-2")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn refusals_say_what_to_do() {
    let world = World::new().await;
    let outcomes = [
        (Fault::Conflict, "conflict"),
        (Fault::TooManyRequests { retry_after_seconds: 1 }, "retry"),
        (Fault::InternalError, "retry"),
        (Fault::Unavailable, "retry"),
        (Fault::ConnectionRefused, "unknown"),
    ];
    for (fault, expected) in outcomes {
        world.cluster.faults().next(writes(), 1, fault.clone());
        let outcome = world.execute_one(Action::PatchNode(world.pick())).await;
        let word = match outcome {
            Outcome::Conflict { .. } => "conflict",
            Outcome::Retry(_) => "retry",
            Outcome::Unknown(_) => "unknown",
            other => panic!("{fault:?}: {other:?}"),
        };
        assert_eq!(word, expected, "{fault:?}");
        assert!(!world.node().unschedulable, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_is_a_conflict_and_forgotten() {
    let world = World::new().await;
    world.cluster.faults().stall_watches("nodes");
    let pick = world.pick();
    world.nodes().delete("gpu-1", &Default::default()).await.unwrap();
    let outcome = world.execute_one(Action::PatchNode(pick)).await;
    assert!(matches!(outcome, Outcome::Conflict { .. }), "{outcome:?}");
    assert!(world.view().observed.nodes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_missing_is_for_a_person_to_see() {
    let world = World::new().await;
    let (client, clock) = (world.cluster.client(DAEMON), world.cluster.clock());
    let settings = EdgeSettings::new("missing", "agent:1");
    let actor = Actor::new(client, settings, clock, world.observer.store());
    let metadata = NodeMetadata {
        node: "gpu-1".to_owned(),
        node_uid: world.node().uid,
        rollout: "gpu".to_owned(),
        rollout_uid: world.rollout_uid().await,
        packages: [].into(),
    };
    let actions = vec![Action::WriteNodeMetadata(metadata)];
    let mut executed = actor.execute(&world.proof, actions).await;
    let outcome = executed.remove(0).outcome;
    let Outcome::GaveUp(error) = outcome else { panic!("{outcome:?}") };
    assert!(error.to_string().contains("\"missing\" not found"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lane_stops_at_its_first_failure_and_others_go_on() {
    let world = World::new().await;
    let spec = SnapshotSpec { rollout: "gpu".to_owned(), package: package() };
    let actions = vec![
        Action::PatchNode(world.pick()),
        Action::CreateExecutor(executor_spec(install())),
        Action::CreateSnapshot(spec),
    ];
    let patches = writes().verb(Verb::Patch);
    world.cluster.faults().next(patches, 1, Fault::InternalError);
    let executed = world.execute(actions.clone()).await;
    let same: Vec<Action> = executed.iter().map(|executed| executed.action.clone()).collect();
    assert_eq!(same, actions, "outcomes are in the order of their actions");
    assert!(matches!(executed[0].outcome, Outcome::Retry(_)));
    assert!(matches!(executed[1].outcome, Outcome::Skipped), "no executor without a pick");
    assert!(matches!(executed[2].outcome, Outcome::Done));
    assert!(world.view().observed.executors.is_empty());
}

#[tokio::test(start_paused = true)]
async fn lanes_do_not_wait_for_each_other() {
    let world = World::new().await;
    let slow = writes().resource("nodes");
    world.cluster.faults().next(slow, 1, Fault::Delay(Duration::from_millis(1_500)));
    let spec = SnapshotSpec { rollout: "gpu".to_owned(), package: package() };
    let name = spec.package.snapshot_name("gpu");
    let actions = vec![Action::PatchNode(world.pick()), Action::CreateSnapshot(spec)];
    let execution = world.execute(actions);
    let watching = async {
        world.until(|view| view.observed.snapshots.contains_key(&name)).await;
        assert!(!world.node().unschedulable, "the slow lane is still under way");
    };
    let (executed, ()) = tokio::join!(execution, watching);
    assert!(executed.iter().all(|executed| matches!(executed.outcome, Outcome::Done)));
}

#[tokio::test(start_paused = true)]
async fn an_outdated_crd_is_told() {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
    use kube::api::{Api, PostParams};
    let world = World::new().await;
    let crds: Api<apiextensions::CustomResourceDefinition> = Api::all(world.cluster.client("test"));
    let name = "nodewrights.nodewright.nvidia.com";
    let mut crd = serde_json::to_value(crds.get(name).await.unwrap()).unwrap();
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    schema["status"]["properties"].as_object_mut().unwrap().remove("rollout");
    let crd = serde_json::from_value(crd).unwrap();
    crds.replace(name, &PostParams::default(), &crd).await.unwrap();
    let write = super::act::status_write(&world, nodewright::model::StatusWord::InProgress);
    let outcome = world.execute_one(Action::WriteStatus(write)).await;
    let Outcome::OutdatedCrd { what } = outcome else { panic!("{outcome:?}") };
    assert_eq!(what, "status.rollout of nodewright gpu");
}
