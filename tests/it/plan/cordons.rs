//! Cordons: whose they are, who lifts them, and two rollouts on one node (T06, T07; failures B).

use nodewright::model::{
    Action, CordonMark, Interrupt, InterruptKind, Outcome, PatchKind, Phase, Rollout,
};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, pod, rollout, world};
use super::drain_table::held;

const NODE: &str = "node-00";

fn reboots(name: &str, priority: i32) -> Rollout {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    Rollout { name: name.to_owned(), priority, ..rollout(1, vec![kernel]) }
}

fn marks(world: &World) -> Vec<String> {
    let marks = world.input.observed.nodes[NODE].cordons.iter();
    let mut names: Vec<String> = marks
        .map(|mark| match mark {
            CordonMark::Rollout(name) => name.clone(),
            CordonMark::RuntimeRequired => "runtime-required".to_owned(),
        })
        .collect();
    names.sort();
    names
}

fn is_cordoned(world: &World) -> bool {
    world.input.observed.nodes[NODE].unschedulable
}

/// Lifts the cordon as the API server shows it afterwards.
fn lift(world: &mut World, manager: Option<&str>) {
    let node = world.input.observed.nodes.get_mut(NODE).expect("there");
    node.unschedulable = false;
    node.unschedulable_manager = manager.map(str::to_owned);
    node.resource_version.push('x');
}

fn cordon(world: &mut World) {
    let node = world.input.observed.nodes.get_mut(NODE).expect("there");
    node.unschedulable = true;
    node.unschedulable_manager = Some("kubectl-cordon".to_owned());
    node.resource_version.push('x');
}

/// Returns how often a cordon was put back while the world settles.
fn recordons(world: &mut World) -> usize {
    let mut count = 0;
    for _ in 0..20 {
        let (plan, breaches, done) = world.tick(|_| Fate::Done);
        assert_eq!(breaches, vec![], "the audit disagrees with a plan");
        let put_back = |action: &&Action| {
            matches!(action, Action::PatchNode(patch)
                if matches!(patch.kind, PatchKind::Recordon { .. }))
        };
        count += plan.actions.iter().filter(put_back).count();
        if done == 0 {
            return count;
        }
    }
    panic!("the planner does not come to rest");
}

#[test]
fn t06_a_node_cordoned_before_us_is_drained_all_the_same_and_stays_cordoned() {
    for found_cordoned in [true, false] {
        let mut world = world(1, reboots("tuning", 200));
        world.add_pod(pod(NODE, "app", &[]));
        if found_cordoned {
            cordon(&mut world);
        }
        world.settle();
        assert!(world.verdict(NODE).starts_with("Wait: draining"), "no shortcut");
        assert!(world.input.observed.pods[NODE]["ml/app"].terminating);
        assert_eq!(marks(&world).is_empty(), found_cordoned, "a mark says that it is ours");
        world.run();
        assert_eq!(world.entry(NODE, "kernel"), "1.0.0 post-interrupt complete");
        assert_eq!((is_cordoned(&world), marks(&world)), (found_cordoned, vec![]));
    }
}

#[test]
fn t07_two_rollouts_take_turns_and_the_last_uncordons() {
    let mut world = world(1, reboots("alpha", 100));
    world.set_rollout(reboots("beta", 200));
    world.add_pod(pod(NODE, "app", &[]));
    world.settle();
    assert_eq!((is_cordoned(&world), marks(&world)), (true, vec!["alpha".to_owned()]));
    world.run();
    assert_eq!((is_cordoned(&world), marks(&world)), (false, vec![]));
    assert_eq!(world.reboots[NODE], 2, "one interrupt each");
}

/// Both hold the node, as after one failed and stays held, and the other is in its drain.
fn shared() -> World {
    let mut world = world(1, reboots("alpha", 100));
    world.settle();
    for _ in 0..4 {
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
        world.settle();
    }
    assert_eq!((is_cordoned(&world), marks(&world)), (true, vec!["alpha".to_owned()]));
    world.set_rollout(Rollout {
        sequencing: nodewright::model::Sequencing::Node,
        ..reboots("beta", 50)
    });
    world.add_pod(pod(NODE, "app", &[]));
    world.settle();
    assert!(world.input.observed.pods[NODE]["ml/app"].terminating, "beta drains");
    assert_eq!(marks(&world), ["alpha", "beta"], "owners are a set");
    world
}

#[test]
fn t07_who_completes_takes_its_own_mark_and_leaves_the_other_s() {
    let mut world = shared();
    world.run();
    assert_eq!((is_cordoned(&world), marks(&world)), (true, vec!["alpha".to_owned()]));
    let mut repaired = reboots("alpha", 100);
    repaired.packages =
        [("kernel".to_owned(), package("kernel", "1.0.1").interrupting(InterruptKind::Reboot))]
            .into();
    world.set_rollout(repaired);
    world.run();
    assert_eq!((is_cordoned(&world), marks(&world)), (false, vec![]));
}

