//! The audit of nodes, clause by clause: their taints, ceilings, and what leaving asks of them.

use nodewright::model::{Action, Budget, CordonMark, FinalizerWrite, Plan, Policy, TaintPatch};
use nodewright::plan::world::World;
use nodewright::plan::{Invariant, audit};

use super::audit::{is_pick, node, until};
use super::builders::{PackageExt, WorldExt, package, policy, rollout, world};
use super::policies::forecasts::{compartment, selector};

const HERE: &str = "node-00";

fn broken(world: &World, plan: &Plan) -> Vec<Invariant> {
    audit(&world.input, plan).into_iter().map(|breach| breach.invariant).collect()
}

/// A node that has everything of a runtime-required rollout, and bears its taint.
fn tainted() -> World {
    let mut wanted = rollout(1, vec![package("kernel", "1.0.0")]);
    wanted.runtime_required = true;
    let mut world = world(1, wanted);
    world.run();
    let taint = world.input.rules.runtime_taint.clone();
    node(&mut world, HERE).taints = vec![taint];
    world
}

fn opening(world: &World, cordon_after: Option<bool>) -> Plan {
    let node = &world.input.observed.nodes[HERE];
    let patch = TaintPatch {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        rollout: "tuning".to_owned(),
        before: node.taints.clone(),
        after: Vec::new(),
        auto_taint_mark: None,
        cordon_after,
    };
    Plan { actions: vec![Action::PatchTaints(patch)], ..Plan::default() }
}

#[test]
fn order_a_taint_goes_when_nothing_is_open_and_every_package_that_stays_is_complete() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, &[Invariant]); 4] = [
        ("it has everything", |_| {}, &[]),
        (
            "a visit is open",
            |world| {
                let state = node(world, HERE).rollouts.get_mut("tuning").expect("visited");
                state.record.as_mut().expect("its record").outcome = None;
            },
            &[Invariant::Order],
        ),
        (
            "a package is missing",
            |world| {
                let state = node(world, HERE).rollouts.get_mut("tuning").expect("visited");
                state.entries.clear();
            },
            &[Invariant::Order],
        ),
        (
            "what is missing is asked to go",
            |world| {
                let gone = package("motd", "1.0.0").with_uninstall().asked_to_go();
                let rollout = world.input.desired.rollouts.get_mut("tuning").expect("wanted");
                rollout.packages.insert("motd".to_owned(), gone);
            },
            &[],
        ),
    ];
    for (case, change, expected) in cases {
        let mut world = tainted();
        change(&mut world);
        assert_eq!(broken(&world, &opening(&world, None)), expected, "{case}");
    }
}

#[test]
fn foreign_cordon_a_mark_is_dropped_when_it_is_there_and_the_node_is_open() {
    for (marked, cordoned, expected) in [
        (true, false, None),
        (true, true, Some(Invariant::ForeignCordon)),
        (false, false, Some(Invariant::ForeignCordon)),
    ] {
        let mut world = tainted();
        let here = node(&mut world, HERE);
        here.unschedulable = cordoned;
        here.cordons.extend(marked.then_some(CordonMark::RuntimeRequired));
        let breaches = broken(&world, &opening(&world, Some(false)));
        assert_eq!(breaches.first().copied(), expected, "{marked} {cordoned}");
    }
}

/// Four nodes of which two are picked at once.
fn two_picks() -> (World, Plan) {
    let mut world = super::audit::fleet(2);
    let plan = until(&mut world, is_pick);
    assert_eq!(plan.actions.iter().filter(|action| is_pick(action)).count(), 2);
    (world, plan)
}

fn breaks_ceiling(world: &World, plan: &Plan) -> bool {
    broken(world, plan).contains(&Invariant::Ceiling)
}

#[test]
fn ceiling_without_its_policy_a_resource_that_goes_lets_one_node_go_at_once() {
    for (deleting, named, broken) in
        [(true, true, true), (true, false, false), (false, true, false)]
    {
        let (mut world, plan) = two_picks();
        world.input.observed.resources.get_mut("tuning").expect("ours").deleting = deleting;
        let rollout = world.input.desired.rollouts.get_mut("tuning").expect("wanted");
        rollout.policy = named.then(|| "gone".to_owned());
        assert_eq!(breaks_ceiling(&world, &plan), broken, "{deleting} {named}");
    }
}

#[test]
fn ceiling_each_compartment_has_its_own() {
    for (count, broken) in [(1, true), (2, false)] {
        let (mut world, plan) = two_picks();
        let budget = Budget::Count(count);
        let careful = compartment("careful", selector("pool", "gpu"), budget, None);
        let policy = Policy { compartments: vec![careful], ..policy("rings", 4) };
        world.input.desired.policies.insert(policy.name.clone(), policy);
        let rollout = world.input.desired.rollouts.get_mut("tuning").expect("wanted");
        (rollout.budget, rollout.policy) = (None, Some("rings".to_owned()));
        assert_eq!(breaks_ceiling(&world, &plan), broken, "{count}");
    }
}

#[test]
fn ceiling_a_visit_counts_while_its_resource_is_the_one_that_began_it() {
    for (uid, broken) in [("uid-tuning", true), ("uid-before", false)] {
        let (mut world, plan) = two_picks();
        let mut picks = plan.actions.iter().filter(|action| is_pick(action));
        let record = picks.next().and_then(super::audit::record).expect("a pick").clone();
        let state = node(&mut world, "node-03").rollouts.entry("tuning".to_owned()).or_default();
        state.record = Some(nodewright::model::Record { cr_uid: uid.to_owned(), ..record });
        assert_eq!(breaks_ceiling(&world, &plan), broken, "{uid}");
    }
}

#[test]
fn leaving_waits_for_the_visit_and_for_the_mark_each_by_itself() {
    for (open, marked, expected) in [
        (true, false, Some(Invariant::Leaving)),
        (false, true, Some(Invariant::Leaving)),
        (false, false, None),
    ] {
        let mut world = tainted();
        let here = node(&mut world, HERE);
        here.cordons =
            marked.then(|| CordonMark::Rollout("tuning".to_owned())).into_iter().collect();
        let record = here.rollouts.get_mut("tuning").and_then(|state| state.record.as_mut());
        let record = record.expect("its record");
        record.outcome = record.outcome.take().filter(|_| !open);
        let resource = &world.input.observed.resources["tuning"];
        let write = FinalizerWrite {
            rollout: "tuning".to_owned(),
            rollout_uid: resource.uid.clone(),
            resource_version: resource.resource_version.clone(),
            present: false,
        };
        let plan = Plan { actions: vec![Action::SetFinalizer(write)], ..Plan::default() };
        assert_eq!(broken(&world, &plan).first().copied(), expected, "{open} {marked}");
    }
}
