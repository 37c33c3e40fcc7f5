//! What keeps an interrupting package from starting: protected pods, then the drain.
//!
//! The table of upstream contract B.6, first match wins. Pods are moved only off a node that was
//! read back as unschedulable, and a pod that is already going is waited for, not asked again.

use jiff::Timestamp;

use super::limits::{EVICTION_RETRY, after};
use super::select::Scope;
use crate::model::{
    Action, DrainConfig, Eviction, EvictionMethod, Node, Pod, PodPhase, Reason, Record, Verdict,
    VerdictKind,
};

/// The state of the drain of one node.
pub(crate) enum Drain {
    /// Nothing is in the way.
    Clear,
    /// Something is; these actions bring it forward.
    Wait(Box<Waiting>),
}

/// Why a drain is not finished, and what to do about it.
pub(crate) struct Waiting {
    pub verdict: Verdict,
    pub evictions: Vec<Action>,
    pub wake_at: Option<Timestamp>,
    /// Pods are being moved: what `drainConfig.timeout` bounds. False while protected pods run.
    pub moving: bool,
}

/// What the drain does with a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Treatment {
    Ignore,
    Await,
    Refuse(&'static str),
    Move(EvictionMethod),
}

/// Returns the protected pods on a node: they must finish before anything is moved.
pub(crate) fn protected_pods<'a>(scope: &Scope<'a>, node: &Node) -> Vec<&'a Pod> {
    pods_on(scope, node)
        .filter(|pod| is_running(pod) && !pod.executor && scope.rollout.protects(&pod.labels))
        .collect()
}

/// Returns whether pods must still finish or leave before an interrupting package may run.
pub(crate) fn drain(scope: &Scope<'_>, node: &Node, record: &Record) -> Drain {
    let protected = protected_pods(scope, node);
    if let Some(first) = protected.iter().min_by_key(|pod| (pod.since, pod.reference.clone())) {
        let owner = first.controller.as_ref().map(|owner| format!("{} {}", owner.kind, owner.name));
        return wait(Verdict::wait(Reason::ProtectedPod {
            pods: count(protected.len()),
            first: first.reference.clone(),
            owner,
            since: first.since,
        }));
    }
    if !node.unschedulable {
        return wait(Verdict::wait(Reason::CordonNotSeen));
    }
    let config = &scope.rollout.drain;
    let moving: Vec<(&Pod, Treatment)> = pods_on(scope, node)
        .map(|pod| (pod, treatment(pod, config)))
        .filter(|(_, treatment)| *treatment != Treatment::Ignore)
        .collect();
    if moving.is_empty() { Drain::Clear } else { moving_pods(scope, node, record, &moving) }
}

fn moving_pods(
    scope: &Scope<'_>,
    node: &Node,
    record: &Record,
    moving: &[(&Pod, Treatment)],
) -> Drain {
    let now = scope.input.now;
    let mut evictions = Vec::new();
    let mut wake_at: Option<Timestamp> = None;
    let mut refused: Option<(&Pod, &str)> = None;
    let mut held: Option<(&Pod, &str)> = None;
    for (pod, treatment) in moving {
        match treatment {
            Treatment::Ignore | Treatment::Await => {}
            Treatment::Refuse(why) => refused = refused.or(Some((pod, why))),
            Treatment::Move(method) => {
                let refusal = scope.input.observed.refusals.get(&pod.reference.uid);
                let again = refusal.map(|refusal| after(refusal.at, EVICTION_RETRY));
                if let Some(refusal) = refusal {
                    held = held.or(Some((pod, &refusal.message)));
                }
                match again {
                    Some(again) if again > now => {
                        wake_at = Some(wake_at.map_or(again, |earlier| earlier.min(again)));
                    }
                    Some(_) | None => evictions.push(eviction(scope, node, pod, *method)),
                }
            }
        }
    }
    let pods = count(moving.len());
    let reason = match (refused, held, moving.first()) {
        (Some((pod, why)), _, _) => {
            Reason::DrainRefused { pod: pod.reference.clone(), why: why.to_owned() }
        }
        (None, Some((pod, why)), _) => {
            Reason::DisruptionBudget { pods, pod: pod.reference.clone(), why: why.to_owned() }
        }
        (None, None, Some((first, _))) => {
            Reason::Draining { pods, first: first.reference.clone(), since: record.picked }
        }
        (None, None, None) => return Drain::Clear,
    };
    let kind = if refused.is_some() { VerdictKind::Blocked } else { VerdictKind::Wait };
    let verdict = Verdict { kind, reason };
    Drain::Wait(Box::new(Waiting { verdict, evictions, wake_at, moving: true }))
}

fn treatment(pod: &Pod, config: &DrainConfig) -> Treatment {
    let daemon_set =
        pod.controller.as_ref().is_some_and(|controller| controller.kind == "DaemonSet");
    if !is_running(pod)
        || pod.executor
        || pod.tolerates_unschedulable
        || (daemon_set && config.ignore_daemon_sets)
        || pod.reference.namespace == "kube-system"
        || pod.mirror
    {
        Treatment::Ignore
    } else if pod.terminating {
        Treatment::Await
    } else if pod.controller.is_none() && !config.force {
        Treatment::Refuse("it has no controller that would start it elsewhere (drainConfig.force)")
    } else if pod.empty_dir && !config.delete_empty_dir {
        Treatment::Refuse("its emptyDir would be lost (drainConfig.deleteEmptyDirData)")
    } else if config.disable_eviction {
        Treatment::Move(EvictionMethod::Delete)
    } else {
        Treatment::Move(EvictionMethod::Evict)
    }
}

fn eviction(scope: &Scope<'_>, node: &Node, pod: &Pod, method: EvictionMethod) -> Action {
    Action::Evict(Eviction {
        node: node.name.clone(),
        rollout: scope.rollout.name.clone(),
        pod: pod.reference.clone(),
        method,
        grace_period: scope.rollout.drain.grace_period,
    })
}

fn wait(verdict: Verdict) -> Drain {
    Drain::Wait(Box::new(Waiting { verdict, evictions: Vec::new(), wake_at: None, moving: false }))
}

fn pods_on<'a>(scope: &Scope<'a>, node: &Node) -> impl Iterator<Item = &'a Pod> {
    scope.input.observed.pods.get(&node.name).into_iter().flat_map(|pods| pods.values())
}

fn is_running(pod: &Pod) -> bool {
    matches!(pod.phase, PodPhase::Pending | PodPhase::Running | PodPhase::Unknown)
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
