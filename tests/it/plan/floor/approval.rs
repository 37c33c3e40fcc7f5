//! A selector that takes in every node, or the control plane, waits for a person's approval.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::Selector;
use nodewright::model::{Action, Floor, PatchKind, Record, Rollout, approval};
use nodewright::plan::world::{Fate, World};
use nodewright::plan::{Invariant, audit, plan};

use super::super::builders::{PackageExt, WorldExt, noon, package, rollout};

const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// The labels by which a selector selects, and expressions `key operator value`.
fn selector(labels: &[(&str, &str)], expressions: &[(&str, &str, &[&str])]) -> Selector {
    let own = |text: &str| text.to_owned();
    let labels = labels.iter().map(|(key, value)| (own(key), own(value)));
    let expressions = expressions.iter().map(|(key, operator, values)| LabelSelectorRequirement {
        key: own(key),
        operator: own(operator),
        values: (!values.is_empty()).then(|| values.iter().map(|value| own(value)).collect()),
    });
    let written = LabelSelector {
        match_labels: Some(labels.collect()),
        match_expressions: Some(expressions.collect()),
    };
    Selector::try_from(written).expect("a selector in a test")
}

/// Three workers and, where it is asked for, a node of the control plane; nobody approved anything.
fn cluster(nodes: Selector, control_plane: bool) -> World {
    let mut world = World::new(noon());
    let base = [("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")];
    for name in ["gpu-1", "gpu-2", "gpu-3"] {
        let own = [("kubernetes.io/hostname", name), ("pool", "gpu")];
        world.add_node(name, &[&base[..], &own[..]].concat());
    }
    if control_plane {
        let own = [("kubernetes.io/hostname", "cp-1"), (CONTROL_PLANE, "")];
        world.add_node("cp-1", &[&base[..], &own[..]].concat());
    }
    let wanted = rollout(2, vec![package("motd", "1.0.0").with_uninstall()]);
    world.set_rollout(Rollout { nodes, ..wanted });
    world.input.approvals.clear();
    world
}

fn approve(world: &mut World) {
    let text = approval("uid-tuning", &world.input.desired.rollouts["tuning"].nodes);
    world.input.approvals.insert("tuning".to_owned(), text);
}

fn open(world: &World) -> usize {
    let nodes = world.input.observed.nodes.values();
    nodes.filter(|node| node.record("tuning", "uid-tuning").is_some_and(Record::is_open)).count()
}

#[test]
fn what_is_too_broad_waits_and_what_is_not_begins() {
    let everything = "nodeSelectors selects every node of the cluster: ";
    let all_of_them = "4, 1 of the control plane (cp-1)";
    let os = ("kubernetes.io/os", "linux");
    let cases = [
        ("none", selector(&[], &[]), true, Some(format!("{everything}{all_of_them}"))),
        ("none, workers alone", selector(&[], &[]), false, Some(format!("{everything}3"))),
        ("the system", selector(&[os], &[]), true, Some(format!("{everything}{all_of_them}"))),
        (
            "a name that any node has",
            selector(&[], &[("kubernetes.io/hostname", "Exists", &[])]),
            false,
            Some(format!("{everything}3")),
        ),
        (
            "not a pool that is not there",
            selector(&[], &[("pool", "NotIn", &["cpu"])]),
            false,
            Some(format!("{everything}3")),
        ),
        (
            "all but one pool",
            selector(&[], &[("pool", "NotIn", &["gpu"])]),
            true,
            Some("nodeSelectors selects 1 node, 1 of the control plane (cp-1)".to_owned()),
        ),
        // Also where every node of the cluster is of the pool: who adds another says so.
        ("a pool", selector(&[("pool", "gpu")], &[]), true, None),
        ("the only pool", selector(&[("pool", "gpu")], &[]), false, None),
        (
            "nodes by name",
            selector(&[], &[("kubernetes.io/hostname", "In", &["gpu-1", "gpu-2", "gpu-3"])]),
            false,
            None,
        ),
    ];
    for (what, nodes, control_plane, held) in cases {
        let mut world = cluster(nodes, control_plane);
        world.settle();
        let Some(held) = held else {
            assert_eq!(open(&world), 2, "{what}: {}", world.verdict("gpu-1"));
            continue;
        };
        assert_eq!(open(&world), 0, "{what}");
        let selected = if held.contains(" 1 node,") { "cp-1" } else { "gpu-1" };
        let waits = format!("Blocked: {held}: nobody is picked until a person approves it");
        assert_eq!(world.verdict(selected), waits, "{what}");
        approve(&mut world);
        world.run();
        assert!(world.is_complete(), "{what}: approved");

        // The floor is what holds it, and nothing else.
        let mut world =
            cluster(world.input.desired.rollouts["tuning"].nodes.clone(), control_plane);
        world.input.floor = Floor::upstream();
        world.run();
        assert!(world.is_complete(), "{what}: without the floor");
    }
}

