//! A second opinion on every plan: it knows the invariants of design §11 and nothing of how the
//! planner reaches its decisions.
//!
//! A breach freezes the rollout it is in and is reported; it never ends the process.

mod approval;
mod ceilings;
mod first_use;
mod halted;
mod joiners;
mod leaving;
mod nodes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::model::{
    Action, CordonMark, Eviction, ExecutorSpec, Group, Input, InterruptKind, Node, NodePatch,
    Outcome, PULL_VISIT, Package, PatchKind, Phase, Plan, Pod, PodPhase, Reason, Record, Resource,
    Rollout, Stage, State, Verdict, Work,
};

/// What must hold of every plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// Never more nodes disturbed at once than the ceiling allows.
    Ceiling,
    /// No eviction, interrupt or interrupting package on a node that is not held by us.
    Held,
    /// No interrupt while a pod is there that must finish or leave.
    PodsGone,
    /// No stage before its predecessor, no package before those it depends on.
    Order,
    /// At most one executor per package, and one interrupt, on a node.
    OneExecutor,
    /// Exactly one reboot per interrupt: the boot ID before it is recorded first.
    OneReboot,
    /// Foreign cordons are never lifted.
    ForeignCordon,
    /// Taints of others are never touched.
    ForeignTaint,
    /// Nothing is begun on a node that another operator works on, or that a person holds.
    HandsOff,
    /// A stopped compartment picks no node, and nobody is picked without an open batch.
    OpenBatch,
    /// Order numbers are unique.
    OrderNumbers,
    /// One patch per node and tick, and no executor beside it.
    OnePatch,
    /// A package that is new to the cluster begins on as few nodes as the floor says.
    FirstUse,
    /// While everything is stopped, nothing new is disturbed.
    Halted,
    /// Nobody is picked for a selector that is too broad and that nobody approved.
    Approved,
    /// A resource leaves no node behind: held, worked on, or without being asked.
    Leaving,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ceiling => "more nodes would be disturbed than the ceiling allows",
            Self::Held => "work that interrupts needs a node that is cordoned and held",
            Self::PodsGone => "pods must finish or leave before an interrupt",
            Self::Order => "a stage or package would run before its predecessor",
            Self::OneExecutor => "two executors would work on one package",
            Self::OneReboot => "an interrupt would be issued that is not recorded",
            Self::ForeignCordon => "a cordon that is not ours would be lifted",
            Self::ForeignTaint => "a taint that is not ours would be changed",
            Self::HandsOff => "work would begin on a node that somebody else works on",
            Self::OpenBatch => "a node would be picked without an open batch",
            Self::OrderNumbers => "an order number would be used twice",
            Self::OnePatch => "a node would be changed twice in one tick",
            Self::FirstUse => "a package new to the cluster would begin on too many nodes",
            Self::Halted => "something would be disturbed while everything is stopped",
            Self::Approved => "a node would be picked by a selector that waits for approval",
            Self::Leaving => "a resource would leave a node behind",
        })
    }
}

/// An invariant that a plan breaks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breach {
    /// The rollout whose action breaks it.
    pub rollout: String,
    /// Which.
    pub invariant: Invariant,
    /// Where and how.
    pub detail: String,
}

