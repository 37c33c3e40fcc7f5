//! Who is picked, how many at once, and in which order (upstream contract B.10, design §7).

use std::collections::{BTreeMap, BTreeSet};

use nodewright::model::{
    Budget, CompartmentStatus, DEFAULT_COMPARTMENT, InterruptKind, Node, Reason, Record, Verdict,
    VerdictKind,
};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, pod, rollout, world};

/// A fleet with one package that needs no interrupt.
fn fleet(nodes: u32, budget: Option<Budget>) -> World {
    let mut wanted = rollout(1, vec![package("motd", "1.0.0")]);
    wanted.budget = budget;
    world(nodes, wanted)
}

fn node<'w>(world: &'w mut World, name: &str) -> &'w mut Node {
    world.input.observed.nodes.get_mut(name).expect("a node of the fleet")
}

fn compartment(world: &World) -> CompartmentStatus {
    let status = world.input.observed.resources["tuning"].status.as_ref();
    status.expect("a status was written").memory.compartments[DEFAULT_COMPARTMENT].clone()
}

fn records(world: &World) -> BTreeMap<String, Record> {
    let nodes = world.input.observed.nodes.iter();
    nodes
        .filter_map(|(name, node)| {
            Some((name.clone(), node.record("tuning", "uid-tuning")?.clone()))
        })
        .collect()
}

/// The nodes under way, in the order in which they were picked.
fn under_way(world: &World) -> Vec<String> {
    let mut open: Vec<(u32, String)> = records(world)
        .into_iter()
        .filter(|(_, record)| record.is_open())
        .map(|(name, record)| (record.order, name))
        .collect();
    open.sort();
    open.into_iter().map(|(_, name)| name).collect()
}

/// Plays to the end and returns who was newly picked in each round.
fn rounds(world: &mut World) -> Vec<Vec<String>> {
    let mut rounds = Vec::new();
    for _ in 0..200 {
        world.settle();
        let open = under_way(world);
        if open.is_empty() {
            return rounds;
        }
        rounds.push(open);
        world.finish_all(End::Success);
    }
    panic!("the rollout does not end");
}

#[test]
fn ceilings_are_whole_numbers_of_nodes() {
    let table = [
        (Budget::Percent(0), [0, 0, 0, 0, 0, 0]),
        (Budget::Percent(1), [0, 1, 1, 1, 1, 10]),
        (Budget::Percent(10), [0, 1, 1, 1, 2, 100]),
        (Budget::Percent(33), [0, 1, 1, 3, 6, 330]),
        (Budget::Percent(50), [0, 1, 1, 5, 10, 500]),
        (Budget::Percent(99), [0, 1, 2, 9, 19, 990]),
        (Budget::Percent(100), [0, 1, 3, 10, 20, 1000]),
        (Budget::Count(0), [0, 0, 0, 0, 0, 0]),
        (Budget::Count(1), [0, 1, 1, 1, 1, 1]),
        (Budget::Count(3), [0, 1, 3, 3, 3, 3]),
        (Budget::Count(500), [0, 1, 3, 10, 20, 500]),
    ];
    for (budget, expected) in table {
        let ceilings = [0, 1, 3, 10, 20, 1000].map(|nodes| budget.ceiling(nodes));
        assert_eq!(ceilings, expected, "{budget:?}");
    }
    assert_eq!(Budget::Percent(100).ceiling(u32::MAX), u32::MAX, "nothing overflows");
    assert_eq!(Budget::Count(u32::MAX).ceiling(7), 7);
}

/// Percent to number: whole, rounded down, at least one, and never by way of floating point, which
/// makes 28 of 29 % of 100.
#[test]
fn t15_a_percentage_of_nodes_is_rounded_down_in_whole_numbers() {
    let table = [
        (1, 1, 1),
        (3, 33, 1),
        (3, 34, 1),
        (7, 50, 3),
        (50, 2, 1),
        (200, 1, 2),
        (1000, 7, 70),
        (100, 29, 29),
        (100, 57, 57),
        (100, 58, 58),
        (5, 100, 5),
        (0, 50, 0),
    ];
    for (nodes, percent, expected) in table {
        assert_eq!(Budget::Percent(percent).ceiling(nodes), expected, "{percent} % of {nodes}");
    }
    let mut nobody = fleet(0, Some(Budget::Percent(50)));
    nobody.run();
    assert_eq!(records(&nobody), BTreeMap::new());
}

