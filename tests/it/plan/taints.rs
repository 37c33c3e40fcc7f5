//! The runtime-required taint: put on nodes that join, taken off when all is there.

use nodewright::model::{
    Action, Budget, CordonMark, InterruptKind, Node, NodeRules, Rollout, Sequencing, Taint,
    TaintEffect, TaintPatch,
};
use nodewright::plan::world::{End, Fate, World};
use nodewright::plan::{Breach, Invariant, audit, plan};

use super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::selection::{node, pool, taint};

fn runtime() -> Taint {
    NodeRules::default().runtime_taint
}

fn former() -> Taint {
    NodeRules::default().runtime_taints_recognised[0].clone()
}

/// A rollout that nodes need before they run workloads.
fn required(name: &str) -> Rollout {
    let mut required = rollout(2, vec![package("motd", "1.0.0")]);
    name.clone_into(&mut required.name);
    required.runtime_required = true;
    required
}

/// The same, which taints nodes that join.
fn tainting() -> Rollout {
    Rollout { auto_taint_new_nodes: true, ..required("tuning") }
}

fn taint_patches(world: &World) -> Vec<TaintPatch> {
    let plan = plan(&world.input);
    let patches = plan.actions.into_iter().filter_map(|action| match action {
        Action::PatchTaints(patch) => Some(patch),
        _ => None,
    });
    patches.collect()
}

fn taints(world: &World, name: &str) -> Vec<Taint> {
    world.input.observed.nodes[name].taints.clone()
}

#[test]
fn a_startup_taint_goes_when_the_node_is_complete_and_taints_of_others_stay() {
    let storage = taint("example.com/storage", "x", TaintEffect::PreferNoSchedule);
    let mut wanted = required("tuning");
    wanted.tolerations = vec![k8s_openapi::api::core::v1::Toleration {
        operator: Some("Exists".to_owned()),
        key: Some("example.com/storage".to_owned()),
        ..Default::default()
    }];
    let mut world = world(1, wanted);
    node(&mut world, "node-00").taints = vec![former(), storage.clone(), runtime()];
    world.settle();
    assert_eq!(taints(&world, "node-00").len(), 3, "not before it is complete");
    assert_eq!(world.active().len(), 1, "it runs under the taint");
    world.run();
    assert_eq!(taints(&world, "node-00"), [storage], "both of ours, in one patch");
    assert!(world.is_complete() && !world.input.observed.nodes["node-00"].unschedulable);
}

#[test]
fn a_rollout_that_is_not_required_does_not_run_under_the_startup_taint() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    node(&mut world, "node-00").taints = vec![runtime()];
    world.run();
    assert_eq!(
        world.verdict("node-00"),
        "Blocked: taint nodewright.nvidia.com=runtime-required:NoSchedule is not tolerated: add \
         it to additionalTolerations or remove it"
    );
    assert_eq!(taints(&world, "node-00"), [runtime()], "nobody is responsible for it");
}

#[test]
fn a_taint_of_the_same_key_with_another_value_is_somebody_elses() {
    let other = taint("nodewright.nvidia.com", "mine", TaintEffect::NoSchedule);
    let mut world = world(1, required("tuning"));
    node(&mut world, "node-00").taints = vec![other.clone()];
    world.run();
    assert_eq!(world.entry("node-00", "motd"), "none");
    assert_eq!(taints(&world, "node-00"), [other]);
}

#[test]
fn the_startup_taint_waits_for_every_required_rollout_that_selects_the_node() {
    let mut world = world(2, required("tuning"));
    world.set_rollout(required("second"));
    // Not required, and not complete: nobody waits for it.
    let mut optional = rollout(2, vec![package("late", "1.0.0")]);
    optional.name = "optional".to_owned();
    optional.priority = 300;
    world.set_rollout(optional);
    world.input.observed.resources.get_mut("optional").expect("ours").paused = true;
    for name in ["node-00", "node-01"] {
        node(&mut world, name).taints = vec![runtime()];
    }
    world.input.observed.resources.get_mut("second").expect("ours").paused = true;
    world.run();
    assert_eq!(taints(&world, "node-00"), [runtime()], "second is not complete here");
    world.input.observed.resources.get_mut("second").expect("ours").paused = false;
    world.run();
    assert_eq!(taints(&world, "node-00"), []);
    assert_eq!(taints(&world, "node-01"), []);
}

