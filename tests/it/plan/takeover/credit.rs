//! What upstream was running is waited for, credited once, then deleted.

use std::collections::BTreeMap;

use nodewright::model::{ExecutorPhase, InterruptKind, NodeRollout, Shared, Stage, State};
use nodewright::plan::world::{Fate, World};

use super::super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::{cordon, end_jobs, failure, job, leave, ran, upstream};

const NODE: &str = "node-00";

fn rebooting() -> World {
    world(1, rollout(1, vec![package("kernel", "1.0.0").interrupting(InterruptKind::Reboot)]))
}

fn reboots(world: &World) -> u32 {
    world.reboots.get(NODE).copied().unwrap_or(0)
}

type Rollouts = BTreeMap<String, Shared<NodeRollout>>;

/// Takes out what we record for entries of upstream's that are complete, for a comparison.
fn without_snapshots(rollouts: &Rollouts) -> Rollouts {
    let mut rollouts = rollouts.clone();
    for state in rollouts.values_mut() {
        state.entries.values_mut().for_each(|entry| entry.snapshot = None);
        state.entries_text = None;
    }
    rollouts
}

#[test]
fn on_a_complete_node_only_what_is_there_is_recorded() {
    for stage in ["config", "post-interrupt"] {
        let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
        leave(&mut world, NODE, &[("kernel", "1.0.0", stage, "complete")]);
        let before = world.input.observed.nodes[NODE].clone();
        world.run();
        assert!(world.is_complete());
        let after = world.input.observed.nodes[NODE].clone();
        let rollouts = without_snapshots(&after.rollouts);
        assert_eq!(rollouts, without_snapshots(&before.rollouts));
        assert_eq!((after.unschedulable, after.cordons), (before.unschedulable, before.cordons));
        assert_eq!(ran(&world, NODE), [""; 0]);
        // Without it no later change of the configuration would ever be noticed here.
        world.set_rollout(rollout(1, vec![package("kernel", "1.0.0").with_config("a", "b")]));
        world.run();
        assert_eq!(ran(&world, NODE), ["kernel|1.0.0 config"]);
    }
}

#[test]
fn running_work_is_waited_for_and_named() {
    let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
    leave(&mut world, NODE, &[("kernel", "1.0.0", "apply", "in_progress")]);
    job(&mut world, NODE, "kernel", Stage::Apply, ExecutorPhase::Running);
    world.settle();
    assert_eq!(world.active(), [""; 0], "nothing of ours starts beside it");
    let verdict = world.verdict(NODE);
    assert!(
        verdict.starts_with("Wait: apply of kernel|1.0.0 was started by upstream"),
        "{verdict}"
    );
    assert!(verdict.ends_with("Job nodewright/tuning-kernel-apply-node-00"), "{verdict}");

    end_jobs(&mut world, ExecutorPhase::Succeeded);
    world.run();
    assert!(world.is_complete(), "{}", world.verdict(NODE));
    assert_eq!(ran(&world, NODE), ["kernel|1.0.0 config"], "apply is not run again");
    assert!(world.input.observed.upstream.is_empty(), "the Job is deleted");
}

#[test]
fn the_last_stage_of_upstream_completes_the_node_without_a_visit() {
    let mut world = rebooting();
    leave(&mut world, NODE, &[("kernel", "1.0.0", "post-interrupt", "in_progress")]);
    cordon(&mut world, NODE);
    job(&mut world, NODE, "kernel", Stage::PostInterrupt, ExecutorPhase::Succeeded);
    world.run();
    assert!(world.is_complete(), "{}", world.verdict(NODE));
    assert_eq!((ran(&world, NODE).len(), reboots(&world)), (0, 0));
    let node = &world.input.observed.nodes[NODE];
    assert!(!node.unschedulable && node.cordons.is_empty(), "upstream's cordon is let go");
}

