//! Taking over, case by case: each condition of a rule decides by itself.

use jiff::SignedDuration;
use nodewright::model::{
    Action, CordonMark, ExecutorPhase, InterruptKind, Node, NodePatch, NodeRollout, PatchKind,
    Stage, StatusWord, UpstreamKind, UpstreamWork,
};
use nodewright::plan::plan;
use nodewright::plan::world::World;

use super::super::builders::{PackageExt, WorldExt, noon, package, rollout, world};
use super::super::selection::pool;
use super::{cordon, job, leave, upstream};

const HERE: &str = "node-00";

fn node(world: &mut World) -> &mut Node {
    world.input.observed.nodes.get_mut(HERE).expect("a node of the fleet")
}

fn state(world: &mut World) -> &mut NodeRollout {
    node(world).rollouts.get_mut("tuning").expect("left by upstream")
}

fn release(world: &World) -> Option<NodePatch> {
    plan(&world.input).actions.into_iter().find_map(|action| match action {
        Action::PatchNode(patch) if matches!(patch.kind, PatchKind::Release { .. }) => Some(patch),
        _ => None,
    })
}

#[test]
fn a_node_that_upstream_did_not_let_go_is_let_go_when_it_is_complete_and_up() {
    type Change = fn(&mut World);
    // Whether it is let go; then what becomes of the mark, of the cordon and of the drain's clock.
    type Left = Option<(Option<bool>, Option<bool>, bool)>;
    let cases: [(&str, Change, Left); 8] = [
        ("nothing says that it is worked on", |_| {}, None),
        ("it is marked", |world| cordon(world, HERE), Some((Some(false), Some(false), false))),
        (
            "its status says so",
            |world| state(world).status = Some(StatusWord::InProgress),
            Some((None, None, false)),
        ),
        ("it says complete", |world| state(world).status = Some(StatusWord::Complete), None),
        (
            "another rollout holds it, too",
            |world| {
                cordon(world, HERE);
                node(world).cordons.push(CordonMark::Rollout("other".to_owned()));
            },
            Some((Some(false), None, false)),
        ),
        (
            "somebody opened it, and a clock is left",
            |world| {
                cordon(world, HERE);
                node(world).unschedulable = false;
                state(world).drain_start = Some(noon());
            },
            Some((Some(false), None, true)),
        ),
        (
            "it is down",
            |world| {
                cordon(world, HERE);
                node(world).ready = false;
            },
            None,
        ),
        (
            "something is due",
            |world| {
                cordon(world, HERE);
                world.set_rollout(rollout(1, vec![package("kernel", "2.0.0")]));
            },
            None,
        ),
    ];
    for (case, change, expected) in cases {
        let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
        leave(&mut world, HERE, &[("kernel", "1.0.0", "config", "complete")]);
        change(&mut world);
        let patch = release(&world);
        let left = patch.as_ref().map(|patch| {
            assert_eq!(patch.status, Some(StatusWord::Complete), "{case}");
            (patch.cordon_mark, patch.unschedulable, patch.drain_start == Some(None))
        });
        assert_eq!(left, expected, "{case}");
    }
}

fn work(world: &mut World) -> &mut UpstreamWork {
    world.input.observed.upstream.values_mut().next().expect("work of upstream's")
}

/// A bare pod whose image cannot be pulled waits for ever; a Job's is made again by the Job.
#[test]
fn a_pod_of_upstreams_that_does_not_start_is_taken_away_after_its_time() {
    for (kind, seconds, taken) in [
        (UpstreamKind::Pod, 299, false),
        (UpstreamKind::Pod, 300, true),
        (UpstreamKind::Job, 300, false),
    ] {
        let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
        leave(&mut world, HERE, &[("kernel", "1.0.0", "apply", "in_progress")]);
        job(&mut world, HERE, "kernel", Stage::Apply, ExecutorPhase::Pending);
        work(&mut world).reference.kind = kind;
        let over = world.input.now + SignedDuration::from_secs(300);
        world.pass(seconds);
        let planned = plan(&world.input);
        let takes = |action: &Action| matches!(action, Action::DeleteUpstreamWork { .. });
        assert_eq!(planned.actions.iter().any(takes), taken, "{kind:?} after {seconds} s");
        let looks = kind == UpstreamKind::Pod && !taken;
        assert_eq!(planned.wake_at == Some(over), looks, "{kind:?} after {seconds} s");
    }
}