#[test]
fn d17_an_earlier_rollout_that_the_startup_taint_keeps_off_does_not_hold_it_there_for_ever() {
    for sequencing in [Sequencing::Node, Sequencing::All] {
        let mut world = world(2, required("tuning"));
        let mut earlier = rollout(2, vec![package("early", "1.0.0")]);
        earlier.name = "early".to_owned();
        earlier.priority = 1;
        earlier.sequencing = sequencing;
        world.set_rollout(earlier);
        node(&mut world, "node-00").taints = vec![runtime()];
        world.run();
        assert!(world.is_complete(), "{sequencing:?}: {}", world.verdict("node-00"));
        assert_eq!(taints(&world, "node-00"), []);
    }
}

#[test]
fn d17_nor_where_the_startup_taint_keeps_it_off_on_other_nodes_only() {
    let mut world = world(2, required("tuning"));
    let mut earlier = rollout(2, vec![package("early", "1.0.0")]);
    earlier.name = "early".to_owned();
    earlier.priority = 1;
    earlier.sequencing = Sequencing::All;
    earlier.nodes = pool("early");
    world.set_rollout(earlier);
    node(&mut world, "node-00").labels.insert("pool".to_owned(), "early".to_owned());
    node(&mut world, "node-01").labels.insert("pool".to_owned(), "other".to_owned());
    for name in ["node-00", "node-01"] {
        node(&mut world, name).taints = vec![runtime()];
    }
    world.input.desired.rollouts.get_mut("tuning").expect("ours").budget = Some(Budget::Count(1));
    let _plan = world.tick(|_| Fate::Done);
    assert_eq!(world.verdict("node-01").split(':').next(), Some("Wait"));
    assert!(!world.verdict("node-01").contains("early"), "{}", world.verdict("node-01"));
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-01"));
}

/// Three in a row: the last one's taint keeps the first off elsewhere, for which the second waits
/// everywhere.
#[test]
fn d17_nor_where_another_waits_for_the_one_that_the_taint_keeps_off() {
    let mut world = world(2, required("tuning"));
    for (name, priority, selects) in [("early", 1, "early"), ("middle", 2, "middle")] {
        let mut other = rollout(2, vec![package(name, "1.0.0")]);
        (other.name, other.priority) = (name.to_owned(), priority);
        (other.sequencing, other.nodes) = (Sequencing::All, pool(selects));
        world.set_rollout(other);
    }
    node(&mut world, "node-00").labels.insert("pool".to_owned(), "early".to_owned());
    node(&mut world, "node-01").labels.insert("pool".to_owned(), "middle".to_owned());
    node(&mut world, "node-00").taints = vec![runtime()];
    world.run();
    assert!(world.is_complete(), "{}", world.verdict("node-01"));
}

#[test]
fn cordon_after_leaves_the_node_cordoned_in_the_same_patch_and_others_respect_it() {
    let mut wanted = required("tuning");
    wanted.runtime_required_cordon_after = true;
    let mut world = world(1, wanted);
    node(&mut world, "node-00").taints = vec![runtime()];
    world.run();
    let left = &world.input.observed.nodes["node-00"];
    assert!(left.unschedulable && left.taints.is_empty());
    assert_eq!(left.cordons, [CordonMark::RuntimeRequired]);
    // An interrupt afterwards keeps the cordon: it is one owner more (upstream contract B.7).
    let mut kernel = rollout(1, vec![package("kernel", "1.0.0").interrupting(InterruptKind::Noop)]);
    kernel.name = "kernel".to_owned();
    world.set_rollout(kernel);
    world.run();
    let left = &world.input.observed.nodes["node-00"];
    assert!(left.unschedulable && left.cordons == [CordonMark::RuntimeRequired], "{left:?}");
}

#[test]
fn a_mark_whose_cordon_somebody_lifted_is_dropped_before_anything_else_begins() {
    let mut world = world(1, required("tuning"));
    node(&mut world, "node-00").cordons = vec![CordonMark::RuntimeRequired];
    let patches = taint_patches(&world);
    assert_eq!(patches.len(), 1);
    assert_eq!((patches[0].cordon_after, &patches[0].after), (Some(false), &vec![]));
    assert_eq!(world.verdict("node-00"), "Act: the next batch is being prepared");
    world.run();
    assert!(world.is_complete() && world.input.observed.nodes["node-00"].cordons.is_empty());
}

