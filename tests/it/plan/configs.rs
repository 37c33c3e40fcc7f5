//! Changes of a package's configuration, environment and image, node by node; reruns and resets.

use nodewright::model::{Action, Entries, InterruptKind, Package, Rollout, Stage, State};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};

/// What ran on a node: `name|version stage`.
fn ran(world: &World, node: &str) -> Vec<String> {
    let runs = world.completed.iter().filter(|run| run.0 == node);
    runs.map(|run| format!("{} {}", run.1, run.3)).collect()
}

/// Brings the package to every node, then forgets what ran.
fn settled(nodes: u32, wanted: Rollout) -> World {
    let mut world = world(nodes, wanted);
    world.run();
    world.completed.clear();
    world
}

/// Changes the entries on the first node, as a person or upstream's command line would.
fn edit(world: &mut World, change: impl Fn(&mut Entries)) {
    let node = world.input.observed.nodes.get_mut("node-00").expect("the node");
    let state = node.rollouts.get_mut("tuning").expect("entries");
    change(&mut state.entries);
    state.entries_text = serde_json::to_string(&state.entries).ok();
}

fn kernel() -> Package {
    package("kernel", "1.0.0")
        .interrupting(InterruptKind::Reboot)
        .on_config("grub*", InterruptKind::Reboot)
        .with_config("grub.conf", "a")
        .with_config("motd", "a")
}

#[test]
fn a_changed_environment_runs_config_again_and_never_interrupts() {
    let mut world = settled(2, rollout(1, vec![kernel().with_env("X", "1")]));
    world.set_rollout(rollout(1, vec![kernel().with_env("X", "2")]));
    world.settle();
    assert_eq!(world.active().len(), 1, "paced, as every change is");
    world.run();
    assert_eq!(ran(&world, "node-01"), ["kernel|1.0.0 config"]);
    assert!(world.reboots.values().all(|reboots| *reboots == 1), "only the install");
}

#[test]
fn a_rotated_secret_is_a_change_of_the_configuration() {
    let with_digest = |digest: Option<&str>| {
        let env_digest = digest.map(str::to_owned);
        rollout(2, vec![Package { env_digest, ..package("motd", "1.0.0") }])
    };
    let mut world = settled(2, with_digest(Some("one")));
    world.set_rollout(with_digest(Some("two")));
    world.run();
    assert_eq!(ran(&world, "node-00"), ["motd|1.0.0 config"]);
    let mut world = settled(2, with_digest(None));
    world.set_rollout(with_digest(Some("one")));
    world.run();
    assert_eq!(ran(&world, "node-00"), [""; 0], "a digest known for the first time is no change");
    world.set_rollout(with_digest(Some("two")));
    world.run();
    assert_eq!(ran(&world, "node-00"), ["motd|1.0.0 config"], "and the next rotation is seen");
}

#[test]
fn another_image_never_makes_a_complete_package_run_again() {
    let mut world = settled(2, rollout(2, vec![package("motd", "1.0.0")]));
    let mut other = package("motd", "1.0.0");
    other.image = "registry.example/mirror/motd".to_owned();
    world.set_rollout(rollout(2, vec![other]));
    world.run();
    assert!(world.is_complete());
    assert_eq!(ran(&world, "node-00"), [""; 0]);
}

#[test]
fn a_change_while_another_is_under_way_is_not_lost_and_late_nodes_get_only_the_last() {
    let wanted = |value: &str| rollout(1, vec![package("motd", "1.0.0").with_config("a", value)]);
    let mut world = settled(3, wanted("0"));
    world.set_rollout(wanted("1"));
    world.settle();
    world.set_rollout(wanted("2"));
    world.run();
    assert_eq!(ran(&world, "node-00").len(), 2, "the running one ends, then the new one");
    assert_eq!(ran(&world, "node-02").len(), 1, "whose turn comes later gets it once");
    for node in world.input.observed.nodes.values() {
        let entry = node.entries("tuning").values().next().expect("the package");
        let snapshot = entry.snapshot.as_ref().expect("ours");
        let package = &world.input.observed.snapshots[snapshot].package;
        assert_eq!(package.config_map["a"], "2", "{}", node.name);
    }
}