#[test]
fn a_reboot_that_upstream_issued_is_credited_by_the_boot_id_and_by_nothing_else() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, bool); 6] = [
        ("rebooted", |_| {}, true),
        ("the node is down", |world| node(world).ready = false, false),
        (
            "the same boot",
            |world| {
                let boot = node(world).boot_id.clone();
                upstream(world).node_boot_ids.insert(HERE.to_owned(), boot);
            },
            false,
        ),
        ("upstream never saw it", |world| upstream(world).node_boot_ids.clear(), false),
        (
            "its work still runs",
            |world| job(world, HERE, "kernel", Stage::Interrupt, ExecutorPhase::Running),
            false,
        ),
        (
            "it restarts a service",
            |world| {
                let chrony = package("kernel", "1.0.0").interrupting(InterruptKind::Service);
                world.set_rollout(rollout(1, vec![chrony]));
            },
            false,
        ),
    ];
    for (case, change, credited) in cases {
        let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
        let mut world = world(1, rollout(1, vec![kernel]));
        leave(&mut world, HERE, &[("kernel", "1.0.0", "interrupt", "in_progress")]);
        upstream(&mut world).node_boot_ids.insert(HERE.to_owned(), "boot-before".to_owned());
        change(&mut world);
        let credits = plan(&world.input).actions.iter().any(|action| match action {
            Action::PatchNode(patch) => patch.entries.as_ref().is_some_and(|entries| {
                let state = nodewright::model::State::Complete;
                entries.values().any(|entry| entry.is(Stage::Interrupt, state))
            }),
            _ => false,
        });
        assert_eq!(credits, credited, "{case}");
    }
}

/// The files of the lower version are the higher one's now; other packages are as they were.
#[test]
fn an_upgrade_that_upstream_ended_leaves_one_entry_of_its_package() {
    let packages = vec![package("kernel", "1.0.0"), package("motd", "1.0.0")];
    let mut world = world(1, rollout(1, packages));
    leave(
        &mut world,
        HERE,
        &[
            ("kernel", "0.9.0", "config", "complete"),
            ("kernel", "1.0.0", "upgrade", "in_progress"),
            ("motd", "1.0.0", "config", "complete"),
        ],
    );
    job(&mut world, HERE, "kernel", Stage::Upgrade, ExecutorPhase::Succeeded);
    let credited = plan(&world.input).actions.into_iter().find_map(|action| match action {
        Action::PatchNode(patch) => patch.entries,
        _ => None,
    });
    let credited = credited.expect("upstream's work is credited");
    let names: Vec<String> = credited.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["kernel|1.0.0", "motd|1.0.0"]);
    world.run();
    assert!(world.is_complete());
    assert!(super::ran(&world, HERE).iter().all(|ran| !ran.starts_with("motd")));
}

/// Nobody selects the node any more: its cordon goes, and not under a pod that may be at work.
#[test]
fn a_mark_on_a_node_that_nobody_selects_goes_when_upstreams_work_is_over() {
    for phase in [ExecutorPhase::Running, ExecutorPhase::Succeeded] {
        let mut wanted = rollout(1, vec![package("kernel", "1.0.0")]);
        wanted.nodes = pool("another");
        let mut world = world(1, wanted);
        cordon(&mut world, HERE);
        job(&mut world, HERE, "kernel", Stage::Interrupt, phase);
        world.settle();
        let runs = phase == ExecutorPhase::Running;
        assert_eq!(node(&mut world).unschedulable, runs, "{phase:?}");
        assert_eq!(node(&mut world).cordons.is_empty(), !runs, "{phase:?}");
    }
}
