//! Taking over: what upstream remembers is imported once and dropped when nobody asks it any more,
//! its batch goes first, and its work is credited to the entry it ran for and to no other.

use std::collections::BTreeMap;

use nodewright::model::{
    Action, BatchState, DEFAULT_COMPARTMENT, Entries, ExecutorPhase, InterruptKind, Stage, State,
    StatusWord, UpstreamMaps,
};
use nodewright::plan::plan;
use nodewright::plan::world::{Fate, World};

use super::super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::{cordon, job, leave, upstream};

const HERE: &str = "node-00";

/// Two nodes as upstream left them, complete, and what it remembers imported.
fn imported() -> World {
    let mut world = world(2, rollout(1, vec![package("kernel", "1.0.0")]));
    upstream(&mut world).node_order_offset = 2;
    for node in [HERE, "node-01"] {
        leave(&mut world, node, &[("kernel", "1.0.0", "config", "complete")]);
    }
    let (_, breaches, _) = world.tick(|_| Fate::Done);
    assert_eq!(breaches, []);
    assert!(world.input.observed.resources["tuning"].upstream.is_some());
    world
}

fn drops_maps(world: &World) -> bool {
    plan(&world.input).actions.iter().any(|action| match action {
        Action::WriteStatus(write) => write.upstream == UpstreamMaps::Drop,
        _ => false,
    })
}

fn forget(world: &mut World) {
    let state = world.input.observed.nodes.get_mut(HERE).expect("the node");
    state.rollouts.clear();
    state.ready = false;
}

fn in_batch(world: &mut World) {
    let now = world.input.now;
    upstream(world).node_priority.insert(HERE.to_owned(), now);
    memory(world).order_next = 9;
}

fn memory(world: &mut World) -> &mut nodewright::model::Memory {
    let resource = world.input.observed.resources.get_mut("tuning").expect("the resource");
    &mut resource.status.as_mut().expect("a status was written").memory
}

#[test]
fn the_maps_go_when_all_is_imported_nothing_runs_and_no_node_in_them_is_open() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, bool); 10] = [
        ("complete", |_| {}, true),
        ("no target is written", |world| memory(world).target.clear(), false),
        ("no number is reserved", |world| memory(world).order_next = 1, false),
        (
            "work of it runs",
            |world| job(world, HERE, "kernel", Stage::Config, ExecutorPhase::Running),
            false,
        ),
        (
            "work of another resource runs",
            |world| {
                job(world, HERE, "kernel", Stage::Config, ExecutorPhase::Running);
                let mut works = world.input.observed.upstream.values_mut();
                works.next().expect("the Job").rollout = "other".to_owned();
            },
            true,
        ),
        ("reboots are compared", |world| world.input.rules.reapply_on_reboot = true, false),
        (
            "something was begun",
            |world| {
                leave(world, HERE, &[("kernel", "1.0.0", "apply", "in_progress")]);
                world.input.observed.nodes.get_mut(HERE).expect("the node").ready = false;
            },
            false,
        ),
        ("a node of no batch has nothing", forget, true),
        (
            "a node of the batch has nothing",
            |world| {
                forget(world);
                in_batch(world);
            },
            false,
        ),
        ("a node of the batch has all", in_batch, true),
    ];
    for (case, change, expected) in cases {
        let mut world = imported();
        change(&mut world);
        assert_eq!(drops_maps(&world), expected, "{case}");
    }
}

#[test]
fn what_was_imported_once_is_not_imported_over_what_became_of_it() {
    let mut world = imported();
    let stopped = BatchState { should_stop: true, ..BatchState::default() };
    upstream(&mut world).batches.insert(DEFAULT_COMPARTMENT.to_owned(), stopped);
    memory(&mut world).compartments.clear();
    world.set_rollout(rollout(1, vec![package("kernel", "2.0.0")]));
    assert!(!world.verdict(HERE).contains("stopped"), "{}", world.verdict(HERE));
}

#[test]
fn a_node_that_upstream_was_at_goes_first() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, &str); 3] = [
        ("nothing is known", |_| {}, HERE),
        (
            "it is in upstream's batch",
            |world| {
                let now = world.input.now;
                upstream(world).node_priority.insert("node-02".to_owned(), now);
            },
            "node-02",
        ),
        (
            "something was begun there",
            |world| leave(world, "node-02", &[("kernel", "1.0.0", "apply", "in_progress")]),
            "node-02",
        ),
    ];
    for (case, change, first) in cases {
        let mut world = world(3, rollout(1, vec![package("kernel", "1.0.0")]));
        change(&mut world);
        world.settle();
        let open = |name: &&str| {
            world.input.observed.nodes[*name]
                .rollouts
                .get("tuning")
                .is_some_and(|state| state.record.is_some())
        };
        let picked: Vec<&str> = [HERE, "node-01", "node-02"].into_iter().filter(open).collect();
        assert_eq!(picked, [first], "{case}");
    }
}

