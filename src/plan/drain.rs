//! What keeps an interrupting package from starting: protected pods, then the drain.
//!
//! The table of upstream contract B.6, first match wins. Pods are moved only off a node that was
//! read back as unschedulable, and a pod that is already going is waited for, not asked again.

mod blocked;
mod filter;

use jiff::Timestamp;

use super::count;
use super::limits::{EVICTION_RETRY, after};
use super::select::Scope;
use crate::model::{Action, Eviction, EvictionMethod, Node, Pod, Reason, Record, Refusal, Verdict};

pub(crate) use blocked::condition as blocked_condition;
use filter::{Treatment, is_lost, is_running, lost_at, treatment};

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

/// Returns the protected pods on a node: they must finish before anything is moved. One that is
/// bound and has not started counts too (upstream contract B.6).
pub(crate) fn protected_pods<'a>(scope: &Scope<'a>, node: &Node) -> Vec<&'a Pod> {
    let lost = |pod: &Pod| is_lost(pod, node, scope.input.now);
    pods_on(scope, node)
        .filter(|pod| is_running(pod) && !pod.executor && scope.rollout.protects(&pod.labels))
        .filter(|pod| !lost(pod))
        .collect()
}

/// Returns the protected pod that has run longest.
pub(crate) fn first_protected<'a>(scope: &Scope<'a>, node: &Node) -> Option<&'a Pod> {
    let protected = protected_pods(scope, node);
    protected.into_iter().min_by_key(|pod| (pod.since, pod.reference.clone()))
}

/// Returns whether pods must still finish or leave before an interrupting package may run.
pub(crate) fn drain(scope: &Scope<'_>, node: &Node, record: &Record) -> Drain {
    if let Some(first) = first_protected(scope, node) {
        let owner = first.controller.as_ref().map(|owner| format!("{} {}", owner.kind, owner.name));
        return wait(Verdict::wait(Reason::ProtectedPod {
            pods: count(protected_pods(scope, node).len()),
            first: first.reference.clone(),
            owner,
            since: first.since,
        }));
    }
    if !node.unschedulable {
        return wait(Verdict::wait(Reason::CordonNotSeen));
    }
    let (config, now) = (&scope.rollout.drain, scope.input.now);
    let mut leaving = Leaving::default();
    for pod in pods_on(scope, node).filter(|pod| !is_stuck_here(scope, node, pod)) {
        match treatment(pod, node, config, now) {
            Treatment::Ignore => {}
            Treatment::Await => leaving.going(pod, node),
            Treatment::Refuse(why) => leaving.refused.push((pod, why)),
            Treatment::Move(method) => leaving.movable.push((pod, method)),
        }
    }
    leaving.conclude(scope, node, record)
}

/// Returns whether a drain that took too long is tried again: what held it up has gone, whoever
/// moved it, or the time it may take was raised (failures A18).
pub(crate) fn may_try_again<'a>(scope: &Scope<'a>, node: &'a Node, record: &Record) -> bool {
    let start = scope.rollout_state(node).and_then(|state| state.drain_start);
    let has_time = match (scope.rollout.drain.timeout, start) {
        (None, _) => true,
        (Some(timeout), Some(start)) => after(start, timeout) > scope.input.now,
        (Some(_), None) => false,
    };
    has_time || matches!(drain(scope, node, record), Drain::Clear)
}

/// The pods that a node is not drained of.
#[derive(Default)]
struct Leaving<'a> {
    going: Vec<&'a Pod>,
    refused: Vec<(&'a Pod, &'static str)>,
    movable: Vec<(&'a Pod, EvictionMethod)>,
    wake_at: Option<Timestamp>,
}

impl<'a> Leaving<'a> {
    fn going(&mut self, pod: &'a Pod, node: &Node) {
        self.going.push(pod);
        if let Some(at) = lost_at(pod, node) {
            self.wake(at);
        }
    }

    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Asks for every pod that may be asked for now, and names the worst obstacle.
    ///
    /// A refused pod is asked again after [`EVICTION_RETRY`], each by itself: one that a budget
    /// holds does not slow down the others, here or on other nodes (failures A4, A5).
    fn conclude(mut self, scope: &Scope<'_>, node: &Node, record: &Record) -> Drain {
        let now = scope.input.now;
        let mut evictions = Vec::new();
        let mut held: Vec<(&Pod, &Refusal)> = Vec::new();
        for (pod, method) in std::mem::take(&mut self.movable) {
            let refusal = scope.input.observed.refusals.get(&pod.reference.uid);
            held.extend(refusal.map(|refusal| (pod, refusal)));
            match refusal.map(|refusal| after(refusal.at, EVICTION_RETRY)) {
                Some(again) if again > now => self.wake(again),
                Some(_) | None => evictions.push(eviction(scope, node, pod, method)),
            }
            self.going.push(pod);
        }
        let all = self.going.iter().copied().chain(self.refused.iter().map(|(pod, _)| *pod));
        let first = all.clone().map(|pod| &pod.reference).min();
        let Some(first) = first.cloned() else { return Drain::Clear };
        let draining = Reason::Draining { pods: count(all.count()), first, since: record.picked };
        let verdict = refused_verdict(&self.refused)
            .or_else(|| blocked::verdict(&held))
            .unwrap_or(Verdict::wait(draining));
        let wake_at = self.wake_at;
        Drain::Wait(Box::new(Waiting { verdict, evictions, wake_at, moving: true }))
    }
}

/// Returns whether it is the daemon's own pod, with no other node to start on: moved, nothing would
/// ever uncordon the node again (failures A22). It comes back with the node. Where there is another
/// node it is moved like any pod, so that the rollout goes on during the reboot.
fn is_stuck_here(scope: &Scope<'_>, node: &Node, pod: &Pod) -> bool {
    let own = scope.input.own_pod.as_ref() == Some(&pod.reference.to_string());
    let mut others = scope.input.observed.nodes.values().filter(|other| other.name != node.name);
    own && !others.any(|other| other.ready && !other.unschedulable && !other.deleting)
}

/// Returns the verdict on pods that `drainConfig` does not let go: the first, and how many more.
fn refused_verdict(refused: &[(&Pod, &'static str)]) -> Option<Verdict> {
    let (pod, why) = refused.iter().min_by_key(|(pod, _)| &pod.reference)?;
    let why = match refused.len() - 1 {
        0 => (*why).to_owned(),
        1 => format!("{why}; 1 more pod is held too"),
        more => format!("{why}; {more} more pods are held too"),
    };
    Some(Verdict::blocked(Reason::DrainRefused { pod: pod.reference.clone(), why }))
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
