//! Nodes that a person let go of, with `nodewright forget`: nothing they said is counted on, no
//! cordon of ours stays, and no other node does anything because of it.

use std::collections::BTreeMap;

use nodewright::model::{
    Action, AtRelease, Claim, ExecutorPhase, Floor, Group, InterruptKind, Outcome, Phase, Record,
    StatusWord,
};
use nodewright::plan::plan;
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::deletion::{assert_left_in_order, delete, is_gone};

const LOST: &str = "node-00";
const HOURS: i64 = 3_600;

fn rebooting(nodes: u32, count: u32) -> World {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    world(nodes, rollout(count, vec![kernel, package("motd", "1.0.0")]))
}

fn left(world: &World, node: &str) -> Vec<String> {
    let state = world.input.observed.nodes[node].rollouts.get("tuning");
    state.map(|it| it.left.keys().map(ToString::to_string).collect()).unwrap_or_default()
}

fn record<'w>(world: &'w World, node: &str) -> Option<&'w Record> {
    world.input.observed.nodes[node].rollouts.get("tuning")?.record.as_ref()
}

fn is_free(world: &World, node: &str) -> bool {
    let node = &world.input.observed.nodes[node];
    !node.unschedulable && node.cordons.is_empty()
}

fn word(world: &World) -> StatusWord {
    world.input.observed.resources["tuning"].status.as_ref().expect("a status").word
}

fn condition(world: &World, kind: &str) -> String {
    let status = world.input.observed.resources["tuning"].status.as_ref().expect("a status");
    let found = status.conditions.iter().find(|it| it.kind == kind);
    found.map_or(String::new(), |it| it.message.clone())
}

/// How often each node ran each stage of each package to success.
fn runs(world: &World, node: &str) -> BTreeMap<String, usize> {
    let mut runs = BTreeMap::new();
    for (on, package, _, stage, _) in &world.completed {
        if on == node {
            *runs.entry(format!("{package} {stage}")).or_default() += 1;
        }
    }
    runs
}

/// A visit whose node went down in its reboot, long ago.
fn never_back() -> World {
    let mut world = rebooting(3, 1);
    for _ in 0..20 {
        world.settle();
        let executors = &world.input.observed.executors;
        let mut active = executors.values().filter(|it| it.is_active());
        let Some(first) = active.next() else { break };
        let (name, group) = (first.reference.name.clone(), first.group);
        world.end(&name, if group == Group::Interrupt { End::Gone } else { End::Success });
    }
    for _ in 0..5 {
        world.pass(HOURS);
        world.settle();
    }
    assert!(world.verdict(LOST).starts_with("Blocked: interrupt reboot failed"));
    assert!(world.input.observed.nodes[LOST].is_cordoned_by("tuning"));
    world
}

#[test]
fn a_node_that_never_comes_back_holds_its_deletion_only_until_it_is_forgotten() {
    let agent = || package("agent", "1.0.0").with_uninstall();
    let mut world = world(2, rollout(2, vec![agent()]));
    world.run();
    world.go_down(LOST);
    delete(&mut world);
    for _ in 0..5 {
        world.pass(HOURS);
        world.run();
    }
    assert!(!is_gone(&world), "what is on the host is to be uninstalled");
    let says = condition(&world, "DeletionBlocked");
    assert!(says.contains("is let go by nodewright forget node/NAME"), "{says}");

    world.forget(LOST, "tuning");
    world.run();
    assert!(is_gone(&world));
    assert_eq!(left(&world, LOST), ["agent|1.0.0"], "it is recorded as left");
    let kept = &world.input.observed.nodes[LOST].rollouts["tuning"];
    assert_eq!((&kept.record, kept.status), (&None, None));
    assert!(!world.input.observed.nodes["node-01"].rollouts.contains_key("tuning"));
    assert!(is_free(&world, LOST));

    // What was let go of is not taken up again by a resource of that name: it is installed.
    world.come_back(LOST);
    world.set_rollout(rollout(2, vec![agent()]));
    world.run();
    assert!(world.is_complete());
    assert_eq!(runs(&world, LOST)["agent|1.0.0 apply"], 2);
    assert_eq!(left(&world, LOST), Vec::<String>::new());
    delete(&mut world);
    world.run();
    assert_left_in_order(&world);
}

