//! The second half of a history: faults stop, and every healthy node converges or says why not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use nodewright::model::{
    Budget, CordonMark, Node, Plan, PodRef, Reason, Rollout, Verdict, VerdictKind,
};
use nodewright::plan::plan;
use nodewright::plan::world::{End, Fate, World};

use super::fleet;
use super::story::{Broken, Story};
use super::{people, places, policies};

/// Rounds in which everything that runs ends, and time passes. The longest chain there is: three
/// rollouts one after another, fourteen nodes one by one, each with an install, an interrupt and a
/// verification, and back-offs between.
const ROUNDS_MAX: usize = 1_000;

/// The taint of nodes that wait for what is required before they take workloads.
const RUNTIME_TAINT: &str = "nodewright.nvidia.com=";

/// Rounds without any change after which nothing more will come: more than any back-off, drain
/// time-out or deadline takes.
const QUIET_ROUNDS: usize = 4;

impl Story {
    /// Stops all faults: what can be done is done, and what is left has a reason that names who
    /// must act. With a new version of everything, nothing is left.
    pub fn converge(&mut self) -> Result<(), Broken> {
        heal(&mut self.world, self.paced);
        let left = self.run_out()?;
        let stuck = left.iter().any(|(_, verdict)| needs_somebody(&verdict.reason));
        for (node, verdict) in &left {
            // Its batch, or its node, is held up by what says whom it needs.
            let behind = stuck
                && match &verdict.reason {
                    Reason::WaitingForBatch { .. }
                    | Reason::FirstUse { .. }
                    | Reason::OtherRollout { .. } => true,
                    // It waits for a rollout that such a node holds up.
                    Reason::TaintNotTolerated { taint } => taint.starts_with(RUNTIME_TAINT),
                    _ => false,
                };
            let stopped = !matches!(verdict.reason, Reason::Stopped { .. })
                || is_in_a_stopped_compartment(&self.world, node);
            if !stopped || (!behind && !needs_somebody(&verdict.reason)) {
                return Err(Broken::new("converges", self.stuck(node, verdict)));
            }
        }
        if !left.is_empty() {
            self.repair();
            if let Some((node, verdict)) = self.run_out()?.first() {
                return Err(Broken::new("converges after a repair", self.stuck(node, verdict)));
            }
            self.hosts_are_as_wanted()?;
        }
        cordons_are_as_before(&self.world)?;
        every_node_is_counted(&self.world)
    }

    /// Says where a node stands that goes no further.
    fn stuck(&self, node: &str, verdict: &Verdict) -> String {
        let Verdict { kind, reason } = verdict;
        let Some(node) = self.world.input.observed.nodes.get(node) else { return String::new() };
        let mut text = format!("{}: {kind:?} {reason}", node.name);
        for (name, verdicts) in plan(&self.world.input).verdicts {
            let verdict = verdicts.get(&node.name).map(|verdict| verdict.reason.to_string());
            let _ = write!(text, "; {name} says {verdict:?}");
        }
        for (name, state) in &node.rollouts {
            let _ = write!(text, "; {name}:");
            for (id, entry) in &state.entries {
                let _ = write!(text, " {id} {} {},", entry.stage, entry.state);
            }
            if let Some(record) = &state.record {
                let (phase, outcome) = (record.phase, record.outcome);
                let _ = write!(text, " {phase} {outcome:?} held {}", record.held);
                let _ = write!(text, " due {:?}", record.interrupts_due);
            }
        }
        let down = |node: &&Node| node.unschedulable || !node.ready || !node.cordons.is_empty();
        for node in self.world.input.observed.nodes.values().filter(down) {
            let Node { name, unschedulable, ready, cordons, .. } = node;
            let _ = write!(text, "; {name}: cordoned {unschedulable}, ready {ready}, {cordons:?}");
            for (name, state) in &node.rollouts {
                let record = state.record.as_ref();
                let end = record.map(|it| (it.phase, it.outcome, it.held, it.reason.clone()));
                let _ = write!(text, " {name} {end:?}");
            }
        }
        text
    }

    /// Plays on until nothing changes any more; returns the nodes that are not done.
    fn run_out(&mut self) -> Result<Vec<(String, Verdict)>, Broken> {
        let mut quiet = 0;
        for _ in 0..ROUNDS_MAX {
            let mut moved = self.tick_with(|_, _| Fate::Done)? > 0;
            moved |= ends(&mut self.world);
            self.ledger.learn(&self.world);
            super::invariants::check(&self.world, &self.ledger)?;
            if moved {
                quiet = 0;
                continue;
            }
            let plan = self.world.plan();
            if is_done(&plan) {
                return Ok(Vec::new());
            }
            quiet += 1;
            if quiet > QUIET_ROUNDS {
                return Ok(left(plan));
            }
            // To the moment the planner waits for, and past every deadline in the end.
            let now = self.world.input.now;
            let next = plan.wake_at.filter(|at| *at > now);
            let seconds = next.map_or(3_700, |at| at.duration_since(now).as_secs() + 1);
            self.world.pass(seconds);
        }
        Err(Broken::new("converges", format!("not within {ROUNDS_MAX} rounds")))
    }

