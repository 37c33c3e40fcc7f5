//! Images first: a node that is about to be cordoned gets them by a pod that disturbs nobody.
//!
//! In: the nodes that a batch would pick, and the pull pods that are there. Out: whether a node may
//! be picked, the pods to create, and why an image is not there. A tag that is missing, a platform
//! that the image has no build for, or a registry that is down costs no cordon and no eviction.
//! Must never: fail a batch. A node whose images cannot be pulled was not touched.
//!
//! A pull pod that cannot is left to its kubelet, which asks the registry again after 10 s, 20 s, …
//! and then every 5 minutes; so it also says since when the image is missing.

mod served;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::due;
use super::limits::{START_DEADLINE, after, back_off};
use super::select::Scope;
use super::wake;
use crate::model::{
    Action, Executor, ExecutorPhase, ExecutorSpec, Group, Node, OpenBatch, PULL_VISIT, Package,
    PackageId, Plan, Reason, Stage, Verdict, VisitRef, Work,
};

pub(crate) use served::{plan_cleanup, served_with};

/// How long an image may take to arrive: tens of gigabytes over a slow link. It only frees the
/// place in the batch; the kubelet goes on.
const ARRIVAL_DEADLINE: Duration = Duration::from_mins(30);

/// How long a success is believed: the kubelet removes images that nothing uses when a disk fills.
const SUCCESS_KEPT: Duration = Duration::from_hours(1);

/// Nodes of one architecture that may fail at an image nobody has pulled yet, before it is taken
/// for missing everywhere. One more may try every 5 minutes.
const FAILURES_MAX: u32 = 3;

/// The label that says which builds of an image a node can run.
const ARCHITECTURE: &str = "kubernetes.io/arch";

/// What stands between a node and its pick.
pub(crate) enum Gate {
    /// Nothing: its images are there, or nothing is disturbed without them.
    Open,
    /// Its images are on their way; it takes a place in the batch.
    Pulling {
        /// What is said of the node.
        verdict: Verdict,
        /// Pods to create, or to replace.
        actions: Vec<Action>,
        /// When time alone changes it.
        wake_at: Option<Timestamp>,
    },
    /// An image cannot be pulled; others may have its place.
    Failed {
        /// What is said of the node.
        verdict: Verdict,
        /// When time alone changes it.
        wake_at: Option<Timestamp>,
    },
}

impl Gate {
    /// Returns why the node cannot be picked, and plans to look again.
    pub(crate) fn failure(&self, plan: &mut Plan) -> Option<Verdict> {
        let Self::Failed { verdict, wake_at } = self else { return None };
        if let Some(at) = *wake_at {
            wake(plan, at);
        }
        Some(verdict.clone())
    }

    /// Returns what a node with a place in the batch still waits for, and plans what it needs.
    pub(crate) fn pulling(self, plan: &mut Plan) -> Option<Verdict> {
        let Self::Pulling { verdict, actions, wake_at } = self else { return None };
        if let Some(at) = wake_at.filter(|at| *at < Timestamp::MAX) {
            wake(plan, at);
        }
        plan.actions.extend(actions);
        Some(verdict)
    }
}

/// A package whose images a node must have, and the snapshot that it runs from.
struct Wanted<'a> {
    package: &'a Package,
    snapshot: String,
}

/// How far one package's images are on one node.
enum Arrival<'a> {
    /// No pod has been created for this snapshot.
    Missing,
    Pulling {
        since: Timestamp,
        until: Timestamp,
    },
    Here,
    /// It succeeded too long ago.
    Stale(&'a Executor),
    /// The pod was lost before it could pull; the next attempt may begin.
    Again {
        attempt: u32,
    },
    Failed {
        failure: Failure,
        until: Option<Timestamp>,
    },
}

#[derive(Clone)]
struct Failure {
    image: String,
    why: String,
    since: Timestamp,
}

/// The pull pods of one rollout.
pub(crate) struct Pulls<'s, 'a> {
    pub scope: &'s Scope<'a>,
    by_node: BTreeMap<&'a str, Vec<&'a Executor>>,
    /// Selected nodes that have any, oldest first.
    tried: Vec<&'a Node>,
    /// Snapshots of which a pull may have failed somewhere: mostly none has.
    suspects: BTreeSet<&'a str>,
}

