//! Jobs and pods of upstream's operator: what it was running when it was stopped.
//!
//! In: Jobs (since v0.18) and bare pods (before) that carry upstream's labels and not our visit.
//! Out: [`UpstreamWork`]: which stage on which node, how far, and whether a failure was the
//! package's own (upstream contract B.16).
//! Must never: take an executor of ours for one of upstream's, or believe one that does not say
//! what it runs.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;
use serde::Deserialize;

use super::shelf::Shelf;
use super::slim::{WireMeta, null_as_empty, watchable_as};
use super::slim_node::WireCondition;
use super::slim_pod::{ContainerState, SlimPod, Standing};
use super::store::{Places, State, Watched, namespaced};
use crate::api::annotations::bounded_message;
use crate::api::keys;
use crate::model::{
    ExecutorPhase, Failure, PackageId, PodPhase, Stage, UpstreamKind, UpstreamRef, UpstreamWork,
};

/// The container of an interrupt, in upstream's pods as in ours.
const INTERRUPT_CONTAINER: &str = "interrupt";

/// The kubelet's word for a container that it starts again after a while.
const BACK_OFF: &str = "CrashLoopBackOff";

/// The word for an attempt, or a Job, that took longer than it may.
const DEADLINE: &str = "DeadlineExceeded";

/// What upstream writes about the stage a Job or pod runs (upstream contract C, `P/package`).
#[derive(Debug, Deserialize)]
struct Mark {
    name: String,
    version: String,
    skyhook: String,
    stage: Stage,
}

/// A pod of upstream's operator.
#[derive(Debug, Clone, PartialEq)]
pub enum UpstreamPod {
    /// A bare pod, which runs a stage by itself.
    Work(UpstreamWork),
    /// An attempt of a Job that failed.
    OfJob {
        /// `namespace/name` of the Job.
        job: String,
        /// Why.
        failure: Failure,
    },
}

/// A Job of upstream's operator, before its pods were asked why it failed.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamJob {
    /// What it runs; its failure is what the Job itself says.
    pub work: UpstreamWork,
    /// The Job itself proves that the failure was the package's own.
    is_genuine: bool,
}

impl UpstreamJob {
    /// Returns the work, with the failure that the Job's pods tell of.
    ///
    /// One that failed without any pod that failed by itself was disrupted: it is run again.
    pub fn with_pods<'a>(&self, pods: impl Iterator<Item = &'a UpstreamPod>) -> UpstreamWork {
        let mut work = self.work.clone();
        if work.phase != ExecutorPhase::Failed || self.is_genuine {
            return work;
        }
        let own = format!("{}/{}", work.reference.namespace, work.reference.name);
        let genuine = pods.filter_map(|pod| match pod {
            UpstreamPod::OfJob { job, failure } if *job == own && !failure.disrupted => {
                Some(failure.clone())
            }
            UpstreamPod::OfJob { .. } | UpstreamPod::Work(_) => None,
        });
        if let Some(failure) = genuine.last() {
            work.failure = Some(failure);
        }
        work
    }
}

/// Returns the name under which work is known.
pub fn key(reference: &UpstreamRef) -> String {
    let UpstreamRef { kind, namespace, name, uid: _ } = reference;
    let kind = match kind {
        UpstreamKind::Job => "job",
        UpstreamKind::Pod => "pod",
    };
    format!("{kind} {namespace}/{name}")
}

/// Reads a pod that carries upstream's labels; `None` when it is one of ours, or tells nothing.
pub fn of_pod(slim: &SlimPod) -> Option<UpstreamPod> {
    if slim.pod.labels.contains_key(keys::VISIT) {
        return None;
    }
    let mark: Mark = serde_json::from_str(slim.package_annotation.as_deref()?).ok()?;
    let job = slim.pod.controller.as_ref().filter(|controller| controller.kind == "Job");
    if let Some(job) = job {
        let job = format!("{}/{}", slim.pod.reference.namespace, job.name);
        return (slim.pod.phase == PodPhase::Failed)
            .then(|| UpstreamPod::OfJob { job, failure: pod_failure(slim, mark.stage) });
    }
    let phase = pod_phase(slim);
    let reference = slim.pod.reference.clone();
    Some(UpstreamPod::Work(UpstreamWork {
        reference: UpstreamRef {
            kind: UpstreamKind::Pod,
            namespace: reference.namespace,
            name: reference.name,
            uid: reference.uid,
        },
        rollout: mark.skyhook,
        node: slim.pod.node.clone(),
        package: PackageId { name: mark.name, version: mark.version },
        stage: mark.stage,
        created: slim.created,
        seen: slim.created,
        phase,
        restarts: slim.restarts,
        failure: (phase == ExecutorPhase::Failed).then(|| pod_failure(slim, mark.stage)),
        terminating: slim.pod.terminating,
    }))
}

