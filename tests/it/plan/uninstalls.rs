//! Uninstalls: when they run, with what, and what they leave.

use nodewright::model::{Action, InterruptKind, Stage, Work};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};

/// What ran on a node: `name|version stage`.
fn ran(world: &World, node: &str) -> Vec<String> {
    let runs = world.completed.iter().filter(|run| run.0 == node);
    runs.map(|run| format!("{} {}", run.1, run.3)).collect()
}

fn is_clean(world: &World) -> bool {
    let nodes = world.input.observed.nodes.values();
    let mut held = nodes.filter(|node| node.unschedulable || !node.cordons.is_empty());
    held.next().is_none()
}

/// Plays on with success until an uninstall is started, and returns what it is started with.
fn until_uninstall(world: &mut World) -> nodewright::model::ExecutorSpec {
    for _ in 0..200 {
        let (plan, _, done) = world.tick(|_| Fate::Done);
        let uninstall = plan.actions.into_iter().find_map(|action| match action {
            Action::CreateExecutor(spec) if matches!(spec.work, Work::Uninstall { .. }) => {
                Some(spec)
            }
            _other => None,
        });
        if let Some(spec) = uninstall {
            return spec;
        }
        if done == 0 {
            world.finish_all(End::Success);
        }
    }
    panic!("no uninstall is started");
}

/// Plays on with success until the package stands there on the first node.
fn play_until(world: &mut World, package: &str, at: &str) {
    for _ in 0..100 {
        world.settle();
        if world.entry("node-00", package) == at {
            return;
        }
        world.finish_all(End::Success);
    }
    panic!("{package} never comes to {at}");
}

#[test]
fn t22_a_removed_package_is_uninstalled_with_what_it_was_installed_with() {
    let first = package("p", "1.0.0").with_env("X", "1").with_config("run.sh", "echo");
    let mut world = world(2, rollout(1, vec![first.with_uninstall()]));
    world.run();
    world.set_rollout(rollout(1, vec![]));
    let spec = until_uninstall(&mut world);
    let package = spec.work.package();
    assert_eq!(package.env[0].value.as_deref(), Some("1"));
    assert_eq!(package.config_map["run.sh"], "echo", "a solution that loses the file must fail");
    assert!(world.input.observed.snapshots.contains_key(&spec.snapshot), "it mounts the file");
    assert_eq!(world.entry("node-00", "p"), "1.0.0 uninstall in_progress", "until it succeeded");
    assert_eq!(world.active().len(), 1, "uninstalls are paced too");
    world.run();
    assert_eq!(world.entry("node-00", "p"), "none");
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    world.pass(120);
    world.settle();
    assert!(world.input.observed.snapshots.is_empty(), "its snapshot goes with its last pod");
}

#[test]
fn t22_a_downgrade_uninstalls_the_old_version_with_its_own_inputs_first() {
    let first = package("p", "1.0.0").with_env("X", "1").with_config("run.sh", "echo");
    let mut world = world(1, rollout(1, vec![first.with_uninstall()]));
    world.run();
    let second = package("p", "0.9.0").with_env("X", "2").with_uninstall();
    world.set_rollout(rollout(1, vec![second]));
    let spec = until_uninstall(&mut world);
    let package = spec.work.package();
    assert_eq!((package.version.as_str(), package.env[0].value.as_deref()), ("1.0.0", Some("1")));
    assert!(package.config_map.contains_key("run.sh"));
    world.completed.clear();
    world.run();
    assert_eq!(
        ran(&world, "node-00"),
        ["p|1.0.0 uninstall", "p|0.9.0 apply", "p|0.9.0 config"],
        "first off, then the lower version's apply"
    );
    assert_eq!(world.entry("node-00", "p"), "0.9.0 config complete");
    world.pass(120);
    world.settle();
    let snapshots = world.input.observed.snapshots.values();
    let envs: Vec<_> = snapshots.map(|it| it.package.env[0].value.clone()).collect();
    assert_eq!(envs, [Some("2".to_owned())]);
}

#[test]
fn a_downgrade_reboots_once_for_both_versions() {
    let kernel =
        |version| package("kernel", version).interrupting(InterruptKind::Reboot).with_uninstall();
    let mut world = world(2, rollout(1, vec![kernel("2.0.0")]));
    world.run();
    world.completed.clear();
    world.set_rollout(rollout(1, vec![kernel("1.0.0")]));
    world.run();
    assert_eq!(
        ran(&world, "node-01"),
        [
            "kernel|2.0.0 uninstall",
            "kernel|1.0.0 apply",
            "kernel|1.0.0 config",
            "kernel|1.0.0 interrupt",
            "kernel|1.0.0 post-interrupt",
        ]
    );
    assert!(world.reboots.values().all(|reboots| *reboots == 2), "install, then the downgrade");
    assert!(world.is_complete() && is_clean(&world));
}