impl<'s, 'a> Pulls<'s, 'a> {
    pub(crate) fn new(scope: &'s Scope<'a>) -> Self {
        let mut by_node: BTreeMap<&str, Vec<&Executor>> = BTreeMap::new();
        let mut suspects = BTreeSet::new();
        for executor in scope.input.observed.executors.values() {
            if executor.group == Group::Pull && executor.visit.rollout == scope.rollout.name {
                by_node.entry(&executor.visit.node).or_default().push(executor);
                let is_well = is_well(executor, scope.input.now);
                suspects.extend((!is_well).then_some(executor.snapshot.as_str()));
            }
        }
        let nodes = by_node.keys().filter_map(|name| scope.input.observed.nodes.get(*name));
        let selected = nodes.filter(|node| scope.rollout.selects(&node.labels));
        let mut tried: Vec<&Node> = selected.collect();
        tried.sort_by_key(|node| node.created);
        Self { scope, by_node, tried, suspects }
    }

    /// Returns what stands between the node and its pick into `batch`.
    pub(crate) fn gate(&self, node: &'a Node, batch: &OpenBatch) -> Gate {
        let wanted = self.wanted(node).into_iter();
        let arrivals: Vec<(Wanted<'_>, Arrival<'_>)> = wanted
            .map(|wanted| {
                let arrival = self.arrival(node, &wanted);
                (wanted, arrival)
            })
            .collect();
        for (wanted, arrival) in &arrivals {
            if let Arrival::Failed { failure, until } = arrival {
                let verdict = failed(wanted.package, &node.name, failure);
                return Gate::Failed { verdict, wake_at: *until };
            }
        }
        for (wanted, arrival) in &arrivals {
            if matches!(arrival, Arrival::Missing)
                && let Some((verdict, wake_at)) = self.failing_elsewhere(node, wanted, batch)
            {
                return Gate::Failed { verdict, wake_at };
            }
        }
        self.pulling(node, &arrivals)
    }

    fn pulling(&self, node: &Node, arrivals: &[(Wanted<'_>, Arrival<'_>)]) -> Gate {
        let mut actions = Vec::new();
        let mut first: Option<(&Package, Timestamp)> = None;
        let mut wake_at: Option<Timestamp> = None;
        for (wanted, arrival) in arrivals {
            let since = match arrival {
                Arrival::Here => continue,
                Arrival::Pulling { since, until } => {
                    wake_at = Some(wake_at.map_or(*until, |at| at.min(*until)));
                    *since
                }
                Arrival::Missing => {
                    actions.push(self.create(node, wanted, 1));
                    self.scope.input.now
                }
                Arrival::Again { attempt } => {
                    actions.push(self.create(node, wanted, *attempt));
                    self.scope.input.now
                }
                Arrival::Stale(executor) => {
                    actions.push(delete(executor));
                    self.scope.input.now
                }
                // Told before: it does not come this far.
                Arrival::Failed { failure, .. } => failure.since,
            };
            if first.is_none_or(|(_, known)| since < known) {
                first = Some((wanted.package, since));
            }
        }
        let Some((package, since)) = first else { return Gate::Open };
        let verdict = Verdict::wait(Reason::Pulling { package: package.id(), since });
        Gate::Pulling { verdict, actions, wake_at }
    }

    /// Returns whether none of these nodes can be picked for want of an image.
    pub(crate) fn all_fail(&self, nodes: &[&'a Node], batch: &OpenBatch) -> bool {
        !self.by_node.is_empty()
            && nodes.iter().all(|node| matches!(self.gate(node, batch), Gate::Failed { .. }))
    }

    /// Puts nodes whose images cannot be pulled behind those that have not been tried.
    pub(crate) fn failed_last(&self, nodes: Vec<&'a Node>) -> Vec<&'a Node> {
        if self.by_node.is_empty() {
            return nodes;
        }
        let is_failing = |node: &'a Node| {
            if !self.by_node.contains_key(node.name.as_str()) {
                return false;
            }
            let wanted = self.wanted(node);
            wanted.iter().any(|it| matches!(self.arrival(node, it), Arrival::Failed { .. }))
        };
        let (failing, others): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|node| is_failing(node));
        others.into_iter().chain(failing).collect()
    }

