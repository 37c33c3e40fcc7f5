//! What each event does to the world: one small function each.

use std::collections::BTreeMap;

use fastrand::Rng;
use nodewright::model::{
    AtRelease, Claim, Controller, DisruptionBudget, NodeRollout, Opening, PodPhase, PodRef, Reason,
    RefusalCause, Resource, Rollout, Shared, Taint, TaintEffect,
};
use nodewright::plan::world::{End, Fate, World};

use super::super::builders::pod;
use super::event::{Edit, Event, Hand, PodKind};
use super::fleet::{self, ROLLOUTS};
use super::paces::Happened;
use super::story::{Broken, Story};
use super::{people, policies};

/// Ticks without a change from outside after which the planner must have come to rest.
const REST_TICKS_MAX: usize = 40;

impl Story {
    /// Lets one event happen.
    pub fn happen(&mut self, event: Event) -> Result<(), Broken> {
        let world = &mut self.world;
        match event {
            Event::Tick { faults } => return self.tick(faults),
            Event::Rest => return self.rest(),
            Event::Thaw => return self.thaw(),
            Event::FallBehind => world.fall_behind(),
            Event::CatchUp => world.catch_up(),
            Event::Pass { seconds } => world.pass(seconds.into()),
            Event::End { which, end } => {
                let active = world.active();
                if let Some(name) = nth(&active, which.into()) {
                    world.end(name, end);
                }
            }
            Event::FailAgain { which } => fail_again(world, which),
            Event::Stall { which, reason } => stall(world, which, reason),
            Event::Delete { rollout } => {
                let name = name_of(rollout);
                self.deleted.extend(self.world.input.desired.rollouts.get(name).cloned());
                self.world.delete_rollout(name);
            }
            Event::Create { rollout } => self.create(name_of(rollout)),
            Event::Edit { rollout, edit } => self.edited(name_of(rollout), edit),
            Event::Open { rollout, open, why } => opened(world, name_of(rollout), open, why),
            Event::Approve { rollout, approved } => {
                people::approve(world, name_of(rollout), approved);
            }
            Event::Halt { halted } => halt(world, halted),
            Event::Fight { which } => fight(world, which),
            Event::Reject { rejecting } => world.rejecting = rejecting,
            Event::Pause { rollout, paused } => {
                change_resource(world, rollout, |resource| resource.paused = paused);
            }
            Event::Disable { rollout, disabled } => {
                change_resource(world, rollout, |resource| resource.disabled = disabled);
            }
            Event::Join { pool } => self.join(pool),
            Event::Finish { which } => finish(world, which),
            Event::Unguard => {
                world.guarded.pop_first();
            }
            Event::Reboot { node }
            | Event::GoDown { node }
            | Event::ComeBack { node }
            | Event::Ready { node, .. }
            | Event::Cordon { node }
            | Event::Uncordon { node, .. }
            | Event::Claim { node, .. }
            | Event::Hold { node, .. }
            | Event::Reset { node, .. }
            | Event::ResetAll { node, .. }
            | Event::Leave { node }
            | Event::Replace { node }
            | Event::Relabel { node }
            | Event::Ignore { node, .. }
            | Event::Taint { node, .. }
            | Event::Deleting { node }
            | Event::Spoil { node, .. }
            | Event::Gpus { node, .. }
            | Event::NewHost { node }
            | Event::Arrive { node, .. } => {
                let names: Vec<&String> = world.input.observed.nodes.keys().collect();
                if let Some(name) = nth(&names, node.into()) {
                    let name = (*name).clone();
                    self.on_node(&name, event);
                }
            }
            _ => return self.with_policies(event),
        }
        Ok(())
    }

    fn with_policies(&mut self, event: Event) -> Result<(), Broken> {
        let world = &mut self.world;
        match event {
            Event::Policy { which, change } => policies::change(world, which, change),
            Event::Move { which, to, at_work } => self.move_node(which, to, at_work),
            Event::ResetBatches { which, stopped } => self.reset_batches(which, stopped),
            Event::Retry { which } => self.retry(which),
            Event::Correct { which, to } => {
                if let Some(name) = nth(&policies::begun(world, true), which.into()).cloned() {
                    self.edited(&name, Edit::Version { which, to });
                }
            }
            Event::ResetOption { rollout, to } => {
                if let Some(wanted) = world.input.desired.rollouts.get_mut(name_of(rollout)) {
                    wanted.reset_batches = [None, Some(true), Some(false)][usize::from(to % 3)];
                }
            }
            Event::Ruin { which, whole } => return self.ruin(which, whole),
            Event::GoOn { rounds } => return self.go_on(rounds),
            _ => {}
        }
        Ok(())
    }

