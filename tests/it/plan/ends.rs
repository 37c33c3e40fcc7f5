//! How ends are taken in: once, for the stage they belong to; and when a visit may end.

use nodewright::model::{
    Action, CordonMark, Executor, ExecutorPhase, Failure, Group, InterruptKind, Package, Phase,
    Reason, Record, Stage, State,
};
use nodewright::plan::plan;
use nodewright::plan::world::{End, World};

use super::builders::{PackageExt, WorldExt, package, pod, rollout, world};

const HERE: &str = "node-00";

fn one(packages: Vec<Package>) -> World {
    let mut world = world(1, rollout(1, packages));
    world.settle();
    world
}

fn motd() -> World {
    one(vec![package("motd", "1.0.0")])
}

fn service(name: &str) -> Package {
    package(name, "1.0.0").interrupting(InterruptKind::Service)
}

fn record(world: &World) -> &Record {
    let record = world.input.observed.nodes[HERE].record("tuning", "uid-tuning");
    record.expect("a visit")
}

/// The only executor of this group and package that still does something.
fn running(world: &mut World, group: Group, package: &str) -> String {
    let mut executors = world.input.observed.executors.iter();
    let found = executors.find(|(_, executor)| {
        executor.is_active() && executor.group == group && executor.package.name == package
    });
    found.unwrap_or_else(|| panic!("no {group} of {package} runs")).0.clone()
}

fn end(world: &mut World, group: Group, package: &str, end: End) {
    let name = running(world, group, package);
    world.end(&name, end);
}

fn change(world: &mut World, name: &str, change: impl Fn(&mut Executor)) {
    change(world.input.observed.executors.get_mut(name).expect("an executor"));
}

/// Lets a package fail until its attempts are used up.
fn give_up(world: &mut World, package: &str) {
    for _ in 1..=4 {
        end(world, Group::Install, package, End::Failure);
        world.settle();
        world.pass(100);
        world.settle();
    }
}

#[test]
fn an_end_counts_at_the_stages_it_belongs_to_and_once() {
    for (stage, state) in [(Stage::Uninstall, State::InProgress), (Stage::Config, State::Complete)]
    {
        let mut world = motd();
        let node = world.input.observed.nodes.get_mut(HERE).expect("there");
        let state_here = node.rollouts.get_mut("tuning").expect("our state");
        for entry in state_here.entries.values_mut() {
            (entry.stage, entry.state) = (stage, state);
        }
        end(&mut world, Group::Install, "motd", End::Success);
        for action in plan(&world.input).actions {
            let Action::PatchNode(patch) = action else { continue };
            let counted = patch.record.is_some_and(|record| record.attempts.contains_key("motd"));
            assert!(!counted, "{stage} {state}");
        }
    }
}

#[test]
fn an_install_has_ended_well_when_its_last_stage_has() {
    type Change = fn(&mut Executor);
    let ends: [(End, Change); 2] = [
        (End::Success, |executor| executor.completed.clear()),
        (End::Failure, |executor| executor.completed = vec![Stage::Apply, Stage::Config]),
    ];
    for (how, told) in ends {
        let mut world = motd();
        let name = running(&mut world, Group::Install, "motd");
        world.end(&name, how);
        change(&mut world, &name, told);
        world.settle();
        assert_eq!(world.entry(HERE, "motd"), "1.0.0 config complete", "{how:?}");
    }
}

#[test]
fn a_stage_that_has_ended_well_is_not_run_again() {
    let mut world = motd();
    end(&mut world, Group::Install, "motd", End::Partly);
    world.settle();
    assert_eq!(world.entry(HERE, "motd"), "1.0.0 config erroring");
    world.pass(600);
    world.run();
    let applied = world.completed.iter().filter(|(_, _, _, stage, _)| *stage == Stage::Apply);
    assert_eq!(applied.count(), 1);
}

#[test]
fn an_interrupt_counts_also_where_the_package_that_carried_it_was_reset() {
    let mut world = one(vec![service("chrony")]);
    end(&mut world, Group::Install, "chrony", End::Success);
    world.settle();
    let name = running(&mut world, Group::Interrupt, "chrony");
    let node = world.input.observed.nodes.get_mut(HERE).expect("there");
    node.rollouts.get_mut("tuning").expect("our state").entries.clear();
    world.end(&name, End::Success);
    world.settle();
    assert_eq!(record(&world).attempts.get("chrony/interrupt"), Some(&1));
    world.run();
    assert!(world.is_complete());
}

/// The command may be on its way: the pod's end alone says nothing of the host.
#[test]
fn c1_a_reboots_pod_that_begun_and_failed_is_no_reason_for_another_reboot() {
    let mut world = one(vec![package("kernel", "1.0.0").interrupting(InterruptKind::Reboot)]);
    end(&mut world, Group::Install, "kernel", End::Success);
    world.settle();
    let name = running(&mut world, Group::Interrupt, "kernel");
    change(&mut world, &name, |executor| {
        executor.begun = true;
        executor.phase = ExecutorPhase::Failed;
        executor.running = None;
        executor.failure = Some(Failure {
            stage: None,
            in_check: false,
            step: None,
            exit_code: None,
            message: "node was shut down".to_owned(),
            disrupted: true,
        });
    });
    world.pass(120);
    world.settle();
    assert!(world.active().is_empty(), "nothing is issued again");
    assert_eq!(record(&world).attempts.get("kernel/interrupt"), None);
    let waiting = &plan(&world.input).verdicts["tuning"][HERE].reason;
    assert!(matches!(waiting, Reason::Rebooting { .. }), "{waiting}");
}

