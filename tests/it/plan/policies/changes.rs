//! Nodes that join, leave, move to another compartment, are ignored, tainted, not ready or replaced
//! in the middle of a batch: counters are corrected, nothing is stuck, nobody is counted twice.
//!
//! Every row begins alike: compartment `a` has six nodes and batches of 1, 2, 3, `b` has three and
//! goes by one. `a1` and `b1` are through, `a2` and `a3` are `a`'s second batch. Then something
//! happens to one node, and the sizes of all batches are told, worked out by hand.

use std::collections::{BTreeMap, BTreeSet};

use nodewright::model::{
    Budget, Growth, Outcome, Pace, Policy, Strategy, Taint, TaintEffect, VerdictKind,
};
use nodewright::plan::world::{End, World};

use super::super::builders::{WorldExt, noon};
use super::forecasts::{by_policy, compartment, selector, sizes, state};
use super::strategy;

const A: &str = "a";
const B: &str = "b";

fn world() -> World {
    let mut world = World::new(noon());
    for (ring, count) in [(A, 6), (B, 3)] {
        for number in 1..=count {
            world.add_node(&format!("{ring}{number}"), &[("pool", "gpu"), ("ring", ring)]);
            world.pass(1);
        }
    }
    // Failures slow it at any progress.
    let linear = Some(Strategy { safety_limit: 100, ..strategy(Growth::Linear(1), 1) });
    let fixed = Some(strategy(Growth::Fixed, 1));
    let pace = Pace { budget: Budget::Percent(100), strategy: None };
    let compartments = vec![
        compartment(A, selector("ring", A), Budget::Count(3), linear),
        compartment(B, selector("ring", B), Budget::Count(1), fixed),
    ];
    let policy = Policy { name: "rings".to_owned(), fallback: pace, compartments, reset: false };
    world.input.floor.stop_after = None;
    world.input.desired.policies.insert(policy.name.clone(), policy);
    let mut wanted = by_policy("1.0.0");
    wanted.nodes = selector("pool", "gpu");
    world.set_rollout(wanted);
    world.settle();
    end(&mut world, "a1", End::Success);
    end(&mut world, "b1", End::Success);
    world.settle();
    assert_eq!(under_way(&world), ["a2", "a3", "b2"]);
    world
}

/// Ends what runs on a node.
fn end(world: &mut World, node: &str, end: End) {
    world.pass(5);
    for name in world.active() {
        if world.input.observed.executors[&name].visit.node == node {
            world.end(&name, end);
        }
    }
}

/// Fails what runs on a node as often as it is tried.
fn fail(world: &mut World, node: &str) {
    for _ in 0..4 {
        end(world, node, End::Failure);
        world.settle();
        world.pass(400);
        world.settle();
    }
    let record = world.input.observed.nodes[node].record("tuning", "uid-tuning");
    assert_eq!(record.and_then(|record| record.outcome), Some(Outcome::Erroring), "{node}");
}

fn under_way(world: &World) -> Vec<&str> {
    let nodes = world.input.observed.nodes.values();
    let open = nodes.filter(|node| {
        node.record("tuning", "uid-tuning").is_some_and(nodewright::model::Record::is_open)
    });
    open.map(|node| node.name.as_str()).collect()
}

/// Plays to the end; what runs on a node that is not ready does not come further.
fn play(world: &mut World) {
    let mut idle = 0;
    while idle < 3 {
        world.settle();
        check(world);
        let nodes = &world.input.observed.nodes;
        let is_up = |name: &String| {
            nodes.get(&world.input.observed.executors[name].visit.node).is_some_and(|it| it.ready)
        };
        let active: Vec<String> = world.active().into_iter().filter(is_up).collect();
        idle = if active.is_empty() { idle + 1 } else { 0 };
        world.pass(if active.is_empty() { 400 } else { 5 });
        // One after the other, so that batches are judged at every moment.
        if let Some(name) = active.first() {
            world.end(name, End::Success);
        }
    }
}