#[test]
fn an_uninstall_with_an_interrupt_is_drained_for_and_merged_with_the_installs_of_the_visit() {
    let gone = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot).with_uninstall();
    let stays = package("chrony", "1.0.0").interrupting(InterruptKind::Service);
    let mut world = world(1, rollout(1, vec![gone.clone(), stays]));
    world.run();
    let before = world.reboots["node-00"];
    world.completed.clear();
    let newer = package("chrony", "1.1.0").interrupting(InterruptKind::Service);
    world.set_rollout(rollout(1, vec![gone.asked_to_go(), newer]));
    world.settle();
    assert!(world.input.observed.nodes["node-00"].unschedulable, "held before the uninstall runs");
    world.run();
    assert_eq!(
        ran(&world, "node-00"),
        [
            "kernel|1.0.0 uninstall",
            "chrony|1.1.0 upgrade",
            "chrony|1.1.0 config",
            "kernel|1.0.0 interrupt",
            "chrony|1.1.0 post-interrupt",
        ],
        "uninstalls first, then installs, then one interrupt for both: the stronger"
    );
    assert_eq!(world.reboots["node-00"], before + 1);
    assert_eq!(world.entry("node-00", "kernel"), "none");
    assert!(world.is_complete() && is_clean(&world), "{}", world.verdict("node-00"));
}

#[test]
fn an_uninstall_that_is_cancelled_before_it_ended_goes_on_with_apply() {
    let p = || package("p", "1.0.0").with_uninstall();
    let mut world = world(1, rollout(1, vec![p()]));
    world.run();
    world.set_rollout(rollout(1, vec![p().asked_to_go()]));
    world.settle();
    world.finish_all(End::Failure);
    world.settle();
    assert_eq!(world.entry("node-00", "p"), "1.0.0 uninstall erroring");
    world.set_rollout(rollout(1, vec![p()]));
    world.settle();
    assert_eq!(world.entry("node-00", "p"), "1.0.0 apply in_progress");
    world.run();
    assert_eq!(world.entry("node-00", "p"), "1.0.0 config complete");
}

#[test]
fn an_uninstall_that_waits_for_its_interrupt_is_not_cancelled_and_installed_again_afterwards() {
    let kernel = || package("kernel", "1.0.0").interrupting(InterruptKind::Reboot).with_uninstall();
    let mut world = world(1, rollout(1, vec![kernel()]));
    world.run();
    world.set_rollout(rollout(1, vec![kernel().asked_to_go()]));
    play_until(&mut world, "kernel", "1.0.0 uninstall-interrupt in_progress");
    world.set_rollout(rollout(1, vec![kernel()]));
    world.completed.clear();
    world.run();
    assert_eq!(
        ran(&world, "node-00"),
        [
            "kernel|1.0.0 interrupt",
            "kernel|1.0.0 apply",
            "kernel|1.0.0 config",
            "kernel|1.0.0 interrupt",
            "kernel|1.0.0 post-interrupt",
        ]
    );
    assert_eq!(world.entry("node-00", "kernel"), "1.0.0 post-interrupt complete");
    assert!(world.is_complete() && is_clean(&world));
}

#[test]
fn a_package_asked_to_go_that_never_came_is_done_and_never_installed() {
    let p = package("p", "1.0.0").with_uninstall().asked_to_go();
    let mut world = world(2, rollout(1, vec![p, package("q", "1.0.0")]));
    world.run();
    assert!(world.is_complete());
    assert!(world.completed.iter().all(|run| run.1 == "q|1.0.0"), "{:?}", world.completed);
    world.set_rollout(rollout(1, vec![package("p", "1.0.0"), package("q", "1.0.0")]));
    world.run();
    assert_eq!(world.entry("node-01", "p"), "1.0.0 config complete", "apply: false installs it");
}

#[test]
fn a_package_removed_without_an_uninstall_is_left_and_recorded_and_counts_for_nothing() {
    let mut world = world(2, rollout(1, vec![package("p", "1.0.0"), package("q", "1.0.0")]));
    world.run();
    let ran = world.completed.len();
    world.set_rollout(rollout(1, vec![package("q", "1.0.0")]));
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
    assert_eq!(world.completed.len(), ran, "nothing runs");
    assert_eq!(world.entry("node-00", "p"), "1.0.0 config complete", "it is on the host");
    let snapshots = world.input.observed.snapshots.values();
    assert!(snapshots.into_iter().any(|it| it.package.name == "p"), "and what it was is kept");
}

