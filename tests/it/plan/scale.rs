//! How long a plan of a large fleet takes: measured, never asserted.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark reads the machine's clock and prints"
)]

use std::time::Instant;

use nodewright::model::{Budget, InterruptKind, Package};
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
    let mut everywhere = world.clone();
    wanted.budget = Some(Budget::Percent(100));
    everywhere.set_rollout(wanted);
    for pods in everywhere.input.observed.pods.values_mut() {
        pods.clear();
    }
    everywhere.run();
    assert!(everywhere.is_complete());
    measure("complete", &everywhere);
    let mut upgrade = rollout(1, packages("1.1.0"));
    upgrade.budget = Some(Budget::Percent(100));
    everywhere.set_rollout(upgrade);
    measure("an upgrade of everything", &everywhere);
    everywhere.settle();
    measure("10,000 nodes under way", &everywhere);
}