#[test]
fn a_node_that_joins_late_is_installed_and_not_configured_twice() {
    let wanted = |value: &str| rollout(1, vec![kernel().with_config("motd", value)]);
    let mut world = settled(1, wanted("a"));
    world.set_rollout(wanted("b"));
    world.run();
    world.add_node("node-09", &[("pool", "gpu")]);
    world.run();
    assert_eq!(
        ran(&world, "node-09"),
        ["apply", "config", "interrupt", "post-interrupt"].map(|it| format!("kernel|1.0.0 {it}")),
        "with its own interrupt, whatever older changes asked for"
    );
}

#[test]
fn a_deleted_key_counts_and_matches_its_pattern() {
    let mut world = settled(1, rollout(1, vec![kernel()]));
    let mut less = kernel();
    less.config_map.remove("grub.conf");
    world.set_rollout(rollout(1, vec![less]));
    world.run();
    assert_eq!(world.reboots["node-00"], 2);
}

#[test]
fn an_edit_of_the_manifest_at_any_moment_of_a_reboot_causes_no_second_one() {
    for moment in 0..40 {
        let mut world = world(1, rollout(1, vec![kernel()]));
        for _ in 0..moment {
            let (_, breaches, done) = world.tick(|_| Fate::Done);
            assert_eq!(breaches, vec![]);
            if done == 0 && world.finish_all(End::Success) == 0 {
                break;
            }
        }
        let before = world.reboots.get("node-00").copied().unwrap_or(0);
        world.set_rollout(rollout(1, vec![kernel().with_config("motd", "b")]));
        world.run();
        assert!(world.is_complete(), "moment {moment}: {}", world.verdict("node-00"));
        assert_eq!(world.reboots["node-00"], 1, "moment {moment}, {before} before the edit");
    }
}

#[test]
fn a_package_rerun_by_its_entry_is_visited_again_from_that_stage() {
    let mut world = settled(2, rollout(1, vec![kernel()]));
    edit(&mut world, |entries| {
        for entry in entries.values_mut() {
            // Upstream's command line knows neither of our fields.
            (entry.stage, entry.state) = (Stage::Config, nodewright::model::State::InProgress);
            (entry.since, entry.snapshot) = (None, None);
        }
    });
    let (plan, _, _) = world.tick(|_| Fate::Done);
    assert!(!plan.actions.iter().any(|it| matches!(it, Action::CreateExecutor(_))), "paced");
    world.run();
    assert_eq!(
        ran(&world, "node-00"),
        ["config", "interrupt", "post-interrupt"].map(|it| format!("kernel|1.0.0 {it}"))
    );
    assert_eq!(ran(&world, "node-01"), [""; 0]);
}

#[test]
fn a_failed_package_is_tried_again_with_all_attempts_when_it_is_rerun_or_reset() {
    for reset in [false, true] {
        let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
        for _ in 1..=4 {
            world.settle();
            world.finish_all(End::Failure);
            world.settle();
            world.pass(600);
        }
        world.settle();
        assert!(world.verdict("node-00").starts_with("Blocked: apply of motd|1.0.0 failed 4"));
        edit(&mut world, |entries| {
            if reset {
                entries.clear();
            }
            for entry in entries.values_mut() {
                entry.state = nodewright::model::State::InProgress;
                (entry.restarts, entry.since, entry.snapshot) = (None, None, None);
            }
        });
        for _ in 1..=3 {
            world.settle();
            assert_eq!(world.finish_all(End::Failure), 1, "attempts are counted anew");
            world.settle();
            world.pass(600);
        }
        world.run();
        assert!(world.is_complete(), "reset {reset}: {}", world.verdict("node-00"));
    }
}