#[test]
fn an_approval_is_of_one_object_and_one_selector() {
    let mut world = cluster(selector(&[], &[]), true);
    approve(&mut world);
    // The same, said of another selector, another object, and another resource.
    let text = world.input.approvals["tuning"].clone();
    let system = selector(&[("kubernetes.io/os", "linux")], &[]);
    world.input.desired.rollouts.get_mut("tuning").expect("ours").nodes = system;
    world.settle();
    assert_eq!(open(&world), 0, "another selector");

    let mut world = cluster(selector(&[], &[]), true);
    world.input.approvals = BTreeMap::from([("extras".to_owned(), text.clone())]);
    world.settle();
    assert_eq!(open(&world), 0, "another resource");

    world.input.approvals = BTreeMap::from([("tuning".to_owned(), text)]);
    world.input.observed.resources.get_mut("tuning").expect("ours").uid = "uid-anew".to_owned();
    world.settle();
    assert!(world.verdict("gpu-1").starts_with("Blocked: nodeSelectors"), "another object");
}

/// What is under way ends; nothing more begins until somebody says that it is meant.
#[test]
fn a_control_plane_that_comes_to_be_selected_holds_what_is_left() {
    let mut world = cluster(selector(&[("pool", "gpu")], &[]), true);
    world.settle();
    assert_eq!(open(&world), 2);
    let pool = ("pool".to_owned(), "gpu".to_owned());
    world.change_node("cp-1", |node| {
        node.labels.insert(pool.0, pool.1);
    });
    world.run();
    assert_eq!(open(&world), 0);
    assert_eq!(world.entry("gpu-2", "motd"), "1.0.0 config complete");
    let waits = "Blocked: nodeSelectors selects 4 nodes, 1 of the control plane (cp-1): nobody is \
                 picked until a person approves it";
    assert_eq!((world.verdict("gpu-3").as_str(), world.verdict("cp-1").as_str()), (waits, waits));
    approve(&mut world);
    world.run();
    assert!(world.is_complete());
}

/// Nobody has to approve that a resource goes: what it left on hosts is taken off in order.
#[test]
fn a_resource_that_is_deleted_waits_for_no_approval() {
    let mut world = cluster(selector(&[], &[]), true);
    approve(&mut world);
    world.run();
    world.input.approvals.clear();
    world.input.observed.resources.get_mut("tuning").expect("ours").deleting = true;
    world.run();
    let nodes = world.input.observed.nodes.values();
    let left = nodes.filter(|node| !node.entries("tuning").is_empty());
    assert_eq!(left.count(), 0);
}

#[test]
fn the_audit_knows_a_pick_that_nobody_approved() {
    let mut world = cluster(selector(&[], &[]), true);
    approve(&mut world);
    let is_pick = |action: &Action| {
        let Action::PatchNode(patch) = action else { return false };
        matches!(patch.kind, PatchKind::Pick { .. })
    };
    let picking = loop {
        let plan = plan(&world.input);
        if plan.actions.iter().any(is_pick) {
            break plan;
        }
        assert!(world.tick(|_| Fate::Done).2 > 0, "somebody is picked");
    };
    assert_eq!(audit(&world.input, &picking), vec![]);
    world.input.approvals.clear();
    let breaches = audit(&world.input, &picking);
    assert_eq!(breaches.len(), 1, "{breaches:?}");
    assert_eq!(breaches[0].invariant, Invariant::Approved);
}