/// A commit comes when six of eight nodes are done, in batches of three; batches that grow are in
/// `policies`.
#[test]
fn t16_a_new_version_in_a_rollout_makes_every_node_pending_for_it_alone() {
    let mut world = fleet(8, Some(Budget::Count(3)));
    let entry_of = |world: &World, node: &str, version: &str| {
        let entries = world.input.observed.nodes[node].entries("tuning");
        entries.values().any(|entry| entry.version == version)
    };
    for _ in 0..2 {
        world.settle();
        world.finish_all(End::Success);
    }
    let names: Vec<String> = world.input.observed.nodes.keys().cloned().collect();
    let (old, fresh): (Vec<_>, Vec<_>) =
        names.iter().partition(|name| entry_of(&world, name, "1.0.0"));
    assert_eq!((old.len(), fresh.len()), (6, 2), "two batches of three");

    world.set_rollout(rollout(3, vec![package("motd", "1.1.0")]));
    world.settle();
    assert_eq!(under_way(&world).len(), 3, "the new target goes in batches of its own");
    for node in &names {
        assert!(!world.verdict(node).starts_with("Done"), "{node} is pending for the new version");
    }
    while !under_way(&world).is_empty() {
        for node in &fresh {
            assert!(!entry_of(&world, node, "1.0.0"), "{node} gets what nobody wants any more");
        }
        world.finish_all(End::Success);
        world.settle();
    }
    assert!(world.is_complete());
    assert!(names.iter().all(|name| entry_of(&world, name, "1.1.0")));
}

#[test]
fn a_third_of_twenty_goes_in_batches_of_six() {
    let mut world = fleet(20, Some(Budget::Percent(33)));
    let rounds = rounds(&mut world);
    assert_eq!(rounds.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6, 6, 2]);
    assert!(world.is_complete());
    assert_eq!(world.peak["tuning"], 6);
    let shown = compartment(&world);
    assert_eq!((shown.matched, shown.ceiling, shown.completed), (20, 6, 20));
    assert_eq!((shown.progress_percent, shown.in_progress), (100, 0));
    assert_eq!((shown.batch_state.current_batch, shown.batch_state.completed_nodes), (5, 20));
    assert_eq!(shown.batch_state.last_batch_size, 2);
    assert_eq!(shown.open_batch, None);
    let oldest_first: Vec<String> = rounds.concat();
    let expected: Vec<String> = (0..20).map(|number| format!("node-{number:02}")).collect();
    assert_eq!(oldest_first, expected);
}

#[test]
fn a_batch_is_over_before_the_next_is_opened() {
    let mut world = fleet(6, Some(Budget::Count(3)));
    world.settle();
    let first = world.active().first().cloned().expect("executors run");
    world.end(&first, End::Success);
    world.settle();
    assert_eq!(under_way(&world).len(), 2, "its place is not given to the next batch");
    assert_eq!(world.verdict("node-05"), "Wait: waits for a batch after batch 1");
    assert_eq!(compartment(&world).open_batch.map(|open| (open.number, open.size)), Some((1, 3)));
}

#[test]
fn a_budget_of_zero_picks_nobody() {
    for budget in [Budget::Percent(0), Budget::Count(0)] {
        let mut world = fleet(3, Some(budget));
        assert_eq!(rounds(&mut world), Vec::<Vec<String>>::new());
        assert_eq!(
            world.verdict("node-00"),
            "Blocked: interruptionBudget is zero: nobody is picked until it is raised"
        );
        assert_eq!(compartment(&world).open_batch, None);
        assert!(records(&world).is_empty());
    }
}

