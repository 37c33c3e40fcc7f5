//! Never more nodes disturbed than the budget says, whatever the change: looked at before each
//! write, with dead nodes, and with a second daemon whose caches lag.

use std::collections::BTreeSet;

use nodewright::model::{
    Action, Desired, InterruptKind, Node, Observed, Record, Rollout, StatusWord,
};
use nodewright::plan::world::{End, Fate, World};

use super::super::builders::{PackageExt, WorldExt, package, rollout, world};

/// Nodes of the fleet, and how many of them may be disturbed at once.
const NODES: u32 = 40;
const COUNT: u32 = 3;

/// How long the caches of the second daemon lag behind.
const LAG_SECONDS: i64 = 10;

/// Three ways to change what is installed.
fn changes() -> [(&'static str, Rollout); 3] {
    let installed = || {
        package("kernel", "1.0.0")
            .interrupting(InterruptKind::Reboot)
            .with_config("sysctl.conf", "a")
            .on_config("sysctl.conf", InterruptKind::Reboot)
            .with_uninstall()
    };
    let mut newer = installed();
    newer.version = "1.1.0".parse().expect("a version");
    [
        ("an upgrade", rollout(COUNT, vec![newer])),
        ("a config change", rollout(COUNT, vec![installed().with_config("sysctl.conf", "b")])),
        ("an uninstall", rollout(COUNT, vec![installed().asked_to_go()])),
    ]
}

/// A fleet that has everything, before the change.
fn installed() -> World {
    let before = package("kernel", "1.0.0")
        .interrupting(InterruptKind::Reboot)
        .with_config("sysctl.conf", "a")
        .on_config("sysctl.conf", InterruptKind::Reboot)
        .with_uninstall();
    let mut world = world(NODES, rollout(COUNT, vec![before]));
    world.run();
    assert!(world.is_complete());
    world
}

/// Who is disturbed that was not down before the start.
fn disturbed(world: &World, dead: &BTreeSet<String>) -> Vec<String> {
    let is_down = |node: &&Node| {
        let open = node.record("tuning", "uid-tuning").is_some_and(Record::is_open);
        (node.unschedulable || !node.ready || open) && !dead.contains(&node.name)
    };
    world.input.observed.nodes.values().filter(is_down).map(|node| node.name.clone()).collect()
}

/// Ticks, and looks at the world right before each write and after the last.
fn tick(world: &mut World, dead: &BTreeSet<String>) -> usize {
    let too_many = |world: &World| {
        let names = disturbed(world, dead);
        (names.len() > COUNT as usize).then(|| format!("{} at once: {names:?}", names.len()))
    };
    let tick = world.tick_watched(|_, _| Fate::Done, |world, _: &Action| too_many(world));
    assert_eq!(tick.breaches, vec![], "the audit disagrees with a plan");
    assert_eq!(tick.objections, Vec::<String>::new());
    assert_eq!(too_many(world), None);
    tick.done
}

/// Plays to the end; returns how many were disturbed at most.
fn play(world: &mut World, dead: &BTreeSet<String>) -> usize {
    let mut most = 0;
    for _ in 0..2_000 {
        while tick(world, dead) > 0 {
            most = most.max(disturbed(world, dead).len());
        }
        if world.finish_all(End::Success) == 0 {
            return most;
        }
    }
    panic!("the rollout does not end");
}

fn word(world: &World) -> StatusWord {
    world.input.observed.resources["tuning"].status.as_ref().expect("a status").word
}

#[test]
fn never_more_than_the_budget_are_disturbed_by_any_change() {
    for (what, wanted) in changes() {
        let mut world = installed();
        world.set_rollout(wanted);
        let most = play(&mut world, &BTreeSet::new());
        assert_eq!(most, COUNT as usize, "{what} uses its budget");
        assert!(world.is_complete(), "{what}");
        assert_eq!(world.reboots.values().sum::<u32>(), 2 * NODES, "{what}");
    }
}

#[test]
fn five_dead_nodes_cost_no_budget_and_the_rollout_completes_without_them() {
    for (what, wanted) in changes() {
        let mut world = installed();
        let dead: BTreeSet<String> =
            (0..5).map(|number| format!("node-{:02}", 7 * number)).collect();
        dead.iter().for_each(|name| world.go_down(name));
        world.pass(2 * 3_600);
        world.set_rollout(wanted);
        let most = play(&mut world, &dead);
        assert_eq!(most, COUNT as usize, "{what} uses its budget");
        assert_eq!(word(&world), StatusWord::Complete, "{what}");
        let status = world.input.observed.resources["tuning"].status.clone().expect("a status");
        let ready = status.conditions.iter().find(|it| it.kind == "Ready").expect("Ready");
        assert!(ready.is_true, "{what}: {ready:?}");
        let names = "node-00, node-07, node-14, node-21, node-28";
        assert_eq!(
            ready.message,
            format!("35/40 nodes complete, except 5 in repair ({names})"),
            "{what}"
        );
        assert_eq!(world.reboots.values().sum::<u32>(), NODES + NODES - 5, "{what}");

        dead.iter().for_each(|name| world.come_back(name));
        let most = play(&mut world, &BTreeSet::new());
        assert_eq!(most, COUNT as usize, "{what}: they are caught up, paced like any change");
        assert!(world.is_complete(), "{what}");
    }
}

/// Both think that they lead. The second reads nothing but the answers to its own writes, and
/// everything anew after each lag.
#[test]
fn a_second_daemon_whose_caches_lag_breaks_no_budget() {
    for (what, wanted) in changes() {
        let mut world = installed();
        let before = (world.input.desired.clone(), world.input.observed.clone());
        world.set_rollout(wanted);
        let mut late: (Desired, Observed) = before;
        let mut read = world.input.now;
        let none = BTreeSet::new();
        for round in 0..4_000 {
            world.catch_up();
            let first = tick(&mut world, &none);
            world.see(late.0, late.1);
            let second = tick(&mut world, &none);
            late = (world.known_desired().clone(), world.known().clone());
            if world.input.now.duration_since(read).as_secs() >= LAG_SECONDS {
                read = world.input.now;
                late = (world.input.desired.clone(), world.input.observed.clone());
            }
            world.pass(1);
            // Executors end at their own times, so that both meet every state in between.
            let active = world.active();
            if let Some(name) = active.get(round % (active.len() + 1)) {
                world.end(name, End::Success);
            }
            let idle = first + second == 0 && active.is_empty();
            world.catch_up();
            if idle && world.is_complete() {
                break;
            }
        }
        assert!(world.is_complete(), "{what}");
        assert_eq!(world.reboots.values().sum::<u32>(), 2 * NODES, "{what}: each rebooted once");
    }
}