/// No ceiling is broken, no order number is there twice, and the counts are those of the world.
fn check(world: &World) {
    let nodes = world.input.observed.nodes.values();
    let records: Vec<_> = nodes.filter_map(|node| node.record("tuning", "uid-tuning")).collect();
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    for record in records.iter().filter(|record| record.is_open()) {
        *open.entry(record.compartment.as_str()).or_default() += 1;
    }
    assert!(open.get(A).is_none_or(|&open| open <= 3), "more of a than its ceiling: {open:?}");
    assert!(open.get(B).is_none_or(|&open| open <= 1), "more of b than its ceiling: {open:?}");
    let orders: BTreeSet<u32> = records.iter().map(|record| record.order).collect();
    assert_eq!(orders.len(), records.len(), "an order number is there twice");
    let verdicts = &nodewright::plan::plan(&world.input).verdicts["tuning"];
    let status = world.input.observed.resources["tuning"].status.as_ref().expect("a status");
    for (name, shown) in &status.memory.compartments {
        let here = world.input.observed.nodes.values().filter(|node| {
            let ring = node.labels.get("ring").map_or("__default__", String::as_str);
            node.labels.contains_key("pool") && ring == name
        });
        let (mut matched, mut completed) = (0, 0);
        for node in here {
            matched += 1;
            completed += u32::from(verdicts[&node.name].kind == VerdictKind::Done);
        }
        assert_eq!((shown.matched, shown.completed), (matched, completed), "{name}");
        let counted = shown.batch_state.completed_nodes + shown.batch_state.failed_nodes;
        assert!(counted <= 10, "{name} counts {counted} nodes of ten at most");
    }
}

