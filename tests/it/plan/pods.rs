//! Pods that linger, come late or are somebody else's: what counts, what waits, what is said.

use jiff::{SignedDuration, Timestamp};
use nodewright::model::{
    Action, AtRelease, Claim, Executor, ExecutorPhase, Group, InterruptKind, Phase, Reason, Record,
    Work,
};
use nodewright::plan::plan;
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::executors::{motd, one};

const HERE: &str = "node-00";

fn record(world: &World) -> &Record {
    let record = world.input.observed.nodes[HERE].record("tuning", "uid-tuning");
    record.expect("a visit")
}

fn restarts(world: &World) -> Option<i32> {
    let entries = world.input.observed.nodes[HERE].entries("tuning");
    entries.values().next().expect("an entry").restarts
}

/// The pod of a visit that still does something, of this group.
fn running(world: &World, group: Group) -> String {
    let mut executors = world.input.observed.executors.iter();
    let found = executors.find(|(_, it)| it.is_active() && it.group == group);
    found.unwrap_or_else(|| panic!("no {group} runs")).0.clone()
}

fn executor<'w>(world: &'w mut World, name: &str) -> &'w mut Executor {
    world.input.observed.executors.get_mut(name).expect("an executor")
}

fn reason(world: &World) -> Reason {
    plan(&world.input).verdicts["tuning"][HERE].reason.clone()
}

/// A pod that failed while somebody deleted it, and that a finalizer of others keeps.
fn lingering() -> (World, String, Timestamp) {
    let mut world = motd();
    let name = running(&world, Group::Install);
    world.pass(60);
    world.end(&name, End::Failure);
    executor(&mut world, &name).terminating = true;
    let ended = world.input.now;
    (world, name, ended)
}

#[test]
fn a_deleted_pod_that_does_not_go_is_waited_for_and_then_counts_as_lost() {
    let (mut world, _, ended) = lingering();
    for seconds in [0, 29] {
        world.input.now = ended + SignedDuration::from_secs(seconds);
        world.settle();
        let waiting = reason(&world).to_string();
        assert!(waiting.contains("its last pod is being taken away"), "{waiting}");
        assert_eq!(record(&world).attempts.get("motd"), None, "after {seconds} s");
        let wake = plan(&world.input).wake_at;
        assert_eq!(wake, Some(ended + SignedDuration::from_secs(30)));
        assert!(world.active().is_empty());
    }
    world.input.now = ended + SignedDuration::from_secs(30);
    world.settle();
    assert_eq!(record(&world).attempts["motd"], 1, "its number is taken");
    assert_eq!(restarts(&world), None, "and nothing failed");
    world.pass(600);
    world.settle();
    let name = running(&world, Group::Install);
    assert_eq!(executor(&mut world, &name).attempt, 2);
    world.run();
    assert!(world.is_complete());
}

/// Only a pod of the same package and group has the name that the next one would have.
#[test]
fn a_pod_that_does_not_go_keeps_no_other_package_waiting() {
    type Change = fn(&mut Executor);
    let others: [Change; 2] = [
        |executor| executor.package.name = "other".to_owned(),
        |executor| executor.group = Group::Verify,
    ];
    for other in others {
        let (mut world, name, _) = lingering();
        let mut stays = world.input.observed.executors.remove(&name).expect("it lingers");
        stays.reference.name = "stays".to_owned();
        other(&mut stays);
        world.input.observed.executors.insert("stays".to_owned(), stays);
        world.settle();
        assert_eq!(world.active().len(), 1);
    }
}

#[test]
fn an_interrupt_that_was_deleted_and_stays_is_not_taken_for_lost() {
    let mut world = one(package("chrony", "1.0.0").interrupting(InterruptKind::Service));
    world.finish_all(End::Success);
    world.settle();
    let name = running(&world, Group::Interrupt);
    world.end(&name, End::Failure);
    executor(&mut world, &name).terminating = true;
    world.settle();
    assert_eq!(restarts(&world), Some(1), "it may have done half of it");
}

#[test]
fn a_paused_visit_ends_what_runs_and_nothing_else() {
    let deletes = |world: &World| {
        let actions = plan(&world.input).actions.into_iter();
        actions.filter(|action| matches!(action, Action::DeleteExecutor { .. })).count()
    };
    let mut world = motd();
    world.input.observed.resources.get_mut("tuning").expect("ours").paused = true;
    assert_eq!(deletes(&world), 1);
    let name = running(&world, Group::Install);
    executor(&mut world, &name).terminating = true;
    assert_eq!(deletes(&world), 0, "it goes already");
    let executor = executor(&mut world, &name);
    (executor.terminating, executor.phase) = (false, ExecutorPhase::Succeeded);
    assert_eq!(deletes(&world), 0, "it has ended");
}

