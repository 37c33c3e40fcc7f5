//! Findings in a terminal, events, and a plan in short text.

use nodewright::model::{
    Action, Eviction, EvictionMethod, ExecutorSpec, Finding, Interrupt, InterruptKind, NodePatch,
    Outcome, Outlook, PatchKind, Phase, Plan, Reason, Record, Severity, Stage, State, StatusWrite,
    Stopped, UpstreamMaps, Urgency, Verdict, VisitRef, Work,
};
use nodewright::report::events::{Event, NOTE_MAX_BYTES, of_action, of_stop, of_verdict};
use nodewright::report::{clean, findings, plan_text, short_revision};

use super::world::{outlook, package, pod_ref, protected, refused, stop_cause, three_pools, time};

#[test]
fn findings_read_like_a_compiler() {
    let warning = Finding {
        severity: Severity::Warning,
        line: None,
        column: None,
        object: None,
        path: None,
        message: "is no manifest of ours".to_owned(),
        way_out: "move it out of the folder".to_owned(),
        ..refused("clusters/prod-a/a.yaml", 1)
    };
    let mut all = vec![
        refused("clusters/prod-a/storage.yaml", 12),
        refused("clusters/prod-a/storage.yaml", 7),
        warning,
    ];
    let text = findings::text(&all);
    insta::assert_snapshot!(text, @r#"
    clusters/prod-a/a.yaml: warning NW0107: is no manifest of ours
      way out: move it out of the folder

    clusters/prod-a/storage.yaml:7:14: error NW0107: version 1.10 is read as the number 1.1
      in: NodeWright storage, spec.packages.mounts.version
      way out: quote it: version: "1.10"
    clusters/prod-a/storage.yaml:12:14: error NW0107: version 1.10 is read as the number 1.1
      in: NodeWright storage, spec.packages.mounts.version
      way out: quote it: version: "1.10"

    2 errors, 1 warning in 2 files
    "#);
    all.reverse();
    all.push(all[0].clone());
    assert_eq!(findings::text(&all), text, "order and repeats do not matter");
    assert_eq!(findings::text(&[]), "");
}

fn patch(kind: PatchKind, record: &Record) -> Action {
    Action::PatchNode(NodePatch {
        node: "gpu-005".to_owned(),
        node_uid: record.node_uid.clone(),
        rollout: "h100-train".to_owned(),
        kind,
        entries: None,
        record: Some(record.clone()),
        status: None,
        cordon_mark: None,
        drain_start: None,
        unschedulable: None,
    })
}

fn progress(before: &Record) -> PatchKind {
    let record_text = Some(serde_json::to_string(before).expect("plain data"));
    PatchKind::Progress { record_text, entries_text: None }
}

fn executor(work: Work) -> Action {
    Action::CreateExecutor(ExecutorSpec {
        visit: VisitRef {
            rollout: "h100-train".to_owned(),
            node: "gpu-005".to_owned(),
            node_uid: "node-gpu-005".to_owned(),
            visit: 7,
        },
        rollout_uid: "cr-h100-train".to_owned(),
        generation: 1,
        order: 5,
        attempt: 1,
        snapshot: "nw-1".to_owned(),
        work,
        tolerations: Vec::new(),
    })
}

/// What happens on a node in a visit with a reboot, in order.
fn visit_of_a_reboot() -> Vec<Action> {
    let kernel = package("kernel-tuning", "1.5.0", Some(InterruptKind::Reboot));
    let mut world = three_pools();
    let picked = world.visit("h100-train", "gpu-005", Stage::Apply, State::InProgress).clone();
    let interrupted = Record {
        phase: Phase::Interrupting,
        boot_before: Some("boot-1".to_owned()),
        ..picked.clone()
    };
    let proven = Record {
        phase: Phase::Interrupted,
        boot_last: Some("boot-2".to_owned()),
        ..interrupted.clone()
    };
    let complete =
        Record { phase: Phase::Released, outcome: Some(Outcome::Complete), ..proven.clone() };
    let failed = Record {
        outcome: Some(Outcome::Erroring),
        reason: Some("Failed".to_owned()),
        message: Some("post-interrupt-check exit 1".to_owned()),
        ..proven.clone()
    };
    let let_go = Record { outcome: Some(Outcome::Released), ..picked.clone() };
    let release = || PatchKind::Release { resource_version: "2".to_owned() };
    let interrupt = Interrupt { kind: InterruptKind::Reboot, services: Vec::new() };
    let stages = vec![Stage::Upgrade, Stage::Config];
    vec![
        patch(PatchKind::Pick { resource_version: "1".to_owned() }, &picked),
        Action::Evict(Eviction {
            node: "gpu-005".to_owned(),
            rollout: "h100-train".to_owned(),
            pod: pod_ref("web-1"),
            method: EvictionMethod::Evict,
            grace_period: None,
        }),
        executor(Work::Install { package: kernel.clone(), stages }),
        patch(progress(&picked), &interrupted),
        executor(Work::Interrupt { package: kernel.clone(), interrupt }),
        patch(progress(&interrupted), &proven),
        executor(Work::Verify { package: kernel }),
        patch(progress(&proven), &proven),
        patch(progress(&proven), &failed),
        patch(release(), &complete),
        patch(release(), &let_go),
    ]
}

fn line(event: &Event) -> String {
    let Event { node, rollout, kind, reason, action, note } = event;
    let about = node.as_deref().unwrap_or("itself");
    format!("{} {reason}/{action} {rollout} {about}: {note}", kind.as_str())
}

#[test]
fn events_tell_a_visit() {
    let events: Vec<String> =
        visit_of_a_reboot().iter().filter_map(of_action).map(|event| line(&event)).collect();
    insta::assert_snapshot!(events.join("\n"), @r#"
    Normal State/Pick h100-train gpu-005: picked for batch 2 as number 5, cordoned
    Normal Drain/Evict h100-train gpu-005: evicting pod ml/web-1 to drain the node
    Normal Apply/ApplyPackage h100-train gpu-005: upgrade, config of kernel-tuning|1.5.0, attempt 1
    Normal Interrupt/Interrupt h100-train gpu-005: interrupt reboot for kernel-tuning|1.5.0, attempt 1
    Normal Reboot/ProveReboot h100-train gpu-005: rebooted: boot ID boot-1 became boot-2
    Normal Apply/VerifyPackage h100-train gpu-005: post-interrupt of kernel-tuning|1.5.0, attempt 1
    Warning State/MarkErroring h100-train gpu-005: Failed: post-interrupt-check exit 1; the node stays cordoned
    Normal State/MarkComplete h100-train gpu-005: every package is as wanted
    Normal State/Release h100-train gpu-005: let go: no longer needed here
    "#);
}

#[test]
fn verdicts_become_events_once() {
    let waiting = protected("llama-0", time("10:03"));
    let event = of_verdict("h100-train", "gpu-1", None, &waiting).expect("news");
    insta::assert_snapshot!(line(&event), @"Normal Drain/Wait h100-train gpu-1: protected: pod ml/llama-0 must finish, runs since 2026-11-24T10:03:00Z (JobSet llama-70b)");
    assert_eq!(of_verdict("h100-train", "gpu-1", Some(&waiting), &waiting), None);
    let running = Verdict::wait(Reason::WaitingForBatch { batch: 1 });
    assert_eq!(of_verdict("h100-train", "gpu-1", Some(&waiting), &running), None);
    let frozen = Verdict::blocked(Reason::Frozen { invariant: "x".repeat(4096) });
    let event = of_verdict("h100-train", "gpu-1", Some(&waiting), &frozen).expect("news");
    assert!(event.note.len() <= NOTE_MAX_BYTES, "{}", event.note.len());
    assert_eq!(event.kind.as_str(), "Warning");
}

#[test]
fn a_stop_is_one_event_of_the_resource_with_the_ways_out() {
    let before = outlook();
    let stopped = Stopped { batch: 3, failures: 2, cause: Some(stop_cause()) };
    let now = Outlook { stopped: Some(stopped.clone()), ..before.clone() };
    let told = of_stop("general", "production", Some(&before), &now).expect("an event");
    insta::assert_snapshot!(line(&told), @"Warning State/Stop general itself: compartment production stopped after 2 failed batches in a row, the last was batch 3; failed: cpu-011, cpu-019; config of containerd-cfg|2.1.1 failed 4 times: config-check exit 1: unknown key `SystemdCgroups`; way out: fix the package or its configuration and commit: a changed package is tried again; to go on with the same one: nodewright retry node/cpu-011, then nodewright deployment-policy reset general");
    assert_eq!(of_stop("general", "production", Some(&now), &now), None, "told once");
    assert_eq!(of_stop("general", "production", Some(&before), &before), None);
    let verdict = Verdict::blocked(stopped.reason("production"));
    assert_eq!(of_verdict("general", "cpu-020", None, &verdict), None, "not of each node");

    let mut cause = stop_cause();
    cause.why = "x".repeat(4096);
    let long = Stopped { batch: 3, failures: 2, cause: Some(cause) };
    let now = Outlook { stopped: Some(long), ..before };
    let told = of_stop("general", "production", None, &now).expect("an event");
    assert!(told.note.len() <= NOTE_MAX_BYTES, "{}", told.note.len());
    assert!(told.note.ends_with("deployment-policy reset general"), "{}", told.note);
}

#[test]
fn plan_reads_as_short_text() {
    let mut world = three_pools();
    world.plan.actions = visit_of_a_reboot();
    let status = world.status("h100-train").clone();
    world.plan.actions.push(Action::WriteStatus(StatusWrite {
        rollout: "h100-train".to_owned(),
        resource_version: "1".to_owned(),
        status,
        urgency: Urgency::Routine,
        upstream: UpstreamMaps::Keep,
    }));
    world.plan.wake_at = Some(time("12:05"));
    insta::assert_snapshot!(plan_text::text(&world.plan), @r#"
    gb200: 3 nodes; done 3 (UpToDate 3)
    general: 5 nodes; blocked 4 (Failed 2, Stopped 2), done 1 (UpToDate 1)
    h100-train: 7 nodes; wait 4 (ProtectedPod 2, Rebooting 1, WaitingForBatch 1), blocked 1 (Ignored 1), done 2 (UpToDate 2)
      batches: 4 open, then 8, 3; if every node fails from now on: 2, then it stops
    - h100-train on gpu-005: pick the node
    - h100-train on gpu-005: move pod ml/web-1 away
    - h100-train on gpu-005: start upgrade, config of kernel-tuning|1.5.0, attempt 1
    - h100-train on gpu-005: record progress (interrupt begun)
    - h100-train on gpu-005: start interrupt reboot of kernel-tuning|1.5.0, attempt 1
    - h100-train on gpu-005: record progress (interrupt proven)
    - h100-train on gpu-005: start post-interrupt of kernel-tuning|1.5.0, attempt 1
    - h100-train on gpu-005: record progress (interrupt proven)
    - h100-train on gpu-005: record progress (interrupt proven)
    - h100-train on gpu-005: let the node go
    - h100-train on gpu-005: let the node go
    - h100-train: write status in_progress, 2/7 complete, batch 2 of 4 nodes open
    looks again at 2026-11-24T12:05:00Z
    "#);
    assert_eq!(plan_text::text(&Plan::default()), "nothing to do\n");
}

#[test]
fn text_is_cleaned_and_cut_at_characters() {
    assert_eq!(clean("a\u{1b}[31m  b\r\n\tc", 100), "a [31m b c");
    assert_eq!(clean("ééé", 6), "ééé");
    assert_eq!(clean("éééé", 6), "é…");
    assert_eq!(clean("", 6), "");
    assert_eq!(short_revision(&format!("main@sha1:{}", "e4f5a6b8".repeat(5))), "main@e4f5a6b");
    assert_eq!(short_revision("main@sha1:é"), "main@sha1:é");
    assert_eq!(short_revision("v1.2"), "v1.2");
}