#[test]
fn a_crash_between_credit_and_deletion_credits_nothing_twice() {
    let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
    leave(&mut world, NODE, &[("kernel", "1.0.0", "config", "in_progress")]);
    job(&mut world, NODE, "kernel", Stage::Config, ExecutorPhase::Succeeded);
    let (plan, _, _) = world.tick(|_| Fate::Done);
    let words: Vec<&str> = plan.actions.iter().map(nodewright::model::Action::word).collect();
    assert!(words.contains(&"progress") && !words.contains(&"delete-upstream-work"), "{words:?}");
    assert_eq!(world.entry(NODE, "kernel"), "1.0.0 config complete");
    let credited = world.input.observed.nodes[NODE].clone();
    // The daemon dies before the deletion, and its successor finds the Job as it was.
    let (plan, _, _) = world.tick(|_| Fate::Crash);
    assert!(plan.actions.iter().all(|action| action.word() != "progress"));
    world.run();
    let rollouts = without_snapshots(&world.input.observed.nodes[NODE].rollouts);
    assert_eq!(rollouts, without_snapshots(&credited.rollouts));
    assert!(world.input.observed.upstream.is_empty());
}

#[test]
fn a_finished_job_says_nothing_of_an_entry_that_is_elsewhere() {
    let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
    leave(&mut world, NODE, &[("kernel", "1.0.0", "config", "in_progress")]);
    job(&mut world, NODE, "kernel", Stage::Apply, ExecutorPhase::Succeeded);
    world.run();
    assert_eq!(ran(&world, NODE), ["kernel|1.0.0 config"], "config is not credited from apply");
    assert!(world.is_complete() && world.input.observed.upstream.is_empty());
}

#[test]
fn a_machine_that_was_replaced_is_credited_nothing() {
    let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
    leave(&mut world, NODE, &[("kernel", "1.0.0", "apply", "in_progress")]);
    job(&mut world, NODE, "kernel", Stage::Apply, ExecutorPhase::Succeeded);
    let now = world.input.now;
    world.pass(60);
    let node = world.input.observed.nodes.get_mut(NODE).expect("the node");
    node.created = now.checked_add(jiff::SignedDuration::from_secs(30)).expect("in range");
    world.run();
    assert_eq!(ran(&world, NODE), ["kernel|1.0.0 apply", "kernel|1.0.0 config"]);
}

#[test]
fn an_interrupt_that_upstream_issued_is_not_issued_again() {
    let mut world = rebooting();
    leave(&mut world, NODE, &[("kernel", "1.0.0", "interrupt", "in_progress")]);
    cordon(&mut world, NODE);
    job(&mut world, NODE, "kernel", Stage::Interrupt, ExecutorPhase::Running);
    world.settle();
    assert!(world.verdict(NODE).starts_with("Wait: interrupt of kernel|1.0.0"));
    end_jobs(&mut world, ExecutorPhase::Succeeded);
    world.run();
    assert!(world.is_complete(), "{}", world.verdict(NODE));
    assert_eq!(
        (ran(&world, NODE), reboots(&world)),
        (vec!["kernel|1.0.0 post-interrupt".into()], 0)
    );
    let node = &world.input.observed.nodes[NODE];
    assert!(!node.unschedulable && node.cordons.is_empty());
}

#[test]
fn a_changed_boot_id_proves_the_reboot_when_its_job_is_gone() {
    for (seen, expected) in [("boot-node-00-earlier", 0), ("boot-node-00-0", 1)] {
        let mut world = rebooting();
        leave(&mut world, NODE, &[("kernel", "1.0.0", "interrupt", "in_progress")]);
        cordon(&mut world, NODE);
        upstream(&mut world).node_boot_ids.insert(NODE.to_owned(), seen.to_owned());
        world.run();
        assert!(world.is_complete(), "{}", world.verdict(NODE));
        assert_eq!(reboots(&world), expected, "seen {seen}");
        assert!(!world.input.observed.nodes[NODE].unschedulable);
    }
}

#[test]
fn packages_skipped_for_one_interrupt_are_promoted_with_it() {
    let kernel = package("kernel", "1.0.0").interrupting(InterruptKind::Reboot);
    let time = package("time", "1.0.0").interrupting(InterruptKind::Service);
    for winner in ["in_progress", "complete"] {
        let mut world = world(1, rollout(1, vec![kernel.clone(), time.clone()]));
        leave(
            &mut world,
            NODE,
            &[("kernel", "1.0.0", "interrupt", winner), ("time", "1.0.0", "interrupt", "skipped")],
        );
        cordon(&mut world, NODE);
        if winner == "in_progress" {
            job(&mut world, NODE, "kernel", Stage::Interrupt, ExecutorPhase::Succeeded);
        }
        world.run();
        assert!(world.is_complete(), "{}", world.verdict(NODE));
        let ran = ran(&world, NODE);
        assert_eq!(ran, ["kernel|1.0.0 post-interrupt", "time|1.0.0 post-interrupt"], "{winner}");
        assert_eq!(reboots(&world), 0);
    }
}

