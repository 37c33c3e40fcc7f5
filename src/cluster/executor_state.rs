//! What an executor pod did, read from its container statuses.
//!
//! In: a trimmed pod of ours. Out: [`Executor`]: stages done, what runs, why it waits or failed.
//! Must never: believe a pod that does not say which visit and node it worked for.

use jiff::Timestamp;
use serde::Deserialize;

use super::executor::{INTERRUPT_CONTAINER, Mark};
use super::executor_pull;
use super::names::{self, container_prefix, visit_of_label};
use super::slim_pod::{ContainerState, SlimPod, Standing};
use crate::api::annotations::bounded_message;
use crate::api::keys;
use crate::model::{
    Executor, ExecutorPhase, Failure, Group, PackageId, PodPhase, Stage, VisitRef, Waiting,
};

/// What the agent leaves in the termination message (design §6).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentSummary {
    v: u32,
    step: Option<String>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    tail: Option<String>,
}

impl AgentSummary {
    fn parse(message: &str) -> Option<Self> {
        serde_json::from_str::<Self>(message).ok().filter(|summary| summary.v > 0)
    }

    /// Returns whether an interrupt's command was issued: it ended well, or the machine going down
    /// ended it. Only one that was not is a failure at once (design §6).
    fn is_issued(&self) -> bool {
        self.exit_code == Some(0) || self.signal.is_some()
    }
}

/// What a container of an executor does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Copy,
    Stage(Stage),
    Check(Stage),
    Main,
}

/// Reads an executor pod; `None` when it is not one of ours with everything it must say.
pub fn read(slim: &SlimPod) -> Option<Executor> {
    let label = |key: &str| slim.pod.labels.get(key).map(String::as_str);
    let mark: Mark = serde_json::from_str(slim.package_annotation.as_deref()?).ok()?;
    // A pod that does not say when it was asked for was made by an earlier version.
    let created = mark.asked.unwrap_or(slim.created);
    let visit = VisitRef {
        rollout: label(keys::NAME)?.to_owned(),
        node: slim.pod.node.clone(),
        node_uid: label(keys::NODE_UID)?.to_owned(),
        visit: visit_of_label(label(keys::VISIT)?)?,
    };
    let group = match label(keys::GROUP)? {
        "pull" => Group::Pull,
        "uninstall" => Group::Uninstall,
        "install" => Group::Install,
        "interrupt" => Group::Interrupt,
        "verify" => Group::Verify,
        _ => return None,
    };
    let roles: Vec<(Role, &ContainerState)> = slim
        .containers
        .iter()
        .filter_map(|container| Some((role(&container.name, &mark.name)?, container)))
        .collect();
    let (phase, waiting) = match group {
        Group::Pull => (executor_pull::phase(slim), executor_pull::waiting(slim, created)),
        Group::Uninstall | Group::Install | Group::Interrupt | Group::Verify => {
            let phase = phase(slim);
            (phase, waiting(phase, &roles, created))
        }
    };
    let failed = phase == ExecutorPhase::Failed;
    let executor = Executor {
        reference: slim.pod.reference.clone(),
        visit,
        group,
        package: PackageId { name: mark.name, version: mark.version },
        snapshot: mark.snapshot,
        attempt: label(keys::ATTEMPT)?.parse().ok()?,
        created,
        phase,
        completed: completed(group, &roles),
        running: roles.iter().find_map(|(role, container)| match (role, &container.standing) {
            (Role::Stage(stage) | Role::Check(stage), Standing::Running { .. }) => Some(*stage),
            _ => None,
        }),
        stage_since: stage_since(&roles),
        begun: slim
            .containers
            .iter()
            .any(|container| !matches!(container.standing, Standing::Waiting { .. })),
        waiting,
        finished: finished(phase, slim),
        failure: failed.then(|| failure(slim, &roles)),
        terminating: slim.pod.terminating,
    };
    // A copy made by hand, or one whose labels were changed, did not do what it says.
    names::has_its_name(&executor).then_some(executor)
}