/// What happens to one node.
#[derive(Debug, Clone, Copy)]
enum Change {
    Nothing,
    Joins,
    Leaves(&'static str),
    MovesToB(&'static str),
    IsDeselected(&'static str),
    IsIgnored(&'static str),
    IsTainted(&'static str),
    IsNotReady(&'static str),
    NodeReplaced(&'static str),
    HostReplaced(&'static str),
}

use Change::{
    HostReplaced, IsDeselected, IsIgnored, IsNotReady, IsTainted, Joins, Leaves, MovesToB,
    NodeReplaced, Nothing,
};

impl Change {
    fn happen(self, world: &mut World) {
        let label = |world: &mut World, node: &str, key: &str, value: Option<&str>| {
            world.change_node(node, |node| {
                match value {
                    Some(value) => node.labels.insert(key.to_owned(), value.to_owned()),
                    None => node.labels.remove(key),
                };
            });
        };
        match self {
            Nothing => {}
            Joins => world.add_node("a7", &[("pool", "gpu"), ("ring", A)]),
            Leaves(node) => world.remove_node(node),
            MovesToB(node) => label(world, node, "ring", Some(B)),
            IsDeselected(node) => label(world, node, "pool", None),
            IsIgnored(node) => world.change_node(node, |node| node.ignored = true),
            IsTainted(node) => world.change_node(node, |node| {
                let (key, value) = ("team".to_owned(), "x".to_owned());
                node.taints.push(Taint { key, value, effect: TaintEffect::NoSchedule });
            }),
            IsNotReady(node) => world.set_ready(node, false),
            NodeReplaced(node) => world.replace_node(node),
            HostReplaced(node) => world.replace_host(node),
        }
    }

    /// Takes back what can be taken back.
    fn undo(self, world: &mut World) {
        match self {
            IsIgnored(node) => world.change_node(node, |node| node.ignored = false),
            IsTainted(node) => world.change_node(node, |node| node.taints.clear()),
            IsNotReady(node) => world.set_ready(node, true),
            Nothing | Joins | Leaves(_) | MovesToB(_) | IsDeselected(_) | NodeReplaced(_)
            | HostReplaced(_) => {}
        }
    }
}

/// When it happens.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// While `a2` and `a3` are at work.
    AtWork,
    /// After `a2` is complete, before `a3` is.
    Complete,
    /// After `a2` failed for good, before `a3` is through.
    Failed,
}

use Moment::{AtWork, Complete, Failed};

/// Plays a row, and returns the sizes of the batches of `a` and of `b`.
fn batches(change: Change, moment: Moment) -> (Vec<u32>, Vec<u32>, World) {
    let mut world = world();
    match moment {
        AtWork => {}
        Complete => end(&mut world, "a2", End::Success),
        Failed => fail(&mut world, "a2"),
    }
    world.settle();
    change.happen(&mut world);
    play(&mut world);
    change.undo(&mut world);
    play(&mut world);
    (sizes(&world, A), sizes(&world, B), world)
}

/// What a table says that is not so.
fn differences(table: &[(Change, Moment, &[u32], &[u32])], failures: u32) -> Vec<String> {
    let mut wrong = Vec::new();
    for &(change, moment, a, b) in table {
        let (of_a, of_b, mut world) = batches(change, moment);
        if (of_a.as_slice(), of_b.as_slice()) != (a, b) {
            wrong.push(format!("{change:?}, {moment:?}: {of_a:?} and {of_b:?}"));
        }
        let failed = world.input.observed.nodes.keys().cloned().collect::<Vec<_>>();
        let failed = failed.iter().filter(|node| {
            let verdict = world.verdict_of(node);
            verdict.is_some_and(|verdict| verdict != VerdictKind::Done)
        });
        let failed = u32::try_from(failed.count()).expect("a few");
        if failed != failures && !(failed == 0 && takes_the_failure_along(change)) {
            wrong.push(format!("{change:?}, {moment:?}: {failed} nodes are not complete"));
        }
        let states = [A, B].map(|name| state(&world, name));
        let counted: u32 = states.iter().map(|state| state.failed_nodes).sum();
        if counted != failed {
            wrong.push(format!("{change:?}, {moment:?}: {counted} failures for {failed} nodes"));
        }
        if states[1].last_batch_failed || states[1].consecutive_failures > 0 {
            wrong.push(format!("{change:?}, {moment:?}: a batch of b has failed"));
        }
    }
    wrong
}

#[test]
fn a_batch_is_judged_by_the_nodes_that_are_still_its_own() {
    let plain: &[u32] = &[1, 1, 1];
    let none: &[String] = &[];
    let table: [(Change, Moment, &[u32], &[u32]); 24] = [
        (Nothing, AtWork, &[1, 2, 3], plain),
        (Joins, AtWork, &[1, 2, 3, 1], plain),
        // Who is not in the batch leaves it alone.
        (Leaves("a5"), AtWork, &[1, 2, 2], plain),
        (MovesToB("a5"), AtWork, &[1, 2, 2], &[1, 1, 1, 1]),
        (IsDeselected("a5"), AtWork, &[1, 2, 2], plain),
        (IsIgnored("a5"), AtWork, &[1, 2, 2, 1], plain),
        (IsTainted("a5"), AtWork, &[1, 2, 2, 1], plain),
        (IsNotReady("a5"), AtWork, &[1, 2, 2, 1], plain),
        (NodeReplaced("a5"), AtWork, &[1, 2, 3], plain),
        (HostReplaced("a5"), AtWork, &[1, 2, 3], plain),
        // Of two one is left: the batch had one node, so the next has two.
        (Leaves("a2"), AtWork, &[1, 1, 2, 1], plain),
        // It bears the record of the batch that it was taken out of.
        (IsDeselected("a2"), AtWork, &[1, 2, 2, 1], plain),
        (NodeReplaced("a2"), AtWork, &[1, 1, 2, 2], plain),
        (HostReplaced("a2"), AtWork, &[1, 1, 2, 2], plain),
        // What runs there ends, and then it has what is wanted.
        (IsIgnored("a2"), AtWork, &[1, 2, 3], plain),
        (IsTainted("a2"), AtWork, &[1, 2, 3], plain),
        // It stays in its batch, and the batch waits for it.
        (MovesToB("a2"), AtWork, &[1, 2, 3], plain),
        (IsNotReady("a2"), AtWork, &[1, 2, 3], plain),
        // What was done is done, while the node is there.
        (Leaves("a2"), Complete, &[1, 1, 2, 1], plain),
        (MovesToB("a2"), Complete, &[1, 2, 3], plain),
        (IsIgnored("a2"), Complete, &[1, 2, 3], plain),
        (IsTainted("a2"), Complete, &[1, 2, 3], plain),
        (NodeReplaced("a2"), Complete, &[1, 1, 2, 2], plain),
        // The batch was of two. What comes in its place is picked again, before younger ones.
        (HostReplaced("a2"), Complete, &[1, 1, 3, 1], plain),
    ];
    assert_eq!(differences(&table, 0), none);
}

/// One of two failed is a failed batch: 2 − 1, and then it grows again.
#[test]
fn a_failure_is_counted_once_in_the_batch_where_it_happened_and_goes_with_its_node() {
    let plain: &[u32] = &[1, 1, 1];
    let none: &[String] = &[];
    let table: [(Change, Moment, &[u32], &[u32]); 10] = [
        (Nothing, Failed, &[1, 2, 1, 2], plain),
        (MovesToB("a2"), Failed, &[1, 2, 1, 2], plain),
        (IsIgnored("a2"), Failed, &[1, 2, 1, 2], plain),
        (IsTainted("a2"), Failed, &[1, 2, 1, 2], plain),
        (IsNotReady("a2"), Failed, &[1, 2, 1, 2], plain),
        (IsNotReady("a5"), Failed, &[1, 2, 1, 1, 1], plain),
        // A failure of a node that is gone is nobody's: one of one succeeded.
        (Leaves("a2"), Failed, &[1, 1, 2, 1], plain),
        (IsDeselected("a2"), Failed, &[1, 2, 2, 1], plain),
        (NodeReplaced("a2"), Failed, &[1, 1, 2, 2], plain),
        // The same Node: it failed in this batch, and what comes in its place begins anew.
        (HostReplaced("a2"), Failed, &[1, 1, 1, 2, 1], plain),
    ];
    assert_eq!(differences(&table, 1), none);
}

/// Returns whether the failed node is gone, and what comes in its place is new.
fn takes_the_failure_along(change: Change) -> bool {
    matches!(change, Leaves(_) | IsDeselected(_) | NodeReplaced(_) | HostReplaced(_))
}

trait VerdictOf {
    fn verdict_of(&mut self, node: &str) -> Option<VerdictKind>;
}

impl VerdictOf for World {
    /// Returns the verdict on a node; `None` where the rollout does not select it.
    fn verdict_of(&mut self, node: &str) -> Option<VerdictKind> {
        let plan = nodewright::plan::plan(&self.input);
        plan.verdicts["tuning"].get(node).map(|verdict| verdict.kind)
    }
}

/// As failures.md has it: three nodes in `a` go by two, `b` has one.
#[test]
fn t17_a_node_that_changes_its_compartment_is_in_the_verdict_of_its_batch_and_then_elsewhere() {
    let mut world = World::new(noon());
    for (node, ring) in [("n1", A), ("n2", A), ("n3", A), ("n4", B)] {
        world.add_node(node, &[("pool", "gpu"), ("ring", ring)]);
        world.pass(1);
    }
    let compartments = vec![
        compartment(A, selector("ring", A), Budget::Count(2), None),
        compartment(B, selector("ring", B), Budget::Count(1), None),
    ];
    let pace = Pace { budget: Budget::Percent(100), strategy: None };
    let policy = Policy { name: "rings".to_owned(), fallback: pace, compartments, reset: false };
    world.input.desired.policies.insert(policy.name.clone(), policy);
    world.set_rollout(by_policy("1.0.0"));
    world.settle();
    assert_eq!(under_way(&world), ["n1", "n2", "n4"]);
    MovesToB("n1").happen(&mut world);
    world.settle();
    assert_eq!(under_way(&world), ["n1", "n2", "n4"], "n3 has no place");
    end(&mut world, "n1", End::Success);
    end(&mut world, "n2", End::Success);
    world.settle();
    let judged = state(&world, A);
    assert_eq!((judged.last_batch_size, judged.current_batch), (2, 2), "two of two");
    assert_eq!((judged.completed_nodes, judged.failed_nodes), (1, 0), "n1 is of b now");
    let shown = |world: &World, name: &str| {
        let status = world.input.observed.resources["tuning"].status.as_ref().expect("a status");
        let shown = &status.memory.compartments[name];
        (shown.matched, shown.completed, shown.in_progress)
    };
    assert_eq!((shown(&world, A), shown(&world, B)), ((2, 1, 1), (2, 1, 1)), "n3 and n4 are left");
    play(&mut world);
    assert!(world.is_complete());
    assert_eq!((shown(&world, A), shown(&world, B)), ((2, 2, 0), (2, 2, 0)));
}

/// Eight nodes, batches of 1, 2 and 3 are through with 1.0.0 when 1.1.0 comes.
#[test]
fn t16_a_new_version_when_batches_have_grown_begins_with_one_node() {
    let mut world = World::new(noon());
    for number in 1..=8 {
        world.add_node(&format!("n{number}"), &[("pool", "gpu"), ("ring", A)]);
        world.pass(1);
    }
    let linear = Some(strategy(Growth::Linear(1), 1));
    let pace = Pace { budget: Budget::Percent(100), strategy: linear };
    let name = "rings".to_owned();
    let policy = Policy { name, fallback: pace, compartments: Vec::new(), reset: true };
    world.input.desired.policies.insert(policy.name.clone(), policy);
    world.set_rollout(by_policy("1.0.0"));
    for expected in [1, 2, 3] {
        world.settle();
        assert_eq!(under_way(&world).len(), expected);
        world.finish_all(End::Success);
    }
    // The third batch is judged, and no fourth one opened before the commit comes.
    let switch = |world: &mut World, disabled: bool| {
        world.input.observed.resources.get_mut("tuning").expect("there").disabled = disabled;
    };
    switch(&mut world, true);
    world.settle();
    assert_eq!(under_way(&world), Vec::<&str>::new());
    switch(&mut world, false);
    world.set_rollout(by_policy("1.1.0"));
    for expected in [1, 2, 3, 2] {
        world.settle();
        assert_eq!(under_way(&world).len(), expected, "the new version grows from one");
        let pending = ["n7", "n8"].map(|node| world.entry(node, "motd"));
        assert!(
            pending.iter().all(|it| !it.starts_with("1.0.0")),
            "nobody gets 1.0.0: {pending:?}"
        );
        world.finish_all(End::Success);
    }
    world.settle();
    assert!(world.is_complete());
}