#[test]
fn a_node_that_never_came_back_from_its_reboot_gives_its_budget_and_its_cordon_back() {
    let mut world = never_back();
    assert_eq!(world.verdict("node-01"), "Wait: budget used: 1 of 1 disturbed (node-00)");
    world.forget(LOST, "tuning");
    world.settle();
    assert!(is_free(&world, LOST), "also while it is down");
    assert!(world.verdict(LOST).starts_with("Wait: in repair"), "{}", world.verdict(LOST));
    world.run();
    assert_eq!(word(&world), StatusWord::Complete, "the rollout goes on without it");
    let others = runs(&world, "node-01");
    assert!(others.values().all(|times| *times == 1), "{others:?}");

    world.come_back(LOST);
    world.run();
    assert!(world.is_complete() && is_free(&world, LOST));
    assert_eq!(runs(&world, "node-01"), others, "nothing runs twice elsewhere");
    assert_eq!(runs(&world, LOST)["kernel|1.0.0 post-interrupt"], 1);
    assert_eq!(runs(&world, LOST)["kernel|1.0.0 apply"], 2, "as on one that never had it");
    assert_eq!(left(&world, LOST), Vec::<String>::new());
}

/// Whatever the visit was at, and whenever the host comes back: the node is let go and installed
/// anew, the others once, and the audit agrees with each plan on the way.
#[test]
fn a_node_is_let_go_of_at_any_step_of_its_visit_and_comes_back_at_any_time() {
    let mut phases = Vec::new();
    for step in 0..24 {
        for back in 0..3 {
            let mut world = rebooting(3, 1);
            for _ in 0..step {
                let (_, breaches, done) = world.tick(|_| Fate::Done);
                assert_eq!(breaches, vec![]);
                let first = world.active().first().cloned();
                if let Some(name) = first.filter(|_| done == 0) {
                    world.pass(5);
                    world.end(&name, End::Success);
                }
            }
            if world.input.observed.nodes[LOST].rollouts.contains_key("tuning") {
                phases.extend(record(&world, LOST).map(|it| (it.phase, it.outcome)));
            }
            world.go_down(LOST);
            world.pass(2 * HOURS);
            if back == 0 {
                world.settle();
            }
            world.forget(LOST, "tuning");
            if back == 1 {
                world.come_back(LOST);
            }
            world.run();
            if back != 1 {
                assert!(is_free(&world, LOST), "step {step}: {}", world.verdict(LOST));
                assert!(world.input.observed.nodes[LOST].entries("tuning").is_empty());
                assert!(world.active().is_empty(), "step {step}: pods of a host that is gone");
                world.come_back(LOST);
                world.run();
            }
            assert!(world.is_complete(), "step {step}, {back}: {}", world.verdict(LOST));
            for other in ["node-01", "node-02"] {
                let runs = runs(&world, other);
                assert!(!runs.is_empty() && runs.values().all(|it| *it == 1), "{step}: {runs:?}");
                assert_eq!(world.reboots.get(other), Some(&1), "step {step}");
            }
            assert!(world.input.observed.nodes.keys().all(|name| is_free(&world, name)));
        }
    }
    for phase in [Phase::Picked, Phase::Interrupting, Phase::Interrupted] {
        assert!(phases.contains(&(phase, None)), "{phase} is one of the steps");
    }
    assert!(phases.contains(&(Phase::Released, Some(Outcome::Complete))));
}

#[test]
fn a_host_that_was_made_anew_is_installed_again_and_no_other() {
    let mut world = rebooting(3, 1);
    world.run();
    let before = runs(&world, "node-01");
    world.forget(LOST, "tuning");
    assert_eq!(left(&world, LOST), ["kernel|1.0.0", "motd|1.0.0"]);
    world.run();
    assert!(world.is_complete());
    assert_eq!(world.reboots[LOST], 2);
    assert_eq!((runs(&world, "node-01"), world.reboots["node-01"]), (before, 1));
    assert_eq!(left(&world, LOST), Vec::<String>::new());
}

