//! What is behind a refused eviction, looked up with few requests.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, PostParams};
use nodewright::cluster::Outcome;
use nodewright::model::{Action, DisruptionBudget, Eviction, EvictionMethod, PodRef, RefusalCause};
use nodewright::sim::{Fault, Matching, Verb};
use serde_json::{Value, json};

use super::world::{DAEMON, World, parse};

async fn add_budget(world: &World, name: &str, spec: Value) {
    let budget: PodDisruptionBudget = parse(json!({"metadata": {"name": name}, "spec": spec}));
    let budgets = Api::namespaced(world.cluster.client("test"), "default");
    budgets.create(&PostParams::default(), &budget).await.expect("accepted");
}

fn evict(pod: &PodRef) -> Action {
    Action::Evict(Eviction {
        node: "gpu-1".to_owned(),
        rollout: "gpu".to_owned(),
        pod: pod.clone(),
        method: EvictionMethod::Evict,
        grace_period: None,
    })
}

fn cause(world: &World, pod: &PodRef) -> RefusalCause {
    world.view().observed.refusals[&pod.uid].cause.clone()
}

fn lists(world: &World) -> usize {
    let requests = world.cluster.requests();
    let lists = requests.iter().filter(|request| {
        request.user_agent == DAEMON
            && request.verb == Verb::List
            && request.resource == "poddisruptionbudgets"
    });
    lists.count()
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_budget_that_holds_the_pod_with_its_counts() {
    let world = World::new().await;
    let mut pods = Vec::new();
    for name in ["db-0", "db-1", "db-2"] {
        pods.push(world.add_workload(name, json!({"app": "db"})).await);
    }
    let alone = world.add_workload("alone", json!({"app": "alone"})).await;
    let of = |app: &str| json!({"matchLabels": {"app": app}});
    add_budget(&world, "db", json!({"minAvailable": 3, "selector": of("db")})).await;
    add_budget(&world, "other", json!({"minAvailable": 1, "selector": of("other")})).await;
    add_budget(&world, "none", json!({"maxUnavailable": 0})).await;
    add_budget(&world, "alone", json!({"maxUnavailable": 0, "selector": of("alone")})).await;
    let mut actions: Vec<Action> = pods.iter().map(evict).collect();
    actions.push(evict(&alone));
    for executed in world.execute(actions).await {
        assert!(matches!(executed.outcome, Outcome::Blocked { .. }), "{executed:?}");
    }
    let budget = |name: &str, expected, healthy, desired| DisruptionBudget {
        name: format!("default/{name}"),
        expected,
        healthy,
        desired,
    };
    for pod in &pods {
        assert_eq!(cause(&world, pod), RefusalCause::Budget(budget("db", 3, 3, 3)));
    }
    let never = budget("alone", 1, 1, 1);
    assert!(never.is_never());
    assert_eq!(cause(&world, &alone), RefusalCause::Budget(never));
    assert_eq!(lists(&world), 1, "one list for all pods of a namespace");
    world.cluster.clock().sleep(std::time::Duration::from_secs(10)).await;
    world.execute_one(evict(&alone)).await;
    assert_eq!(lists(&world), 2, "looked at anew when the pod is asked again");
}

/// A10: the eviction API answers 500 for a pod under two budgets, and both are named.
#[tokio::test(start_paused = true)]
async fn a10_two_budgets_on_one_pod_are_both_named() {
    let world = World::new().await;
    let pod = world.add_workload("db", json!({"app": "db", "tier": "one"})).await;
    let select = |key: &str, value: &str| {
        let labels = json!({ key: value });
        json!({"minAvailable": 0, "selector": {"matchLabels": labels}})
    };
    add_budget(&world, "by-app", select("app", "db")).await;
    add_budget(&world, "by-tier", select("tier", "one")).await;
    let outcome = world.execute_one(evict(&pod)).await;
    assert!(matches!(outcome, Outcome::Blocked { .. }), "no error to try again: {outcome:?}");
    let both = ["default/by-app".to_owned(), "default/by-tier".to_owned()];
    assert_eq!(cause(&world, &pod), RefusalCause::SeveralBudgets(both.into()));
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_list_budgets_the_server_s_words_have_to_do() {
    let world = World::new().await;
    let pod = world.add_workload("db", json!({"app": "db"})).await;
    let selector = json!({"matchLabels": {"app": "db"}});
    add_budget(&world, "db", json!({"minAvailable": 1, "selector": selector})).await;
    let budgets = Matching::any().verb(Verb::List).resource("poddisruptionbudgets");
    world.cluster.faults().next(budgets, 1, Fault::Forbidden);
    let Outcome::Blocked { why } = world.execute_one(evict(&pod)).await else { panic!("held") };
    assert_eq!(why, "The disruption budget db needs 1 healthy pods and has 1 currently");
    assert_eq!(cause(&world, &pod), RefusalCause::Unknown);
    assert_eq!(world.view().observed.refusals[&pod.uid].message, why);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_too_much_to_do_is_no_budget() {
    let world = World::new().await;
    let pod = world.add_workload("web", json!({"app": "web"})).await;
    let evictions = Matching::writes().user_agent(DAEMON);
    world.cluster.faults().next(evictions, 1, Fault::TooManyRequests { retry_after_seconds: 1 });
    let outcome = world.execute_one(evict(&pod)).await;
    assert!(matches!(outcome, Outcome::Retry(_)), "{outcome:?}");
    assert!(world.view().observed.refusals.is_empty());
    assert!(matches!(world.execute_one(evict(&pod)).await, Outcome::Done));
}