#[test]
fn a_reset_of_everything_installs_again() {
    let mut world = settled(1, rollout(1, vec![kernel()]));
    edit(&mut world, Entries::clear);
    world.run();
    assert_eq!(ran(&world, "node-00").len(), 4, "apply to post-interrupt");
    assert!(world.is_complete());
}

#[test]
fn a_package_reset_before_its_interrupt_was_issued_starts_over_and_reboots_once() {
    let mut world = world(1, rollout(1, vec![kernel()]));
    while world.entry("node-00", "kernel") != "1.0.0 interrupt in_progress" {
        let (_, _, done) = world.tick(|_| Fate::Done);
        if done == 0 {
            world.finish_all(End::Success);
        }
    }
    assert!(world.active().is_empty(), "recorded, not issued");
    edit(&mut world, Entries::clear);
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    assert_eq!(world.reboots["node-00"], 1);
}

/// As upstream, which goes on from a complete interrupt whoever says so (upstream contract B.2).
#[test]
fn an_interrupt_that_a_person_says_is_done_before_it_was_issued_is_not_issued() {
    let mut world = world(1, rollout(1, vec![kernel()]));
    while world.entry("node-00", "kernel") != "1.0.0 interrupt in_progress" {
        let (_, _, done) = world.tick(|_| Fate::Done);
        if done == 0 {
            world.finish_all(End::Success);
        }
    }
    edit(&mut world, |entries| {
        for entry in entries.values_mut() {
            entry.state = State::Complete;
        }
    });
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    assert_eq!(world.reboots.get("node-00"), None);
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 post-interrupt complete");
    assert!(!world.input.observed.nodes["node-00"].unschedulable, "let go");
}

#[test]
fn with_serial_packages_wait_for_each_other_and_share_the_interrupt() {
    let first = package("a", "1.0.0").interrupting(InterruptKind::Service);
    let second = package("b", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut wanted = rollout(1, vec![first, second]);
    wanted.serial = true;
    let mut world = world(1, wanted);
    for _ in 0..100 {
        world.settle();
        assert!(world.active().len() <= 1, "one at a time");
        if world.finish_all(End::Success) == 0 {
            break;
        }
    }
    assert!(world.is_complete());
    assert_eq!(
        ran(&world, "node-00"),
        [
            "a|1.0.0 apply",
            "a|1.0.0 config",
            "b|1.0.0 apply",
            "b|1.0.0 config",
            "b|1.0.0 interrupt",
            "a|1.0.0 post-interrupt",
            "b|1.0.0 post-interrupt",
        ]
    );
}

/// A visit that ends in the middle leaves a package begun. The next one comes to it only after what
/// it depends on, and owes its reboot all the same.
#[test]
fn a_package_that_was_begun_and_waits_for_another_now_is_owed_its_interrupt() {
    let driver = |value: &str| package("driver", "1.0.0").with_config("motd", value);
    let kernel =
        package("kernel", "1.0.0").after("driver", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![driver("a"), kernel.clone()]));
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 apply in_progress");
    world.change_node("node-00", |node| node.ignored = true);
    world.finish_all(End::Disruption);
    world.settle();
    world.set_rollout(rollout(1, vec![driver("b"), kernel]));
    world.change_node("node-00", |node| node.ignored = false);
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    assert_eq!(world.reboots.get("node-00"), Some(&1));
}

/// A package comes to depend on another while both are at work: its reboot is not done by the
/// other's restart of nothing, and one reboot does for both.
#[test]
fn a_package_that_waits_for_its_reboot_and_depends_on_another_now_is_rebooted_once() {
    let driver = || package("driver", "1.0.0").interrupting(InterruptKind::Noop);
    let kernel = || package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![driver(), kernel()]));
    world.settle();
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 apply in_progress");
    world.set_rollout(rollout(1, vec![driver(), kernel().after("driver", "1.0.0")]));
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    assert_eq!(world.entry("node-00", "driver"), "1.0.0 interrupt skipped");
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 interrupt in_progress");
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    assert_eq!(world.reboots.get("node-00"), Some(&1));
}