#[test]
fn what_was_forgotten_proves_nothing_of_a_first_use() {
    let mut world = world(3, rollout(3, vec![package("agent", "1.0.0")]));
    world.run();
    world.input.floor = Floor::default();
    let open = |world: &World| {
        let nodes = world.input.observed.nodes.keys();
        nodes.filter(|name| record(world, name).is_some_and(Record::is_open)).count()
    };
    for name in [LOST, "node-01", "node-02"] {
        world.forget(name, "tuning");
    }
    world.settle();
    assert_eq!(open(&world), 1, "one first, as of what no node has");
    world.run();
    assert!(world.is_complete());
    // As long as one still has it, it is known.
    world.forget(LOST, "tuning");
    world.forget("node-01", "tuning");
    world.settle();
    assert_eq!(open(&world), 2);
}

/// The patch that takes the mark off, if the plan has one.
fn release(world: &World) -> Option<Option<bool>> {
    plan(&world.input).actions.iter().find_map(|action| match action {
        Action::PatchNode(patch) if patch.cordon_mark == Some(false) => Some(patch.unschedulable),
        _ => None,
    })
}

#[test]
fn the_cordon_goes_when_nothing_of_ours_runs_on_a_host_that_is_up_and_nobody_else_has_it() {
    type Change = fn(&mut World);
    let runs_there: Change = |world| {
        let executors = world.input.observed.executors.values_mut();
        let executor = executors.max_by_key(|it| it.created).expect("a pod of the visit");
        executor.phase = ExecutorPhase::Running;
        executor.finished = None;
        executor.terminating = true;
    };
    let claimed: Change = |world| {
        world.change_node(LOST, |node| {
            let (by, mark) = ("GPU Operator".to_owned(), "drain-required".to_owned());
            node.claims.push(Claim { by, mark, at_release: AtRelease::Waits });
        });
    };
    let cases: [(&str, Change, Option<Option<bool>>); 6] = [
        ("it is down", |_| {}, Some(Some(false))),
        ("its pod is still there, and it is down", runs_there, Some(Some(false))),
        ("somebody had cordoned it before", prior, Some(None)),
        ("another operator gives it back itself", claimed, None),
        ("a person took our mark off", |world| unmark(world), None),
        ("the visit failed since", failed_since, None),
    ];
    for (case, change, expected) in cases {
        let mut world = never_back();
        world.forget(LOST, "tuning");
        change(&mut world);
        assert_eq!(release(&world), expected, "{case}");
    }
    let mut world = never_back();
    world.forget(LOST, "tuning");
    runs_there(&mut world);
    world.come_back(LOST);
    runs_there(&mut world);
    assert_eq!(release(&world), None, "it is up, and its pod has not ended");
}

fn prior(world: &mut World) {
    change_record(world, |record| record.prior_unschedulable = true);
}

fn unmark(world: &mut World) {
    world.change_node(LOST, |node| node.cordons.clear());
}

fn failed_since(world: &mut World) {
    change_record(world, |record| record.outcome = Some(Outcome::Erroring));
}

fn change_record(world: &mut World, change: impl FnOnce(&mut Record)) {
    let node = world.input.observed.nodes.get_mut(LOST).expect("a node of the fleet");
    let state = node.rollouts.get_mut("tuning").expect("our state");
    change(state.record.as_mut().expect("a visit"));
}

#[test]
fn what_still_runs_of_the_visit_is_ended_before_the_cordon_goes() {
    let mut world = never_back();
    world.forget(LOST, "tuning");
    let executors = world.input.observed.executors.values_mut();
    let executor = executors.max_by_key(|it| it.created).expect("a pod of the visit");
    executor.phase = ExecutorPhase::Running;
    executor.finished = None;
    let pod = executor.reference.clone();
    let planned = plan(&world.input);
    let ends =
        |action: &Action| matches!(action, Action::DeleteExecutor { pod: it, .. } if *it == pod);
    assert_eq!(planned.actions.iter().filter(|action| ends(action)).count(), 1);
    assert_eq!(release(&world), None);
    world.settle();
    assert!(is_free(&world, LOST));
}
