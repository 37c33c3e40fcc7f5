//! What is recorded of a node without a visit, what is wanted of a package whose traces are partly
//! lost, which snapshots are made, and what runs first where one package runs at a time.

use nodewright::model::{Action, InterruptKind, Package, Rollout, Stage, State};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::selection::node;

const HERE: &str = "node-00";

/// Two rollouts over the same node, the other one first.
fn two(nodes: u32) -> World {
    let mut world = world(nodes, rollout(1, vec![package("motd", "1.0.0")]));
    world.set_rollout(other(package("sysctl", "1.0.0")));
    world.run();
    world
}

fn other(package: Package) -> Rollout {
    Rollout { name: "other".to_owned(), priority: 10, ..rollout(1, vec![package]) }
}

/// The snapshot that a node names for a package of a rollout.
fn named(world: &World, rollout: &str) -> String {
    let entries = world.input.observed.nodes[HERE].entries(rollout);
    let entry = entries.values().next().expect("an entry");
    entry.snapshot.clone().expect("it names one")
}

#[test]
fn what_runs_nothing_is_recorded_when_the_pause_is_over() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    world.run();
    let before = named(&world, "tuning");
    world.set_rollout(rollout(1, vec![package("motd", "1.0.0").with_uninstall()]));
    let resource = world.input.observed.resources.get_mut("tuning").expect("there");
    resource.paused = true;
    world.settle();
    assert_eq!(named(&world, "tuning"), before, "a pause leaves nodes alone");
    world.input.observed.resources.get_mut("tuning").expect("there").paused = false;
    world.settle();
    assert_ne!(named(&world, "tuning"), before);
}

/// Else one of the two would be a conflict.
#[test]
fn a_node_is_patched_once_a_tick_whatever_is_to_be_recorded_on_it() {
    for delay in 0..5 {
        for first in ["motd", "sysctl"] {
            let mut world = two(1);
            let edit = |world: &mut World, restated: bool| match (first, restated) {
                ("motd", true) => {
                    let restated = package("motd", "1.0.0").with_uninstall();
                    world.set_rollout(rollout(1, vec![restated]));
                }
                ("motd", false) => world.set_rollout(other(package("sysctl", "2.0.0"))),
                (_, true) => world.set_rollout(other(package("sysctl", "1.0.0").with_uninstall())),
                (_, false) => world.set_rollout(rollout(1, vec![package("motd", "2.0.0")])),
            };
            edit(&mut world, false);
            for tick in 0..20 {
                if tick == delay {
                    edit(&mut world, true);
                }
                let (plan, breaches, _) = world.tick(|_| Fate::Done);
                assert_eq!(breaches, vec![]);
                let patches = plan.actions.iter();
                let patches = patches.filter(|it| matches!(it, Action::PatchNode(_))).count();
                assert!(patches <= 1, "{first}, {delay}: {patches} patches in tick {tick}");
            }
            world.run();
            assert!(world.is_complete());
        }
    }
}

#[test]
fn what_runs_nothing_waits_for_the_visit_of_another_rollout() {
    let mut world = two(1);
    let before = named(&world, "tuning");
    world.set_rollout(other(package("sysctl", "2.0.0")));
    world.settle();
    assert_eq!(world.active().len(), 1, "its visit is under way");
    world.set_rollout(rollout(1, vec![package("motd", "1.0.0").with_uninstall()]));
    world.settle();
    assert_eq!(named(&world, "tuning"), before);
    world.run();
    assert_ne!(named(&world, "tuning"), before);
    assert!(world.is_complete());
}

/// An uninstall needs the snapshot of what is there; one of its own only where that has none.
#[test]
fn an_uninstall_makes_a_snapshot_only_where_the_node_names_none() {
    for (there, asked, expected) in [
        (Some("1.0.0"), "1.0.0", vec![]),
        (Some("1.0.0"), "2.0.0", vec![]),
        (None, "1.0.0", vec!["1.0.0"]),
    ] {
        let wanted = |version| package("motd", version).with_uninstall();
        let mut world = world(1, rollout(1, vec![wanted("1.0.0")]));
        world.run();
        if there.is_none() {
            forget(&mut world);
        }
        world.set_rollout(rollout(1, vec![wanted(asked).asked_to_go()]));
        let mut made: Vec<String> = Vec::new();
        for _ in 0..10 {
            let (plan, breaches, _) = world.tick(|_| Fate::Done);
            assert_eq!(breaches, vec![]);
            made.extend(plan.actions.iter().filter_map(|action| {
                let Action::CreateSnapshot(spec) = action else { return None };
                Some(spec.package.version.to_string())
            }));
        }
        assert_eq!(made, expected, "{there:?} {asked}");
        assert_eq!(world.active().len(), 1, "{asked}: its uninstall runs");
        world.run();
        assert!(world.is_complete(), "{asked}");
        assert_eq!(world.entry(HERE, "motd"), "none");
    }
}