    /// People do what the reasons ask for: a corrected version of everything, or another try at
    /// everything.
    fn repair(&mut self) {
        self.world.input.observed.pods.clear();
        for name in std::mem::take(&mut self.world.foreign) {
            self.world.change_node(&name, |node| node.unschedulable = false);
        }
        let held: Vec<String> =
            held_after_failure(&self.world).into_iter().map(str::to_owned).collect();
        for name in &held {
            self.world.uncordon(name, "kubectl");
        }
        if self.by_hand {
            let world = &mut self.world;
            for (node, rollout) in policies::failed(world) {
                policies::retry(world, &mut self.ledger, &node, &rollout);
            }
            for name in policies::begun(world, true) {
                policies::reset_batches(world, &name);
            }
        } else {
            fleet::renew(&mut self.world);
        }
    }

    /// What is wanted is what ran on each host, with every interrupt that it asks for.
    fn hosts_are_as_wanted(&self) -> Result<(), Broken> {
        for rollout in self.world.input.desired.rollouts.values() {
            for node in self.world.input.observed.nodes.values() {
                if !rollout.selects(&node.labels) {
                    continue;
                }
                for package in rollout.packages.values().filter(|each| !each.uninstall.apply) {
                    let host = self.ledger.hosts.get(&node.uid);
                    let installed = host.and_then(|host| host.get(&package.name));
                    let right = installed.is_some_and(|installed| {
                        installed.version == package.version.as_str()
                            && installed.config.as_ref() == Some(&package.config_map)
                            && installed.owed.is_none()
                    });
                    if !right {
                        let detail = format!("{} on {}: {installed:?}", package.id(), node.name);
                        return Err(Broken::new("hosts are as wanted", detail));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A node that is said to be stopped is in a compartment whose batches, judged one by one, stopped
/// it.
fn is_in_a_stopped_compartment(world: &World, node: &str) -> bool {
    let places = places::places(world, node);
    let stopped = |(rollout, place): (&String, &String)| {
        let status = world.input.observed.resources.get(rollout)?.status.as_ref()?;
        Some(status.memory.compartments.get(place)?.batch_state.should_stop)
    };
    places.iter().any(|place| stopped(place) == Some(true))
}

/// In the end each node is complete in its compartment, once, and no batch is open.
fn every_node_is_counted(world: &World) -> Result<(), Broken> {
    for (name, resource) in &world.input.observed.resources {
        let (Some(wanted), Some(status)) =
            (world.input.desired.rollouts.get(name), &resource.status)
        else {
            continue;
        };
        for (place, nodes) in places::compartments(world, wanted) {
            let shown = status.memory.compartments.get(place).cloned().unwrap_or_default();
            let counted = (shown.matched as usize, shown.completed as usize);
            let over = shown.in_progress == 0 && shown.open_batch.is_none();
            if counted != (nodes.len(), nodes.len()) || !over {
                let detail = format!("{name}, {place}: {shown:?} of {} nodes", nodes.len());
                return Err(Broken::new("every node is counted", detail));
            }
        }
    }
    Ok(())
}

/// Our marks are gone, and a node is cordoned where, and only where, others cordoned it.
fn cordons_are_as_before(world: &World) -> Result<(), Broken> {
    let failed: BTreeSet<&str> = held_after_failure(world);
    for node in world.input.observed.nodes.values() {
        if failed.contains(node.name.as_str()) {
            continue;
        }
        let ours = node.cordons.iter().any(|mark| matches!(mark, CordonMark::Rollout(_)));
        // A mark on a node that somebody uncordoned and that nobody selects says nothing.
        let left = node.unschedulable && node.cordons.contains(&CordonMark::RuntimeRequired);
        let foreign = world.foreign.contains(&node.name) || left;
        if ours || node.unschedulable != foreign {
            let detail =
                format!("{}: unschedulable {}, {:?}", node.name, node.unschedulable, node.cordons);
            return Err(Broken::new("own cordons are released", detail));
        }
    }
    Ok(())
}

/// Nodes that a failed visit keeps, so that a person looks at them.
fn held_after_failure(world: &World) -> BTreeSet<&str> {
    let nodes = world.input.observed.nodes.values();
    let held = nodes.filter(|node| {
        world.input.observed.resources.iter().any(|(name, resource)| {
            node.record(name, &resource.uid).is_some_and(|record| {
                record.held && record.outcome == Some(nodewright::model::Outcome::Erroring)
            })
        })
    });
    held.map(|node| node.name.as_str()).collect()
}

/// Everybody is back, nothing is paused, held or claimed, and pods end when they are asked to.
fn heal(world: &mut World, paced: bool) {
    world.catch_up();
    let names: Vec<String> = world.input.observed.nodes.keys().cloned().collect();
    for name in &names {
        if world.input.observed.nodes[name].deleting {
            world.remove_node(name);
            continue;
        }
        world.come_back(name);
        world.set_ready(name, true);
        world.change_node(name, |node| {
            node.claims.clear();
            node.hold = None;
            node.ignored = false;
            node.gpus = Some(fleet::GPUS);
            for state in node.rollouts.values_mut() {
                state.malformed = None;
            }
            node.taints.retain(|taint| taint.key != "dedicated");
        });
        let held = world.input.observed.nodes[name].rollouts.values().any(|state| {
            state.record.as_ref().is_some_and(|record| record.is_open() && record.held)
        });
        if held {
            world.cordon(name, "kubectl");
        }
    }
    world.guarded.clear();
    world.rejecting = false;
    world.input.observed.rejections.clear();
    world.input.observed.refusals.clear();
    world.input.opening.clear();
    world.input.halt = None;
    for resource in world.input.observed.resources.values_mut() {
        resource.paused = false;
        resource.disabled = false;
    }
    for name in fleet::ROLLOUTS {
        people::approve(world, name, true);
    }
    for wanted in world.input.desired.rollouts.values_mut() {
        open_up(wanted);
        wanted.policy.take_if(|_| !paced);
        if wanted.policy.is_none() && wanted.budget.is_none_or(Budget::is_zero) {
            wanted.budget = Some(Budget::Count(2));
        }
    }
    if paced {
        policies::mend(world);
    }
}

/// Nothing asks for its uninstall.
fn open_up(wanted: &mut Rollout) {
    for package in wanted.packages.values_mut() {
        package.uninstall.apply = false;
    }
}

/// Ends everything that runs, with success; pods that are terminating, and protected ones, end.
fn ends(world: &mut World) -> bool {
    let pods = world.input.observed.pods.values().flat_map(BTreeMap::values);
    let leaving: Vec<PodRef> = pods
        .filter(|pod| pod.terminating || !pod.labels.is_empty())
        .map(|pod| pod.reference.clone())
        .collect();
    for pod in &leaving {
        world.remove_pod(pod);
    }
    let active = world.active();
    for name in &active {
        world.end(name, End::Success);
    }
    let opened = uncordons(world) | untaints(world);
    world.pass(2);
    opened || !active.is_empty() || !leaving.is_empty()
}

/// Somebody has looked at the nodes that were left cordoned when their taint went.
fn uncordons(world: &mut World) -> bool {
    let nodes = world
        .input
        .observed
        .nodes
        .values()
        .filter(|node| node.unschedulable && node.cordons == [CordonMark::RuntimeRequired]);
    let names: Vec<String> = nodes.map(|node| node.name.clone()).collect();
    for name in &names {
        world.uncordon(name, "kubectl");
    }
    !names.is_empty()
}

/// Somebody takes the taint away that nothing asks for any more.
fn untaints(world: &mut World) -> bool {
    let rules = world.input.rules.clone();
    let rollouts = &world.input.desired.rollouts;
    let left = world.input.observed.nodes.values().filter(|node| {
        let mut gates = rollouts.values().filter(|rollout| rollout.runtime_required);
        node.taints.iter().any(|taint| rules.is_runtime_taint(taint))
            && !gates.any(|rollout| rollout.selects(&node.labels))
    });
    let names: Vec<String> = left.map(|node| node.name.clone()).collect();
    for name in &names {
        world.change_node(name, |node| node.taints.retain(|it| !rules.is_runtime_taint(it)));
    }
    !names.is_empty()
}

fn is_done(plan: &Plan) -> bool {
    let mut verdicts = plan.verdicts.values().flat_map(BTreeMap::values);
    plan.actions.is_empty() && verdicts.all(|verdict| verdict.kind == VerdictKind::Done)
}

fn left(plan: Plan) -> Vec<(String, Verdict)> {
    let verdicts = plan.verdicts.into_values().flatten();
    verdicts.filter(|(_, verdict)| verdict.kind != VerdictKind::Done).collect()
}

/// Returns whether a reason names something that does not go away by itself.
fn needs_somebody(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Failed { .. }
            | Reason::InterruptFailed { .. }
            | Reason::DrainTimedOut { .. }
            | Reason::DrainRefused { .. }
            | Reason::Stopped { .. }
            | Reason::Predecessor { .. }
            | Reason::BudgetUsed { .. }
    )
}
