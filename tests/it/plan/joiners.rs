//! A node that joins a compartment that was stopped gets what was complete there before.

use nodewright::model::{
    Budget, CompletedPackages, Floor, InterruptKind, Node, Package, Reason, Record, Rollout,
    StatusWord,
};
use nodewright::plan::plan;
use nodewright::plan::world::{End, World};

use super::builders::{
    PackageExt, WorldExt, noon, package, policy, rollout, world, world as world_of,
};
use super::policies::forecasts::{by_policy, compartment, fleet, play, rings, selector};

fn kernel(version: &str) -> Package {
    package("kernel", version).interrupting(InterruptKind::Reboot).with_config("a", version)
}

/// A version that fails beside the workloads, so that nobody stays cordoned for it.
fn broken() -> Package {
    package("kernel", "2.0.0")
}

/// Six nodes that have 1.0.0; the rollout of 2.0.0 was stopped after two of them failed.
fn stopped() -> World {
    let mut world = world(6, rollout(2, vec![kernel("1.0.0"), package("motd", "1.0.0")]));
    world.run();
    assert!(world.is_complete());
    world.set_rollout(rollout(1, vec![broken(), package("motd", "1.0.0")]));
    fail(&mut world);
    assert!(world.verdict("node-05").starts_with("Blocked: stopped after 2 failed batches"));
    world
}

/// Plays until nothing happens any more; whatever runs fails.
fn fail(world: &mut World) {
    for _ in 0..40 {
        world.settle();
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
    }
}

fn open(world: &World) -> Vec<String> {
    let nodes = world.input.observed.nodes.values();
    let is_open = |node: &&Node| node.record("tuning", "uid-tuning").is_some_and(Record::is_open);
    nodes.filter(is_open).map(|node| node.name.clone()).collect()
}

fn word(world: &World) -> StatusWord {
    plan(&world.input).statuses["tuning"].word
}

#[test]
fn it_gets_what_was_complete_and_the_stop_stays() {
    let mut world = stopped();
    let counters = |world: &World| {
        let status = world.input.observed.resources["tuning"].status.clone().expect("a status");
        status.memory.compartments["__default__"].batch_state.clone()
    };
    let before = counters(&world);
    for name in ["new-1", "new-2", "new-3"] {
        world.add_node(name, &[]);
        world.pass(1);
    }
    world.settle();
    assert_eq!(open(&world), ["new-1"], "the ceiling holds for them, too");
    assert!(world.verdict("new-2").starts_with("Wait: "), "{}", world.verdict("new-2"));
    world.run();
    for name in ["new-1", "new-2", "new-3"] {
        assert_eq!(world.entry(name, "kernel"), "1.0.0 post-interrupt complete", "{name}");
        assert_eq!(world.entry(name, "motd"), "1.0.0 config complete", "{name}");
        assert_eq!(world.reboots[name], 1, "{name}");
        let node = &world.input.observed.nodes[name];
        assert!(!node.unschedulable && node.cordons.is_empty(), "{name}: {node:?}");
        assert!(world.verdict(name).starts_with("Blocked: stopped after 2"), "as others");
    }
    assert_eq!(counters(&world), before, "nobody who joins counts for the rollout");
    assert_eq!(word(&world), StatusWord::Blocked);

    // A commit goes on from there, with them as with all others.
    world.set_rollout(rollout(4, vec![kernel("3.0.0"), package("motd", "1.0.0")]));
    world.run();
    assert!(world.is_complete());
    assert_eq!(world.entry("new-2", "kernel"), "3.0.0 post-interrupt complete");
}

#[test]
fn without_anything_complete_before_it_waits() {
    let mut world = world(6, rollout(1, vec![broken()]));
    fail(&mut world);
    world.add_node("new-1", &[]);
    world.run();
    let verdict = world.verdict("new-1");
    assert!(verdict.starts_with("Blocked: stopped after 2"), "{verdict}");
    assert_eq!(world.entry("new-1", "kernel"), "none");
}