#[test]
fn without_a_budget_the_clusters_floor_of_ten_percent_holds() {
    let mut world = fleet(20, None);
    assert_eq!(rounds(&mut world).iter().map(Vec::len).collect::<Vec<_>>(), [2; 10]);
    let mut lifted = fleet(20, None);
    lifted.input.floor.max_disturbed_percent = 100;
    assert_eq!(rounds(&mut lifted).iter().map(Vec::len).collect::<Vec<_>>(), [20]);
}

#[test]
fn nodes_that_are_down_already_go_first_and_cost_nothing() {
    let mut world = fleet(4, Some(Budget::Count(2)));
    node(&mut world, "node-03").unschedulable = true;
    world.settle();
    assert_eq!(under_way(&world), ["node-03", "node-00"], "one is down, so one more may be");
    world.run();
    assert!(world.is_complete());
    assert!(world.input.observed.nodes["node-03"].unschedulable, "and stays as it was found");
}

#[test]
fn a_node_that_is_down_uses_the_budget_of_the_others() {
    let mut world = fleet(3, Some(Budget::Count(1)));
    node(&mut world, "node-02").unschedulable = true;
    assert_eq!(rounds(&mut world), [["node-02"]], "it costs nothing itself");
    assert_eq!(world.verdict("node-00"), "Wait: budget used: 1 of 1 disturbed (node-02)");
    node(&mut world, "node-02").unschedulable = false;
    assert_eq!(rounds(&mut world), [["node-00"], ["node-01"]]);
    node(&mut world, "node-02").ready = false;
    world.set_rollout(rollout(1, vec![package("motd", "1.0.1")]));
    assert_eq!(rounds(&mut world), Vec::<Vec<String>>::new(), "nor is one that is not ready free");
    assert_eq!(world.verdict("node-00"), "Wait: budget used: 1 of 1 disturbed (node-02)");
    assert!(world.verdict("node-02").starts_with("Wait: the node is not ready since"));
}

#[test]
fn the_daemons_own_node_goes_last() {
    let mut world = fleet(3, Some(Budget::Count(1)));
    world.input.own_node = Some("node-00".to_owned());
    assert_eq!(rounds(&mut world).concat(), ["node-01", "node-02", "node-00"]);
}

#[test]
fn nodes_with_protected_pods_go_after_those_without() {
    let mut world = fleet(4, Some(Budget::Count(1)));
    world.add_pod(pod("node-00", "train", &[("workload", "training")]));
    world.add_pod(pod("node-01", "web", &[("workload", "serving")]));
    world.input.own_node = Some("node-02".to_owned());
    assert_eq!(
        rounds(&mut world).concat(),
        ["node-01", "node-03", "node-00", "node-02"],
        "and the daemon's own node still after them"
    );
}

#[test]
fn nodes_that_failed_before_go_after_untouched_ones() {
    let mut world = fleet(3, Some(Budget::Count(1)));
    world.settle();
    for _ in 0..4 {
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
        world.settle();
    }
    assert!(world.verdict("node-00").starts_with("Blocked: apply of motd|1.0.0 failed"));
    world.set_rollout(rollout(1, vec![package("motd", "1.0.1")]));
    // node-01 was in its batch when the target changed, and goes on in it.
    world.run();
    let orders: BTreeMap<u32, String> =
        records(&world).into_iter().map(|(name, record)| (record.order, name)).collect();
    assert_eq!(orders.into_values().collect::<Vec<_>>(), ["node-01", "node-02", "node-00"]);
}

#[test]
fn order_numbers_never_repeat_across_targets() {
    let mut world = fleet(5, Some(Budget::Count(2)));
    let mut seen = BTreeSet::new();
    for version in ["1.0.0", "1.0.1", "1.0.2"] {
        world.set_rollout(rollout(2, vec![package("motd", version)]));
        world.run();
        let highest = seen.last().copied();
        for record in records(&world).values() {
            assert!(Some(record.order) > highest, "{} is not above {highest:?}", record.order);
            assert!(seen.insert(record.order), "{} twice", record.order);
        }
    }
    assert_eq!(seen.len(), 15);
}

