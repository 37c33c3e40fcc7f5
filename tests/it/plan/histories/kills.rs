//! A daemon that dies between any two of its writes: the one after it ends in the same place.

use nodewright::model::{Action, InterruptKind, Stage};
use nodewright::plan::world::{End, Fate};

use super::super::builders::{PackageExt, WorldExt, package, rollout, world};

#[test]
fn a_daemon_that_dies_between_any_two_writes_ends_the_same() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let child = package("driver", "1.0.0").after("kernel", "1.0.0");
    let start = world(3, rollout(2, vec![reboot, child]));
    let mut calm = start.clone();
    calm.run();
    for kill_after in 0.. {
        let mut world = start.clone();
        let mut writes = 0;
        let mut died = false;
        for _ in 0..500 {
            let (_, breaches, done) = world.tick(|_: &Action| {
                if !died && writes == kill_after {
                    died = true;
                    return Fate::Crash;
                }
                writes += 1;
                Fate::Done
            });
            assert_eq!(breaches, vec![]);
            if done == 0 {
                world.finish_all(End::Success);
            }
        }
        assert!(world.is_complete(), "killed after {kill_after} writes");
        assert!(world.reboots.values().all(|reboots| *reboots == 1), "after {kill_after} writes");
        let applied = world.completed.iter().filter(|run| run.3 == Stage::Apply).count();
        assert_eq!(applied, 6, "nothing runs twice, killed after {kill_after} writes");
        if !died {
            assert!(kill_after > 30, "a rollout has more writes than {kill_after}");
            return;
        }
    }
}