/// Returns every invariant that the plan breaks.
pub fn audit(input: &Input, plan: &Plan) -> Vec<Breach> {
    let mut audit = Audit { input, breaches: BTreeSet::new() };
    let mut picks: BTreeMap<&str, Picks> = BTreeMap::new();
    let mut picked: Vec<&str> = Vec::new();
    let mut patched: BTreeSet<&str> = BTreeSet::new();
    for action in &plan.actions {
        match action {
            Action::PatchNode(patch) => {
                audit.patch(patch);
                if !patched.insert(&patch.node) {
                    audit.breach(&patch.rollout, Invariant::OnePatch, &patch.node);
                }
                if is_pick(audit.input, patch) {
                    audit.pick_under_finalizer(patch);
                    audit.hands_off(&patch.rollout, &patch.node);
                    let earlier = || Picks { earlier: picked.clone(), own: Vec::new() };
                    picks.entry(&patch.rollout).or_insert_with(earlier).own.push(patch);
                    picked.push(&patch.node);
                }
            }
            Action::Evict(eviction) => {
                audit.eviction(eviction);
                audit.hands_off(&eviction.rollout, &eviction.node);
            }
            Action::CreateExecutor(executor) => {
                audit.executor(executor);
                audit.hands_off(&executor.visit.rollout, &executor.visit.node);
            }
            Action::SetFinalizer(write) => audit.finalizer(write),
            Action::CleanNode(cleaning) => audit.cleaning(cleaning),
            Action::PatchTaints(patch) => {
                audit.taints(patch);
                if !patched.insert(&patch.node) {
                    audit.breach(&patch.rollout, Invariant::OnePatch, &patch.node);
                }
            }
            Action::CreateSnapshot(_)
            | Action::DeleteSnapshot(_)
            | Action::WriteStatus(_)
            | Action::WriteNodeMetadata(_)
            | Action::DeleteExecutors { .. }
            | Action::DeleteUpstreamWork { .. }
            | Action::DeleteExecutor { .. } => {}
        }
    }
    for (rollout, picks) in picks {
        audit.picks(rollout, &picks);
    }
    audit.halted(plan);
    audit.one_executor_each(plan);
    audit.no_executor_beside_a_patch(plan, &patched);
    audit.breaches.into_iter().collect()
}

/// Takes every action of a rollout that breaks an invariant out of the plan and says why.
pub fn freeze(plan: &mut Plan, breaches: &[Breach]) {
    for breach in breaches {
        plan.actions.retain(|action| rollout_of(action) != breach.rollout);
        let frozen = Verdict::blocked(Reason::Frozen {
            invariant: format!("{}: {}", breach.invariant, breach.detail),
        });
        for verdict in plan.verdicts.entry(breach.rollout.clone()).or_default().values_mut() {
            *verdict = frozen.clone();
        }
    }
}

fn rollout_of(action: &Action) -> &str {
    match action {
        Action::CreateSnapshot(snapshot) => &snapshot.rollout,
        Action::DeleteSnapshot(snapshot) => &snapshot.rollout,
        Action::WriteStatus(write) => &write.rollout,
        Action::WriteNodeMetadata(metadata) => &metadata.rollout,
        Action::PatchNode(patch) => &patch.rollout,
        Action::Evict(eviction) => &eviction.rollout,
        Action::CreateExecutor(executor) => &executor.visit.rollout,
        Action::DeleteExecutors { rollout, .. } => rollout,
        Action::PatchTaints(patch) => &patch.rollout,
        Action::SetFinalizer(write) => &write.rollout,
        Action::CleanNode(cleaning) => &cleaning.rollout,
        Action::DeleteUpstreamWork { rollout, .. } => rollout,
        Action::DeleteExecutor { rollout, .. } => rollout,
    }
}

/// A pick begins a visit that the node's record does not know yet.
fn is_pick(input: &Input, patch: &NodePatch) -> bool {
    let Some(record) = &patch.record else { return false };
    let known = input
        .observed
        .nodes
        .get(&patch.node)
        .and_then(|node| node.record(&patch.rollout, &record.cr_uid));
    matches!(patch.kind, PatchKind::Pick { .. })
        && known.is_none_or(|known| known.visit != record.visit)
}

/// What one rollout picks.
struct Picks<'p> {
    /// Nodes that rollouts before it pick in the same plan.
    earlier: Vec<&'p str>,
    own: Vec<&'p NodePatch>,
}

struct Audit<'a> {
    input: &'a Input,
    breaches: BTreeSet<Breach>,
}

impl<'a> Audit<'a> {
    fn breach(&mut self, rollout: &str, invariant: Invariant, detail: &str) {
        let (rollout, detail) = (rollout.to_owned(), detail.to_owned());
        self.breaches.insert(Breach { rollout, invariant, detail });
    }