fn message(world: &World) -> String {
    record(world).message.clone().unwrap_or_default()
}

#[test]
fn a_pod_that_is_not_started_is_told_without_a_step_and_with_its_image_once() {
    let mut world = motd();
    let name = running(&world, Group::Install);
    world.stall(&name, "ErrImagePull");
    let image = "registry.example/motd:1.0.0";
    let waiting = executor(&mut world, &name).waiting.as_mut().expect("it waits");
    waiting.image = image.to_owned();
    let mut named = world.clone();
    let waiting = executor(&mut named, &name).waiting.as_mut().expect("it waits");
    waiting.message = format!("{image}: not found");
    let mut nameless = world.clone();
    let waiting = executor(&mut nameless, &name).waiting.as_mut().expect("it waits");
    waiting.image.clear();
    for (world, times) in [(&mut world, 1), (&mut named, 1), (&mut nameless, 0)] {
        world.pass(300);
        world.settle();
        let message = message(world);
        assert!(message.starts_with("apply in pod "), "{message}");
        assert_eq!(message.matches(image).count(), times, "{message}");
        assert!(!message.contains("(image )"), "{message}");
    }
}

/// Nothing was done to the host, so this is a failed attempt and no reboot.
#[test]
fn a_reboots_pod_that_is_never_started_is_a_failure() {
    let mut world = one(package("kernel", "1.0.0").interrupting(InterruptKind::Reboot));
    world.finish_all(End::Success);
    world.settle();
    let name = running(&world, Group::Interrupt);
    world.stall(&name, "CreateContainerConfigError");
    world.pass(300);
    world.settle();
    assert!(message(&world).starts_with("interrupt, step start in pod "), "{}", message(&world));
    assert!(!record(&world).is_open());
}

#[test]
fn a_pod_that_runs_says_so_however_long_it_does() {
    let mut world = motd();
    world.pass(900);
    assert!(matches!(reason(&world), Reason::Running { .. }), "{}", reason(&world));
    let name = running(&world, Group::Install);
    executor(&mut world, &name).running = None;
    assert!(matches!(reason(&world), Reason::Running { .. }), "between two containers");
    executor(&mut world, &name).terminating = true;
    world.settle();
    let waiting = reason(&world).to_string();
    assert!(waiting.contains("its last pod is being taken away"), "{waiting}");
}

#[test]
fn the_next_attempt_begins_when_its_time_has_come_and_not_before() {
    let mut world = motd();
    let name = running(&world, Group::Install);
    world.end(&name, End::Failure);
    world.settle();
    let Reason::BackingOff { until, .. } = reason(&world) else { panic!("{}", reason(&world)) };
    world.input.now = until - SignedDuration::from_secs(1);
    world.settle();
    assert!(world.active().is_empty());
    world.input.now = until;
    world.settle();
    assert_eq!(world.active().len(), 1);
}

/// A pod of an earlier visit that has not begun waits for nobody; one of this visit goes on.
#[test]
fn a_pod_that_an_earlier_visit_left_behind_is_taken_away_before_it_begins() {
    for (earlier, taken) in [(1, true), (0, false)] {
        let mut world = motd();
        let name = running(&world, Group::Install);
        world.stall(&name, "ContainerCreating");
        executor(&mut world, &name).visit.visit -= earlier;
        let deletes = |action: &Action| matches!(action, Action::DeleteExecutor { .. });
        assert_eq!(plan(&world.input).actions.iter().any(deletes), taken, "{earlier}");
    }
}

/// An interrupt that failed and is counted is not on its way any more: hands off means it.
#[test]
fn a_failed_interrupt_is_not_tried_again_under_another_operators_hands() {
    let mut world = one(package("chrony", "1.0.0").interrupting(InterruptKind::Service));
    world.finish_all(End::Success);
    world.settle();
    world.end(&running(&world, Group::Interrupt), End::Failure);
    world.settle();
    let (by, mark) = ("the GPU operator".to_owned(), "upgrade".to_owned());
    let claim = Claim { by, mark, at_release: AtRelease::Waits };
    world.input.observed.nodes.get_mut(HERE).expect("there").claims.push(claim);
    world.pass(600);
    world.settle();
    assert!(world.active().is_empty());
    assert!(matches!(reason(&world), Reason::HandsOff { .. }), "{}", reason(&world));
}

