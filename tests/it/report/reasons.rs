//! Every reason: a sentence, a heading, a way out, and whose concern it is.

use nodewright::model::{
    Breadth, BreadthScope, Group, InterruptKind, PackageId, Reason, Stage, StopCause, Verdict,
};
use nodewright::report::{Concern, concern, label, way_out};

use super::world::{pod_ref, stop_cause, time};

fn id() -> PackageId {
    PackageId { name: "kernel".to_owned(), version: "1.5.0".to_owned() }
}

fn breadth() -> Breadth {
    Breadth {
        scope: BreadthScope::Everything,
        nodes: 12,
        control_plane: 1,
        first: vec!["cp-1".to_owned()],
    }
}

/// One of each.
#[expect(clippy::too_many_lines, reason = "one line per reason, all in one table")]
pub fn every_reason() -> Vec<Reason> {
    let (since, until) = (time("10:03"), time("10:09"));
    let (package, why) = (id(), "exit 1".to_owned());
    let (first, rollout) = (pod_ref("llama-0"), "base".to_owned());
    let (stage, kind) = (Stage::Config, InterruptKind::Reboot);
    vec![
        Reason::UpToDate,
        Reason::Picking { batch: 2 },
        Reason::Starting { package: package.clone(), stage, attempt: 1 },
        Reason::Running { package: package.clone(), stage, since },
        Reason::NotStarted {
            package: package.clone(),
            stage,
            why: "ImagePullBackOff: not found".to_owned(),
            since,
        },
        Reason::Recording { group: Group::Install },
        Reason::Releasing,
        Reason::Draining { pods: 2, first: first.clone(), since },
        Reason::DrainTimedOut {
            why: "drain not finished within drainConfig.timeout, since 2026-11-24T10:03:00Z: pod \
                  ml/llama-0 has not ended"
                .to_owned(),
        },
        Reason::DrainRefused { pod: first.clone(), why: "it has an emptyDir".to_owned() },
        Reason::ProtectedPod { pods: 1, first: first.clone(), owner: None, since },
        Reason::DisruptionBudget { pods: 1, pod: first.clone(), why: "ml/llama".to_owned() },
        Reason::CordonNotSeen,
        Reason::Interrupting { kind, since },
        Reason::Rebooting { since },
        Reason::BackingOff { package: package.clone(), stage, attempt: 2, until },
        Reason::Failed { package: package.clone(), stage, attempts: 4, why: why.clone() },
        Reason::InterruptFailed { kind, why: why.clone() },
        Reason::WaitingForBatch { batch: 2 },
        Reason::PreparingBatch,
        Reason::FirstUse { package: package.clone(), nodes: vec!["gpu-1".to_owned()].into() },
        Reason::BudgetUsed { ceiling: 1, nodes: vec!["gpu-1".to_owned()].into() },
        Reason::BudgetZero,
        Reason::SelectsEverything { breadth: breadth() },
        Reason::Stopped {
            compartment: "production".to_owned(),
            batch: 3,
            failures: 2,
            cause: Some(StopCause { in_batch: 7, total: 9, ..stop_cause() }),
        },
        Reason::Predecessor { rollout: rollout.clone() },
        Reason::OtherRollout { rollout },
        Reason::StoppedByHand { note: "ada: fire drill".to_owned() },
        Reason::Paused,
        Reason::Disabled,
        Reason::Deleting,
        Reason::ApplyingRevision { revision: "main@sha1:e4f5".to_owned() },
        Reason::SourceHeld { why: "the revision is held".to_owned() },
        Reason::InvalidResource { why: "spec.packages: unknown field `pakages`".to_owned() },
        Reason::PolicyMissing { policy: "slow".to_owned() },
        Reason::PackageFinding {
            package: "kernel|1.0.0".to_owned(),
            why: "it is to be uninstalled, and what it was installed with is not known".to_owned(),
        },
        Reason::DependencyMissing { package: "a".to_owned(), on: "b".to_owned() },
        Reason::WaitingForPackage { package: "a".to_owned(), on: "b".to_owned() },
        Reason::NodeNotReady { since: Some(since) },
        Reason::InRepair { since },
        Reason::NodeDeleting,
        Reason::Uncordoned { manager: Some("kubectl".to_owned()) },
        Reason::Ignored,
        Reason::TaintNotTolerated { taint: "gpu=true:NoSchedule".to_owned() },
        Reason::Pulling { package: package.clone(), since },
        Reason::PullFailed {
            package: package.clone(),
            image: "registry/kernel:1.5.0".to_owned(),
            node: "gpu-1".to_owned(),
            why: "manifest unknown".to_owned(),
            since,
        },
        Reason::HandsOff { by: "GPU Operator".to_owned(), mark: "drain-required".to_owned() },
        Reason::HeldByHand { why: "memory test".to_owned() },
        Reason::TaintPending { taint: "nodewright.nvidia.com".to_owned() },
        Reason::GpusMissing { offered: 0, before: 8, since },
        Reason::HostReplaced { before: "a1".to_owned(), now: "b2".to_owned() },
        Reason::UpstreamWork { package: package.clone(), stage, object: "job/a".to_owned(), since },
        Reason::BudgetNever {
            pod: first.clone(),
            budget: "ml/llama".to_owned(),
            desired: 2,
            expected: 2,
        },
        Reason::SeveralBudgets {
            pod: first.clone(),
            budgets: vec!["ml/a".to_owned(), "ml/b".to_owned()],
        },
        Reason::UnhealthyPodHeld { pod: first.clone(), budget: "ml/llama".to_owned() },
        Reason::CordonFought { manager: "autoscaler".to_owned(), times: 3 },
        Reason::ProtectedLast { first: first.clone(), since },
        Reason::DeletionBlocked { why: "paused".to_owned() },
        Reason::ReferenceMissing {
            package: "kernel".to_owned(),
            object: "Secret nodewright/license".to_owned(),
        },
        Reason::NotCreated {
            object: "configmap nw-1f".to_owned(),
            why: "it is there with other content".to_owned(),
            since,
        },
        Reason::MalformedState { why: "nodeState_tuning: not JSON at 1:2".to_owned() },
        Reason::Frozen { invariant: "two interrupts at once".to_owned() },
    ]
}

