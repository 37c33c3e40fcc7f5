//! What a visit does, step by step.

use nodewright::model::{ExecutorPhase, InterruptKind, StatusWord, Waiting};
use nodewright::plan::world::{End, Fate, World};

use super::builders::{PackageExt, WorldExt, package, pod, rollout, world};

fn complete(world: &World) {
    let plan = nodewright::plan::plan(&world.input);
    let left = (plan.actions, plan.verdicts);
    assert!(world.is_complete(), "every node is complete and nothing is planned: {left:#?}");
    for (name, node) in &world.input.observed.nodes {
        assert!(!node.unschedulable, "{name} is left cordoned");
        assert_eq!(node.cordons, vec![], "{name} keeps a cordon mark");
    }
}

#[test]
fn a_package_without_interrupt_runs_beside_the_workloads() {
    let mut world = world(3, rollout(1, vec![package("motd", "1.0.0")]));
    world.add_pod(pod("node-00", "train", &[("workload", "training")]));
    world.settle();
    assert!(!world.input.observed.nodes["node-00"].unschedulable);
    assert_eq!(world.active().len(), 1, "one node at a time, with a protected pod on it");
    world.run();
    complete(&world);
    assert_eq!(world.entry("node-02", "motd"), "1.0.0 config complete");
    assert_eq!(world.peak["tuning"], 1);
}

#[test]
fn a_reboot_package_goes_through_every_stage_and_reboots_once() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(5, rollout(2, vec![reboot]));
    world.run();
    complete(&world);
    assert_eq!(world.entry("node-04", "kernel"), "1.0.0 post-interrupt complete");
    assert_eq!(world.reboots.values().copied().collect::<Vec<_>>(), vec![1; 5]);
    assert_eq!(world.peak["tuning"], 2);
}

#[test]
fn an_upgrade_is_paced_and_leaves_one_entry() {
    let old = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(4, rollout(1, vec![old]));
    world.run();
    let new = package("kernel", "1.1.0").interrupting(InterruptKind::Reboot);
    world.set_rollout(rollout(1, vec![new]));
    world.settle();
    assert_eq!(world.active().len(), 1, "upgrades are paced too");
    world.run();
    complete(&world);
    assert_eq!(world.input.observed.nodes["node-00"].entries("tuning").len(), 1);
    assert_eq!(world.entry("node-00", "kernel"), "1.1.0 post-interrupt complete");
    assert!(world.reboots.values().all(|reboots| *reboots == 2));
    let upgraded = world.completed.iter().filter(|run| run.3 == nodewright::model::Stage::Upgrade);
    assert_eq!(upgraded.count(), 4);
}

#[test]
fn a_revert_is_an_apply_of_the_lower_version_and_going_up_again_runs_again() {
    let version = |version| rollout(4, vec![package("motd", version)]);
    let mut world = world(2, version("2.0.0"));
    world.run();
    world.set_rollout(version("1.0.0"));
    world.run();
    assert_eq!(world.entry("node-00", "motd"), "1.0.0 config complete");
    world.set_rollout(version("2.0.0"));
    world.run();
    assert_eq!(world.entry("node-00", "motd"), "2.0.0 config complete");
    assert_eq!(world.completed.len(), 2 * 3 * 2, "two nodes, three rollouts, two stages");
}

#[test]
fn a_config_change_runs_config_and_interrupts_only_where_a_key_matches() {
    let base = || {
        package("kernel", "1.0.0")
            .interrupting(InterruptKind::Reboot)
            .on_config("grub*", InterruptKind::Reboot)
            .with_config("grub.conf", "a")
    };
    let mut world = world(3, rollout(3, vec![base().with_config("motd", "a")]));
    world.run();
    world.set_rollout(rollout(3, vec![base().with_config("motd", "b")]));
    world.run();
    assert!(world.reboots.values().all(|reboots| *reboots == 1), "motd needs no reboot");
    assert_eq!(
        world.entry("node-00", "kernel"),
        "1.0.0 post-interrupt complete",
        "upstream would interrupt a package that stands at config"
    );
    world.set_rollout(rollout(
        3,
        vec![
            package("kernel", "1.0.0")
                .interrupting(InterruptKind::Reboot)
                .on_config("grub*", InterruptKind::Reboot)
                .with_config("motd", "b"),
        ],
    ));
    world.run();
    complete(&world);
    assert!(world.reboots.values().all(|reboots| *reboots == 2), "a deleted key counts");
}