/// The package that carries the interrupt is gone from the node and from the manifest.
#[test]
fn an_interrupt_whose_package_is_gone_is_taken_back_unless_it_was_issued() {
    for (issued, failed) in [(false, false), (true, false), (true, true)] {
        let mut world = one(package("chrony", "1.0.0").interrupting(InterruptKind::Service));
        world.finish_all(End::Success);
        world.settle();
        let name = running(&world, Group::Interrupt);
        if failed {
            world.end(&name, End::Failure);
            world.settle();
        } else if !issued {
            world.input.observed.executors.remove(&name);
        }
        assert_eq!(record(&world).phase, Phase::Interrupting);
        let node = world.input.observed.nodes.get_mut(HERE).expect("there");
        node.rollouts.get_mut("tuning").expect("our state").entries.clear();
        world.set_rollout(rollout(1, vec![package("motd", "1.0.0")]));
        world.settle();
        let waits = issued && !failed;
        assert_eq!(record(&world).phase == Phase::Interrupting, waits, "{issued} {failed}");
        world.run();
        assert!(world.is_complete());
    }
}

/// What stands there is named as applied as long as something else is being put there.
#[test]
fn what_was_put_there_before_stays_named_until_the_next_is() {
    let with = |text: &str| rollout(1, vec![package("motd", "1.0.0").with_config("text", text)]);
    let names = |world: &World| {
        let entries = world.input.observed.nodes[HERE].entries("tuning");
        let entry = entries.values().next().expect("an entry");
        (entry.snapshot.clone(), entry.applied.clone())
    };
    let mut world = world(1, with("first"));
    world.run();
    let (first, _) = names(&world);
    world.set_rollout(with("second"));
    world.settle();
    world.end(&running(&world, Group::Install), End::Failure);
    world.settle();
    assert_eq!(names(&world).1, first);
    world.set_rollout(with("third"));
    world.settle();
    assert_eq!(names(&world).1, first, "the second never ran");
    world.end(&running(&world, Group::Install), End::Failure);
    world.settle();
    world.set_rollout(with("first"));
    world.settle();
    assert_eq!(names(&world), (first, None));
}

#[test]
fn with_serial_a_package_waits_for_those_of_its_node_and_rollout_alone() {
    let mut wanted = rollout(2, vec![package("a", "1.0.0"), package("b", "1.0.0")]);
    wanted.serial = true;
    let mut world = world(2, wanted);
    world.settle();
    let started = |world: &World| {
        let active = world.active();
        let all = &world.input.observed.executors;
        active.iter().map(|name| all[name].visit.node.clone()).collect::<Vec<_>>()
    };
    assert_eq!(started(&world), ["node-00", "node-01"], "each node by itself");
    type Change = fn(&mut Executor);
    let others: [Change; 2] = [
        |executor| executor.group = Group::Pull,
        |executor| executor.visit.rollout = "other".to_owned(),
    ];
    for other in others {
        let mut world = world.clone();
        let here = world.active().remove(0);
        let mut stays = world.input.observed.executors[&here].clone();
        world.end(&here, End::Success);
        stays.reference.name = "stays".to_owned();
        other(&mut stays);
        world.input.observed.executors.insert("stays".to_owned(), stays);
        world.settle();
        let b = |it: &&Executor| it.package.name == "b" && it.visit.node == HERE;
        assert_eq!(world.input.observed.executors.values().filter(b).count(), 1);
    }
}

#[test]
fn a_patch_says_what_it_is_for() {
    let mut world = motd();
    let name = running(&world, Group::Install);
    let mut failed = world.clone();
    failed.end(&name, End::Failure);
    assert_eq!(reason(&failed), Reason::Recording { group: Group::Install });
    world.end(&name, End::Success);
    assert_eq!(reason(&world), Reason::Releasing);
}

/// Both start in the same tick, so neither runs yet when the other is looked at.
#[test]
fn with_serial_a_package_does_not_wait_for_one_that_starts_on_another_node() {
    let serial = |packages| {
        let mut wanted = rollout(2, packages);
        wanted.serial = true;
        wanted
    };
    let mut world = world(1, serial(vec![package("a", "1.0.0")]));
    world.run();
    world.add_node("node-01", &[("pool", "gpu")]);
    world.set_rollout(serial(vec![package("a", "1.0.0"), package("b", "1.0.0")]));
    for _ in 0..20 {
        let started = plan(&world.input).actions.into_iter().filter_map(|it| {
            let Action::CreateExecutor(spec) = it else { return None };
            (!matches!(spec.work, Work::Pull { .. }))
                .then(|| format!("{} {}", spec.visit.node, spec.work.package().name))
        });
        let started: Vec<String> = started.collect();
        if !started.is_empty() {
            assert_eq!(started, ["node-00 b", "node-01 a"]);
            return;
        }
        let (_, _, done) = world.tick(|_| Fate::Done);
        if done == 0 {
            world.finish_all(End::Success);
        }
    }
    panic!("nothing starts");
}
