//! The audit of leaving: nobody is left behind by a resource that goes.

use nodewright::model::{Action, FinalizerWrite, InterruptKind, NodeCleaning, Plan};
use nodewright::plan::world::World;
use nodewright::plan::{Invariant, audit};

use super::builders::{PackageExt, WorldExt, package, rollout, world};

/// A world with a node in a visit, whose resource is being deleted.
fn leaving() -> World {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![kernel]));
    world.settle();
    world.input.observed.resources.get_mut("tuning").expect("ours").deleting = true;
    world
}

fn broken(world: &World, action: Action) -> Vec<Invariant> {
    let plan = Plan { actions: vec![action], ..Plan::default() };
    audit(&world.input, &plan).into_iter().map(|breach| breach.invariant).collect()
}

fn finalizer(world: &World, present: bool) -> Action {
    let resource = &world.input.observed.resources["tuning"];
    Action::SetFinalizer(FinalizerWrite {
        rollout: "tuning".to_owned(),
        rollout_uid: resource.uid.clone(),
        resource_version: resource.resource_version.clone(),
        present,
    })
}

fn cleaning(world: &World) -> Action {
    let node = &world.input.observed.nodes["node-00"];
    Action::CleanNode(NodeCleaning {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        rollout: "tuning".to_owned(),
        keep_entries: true,
    })
}

#[test]
fn leaving_while_a_node_is_held() {
    let mut world = leaving();
    assert_eq!(broken(&world, finalizer(&world, false)), [Invariant::Leaving]);
    assert_eq!(broken(&world, cleaning(&world)), [Invariant::Leaving]);
    assert_eq!(broken(&world, finalizer(&world, true)), []);
    let node = world.input.observed.nodes.get_mut("node-00").expect("there");
    node.rollouts.clear();
    node.cordons.clear();
    assert_eq!(broken(&world, cleaning(&world)), []);
    let running = broken(&world, finalizer(&world, false));
    assert_eq!(running, [Invariant::Leaving], "its executor still runs");
    world.input.observed.executors.clear();
    assert_eq!(broken(&world, finalizer(&world, false)), []);
}

#[test]
fn leaving_a_node_cleaned_for_a_resource_that_stays() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    world.run();
    assert_eq!(broken(&world, cleaning(&world)), [Invariant::Leaving]);
}

#[test]
fn leaving_is_asked_for_before_anybody_is_picked() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    let picks = |action: &Action| action.word() == "pick";
    let plan = loop {
        let plan = nodewright::plan::plan(&world.input);
        if plan.actions.iter().any(picks) {
            break plan;
        }
        let _planned = world.tick(|_| nodewright::plan::world::Fate::Done);
    };
    assert_eq!(audit(&world.input, &plan), []);
    world.input.observed.resources.get_mut("tuning").expect("ours").finalizer = false;
    let breaches = audit(&world.input, &plan);
    assert_eq!(breaches.len(), 1, "{breaches:?}");
    assert_eq!(breaches[0].invariant, Invariant::Leaving);
}
