//! Several resources with policies of their own over the same nodes.
//!
//! A node is disturbed by one of them at a time, and whoever disturbs it, it counts against the
//! budget of each that selects it. A budget bounds what its own resource begins: one that allows
//! more may go further, as its policy says.

use std::collections::BTreeMap;

use nodewright::model::{
    Action, Budget, Growth, InterruptKind, Node, Pace, PatchKind, Policy, Record, Rollout,
    Sequencing, Strategy,
};
use nodewright::plan::world::{End, Fate, World};

use super::super::builders::{PackageExt, noon, package, rollout};
use super::forecasts::{compartment, selector};
use super::strategy;

const NODES: u32 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    Reboot,
    None,
}

/// A package that needs a reboot, or one that only has the node at work.
fn resource(name: &str, priority: i32, sequencing: Sequencing, interrupt: Interrupt) -> Rollout {
    let kernel = package(name, "1.0.0");
    let mut wanted = rollout(
        1,
        vec![match interrupt {
            Interrupt::Reboot => kernel.interrupting(InterruptKind::Reboot),
            Interrupt::None => kernel,
        }],
    );
    name.clone_into(&mut wanted.name);
    (wanted.priority, wanted.sequencing) = (priority, sequencing);
    wanted.budget = None;
    wanted.policy = Some(name.to_owned());
    wanted
}

fn policy(name: &str, budget: Budget, strategy: Option<Strategy>) -> Policy {
    let fallback = Pace { budget, strategy };
    Policy { name: name.to_owned(), fallback, compartments: Vec::new(), reset: false }
}

/// `first` comes before `second`, each with a policy of its own, over the same nodes.
fn world(first: Policy, second: Policy, sequencing: Sequencing, interrupt: Interrupt) -> World {
    let mut world = World::new(noon());
    for number in 1..=NODES {
        let ring = if number > 3 { "b" } else { "a" };
        world.add_node(&format!("n{number}"), &[("ring", ring)]);
        world.pass(1);
    }
    world.input.floor.stop_after = None;
    for (priority, policy) in [(1, first), (2, second)] {
        let name = policy.name.clone();
        world.input.desired.policies.insert(name.clone(), policy);
        world.set_rollout(resource(&name, priority, sequencing, interrupt));
    }
    world
}

/// Returns the resource that works on a node.
fn workers<'w>(world: &'w World, node: &'w Node) -> Vec<&'w str> {
    let resources = world.input.observed.resources.iter();
    let at_work = resources
        .filter(|(name, resource)| node.record(name, &resource.uid).is_some_and(Record::is_open));
    at_work.map(|(name, _)| name.as_str()).collect()
}

fn is_disturbed(world: &World, node: &Node) -> bool {
    node.unschedulable || !node.ready || !workers(world, node).is_empty()
}

/// What a pick breaks: a node that another one works on, or a ceiling of its own resource.
fn objection(world: &World, action: &Action) -> Option<String> {
    let Action::PatchNode(patch) = action else { return None };
    if !matches!(patch.kind, PatchKind::Pick { .. }) {
        return None;
    }
    let picked = &world.input.observed.nodes[&patch.node];
    let others = workers(world, picked);
    if !others.is_empty() {
        return Some(format!("{} picks {}, where {others:?} works", patch.rollout, patch.node));
    }
    let policy = &world.input.desired.policies[&patch.rollout];
    let here = |node: &Node| policy.compartments.iter().find(|it| it.selects(&node.labels));
    let own = here(picked);
    let of_it: Vec<&Node> = world
        .input
        .observed
        .nodes
        .values()
        .filter(|node| here(node).map(|it| &it.name) == own.map(|it| &it.name))
        .collect();
    let budget = own.map_or(policy.fallback.budget, |it| it.pace.budget);
    let ceiling = budget.ceiling(u32::try_from(of_it.len()).expect("a few")) as usize;
    let disturbed = of_it.iter().filter(|node| is_disturbed(world, node)).count();
    let more = usize::from(!is_disturbed(world, picked));
    (disturbed + more > ceiling && more > 0).then(|| {
        let rollout = &patch.rollout;
        format!("{rollout} picks {}: {disturbed} of {ceiling} are disturbed", patch.node)
    })
}

/// Most nodes at work at once, by resource, and of all of them together.
type Peaks = (BTreeMap<String, usize>, usize);

