//! One node's story.

use nodewright::model::{InterruptKind, InterruptRecord, PackageId, Reason, Stage, State, Verdict};
use nodewright::report::explain;

use super::world::{World, three_pools, time};

fn story(world: &World, node: &str) -> String {
    let story = explain::node(&world.input, &world.plan, None, node);
    story.expect("the node is there").to_string()
}

#[test]
fn a_node_that_waits_names_the_pod_and_what_a_person_can_do() {
    insta::assert_snapshot!(story(&three_pools(), "gpu-003"), @r#"
    gpu-003  ready · schedulable

    h100-train  WAITING, goes on by itself
      why      protected: pod ml/llama-70b-0 must finish, runs since 2026-11-24T08:03:00Z (JobSet llama-70b)
      since    2026-11-24T08:03:00Z, 3 h 57 min ago
      wanted   kernel-tuning 1.5.0 (reboot)
      next     kernel-tuning 1.5.0: cordon, drain, apply, config, reboot, post-interrupt
      you can  wait, or ask the owner of the pod to checkpoint and end it
    "#);
}

#[test]
fn a_node_that_failed_says_what_and_since_when() {
    insta::assert_snapshot!(story(&three_pools(), "cpu-011"), @r#"
    cpu-011  ready · cordoned for general

    general  BLOCKED, needs you
      why      config of containerd-cfg|2.1.1 failed 4 times: config-check exit 1: unknown key `SystemdCgroups`
      since    2026-11-24T10:15:00Z, 1 h 45 min ago
      wanted   containerd-cfg 2.1.1 (service)
      on it    containerd-cfg 2.1.1: config erroring since 2026-11-24T10:15:00Z, 4 failed attempts
      next     containerd-cfg 2.1.1: config, service, post-interrupt
      visit    number 7, batch 2, order 5, picked 2026-11-24T10:00:00Z, ended in failure
      said     config-check exit 1: unknown key
      you can  fix the package or its configuration and commit: a changed package is tried again; for the same one: nodewright retry node/cpu-011
    "#);
}

#[test]
fn a_node_that_reboots_names_the_boot() {
    let mut world = three_pools();
    let record = world.visit("h100-train", "gpu-005", Stage::Interrupt, State::InProgress);
    record.boot_before = Some("boot-1".to_owned());
    record.interrupt = Some(InterruptRecord {
        kind: InterruptKind::Reboot,
        services: Vec::new(),
        package: "kernel-tuning|1.5.0".to_owned().try_into().expect("name and version"),
        since: time("09:12"),
    });
    insta::assert_snapshot!(story(&world, "gpu-005"), @r#"
    gpu-005  ready · cordoned for h100-train

    h100-train  WAITING, goes on by itself
      why      reboot issued at 2026-11-24T09:12:00Z, waiting for the node to come back
      since    2026-11-24T09:12:00Z, 2 h 48 min ago
      wanted   kernel-tuning 1.5.0 (reboot)
      on it    kernel-tuning 1.5.0: interrupt in progress since 2026-11-24T10:15:00Z
      next     kernel-tuning 1.5.0: reboot, post-interrupt
      visit    number 7, batch 2, order 5, picked 2026-11-24T10:00:00Z, at work
      reboot   boot ID before is boot-1, not yet changed
      you can  wait; if the node does not come back, look at its console
    "#);
}

#[test]
fn a_node_that_nothing_selects_says_so_and_what_was_left() {
    let mut world = three_pools();
    world.plan.verdicts.get_mut("general").expect("added above").remove("cpu-011");
    let node = world.input.observed.nodes.get_mut("cpu-011").expect("added above");
    node.cordons.clear();
    insta::assert_snapshot!(story(&world, "cpu-011"), @r#"
    cpu-011  ready · cordoned, not by us
    no rollout selects this node

    general  no longer selects the node: what it installed stays there
      on it    containerd-cfg 2.1.1: config erroring since 2026-11-24T10:15:00Z, 4 failed attempts
    "#);
    world.plan.verdicts.remove("general");
    let why = "names no package".to_owned();
    world.input.desired.invalid.insert("general".to_owned(), why);
    let unreadable = "general  cannot be read: what it installed stays as it is until its resource \
                      is mended";
    assert!(story(&world, "cpu-011").contains(unreadable));
    world.input.desired.invalid.clear();
    world.input.observed.resources.remove("general");
    let gone = "general  is gone: what it installed stays; a NodeWright of that name takes it up \
                again";
    assert!(story(&world, "cpu-011").contains(gone));
}

#[test]
fn an_unknown_node_has_no_story() {
    let mut world = three_pools();
    assert_eq!(explain::node(&world.input, &world.plan, None, "gpu-999"), None);
    world.nodes("gb200", &["gpu-999"], &Verdict::done());
    assert!(story(&world, "gpu-999").contains("DONE"));
}

#[test]
fn a_resource_tells_what_needs_a_person_apart_from_what_waits() {
    let world = three_pools();
    let story = explain::resource(&world.input, &world.plan, None, "general");
    insta::assert_snapshot!(story.expect("it is there").to_string());
    let none = explain::resource(&world.input, &world.plan, None, "generall");
    assert_eq!(none, None);
}

#[test]
fn the_revision_that_is_applied_is_the_cause() {
    let world = three_pools();
    let revision = "main@sha1:e4f5a6b0000000000000000000000000000000000";
    let story = explain::node(&world.input, &world.plan, Some(revision), "gpu-003");
    let story = story.expect("it is there");
    assert!(story.to_string().contains("  cause    main@e4f5a6b\n"), "{story}");
    let json = serde_json::to_value(&story).expect("JSON");
    assert_eq!(json["rollouts"][0]["reason"], "ProtectedPod");
    assert_eq!(json["rollouts"][0]["since"], "2026-11-24T08:03:00Z");
}

/// What uses the budget, or has a package first, is on another node: that one is to be looked at.
#[test]
fn a_node_that_waits_for_others_names_one_of_them_as_what_to_look_at() {
    let others = || vec!["gpu-007".to_owned(), "gpu-008".to_owned()].into();
    let package = PackageId { name: "kernel".to_owned(), version: "1.5.0".to_owned() };
    for reason in [
        Reason::BudgetUsed { ceiling: 2, nodes: others() },
        Reason::FirstUse { package, nodes: others() },
    ] {
        let mut world = three_pools();
        world.nodes("gb200", &["gpu-999"], &Verdict::wait(reason));
        let story = story(&world, "gpu-999");
        assert!(story.contains("nodewright explain node/gpu-007"), "{story}");
    }
}