/// Returns how far a bare pod is: its stage is over when the last init container is, while the
/// main one pauses for ever. One that the kubelet keeps starting again has failed.
fn pod_phase(slim: &SlimPod) -> ExecutorPhase {
    let has = |test: &dyn Fn(&ContainerState) -> bool| slim.containers.iter().any(test);
    let is_last = |name: &str| name == INTERRUPT_CONTAINER || name.ends_with("check");
    let is_over = |it: &ContainerState| {
        is_last(&it.name) && matches!(it.standing, Standing::Terminated { exit_code: 0, .. })
    };
    let backs_off = |it: &ContainerState| match &it.standing {
        Standing::Waiting { reason, .. } => reason == BACK_OFF,
        Standing::Running { .. } | Standing::Terminated { .. } => false,
    };
    let has_begun = |it: &ContainerState| !matches!(it.standing, Standing::Waiting { .. });
    match slim.pod.phase {
        PodPhase::Succeeded => ExecutorPhase::Succeeded,
        _ if has(&is_over) => ExecutorPhase::Succeeded,
        PodPhase::Failed => ExecutorPhase::Failed,
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {
            if has(&backs_off) {
                ExecutorPhase::Failed
            } else if has(&has_begun) {
                ExecutorPhase::Running
            } else {
                ExecutorPhase::Pending
            }
        }
    }
}

/// Returns why a pod failed. The package's own is a deadline, or a container that ended with an
/// exit code that the kubelet saw; all else is a disruption (upstream contract B.16).
fn pod_failure(slim: &SlimPod, stage: Stage) -> Failure {
    let ended = slim.containers.iter().find_map(|it| match &it.standing {
        Standing::Terminated { exit_code, reason, message, .. } if *exit_code != 0 => {
            (reason != "ContainerStatusUnknown").then_some((Some(*exit_code), message, &it.name))
        }
        Standing::Waiting { reason, message } if reason == BACK_OFF => {
            Some((None, message, &it.name))
        }
        Standing::Terminated { .. } | Standing::Waiting { .. } | Standing::Running { .. } => None,
    });
    let is_target = slim
        .conditions
        .iter()
        .any(|condition| condition.kind == "DisruptionTarget" && condition.status == "True");
    let is_late = slim.reason.as_deref() == Some(DEADLINE);
    let pod_words = || {
        let words = [slim.reason.as_deref(), slim.message.as_deref()];
        words.into_iter().flatten().collect::<Vec<_>>().join(": ")
    };
    let (exit_code, message) = match ended {
        Some((code, message, _)) if !message.is_empty() => (code, message.clone()),
        Some((code, _, container)) => (code, format!("container {container} failed")),
        None => (None, pod_words()),
    };
    Failure {
        stage: Some(stage),
        in_check: ended.is_some_and(|(_, _, container)| container.ends_with("check")),
        step: None,
        exit_code,
        message: bounded_message(&message),
        disrupted: is_target || !(is_late || ended.is_some()),
    }
}

/// A Job, trimmed to what upstream's operator says in it.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "WireJob")]
pub struct SlimJob {
    /// What kube's watcher asks for.
    pub metadata: ObjectMeta,
    /// What is still to be waited for or credited; `None` when it is no stage of upstream's, or
    /// upstream has recorded its end.
    pub work: Option<UpstreamJob>,
}