#[test]
fn t07_a_manifest_deleted_while_the_other_drains_leaves_the_node_cordoned() {
    let mut world = shared();
    world.input.desired.rollouts.remove("alpha");
    world.input.observed.resources.remove("alpha");
    world.settle();
    assert_eq!((is_cordoned(&world), marks(&world)), (true, vec!["beta".to_owned()]));
    world.run();
    assert_eq!((is_cordoned(&world), marks(&world)), (false, vec![]));
}

#[test]
fn t07_a_manifest_deleted_while_it_drains_leaves_the_node_to_the_other() {
    let mut world = shared();
    world.input.desired.rollouts.remove("beta");
    world.input.observed.resources.remove("beta");
    world.settle();
    assert_eq!((is_cordoned(&world), marks(&world)), (true, vec!["alpha".to_owned()]));
}

#[test]
fn a_person_who_uncordons_is_obeyed_until_the_node_is_cordoned_again() {
    for manager in ["kubectl", "kubectl-cordon", "kubectl-patch", "Mozilla", "k9s", "oc"] {
        let mut world = held(|_| {});
        world.add_pod(pod(NODE, "app", &[]));
        lift(&mut world, Some(manager));
        assert_eq!(recordons(&mut world), 0, "{manager}");
        assert_eq!(
            world.verdict(NODE),
            format!("Blocked: uncordoned by {manager} while we hold it: cordon it again to go on")
        );
        assert!(!world.input.observed.pods[NODE]["ml/app"].terminating, "nothing is evicted");
        assert!(world.active().is_empty(), "nothing is started");
        cordon(&mut world);
        world.run();
        assert!(world.is_complete(), "{}", world.verdict(NODE));
        assert_eq!((is_cordoned(&world), marks(&world)), (false, vec![]));
    }
}

#[test]
fn a_controller_that_uncordons_is_put_right_three_times_and_then_obeyed() {
    let mut world = held(|_| {});
    world.add_pod(pod(NODE, "app", &[("workload", "training")]));
    world.settle();
    for times in 1..=3 {
        world.pass(3600);
        lift(&mut world, Some("drain-tool"));
        assert_eq!(recordons(&mut world), 1);
        assert!(is_cordoned(&world));
        let record = world.input.observed.nodes[NODE].rollouts["tuning"].record.clone();
        assert_eq!(record.expect("a record").recordons, times);
    }
    lift(&mut world, Some("drain-tool"));
    assert_eq!(recordons(&mut world), 0);
    assert_eq!(
        world.verdict(NODE),
        "Blocked: drain-tool lifted our cordon, it was put back 3 times: nothing more starts here"
    );
    cordon(&mut world);
    world.settle();
    assert!(world.verdict(NODE).starts_with("Wait: protected"), "cordoned again: it goes on");
}

/// The API server keeps no name when the field is taken away: what comes within seconds of our
/// cordon was a program, what comes later is obeyed.
#[test]
fn a_nameless_uncordon_is_a_controller_s_at_once_and_a_person_s_later() {
    let mut world = held(|_| {});
    world.add_pod(pod(NODE, "app", &[("workload", "training")]));
    world.input.now = world.input.observed.nodes[NODE].rollouts["tuning"]
        .record
        .as_ref()
        .and_then(|record| record.cordoned)
        .expect("the time of the cordon");
    world.pass(9);
    lift(&mut world, None);
    assert_eq!(recordons(&mut world), 1, "a reflex");
    world.pass(10);
    lift(&mut world, None);
    assert_eq!(recordons(&mut world), 0, "somebody who has seen it");
    assert_eq!(
        world.verdict(NODE),
        "Blocked: uncordoned while we hold it: cordon it again to go on"
    );
}

/// Upstream contract B.7: whoever had cordoned the node before us takes that back; the node is
/// still needed, so the cordon becomes ours.
#[test]
fn a_foreign_cordon_that_goes_while_we_work_becomes_ours() {
    let mut world = world(1, reboots("tuning", 200));
    cordon(&mut world);
    world.add_pod(pod(NODE, "app", &[("workload", "training")]));
    world.settle();
    assert_eq!(marks(&world), Vec::<String>::new());
    lift(&mut world, Some("kubectl-cordon"));
    assert_eq!(recordons(&mut world), 1);
    assert_eq!((is_cordoned(&world), marks(&world)), (true, vec!["tuning".to_owned()]));
    lift(&mut world, Some("kubectl-cordon"));
    assert_eq!(recordons(&mut world), 0, "now it is ours that is lifted, and a person is obeyed");
    cordon(&mut world);
    let app = world.input.observed.pods[NODE]["ml/app"].reference.clone();
    world.remove_pod(&app);
    world.run();
    assert_eq!((is_cordoned(&world), marks(&world)), (false, vec![]));
}