/// The entries of a node name no snapshot any more, as upstream leaves them.
fn forget(world: &mut World) {
    let state = node(world, HERE).rollouts.get_mut("tuning").expect("a state");
    for entry in state.entries.values_mut() {
        entry.snapshot = None;
        entry.applied = None;
    }
    state.entries_text = serde_json::to_string(&state.entries).ok();
}

/// What is on the host decides, and where that is lost, a person does, unless all goes anyway.
#[test]
fn what_cannot_be_uninstalled_for_want_of_its_snapshot() {
    type Edit = fn(&mut World);
    let cases: [(&str, Stage, Edit, &str); 4] = [
        (
            "a higher version after an uninstall that waits for its interrupt",
            Stage::UninstallInterrupt,
            |world| world.set_rollout(rollout(1, vec![kernel("3.0.0")])),
            "Blocked",
        ),
        (
            "another version is asked to go",
            Stage::PostInterrupt,
            |world| world.set_rollout(rollout(1, vec![kernel("3.0.0").asked_to_go()])),
            "Blocked",
        ),
        (
            "another version is asked to go, and the resource is deleted",
            Stage::PostInterrupt,
            |world| {
                world.set_rollout(rollout(1, vec![kernel("3.0.0").asked_to_go()]));
                world.delete_rollout("tuning");
            },
            "gone",
        ),
        (
            "the resource is deleted in the middle of the uninstall",
            Stage::Uninstall,
            |world| {
                world.set_rollout(rollout(1, vec![kernel("3.0.0")]));
                world.delete_rollout("tuning");
            },
            "Blocked",
        ),
    ];
    for (name, stage, edit, expected) in cases {
        let mut world = world(1, rollout(1, vec![kernel("2.0.0")]));
        world.run();
        world.pass(7_200);
        world.settle();
        forget(&mut world);
        let state = node(&mut world, HERE).rollouts.get_mut("tuning").expect("a state");
        let entry = state.entries.values_mut().next().expect("an entry");
        entry.stage = stage;
        if stage != Stage::PostInterrupt {
            entry.state = State::InProgress;
        }
        state.entries_text = serde_json::to_string(&state.entries).ok();
        edit(&mut world);
        world.settle();
        let is_gone = !world.input.observed.resources.contains_key("tuning");
        let found = if is_gone { "gone".to_owned() } else { world.verdict(HERE) };
        assert!(found.starts_with(expected), "{name}: {found}");
    }
}

fn kernel(version: &str) -> Package {
    package("kernel", version).interrupting(InterruptKind::Reboot).with_uninstall()
}

/// Whoever asks for an uninstall gets it also while the resource goes, whatever was installed.
#[test]
fn an_uninstall_that_is_asked_for_runs_before_the_resource_goes() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    world.run();
    let asked = package("motd", "2.0.0").with_uninstall().asked_to_go();
    world.set_rollout(rollout(1, vec![asked]));
    world.delete_rollout("tuning");
    world.settle();
    assert_eq!(world.entry(HERE, "motd"), "1.0.0 uninstall in_progress");
    world.run();
    assert!(!world.input.observed.resources.contains_key("tuning"));
}

/// The name of a snapshot is a digest of it: who deletes one changes no configuration.
#[test]
fn a_snapshot_that_somebody_deletes_asks_for_no_interrupt() {
    let configured = package("motd", "1.0.0").with_config("k", "v");
    let configured = configured.on_config("k", InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![configured]));
    world.settle();
    world.finish_all(End::Success);
    world.input.observed.snapshots.clear();
    let (_, breaches, _) = world.tick(|_| Fate::Done);
    assert_eq!(breaches, vec![]);
    assert_eq!(world.entry(HERE, "motd"), "1.0.0 config complete");
    world.run();
    assert!(world.reboots.is_empty() && world.is_complete());
    world.input.observed.snapshots.clear();
    assert!(world.verdict(HERE).starts_with("Done"), "{}", world.verdict(HERE));
}