#[test]
fn a_stale_mark_is_dropped_for_a_rollout_that_is_there_and_about_the_node() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, bool); 3] = [
        ("it is", |_| {}, true),
        ("its resource is gone", |world| world.input.observed.resources.clear(), false),
        (
            "it is about other nodes",
            |world| {
                let required = world.input.desired.rollouts.get_mut("tuning").expect("ours");
                required.nodes = pool("other");
            },
            false,
        ),
    ];
    for (case, change, drops) in cases {
        let mut world = world(1, required("tuning"));
        node(&mut world, "node-00").cordons = vec![CordonMark::RuntimeRequired];
        change(&mut world);
        assert_eq!(!taint_patches(&world).is_empty(), drops, "{case}");
    }
}

#[test]
fn a_node_that_goes_or_is_changed_otherwise_in_this_tick_keeps_its_taints() {
    let mut world = world(1, required("tuning"));
    let changed = |world: &World| {
        let actions = plan(&world.input).actions;
        let changes = actions.iter().filter(|action| match action {
            Action::PatchNode(_) => true,
            Action::PatchTaints(patch) => patch.cordon_after == Some(false),
            _ => false,
        });
        changes.count()
    };
    let mut seen = 0;
    while !world.is_complete() {
        let mut marked = world.clone();
        let before = changed(&marked);
        node(&mut marked, "node-00").cordons.push(CordonMark::RuntimeRequired);
        assert!(changed(&marked) <= 1, "two writes of a node in a tick are a Conflict");
        seen += before;
        if world.tick(|_| Fate::Done).2 == 0 {
            world.finish_all(End::Success);
        }
    }
    assert!(seen > 1, "a visit writes more than once: {seen}");
    node(&mut world, "node-00").taints = vec![runtime()];
    assert_eq!(taint_patches(&world).len(), 1);
    node(&mut world, "node-00").deleting = true;
    assert_eq!(taint_patches(&world), [], "nothing is freed that goes");
}

#[test]
fn a_node_that_joins_is_tainted_before_anything_is_done_on_it() {
    let mut world = world(1, tainting());
    let mut other = rollout(1, vec![package("late", "1.0.0")]);
    other.name = "aaa".to_owned();
    other.priority = 1;
    world.set_rollout(other);
    let waits = "Wait: waits for its taint nodewright.nvidia.com to be set first";
    assert_eq!(world.verdict("node-00"), "Wait: waits for aaa to complete here");
    let verdict = &plan(&world.input).verdicts["aaa"]["node-00"];
    assert_eq!(format!("{:?}: {}", verdict.kind, verdict.reason), waits, "for every rollout");
    let patches = taint_patches(&world);
    assert_eq!(patches[0].after, [runtime()]);
    assert_eq!(patches[0].auto_taint_mark.as_deref(), Some("nodewright.nvidia.com"));
}

#[test]
fn a_node_that_joined_is_tainted_once_and_freed_when_complete() {
    let mut world = world(2, tainting());
    world.settle();
    assert_eq!(taints(&world, "node-01"), [runtime()]);
    world.run();
    assert!(world.is_complete());
    assert_eq!(taints(&world, "node-01"), []);
    assert!(taint_patches(&world).is_empty(), "it is not new any more");
}

#[test]
fn f6_a_node_that_was_touched_by_any_rollout_or_reset_is_not_new() {
    let mut world = world(1, tainting());
    let touched = node(&mut world, "node-00");
    touched.is_new = false;
    touched.rollouts.clear();
    world.run();
    assert!(world.is_complete());
    assert_eq!(taints(&world, "node-00"), []);
}

#[test]
fn a_taint_that_cannot_be_written_holds_up_its_node_alone() {
    let mut world = world(2, tainting());
    let refused = |action: &Action| match action {
        Action::PatchTaints(patch) if patch.node == "node-00" => Fate::Refused,
        _ => Fate::Done,
    };
    for _ in 0..60 {
        drop(world.tick(refused));
        world.finish_all(End::Success);
    }
    assert_eq!(world.entry("node-01", "motd"), "1.0.0 config complete");
    assert_eq!(taints(&world, "node-01"), []);
    assert_eq!(world.entry("node-00", "motd"), "none");
    assert!(world.verdict("node-00").starts_with("Wait: waits for its taint"));
}

#[test]
fn nobody_is_tainted_for_a_rollout_that_is_disabled_or_going_nor_on_an_ignored_node() {
    let cases: [fn(&mut World); 4] = [
        |world| world.input.observed.resources.get_mut("tuning").expect("ours").disabled = true,
        |world| world.input.observed.resources.get_mut("tuning").expect("ours").deleting = true,
        |world| node(world, "node-00").ignored = true,
        |world| node(world, "node-00").taints = vec![former()],
    ];
    for change in cases {
        let mut world = world(1, tainting());
        change(&mut world);
        assert_eq!(taint_patches(&world), []);
    }
}