    fn live(&self, rollout: &str) -> Option<(&'a Rollout, &'a Resource)> {
        let wanted = self.input.desired.rollouts.get(rollout)?;
        Some((wanted, self.input.observed.resources.get(rollout)?))
    }

    fn open_record(&self, rollout: &str, node: &'a Node) -> Option<&'a Record> {
        let resource = self.input.observed.resources.get(rollout)?;
        node.record(rollout, &resource.uid).filter(|record| record.is_open())
    }

    /// Never lifts a cordon that has another owner; records the boot ID with an interrupt.
    fn patch(&mut self, patch: &NodePatch) {
        let Some(node) = self.input.observed.nodes.get(&patch.node) else { return };
        let others = node.cordons.iter().any(|mark| match mark {
            CordonMark::Rollout(name) => *name != patch.rollout,
            CordonMark::RuntimeRequired => true,
        });
        let others = others || !node.claims.is_empty() || node.hold.is_some();
        let ours = node.is_cordoned_by(&patch.rollout);
        if patch.unschedulable == Some(false) && (others || !ours) {
            self.breach(&patch.rollout, Invariant::ForeignCordon, &patch.node);
        }
        let Some(record) = &patch.record else { return };
        let begins = record.phase == Phase::Interrupting;
        if begins && record.boot_before.as_ref() != Some(&node.boot_id) {
            let begun = self
                .open_record(&patch.rollout, node)
                .is_some_and(|known| known.phase == Phase::Interrupting);
            if !begun {
                self.breach(&patch.rollout, Invariant::OneReboot, &patch.node);
            }
        }
        let releases = matches!(record.outcome, Some(Outcome::Complete | Outcome::Released));
        if releases && ours && patch.cordon_mark != Some(false) {
            self.breach(&patch.rollout, Invariant::Held, "a released node would stay cordoned");
        }
    }

    /// Counts who would be disturbed after these picks, and looks at batch and order numbers.
    fn picks(&mut self, rollout: &str, picks: &Picks<'_>) {
        let Some((wanted, resource)) = self.live(rollout) else {
            self.breach(rollout, Invariant::OpenBatch, "the resource is gone");
            return;
        };
        let memory = resource.status.as_ref().map(|status| &status.memory);
        let compartments = memory.into_iter().flat_map(|memory| memory.compartments.iter());
        let mut open = BTreeMap::new();
        for (name, compartment) in compartments {
            if let Some(batch) = &compartment.open_batch
                && memory.is_some_and(|memory| joiners::may_fill(memory, compartment))
            {
                open.insert((name.as_str(), batch.number), batch);
            }
        }
        let selected = self.input.observed.nodes.values();
        let selected: Vec<&Node> = selected.filter(|node| wanted.selects(&node.labels)).collect();
        let mut orders: BTreeSet<(String, u32)> = BTreeSet::new();
        for node in &selected {
            if let Some(record) = node.record(rollout, &resource.uid) {
                orders.insert((record.target.clone(), record.order));
            }
        }
        for patch in &picks.own {
            let Some(record) = &patch.record else { continue };
            let place = (record.compartment.as_str(), record.batch);
            let batch = open.get(&place).filter(|batch| {
                let orders = batch.order_from..batch.order_from.saturating_add(batch.size);
                batch.target == record.target && orders.contains(&record.order)
            });
            if batch.is_none() {
                self.breach(rollout, Invariant::OpenBatch, &patch.node);
            }
            if !orders.insert((record.target.clone(), record.order)) {
                self.breach(rollout, Invariant::OrderNumbers, &patch.node);
            }
            self.joins(memory, patch);
        }
        self.ceilings((wanted, resource), &selected, picks);
        self.first_use((wanted, resource), picks);
        self.approved((wanted, resource));
    }

    fn eviction(&mut self, eviction: &Eviction) {
        let node = self.input.observed.nodes.get(&eviction.node);
        let held = node.is_some_and(|node| {
            let record = self.open_record(&eviction.rollout, node);
            node.unschedulable && record.is_some_and(|record| record.held)
        });
        if !held {
            self.breach(&eviction.rollout, Invariant::Held, &eviction.pod.to_string());
        }
        let protected = self.input.desired.rollouts.get(&eviction.rollout).zip(node).is_some_and(
            |(rollout, node)| self.pods_on(node).any(|pod| is_protected(rollout, pod)),
        );
        if protected {
            self.breach(&eviction.rollout, Invariant::PodsGone, &eviction.pod.to_string());
        }
    }

    /// Everything that must be on record before an executor exists (design §4 rules 4 and 5).
    fn executor(&mut self, spec: &ExecutorSpec) {
        if spec.work.group() == Group::Pull {
            self.pull(spec);
            return;
        }
        let rollout = spec.visit.rollout.as_str();
        let detail = format!("{} on {}", spec.work.package_id(), spec.visit.node);
        let node = self.input.observed.nodes.get(&spec.visit.node);
        let Some((node, record)) =
            node.and_then(|node| Some((node, self.open_record(rollout, node)?)))
        else {
            self.breach(rollout, Invariant::Order, &detail);
            return;
        };
        let Some((wanted, _)) = self.live(rollout) else { return };
        let package = spec.work.package();
        if !is_recorded(node, rollout, record, spec) {
            self.breach(rollout, Invariant::Order, &detail);
        }
        let active = self
            .input
            .observed
            .executors
            .values()
            .filter(|executor| executor.is_active() && executor.visit.node == spec.visit.node)
            .filter(|executor| executor.group != Group::Pull);
        let interrupt = spec.work.group() == Group::Interrupt;
        let same = |name: &str| name == package.name;
        if active.clone().any(|executor| {
            interrupt || (executor.visit.rollout == rollout && same(&executor.package.name))
        }) {
            self.breach(rollout, Invariant::OneExecutor, &detail);
        }
        if interrupt || record.interrupts_due.contains_key(&package.name) {
            if !(record.held && node.unschedulable) {
                self.breach(rollout, Invariant::Held, &detail);
            }
            if self.pods_on(node).any(|pod| must_go(wanted, pod) && !self.may_stay(node, pod)) {
                self.breach(rollout, Invariant::PodsGone, &detail);
            }
        }
        if spec.work.group() == Group::Install && !dependencies_met(wanted, node, package) {
            self.breach(rollout, Invariant::Order, &detail);
        }
        let Work::Interrupt { interrupt, .. } = &spec.work else { return };
        let recorded = record.interrupt.as_ref().is_some_and(|begun| begun.kind == interrupt.kind);
        let same_boot = record.boot_before.as_ref() == Some(&node.boot_id);
        let reboot = interrupt.kind == InterruptKind::Reboot;
        if !recorded || (reboot && !same_boot) {
            self.breach(rollout, Invariant::OneReboot, &detail);
        }
    }

    /// A pod that no kubelet will ever say is gone, or our own, which nobody could start elsewhere.
    fn may_stay(&self, node: &Node, pod: &Pod) -> bool {
        let unreachable = |taint: &crate::model::Taint| taint.key.ends_with("/unreachable");
        let over = pod.deletes_at.is_some_and(|at| at < self.input.now);
        let lost = pod.terminating && over && node.taints.iter().any(unreachable);
        let mut nodes = self.input.observed.nodes.values();
        let elsewhere = nodes.any(|it| it.name != node.name && it.ready && !it.unschedulable);
        let own = self.input.own_pod.as_deref() == Some(pod.reference.to_string().as_str());
        lost || (own && !elsewhere)
    }

    /// A pull touches nothing, but it is for a node that may be picked into an open batch.
    fn pull(&mut self, spec: &ExecutorSpec) {
        let rollout = spec.visit.rollout.as_str();
        let memory = self.live(rollout).and_then(|(_, resource)| resource.status.as_ref());
        let is_open = memory.is_some_and(|status| {
            let mut compartments = status.memory.compartments.values();
            compartments.any(|it| joiners::may_fill(&status.memory, it))
        });
        let node = self.input.observed.nodes.get(&spec.visit.node);
        let visited = node.is_some_and(|node| self.open_record(rollout, node).is_some());
        if !is_open || visited || spec.visit.visit != PULL_VISIT {
            self.breach(rollout, Invariant::OpenBatch, &spec.visit.node);
        }
    }

    fn one_executor_each(&mut self, plan: &Plan) {
        let mut seen = BTreeSet::new();
        for action in &plan.actions {
            let Action::CreateExecutor(spec) = action else { continue };
            // Of one package the image to uninstall with and the wanted one are pulled at once.
            let pulled = Some(&spec.snapshot).filter(|_| spec.work.group() == Group::Pull);
            let key = (&spec.visit, spec.work.package().name.as_str(), pulled);
            if !seen.insert(key) {
                let detail = spec.visit.node.clone();
                self.breach(&spec.visit.rollout, Invariant::OneExecutor, &detail);
            }
        }
    }

    /// An executor starts from what was read back, never from what is being written. A pull
    /// belongs to no visit and touches nothing.
    fn no_executor_beside_a_patch(&mut self, plan: &Plan, patched: &BTreeSet<&str>) {
        for action in &plan.actions {
            let Action::CreateExecutor(spec) = action else { continue };
            if spec.work.group() != Group::Pull && patched.contains(spec.visit.node.as_str()) {
                let detail = spec.visit.node.clone();
                self.breach(&spec.visit.rollout, Invariant::OnePatch, &detail);
            }
        }
    }

    fn pods_on(&self, node: &Node) -> impl Iterator<Item = &'a Pod> {
        let pods = self.input.observed.pods.get(&node.name);
        pods.into_iter().flat_map(|pods| pods.values())
    }
}