#[test]
fn a_genuine_failure_is_shown_and_our_attempts_begin_anew() {
    let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
    leave(&mut world, NODE, &[("kernel", "1.0.0", "apply", "in_progress")]);
    job(&mut world, NODE, "kernel", Stage::Apply, ExecutorPhase::Failed);
    let work = world.input.observed.upstream.values_mut().next().expect("the Job");
    (work.restarts, work.failure) = (4, Some(failure(false)));
    drop(world.tick(|_| Fate::Done));
    let entry = world.input.observed.nodes[NODE].entries("tuning").values().next().cloned();
    let entry = entry.expect("the entry");
    assert!(entry.is(Stage::Apply, State::Erroring) && entry.restarts == Some(4));
    world.run();
    assert!(world.is_complete(), "{}", world.verdict(NODE));
    assert_eq!(ran(&world, NODE), ["kernel|1.0.0 apply", "kernel|1.0.0 config"]);
}

#[test]
fn a_disrupted_stage_is_run_again_and_counts_nothing() {
    let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
    leave(&mut world, NODE, &[("kernel", "1.0.0", "config", "in_progress")]);
    job(&mut world, NODE, "kernel", Stage::Config, ExecutorPhase::Failed);
    let work = world.input.observed.upstream.values_mut().next().expect("the Job");
    (work.restarts, work.failure) = (1, Some(failure(true)));
    let (plan, _, _) = world.tick(|_| Fate::Done);
    assert!(plan.actions.iter().all(|action| action.word() != "progress"));
    world.run();
    assert_eq!(ran(&world, NODE), ["kernel|1.0.0 config"]);
}

#[test]
fn the_uninstall_that_upstream_finished_leaves_no_entry() {
    for (stage, kind) in
        [(Stage::Uninstall, None), (Stage::UninstallInterrupt, Some(InterruptKind::Reboot))]
    {
        let mut kernel = package("kernel", "1.0.0");
        kernel = kind.map_or(kernel.clone(), |kind| kernel.interrupting(kind));
        kernel.uninstall.enabled = true;
        kernel.uninstall.apply = true;
        let mut world = world(1, rollout(1, vec![kernel]));
        leave(&mut world, NODE, &[("kernel", "1.0.0", stage.as_str(), "in_progress")]);
        job(&mut world, NODE, "kernel", stage, ExecutorPhase::Running);
        world.settle();
        assert!(world.verdict(NODE).contains("was started by upstream"));
        end_jobs(&mut world, ExecutorPhase::Succeeded);
        world.run();
        assert_eq!(world.entry(NODE, "kernel"), "none", "absence is uninstalled");
        assert_eq!(ran(&world, NODE), [""; 0]);
    }
}

#[test]
fn a_foreign_cordon_stays_when_the_node_is_let_go() {
    let mut world = rebooting();
    leave(&mut world, NODE, &[("kernel", "1.0.0", "post-interrupt", "in_progress")]);
    let node = world.input.observed.nodes.get_mut(NODE).expect("the node");
    node.unschedulable = true;
    world.run();
    assert!(world.is_complete(), "{}", world.verdict(NODE));
    assert!(world.input.observed.nodes[NODE].unschedulable, "it never was ours");
}

#[test]
fn what_another_rollout_left_is_in_the_way_until_that_has_taken_it_in() {
    for (phase, selects, waits) in [
        (ExecutorPhase::Running, false, true),
        (ExecutorPhase::Succeeded, true, true),
        (ExecutorPhase::Succeeded, false, false),
    ] {
        let mut world = world(1, rollout(1, vec![package("kernel", "1.0.0")]));
        job(&mut world, NODE, "other", Stage::Apply, phase);
        for work in world.input.observed.upstream.values_mut() {
            work.rollout = "other".to_owned();
        }
        if selects {
            let mut other = rollout(1, vec![]);
            other.name = "other".to_owned();
            // Later than ours: its turn to take it in has not come in this plan.
            other.priority = 300;
            world.input.desired.rollouts.insert("other".to_owned(), other);
        }
        let verdict = world.verdict(NODE);
        assert_eq!(verdict.contains("was started by upstream"), waits, "{phase:?}: {verdict}");
    }
}
