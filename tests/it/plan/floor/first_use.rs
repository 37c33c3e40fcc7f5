//! The first use of a package input in this cluster starts with one node (`--first-use`).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use nodewright::model::{
    Budget, Compartment, Growth, Node, Pace, Package, Policy, Record, Rollout, Strategy,
};
use nodewright::plan::plan;
use nodewright::plan::world::{End, World};

use super::super::builders::{PackageExt, WorldExt, package, rollout, world};

/// A fleet under the default floor.
fn fleet(nodes: u32, wanted: Rollout) -> World {
    let mut world = world(nodes, wanted);
    world.input.floor.first_use = Some(1);
    world
}

fn percent(percent: u32, packages: Vec<Package>) -> Rollout {
    Rollout { budget: Some(Budget::Percent(percent)), ..rollout(1, packages) }
}

fn open(world: &World) -> Vec<String> {
    let is_open = |node: &&Node| {
        let mut names = ["tuning", "extras"].iter();
        names.any(|name| node.record(name, &format!("uid-{name}")).is_some_and(Record::is_open))
    };
    let nodes = world.input.observed.nodes.values();
    nodes.filter(is_open).map(|node| node.name.clone()).collect()
}

/// Plays on; each round ends as `end` says. Returns how many nodes were under way in each.
fn rounds(world: &mut World, end: impl Fn(usize) -> End) -> Vec<usize> {
    let mut rounds = Vec::new();
    for _ in 0..400 {
        world.settle();
        let under_way = open(world);
        if under_way.is_empty() {
            return rounds;
        }
        let end = end(rounds.len());
        rounds.push(under_way.len());
        // A failure is one after the last attempt.
        while open(world).iter().any(|node| under_way.contains(node)) {
            world.finish_all(end);
            world.settle();
            world.pass(600);
        }
    }
    panic!("it does not end");
}

#[test]
fn a_third_of_three_hundred_nodes_touches_one_node_first() {
    let mut world = fleet(300, percent(33, vec![package("motd", "1.0.0")]));
    world.settle();
    let verdict = world.verdict("node-200");
    assert_eq!(
        verdict,
        "Wait: motd|1.0.0 is new to this cluster: waits until it is complete on node-00"
    );
    assert_eq!(rounds(&mut world, |_| End::Success), [1, 99, 99, 99, 2]);
    assert!(world.is_complete());

    // Another version, then another configuration of it: each is new.
    world.set_rollout(percent(33, vec![package("motd", "1.1.0")]));
    assert_eq!(rounds(&mut world, |_| End::Success), [1, 99, 99, 99, 2]);
    let other = package("motd", "1.1.0").with_config("color", "red");
    world.set_rollout(percent(33, vec![other]));
    assert_eq!(rounds(&mut world, |_| End::Success), [1, 99, 99, 99, 2]);
    // What nodes say is all that counts: a node that joins gets what others have.
    world.add_node("node-300", &[("pool", "gpu")]);
    world.add_node("node-301", &[("pool", "gpu")]);
    assert_eq!(rounds(&mut world, |_| End::Success), [2]);
}

#[test]
fn the_flag_says_how_many_and_none_switches_it_off() {
    let mut world = fleet(30, percent(50, vec![package("motd", "1.0.0")]));
    world.input.floor.first_use = Some(4);
    assert_eq!(rounds(&mut world, |_| End::Success), [4, 15, 11]);
    let mut world = fleet(30, percent(50, vec![package("motd", "1.0.0")]));
    world.input.floor.first_use = None;
    assert_eq!(rounds(&mut world, |_| End::Success), [15, 15]);
}

#[test]
fn a_first_node_that_fails_is_followed_by_one_more_and_then_it_stops() {
    let mut world = fleet(20, percent(50, vec![package("motd", "1.0.0")]));
    assert_eq!(rounds(&mut world, |_| End::Failure), [1, 1]);
    let verdict = world.verdict("node-09");
    assert!(verdict.starts_with("Blocked: stopped after 2 failed batches in a row"), "{verdict}");

    let mut world = fleet(20, percent(50, vec![package("motd", "1.0.0")]));
    let second_time = |round| if round == 0 { End::Failure } else { End::Success };
    assert_eq!(rounds(&mut world, second_time), [1, 1, 10, 8]);
}