/// Returns what a container does, by its name (upstream contract D.2).
fn role(container: &str, package: &str) -> Option<Role> {
    if container == "done" {
        return Some(Role::Main);
    }
    if container == INTERRUPT_CONTAINER {
        return Some(Role::Stage(Stage::Interrupt));
    }
    let rest = container.strip_prefix(container_prefix(package))?.strip_prefix('-')?;
    if rest == "init" {
        return Some(Role::Copy);
    }
    const STAGES: [Stage; 7] = [
        Stage::Uninstall,
        Stage::UninstallInterrupt,
        Stage::Upgrade,
        Stage::Apply,
        Stage::Config,
        Stage::Interrupt,
        Stage::PostInterrupt,
    ];
    STAGES.into_iter().find_map(|stage| match rest.strip_prefix(stage.as_str())? {
        "" => Some(Role::Stage(stage)),
        "check" => Some(Role::Check(stage)),
        _ => None,
    })
}

/// Returns when the step of the stage that runs now started: its check is part of it.
fn stage_since(roles: &[(Role, &ContainerState)]) -> Option<Timestamp> {
    let running = roles.iter().find_map(|(role, container)| match (role, &container.standing) {
        (Role::Stage(stage) | Role::Check(stage), Standing::Running { .. }) => Some(*stage),
        _ => None,
    })?;
    roles.iter().find_map(|(role, container)| match &container.standing {
        Standing::Running { started } | Standing::Terminated { started, .. } => {
            (*role == Role::Stage(running)).then_some(*started).flatten()
        }
        Standing::Waiting { .. } => None,
    })
}

/// A pod stays `Pending` for Kubernetes while init containers run; for us it runs.
fn phase(slim: &SlimPod) -> ExecutorPhase {
    match slim.pod.phase {
        PodPhase::Succeeded => ExecutorPhase::Succeeded,
        PodPhase::Failed => ExecutorPhase::Failed,
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {
            let has_begun = slim
                .containers
                .iter()
                .any(|container| !matches!(container.standing, Standing::Waiting { .. }));
            if has_begun { ExecutorPhase::Running } else { ExecutorPhase::Pending }
        }
    }
}

/// Returns the stages whose step and, but for the interrupt, whose check ended with 0.
fn completed(group: Group, roles: &[(Role, &ContainerState)]) -> Vec<Stage> {
    let is_well = |wanted: Role| {
        roles.iter().any(|(role, container)| {
            *role == wanted
                && matches!(container.standing, Standing::Terminated { exit_code: 0, .. })
        })
    };
    let stages = roles.iter().filter_map(|(role, _)| match role {
        Role::Stage(stage) => Some(*stage),
        Role::Copy | Role::Check(_) | Role::Main => None,
    });
    stages
        .filter(|stage| is_well(Role::Stage(*stage)))
        .filter(|stage| group == Group::Interrupt || is_well(Role::Check(*stage)))
        .collect()
}

/// Returns why the container whose turn it is has not started.
fn waiting(
    phase: ExecutorPhase,
    roles: &[(Role, &ContainerState)],
    created: Timestamp,
) -> Option<Waiting> {
    match phase {
        ExecutorPhase::Pending | ExecutorPhase::Running => {}
        ExecutorPhase::Succeeded | ExecutorPhase::Failed => return None,
    }
    let mut since = created;
    let next = roles.iter().map(|(_, container)| container).find(|container| {
        let Standing::Terminated { exit_code: 0, finished, .. } = container.standing else {
            return true;
        };
        since = finished.map_or(since, |finished| since.max(finished));
        false
    })?;
    match &next.standing {
        // Between two init containers the kubelet says this for a moment.
        Standing::Waiting { reason, .. } if reason == "PodInitializing" => None,
        Standing::Waiting { reason, message } => Some(Waiting {
            reason: reason.clone(),
            message: bounded_message(message),
            image: next.image.clone(),
            since,
        }),
        Standing::Running { .. } | Standing::Terminated { .. } => None,
    }
}

/// Returns when the last container ended, by the kubelet; for a pod lost before any began, when
/// its conditions last changed, so that a back-off has a beginning.
fn finished(phase: ExecutorPhase, slim: &SlimPod) -> Option<Timestamp> {
    match phase {
        ExecutorPhase::Pending | ExecutorPhase::Running => return None,
        ExecutorPhase::Succeeded | ExecutorPhase::Failed => {}
    }
    let ended = slim.containers.iter().filter_map(|container| match &container.standing {
        Standing::Terminated { finished, .. } => *finished,
        Standing::Waiting { .. } | Standing::Running { .. } => None,
    });
    ended.max().or_else(|| {
        slim.conditions.iter().filter_map(|condition| condition.last_transition_time).max()
    })
}

