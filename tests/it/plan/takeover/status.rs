//! What upstream remembers in a status is imported first and dropped last.

use nodewright::model::{
    Action, BatchState, DEFAULT_COMPARTMENT, ExecutorPhase, InterruptKind, Stage, State,
    StatusWord, UpstreamMaps,
};
use nodewright::plan::world::{End, Fate, World};

use super::super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::{leave, ran, upstream};

fn status_writes(world: &mut World) -> Vec<(u32, UpstreamMaps)> {
    let (plan, breaches, _) = world.tick(|_| Fate::Done);
    assert_eq!(breaches, []);
    let writes = plan.actions.iter().filter_map(|action| match action {
        Action::WriteStatus(write) => Some((write.status.memory.order_next, write.upstream)),
        _ => None,
    });
    writes.collect()
}

#[test]
fn order_numbers_go_on_above_those_that_upstream_gave() {
    let mut world = world(3, rollout(1, vec![package("kernel", "1.0.0")]));
    let now = world.input.now;
    let left = upstream(&mut world);
    left.node_order_offset = 7;
    left.node_priority.insert("node-02".to_owned(), now);
    leave(&mut world, "node-02", &[("kernel", "1.0.0", "apply", "in_progress")]);
    world.run();
    assert!(world.is_complete());
    let orders: Vec<u32> = world
        .input
        .observed
        .nodes
        .values()
        .map(|node| node.rollouts["tuning"].record.as_ref().expect("a visit").order)
        .collect();
    assert_eq!(orders, [9, 10, 8], "node-02 was of upstream's batch and goes first");
}

#[test]
fn the_maps_stay_until_every_node_in_them_is_taken_up() {
    let mut world = world(2, rollout(1, vec![package("kernel", "1.0.0")]));
    let now = world.input.now;
    upstream(&mut world).node_priority.insert("node-01".to_owned(), now);
    leave(&mut world, "node-00", &[("kernel", "1.0.0", "config", "complete")]);
    leave(&mut world, "node-01", &[("kernel", "1.0.0", "apply", "in_progress")]);
    let first = status_writes(&mut world);
    assert_eq!(first, [(2, UpstreamMaps::Keep)], "imported, and a number reserved");
    let mut later = Vec::new();
    for _ in 0..6 {
        later.extend(status_writes(&mut world));
    }
    assert!(later.iter().any(|(_, maps)| *maps == UpstreamMaps::Drop), "{later:?}");
    let record = world.input.observed.nodes["node-01"].rollouts["tuning"].record.clone();
    assert!(record.is_some(), "by then the node has a record of ours");
    assert_eq!(world.input.observed.resources["tuning"].upstream, None);
    world.run();
    assert!(world.is_complete());
}

#[test]
fn a_complete_cluster_forgets_the_maps_in_the_second_write() {
    let mut world = world(2, rollout(1, vec![package("kernel", "1.0.0")]));
    upstream(&mut world).node_order_offset = 2;
    for node in ["node-00", "node-01"] {
        leave(&mut world, node, &[("kernel", "1.0.0", "config", "complete")]);
    }
    assert_eq!(status_writes(&mut world), [(2, UpstreamMaps::Keep)]);
    assert_eq!(status_writes(&mut world), [(2, UpstreamMaps::Drop)]);
    assert_eq!(status_writes(&mut world), [], "and then there is nothing to write");
}

#[test]
fn a_compartment_that_upstream_stopped_stays_stopped() {
    let mut world = world(2, rollout(1, vec![package("kernel", "1.0.0")]));
    let state = BatchState {
        current_batch: 4,
        consecutive_failures: 2,
        should_stop: true,
        ..BatchState::default()
    };
    upstream(&mut world).batches.insert(DEFAULT_COMPARTMENT.to_owned(), state.clone());
    world.settle();
    assert!(world.verdict("node-00").starts_with("Blocked: stopped after 2 failed batches"));
    let status = world.input.observed.resources["tuning"].status.clone().expect("written");
    assert_eq!(status.memory.compartments[DEFAULT_COMPARTMENT].batch_state, state);
}

/// B.2: while config updates are recorded, they alone say whether a package is interrupted.
#[test]
fn a_config_change_that_needs_no_interrupt_gets_none_from_us_either() {
    let kernel = || {
        package("kernel", "1.0.0")
            .interrupting(InterruptKind::Reboot)
            .with_config("grub", "1")
            .with_config("motd", "1")
            .on_config("grub", InterruptKind::Reboot)
    };
    for (stage, key, state, reboots) in [
        ("config", "motd", "in_progress", 0),
        ("config", "motd", "complete", 0),
        ("config", "grub", "in_progress", 1),
        ("config", "grub", "complete", 1),
        // It is installed: older updates are not about it.
        ("apply", "motd", "in_progress", 1),
    ] {
        let mut world = world(1, rollout(1, vec![kernel()]));
        let updates = &mut upstream(&mut world).config_updates;
        updates.entry("kernel".to_owned()).or_default().insert(key.to_owned());
        leave(&mut world, "node-00", &[("kernel", "1.0.0", stage, state)]);
        world.run();
        assert!(world.is_complete(), "{key} {state}: {}", world.verdict("node-00"));
        let rebooted = world.reboots.get("node-00").copied().unwrap_or(0);
        assert_eq!(rebooted, reboots, "{key} {state}");
        assert_eq!(world.input.observed.resources["tuning"].upstream, None, "{key} {state}");
        let before = ran(&world, "node-00").len();
        world.run();
        assert_eq!(ran(&world, "node-00").len(), before, "also once the maps are gone");
    }
}

#[test]
fn a_node_that_upstream_called_complete_is_complete() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![kernel]));
    leave(&mut world, "node-00", &[("kernel", "1.0.0", "config", "complete")]);
    let node = world.input.observed.nodes.get_mut("node-00").expect("the node");
    let state = node.rollouts.get_mut("tuning").expect("left");
    state.status = Some(StatusWord::Complete);
    world.run();
    assert!(world.is_complete());
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 post-interrupt complete");
    assert_eq!((ran(&world, "node-00").len(), world.reboots.len()), (0, 0));
}

#[test]
fn two_rollouts_are_credited_on_one_node_one_after_the_other() {
    let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
    let mut second = rollout(1, vec![package("kernel", "1.0.0")]);
    second.name = "second".to_owned();
    world.set_rollout(second);
    leave(&mut world, "node-00", &[("kernel", "1.0.0", "config", "in_progress")]);
    super::job(&mut world, "node-00", "kernel", Stage::Config, ExecutorPhase::Succeeded);
    let observed = &mut world.input.observed;
    let node = observed.nodes.get_mut("node-00").expect("the node");
    let state = node.rollouts["tuning"].clone();
    node.rollouts.insert("second".to_owned(), state);
    let mut work = observed.upstream.values().next().expect("one").clone();
    work.rollout = "second".to_owned();
    work.reference.name = "second".to_owned();
    observed.upstream.insert("second".to_owned(), work);
    world.settle();
    assert!(world.finish_all(End::Success) == 0 && world.completed.is_empty());
    assert!(world.input.observed.upstream.is_empty());
    let node = &world.input.observed.nodes["node-00"];
    for state in node.rollouts.values() {
        let all = state.entries.values().all(|entry| entry.is(Stage::Config, State::Complete));
        assert!(all, "{:?}", state.entries);
    }
}
