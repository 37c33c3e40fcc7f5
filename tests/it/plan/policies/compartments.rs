//! Which compartment a node is in, and what happens when that changes (upstream contract B.10).

use nodewright::model::{Budget, DEFAULT_COMPARTMENT, Growth, Pace, Policy, Strategy};
use nodewright::plan::world::{End, Fate, World};

use super::super::builders::{WorldExt, noon};
use super::forecasts::{by_policy, compartment, play, selector, sizes, state};
use super::strategy;

/// The labels of a node.
type Labels<'l> = &'l [(&'l str, &'l str)];

fn policy(compartments: Vec<nodewright::model::Compartment>) -> Policy {
    let pace = Pace { budget: Budget::Percent(100), strategy: None };
    Policy { name: "rings".to_owned(), fallback: pace, compartments, reset: false }
}

/// A fleet of nodes that bear labels of their own.
fn fleet(nodes: &[(&str, Labels<'_>)], policy: Policy) -> World {
    let mut world = World::new(noon());
    for (name, labels) in nodes {
        world.add_node(name, labels);
        world.pass(1);
    }
    world.input.floor.stop_after = None;
    world.input.desired.policies.insert(policy.name.clone(), policy);
    world.set_rollout(by_policy("1.0.0"));
    world
}

fn place(world: &World, node: &str) -> String {
    let record = world.input.observed.nodes[node].record("tuning", "uid-tuning");
    record.map_or("nowhere".to_owned(), |record| record.compartment.clone())
}

fn linear() -> Option<Strategy> {
    Some(strategy(Growth::Linear(1), 1))
}

/// Of several compartments the most cautious has the node: by strategy, then by the smaller
/// ceiling over all nodes that it selects, then by name.
#[test]
fn a_node_that_several_select_is_in_the_most_cautious_one() {
    let fixed = Some(strategy(Growth::Fixed, 1));
    let exponential = Some(strategy(Growth::Exponential(2), 1));
    let count = Budget::Count;
    let table = [
        // (first, second, which has the node)
        (("a", count(9), exponential), ("b", count(9), fixed), "b"),
        (("a", count(9), exponential), ("b", count(9), linear()), "b"),
        (("a", count(1), linear()), ("b", count(9), fixed), "b"),
        (("a", count(1), None), ("b", count(9), exponential), "b"),
        (("a", count(2), linear()), ("b", count(1), linear()), "b"),
        // 10 % of two nodes is one, a count of two is two.
        (("a", count(2), linear()), ("b", Budget::Percent(10), linear()), "b"),
        (("b", count(1), linear()), ("a", count(1), linear()), "a"),
    ];
    for (first, second, expected) in table {
        let compartments = [first, second].map(|(name, budget, strategy)| {
            compartment(name, selector("ring", "edge"), budget, strategy)
        });
        let edge: Labels<'_> = &[("ring", "edge")];
        let mut world = fleet(&[("one", edge), ("two", edge)], policy(compartments.to_vec()));
        play(&mut world, |_| false);
        assert!(world.is_complete());
        assert_eq!(place(&world, "one"), expected, "{first:?} and {second:?}");
    }
}

#[test]
fn each_compartment_keeps_to_a_ceiling_of_its_own() {
    let compartments = vec![
        compartment("small", selector("ring", "small"), Budget::Count(1), None),
        compartment("large", selector("ring", "large"), Budget::Percent(50), None),
    ];
    let (small, large): (Labels<'_>, Labels<'_>) = (&[("ring", "small")], &[("ring", "large")]);
    let nodes = [
        ("s1", small),
        ("s2", small),
        ("l1", large),
        ("l2", large),
        ("l3", large),
        ("l4", large),
        ("other", &[]),
    ];
    let mut world = fleet(&nodes, policy(compartments));
    world.settle();
    let open = |world: &World, node: &str| {
        let record = world.input.observed.nodes[node].record("tuning", "uid-tuning");
        record.is_some_and(nodewright::model::Record::is_open)
    };
    let begun: Vec<&str> =
        nodes.iter().map(|(name, _)| *name).filter(|name| open(&world, name)).collect();
    assert_eq!(begun, ["s1", "l1", "l2", "other"]);
    // A node of another compartment that is down costs this one nothing.
    world.input.observed.nodes.get_mut("l4").expect("a node").unschedulable = true;
    play(&mut world, |_| false);
    assert!(world.is_complete());
    assert_eq!(sizes(&world, "small"), [1, 1]);
}

/// T17: a node that is relabelled in the middle of its visit stays in its batch until the verdict,
/// and counts there.
#[test]
fn t17_a_node_that_moves_to_another_compartment_stays_in_its_batch_until_the_verdict() {
    let compartments = vec![
        compartment("a", selector("ring", "a"), Budget::Count(1), linear()),
        compartment("b", selector("ring", "b"), Budget::Count(1), linear()),
    ];
    let (a, b): (Labels<'_>, Labels<'_>) = (&[("ring", "a")], &[("ring", "b")]);
    let nodes = [("a1", a), ("a2", a), ("b1", b), ("b2", b)];
    let mut world = fleet(&nodes, policy(compartments));
    world.settle();
    assert_eq!((place(&world, "a1"), place(&world, "b1")), ("a".into(), "b".into()));
    world.change_node("a1", |node| {
        node.labels.insert("ring".to_owned(), "b".to_owned());
    });
    world.settle();
    assert_eq!(place(&world, "a1"), "a", "its visit goes on where it began");
    assert_eq!(place(&world, "a2"), "nowhere", "and its place there is not free");
    play(&mut world, |_| false);
    assert!(world.is_complete());
    assert_eq!((sizes(&world, "a"), sizes(&world, "b")), (vec![1, 1], vec![1, 1]));
    let counted = state(&world, "a");
    assert_eq!(counted.current_batch, 3, "both batches of a were judged");
    let orders = world
        .input
        .observed
        .nodes
        .values()
        .filter_map(|node| Some(node.record("tuning", "uid-tuning")?.order));
    let orders: std::collections::BTreeSet<u32> = orders.collect();
    assert_eq!(orders.len(), 4, "nobody was counted twice");
}

/// A compartment that is taken out of the policy is remembered until its open batch is judged.
#[test]
fn a_compartment_that_is_taken_out_of_the_policy_ends_its_batch_first() {
    let compartments = vec![compartment("a", selector("ring", "a"), Budget::Count(1), linear())];
    let a: Labels<'_> = &[("ring", "a")];
    let mut world = fleet(&[("a1", a), ("a2", a)], policy(compartments));
    world.settle();
    world.input.desired.policies.insert("rings".to_owned(), policy(Vec::new()));
    world.settle();
    assert_eq!(place(&world, "a1"), "a");
    assert!(state(&world, "a").current_batch == 1, "it is still remembered");
    play(&mut world, |_| false);
    assert!(world.is_complete());
    assert_eq!(place(&world, "a2"), DEFAULT_COMPARTMENT);
    let memory = &world.input.observed.resources["tuning"].status.as_ref().expect("one").memory;
    assert_eq!(memory.compartments.keys().collect::<Vec<_>>(), [DEFAULT_COMPARTMENT]);
}

/// What a person is told of a stop can be reset: there is none in a compartment that goes.
#[test]
fn a_compartment_that_goes_with_a_failed_batch_is_not_said_to_be_stopped() {
    let careful = Strategy { failure_threshold: Some(1), ..strategy(Growth::Fixed, 1) };
    let ring = selector("ring", "a");
    let compartments = vec![compartment("a", ring, Budget::Count(1), Some(careful))];
    let a: Labels<'_> = &[("ring", "a")];
    let mut world = fleet(&[("a1", a)], policy(compartments));
    world.settle();
    world.input.desired.policies.insert("rings".to_owned(), policy(Vec::new()));
    for _ in 0..6 {
        world.finish_all(End::Failure);
        world.pass(400);
        for _ in 0..4 {
            let (plan, _, _) = world.tick(|_| Fate::Done);
            let status = &plan.statuses["tuning"];
            assert!(status.conditions.iter().all(|it| it.kind != "Stopped"), "{status:?}");
        }
    }
    assert!(world.verdict("a1").starts_with("Blocked: apply of motd|1.0.0 failed 4 times"));
}

/// A policy that is deleted and made again, as some tools do, is no reason to go on.
#[test]
fn a_policy_that_is_away_for_a_while_lifts_no_stop() {
    let careful = Strategy { failure_threshold: Some(1), ..strategy(Growth::Fixed, 1) };
    let compartments =
        vec![compartment("a", selector("ring", "a"), Budget::Count(1), Some(careful))];
    let a: Labels<'_> = &[("ring", "a")];
    let mut world = fleet(&[("a1", a), ("a2", a), ("a3", a)], policy(compartments.clone()));
    play(&mut world, |_| true);
    let stopped = state(&world, "a");
    assert!(stopped.should_stop);
    world.input.desired.policies.clear();
    world.settle();
    assert!(world.verdict("a2").contains("DeploymentPolicy rings does not exist"));
    assert_eq!(state(&world, "a"), stopped);
    world.input.desired.policies.insert("rings".to_owned(), policy(compartments));
    play(&mut world, |_| true);
    assert_eq!(state(&world, "a"), stopped);
    assert_eq!(sizes(&world, "a"), [1], "nobody else was touched");
}

/// Percentages are of the compartment, and nodes that may not be picked count in it too.
#[test]
fn a_node_that_joins_or_is_ignored_changes_the_size_of_its_compartment() {
    let compartments = vec![compartment("a", selector("ring", "a"), Budget::Percent(50), None)];
    let a: Labels<'_> = &[("ring", "a")];
    let mut world = fleet(&[("a1", a), ("a2", a), ("a3", a), ("a4", a)], policy(compartments));
    world.change_node("a4", |node| node.ignored = true);
    world.settle();
    let status = |world: &World| {
        let status = world.input.observed.resources["tuning"].status.as_ref();
        status.expect("a status").memory.compartments["a"].clone()
    };
    assert_eq!((status(&world).matched, status(&world).ceiling), (4, 2));
    world.add_node("a5", a);
    world.add_node("a6", a);
    play(&mut world, |_| false);
    assert_eq!((status(&world).matched, status(&world).ceiling), (6, 3));
    assert_eq!(status(&world).completed, 5, "all but the ignored one");
}