/// The pace of the policy is that of the policy: a batch that was cut down does not count for it.
#[test]
fn the_policys_pace_begins_after_the_first_node() {
    let strategy = Strategy {
        growth: Growth::Linear(1),
        initial_batch: 3,
        batch_threshold: 100,
        failure_threshold: None,
        safety_limit: 50,
    };
    let pace = Pace { budget: Budget::Percent(100), strategy: Some(strategy) };
    let mut wanted = rollout(1, vec![package("motd", "1.0.0")]);
    (wanted.budget, wanted.policy) = (None, Some("slow".to_owned()));
    let mut world = fleet(20, wanted);
    let policy = |pace| Policy {
        name: "slow".to_owned(),
        fallback: pace,
        compartments: Vec::new(),
        reset: true,
    };
    world.input.desired.policies.insert("slow".to_owned(), policy(pace));
    assert_eq!(rounds(&mut world, |_| End::Success), [1, 3, 4, 5, 6, 1]);

    // One that begins with one node has its first batch as it is.
    let strategy = Strategy { initial_batch: 1, growth: Growth::Exponential(2), ..strategy };
    let pace = Pace { strategy: Some(strategy), ..pace };
    world.input.desired.policies.insert("slow".to_owned(), policy(pace));
    let wanted = world.input.desired.rollouts["tuning"].clone();
    let newer = package("motd", "2.0.0");
    let packages = BTreeMap::from([("motd".to_owned(), newer)]);
    world.set_rollout(Rollout { packages, ..wanted });
    assert_eq!(rounds(&mut world, |_| End::Success), [1, 2, 4, 8, 5]);
}

/// Nodes in two rings, each a compartment of which four may go at once.
fn rings(nodes: u32) -> World {
    let pace = Pace { budget: Budget::Count(4), strategy: None };
    let compartment = |name: &str| {
        let labels = BTreeMap::from([("ring".to_owned(), name.to_owned())]);
        let labels = LabelSelector { match_labels: Some(labels), match_expressions: None };
        let nodes = Selector::try_from(labels).expect("a selector");
        Compartment { name: name.to_owned(), nodes, pace }
    };
    let mut wanted = rollout(1, vec![package("motd", "1.0.0")]);
    (wanted.budget, wanted.policy) = (None, Some("rings".to_owned()));
    let mut world = fleet(0, wanted);
    for number in 0..nodes {
        let ring = if number % 2 == 0 { "a" } else { "b" };
        world.add_node(&format!("node-{number:02}"), &[("ring", ring)]);
        world.pass(1);
    }
    let compartments = vec![compartment("a"), compartment("b")];
    let policy = Policy { name: "rings".to_owned(), fallback: pace, compartments, reset: true };
    world.input.desired.policies.insert("rings".to_owned(), policy);
    world
}

#[test]
fn compartments_share_the_first_node() {
    assert_eq!(rounds(&mut rings(20), |_| End::Success), [1, 8, 8, 3]);
}

#[test]
fn two_resources_with_the_same_package_share_the_first_node() {
    let mut world = fleet(12, percent(50, vec![package("motd", "1.0.0")]));
    let pool = |world: &mut World, name: &str, from: u32, to: u32| {
        for number in from..to {
            let pool = ("pool".to_owned(), name.to_owned());
            world.change_node(&format!("node-{number:02}"), |node| {
                node.labels = [pool].into();
            });
        }
        let labels = BTreeMap::from([("pool".to_owned(), name.to_owned())]);
        let labels = LabelSelector { match_labels: Some(labels), match_expressions: None };
        Selector::try_from(labels).expect("a selector")
    };
    let (left, right) = (pool(&mut world, "left", 0, 6), pool(&mut world, "right", 6, 12));
    let tuning = Rollout { nodes: left, ..percent(50, vec![package("motd", "1.0.0")]) };
    let extras = Rollout { name: "extras".to_owned(), nodes: right, ..tuning.clone() };
    world.set_rollout(tuning);
    world.set_rollout(extras);
    let rounds = rounds(&mut world, |_| End::Success);
    // The second had opened a batch of one before the first node had it.
    assert_eq!(rounds, [1, 4, 5, 2]);
    assert!(world.is_complete());
}

