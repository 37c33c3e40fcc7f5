//! Which images are pulled before a cordon, how long for, what is concluded from the failures of
//! others, and how long the pods of it are kept.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use nodewright::model::{DEFAULT_COMPARTMENT, ExecutorPhase, OpenBatch, Waiting};
use nodewright::plan::plan;
use nodewright::plan::world::{End, Fate, Images, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::pulls::{break_pulls, fleet, kernel, pulls};
use super::selection::node;

const HERE: &str = "node-00";

/// What pulls are there, as `name|version`.
fn pulled(world: &World) -> BTreeSet<String> {
    pulls(world).iter().map(|pull| pull.package.to_string()).collect()
}

fn open_batch(world: &World) -> OpenBatch {
    let status = world.input.observed.resources["tuning"].status.as_ref().expect("written");
    let batch = status.memory.compartments[DEFAULT_COMPARTMENT].open_batch.clone();
    batch.expect("a batch is open")
}

/// Ends the executors of a node with success until none is left; its pulls too.
fn finish_node(world: &mut World, node: &str) {
    for _ in 0..20 {
        world.settle();
        world.pass(1);
        for name in world.active() {
            if world.input.observed.executors[&name].visit.node == node {
                world.end(&name, End::Success);
            }
        }
    }
    world.settle();
}

/// An uninstall runs what was installed, an install what is wanted; nothing else is pulled.
#[test]
fn the_images_of_what_the_visit_runs_are_pulled_and_no_others() {
    type Edit = fn(&mut World);
    let cases: [(&str, Edit, &[&str]); 5] = [
        ("an upgrade", |world| want(world, "3.0.0"), &["kernel|3.0.0"]),
        ("a downgrade", |world| want(world, "1.0.0"), &["kernel|1.0.0", "kernel|2.0.0"]),
        ("a removal", |world| world.set_rollout(rollout(1, vec![])), &["kernel|2.0.0"]),
        (
            "an uninstall in the words of another version",
            |world| {
                let asked = kernel("3.0.0").with_uninstall().asked_to_go();
                world.set_rollout(rollout(1, vec![asked]));
            },
            &["kernel|2.0.0"],
        ),
        (
            "a deletion before the upgrade began",
            |world| {
                want(world, "3.0.0");
                world.delete_rollout("tuning");
            },
            &["kernel|2.0.0"],
        ),
    ];
    for (name, edit, expected) in cases {
        let mut world = world(1, rollout(1, vec![kernel("2.0.0").with_uninstall()]));
        world.run();
        world.pass(7_200);
        world.settle();
        world.images = Images::Pulled;
        edit(&mut world);
        world.settle();
        assert_eq!(pulled(&world), expected.iter().map(|it| (*it).to_owned()).collect(), "{name}");
        world.run();
        assert!(world.is_complete(), "{name}");
    }
}

fn want(world: &mut World, version: &str) {
    world.set_rollout(rollout(1, vec![kernel(version).with_uninstall()]));
}

#[test]
fn a_node_says_which_package_it_has_waited_for_the_longest() {
    for (older, expected) in [("none", "driver"), ("driver", "driver"), ("kernel", "kernel")] {
        let packages = vec![kernel("1.0.0"), package("driver", "1.0.0")];
        let mut world = world(1, rollout(1, packages));
        world.images = Images::Pulled;
        world.settle();
        world.pass(10);
        for executor in world.input.observed.executors.values_mut() {
            if executor.package.name == older {
                executor.created -= SignedDuration::from_secs(5);
            }
        }
        let verdict = world.verdict(HERE);
        let named = format!("pulling the images of {expected}|1.0.0 since");
        assert!(verdict.contains(&named), "{older}: {verdict}");
    }
}

/// An image that is on its way has half an hour, a kubelet that does nothing five minutes.
#[test]
fn an_image_on_its_way_is_not_missing() {
    let being_created = || {
        let (reason, message) = ("ContainerCreating".to_owned(), String::new());
        let since = super::builders::noon();
        Some(Waiting { reason, message, image: "registry.example/kernel:1.0.0".to_owned(), since })
    };
    let cases = [
        ("nothing began", ExecutorPhase::Pending, None, 300, "look at the kubelet"),
        ("created", ExecutorPhase::Pending, being_created(), 1_800, "not there after 30 minutes"),
        ("running", ExecutorPhase::Running, None, 1_800, "not there after 30 minutes"),
    ];
    for (name, phase, waiting, deadline, missing) in cases {
        let mut world = fleet(1, 1);
        world.settle();
        let created = pulls(&world)[0].created;
        for executor in world.input.observed.executors.values_mut() {
            executor.phase = phase;
            executor.waiting.clone_from(&waiting);
        }
        let age = world.input.now.duration_since(created).as_secs();
        world.pass(deadline - age - 1);
        let verdict = world.verdict(HERE);
        assert!(verdict.starts_with("Wait: pulling the images"), "{name}: {verdict}");
        world.pass(1);
        let verdict = world.verdict(HERE);
        assert!(verdict.starts_with("Blocked: ") && verdict.contains(missing), "{name}: {verdict}");
    }
}

/// The batch of those that have their images is judged without waiting for a registry.
#[test]
fn a_batch_ends_when_no_other_node_can_be_picked_and_not_before() {
    let mut world = fleet(3, 2);
    world.settle();
    finish_node(&mut world, HERE);
    let open = open_batch(&world);
    assert_eq!((open.number, open.given), (1, 1), "the second is still on its way");
    break_pulls(&mut world, "ErrImagePull", |_| true);
    world.settle();
    break_pulls(&mut world, "ErrImagePull", |_| true);
    world.settle();
    let open = open_batch(&world);
    assert_eq!((open.number, open.given), (2, 0), "the first batch is judged");
}

#[test]
fn three_nodes_fail_before_an_image_is_taken_for_missing() {
    let mut world = fleet(8, 1);
    for _ in 0..10 {
        world.settle();
        break_pulls(&mut world, "ErrImagePull", |_| true);
    }
    assert_eq!(pulls(&world).len(), 3);
}

/// One node that has it proves that there is such an image: the others each try for themselves.
#[test]
fn an_image_that_one_node_has_is_not_missing_everywhere() {
    for visited in [true, false] {
        let mut world = fleet(8, 2);
        world.settle();
        if visited {
            finish_node(&mut world, HERE);
            for executor in world.input.observed.executors.values_mut() {
                executor.visit.node = "gone".to_owned();
            }
            world.settle();
            assert_eq!(world.entry(HERE, "kernel"), "1.0.0 post-interrupt complete");
        } else {
            let name = world.active().remove(0);
            world.end(&name, End::Success);
            node(&mut world, HERE).ready = false;
        }
        for _ in 0..10 {
            world.settle();
            break_pulls(&mut world, "ErrImagePull", |_| true);
        }
        let tried: BTreeSet<&str> =
            pulls(&world).iter().map(|pull| pull.visit.node.as_str()).collect();
        assert_eq!(tried.len(), if visited { 7 } else { 8 }, "visited: {visited}");
    }
}

/// The first says since when, the last what is wrong now.
#[test]
fn of_the_pulls_that_were_lost_the_first_and_the_last_are_kept() {
    let mut world = fleet(1, 1);
    world.settle();
    let since = pulls(&world)[0].created;
    for _ in 0..4 {
        world.finish_all(End::Disruption);
        world.settle();
        world.pass(3_600);
        world.settle();
    }
    let kept: Vec<u32> = pulls(&world).iter().map(|pull| pull.attempt).collect();
    assert_eq!(kept, [1, 5]);
    let verdict = world.verdict(HERE);
    assert!(verdict.contains(&format!("since {since}")), "{verdict}");
}

#[test]
fn a_success_counts_for_less_than_an_hour() {
    for (age, is_picked) in [(3_599, true), (3_600, false)] {
        let mut world = world(1, rollout(1, vec![kernel("1.0.0"), package("driver", "1.0.0")]));
        world.images = Images::Pulled;
        world.settle();
        let names = world.active();
        world.end(&names[0], End::Success);
        world.settle();
        world.pass(age);
        world.end(&names[1], End::Success);
        let (plan, breaches, _) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        let word = plan.verdicts["tuning"][HERE].reason.word();
        assert_eq!(word == "Picking", is_picked, "{age}: {word}");
    }
}

#[test]
fn a_success_is_looked_at_again_when_its_hour_is_over() {
    let mut world = fleet(1, 1);
    world.settle();
    world.finish_all(End::Success);
    node(&mut world, HERE).ready = false;
    world.settle();
    let ended = pulls(&world)[0].finished.expect("it ended");
    assert_eq!(plan(&world.input).wake_at, Some(ended + SignedDuration::from_hours(1)));
}

#[test]
fn a_pull_that_fails_by_its_kubelet_wakes_nobody() {
    let mut world = fleet(1, 1);
    world.settle();
    break_pulls(&mut world, "ErrImagePull", |_| true);
    world.settle();
    assert_eq!(plan(&world.input).wake_at, None, "its kubelet tells of a change");
}

/// It goes with the pods of the visit, in one request; until then it is nobody's business.
#[test]
fn a_pull_stays_while_the_visit_it_served_is_under_way() {
    let mut world = fleet(1, 1);
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    assert_eq!(world.entry(HERE, "kernel"), "1.0.0 apply in_progress");
    let ended = pulls(&world)[0].finished.expect("it ended");
    for age in [3_599, 3_600, 7_200] {
        world.pass(age - world.input.now.duration_since(ended).as_secs());
        let wake_at = plan(&world.input).wake_at;
        assert!(wake_at.is_none_or(|at| at > world.input.now), "{age}: {wake_at:?}");
        world.settle();
        assert_eq!(pulls(&world).len(), 1, "{age}");
    }
}

/// An edit lets the visit begin without it.
#[test]
fn a_pull_that_nobody_waits_for_any_more_ends_with_the_pick() {
    let packages = |kernel| rollout(1, vec![kernel, package("motd", "1.0.0")]);
    let mut world = world(1, packages(kernel("1.0.0")));
    world.images = Images::Pulled;
    world.settle();
    assert_eq!(pulls(&world).len(), 2);
    world.set_rollout(packages(package("kernel", "1.0.0")));
    world.settle();
    assert_eq!(world.entry(HERE, "motd"), "1.0.0 apply in_progress");
    assert_eq!(pulled(&world), BTreeSet::new());
}

/// A pod of a former machine of the name has pulled nothing here.
#[test]
fn a_machine_of_the_same_name_pulls_for_itself() {
    let mut world = fleet(1, 1);
    world.settle();
    world.finish_all(End::Success);
    node(&mut world, HERE).uid = "uid-another".to_owned();
    world.settle();
    assert!(!world.input.observed.nodes[HERE].unschedulable);
    let of_it = pulls(&world).iter().filter(|pull| pull.visit.node_uid == "uid-another").count();
    assert_eq!(of_it, 1);
}