/// Plays to the end under the eyes of `objection`.
fn play(world: &mut World) -> Peaks {
    let mut peak = 0;
    let mut idle = 0;
    while idle < 3 {
        let tick = world.tick_watched(|_, _| Fate::Done, objection);
        assert_eq!((tick.breaches, tick.objections), (vec![], vec![]));
        let nodes = world.input.observed.nodes.values();
        let at_work = nodes.filter(|node| {
            let workers = workers(world, node);
            assert!(workers.len() <= 1, "{} is worked on by {workers:?}", node.name);
            !workers.is_empty()
        });
        peak = at_work.count().max(peak);
        if tick.done > 0 {
            continue;
        }
        let active = world.active();
        idle = if active.is_empty() { idle + 1 } else { 0 };
        world.pass(if active.is_empty() { 400 } else { 5 });
        if let Some(name) = active.first() {
            world.end(name, End::Success);
        }
    }
    assert!(world.is_complete(), "nobody is stuck");
    for (node, reboots) in &world.reboots {
        assert_eq!(*reboots, 2, "{node}: one reboot for each resource");
    }
    (world.peak.clone(), peak)
}

#[test]
fn a_node_at_work_counts_against_the_budget_of_each_resource_that_selects_it() {
    let (count, all) = (Budget::Count, Budget::Percent(100));
    let table = [
        // (first, second, most at once of first, of second, of both)
        (count(1), count(1), (1, 1, 1)),
        // Two and one: the second has three in all.
        (count(2), count(3), (2, 3, 3)),
        // The first has all, then the second goes one by one.
        (all, count(1), (6, 1, 6)),
        (count(3), count(2), (3, 2, 3)),
        (Budget::Percent(50), Budget::Percent(34), (3, 2, 3)),
    ];
    for (first, second, expected) in table {
        for (sequencing, interrupt) in [
            (Sequencing::Node, Interrupt::Reboot),
            (Sequencing::All, Interrupt::Reboot),
            (Sequencing::Node, Interrupt::None),
            (Sequencing::All, Interrupt::None),
        ] {
            let (one, two) = (policy("first", first, None), policy("second", second, None));
            let (of_each, of_both) = play(&mut world(one, two, sequencing, interrupt));
            let row = format!("{first:?} and {second:?}, {sequencing:?}, {interrupt:?}");
            let (most_first, most_second, most_both) = expected;
            assert!(of_each["first"] <= most_first, "{row}: {of_each:?}");
            assert!(of_each["second"] <= most_second, "{row}: {of_each:?}");
            assert!(of_both <= most_both, "{row}: {of_both}");
            assert!(of_each["first"] == most_first, "{row}: as many as may be");
        }
    }
}

/// One resource has compartments, the other grows; both keep to their own.
#[test]
fn compartments_of_one_and_batches_of_the_other_do_not_get_in_each_others_way() {
    let rings = || {
        vec![
            compartment("a", selector("ring", "a"), Budget::Count(1), None),
            compartment("b", selector("ring", "b"), Budget::Count(2), None),
        ]
    };
    let growing = strategy(Growth::Exponential(2), 1);
    let policies = || {
        let mut one = policy("first", Budget::Percent(100), None);
        one.compartments = rings();
        (one, policy("second", Budget::Count(3), Some(growing)))
    };
    for sequencing in [Sequencing::Node, Sequencing::All] {
        let (one, two) = policies();
        play(&mut world(one, two, sequencing, Interrupt::Reboot));
        // The other way round, with the names kept in order.
        let (mut one, mut two) = policies();
        (one.name, two.name) = ("second".to_owned(), "first".to_owned());
        play(&mut world(two, one, sequencing, Interrupt::None));
    }
}

/// A node that a failed visit left cordoned is disturbed for everybody, and its place is not given
/// away; another resource may go there, since that costs nobody more.
#[test]
fn a_node_that_stays_cordoned_after_a_failure_takes_a_place_in_each_budget() {
    let (one, two) =
        (policy("first", Budget::Count(2), None), policy("second", Budget::Count(2), None));
    let mut world = world(one, two, Sequencing::Node, Interrupt::Reboot);
    let mut failed = 0;
    for _ in 0..200 {
        let tick = world.tick_watched(|_, _| Fate::Done, objection);
        assert_eq!((tick.breaches, tick.objections), (vec![], vec![]));
        if tick.done > 0 {
            continue;
        }
        let active = world.active();
        world.pass(if active.is_empty() { 400 } else { 5 });
        for name in active {
            let visit = &world.input.observed.executors[&name].visit;
            let fails = visit.node == "n1" && visit.rollout == "first";
            failed += u32::from(fails);
            world.end(&name, if fails { End::Failure } else { End::Success });
        }
    }
    assert!(failed >= 4, "it was tried as often as it is tried");
    assert!(world.input.observed.nodes["n1"].unschedulable, "held for a person");
    let verdicts = &nodewright::plan::plan(&world.input).verdicts;
    let done = |rollout: &str| {
        let verdicts = verdicts[rollout].values();
        verdicts.filter(|it| it.kind == nodewright::model::VerdictKind::Done).count()
    };
    assert_eq!((done("first"), done("second")), (5, 5), "the others went past it, one at a time");
}
