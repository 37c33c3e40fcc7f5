//! Conditions in upstream's words (upstream contract A.7), bounded at any size of fleet.

use nodewright::model::{Condition, Executor, Group, InterruptKind};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, pod, policy, rollout, world};

/// Returns a condition of the status that the plan wants.
fn condition(world: &World, kind: &str) -> Option<Condition> {
    let plan = nodewright::plan::plan(&world.input);
    let status = &plan.statuses["tuning"];
    status.conditions.iter().find(|condition| condition.kind == kind).cloned()
}

fn told(world: &World, kind: &str) -> (bool, String, String) {
    let found = condition(world, kind).unwrap_or_else(|| panic!("no condition {kind}"));
    (found.is_true, found.reason, found.message)
}

fn motd(nodes: u32) -> World {
    world(nodes, rollout(1, vec![package("motd", "1.0.0")]))
}

#[test]
fn nodes_that_are_left_out_are_named_up_to_ten() {
    let mut world = motd(12);
    assert_eq!(told(&world, "NodesIgnored"), (false, "NodesIgnored".into(), "no node".into()));
    world.input.observed.nodes.get_mut("node-03").unwrap().ignored = true;
    let one = (true, "NodesIgnored".to_owned(), "1 node: node-03".to_owned());
    assert_eq!(told(&world, "NodesIgnored"), one);
    assert_eq!(told(&world, "nodewright.nvidia.com/NodesIgnored"), one, "mirrored");
    for node in world.input.observed.nodes.values_mut() {
        node.ignored = true;
    }
    assert_eq!(told(&world, "NodesIgnored").2, "12 nodes");
    for name in ["node-10", "node-11"] {
        world.input.observed.nodes.get_mut(name).unwrap().ignored = false;
    }
    let (_, _, message) = told(&world, "NodesIgnored");
    assert!(message.starts_with("10 nodes: node-00, node-01, "), "{message}");
    assert!(message.ends_with(", node-09"), "{message}");
}

#[test]
fn a_start_is_told_with_package_and_node_and_stays() {
    let mut world = motd(1);
    assert_eq!(condition(&world, "ApplyPackage"), None);
    world.run();
    let message = "applying package [motd|1.0.0] on node [node-00]";
    assert_eq!(told(&world, "ApplyPackage").2, message);
    world.pass(600);
    world.settle();
    assert!(world.input.observed.executors.is_empty());
    assert_eq!(told(&world, "ApplyPackage").2, message);
}

#[test]
fn pulls_and_starts_of_others_are_no_starts_of_the_resource() {
    type Change = fn(&mut Executor);
    let cases: [(&str, Change, bool); 3] = [
        ("its own", |_| {}, true),
        ("another's", |executor| executor.visit.rollout = "other".to_owned(), false),
        ("a pull", |executor| executor.group = Group::Pull, false),
    ];
    for (case, change, is_told) in cases {
        let mut world = motd(1);
        world.settle();
        world.input.observed.executors.values_mut().for_each(change);
        world.input.observed.resources.get_mut("tuning").unwrap().status = None;
        assert_eq!(condition(&world, "ApplyPackage").is_some(), is_told, "{case}");
    }
}

#[test]
fn a_change_of_the_word_is_a_transition_until_the_next() {
    let mut world = motd(1);
    world.run();
    let transition = "nodewright.nvidia.com/Transition";
    let (is_true, reason, message) = told(&world, transition);
    assert_eq!((is_true, reason.as_str()), (true, "complete"));
    assert_eq!(message, "Transitioned [in_progress] -> [complete]");
    let (_, _, done) = world.tick(|_| Fate::Done);
    assert_eq!(done, 0, "an unchanged world writes nothing");
}

#[test]
fn what_blocks_is_told_in_upstreams_words() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut protected = world(1, rollout(1, vec![kernel]));
    protected.add_pod(pod("node-00", "train", &[("workload", "training")]));
    protected.settle();
    let (_, reason, message) = told(&protected, "Blocked");
    assert_eq!(reason, "NonInterruptPodsRunning");
    assert!(message.starts_with("1 node (node-00): protected: pod ml/train"), "{message}");

    let orphan = package("driver", "1.0.0").after("kernel", "9.9.9");
    let gone = world(1, rollout(1, vec![orphan, package("kernel", "1.0.0")]));
    let mut gone = gone;
    gone.run();
    assert_eq!(told(&gone, "Blocked").1, "DependencyUninstalled");

    let mut wanted = rollout(1, vec![package("motd", "1.0.0")]);
    (wanted.budget, wanted.policy) = (None, Some("slow".to_owned()));
    let mut paced = world(1, wanted);
    let kind = "nodewright.nvidia.com/DeploymentPolicyNotFound";
    assert_eq!(told(&paced, kind).2, "DeploymentPolicy slow does not exist");
    let there = policy("slow", 1);
    paced.input.desired.policies.insert("slow".to_owned(), there);
    assert_eq!(condition(&paced, kind), None);
}

#[test]
fn an_annotation_that_cannot_be_read_blocks_the_deletion_and_names_the_way_out() {
    let mut world = motd(1);
    world.run();
    world.add_node("a-very-long-name-of-a-node", &[]);
    let node = world.input.observed.nodes.get_mut("a-very-long-name-of-a-node").unwrap();
    node.rollouts.entry("tuning".to_owned()).or_default().malformed = Some("nodeState".to_owned());
    let (_, reason, message) = told(&world, "NodeStateMalformed");
    assert_eq!((reason.as_str(), message.as_str()), ("ParseError", "1 node: a-very-lon..."));
    assert_eq!(condition(&world, "DeletionBlocked"), None);
    world.input.observed.resources.get_mut("tuning").unwrap().deleting = true;
    let (_, reason, message) = told(&world, "DeletionBlocked");
    assert_eq!(reason, "MalformedNodeState");
    assert!(message.ends_with("repair or remove the annotation on the node"), "{message}");
}

#[test]
fn what_has_an_interrupt_of_either_kind_does_not_run_beside_the_workloads() {
    let motd = || package("motd", "1.0.0");
    for (case, wanted, beside) in [
        ("none", motd(), true),
        ("its own", motd().interrupting(InterruptKind::Service), false),
        ("one of a key", motd().on_config("a", InterruptKind::Service), false),
    ] {
        let world = world(1, rollout(1, vec![wanted]));
        assert_eq!(told(&world, "RunsBesideWorkloads").0, beside, "{case}");
    }
}

#[test]
fn an_uninstall_is_told_while_it_runs_and_when_it_fails() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0").with_uninstall()]));
    world.run();
    assert_eq!(condition(&world, "UninstallInProgress"), None);
    world.set_rollout(rollout(1, vec![package("motd", "1.0.0").with_uninstall().asked_to_go()]));
    world.settle();
    let message = "uninstalling motd|1.0.0 on 1 node (node-00)";
    assert_eq!(told(&world, "UninstallInProgress").2, message);
    assert_eq!(condition(&world, "UninstallFailed"), None);
    world.finish_all(End::Failure);
    world.settle();
    assert_eq!(condition(&world, "UninstallInProgress"), None);
    let (_, reason, message) = told(&world, "UninstallFailed");
    assert_eq!(reason, "UninstallPodFailing");
    assert!(message.starts_with("uninstall of motd|1.0.0 fails on 1 node (node-00)"), "{message}");
}