    fn on_node(&mut self, name: &str, event: Event) {
        let world = &mut self.world;
        match event {
            Event::Reboot { .. } => world.reboot(name),
            Event::GoDown { .. } => world.go_down(name),
            Event::ComeBack { .. } => world.come_back(name),
            Event::Ready { ready, .. } => world.set_ready(name, ready),
            Event::Cordon { .. } => world.cordon(name, "kubectl"),
            Event::Uncordon { by: Hand::Person, .. } => world.uncordon(name, "kubectl"),
            Event::Uncordon { by: Hand::Controller, .. } => world.uncordon(name, "autoscaler"),
            Event::Claim { claimed, .. } => world.change_node(name, |node| {
                node.claims.clear();
                if claimed {
                    let (by, mark) = ("GPU Operator".to_owned(), "drain-required".to_owned());
                    node.claims.push(Claim { by, mark, at_release: AtRelease::Waits });
                }
            }),
            Event::Hold { held, .. } => world.change_node(name, |node| {
                node.hold = held.then(|| "looking at it".to_owned());
            }),
            Event::Reset { which, .. } => people::reset(world, &mut self.ledger, name, which),
            Event::ResetAll { rollout, .. } if rollout < 128 && people::is_lost(world, name) => {
                people::forget(world, &mut self.ledger, name);
            }
            Event::ResetAll { rollout, .. } => {
                // A person is not as fast as two picks: visits are told apart by the second.
                world.pass(1);
                let ledger = &mut self.ledger;
                world.change_node(name, |node| {
                    node.rollouts.remove(name_of(rollout));
                    ledger.forget_configuration(&node.uid, name_of(rollout));
                });
            }
            Event::Leave { .. } if world.input.observed.nodes.len() > 4 => world.remove_node(name),
            Event::Replace { .. } => world.replace_node(name),
            Event::Relabel { .. } => world.change_node(name, |node| {
                let other = if node.labels["pool"] == "gpu" { "cpu" } else { "gpu" };
                node.labels.insert("pool".to_owned(), other.to_owned());
            }),
            Event::Ignore { ignored, .. } => {
                world.change_node(name, |node| node.ignored = ignored);
            }
            Event::Taint { tainted, .. } => world.change_node(name, |node| {
                node.taints.retain(|taint| taint.key != "dedicated");
                if tainted {
                    let (key, value) = ("dedicated".to_owned(), "storage".to_owned());
                    node.taints.push(Taint { key, value, effect: TaintEffect::NoSchedule });
                }
            }),
            Event::Deleting { .. } => world.change_node(name, |node| node.deleting = true),
            Event::Spoil { rollout, spoilt, .. } => spoil(world, name, name_of(rollout), spoilt),
            Event::Gpus { offered, .. } => world.change_node(name, |node| {
                node.gpus = offered.then_some(fleet::GPUS);
            }),
            Event::NewHost { .. } => new_host(world, name),
            Event::Arrive { kind, .. } => self.arrive(name, kind),
            _ => {}
        }
    }

    fn tick(&mut self, faults: u32) -> Result<(), Broken> {
        let mut rng = Rng::with_seed(faults.into());
        self.tick_with(|_, _| match (faults, rng.u32(0..24)) {
            (0, _) => Fate::Done,
            (_, 0 | 1) => Fate::Refused,
            (_, 2) => Fate::Crash,
            (_, 3) => Fate::Lost,
            (_, 4) => Fate::Freeze,
            _ => Fate::Done,
        })
        .map(|_| ())
    }

    fn rest(&mut self) -> Result<(), Broken> {
        self.world.catch_up();
        for _ in 0..REST_TICKS_MAX {
            if self.tick_with(|_, _| Fate::Done)? == 0 {
                return self.check_rest();
            }
        }
        let detail = format!("still acts after {REST_TICKS_MAX} ticks: {:?}", self.last);
        Err(Broken::new("comes to rest", detail))
    }