#[test]
fn a_new_target_gives_no_order_number_again_that_a_node_took_with_it() {
    let mut world = fleet(2, Some(Budget::Count(2)));
    world.run();
    world.remove_node("node-01");
    world.set_rollout(rollout(2, vec![package("motd", "1.0.1")]));
    world.run();
    assert!(world.is_complete());
    assert_eq!(records(&world)["node-00"].order, 2);
}

#[test]
fn a_node_that_joins_gets_an_order_number_of_its_own() {
    let mut world = fleet(2, Some(Budget::Count(2)));
    world.run();
    world.add_node("node-99", &[("pool", "gpu")]);
    world.run();
    assert!(world.is_complete());
    let orders: BTreeSet<u32> = records(&world).values().map(|record| record.order).collect();
    assert_eq!(orders, BTreeSet::from([0, 1, 2]));
}

/// Two rollouts over the same nodes, `first` before `second`.
fn two(nodes: u32, count: u32) -> World {
    let mut first =
        rollout(count, vec![package("kernel", "1.0.0").interrupting(InterruptKind::Reboot)]);
    first.name = "first".to_owned();
    first.priority = 10;
    let mut world = world(nodes, first);
    world.set_rollout(rollout(count, vec![package("motd", "1.0.0")]));
    world
}

fn open_on(world: &World, node: &str) -> Vec<String> {
    let state = &world.input.observed.nodes[node];
    let open = state.rollouts.iter().filter(|(name, _)| {
        state.record(name, &format!("uid-{name}")).is_some_and(Record::is_open)
    });
    open.map(|(name, _)| name.clone()).collect()
}

#[test]
fn two_rollouts_work_on_a_node_one_at_a_time() {
    let mut world = two(4, 2);
    let mut together = BTreeSet::new();
    for _ in 0..200 {
        let (_, breaches, done) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        let nodes: Vec<String> = world.input.observed.nodes.keys().cloned().collect();
        let mut busy = 0;
        for node in &nodes {
            let open = open_on(&world, node);
            assert!(open.len() <= 1, "{node} is visited by {open:?}");
            busy += open.len();
            together.extend(open);
        }
        assert!(busy <= 2, "{busy} nodes at once: each counts against both budgets");
        if done == 0 && world.finish_all(End::Success) == 0 {
            break;
        }
    }
    assert!(world.is_complete());
    assert_eq!(together.len(), 2, "both were at work");
}

#[test]
fn a_node_that_another_rollout_works_on_counts_against_this_budget_too() {
    let mut world = two(3, 1);
    world.input.desired.rollouts.remove("tuning");
    world.run();
    world.add_node("node-99", &[("pool", "gpu")]);
    world.settle();
    assert_eq!(open_on(&world, "node-99"), ["first"]);
    world.set_rollout(rollout(1, vec![package("motd", "1.0.0")]));
    world.settle();
    assert_eq!(under_way(&world), Vec::<String>::new());
    assert_eq!(world.verdict("node-00"), "Wait: budget used: 1 of 1 disturbed (node-99)");
    assert_eq!(world.verdict("node-99"), "Wait: waits for first to complete here");
    world.run();
    // The pods of the visits are cleaned up a minute after them.
    world.pass(120);
    world.run();
    assert!(world.is_complete());
}

#[test]
fn later_rollouts_wait_for_earlier_ones_on_each_node() {
    let mut world = two(2, 1);
    world.settle();
    assert_eq!(world.verdict("node-01"), "Wait: waits for first to complete here");
    while open_on(&world, "node-00") == ["first"] {
        world.finish_all(End::Success);
        assert!(world.tick(|_| Fate::Done).2 > 0, "the visit of first goes on");
    }
    let plan = nodewright::plan::plan(&world.input);
    assert_eq!(plan.verdicts["first"]["node-00"].kind, VerdictKind::Done);
    let free = &plan.verdicts["tuning"]["node-00"];
    assert!(free.kind == VerdictKind::Wait && !free.reason.to_string().contains("first"));
    world.run();
    assert!(world.is_complete());
}

