//! What `nodewright adopt` says of a cluster in the middle of everything.

use nodewright::model::{CordonMark, ExecutorPhase, InterruptKind, Stage};
use nodewright::plan::world::World;
use nodewright::report::{Adoption, adoption};

use super::super::builders::{PackageExt, package, rollout, world};
use super::{cordon, job, leave, upstream};

fn said(world: &World) -> Adoption {
    adoption(&world.input, &nodewright::plan::plan(&world.input))
}

#[test]
fn every_node_is_told_of() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(7, rollout(7, vec![kernel]));
    for node in ["node-00", "node-01"] {
        leave(&mut world, node, &[("kernel", "1.0.0", "post-interrupt", "complete")]);
    }
    leave(&mut world, "node-02", &[("kernel", "1.0.0", "apply", "in_progress")]);
    cordon(&mut world, "node-02");
    job(&mut world, "node-02", "kernel", Stage::Apply, ExecutorPhase::Running);
    leave(
        &mut world,
        "node-03",
        &[("kernel", "1.0.0", "config", "erroring"), ("old", "1.0.0", "config", "complete")],
    );
    leave(&mut world, "node-04", &[("kernel", "1.0.0", "interrupt", "complete")]);
    let nodes = &mut world.input.observed.nodes;
    let node = nodes.get_mut("node-04").expect("the node");
    node.unschedulable = true;
    node.rollouts.get_mut("tuning").expect("left").legacy = true;
    let node = nodes.get_mut("node-05").expect("the node");
    let state = node.rollouts.entry("tuning".to_owned()).or_default();
    state.malformed = Some("nodeState: EOF at line 1".to_owned());
    node.unschedulable = true;
    node.cordons.push(CordonMark::Rollout("other".to_owned()));
    let now = world.input.now;
    let left = upstream(&mut world);
    left.node_order_offset = 3;
    left.node_priority.insert("node-02".to_owned(), now);
    let Adoption { summary, details, malformed } = said(&world);
    assert_eq!(
        summary,
        ["rollout tuning: 7 nodes, 2 complete as they are, 2 go on where upstream left them, \
          1 wait for what upstream still runs, 1 cannot be read and are left alone, 1 have work \
          that upstream had not begun"]
    );
    assert_eq!(malformed, ["tuning node-05: nodeState: EOF at line 1"]);
    insta::assert_snapshot!(details.join("\n"));
}

#[test]
fn a_complete_cluster_has_little_to_say() {
    let mut world = world(12, rollout(1, vec![package("kernel", "1.0.0")]));
    let names: Vec<String> = world.input.observed.nodes.keys().cloned().collect();
    for node in &names {
        leave(&mut world, node, &[("kernel", "1.0.0", "config", "complete")]);
    }
    let Adoption { details, malformed, .. } = said(&world);
    assert!(malformed.is_empty());
    assert_eq!(
        details,
        [
            "rollout tuning: 12 nodes, 12 complete as they are".to_owned(),
            format!("  complete as is: {} and 2 more", names[..10].join(", ")),
        ]
    );
}