/// A pick records as well what runs nothing.
#[test]
fn a_pick_is_the_only_patch_of_its_node() {
    let mut world = world(1, rollout(1, vec![package("a", "1.0.0"), package("b", "1.0.0")]));
    world.run();
    let restated = package("a", "1.0.0").with_uninstall();
    world.set_rollout(rollout(1, vec![restated, package("b", "2.0.0")]));
    for tick in 0..10 {
        let (plan, breaches, _) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        let patches = plan.actions.iter().filter(|it| matches!(it, Action::PatchNode(_))).count();
        assert!(patches <= 1, "{patches} patches in tick {tick}");
    }
    world.run();
    assert!(world.is_complete());
}

/// Upstream leaves the entries of earlier versions: the wanted one's says what is there.
#[test]
fn of_two_versions_that_are_complete_the_wanted_one_stands_there() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    world.run();
    let state = node(&mut world, HERE).rollouts.get_mut("tuning").expect("a state");
    let mut later = state.entries.values().next().expect("an entry").clone();
    later.version = "2.0.0".to_owned();
    state.entries.insert(later.id(), later);
    state.entries_text = serde_json::to_string(&state.entries).ok();
    world.settle();
    assert!(world.active().is_empty() && world.is_complete(), "{}", world.verdict(HERE));
}

/// Both versions go, one after the other, whoever asks for it.
#[test]
fn an_uninstall_takes_the_entry_of_another_version_only_where_one_is_put_there() {
    type Edit = fn(&mut World);
    let wanted = |version| rollout(1, vec![package("p", version).with_uninstall()]);
    let cases: [(&str, Edit, &[&str]); 3] = [
        (
            "asked",
            |world| {
                let asked = package("p", "1.0.0").with_uninstall().asked_to_go();
                world.set_rollout(rollout(1, vec![asked]));
            },
            &["p|2.0.0", "p|1.0.0"],
        ),
        ("deleted", |world| world.delete_rollout("tuning"), &["p|2.0.0", "p|1.0.0"]),
        (
            "reverted",
            |world| {
                world.set_rollout(rollout(1, vec![package("p", "1.0.0").with_uninstall()]));
            },
            &["p|2.0.0"],
        ),
    ];
    for (name, edit, expected) in cases {
        let mut world = world(1, wanted("1.0.0"));
        world.run();
        world.set_rollout(wanted("2.0.0"));
        world.settle();
        world.finish_all(End::Failure);
        edit(&mut world);
        world.run();
        let runs = world.completed.iter().filter(|(.., stage, _)| *stage == Stage::Uninstall);
        let off: Vec<&str> = runs.map(|(_, package, ..)| package.as_str()).collect();
        assert_eq!(off, expected, "{name}");
    }
}

/// One that waits for its interrupt does not count, and makes no room for two.
#[test]
fn with_serial_one_package_begins_beside_one_that_waits_for_its_interrupt() {
    let kernel = package("a", "1.0.0").interrupting(InterruptKind::Reboot);
    let packages = vec![kernel, package("b", "1.0.0"), package("c", "1.0.0")];
    let mut world = world(1, Rollout { serial: true, ..rollout(1, packages) });
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    assert_eq!(world.entry(HERE, "a"), "1.0.0 interrupt skipped");
    assert_eq!(world.entry(HERE, "b"), "1.0.0 apply in_progress");
    assert_eq!(world.entry(HERE, "c"), "none");
    world.run();
    assert!(world.is_complete());
}

#[test]
fn with_serial_an_uninstall_that_has_begun_goes_before_an_install_that_has() {
    let serial = |packages| Rollout { serial: true, ..rollout(1, packages) };
    let gone = package("z", "1.0.0").with_uninstall();
    let mut world = world(1, serial(vec![package("a", "1.0.0"), gone]));
    world.run();
    let state = node(&mut world, HERE).rollouts.get_mut("tuning").expect("a state");
    for entry in state.entries.values_mut() {
        entry.state = State::InProgress;
        if entry.name == "z" {
            entry.stage = Stage::Uninstall;
        }
    }
    state.entries_text = serde_json::to_string(&state.entries).ok();
    world.set_rollout(serial(vec![package("a", "1.0.0")]));
    world.settle();
    let active = world.active();
    let executors = &world.input.observed.executors;
    let run: Vec<&str> = active.iter().map(|it| executors[it].package.name.as_str()).collect();
    assert_eq!(run, ["z"]);
    world.run();
    assert!(world.is_complete());
}
