//! What others left on a node, in the middle of something: nothing hangs, nothing is done twice.

use nodewright::model::{InterruptKind, Stage, State};
use nodewright::plan::world::{End, World};

use super::super::builders::{PackageExt, WorldExt, package, rollout, world};

fn leave(world: &mut World, stage: Stage, state: State) {
    let text = r#"{"kernel|1.0.0":{
        "name":"kernel","version":"1.0.0","stage":"config","state":"unknown"}}"#;
    let node = world.input.observed.nodes.get_mut("node-00").expect("the node");
    let left = node.rollouts.entry("tuning".to_owned()).or_default();
    left.entries = serde_json::from_str(text).expect("upstream's shape");
    for entry in left.entries.values_mut() {
        (entry.stage, entry.state) = (stage, state);
    }
    left.entries_text = Some(text.to_owned());
}

#[test]
fn whatever_upstream_left_is_brought_to_its_end() {
    let stages = [
        Stage::Uninstall,
        Stage::UninstallInterrupt,
        Stage::Upgrade,
        Stage::Apply,
        Stage::Config,
        Stage::Interrupt,
        Stage::PostInterrupt,
    ];
    let states =
        [State::InProgress, State::Complete, State::Skipped, State::Erroring, State::Unknown];
    for kind in [None, Some(InterruptKind::Reboot)] {
        for (stage, state) in stages.iter().flat_map(|stage| states.map(|state| (*stage, state))) {
            let kernel = package("kernel", "1.0.0");
            let kernel = kind.map_or(kernel.clone(), |kind| kernel.interrupting(kind));
            let mut world = world(1, rollout(1, vec![kernel]));
            leave(&mut world, stage, state);
            world.run();
            assert!(world.is_complete(), "{stage} {state}, {kind:?}: {}", world.verdict("node-00"));
            let behind = stage == Stage::PostInterrupt
                || (stage == Stage::Interrupt && state == State::Complete);
            // An uninstall that waits for its interrupt cannot be cancelled: it gets it first.
            let taken_off = stage == Stage::UninstallInterrupt && state != State::Complete;
            let reboots = u32::from(kind.is_some()) * (u32::from(!behind) + u32::from(taken_off));
            let rebooted = world.reboots.get("node-00").copied().unwrap_or(0);
            assert_eq!(rebooted, reboots, "{stage} {state}, {kind:?}");
        }
    }
}

#[test]
fn a_state_that_nobody_knows_in_the_middle_of_a_visit_is_begun_anew() {
    for stage in [Stage::Uninstall, Stage::Apply, Stage::Config, Stage::PostInterrupt] {
        for state in [State::Unknown, State::Skipped, State::Complete] {
            let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
            world.settle();
            let node = world.input.observed.nodes.get_mut("node-00").expect("the node");
            let left = node.rollouts.get_mut("tuning").expect("a visit");
            for entry in left.entries.values_mut() {
                (entry.stage, entry.state) = (stage, state);
            }
            world.run();
            assert!(world.is_complete(), "{stage} {state}: {}", world.verdict("node-00"));
        }
    }
}

#[test]
fn an_interrupt_that_failed_is_still_owed_when_the_manifest_loses_it() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Service);
    let mut world = world(1, rollout(1, vec![kernel]));
    world.settle();
    world.finish_all(End::Success);
    for _ in 0..4 {
        world.settle();
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
    }
    assert!(world.verdict("node-00").starts_with("Blocked: interrupt of kernel|1.0.0 failed 4"));
    world.set_rollout(rollout(1, vec![package("kernel", "1.0.0")]));
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 post-interrupt complete");
    let node = &world.input.observed.nodes["node-00"];
    assert!(!node.unschedulable && node.cordons.is_empty(), "and the node is let go");
}
