//! Progress lines: pool, batch, what waits and why, and only what changed.

use nodewright::model::{InterruptKind, Reason, StatusWord, Verdict};
use nodewright::report::progress::lines;

use super::world::{World, package, protected, refused, revision, three_pools, time};

#[test]
fn first_lines_tell_everything() {
    insta::assert_snapshot!(lines(None, &three_pools().state()).join("\n"), @r#"
    applied main@eeeeeee
    gb200       check-only 0.3.0, kernel-tuning 1.4.2  complete  3/3 done
    general     containerd-cfg 2.1.1  STOPPED in batch 3  1/5 done · 2 down · 2 erroring
    h100-train  kernel-tuning 1.5.0  batch 2  2/7 done · 1 down · waits: 2 × protected pods, gpu-004: protected: pod ml/llama-70b-1 must finish, runs since 2026-11-24T07:01:00Z (JobSet llama-70b); gpu-005: reboot issued at 2026-11-24T09:12:00Z, waiting for the node to come back · on purpose: gpu-007: ignored by label
    h100-train  batches to come: 4, 8, 3
    NEEDS YOU  storage clusters/prod-a/storage.yaml:7:14: version 1.10 is read as the number 1.1 → quote it: version: "1.10"
    NEEDS YOU  general cpu-011, cpu-019: config of containerd-cfg|2.1.1 failed 4 times: config-check exit 1: unknown key `SystemdCgroups` → fix the package or its configuration and commit: a changed package is tried again; for the same one: nodewright retry node/NAME
    "#);
}

#[test]
fn nothing_is_said_when_nothing_changed() {
    let world = three_pools();
    let mut later = world.clone();
    later.input.now = time("13:00");
    later.source.epoch += 1;
    assert_eq!(lines(Some(&world.state()), &later.state()), Vec::<String>::new());
}

#[test]
fn the_batches_to_come_are_told_once_a_target() {
    let told = |previous: &World, now: &World| {
        let lines = lines(Some(&previous.state()), &now.state());
        lines.into_iter().filter(|line| line.contains("batches to come")).collect::<Vec<_>>()
    };
    let begun = three_pools();
    let mut before = begun.clone();
    before.status("h100-train").memory.timings.started = None;
    assert_eq!(told(&before, &begun), ["h100-train  batches to come: 4, 8, 3"]);
    let mut again = begun.clone();
    again.status("h100-train").memory.timings.started = Some(time("10:01"));
    assert_eq!(told(&begun, &again), Vec::<String>::new(), "the write was refused");
    let mut next = begun.clone();
    let wanted = next.input.desired.rollouts.get_mut("h100-train").expect("a rollout");
    let newer = package("kernel-tuning", "1.6.0", Some(InterruptKind::Reboot));
    wanted.packages.insert("kernel-tuning".to_owned(), newer);
    assert_eq!(told(&begun, &next).len(), 1, "another target");
}

#[test]
fn only_the_pool_that_moved_is_named() {
    let before = three_pools();
    let mut world = before.clone();
    world.nodes("h100-train", &["gpu-005"], &Verdict::done());
    let said = lines(Some(&before.state()), &world.state()).join("\n");
    insta::assert_snapshot!(said, @"h100-train  batch 2  3/7 done · 1 down · waits: 2 × protected pods, gpu-004: protected: pod ml/llama-70b-1 must finish, runs since 2026-11-24T07:01:00Z (JobSet llama-70b) · on purpose: gpu-007: ignored by label");
}

#[test]
fn a_story_of_a_refused_manifest_reads_well() {
    let mut world = World::new();
    world.rollout("h200-train", &[package("kernel-tuning", "1.5.0", Some(InterruptKind::Reboot))]);
    world.nodes("h200-train", &["gpu-1"], &Verdict::done());
    world.nodes("h200-train", &["gpu-2"], &protected("llama-0", time("10:03")));
    world.batch("h200-train", 2, 1);
    let mut said = lines(None, &world.state());
    let before = world.clone();
    world.source.revision_applied = Some(revision('b'));
    world.source.findings.push(refused("clusters/demo/storage.yaml", 7));
    said.extend(lines(Some(&before.state()), &world.state()));
    let before = world.clone();
    world.source.findings.clear();
    world.nodes("h200-train", &["gpu-2"], &Verdict::done());
    world.status("h200-train").word = StatusWord::Complete;
    world.compartment("h200-train").in_progress = 0;
    said.extend(lines(Some(&before.state()), &world.state()));
    let before = world.clone();
    world.input.desired.rollouts.clear();
    said.extend(lines(Some(&before.state()), &world.state()));
    insta::assert_snapshot!(said.join("\n"), @r#"
    applied main@eeeeeee
    h200-train  kernel-tuning 1.5.0  batch 2  1/2 done · 1 at work · waits: gpu-2: protected: pod ml/llama-0 must finish, runs since 2026-11-24T10:03:00Z (JobSet llama-70b)
    applied main@bbbbbbb
    NEEDS YOU  storage clusters/demo/storage.yaml:7:14: version 1.10 is read as the number 1.1 → quote it: version: "1.10"
    h200-train  complete  2/2 done
    SETTLED    storage clusters/demo/storage.yaml:7:14: version 1.10 is read as the number 1.1
    h200-train  removed
    "#);
}

#[test]
fn work_without_an_interrupt_is_beside_the_workloads() {
    let mut world = World::new();
    world.rollout("tuning", &[package("tuned", "0.9.0", None)]);
    world.nodes("tuning", &["a", "b"], &Verdict::act(Reason::Picking { batch: 1 }));
    world.batch("tuning", 1, 2);
    let said = lines(None, &world.state());
    assert_eq!(
        said.last().map(String::as_str),
        Some("tuning  tuned 0.9.0  batch 1  0/2 done · 2 at work beside the workloads")
    );
}