#[test]
fn a_complete_node_that_was_cordoned_under_our_mark_again_is_let_go() {
    let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
    world.run();
    cordon(&mut world, HERE);
    world.settle();
    let node = &world.input.observed.nodes[HERE];
    assert!(!node.unschedulable && node.cordons.is_empty());
    assert_eq!(node.rollouts["tuning"].status, Some(StatusWord::Complete));
}

#[test]
fn what_a_visit_of_ours_has_begun_is_not_credited_from_upstreams_work() {
    let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
    world.settle();
    job(&mut world, HERE, "kernel", Stage::Apply, ExecutorPhase::Succeeded);
    world.settle();
    assert_eq!(world.entry(HERE, "kernel"), "1.0.0 apply in_progress");
}

/// Returns what becomes of each entry, as `stage state`, where anything is credited.
fn credited(world: &World) -> Option<BTreeMap<String, String>> {
    let entries: Entries = plan(&world.input).actions.into_iter().find_map(|it| match it {
        Action::PatchNode(patch) => patch.entries,
        _ => None,
    })?;
    let text = |(id, entry): (&_, &nodewright::model::Entry)| {
        let id: &nodewright::model::PackageId = id;
        (id.name.clone(), format!("{} {}", entry.stage, entry.state))
    };
    Some(entries.iter().map(text).collect())
}

fn two() -> World {
    let packages = ["driver", "kernel"].map(|name| package(name, "1.0.0"));
    world(1, rollout(1, packages.map(|it| it.interrupting(InterruptKind::Reboot)).to_vec()))
}

#[test]
fn an_interrupt_that_ended_completes_what_was_skipped_for_it_and_nothing_else() {
    for (stage, state, expected) in [
        ("interrupt", "skipped", "interrupt complete"),
        ("interrupt", "in_progress", "interrupt in_progress"),
        ("apply", "in_progress", "apply in_progress"),
    ] {
        let mut world = two();
        leave(
            &mut world,
            HERE,
            &[("driver", "1.0.0", stage, state), ("kernel", "1.0.0", "interrupt", "in_progress")],
        );
        job(&mut world, HERE, "kernel", Stage::Interrupt, ExecutorPhase::Succeeded);
        let credited = credited(&world).expect("its end is credited");
        assert_eq!(credited["kernel"], "interrupt complete", "{stage} {state}");
        assert_eq!(credited["driver"], expected, "{stage} {state}");
    }
}

#[test]
fn what_was_skipped_goes_on_when_the_other_is_past_its_interrupt() {
    for (stage, state, goes_on) in [
        ("config", "in_progress", false),
        ("interrupt", "in_progress", false),
        ("interrupt", "complete", true),
        ("post-interrupt", "in_progress", true),
    ] {
        let mut world = two();
        leave(
            &mut world,
            HERE,
            &[("driver", "1.0.0", stage, state), ("kernel", "1.0.0", "interrupt", "skipped")],
        );
        let kernel = credited(&world).map(|mut credited| credited.remove("kernel"));
        let went_on = kernel.flatten().is_some_and(|text| text == "interrupt complete");
        assert_eq!(went_on, goes_on, "{stage} {state}");
    }
}

#[test]
fn a_reboot_is_credited_to_the_interrupt_whose_own_work_is_over() {
    for (kernel, running, expected) in [
        ("interrupt", None, Some("interrupt complete")),
        ("interrupt", Some("driver"), Some("interrupt complete")),
        ("interrupt", Some("kernel"), None),
        ("config", None, None),
    ] {
        let mut world = two();
        leave(
            &mut world,
            HERE,
            &[
                ("driver", "1.0.0", "apply", "in_progress"),
                ("kernel", "1.0.0", kernel, "in_progress"),
            ],
        );
        upstream(&mut world).node_boot_ids.insert(HERE.to_owned(), "boot-before".to_owned());
        if let Some(package) = running {
            job(&mut world, HERE, package, Stage::Apply, ExecutorPhase::Running);
        }
        let text = credited(&world).map(|credited| credited["kernel"].clone());
        let text = text.filter(|text| text.ends_with(&State::Complete.to_string()));
        assert_eq!(text.as_deref(), expected, "{kernel}, {running:?} runs");
    }
}