#[test]
fn a_node_is_not_opened_because_what_it_waits_for_is_being_deleted() {
    let mut world = world(1, required("tuning"));
    node(&mut world, "node-00").taints = vec![runtime()];
    world.settle();
    world.delete_rollout("tuning");
    world.settle();
    assert_eq!(taints(&world, "node-00"), [runtime()]);
}

#[test]
fn a_node_held_by_hand_stays_closed_for_workloads() {
    let mut world = world(1, required("tuning"));
    node(&mut world, "node-00").taints = vec![runtime()];
    world.settle();
    node(&mut world, "node-00").hold = Some("burn-in".to_owned());
    world.run();
    assert_eq!(taints(&world, "node-00"), [runtime()]);
    node(&mut world, "node-00").hold = None;
    world.run();
    assert_eq!(taints(&world, "node-00"), []);
}

/// Changes one thing about a clean plan's taint patch and returns what the audit says.
fn audited(world: &World, change: impl Fn(&mut TaintPatch)) -> Vec<Breach> {
    let mut plan = plan(&world.input);
    assert_eq!(audit(&world.input, &plan), vec![], "the planner's own plan is clean");
    for action in &mut plan.actions {
        if let Action::PatchTaints(patch) = action {
            change(patch);
        }
    }
    audit(&world.input, &plan)
}

#[test]
fn j1_the_audit_keeps_the_taints_of_others() {
    let mut world = world(1, tainting());
    let storage = taint("example.com/storage", "x", TaintEffect::NoSchedule);
    node(&mut world, "node-00").taints = vec![storage.clone()];
    let breach = |detail: &str| {
        vec![Breach {
            rollout: "tuning".to_owned(),
            invariant: Invariant::ForeignTaint,
            detail: detail.to_owned(),
        }]
    };
    assert_eq!(audited(&world, |patch| patch.after = vec![runtime()]), breach("node-00"));
    assert_eq!(audited(&world, |patch| patch.before.clear()), breach("node-00"));
    let foreign = || taint("example.com/mine", "", TaintEffect::NoSchedule);
    assert_eq!(audited(&world, |patch| patch.after.push(foreign())), breach("node-00"));
}

#[test]
fn the_audit_opens_no_node_before_its_required_rollouts_are_done() {
    let mut world = world(1, required("tuning"));
    node(&mut world, "node-00").taints = vec![runtime()];
    world.settle();
    let mut plan = plan(&world.input);
    let open: &Node = &world.input.observed.nodes["node-00"];
    plan.actions.push(Action::PatchTaints(TaintPatch {
        node: open.name.clone(),
        node_uid: open.uid.clone(),
        resource_version: open.resource_version.clone(),
        rollout: "tuning".to_owned(),
        before: vec![runtime()],
        after: vec![],
        auto_taint_mark: None,
        cordon_after: None,
    }));
    let breaches = audit(&world.input, &plan);
    let invariants: Vec<Invariant> = breaches.iter().map(|breach| breach.invariant).collect();
    assert_eq!(invariants, [Invariant::Order]);
}

#[test]
fn a_required_rollout_waits_for_nobody_who_waits_for_the_taint_it_takes_away() {
    let mut world = world(1, required("zz-required"));
    node(&mut world, "node-00").taints = vec![runtime()];
    for (name, priority) in [("base", 100), ("middle", 150)] {
        let mut earlier = rollout(1, vec![package(&format!("{name}-motd"), "1.0.0")]);
        (earlier.name, earlier.priority) = (name.to_owned(), priority);
        earlier.sequencing = nodewright::model::Sequencing::All;
        world.set_rollout(earlier);
    }
    // The one in the middle is about another node, and waits there for the first everywhere.
    world.add_node("node-01", &[("pool", "other")]);
    let other = world.input.desired.rollouts.get_mut("middle").expect("it was set");
    let pool = [("pool".to_owned(), "other".to_owned())].into();
    let selector = k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector {
        match_labels: Some(pool),
        match_expressions: None,
    };
    other.nodes = kube::core::Selector::try_from(selector).expect("a valid selector");
    world.run();
    assert_eq!(taints(&world, "node-00"), []);
    assert!(world.is_complete());
}
