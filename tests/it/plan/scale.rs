//! How long a plan of a large fleet takes: measured, never asserted.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark reads the machine's clock and prints"
)]

use std::time::Instant;

use nodewright::model::{Budget, InterruptKind, Package, Rollout};
use nodewright::plan::world::World;
use nodewright::plan::{audit, plan};

use super::builders::{PackageExt, WorldExt, noon, package, pod, rollout};

const NODES: u32 = 10_000;
const PACKAGES: u32 = 5;

fn packages(version: &str) -> Vec<Package> {
    let mut packages: Vec<Package> = (0..PACKAGES)
        .map(|number| package(&format!("package-{number}"), version).with_config("conf", "value"))
        .collect();
    packages[0] = packages[0].clone().interrupting(InterruptKind::Reboot);
    packages[1] = packages[1].clone().after("package-0", version);
    packages
}

fn measure(name: &str, world: &World) {
    let began = Instant::now();
    let planned = plan(&world.input);
    let planning = began.elapsed();
    let breaches = audit(&world.input, &planned);
    let auditing = began.elapsed() - planning;
    assert_eq!(breaches, vec![]);
    println!(
        "{name}: planned in {} ms, audited in {} ms, {} actions",
        planning.as_millis(),
        auditing.as_millis(),
        planned.actions.len()
    );
}

/// Puts what a finished visit leaves on one node on all of them.
fn complete(mut world: World, wanted: &Rollout) -> World {
    let mut one = World::new(noon());
    one.add_node("node-00000", &[("pool", "gpu")]);
    one.set_rollout(wanted.clone());
    one.run();
    let done = one.input.observed.nodes["node-00000"].rollouts.clone();
    for (order, node) in (0..).zip(world.input.observed.nodes.values_mut()) {
        node.rollouts.clone_from(&done);
        node.unschedulable = false;
        node.cordons.clear();
        for state in node.rollouts.values_mut() {
            let record = state.record.as_mut().expect("a visit left its record");
            record.node_uid.clone_from(&node.uid);
            record.order = order;
        }
    }
    world.input.observed.executors.clear();
    let status = world.input.observed.resources.get_mut("tuning").expect("our resource");
    status.status = None;
    world.settle();
    world
}

#[test]
#[ignore = "a benchmark: cargo test --release -- --ignored --nocapture plan::scale"]
fn ten_thousand_nodes_and_five_packages() {
    let mut world = World::new(noon());
    for number in 0..NODES {
        world.add_node(&format!("node-{number:05}"), &[("pool", "gpu")]);
    }
    let mut wanted = rollout(1, packages("1.0.0"));
    wanted.budget = Some(Budget::Percent(1));
    world.set_rollout(wanted.clone());
    measure("nothing installed", &world);
    world.settle();
    measure("100 nodes under way", &world);
    for number in 0..NODES {
        let node = format!("node-{number:05}");
        for index in 0..20 {
            world.add_pod(pod(&node, &format!("pod-{number}-{index}"), &[("app", "web")]));
        }
    }
    measure("100 nodes under way, 200,000 pods", &world);
    world.input.observed.pods.clear();
    let mut everywhere = complete(world, &wanted);
    assert!(everywhere.is_complete());
    measure("complete", &everywhere);
    let mut upgrade = rollout(1, packages("1.1.0"));
    upgrade.budget = Some(Budget::Percent(100));
    everywhere.set_rollout(upgrade);
    measure("an upgrade of everything", &everywhere);
    everywhere.settle();
    measure("10,000 nodes under way", &everywhere);
}
