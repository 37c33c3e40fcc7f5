//! What each event does to the world: one small function each.

use std::collections::BTreeMap;

use fastrand::Rng;
use nodewright::model::{
    AtRelease, Claim, Controller, Opening, PodPhase, PodRef, Reason, Rollout, Taint, TaintEffect,
};
use nodewright::plan::world::{Fate, World};

use super::super::builders::pod;
use super::event::{Edit, Event, Hand, PodKind};
use super::fleet::{self, ROLLOUTS};
use super::story::{Broken, Story};

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
            Event::Stall { which, reason } => stall(world, which, reason),
            Event::Delete { rollout } => {
                let name = name_of(rollout);
                self.deleted.extend(self.world.input.desired.rollouts.get(name).cloned());
                self.world.delete_rollout(name);
            }
            Event::Create { rollout } => self.create(name_of(rollout)),
            Event::Edit { rollout, edit } => edited(world, name_of(rollout), edit),
            Event::Open { rollout, open } => opened(world, name_of(rollout), open),
            Event::Pause { rollout, paused } => {
                if let Some(resource) = world.input.observed.resources.get_mut(name_of(rollout)) {
                    resource.paused = paused;
                }
            }
            Event::Disable { rollout, disabled } => {
                if let Some(resource) = world.input.observed.resources.get_mut(name_of(rollout)) {
                    resource.disabled = disabled;
                }
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
            | Event::Arrive { node, .. } => {
                let names: Vec<&String> = world.input.observed.nodes.keys().collect();
                if let Some(name) = nth(&names, node.into()) {
                    let name = (*name).clone();
                    self.on_node(&name, event);
                }
            }
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
            Event::Reset { which, .. } => reset(world, name, which),
            Event::ResetAll { rollout, .. } => world.change_node(name, |node| {
                node.rollouts.remove(name_of(rollout));
            }),
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
        Err(Broken::new("comes to rest", format!("still acts after {REST_TICKS_MAX} ticks")))
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
        self.world.add_node(&format!("node-{}", 50 + self.serial), &[("pool", pool)]);
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
            PodKind::Guarded => {
                self.world.guarded.insert(pod.reference.uid.clone());
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
fn nth<T>(all: &[T], number: usize) -> Option<&T> {
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

fn edited(world: &mut World, name: &str, edit: Edit) {
    let live = world.input.observed.resources.get(name).is_some_and(|found| !found.deleting);
    let Some(before) = world.input.desired.rollouts.get(name).filter(|_| live) else { return };
    let mut after: Rollout = before.clone();
    fleet::edit(&mut after, edit);
    if after == *before {
        return;
    }
    if after.policy.is_some() {
        after.budget = None;
        let policy = fleet::policy();
        if matches!(edit, Edit::Policy { to } if to % 2 == 0) {
            world.input.desired.policies.insert(policy.name.clone(), policy);
        } else {
            world.input.desired.policies.clear();
        }
    }
    world.set_rollout(after);
}

fn opened(world: &mut World, name: &str, open: bool) {
    if open {
        world.input.opening.remove(name);
    } else {
        let reason = Reason::ApplyingRevision { revision: "main@sha1:0".to_owned() };
        world.input.opening.insert(name.to_owned(), Opening::Held(reason));
    }
}

/// Takes one package's entry away, as `nodewright reset` and people with kubectl do.
fn reset(world: &mut World, name: &str, which: u8) {
    world.change_node(name, |node| {
        let number = usize::from(which);
        let mut with_entries: Vec<_> =
            node.rollouts.values_mut().filter(|state| !state.entries.is_empty()).collect();
        let Some(number_of) = number.checked_rem(with_entries.len()) else { return };
        let state = &mut with_entries[number_of];
        let id = state.entries.keys().nth(number % state.entries.len()).cloned();
        if let Some(id) = id {
            state.entries.remove(&id);
            state.entries_text = serde_json::to_string(&state.entries).ok();
        }
    });
}

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