/// A commit, a reset of the batches, or a deletion comes while a node that joins is on its way.
#[test]
fn what_changes_meanwhile_takes_the_node_along() {
    type Change = fn(&mut World);
    let changes: [(&str, Change, &str); 3] = [
        ("a commit", |world| world.set_rollout(rollout(4, vec![kernel("3.0.0")])), "3.0.0 "),
        (
            "a reset",
            |world| {
                let resource = world.input.observed.resources.get_mut("tuning").expect("ours");
                let status = resource.status.as_mut().expect("a status");
                for compartment in status.memory.compartments.values_mut() {
                    compartment.batch_state = nodewright::model::BatchState::default();
                }
            },
            "2.0.0 ",
        ),
        (
            "a deletion",
            |world| {
                world.input.observed.resources.get_mut("tuning").expect("ours").deleting = true;
            },
            "",
        ),
    ];
    for (what, change, end) in changes {
        for steps in 0..8 {
            let mut world = stopped();
            world.add_node("new-1", &[]);
            for _ in 0..steps {
                let tick = world.tick(|_| nodewright::plan::world::Fate::Done);
                assert_eq!(tick.1, vec![], "{what} after {steps}");
                if tick.2 == 0 {
                    world.finish_all(End::Success);
                }
            }
            change(&mut world);
            world.run();
            let node = &world.input.observed.nodes["new-1"];
            assert!(!node.unschedulable && node.cordons.is_empty(), "{what} after {steps}");
            assert_eq!(open(&world).len(), 0, "{what} after {steps}");
            if !end.is_empty() {
                let entry = world.entry("new-1", "kernel");
                let is_there = entry.starts_with(end) && entry.ends_with(" complete");
                assert!(is_there, "{what} after {steps}: {entry}");
            }
            let reboots = world.reboots.get("new-1").copied().unwrap_or(0);
            assert!(reboots <= 2, "{what} after {steps}: {reboots}");
        }
    }
}

/// What was complete fails on a new machine: one node tells, the next ones wait for a person.
#[test]
fn where_one_fails_no_other_begins() {
    let mut world = stopped();
    world.set_rollout(rollout(3, vec![broken(), package("motd", "1.0.0")]));
    world.add_node("new-1", &[]);
    world.pass(1);
    fail(&mut world);
    assert!(world.verdict("new-1").starts_with("Blocked: "), "{}", world.verdict("new-1"));
    assert!(world.verdict("new-1").contains("kernel|1.0.0 failed 4 times"));
    world.add_node("new-2", &[]);
    world.run();
    assert_eq!(world.entry("new-2", "kernel"), "none");
    assert!(world.verdict("new-2").starts_with("Blocked: stopped after 2"));
}

/// One whose host was replaced has nothing any more; one that has anything of the rollout stays.
#[test]
fn who_has_nothing_joins_and_who_has_something_does_not() {
    let mut world = stopped();
    world.set_rollout(rollout(6, vec![broken(), package("motd", "1.0.0")]));
    world.change_node("node-04", |node| {
        node.machine_id = "another".to_owned();
        node.boot_id = "boot-another".to_owned();
    });
    // One that only lost a package is as it was when the rollout was stopped.
    world.change_node("node-05", |node| {
        let state = node.rollouts.get_mut("tuning").expect("ours");
        state.entries.remove(&package("motd", "1.0.0").id());
        state.entries_text = Some("edited".to_owned());
    });
    let (four, five) = (world.completed.len(), world.reboots["node-05"]);
    world.run();
    assert!(world.completed.len() > four);
    assert_eq!(world.entry("node-04", "kernel"), "1.0.0 post-interrupt complete");
    assert_eq!((world.entry("node-05", "motd").as_str(), world.reboots["node-05"]), ("none", five));
}

/// What stays for nodes that join is gone once something newer is complete everywhere.
#[test]
fn snapshots_of_what_was_complete_stay_as_long_as_they_are_needed() {
    let mut world = stopped();
    let versions = |world: &World| {
        let snapshots = world.input.observed.snapshots.values();
        let kernels = snapshots.filter(|it| it.package.name == "kernel");
        let mut all: Vec<String> = kernels.map(|it| it.package.version.to_string()).collect();
        all.sort();
        all
    };
    assert_eq!(versions(&world), ["1.0.0", "2.0.0"]);
    let gone: Vec<String> = world.input.observed.nodes.keys().cloned().collect();
    gone.iter().for_each(|name| drop(world.input.observed.nodes.remove(name)));
    world.run();
    assert_eq!(versions(&world), ["1.0.0", "2.0.0"], "no node names them any more");
    world.add_node("new-1", &[]);
    world.run();
    assert_eq!(world.entry("new-1", "kernel"), "1.0.0 post-interrupt complete");
    world.set_rollout(rollout(2, vec![kernel("3.0.0")]));
    world.run();
    world.pass(600);
    world.run();
    assert!(world.is_complete());
    assert_eq!(versions(&world), ["3.0.0"]);
}

