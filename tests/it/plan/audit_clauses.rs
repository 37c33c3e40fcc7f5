//! The audit, clause by clause: a rule with several conditions is broken by each of them alone.
//!
//! As in `audit`, every case starts from a clean plan of the planner's own.

use jiff::SignedDuration;
use nodewright::model::{
    AtRelease, Claim, Entry, Plan, Pod, Stage, State, Taint, TaintEffect, Work,
};
use nodewright::plan::world::World;
use nodewright::plan::{Invariant, audit};

use super::audit::{executor, fleet, installs, interrupts, is_pick, node, until};
use super::builders::pod;

const HERE: &str = "node-00";

fn broken(world: &World, plan: &Plan) -> Vec<Invariant> {
    audit(&world.input, plan).into_iter().map(|breach| breach.invariant).collect()
}

/// A fleet whose first node is about to reboot, and the plan that does it.
fn about_to_reboot() -> (World, Plan) {
    let mut world = fleet(1);
    let plan = until(&mut world, interrupts);
    (world, plan)
}

fn entry<'w>(world: &'w mut World, package: &str) -> &'w mut Entry {
    let state = node(world, HERE).rollouts.get_mut("tuning").expect("our state");
    let mut entries = state.entries.values_mut();
    entries.find(|entry| entry.name == package).expect("an entry of the package")
}

/// On an unreachable node, a pod whose time to end is over: no kubelet will say that it is gone.
fn lose(world: &mut World, pod: &mut Pod) {
    pod.terminating = true;
    pod.deletes_at = Some(world.input.now - SignedDuration::from_secs(1));
    let key = "node.kubernetes.io/unreachable".to_owned();
    let taint = Taint { key, value: String::new(), effect: TaintEffect::NoExecute };
    node(world, HERE).taints.push(taint);
}

#[test]
fn pods_gone_a_pod_is_lost_only_when_it_ends_its_time_is_over_and_nobody_answers() {
    type Change = fn(&mut World, &mut Pod);
    let cases: [(&str, Change, &[Invariant]); 5] = [
        ("lost", |_, _| {}, &[]),
        ("it does not end", |_, pod| pod.terminating = false, &[Invariant::PodsGone]),
        ("no time is set", |_, pod| pod.deletes_at = None, &[Invariant::PodsGone]),
        (
            "its time is over now, not before",
            |world, pod| pod.deletes_at = Some(world.input.now),
            &[Invariant::PodsGone],
        ),
        ("reachable", |world, _| node(world, HERE).taints.clear(), &[Invariant::PodsGone]),
    ];
    for (case, change, expected) in cases {
        let (mut world, plan) = about_to_reboot();
        let mut lost = pod(HERE, "web", &[]);
        lose(&mut world, &mut lost);
        change(&mut world, &mut lost);
        world.add_pod(lost);
        assert_eq!(broken(&world, &plan), expected, "{case}");
    }
}

#[test]
fn pods_gone_the_daemons_own_pod_stays_only_when_no_other_node_takes_it() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, &[Invariant]); 4] = [
        ("the others are down", |_| {}, &[]),
        (
            "the others are cordoned",
            |world| {
                for other in ["node-01", "node-02", "node-03"] {
                    node(world, other).ready = true;
                    node(world, other).unschedulable = true;
                }
            },
            &[],
        ),
        ("one takes it", |world| node(world, "node-02").ready = true, &[Invariant::PodsGone]),
        ("it is another's", |world| world.input.own_pod = None, &[Invariant::PodsGone]),
    ];
    for (case, change, expected) in cases {
        let (mut world, plan) = about_to_reboot();
        let own = pod(HERE, "nodewright", &[]);
        world.input.own_pod = Some(own.reference.to_string());
        world.add_pod(own);
        for other in ["node-01", "node-02", "node-03"] {
            node(&mut world, other).ready = false;
        }
        change(&mut world);
        assert_eq!(broken(&world, &plan), expected, "{case}");
    }
}

#[test]
fn open_batch_an_image_is_pulled_for_a_batch_that_is_open_and_goes_on() {
    let mut world = fleet(1);
    let plan = until(&mut world, |action| {
        executor(action).is_some_and(|spec| matches!(spec.work, Work::Pull { .. }))
    });
    for (open, stopped, expected) in [
        (true, false, None),
        (true, true, Some(Invariant::OpenBatch)),
        (false, false, Some(Invariant::OpenBatch)),
    ] {
        let mut world = world.clone();
        let resource = world.input.observed.resources.get_mut("tuning").expect("our resource");
        let status = resource.status.as_mut().expect("a batch is open");
        for compartment in status.memory.compartments.values_mut() {
            compartment.batch_state.should_stop = stopped;
            compartment.open_batch = compartment.open_batch.take().filter(|_| open);
        }
        assert_eq!(broken(&world, &plan).first().copied(), expected, "{open} {stopped}");
    }
}

#[test]
fn order_a_stage_runs_that_is_on_record_and_in_progress() {
    for (stage, state) in [
        (Stage::Config, State::InProgress),
        (Stage::Apply, State::Complete),
        (Stage::Apply, State::Skipped),
    ] {
        let mut world = fleet(1);
        let plan = until(&mut world, installs("kernel"));
        let entry = entry(&mut world, "kernel");
        assert_eq!((entry.stage, entry.state), (Stage::Apply, State::InProgress));
        (entry.stage, entry.state) = (stage, state);
        assert_eq!(broken(&world, &plan), [Invariant::Order], "{stage} {state}");
    }
}

#[test]
fn order_an_interrupt_runs_whose_stage_is_on_record() {
    let (mut world, plan) = about_to_reboot();
    entry(&mut world, "kernel").stage = Stage::Config;
    assert_eq!(broken(&world, &plan), [Invariant::Order]);
}

#[test]
fn order_a_dependency_is_there_in_its_version_ended_and_complete() {
    type Change = fn(&mut Entry);
    let cases: [(&str, Change); 4] = [
        ("another package", |entry| entry.name = "motd".to_owned()),
        ("another version", |entry| entry.version = "9.9.9".parse().expect("a version")),
        ("a stage before the last", |entry| entry.stage = Stage::Apply),
        ("not complete", |entry| entry.state = State::Erroring),
    ];
    for (case, change) in cases {
        let mut world = fleet(1);
        let plan = until(&mut world, |action| installs("driver")(action));
        let starts: Vec<&str> =
            plan.actions.iter().filter_map(executor).map(|spec| spec.visit.node.as_str()).collect();
        assert_eq!(starts, [HERE]);
        change(entry(&mut world, "kernel"));
        assert_eq!(broken(&world, &plan), [Invariant::Order], "{case}");
    }
}

#[test]
fn hands_off_a_node_that_somebody_took_meanwhile() {
    type Change = fn(&mut World);
    let takes: [Change; 2] = [
        |world| {
            let (by, mark) = ("the GPU operator".to_owned(), "upgrade".to_owned());
            node(world, HERE).claims.push(Claim { by, mark, at_release: AtRelease::Waits });
        },
        |world| node(world, HERE).hold = Some("repair".to_owned()),
    ];
    for take in takes {
        let mut world = fleet(1);
        let plan = until(&mut world, is_pick);
        take(&mut world);
        assert_eq!(broken(&world, &plan), [Invariant::HandsOff]);
    }
}