    fn edited(&mut self, name: &str, edit: Edit) {
        let (world, paced) = (&mut self.world, self.paced);
        let live = world.input.observed.resources.get(name).is_some_and(|found| !found.deleting);
        let Some(before) = world.input.desired.rollouts.get(name).filter(|_| live) else { return };
        let mut after: Rollout = before.clone();
        fleet::edit(&mut after, edit);
        if let (true, Edit::Policy { to }) = (paced, edit) {
            after.policy = (to < 200).then(|| policies::named(to));
        }
        if after == *before {
            return;
        }
        if after.policy.is_some() {
            after.budget = None;
        }
        if after.policy.is_some() && !paced {
            let policy = fleet::policy();
            if matches!(edit, Edit::Policy { to } if to % 2 == 0) {
                world.input.desired.policies.insert(policy.name.clone(), policy);
            } else {
                world.input.desired.policies.clear();
            }
        }
        world.set_rollout(after);
    }

    fn reset_batches(&mut self, which: u8, stopped: bool) {
        let begun = policies::begun(&self.world, stopped);
        let Some(name) = nth(&begun, which.into()) else { return };
        let happened = if stopped { Happened::ResetStopByHand } else { Happened::ResetByHand };
        self.coverage.paces.insert(happened);
        policies::reset_batches(&mut self.world, name);
    }

    fn retry(&mut self, which: u8) {
        let failed = policies::failed(&self.world);
        let Some((node, rollout)) = nth(&failed, which.into()) else { return };
        if which < 128 && people::is_lost(&self.world, node) {
            people::forget(&mut self.world, &mut self.ledger, node);
            return;
        }
        if policies::begun(&self.world, true).contains(rollout) {
            self.coverage.paces.insert(Happened::RetriedWhileStopped);
        }
        policies::retry(&mut self.world, &mut self.ledger, node, rollout);
    }

    fn create(&mut self, name: &str) {
        let there = self.world.input.observed.resources.contains_key(name);
        let last = self.deleted.iter().rfind(|rollout| rollout.name == name);
        if let Some(rollout) = last.filter(|_| !there).cloned() {
            self.world.set_rollout(rollout);
        }
    }

    fn join(&mut self, gpu: bool) {
        if self.world.input.observed.nodes.len() >= 14 {
            return;
        }
        self.serial += 1;
        let pool = if gpu { "gpu" } else { "cpu" };
        let name = format!("node-{}", 50 + self.serial);
        self.world.add_node(&name, &[("pool", pool)]);
        if self.paced {
            let rack = u8::try_from(self.serial % 6).unwrap_or(0);
            self.world.change_node(&name, |node| policies::rerack(&mut node.labels, rack));
        }
    }

    /// A pod starts where the scheduler would put one: not on a cordoned node, unless it tolerates
    /// that.
    fn arrive(&mut self, node: &str, kind: PodKind) {
        let tolerates = matches!(kind, PodKind::DaemonSet | PodKind::Mirror | PodKind::Tolerating);
        let target = &self.world.input.observed.nodes[node];
        if !target.ready || (target.unschedulable && !tolerates) {
            return;
        }
        self.serial += 1;
        let labels: &[(&str, &str)] =
            if kind == PodKind::Training { &[("workload", "training")] } else { &[] };
        let mut pod = pod(node, &format!("pod-{}", self.serial), labels);
        pod.since = self.world.input.now;
        match kind {
            PodKind::Web | PodKind::Training => {}
            PodKind::Guarded | PodKind::Hopeless | PodKind::Doubled | PodKind::Unready => {
                let uid = pod.reference.uid.clone();
                self.world.guarded.insert(uid.clone());
                self.world.causes.extend(cause(kind).map(|cause| (uid, cause)));
                pod.ready = kind != PodKind::Unready;
            }
            PodKind::Unmanaged => pod.controller = None,
            PodKind::EmptyDir => pod.empty_dir = true,
            PodKind::DaemonSet => {
                let (kind, name) = ("DaemonSet".to_owned(), "logs".to_owned());
                pod.controller = Some(Controller { kind, name });
                pod.tolerates_unschedulable = true;
            }
            PodKind::Mirror => pod.mirror = true,
            PodKind::Tolerating => pod.tolerates_unschedulable = true,
            PodKind::Completed => pod.phase = PodPhase::Succeeded,
            PodKind::System => "kube-system".clone_into(&mut pod.reference.namespace),
        }
        self.world.add_pod(pod);
    }
}

/// Returns the element that a number chooses.
pub fn nth<T>(all: &[T], number: usize) -> Option<&T> {
    all.get(number.checked_rem(all.len())?)
}