/// Upstream's floor says how fast a rollout goes, and nothing of nodes that join.
#[test]
fn it_is_the_same_without_the_floor() {
    let mut world = stopped();
    world.set_rollout(rollout(3, vec![broken(), package("motd", "1.0.0")]));
    world.input.floor = Floor::upstream();
    world.add_node("new-1", &[]);
    world.run();
    assert_eq!(world.entry("new-1", "kernel"), "1.0.0 post-interrupt complete");
}

#[test]
fn the_outlook_of_a_stop_knows_nothing_of_them() {
    let mut world = stopped();
    world.set_rollout(rollout(3, vec![broken(), package("motd", "1.0.0")]));
    let before = plan(&world.input).outlooks["tuning"]["__default__"].clone();
    world.add_node("new-1", &[]);
    world.settle();
    assert_eq!(open(&world), ["new-1"]);
    let now = plan(&world.input).outlooks["tuning"]["__default__"].clone();
    assert_eq!((&now.open, &now.stopped, now.failed), (&None, &before.stopped, before.failed));
    let verdicts = plan(&world.input).verdicts.remove("tuning").expect("planned");
    let stopped = verdicts.values().filter(|it| matches!(it.reason, Reason::Stopped { .. }));
    assert_eq!(stopped.count(), 4);
}

/// Compartments have what was complete in each of them, and a set that does not fit is forgotten.
#[test]
fn each_compartment_remembers_its_own_and_only_so_much() {
    let mut world = fleet(2, 2, rings());
    play(&mut world, |_| false);
    assert_eq!(sets(&world).len(), 1);
    assert_eq!(sets(&world)[0].compartments.len(), 2);
    world.set_rollout(by_policy("2.0.0"));
    play(&mut world, |node| node.starts_with("production"));
    let both = sets(&world);
    let names = |at: usize| both[at].compartments.iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!((names(0), names(1)), (vec!["production"], vec!["__default__"]));

    let many = (0..100).map(|number| package(&format!("package-of-many-{number:03}"), "1.0.0"));
    let mut world = world_of(2, rollout(2, many.collect()));
    world.run();
    assert!(world.is_complete());
    assert_eq!(sets(&world), vec![]);
}

/// Packages whose names have so many characters.
fn named(characters: &[usize], version: &str) -> Vec<Package> {
    let names = characters.iter().enumerate();
    names.map(|(number, characters)| package(&format!("{number:0>characters$}"), version)).collect()
}

fn sets(world: &World) -> Vec<CompletedPackages> {
    let status = world.input.observed.resources["tuning"].status.clone().expect("a status");
    status.memory.completed
}

/// Each name has three marks around it in a status: 14 characters of `__default__` and, for each
/// package, its own name, 19 of its snapshot's and 6 marks.
#[test]
fn what_was_complete_is_remembered_up_to_four_kilobytes() {
    for (last, is_remembered) in [(487, true), (488, false)] {
        let packages = named(&[485, 485, 485, 485, 485, 485, 485, last], "1.0.0");
        let mut world = world_of(1, rollout(1, packages));
        world.run();
        assert!(world.is_complete());
        assert_eq!(sets(&world).len(), usize::from(is_remembered), "{last}");
    }
}

#[test]
fn of_too_much_that_was_complete_the_oldest_is_forgotten() {
    let ring = |name: &str| compartment(name, selector("ring", name), Budget::Count(1), None);
    let mut rings = policy("rings", 1);
    rings.compartments = vec![ring("a"), ring("b")];
    let version = |version: &str| {
        let packages = named(&[475; 5], version).into_iter();
        let packages = packages.map(|package| (package.name.clone(), package)).collect();
        Rollout { packages, ..by_policy("1.0.0") }
    };
    let mut world = World::new(noon());
    for name in ["a", "b", "c"] {
        world.add_node(name, &[("ring", name)]);
    }
    world.input.floor.stop_after = None;
    world.input.desired.policies.insert("rings".to_owned(), rings);
    for (wanted, fails) in [("1.0.0", &[][..]), ("2.0.0", &["a"]), ("3.0.0", &["a", "b"])] {
        world.set_rollout(version(wanted));
        play(&mut world, |node| fails.contains(&node));
    }
    let left = sets(&world);
    let of: Vec<&str> = left.iter().flat_map(|set| &set.compartments).map(String::as_str).collect();
    assert_eq!(of, ["__default__"], "two of three sets of 2,500 characters are too much");
}