#[test]
fn a_protected_pod_is_waited_for_and_nothing_is_evicted_meanwhile() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![reboot]));
    let train = pod("node-00", "train", &[("workload", "training")]);
    world.add_pod(train.clone());
    world.add_pod(pod("node-00", "web", &[]));
    world.settle();
    assert!(world.input.observed.nodes["node-00"].unschedulable);
    assert_eq!(
        world.verdict("node-00"),
        "Wait: protected: pod ml/train must finish, runs since 2026-11-30T12:00:00Z \
         (ReplicaSet web)"
    );
    assert_eq!(world.finish_all(End::Success), 0, "nothing runs and nothing leaves");
    world.remove_pod(&train.reference);
    world.settle();
    assert!(world.verdict("node-00").starts_with("Wait: draining"));
    world.run();
    complete(&world);
}

#[test]
fn a_budget_that_refuses_an_eviction_is_named_and_asked_again_later() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![reboot]));
    world.add_pod(pod("node-00", "web", &[]));
    world.guarded.insert("uid-web".to_owned());
    world.settle();
    assert!(world.verdict("node-00").starts_with("Wait: a disruption budget holds pod ml/web"));
    let (plan, _, _) = world.tick(|_| Fate::Done);
    assert!(plan.actions.is_empty(), "not asked again at once: {:?}", plan.actions);
    world.guarded.clear();
    world.pass(11);
    world.run();
    complete(&world);
}

#[test]
fn dependencies_run_after_their_parents_also_across_an_interrupt() {
    let parent = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let child =
        package("driver", "1.0.0").interrupting(InterruptKind::Service).after("kernel", "1.0.0");
    let mut world = world(2, rollout(2, vec![parent, child]));
    world.run();
    complete(&world);
    let order: Vec<(&str, &str)> = world
        .completed
        .iter()
        .filter(|run| run.0 == "node-00")
        .map(|run| (run.1.as_str(), run.3.as_str()))
        .collect();
    assert_eq!(
        order,
        [
            ("kernel|1.0.0", "apply"),
            ("kernel|1.0.0", "config"),
            ("kernel|1.0.0", "interrupt"),
            ("kernel|1.0.0", "post-interrupt"),
            ("driver|1.0.0", "apply"),
            ("driver|1.0.0", "config"),
            ("driver|1.0.0", "interrupt"),
            ("driver|1.0.0", "post-interrupt"),
        ]
    );
    assert!(world.reboots.values().all(|reboots| *reboots == 1));
}

#[test]
fn packages_share_one_interrupt_and_the_strongest_kind_wins() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let service = package("chrony", "1.0.0").interrupting(InterruptKind::Service);
    let mut world = world(1, rollout(1, vec![reboot, service]));
    world.run();
    complete(&world);
    let interrupts = world.completed.iter().filter(|run| run.3.as_str() == "interrupt");
    assert_eq!(interrupts.count(), 1);
    assert_eq!(world.entry("node-00", "chrony"), "1.0.0 post-interrupt complete");
    assert_eq!(world.reboots["node-00"], 1);
}

#[test]
fn a_failing_stage_is_tried_four_times_then_counts_and_two_failed_batches_stop() {
    let mut world = world(5, rollout(1, vec![package("motd", "1.0.0")]));
    world.settle();
    for attempt in 1..=4 {
        assert_eq!(world.finish_all(End::Failure), 1, "attempt {attempt}");
        world.settle();
        world.pass(600);
        world.settle();
    }
    assert!(world.verdict("node-00").starts_with("Blocked: apply of motd|1.0.0 failed 4 times"));
    for _ in 1..=4 {
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
        world.settle();
    }
    assert!(world.active().is_empty());
    assert!(world.verdict("node-04").starts_with("Blocked: stopped after 2 failed batches"));
    world.set_rollout(rollout(1, vec![package("motd", "1.0.1")]));
    world.run();
    complete(&world);
}

#[test]
fn a_disrupted_pod_costs_no_attempt() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    for _ in 0..10 {
        world.settle();
        assert_eq!(world.finish_all(End::Disruption), 1);
        world.pass(300);
    }
    world.run();
    complete(&world);
}

#[test]
fn a_foreign_cordon_is_worked_under_and_never_lifted() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![reboot]));
    if let Some(node) = world.input.observed.nodes.get_mut("node-00") {
        node.unschedulable = true;
    }
    world.run();
    assert!(world.is_complete());
    assert!(world.input.observed.nodes["node-00"].unschedulable, "it was not ours to lift");
    assert_eq!(world.input.observed.nodes["node-00"].cordons, vec![]);
}

#[test]
fn a_lifted_cordon_stops_new_work_until_it_is_cordoned_again() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![reboot]));
    world.settle();
    world.pass(60);
    if let Some(node) = world.input.observed.nodes.get_mut("node-00") {
        node.unschedulable = false;
    }
    world.finish_all(End::Success);
    world.settle();
    assert!(world.active().is_empty(), "no interrupt on a node that is open to workloads");
    assert_eq!(
        world.verdict("node-00"),
        "Blocked: uncordoned while we hold it: cordon it again to go on"
    );
    if let Some(node) = world.input.observed.nodes.get_mut("node-00") {
        node.unschedulable = true;
    }
    world.run();
    complete(&world);
}

