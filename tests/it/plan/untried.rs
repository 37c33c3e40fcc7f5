//! A version that is recorded as begun and of which nothing ran says nothing about the host.

use nodewright::model::{Action, ExecutorPhase, Rollout};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};

/// What became of the newer version before it was no longer wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Second {
    /// It is on record, and no executor of it exists.
    Recorded,
    /// Its pod cannot start.
    Stuck,
    /// Its pod could not start until its deadline: the visit failed.
    NeverStarted,
    /// Its pod is gone, and did nothing.
    Vanished,
    /// Its script failed.
    Failed,
    /// Its pod was lost while it ran.
    Lost,
    /// Its pod is deleted while it runs.
    Deleted,
}

const NOTHING_RAN: [Second; 4] =
    [Second::Recorded, Second::Stuck, Second::NeverStarted, Second::Vanished];

const SOMETHING_RAN: [Second; 3] = [Second::Failed, Second::Lost, Second::Deleted];

fn wanted(version: &str) -> Rollout {
    rollout(1, vec![package("p", version).with_uninstall()])
}

/// Returns `stage state` of the newer version.
fn newer(world: &World) -> String {
    let entries = world.input.observed.nodes["node-00"].entries("tuning");
    let newer = entries.values().find(|entry| entry.version == "2.0.0");
    newer.map_or_else(|| "none".to_owned(), |entry| format!("{} {}", entry.stage, entry.state))
}

fn second(world: &mut World, became: Second) {
    while newer(world) != "upgrade in_progress" {
        assert_ne!(world.tick(|_| Fate::Done).2, 0, "the newer version begins");
    }
    if became == Second::Recorded {
        return;
    }
    world.settle();
    let name = world.active().remove(0);
    match became {
        Second::Recorded => {}
        Second::Stuck => world.stall(&name, "ErrImagePull"),
        Second::NeverStarted => {
            world.stall(&name, "ErrImagePull");
            world.settle();
            world.pass(1_800);
            world.settle();
            assert_eq!(newer(world), "upgrade erroring");
        }
        Second::Vanished => world.end(&name, End::Vanish),
        Second::Failed => world.end(&name, End::Failure),
        Second::Lost => world.end(&name, End::Disruption),
        Second::Deleted => {
            let executor = world.input.observed.executors.get_mut(&name).expect("it runs");
            executor.terminating = true;
            world.settle();
            let executor = world.input.observed.executors.get_mut(&name).expect("it ends");
            executor.phase = ExecutorPhase::Failed;
            world.settle();
            world.end(&name, End::Vanish);
        }
    }
}

/// Version 1.0.0 is complete on a node, and 2.0.0 was begun there.
fn begun(became: Second) -> World {
    let mut world = world(1, wanted("1.0.0"));
    world.run();
    world.set_rollout(wanted("2.0.0"));
    second(&mut world, became);
    world.completed.clear();
    world
}

/// Plays on, back-offs included; returns what executors are started for, as `version group`.
fn started(world: &mut World) -> Vec<String> {
    let mut started = Vec::new();
    let mut idle = 0;
    for _ in 0..200 {
        let (plan, breaches, done) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![]);
        started.extend(plan.actions.iter().filter_map(|action| {
            let Action::CreateExecutor(spec) = action else { return None };
            Some(format!("{} {}", spec.work.package().version, spec.work.group()))
        }));
        if done == 0 && world.finish_all(End::Success) == 0 {
            world.pass(600);
            idle += 1;
        }
        if idle == 3 {
            return started;
        }
    }
    panic!("it does not end");
}

/// What an upgrade that was broken off has left is the newer version's to take off, and then what
/// it was put on.
#[test]
fn what_ran_on_the_host_is_uninstalled_and_nothing_else() {
    let cases: [(&[Second], &[&str]); 2] = [
        (&NOTHING_RAN, &["1.0.0 uninstall"]),
        (&SOMETHING_RAN, &["2.0.0 uninstall", "1.0.0 uninstall"]),
    ];
    for (all, uninstalls) in cases {
        for became in all {
            let mut world = begun(*became);
            world.set_rollout(rollout(1, vec![]));
            assert_eq!(started(&mut world), uninstalls, "{became:?}");
            assert_eq!(world.entry("node-00", "p"), "none", "{became:?}");
            assert!(world.is_complete(), "{became:?}");
        }
    }
}

#[test]
fn a_revert_of_what_never_ran_runs_nothing() {
    for became in NOTHING_RAN {
        let mut world = begun(became);
        world.set_rollout(wanted("1.0.0"));
        assert_eq!(started(&mut world), Vec::<String>::new(), "{became:?}");
        assert_eq!(world.entry("node-00", "p"), "1.0.0 config complete", "{became:?}");
        assert!(world.is_complete(), "{became:?}");
    }
    for became in SOMETHING_RAN {
        let mut world = begun(became);
        world.set_rollout(wanted("1.0.0"));
        assert_eq!(started(&mut world), ["2.0.0 uninstall", "1.0.0 install"], "{became:?}");
        assert!(world.is_complete(), "{became:?}");
    }
}

#[test]
fn a_first_version_that_never_ran_leaves_nothing_to_uninstall() {
    for deleted in [false, true] {
        let mut world = world(1, wanted("1.0.0"));
        world.settle();
        let name = world.active().remove(0);
        world.stall(&name, "ErrImagePull");
        if deleted {
            world.delete_rollout("tuning");
        } else {
            world.set_rollout(rollout(1, vec![]));
        }
        assert_eq!(started(&mut world), Vec::<String>::new(), "deleted: {deleted}");
        assert_eq!(world.entry("node-00", "p"), "none");
    }
}

#[test]
fn an_unfinished_version_stands_there_until_the_next_one_runs() {
    let mut world = world(1, wanted("1.0.0"));
    world.settle();
    world.finish_all(End::Failure);
    world.set_rollout(wanted("2.0.0"));
    for _ in 0..3 {
        let _plan = world.tick(|_| Fate::Done);
    }
    let entries = world.input.observed.nodes["node-00"].entries("tuning");
    let versions: Vec<&str> = entries.values().map(|entry| entry.version.as_str()).collect();
    assert_eq!(versions, ["1.0.0", "2.0.0"], "the newer one has not run yet");
    world.run();
    let entries = world.input.observed.nodes["node-00"].entries("tuning");
    assert_eq!(entries.len(), 1, "its host is the newer one's");
    assert!(world.is_complete());
}