#[test]
fn an_uninstall_enabled_after_the_install_is_known_when_the_package_is_removed() {
    let mut world = world(2, rollout(1, vec![package("p", "1.0.0")]));
    world.run();
    let ran = world.completed.len();
    world.set_rollout(rollout(1, vec![package("p", "1.0.0").with_uninstall()]));
    world.run();
    assert_eq!(world.completed.len(), ran, "that it may be uninstalled runs nothing");
    world.set_rollout(rollout(1, vec![]));
    world.run();
    let last: Vec<Stage> = world.completed[ran..].iter().map(|run| run.3).collect();
    assert_eq!(last, [Stage::Uninstall, Stage::Uninstall]);
    assert!(world.is_complete());
}

#[test]
fn an_uninstall_of_unknown_inputs_is_left_with_a_finding() {
    let mut world = world(1, rollout(1, vec![package("p", "1.0.0")]));
    world.run();
    world.input.observed.snapshots.clear();
    world.set_rollout(rollout(1, vec![package("p", "1.1.0").with_uninstall().asked_to_go()]));
    world.run();
    let verdict = world.verdict("node-00");
    assert!(verdict.starts_with("Blocked") && verdict.contains("p|1.0.0"), "{verdict}");
    assert!(verdict.contains("what it was installed with is not known"), "{verdict}");
}

#[test]
fn an_uninstall_that_fails_four_times_ends_the_visit_and_says_which() {
    let p = || package("p", "1.0.0").with_uninstall();
    let mut world = world(1, rollout(1, vec![p()]));
    world.run();
    world.set_rollout(rollout(1, vec![p().asked_to_go()]));
    for _ in 1..=4 {
        world.settle();
        assert_eq!(world.finish_all(End::Failure), 1);
        world.settle();
        world.pass(600);
    }
    world.settle();
    let verdict = world.verdict("node-00");
    assert!(verdict.starts_with("Blocked: uninstall of p|1.0.0 failed 4 times"), "{verdict}");
}

#[test]
fn t20_a_completion_after_the_removal_never_makes_the_package_active_again() {
    let p = package("p", "1.0.0").interrupting(InterruptKind::Service);
    let mut world = world(1, rollout(1, vec![p, package("q", "1.0.0")]));
    play_until(&mut world, "p", "1.0.0 interrupt in_progress");
    world.settle();
    assert_eq!(world.active().len(), 1, "its interrupt runs");
    let before = world.entry("node-00", "q");
    world.set_rollout(rollout(1, vec![package("q", "1.0.0")]));
    world.settle();
    world.run();
    assert_eq!(world.entry("node-00", "q"), before, "the sibling is untouched");
    assert!(world.is_complete() && is_clean(&world), "{}", world.verdict("node-00"));
    let wanted = &world.input.desired.rollouts["tuning"];
    assert!(!wanted.packages.contains_key("p"));
    let runs = world.completed.iter().filter(|run| run.1 == "p|1.0.0" && run.3 == Stage::Apply);
    assert_eq!(runs.count(), 1, "and it is not begun again");
}

#[test]
fn t20_a_completion_after_the_entry_is_gone_makes_no_entry() {
    let mut world = world(1, rollout(1, vec![package("p", "1.0.0"), package("q", "1.0.0")]));
    world.settle();
    let node = world.input.observed.nodes.get_mut("node-00").expect("the node");
    let state = node.rollouts.get_mut("tuning").expect("a visit");
    state.entries.retain(|id, _| id.name != "p");
    world.set_rollout(rollout(1, vec![package("q", "1.0.0")]));
    world.settle();
    world.run();
    assert_eq!(world.entry("node-00", "p"), "none");
    assert!(world.is_complete(), "{}", world.verdict("node-00"));
}

#[test]
fn a_configuration_that_never_ran_is_not_what_is_uninstalled() {
    let put = package("kernel", "1.0.0").with_uninstall().with_config("motd", "old");
    let mut world = world(1, rollout(1, vec![put.clone()]));
    world.run();
    world.set_rollout(rollout(1, vec![put.with_config("motd", "new")]));
    while world.entry("node-00", "kernel") != "1.0.0 config in_progress" {
        drop(world.tick(|_| Fate::Done));
    }
    assert_eq!(world.active(), Vec::<String>::new(), "begun, and not yet started");
    world.delete_rollout("tuning");
    assert_eq!(until_uninstall(&mut world).work.package().config_map["motd"], "old");
}