watchable_as!(SlimJob, k8s_openapi::api::batch::v1::Job);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireJob {
    metadata: WireMeta,
    #[serde(deserialize_with = "null_as_empty")]
    spec: WireJobSpec,
    #[serde(deserialize_with = "null_as_empty")]
    status: WireJobStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireJobSpec {
    #[serde(deserialize_with = "null_as_empty")]
    suspend: bool,
    #[serde(deserialize_with = "null_as_empty")]
    template: WireTemplate,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireTemplate {
    #[serde(deserialize_with = "null_as_empty")]
    spec: WireTemplateSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireTemplateSpec {
    #[serde(deserialize_with = "null_as_empty")]
    node_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireJobStatus {
    #[serde(deserialize_with = "null_as_empty")]
    active: u32,
    #[serde(deserialize_with = "null_as_empty")]
    failed: u32,
    #[serde(deserialize_with = "null_as_empty")]
    conditions: Vec<WireCondition>,
}

impl From<WireJob> for SlimJob {
    fn from(wire: WireJob) -> Self {
        let metadata = wire.metadata.shell();
        Self { metadata, work: read_job(wire) }
    }
}

fn read_job(wire: WireJob) -> Option<UpstreamJob> {
    let WireJob { metadata, spec, status } = wire;
    let annotations: &BTreeMap<String, String> = &metadata.annotations;
    let mark: Mark = serde_json::from_str(annotations.get(keys::PACKAGE_ANNOTATION)?).ok()?;
    let node = spec.template.spec.node_name;
    if node.is_empty() || metadata.labels.contains_key(keys::VISIT) {
        return None;
    }
    let condition = |kind: &str| {
        status
            .conditions
            .iter()
            .find(|condition| condition.kind == kind && condition.status == "True")
    };
    let failed = condition("Failed");
    // Nobody resumes what upstream suspended: its stage begins anew, as it does for upstream.
    let is_stopped = spec.suspend && status.active == 0;
    let phase = if condition("Complete").is_some() {
        ExecutorPhase::Succeeded
    } else if failed.is_some() || is_stopped {
        ExecutorPhase::Failed
    } else if status.active > 0 {
        ExecutorPhase::Running
    } else {
        ExecutorPhase::Pending
    };
    let is_over = matches!(phase, ExecutorPhase::Succeeded) || failed.is_some();
    if is_over && annotations.contains_key(keys::STATE_RECORDED) {
        return None;
    }
    let reason = failed.and_then(|failed| failed.reason.clone()).unwrap_or_default();
    let is_genuine = failed.is_some()
        && (annotations.contains_key(keys::RESTART_LIMIT_EXCEEDED) || reason == DEADLINE);
    let message = failed.and_then(|failed| failed.message.clone());
    let failure = (phase == ExecutorPhase::Failed).then(|| Failure {
        stage: Some(mark.stage),
        in_check: false,
        step: None,
        exit_code: None,
        message: bounded_message(&message.unwrap_or_else(|| "it was suspended".to_owned())),
        disrupted: !is_genuine,
    });
    let work = UpstreamWork {
        reference: UpstreamRef {
            kind: UpstreamKind::Job,
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
        },
        rollout: mark.skyhook,
        node,
        package: PackageId { name: mark.name, version: mark.version },
        stage: mark.stage,
        created: metadata.creation_timestamp,
        seen: metadata.creation_timestamp,
        phase,
        restarts: status.failed,
        failure,
        terminating: metadata.deletion_timestamp.is_some(),
    };
    Some(UpstreamJob { work, is_genuine })
}

impl Watched for SlimJob {
    type Kept = Option<UpstreamJob>;
    const KIND: &'static str = "jobs";
    const MAY_BE_ABSENT: bool = true;

    fn shelf(state: &mut State) -> &mut Shelf<Option<UpstreamJob>> {
        &mut state.jobs
    }

    fn keep(self, places: &Places) -> Option<UpstreamJob> {
        // Labels are anybody's to write: a Job of upstream's is in a namespace of upstream's.
        let mut job = self.work.filter(|job| places.all.contains(&job.work.reference.namespace))?;
        job.work.seen = places.clock.now();
        Some(job)
    }

    fn carry(kept: &mut Option<UpstreamJob>, before: &Option<UpstreamJob>) {
        if let (Some(kept), Some(before)) = (kept, before) {
            kept.work.seen = before.work.seen;
        }
    }

    fn is_same(one: &Option<UpstreamJob>, other: &Option<UpstreamJob>) -> bool {
        one == other
    }

    fn key(&self) -> String {
        namespaced(&self.metadata)
    }
}