/// As many as `Reason` has variants: the test below counts them in the source.
const REASONS: usize = 62;

#[test]
fn every_reason_is_here_once() {
    let words: std::collections::BTreeSet<&str> = every_reason().iter().map(Reason::word).collect();
    assert_eq!(words.len(), REASONS);
    assert_eq!(every_reason().len(), REASONS);
    let source = include_str!("../../../src/model/reason.rs");
    let named = source.lines().filter(|line| line.contains("=> \"")).count();
    assert_eq!(named, REASONS, "a reason was added: add it to this table");
}

#[test]
fn every_reason_is_one_plain_line() {
    for reason in every_reason() {
        for text in [reason.to_string(), way_out(&reason).to_owned(), label(&reason).to_owned()] {
            let word = reason.word();
            assert!(!text.is_empty() && text.trim() == text, "{word}: {text:?}");
            assert!(!text.ends_with('.'), "{word}: a sentence without a final period: {text}");
            let is_plain = !text.contains(['{', '}', '\n']) && !text.contains("Some(");
            assert!(is_plain, "{word}: a placeholder or a debug form: {text}");
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn concern_follows_kind_and_reason() {
    let table: Vec<String> = every_reason()
        .into_iter()
        .map(|reason| {
            let wait = concern(&Verdict::wait(reason.clone()));
            let blocked = concern(&Verdict::blocked(reason.clone()));
            format!("{}: wait {wait:?}, blocked {blocked:?}", reason.word())
        })
        .collect();
    insta::assert_snapshot!(table.join("\n"), @r#"
    UpToDate: wait Settled, blocked Settled
    Picking: wait Works, blocked NeedsPerson
    Starting: wait Works, blocked NeedsPerson
    Running: wait Works, blocked NeedsPerson
    NotStarted: wait Waits, blocked NeedsPerson
    Recording: wait Works, blocked NeedsPerson
    Releasing: wait Works, blocked NeedsPerson
    Draining: wait Waits, blocked NeedsPerson
    DrainTimedOut: wait NeedsPerson, blocked NeedsPerson
    DrainRefused: wait NeedsPerson, blocked NeedsPerson
    ProtectedPod: wait Waits, blocked NeedsPerson
    DisruptionBudget: wait Waits, blocked NeedsPerson
    CordonNotSeen: wait Works, blocked NeedsPerson
    Interrupting: wait Works, blocked NeedsPerson
    Rebooting: wait Waits, blocked NeedsPerson
    BackingOff: wait Waits, blocked NeedsPerson
    Failed: wait NeedsPerson, blocked NeedsPerson
    InterruptFailed: wait NeedsPerson, blocked NeedsPerson
    WaitingForBatch: wait Waits, blocked NeedsPerson
    PreparingBatch: wait Works, blocked NeedsPerson
    FirstUse: wait Waits, blocked NeedsPerson
    BudgetUsed: wait Waits, blocked NeedsPerson
    BudgetZero: wait OnPurpose, blocked OnPurpose
    SelectsEverything: wait NeedsPerson, blocked NeedsPerson
    Stopped: wait NeedsPerson, blocked NeedsPerson
    Predecessor: wait Waits, blocked NeedsPerson
    OtherRollout: wait Waits, blocked NeedsPerson
    StoppedByHand: wait OnPurpose, blocked OnPurpose
    Paused: wait OnPurpose, blocked OnPurpose
    Disabled: wait OnPurpose, blocked OnPurpose
    Deleting: wait Waits, blocked NeedsPerson
    ApplyingRevision: wait Waits, blocked NeedsPerson
    SourceHeld: wait Waits, blocked Waits
    InvalidResource: wait NeedsPerson, blocked NeedsPerson
    PolicyMissing: wait NeedsPerson, blocked NeedsPerson
    PackageFinding: wait NeedsPerson, blocked NeedsPerson
    DependencyMissing: wait NeedsPerson, blocked NeedsPerson
    WaitingForPackage: wait Works, blocked NeedsPerson
    NodeNotReady: wait Waits, blocked NeedsPerson
    InRepair: wait Waits, blocked NeedsPerson
    NodeDeleting: wait Waits, blocked Waits
    Uncordoned: wait NeedsPerson, blocked NeedsPerson
    Ignored: wait OnPurpose, blocked OnPurpose
    TaintNotTolerated: wait NeedsPerson, blocked NeedsPerson
    Pulling: wait Waits, blocked NeedsPerson
    PullFailed: wait NeedsPerson, blocked NeedsPerson
    HandsOff: wait Waits, blocked NeedsPerson
    HeldByHand: wait OnPurpose, blocked OnPurpose
    TaintPending: wait Works, blocked NeedsPerson
    GpusMissing: wait Waits, blocked NeedsPerson
    HostReplaced: wait Waits, blocked NeedsPerson
    UpstreamWork: wait Waits, blocked NeedsPerson
    BudgetNever: wait NeedsPerson, blocked NeedsPerson
    SeveralBudgets: wait NeedsPerson, blocked NeedsPerson
    UnhealthyPodHeld: wait NeedsPerson, blocked NeedsPerson
    CordonFought: wait NeedsPerson, blocked NeedsPerson
    ProtectedLast: wait Waits, blocked NeedsPerson
    DeletionBlocked: wait NeedsPerson, blocked NeedsPerson
    ReferenceMissing: wait NeedsPerson, blocked NeedsPerson
    NotCreated: wait NeedsPerson, blocked NeedsPerson
    MalformedState: wait NeedsPerson, blocked NeedsPerson
    Frozen: wait NeedsPerson, blocked NeedsPerson
    "#);
    let running = Reason::Running { package: id(), stage: Stage::Apply, since: time("10:00") };
    assert_eq!(concern(&Verdict::act(running)), Concern::Works);
    assert_eq!(concern(&Verdict::done()), Concern::Settled);
}