/// Returns the rollout that a number chooses, there or not.
fn name_of(number: u8) -> &'static str {
    ROLLOUTS[usize::from(number) % ROLLOUTS.len()]
}

fn stall(world: &mut World, which: u16, reason: &str) {
    let untouched = world.input.observed.executors.values().filter(|executor| {
        executor.is_active() && executor.completed.is_empty() && executor.waiting.is_none()
    });
    let names: Vec<String> = untouched.map(|executor| executor.reference.name.clone()).collect();
    if let Some(name) = nth(&names, which.into()) {
        world.stall(name, reason);
    }
}

/// Returns what is found behind the refusal of a pod's eviction.
fn cause(kind: PodKind) -> Option<RefusalCause> {
    let budget = |desired, healthy| {
        let name = "ml/web".to_owned();
        RefusalCause::Budget(DisruptionBudget { name, expected: 3, healthy, desired })
    };
    match kind {
        PodKind::Hopeless => Some(budget(3, 3)),
        PodKind::Unready => Some(budget(2, 2)),
        PodKind::Doubled => {
            Some(RefusalCause::SeveralBudgets(vec!["ml/a".to_owned(), "ml/b".to_owned()]))
        }
        _ => None,
    }
}

/// An executor that is not the first of its stage fails.
fn fail_again(world: &mut World, which: u16) {
    let executors = world.input.observed.executors.iter();
    let again = executors.filter(|(_, it)| it.is_active() && it.attempt > 1);
    let names: Vec<String> = again.map(|(name, _)| name.clone()).collect();
    if let Some(name) = nth(&names, which.into()) {
        world.end(name, End::Failure);
    }
}

/// A controller lifts the cordon of a node that we hold.
fn fight(world: &mut World, which: u8) {
    let nodes = world.input.observed.nodes.values();
    let held = nodes.filter(|node| node.unschedulable && !node.cordons.is_empty());
    let names: Vec<String> = held.map(|node| node.name.clone()).collect();
    if let Some(name) = nth(&names, which.into()) {
        world.uncordon(name, "autoscaler");
    }
}

/// Another machine boots as the node. Where a resource was deleted, what it left there is named
/// without the machine it is on, and nothing could tell.
fn new_host(world: &mut World, name: &str) {
    let node = &world.input.observed.nodes[name];
    let nameless =
        |state: &Shared<NodeRollout>| state.record.is_none() && !state.entries.is_empty();
    if !node.rollouts.values().any(nameless) {
        world.replace_host(name);
    }
}

/// Somebody writes an annotation that cannot be read, or mends it.
fn spoil(world: &mut World, name: &str, rollout: &str, spoilt: bool) {
    world.change_node(name, |node| {
        if let Some(state) = node.rollouts.get_mut(rollout) {
            state.malformed = spoilt.then(|| "nodeState: no JSON".to_owned());
        }
    });
}

fn change_resource(world: &mut World, rollout: u8, change: impl FnOnce(&mut Resource)) {
    if let Some(resource) = world.input.observed.resources.get_mut(name_of(rollout)) {
        change(resource);
    }
}

fn halt(world: &mut World, halted: bool) {
    let note = "ada: fire drill".to_owned();
    world.input.halt = halted.then_some(Reason::StoppedByHand { note });
}

fn opened(world: &mut World, name: &str, open: bool, why: u8) {
    if open {
        world.input.opening.remove(name);
    } else {
        let revision = "main@sha1:0".to_owned();
        let (package, object) = ("kernel".to_owned(), "secret token".to_owned());
        let reason = match why % 3 {
            0 => Reason::ApplyingRevision { revision },
            1 => Reason::SourceHeld { why: "the history was rewritten".to_owned() },
            _ => Reason::ReferenceMissing { package, object },
        };
        world.input.opening.insert(name.to_owned(), Opening::Held(reason));
    }
}

/// Takes one package's entry away, as `nodewright reset` and people with kubectl do.
/// Lets a pod end: first those that are terminating, then any.
fn finish(world: &mut World, which: u16) {
    let pods = world.input.observed.pods.values().flat_map(BTreeMap::values);
    let (terminating, others): (Vec<_>, Vec<_>) = pods.partition(|pod| pod.terminating);
    let chosen = nth(&terminating, which.into()).or_else(|| nth(&others, which.into()));
    let chosen: Option<PodRef> = chosen.map(|pod| pod.reference.clone());
    if let Some(pod) = chosen {
        world.guarded.remove(&pod.uid);
        world.remove_pod(&pod);
    }
}