/// The node's record says that the stage of this executor is in progress.
fn is_recorded(node: &Node, rollout: &str, record: &Record, spec: &ExecutorSpec) -> bool {
    let entry = node.entries(rollout).get(&spec.work.package_id());
    let at = |stages: &[Stage]| {
        entry.is_some_and(|entry| {
            stages.contains(&entry.stage)
                && matches!(entry.state, State::InProgress | State::Erroring)
        })
    };
    record.visit == spec.visit.visit
        && match &spec.work {
            Work::Pull { .. } => false,
            Work::Uninstall { .. } => at(&[Stage::Uninstall]),
            Work::Install { stages, .. } => stages.first().is_some_and(|first| at(&[*first])),
            Work::Interrupt { .. } => {
                record.phase == Phase::Interrupting
                    && at(&[Stage::Interrupt, Stage::UninstallInterrupt])
            }
            Work::Verify { .. } => at(&[Stage::PostInterrupt]),
        }
}

/// By what the manifest says now: a package that goes on after an interrupt does so with its own
/// snapshot, which may name a version that is wanted no more.
fn dependencies_met(rollout: &Rollout, node: &Node, package: &Package) -> bool {
    let wanted = rollout.package(&package.id());
    wanted.unwrap_or(package).depends_on.iter().all(|(name, version)| {
        node.entries(&rollout.name).values().any(|entry| {
            let ended = matches!(entry.stage, Stage::Config | Stage::PostInterrupt);
            entry.name == *name
                && entry.version == *version
                && ended
                && entry.state == State::Complete
        })
    })
}

fn is_protected(rollout: &Rollout, pod: &Pod) -> bool {
    let ended = matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
    !ended && !pod.executor && rollout.protects(&pod.labels)
}

fn must_go(rollout: &Rollout, pod: &Pod) -> bool {
    let owned_by = |kind: &str| pod.controller.as_ref().is_some_and(|owner| owner.kind == kind);
    let ended = matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
    let stays = pod.executor
        || pod.tolerates_unschedulable
        || pod.mirror
        || owned_by("Node")
        || pod.reference.namespace == "kube-system"
        || (owned_by("DaemonSet") && rollout.drain.ignore_daemon_sets);
    is_protected(rollout, pod) || (!ended && !stays)
}