#[test]
fn a_first_node_whose_visit_has_not_ended_proves_nothing() {
    let kernel = package("kernel", "1.0.0").interrupting(nodewright::model::InterruptKind::Reboot);
    let mut world = fleet(6, rollout(3, vec![kernel]));
    for name in ["node-00", "node-01"] {
        world.change_node(name, |node| node.gpus = Some(8));
    }
    // Up to its last stage, then its GPUs are missing.
    for _ in 0..2 {
        world.settle();
        world.finish_all(End::Success);
    }
    world.change_node("node-00", |node| node.gpus = Some(0));
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 post-interrupt complete");
    assert_eq!(open(&world).len(), 1, "{}", world.verdict("node-01"));
    world.change_node("node-00", |node| node.gpus = Some(8));
    world.settle();
    assert_eq!(open(&world).len(), 3);
}

#[test]
fn an_uninstall_and_a_deletion_are_no_first_use() {
    let mut world = fleet(12, percent(50, vec![package("motd", "1.0.0").with_uninstall()]));
    world.run();
    world.set_rollout(percent(50, vec![package("motd", "1.0.0").with_uninstall().asked_to_go()]));
    assert_eq!(rounds(&mut world, |_| End::Success), [6, 6]);
}

/// Before each tick in which all goes well, the batches to come are those that come.
#[test]
fn the_forecast_knows_of_the_first_node() {
    let told = |world: &World| {
        let outlook = &plan(&world.input).outlooks["tuning"]["__default__"];
        (outlook.all_to_come().to_string(), outlook.sizes())
    };
    let mut world = fleet(300, percent(33, vec![package("motd", "1.0.0")]));
    let first = "1, 99 ×3, 2; if every node fails from now on: 1, 1, then it stops";
    assert_eq!(told(&world).1, first);
    let mut heard = Vec::new();
    for _ in 0..20 {
        world.settle();
        let all = told(&world).0;
        if heard.last() != Some(&all) {
            heard.push(all);
        }
        world.finish_all(End::Success);
    }
    assert_eq!(heard, ["1, 99 ×3, 2", "99 ×3, 2", "99, 99, 2", "99, 2", "2", "none"]);

    // A flag that lets more begin; one that lets all; and a failure, after which one more is tried.
    let mut world = fleet(20, percent(50, vec![package("motd", "1.0.0")]));
    world.input.floor.first_use = Some(4);
    let four = "4, 10, 6; if every node fails from now on: 4, 4, then it stops";
    assert_eq!(told(&world).1, four);
    world.input.floor.first_use = None;
    assert_eq!(
        told(&world).1,
        "10, 10; if every node fails from now on: 10, 10, and nothing stops it"
    );
    world.input.floor.first_use = Some(1);
    world.settle();
    let under_way = open(&world);
    while open(&world) == under_way {
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
    }
    assert_eq!(told(&world).0, "1, 10, 8");
}

#[test]
fn one_compartment_has_the_first_node_and_the_others_forecast_their_own_pace() {
    let mut world = rings(20);
    let told = |world: &World| {
        let outlooks = plan(&world.input).outlooks.remove("tuning").expect("planned");
        let sizes = outlooks.into_iter().filter(|(_, it)| it.nodes > 0);
        sizes.map(|(name, it)| format!("{name}: {}", it.sizes())).collect::<Vec<_>>()
    };
    let fails = "if every node fails from now on: 1, 1, then it stops";
    assert_eq!(told(&world), [format!("a: 1, 4, 4, 1; {fails}"), format!("b: 4, 4, 2; {fails}")]);
    world.settle();
    assert_eq!(told(&world)[1], format!("b: 4, 4, 2; {fails}"));
    world.run();
    assert!(world.is_complete());
}