#[test]
fn an_uncordon_in_every_phase_never_starts_anything_and_never_strands_the_node() {
    for phase in [Phase::Picked, Phase::Interrupting, Phase::Interrupted] {
        let mut world = held(|_| {});
        reach(&mut world, phase);
        lift(&mut world, Some("kubectl-cordon"));
        for _ in 0..10 {
            let (plan, breaches, _) = world.tick(|_| Fate::Done);
            assert_eq!(breaches, vec![]);
            let starts = plan
                .actions
                .iter()
                .any(|action| matches!(action, Action::CreateExecutor(_) | Action::Evict(_)));
            assert!(!starts, "{phase}: {:?}", plan.actions);
            world.finish_all(End::Success);
        }
        cordon(&mut world);
        world.run();
        assert!(world.is_complete(), "{phase}: {}", world.verdict(NODE));
        assert_eq!((is_cordoned(&world), marks(&world)), (false, vec![]), "{phase}");
        assert_eq!(world.reboots[NODE], 1, "{phase}");
    }
}

#[test]
fn a_controller_that_uncordons_in_any_phase_costs_a_patch_and_no_second_reboot() {
    for phase in [Phase::Picked, Phase::Interrupting, Phase::Interrupted] {
        let mut world = held(|_| {});
        world.add_pod(pod(NODE, "app", &[]));
        reach(&mut world, phase);
        world.pass(60);
        lift(&mut world, Some("drain-tool"));
        assert_eq!(recordons(&mut world), 1, "{phase}");
        assert_eq!((is_cordoned(&world), marks(&world)), (true, vec!["tuning".to_owned()]));
        world.run();
        assert!(world.is_complete(), "{phase}: {}", world.verdict(NODE));
        assert_eq!((is_cordoned(&world), marks(&world)), (false, vec![]), "{phase}");
        assert_eq!(world.reboots[NODE], 1, "{phase}");
    }
}

/// Plays the visit until its record is in this phase.
fn reach(world: &mut World, phase: Phase) {
    for _ in 0..50 {
        let record = world.input.observed.nodes[NODE].rollouts["tuning"].record.clone();
        if record.expect("a record").phase == phase {
            return;
        }
        if world.tick(|_| Fate::Done).2 == 0 {
            world.finish_all(End::Success);
        }
    }
    panic!("the visit never reaches {phase}");
}

/// B8: a cordon whose write failed is not believed.
#[test]
fn b8_a_cordon_that_was_not_written_does_not_count() {
    let mut world = world(1, reboots("tuning", 200));
    world.add_pod(pod(NODE, "app", &[]));
    for _ in 0..10 {
        let (plan, _, _) = world.tick(|action| match action {
            Action::PatchNode(_) => Fate::Refused,
            _ => Fate::Done,
        });
        assert!(!plan.actions.iter().any(|action| matches!(action, Action::Evict(_))));
    }
    assert!(!is_cordoned(&world));
    world.settle();
    assert!(world.input.observed.pods[NODE]["ml/app"].terminating);

    lift(&mut world, Some("drain-tool"));
    for _ in 0..10 {
        let (_, breaches, _) = world.tick(|_| Fate::Refused);
        assert_eq!(breaches, vec![]);
    }
    let record = world.input.observed.nodes[NODE].rollouts["tuning"].record.clone();
    assert_eq!(record.expect("a record").recordons, 0, "a refused write is not a time");
    assert_eq!(recordons(&mut world), 1);
}

/// B11: what a failed visit left cordoned goes with its manifest.
#[test]
fn b11_a_manifest_deleted_while_failing_leaves_no_cordon() {
    let mut world = world(1, reboots("tuning", 200));
    world.settle();
    for _ in 0..4 {
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
        world.settle();
    }
    let record = world.input.observed.nodes[NODE].rollouts["tuning"].record.clone();
    assert_eq!(record.expect("a record").outcome, Some(Outcome::Erroring));
    assert!(is_cordoned(&world));
    world.input.desired.rollouts.remove("tuning");
    world.input.observed.resources.remove("tuning");
    world.settle();
    assert_eq!((is_cordoned(&world), marks(&world)), (false, vec![]));
}

/// A28: a package without interrupt never cordons, nor does a restart of its executor.
#[test]
fn a28_an_executor_that_is_started_again_never_cordons_or_drains() {
    let motd = package("motd", "1.0.0");
    assert_eq!(Interrupt::merge([].into_iter()), None);
    let mut world = world(1, rollout(1, vec![motd]));
    world.add_pod(pod(NODE, "app", &[]));
    world.settle();
    world.finish_all(End::Disruption);
    world.settle();
    world.pass(10);
    world.run();
    assert!(!world.input.observed.pods[NODE]["ml/app"].terminating);
    assert!(!is_cordoned(&world));
    assert!(world.is_complete());
}

/// Whoever takes our mark off together with the cordon has looked at it, and is obeyed.
#[test]
fn a_person_who_takes_our_mark_off_with_the_cordon_is_obeyed_too() {
    let mut world = held(|_| {});
    world.settle();
    world.pass(3600);
    lift(&mut world, Some("kubectl-edit"));
    world.input.observed.nodes.get_mut(NODE).expect("there").cordons.clear();
    assert_eq!(recordons(&mut world), 0);
    assert!(world.verdict(NODE).starts_with("Blocked"), "{}", world.verdict(NODE));
}