#[test]
fn a_spec_edit_during_the_interrupt_causes_no_second_reboot_in_this_visit() {
    let version = |value| {
        package("kernel", "1.0.0")
            .interrupting(InterruptKind::Reboot)
            .on_config("grub.conf", InterruptKind::Reboot)
            .with_config("grub.conf", value)
    };
    let mut world = world(1, rollout(1, vec![version("a")]));
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    world.set_rollout(rollout(1, vec![version("b")]));
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    let visits = |world: &World| {
        world.input.observed.nodes["node-00"].rollouts["tuning"].record.clone().map(|r| r.visit)
    };
    let first = visits(&world);
    assert_eq!(world.reboots["node-00"], 1);
    world.run();
    complete(&world);
    assert_ne!(visits(&world), first, "the edit is a visit of its own");
    assert_eq!(world.reboots["node-00"], 2);
}

#[test]
fn a_new_target_before_the_interrupt_joins_the_same_visit() {
    let version = |version| package("kernel", version).interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![version("1.0.0")]));
    world.settle();
    world.set_rollout(rollout(1, vec![version("1.0.1")]));
    world.run();
    complete(&world);
    assert_eq!(world.reboots["node-00"], 1, "one reboot for both");
    assert_eq!(world.entry("node-00", "kernel"), "1.0.1 post-interrupt complete");
}

#[test]
fn upstreams_entries_are_taken_over_and_nothing_runs_again() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(2, rollout(1, vec![reboot.clone(), package("motd", "1.0.0")]));
    let text = r#"{"kernel|1.0.0":{"name":"kernel","version":"1.0.0","image":"i","stage":"post-interrupt","state":"complete"},
        "motd|1.0.0":{"name":"motd","version":"1.0.0","image":"i","stage":"config","state":"complete"},
        "gone|0.1":{"name":"gone","version":"0.1","image":"i","stage":"config","state":"complete"}}"#;
    for node in world.input.observed.nodes.values_mut() {
        let state = node.rollouts.entry("tuning".to_owned()).or_default();
        state.entries = serde_json::from_str(text).expect("upstream's shape");
    }
    world.settle();
    assert!(world.is_complete());
    assert!(world.completed.is_empty() && world.active().is_empty());
    let status = world.input.observed.resources["tuning"].status.as_ref().map(|s| s.word);
    assert_eq!(status, Some(StatusWord::Complete));
}

#[test]
fn a_node_that_leaves_the_selection_is_let_go() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut world = world(1, rollout(1, vec![reboot.clone()]));
    world.settle();
    world.input.desired.rollouts.clear();
    world.input.observed.resources.clear();
    world.settle();
    assert!(world.input.observed.nodes["node-00"].unschedulable, "its executor still runs");
    world.finish_all(End::Success);
    world.settle();
    let node = &world.input.observed.nodes["node-00"];
    assert!(!node.unschedulable && node.cordons.is_empty());
}

#[test]
fn a_pod_that_cannot_start_is_replaced_when_its_image_is_corrected() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    world.settle();
    for executor in world.input.observed.executors.values_mut() {
        executor.phase = ExecutorPhase::Pending;
        executor.begun = false;
        executor.running = None;
        let (reason, message) = ("ErrImagePull".to_owned(), "no such tag".to_owned());
        let image = "registry.example/motd:1.0.0".to_owned();
        let since = executor.created;
        executor.waiting = Some(Waiting { reason, message, image, since });
    }
    world.settle();
    assert_eq!(world.active().len(), 1, "while it is wanted it is waited for");
    world.set_rollout(rollout(1, vec![package("motd", "1.0.1")]));
    world.settle();
    let running = world.input.observed.executors.values().next().map(|it| it.package.to_string());
    assert_eq!((world.active().len(), running.as_deref()), (1, Some("motd|1.0.1")));
    world.run();
    complete(&world);
    assert_eq!(world.entry("node-00", "motd"), "1.0.1 config complete");
}

#[test]
fn a_drain_that_takes_too_long_ends_the_visit_and_says_so() {
    let reboot = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let mut wanted = rollout(1, vec![reboot]);
    wanted.drain.timeout = Some(std::time::Duration::from_secs(60));
    let mut world = world(1, wanted);
    world.add_pod(pod("node-00", "web", &[]));
    world.guarded.insert("uid-web".to_owned());
    world.settle();
    world.pass(61);
    world.settle();
    let verdict = world.verdict("node-00");
    assert!(
        verdict.starts_with("Blocked: drain not finished within drainConfig.timeout"),
        "{verdict}"
    );
    assert!(world.input.observed.nodes["node-00"].unschedulable, "half drained, it stays cordoned");
}