    /// Returns what must be there first: the images of all that a visit would run, once any of it
    /// interrupts, since the node is held while the others run as well. An uninstall runs what was
    /// installed.
    fn wanted(&self, node: &'a Node) -> Vec<Wanted<'a>> {
        let Scope { rollout, resource, .. } = self.scope;
        let needs = self.scope.needs(node);
        if needs.values().all(|need| need.interrupt.is_none()) {
            return Vec::new();
        }
        let mut all = Vec::new();
        for (name, need) in &needs {
            let wanted = rollout.packages.get(*name);
            let id = PackageId { name: (*name).to_owned(), version: need.version.to_owned() };
            let entry = self.scope.entries(node).get(&id);
            if need.stage == Stage::Uninstall
                && let Some(entry) = entry
                && let Some((package, snapshot)) =
                    due::uninstall_snapshot(self.scope, wanted, entry)
            {
                all.push(Wanted { package, snapshot });
            }
            let installs = !resource.deleting && need.stage != Stage::UninstallInterrupt;
            if let Some(package) = wanted.filter(|it| installs && !it.uninstall.apply) {
                let snapshot = self.scope.snapshot_name(package).to_owned();
                if all.iter().all(|known| known.snapshot != snapshot) {
                    all.push(Wanted { package, snapshot });
                }
            }
        }
        all
    }

    /// Returns the pull pods of a package on a node, the newest last.
    fn pods(&self, node: &Node, wanted: &Wanted<'_>) -> Vec<&'a Executor> {
        let here = self.by_node.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
        let ours = here.iter().filter(|executor| {
            executor.visit.node_uid == node.uid && executor.snapshot == wanted.snapshot
        });
        let mut ours: Vec<&Executor> = ours.copied().collect();
        ours.sort_by_key(|executor| executor.attempt);
        ours
    }

    fn arrival(&self, node: &Node, wanted: &Wanted<'_>) -> Arrival<'a> {
        let now = self.scope.input.now;
        let pods = self.pods(node, wanted);
        let Some(newest) = pods.last().copied() else { return Arrival::Missing };
        let since = pods.iter().map(|pod| pod.created).min().unwrap_or(newest.created);
        let created = newest.created;
        let fails = |image: &str, why: String, until| {
            let image =
                if image.is_empty() { wanted.package.image_reference() } else { image.to_owned() };
            Arrival::Failed { failure: Failure { image, why, since }, until }
        };
        if newest.terminating {
            return Arrival::Pulling { since, until: Timestamp::MAX };
        }
        match (&newest.phase, &newest.waiting) {
            (ExecutorPhase::Succeeded, _) => {
                let ended = newest.finished.unwrap_or(created);
                let fresh = now < after(ended, SUCCESS_KEPT);
                if fresh { Arrival::Here } else { Arrival::Stale(newest) }
            }
            (ExecutorPhase::Failed, _) => {
                let failures = i32::try_from(newest.attempt).unwrap_or(i32::MAX);
                let until = after(newest.finished.unwrap_or(created), back_off(failures));
                let told = newest.failure.as_ref().map(|failure| failure.message.as_str());
                let why = format!(
                    "its pod was lost: {}; tried again at {until:.0}",
                    told.unwrap_or("no reason was given")
                );
                if now < until {
                    fails("", why, Some(until))
                } else {
                    Arrival::Again { attempt: newest.attempt.saturating_add(1) }
                }
            }
            (ExecutorPhase::Pending | ExecutorPhase::Running, Some(waiting))
                if !waiting.is_being_created() =>
            {
                let why = format!("{}: {}", waiting.reason, waiting.message);
                fails(&waiting.image, why, None)
            }
            (ExecutorPhase::Pending | ExecutorPhase::Running, waiting) => {
                let untouched = waiting.is_none() && newest.phase == ExecutorPhase::Pending;
                let limit = if untouched { START_DEADLINE } else { ARRIVAL_DEADLINE };
                let until = after(created, limit);
                if now < until {
                    return Arrival::Pulling { since, until };
                }
                let why = if untouched {
                    "the kubelet has not started the pod: look at the kubelet".to_owned()
                } else {
                    let pod = &newest.reference;
                    format!("not there after 30 minutes, look at the events of pod {pod}")
                };
                fails(waiting.as_ref().map_or("", |waiting| &waiting.image), why, None)
            }
        }
    }

    /// Returns the failure of others that is taken for this node's: enough nodes of its kind cannot
    /// pull an image that none of them has. It keeps a wrong tag from leaving a pod on every node.
    fn failing_elsewhere(
        &self,
        node: &Node,
        wanted: &Wanted<'_>,
        batch: &OpenBatch,
    ) -> Option<(Verdict, Option<Timestamp>)> {
        if !self.suspects.contains(wanted.snapshot.as_str()) {
            return None;
        }
        let kind = node.labels.get(ARCHITECTURE);
        let is_alike = |other: &&Node| other.labels.get(ARCHITECTURE) == kind;
        let tried = self.tried.iter().copied().filter(is_alike);
        let failing: Vec<(&Node, Failure)> = tried
            .filter_map(|other| match self.arrival(other, wanted) {
                Arrival::Failed { failure, .. } => Some((other, failure)),
                Arrival::Missing
                | Arrival::Pulling { .. }
                | Arrival::Here
                | Arrival::Stale(_)
                | Arrival::Again { .. } => None,
            })
            .collect();
        let (first, failure) = failing.iter().min_by_key(|(_, failure)| failure.since)?;
        let waited = self.scope.input.now.duration_since(failure.since).as_secs();
        let period = i64::try_from(START_DEADLINE.as_secs()).unwrap_or(i64::MAX);
        let more = u32::try_from(waited / period).unwrap_or(0);
        let allowed = FAILURES_MAX.max(batch.size).saturating_add(more);
        if u32::try_from(failing.len()).unwrap_or(u32::MAX) < allowed {
            return None;
        }
        let Wanted { package, snapshot } = wanted;
        let is_proven = self.scope.nodes.iter().copied().filter(is_alike).any(|other| {
            let entry = self.scope.entries(other).get(&package.id());
            let visited = entry.is_some_and(|entry| entry.snapshot.as_ref() == Some(snapshot));
            visited || matches!(self.arrival(other, wanted), Arrival::Here)
        });
        let next = after(failure.since, START_DEADLINE.saturating_mul(more.saturating_add(1)));
        (!is_proven).then(|| (failed(package, &first.name, failure), Some(next)))
    }

    fn create(&self, node: &Node, wanted: &Wanted<'_>, attempt: u32) -> Action {
        let Scope { rollout, resource, .. } = self.scope;
        Action::CreateExecutor(ExecutorSpec {
            visit: VisitRef {
                rollout: rollout.name.clone(),
                node: node.name.clone(),
                node_uid: node.uid.clone(),
                visit: PULL_VISIT,
            },
            rollout_uid: resource.uid.clone(),
            generation: resource.generation,
            order: 0,
            attempt,
            snapshot: wanted.snapshot.clone(),
            work: Work::Pull { package: wanted.package.clone() },
            tolerations: rollout.tolerations.clone(),
        })
    }
}

/// Returns whether nothing can have gone wrong with a pull: it ended well, or has not had the time.
fn is_well(executor: &Executor, now: Timestamp) -> bool {
    let waits_well = executor.waiting.as_ref().is_none_or(|it| it.is_being_created());
    match executor.phase {
        ExecutorPhase::Succeeded => true,
        ExecutorPhase::Failed => false,
        ExecutorPhase::Pending | ExecutorPhase::Running => {
            waits_well && now < after(executor.created, START_DEADLINE.min(ARRIVAL_DEADLINE))
        }
    }
}

fn failed(package: &Package, node: &str, failure: &Failure) -> Verdict {
    let Failure { image, why, since } = failure.clone();
    let (package, node) = (package.id(), node.to_owned());
    Verdict::blocked(Reason::PullFailed { package, image, node, why, since })
}

fn delete(executor: &Executor) -> Action {
    Action::DeleteExecutor {
        rollout: executor.visit.rollout.clone(),
        node: executor.visit.node.clone(),
        pod: executor.reference.clone(),
    }
}