/// Returns why a failed pod failed.
fn failure(slim: &SlimPod, roles: &[(Role, &ContainerState)]) -> Failure {
    let culprit = roles.iter().find_map(|(role, container)| match &container.standing {
        Standing::Terminated { exit_code, reason, message, .. } if *exit_code != 0 => {
            Some((*role, *exit_code, reason.as_str(), message.as_str()))
        }
        Standing::Terminated { .. } | Standing::Waiting { .. } | Standing::Running { .. } => None,
    });
    let disrupted = is_disrupted(slim, culprit.map(|(_, _, reason, _)| reason));
    let Some((role, exit_code, reason, message)) = culprit else {
        let (stage, in_check) = (None, false);
        let message = pod_words(slim);
        return Failure { stage, in_check, step: None, exit_code: None, message, disrupted };
    };
    let (stage, in_check) = match role {
        Role::Copy | Role::Main => (None, false),
        Role::Stage(stage) => (Some(stage), false),
        Role::Check(stage) => (Some(stage), true),
    };
    let told = AgentSummary::parse(message);
    let words = failure_words(slim, role, (exit_code, reason, message), told.as_ref());
    let (step, code) = match told {
        // The pod dies with the node it reboots: no step failed.
        Some(told) if stage == Some(Stage::Interrupt) && told.is_issued() => (None, exit_code),
        Some(AgentSummary { step, exit_code: Some(code), .. }) => (step, code),
        // The agent gave up by itself, so that no command was issued.
        Some(AgentSummary { step: None, .. }) if stage == Some(Stage::Interrupt) => {
            (Some(INTERRUPT_CONTAINER.to_owned()), exit_code)
        }
        Some(AgentSummary { step, .. }) => (step, exit_code),
        None => (None, exit_code),
    };
    Failure { stage, in_check, step, exit_code: Some(code), message: words, disrupted }
}

/// Returns what to tell people: what the pod says of itself, which explains what a container killed
/// from outside cannot, else the last output.
fn failure_words(
    slim: &SlimPod,
    role: Role,
    (exit_code, reason, message): (i32, &str, &str),
    told: Option<&AgentSummary>,
) -> String {
    if slim.reason.is_some() {
        return pod_words(slim);
    }
    let output = match told {
        Some(told) => told.tail.as_deref().unwrap_or_default(),
        None => message,
    };
    let words = match (told.and_then(|told| told.signal), output, role) {
        (Some(signal), "", _) => format!("ended by signal {signal}, no output"),
        (Some(signal), output, _) => format!("ended by signal {signal}: {output}"),
        (None, "", Role::Copy) => {
            format!("copying the package failed: {reason}, exit code {exit_code}")
        }
        (None, "", Role::Stage(_) | Role::Check(_) | Role::Main) => {
            format!("{reason}, exit code {exit_code}, no output")
        }
        (None, output, _) => output.to_owned(),
    };
    bounded_message(&words)
}

/// Returns the pod's own reason and message.
fn pod_words(slim: &SlimPod) -> String {
    let reason = slim.reason.as_deref().unwrap_or("Failed");
    match slim.message.as_deref() {
        Some(message) if !message.is_empty() => bounded_message(&format!("{reason}: {message}")),
        Some(_) | None => reason.to_owned(),
    }
}

/// Returns whether the pod was lost to something that is no fault of the package (design §6).
fn is_disrupted(slim: &SlimPod, container_reason: Option<&str>) -> bool {
    const POD_REASONS: [&str; 6] =
        ["Evicted", "NodeLost", "Preempting", "Preempted", "NodeShutdown", "Terminated"];
    let is_target = slim
        .conditions
        .iter()
        .any(|condition| condition.kind == "DisruptionTarget" && condition.status == "True");
    let by_reason = slim
        .reason
        .as_deref()
        .is_some_and(|reason| POD_REASONS.contains(&reason) || reason.starts_with("OutOf"));
    // The kubelet writes this word when it lost a container without seeing it end.
    is_target || by_reason || container_reason == Some("ContainerStatusUnknown")
}