#[test]
fn sequencing_all_holds_the_later_ones_everywhere() {
    let mut world = two(3, 1);
    let first = world.input.desired.rollouts.get_mut("first").expect("the first rollout");
    first.sequencing = nodewright::model::Sequencing::All;
    let mut elsewhere = rollout(1, vec![package("motd", "1.0.0")]);
    elsewhere.name = "zeta".to_owned();
    world.set_rollout(elsewhere);
    for _ in 0..200 {
        let (plan, breaches, done) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        let first = &plan.verdicts["first"];
        let complete = first.values().all(|verdict| verdict.kind == VerdictKind::Done);
        for name in ["tuning", "zeta"] {
            let begun =
                plan.verdicts[name].values().any(|verdict| verdict.kind == VerdictKind::Act);
            assert!(complete || !begun, "{name} began before first was complete everywhere");
        }
        if done == 0 && world.finish_all(End::Success) == 0 {
            break;
        }
    }
    assert!(world.is_complete());
}

#[test]
fn a_batch_that_this_tick_fills_is_what_the_rest_wait_for() {
    let mut world = fleet(4, Some(Budget::Count(2)));
    let picks = |verdicts: &BTreeMap<String, Verdict>| {
        verdicts.values().any(|verdict| matches!(verdict.reason, Reason::Picking { .. }))
    };
    let plan = loop {
        let (plan, _, _) = world.tick(|_| Fate::Done);
        if picks(&plan.verdicts["tuning"]) {
            break plan;
        }
    };
    let waiting = &plan.verdicts["tuning"]["node-03"];
    assert_eq!(waiting.reason, Reason::WaitingForBatch { batch: 1 });
}

/// A pick is refused whenever something wrote to the node since it was read, a heartbeat for one.
#[test]
fn a_pick_that_is_refused_costs_nobody_a_place_in_the_batch() {
    let mut world = fleet(3, Some(Budget::Count(3)));
    let mut refusals = 1;
    while under_way(&world).len() < 2 {
        let (_, breaches, _) = world.tick(|action| match action {
            nodewright::model::Action::PatchNode(patch)
                if patch.node == "node-00" && refusals > 0 =>
            {
                refusals -= 1;
                Fate::Refused
            }
            _ => Fate::Done,
        });
        assert_eq!(breaches, vec![]);
    }
    assert_eq!(under_way(&world), ["node-01", "node-02"], "it was refused");
    world.settle();
    assert_eq!(under_way(&world), ["node-00", "node-01", "node-02"]);
    let batches: BTreeSet<u32> = records(&world).values().map(|record| record.batch).collect();
    assert_eq!(batches, BTreeSet::from([1]), "one batch, whoever was picked late");
}

#[test]
fn a_status_that_was_wiped_hands_out_no_order_number_again() {
    let mut world = world(4, rollout(2, vec![package("motd", "1.0.0")]));
    world.settle();
    if let Some(resource) = world.input.observed.resources.get_mut("tuning") {
        resource.status = None;
    }
    world.run();
    assert!(world.is_complete());
    let orders: std::collections::BTreeSet<u32> = world
        .input
        .observed
        .nodes
        .values()
        .filter_map(|node| node.rollouts["tuning"].record.as_ref().map(|record| record.order))
        .collect();
    assert_eq!(orders.len(), 4, "{orders:?}");
}

#[test]
fn an_order_number_of_a_record_that_was_wiped_is_not_given_again() {
    let mut world = fleet(3, Some(Budget::Count(2)));
    world.settle();
    let before = records(&world);
    assert_eq!(before.len(), 2);
    world.change_node("node-01", |node| node.rollouts.clear());
    world.finish_all(End::Success);
    world.run();
    assert!(world.is_complete());
    let again = &records(&world)["node-01"];
    assert!(before.values().all(|record| record.order < again.order), "{}", again.order);
}

#[test]
fn the_last_node_of_a_stopped_rollout_is_not_picked_either() {
    let mut world = world(3, rollout(1, vec![package("motd", "1.0.0")]));
    world.settle();
    for _attempt in 0..2 * 4 {
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
        world.settle();
    }
    assert!(world.verdict("node-02").starts_with("Blocked: stopped after 2 failed batches"));
    assert!(!records(&world).contains_key("node-02"));
}