#[test]
fn a_visit_ends_when_everything_that_runs_has_ended() {
    let mut world = one(vec![package("bad", "1.0.0"), package("good", "1.0.0")]);
    give_up(&mut world, "bad");
    assert!(record(&world).is_open(), "the other package still runs");
    assert_eq!(record(&world).attempts["bad"], 4, "and no fifth attempt");
    assert_eq!(world.active().len(), 1);
    end(&mut world, Group::Install, "good", End::Success);
    world.settle();
    assert!(!record(&world).is_open());
    assert_eq!(world.entry(HERE, "good"), "1.0.0 config complete");
}

/// The kubelet does not let it go: two pods of one package never run beside each other.
#[test]
fn a_pod_that_took_too_long_counts_once_however_long_it_stays() {
    let mut world = motd();
    let name = running(&mut world, Group::Install, "motd");
    let mut stays = world.input.observed.executors[&name].clone();
    stays.terminating = true;
    world.pass(86_400);
    world.settle();
    assert_eq!(restarts(&world), Some(1));
    world.input.observed.executors.insert(name.clone(), stays);
    let before = world.input.observed.nodes[HERE].rollouts.clone();
    for _ in 0..3 {
        world.pass(86_400);
        world.settle();
        assert_eq!(world.input.observed.nodes[HERE].rollouts, before);
        let verdict = world.verdict(HERE);
        assert!(verdict.contains("its last pod is being taken away"), "{verdict}");
    }
    world.input.observed.executors.clear();
    world.run();
    assert!(world.is_complete());
}

/// Nothing that was given up is begun again meanwhile, whatever it was given up for.
#[test]
fn what_was_given_up_is_not_tried_again_while_another_package_runs() {
    let mut world = one(vec![package("bad", "1.0.0"), package("good", "1.0.0")]);
    let name = running(&mut world, Group::Install, "bad");
    world.stall(&name, "CreateContainerConfigError");
    world.pass(301);
    world.settle();
    world.pass(600);
    world.settle();
    assert_eq!(record(&world).attempts["bad"], 1);
    assert_eq!(world.active().len(), 1, "the other one goes on");
    end(&mut world, Group::Install, "good", End::Success);
    world.settle();
    assert!(!record(&world).is_open());
    assert_eq!(record(&world).reason.as_deref(), Some("NotStarted"));
}

fn restarts(world: &World) -> Option<i32> {
    let entries = world.input.observed.nodes[HERE].entries("tuning");
    entries.values().next().expect("an entry").restarts
}

#[test]
fn a_visit_is_of_the_new_target_until_its_interrupt_has_begun() {
    let kernel = || package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let wider = || rollout(1, vec![kernel(), package("motd", "1.0.0")]);
    let mut world = one(vec![kernel()]);
    let before = record(&world).target.clone();
    let mut later = world.clone();
    world.set_rollout(wider());
    world.settle();
    assert_eq!(record(&world).phase, Phase::Picked);
    assert_ne!(record(&world).target, before);

    later.finish_all(End::Success);
    later.settle();
    later.finish_all(End::Success);
    later.settle();
    assert_eq!(record(&later).phase, Phase::Interrupted);
    later.set_rollout(wider());
    later.settle();
    assert_eq!(record(&later).target, before, "its reboot was for the target before");
    later.run();
    assert!(later.is_complete());
    assert_ne!(record(&later).target, before);
}

#[test]
fn the_clock_of_a_drain_runs_before_the_interrupt_alone() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut wanted = rollout(1, vec![kernel]);
    wanted.drain.timeout = Some(std::time::Duration::from_secs(60));
    let mut world = world(1, wanted);
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    assert_eq!(record(&world).phase, Phase::Interrupted);
    world.add_pod(pod(HERE, "web", &[]));
    world.settle();
    assert_eq!(world.input.observed.nodes[HERE].rollouts["tuning"].drain_start, None);
    world.pass(61);
    world.run();
    assert!(world.is_complete());
}

#[test]
fn a_pod_that_comes_before_the_interrupt_is_evicted_while_another_package_runs() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = one(vec![kernel, package("motd", "1.0.0")]);
    end(&mut world, Group::Install, "kernel", End::Success);
    world.settle();
    world.add_pod(pod(HERE, "web", &[]));
    let planned = plan(&world.input);
    assert!(planned.actions.iter().any(|action| matches!(action, Action::Evict(_))));
    world.run();
    assert!(world.is_complete());
}

#[test]
fn a_package_that_interrupts_takes_hold_of_a_node_in_the_middle_of_its_visit() {
    let kernel = || package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    for foreign in [false, true] {
        let mut world = motd();
        if foreign {
            world.cordon(HERE, "kubectl");
            world.settle();
        }
        world.set_rollout(rollout(1, vec![package("motd", "1.0.0"), kernel()]));
        world.settle();
        let node = &world.input.observed.nodes[HERE];
        assert!(record(&world).held && node.unschedulable);
        let marks = if foreign { vec![] } else { vec![CordonMark::Rollout("tuning".to_owned())] };
        assert_eq!(node.cordons, marks, "foreign: {foreign}");
        world.run();
        assert!(world.is_complete());
        assert_eq!(world.input.observed.nodes[HERE].unschedulable, foreign);
    }
}
