//! Batches by the text of upstream contract B.10 and design §4 and §7, worked out once more: how
//! large the next batch of a compartment may be, what a verdict says and stops, and what begins it
//! again. Shares nothing with the planner or its audit.
//!
//! A status is judged by what the daemon knew when it decided, a [`Sight`]: one line for each node
//! of a rollout, taken before the first action of a tick.

use std::collections::{BTreeMap, BTreeSet};

use nodewright::model::{
    BatchState, CompartmentStatus, Growth, Memory, OpenBatch, Outcome, Pace, Record, Status,
    StatusWrite,
};
use nodewright::plan::world::World;

use super::ceilings::in_repair;
use super::places::{NO_PACE, ceiling, compartments, count, overlaps, pace, policy_of};
use super::story::Broken;

type Held = Result<(), Broken>;

/// What a history of policies must come upon, each often enough for 10,000 seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happened {
    FixedAgain,
    LinearGrew,
    LinearSlowed,
    ExponentialGrew,
    ExponentialSlowed,
    /// A batch failed, and its compartment was through far enough not to be slowed.
    NotSlowed,
    /// Some of a batch failed, and enough of it succeeded.
    FailuresTolerated,
    SuccessCleared,
    StoppedByPolicy,
    StoppedByFloor,
    /// So many batches failed in a row that they would stop it, but it was through far enough.
    NotStopped,
    ResetByHand,
    ResetStopByHand,
    ResetOnCompletion,
    ResetByTarget,
    CarriedOver,
    StopCleared,
    RetriedWhileStopped,
    MovedInItsBatch,
    CompartmentGone,
    PolicyGoneInABatch,
    Overlap,
}

impl Happened {
    pub const ALL: [Self; 22] = [
        Self::FixedAgain,
        Self::LinearGrew,
        Self::LinearSlowed,
        Self::ExponentialGrew,
        Self::ExponentialSlowed,
        Self::NotSlowed,
        Self::FailuresTolerated,
        Self::SuccessCleared,
        Self::StoppedByPolicy,
        Self::StoppedByFloor,
        Self::NotStopped,
        Self::ResetByHand,
        Self::ResetStopByHand,
        Self::ResetOnCompletion,
        Self::ResetByTarget,
        Self::CarriedOver,
        Self::StopCleared,
        Self::RetriedWhileStopped,
        Self::MovedInItsBatch,
        Self::CompartmentGone,
        Self::PolicyGoneInABatch,
        Self::Overlap,
    ];
}

/// What came to pass.
pub type Seen = BTreeSet<Happened>;

/// What a daemon knows of every rollout when it decides.
#[derive(Debug, Clone, Default)]
pub struct Sight(BTreeMap<String, Rolling>);

/// One rollout.
#[derive(Debug, Clone)]
struct Rolling {
    /// Its batches start small again.
    resets: bool,
    /// It names a policy that is not there: nothing is known of its compartments.
    blind: bool,
    /// Then its nodes go one at a time.
    deleting: bool,
    stop_after: Option<u32>,
    compartments: BTreeMap<String, Here>,
    lines: Vec<Line>,
}

/// A compartment as it is.
#[derive(Debug, Clone)]
struct Here {
    pace: Pace,
    /// Nodes in it, and those of them that are not in repair.
    matched: u32,
    counted: u32,
}

/// The record of a node.
#[derive(Debug, Clone)]
struct Line {
    compartment: String,
    target: String,
    batch: u32,
    order: u32,
    outcome: Option<Outcome>,
    in_repair: bool,
}

impl Sight {
    /// Takes down what the daemon knows.
    pub fn of(world: &World) -> Self {
        let (known, desired) = (world.known(), world.known_desired());
        let live = desired.rollouts.values().filter_map(|rollout| {
            let resource = known.resources.get(&rollout.name)?;
            let policy = policy_of(desired, rollout);
            let mut rolling = Rolling {
                resets: rollout.reset_batches.unwrap_or(policy.is_some_and(|policy| policy.reset)),
                blind: rollout.policy.is_some() && policy.is_none(),
                deleting: resource.deleting,
                stop_after: world.input.floor.stop_after,
                compartments: BTreeMap::new(),
                lines: Vec::new(),
            };
            for (name, nodes) in compartments(world, rollout) {
                let counted = nodes.iter().filter(|node| !in_repair(world, node)).count();
                let here = Here {
                    pace: pace(world, rollout, name),
                    matched: count(nodes.len()),
                    counted: count(counted),
                };
                rolling.compartments.insert(name.to_owned(), here);
                rolling.lines.extend(nodes.iter().filter_map(|node| {
                    let record = node.record(&rollout.name, &resource.uid)?;
                    Some(line(name, record, in_repair(world, node)))
                }));
            }
            Some((rollout.name.clone(), rolling))
        });
        Self(live.collect())
    }

    /// Judges a status that is written.
    pub fn judge(&self, world: &World, write: &StatusWrite, happened: &mut Seen) -> Held {
        let resource = world.input.observed.resources.get(&write.rollout);
        let known = resource.filter(|known| known.resource_version == write.resource_version);
        let (Some(resource), Some(rolling)) = (known, self.0.get(&write.rollout)) else {
            return Ok(()); // It will be refused.
        };
        let nothing = Memory::default();
        let before = resource.status.as_ref().map_or(&nothing, |status| &status.memory);
        let wanted = world.known_desired().rollouts.get(&write.rollout);
        let policy = wanted.and_then(|wanted| policy_of(world.known_desired(), wanted));
        if policy.is_some_and(|policy| overlaps(world, policy)) {
            happened.insert(Happened::Overlap);
        }
        let judged = rolling.judge(before, &write.status, happened);
        judged.map_err(|Broken { rule, detail }| {
            Broken::new(&rule, format!("{}, {detail}", write.rollout))
        })
    }
}

fn line(compartment: &str, record: &Record, in_repair: bool) -> Line {
    Line {
        compartment: compartment.to_owned(),
        target: record.target.clone(),
        batch: record.batch,
        order: record.order,
        outcome: record.outcome,
        in_repair,
    }
}

impl Rolling {
    fn judge(&self, before: &Memory, status: &Status, happened: &mut Seen) -> Held {
        let after = &status.memory;
        let renewed = before.target != after.target;
        let mut orders = before.order_next;
        for (name, now) in &after.compartments {
            let was = before.compartments.get(name).cloned().unwrap_or_default();
            let was = if renewed { self.begun_anew(&was, happened) } else { was };
            let step = Step { rolling: self, name, was: &was, now, status };
            step.judge(happened)?;
            if let (None, Some(open)) = (&was.open_batch, &now.open_batch) {
                if open.order_from < orders {
                    return Err(step.broken("orders of a batch are new"));
                }
                orders = open.order_from.saturating_add(open.size);
            }
        }
        if after.order_next < orders {
            let detail = format!("{} after {orders}", after.order_next);
            return Err(Broken::new("orders go on", detail));
        }
        for (name, was) in &before.compartments {
            let kept = after.compartments.contains_key(name);
            let known = self.compartments.contains_key(name);
            if !kept && (known || self.blind) && !renewed {
                return Err(Broken::new("batches are remembered", format!("{name}: {was:?}")));
            }
            if !kept && was.open_batch.is_some() && !renewed {
                happened.insert(Happened::CompartmentGone);
                let open = was.open_batch.as_ref();
                if open.is_some_and(|open| self.members(open).any(|it| it.outcome.is_none())) {
                    return Err(Broken::new("batches end", format!("{name}: {was:?}")));
                }
            }
            if self.blind && was.open_batch.is_some() {
                happened.insert(Happened::PolicyGoneInABatch);
            }
        }
        stops_are_said(status)
    }

    /// What a new target finds: stops and failures belong to a target (design §7).
    fn begun_anew(&self, was: &CompartmentStatus, happened: &mut Seen) -> CompartmentStatus {
        let state = &was.batch_state;
        if state.should_stop {
            happened.insert(Happened::StopCleared);
        }
        if *state != BatchState::default() {
            let how = if self.resets { Happened::ResetByTarget } else { Happened::CarriedOver };
            happened.insert(how);
        }
        let batch_state = match self.resets {
            true => BatchState::default(),
            false => BatchState {
                current_batch: state.current_batch,
                last_batch_size: state.last_batch_size,
                ..BatchState::default()
            },
        };
        CompartmentStatus { batch_state, ..CompartmentStatus::default() }
    }

    /// The nodes of a batch, wherever they are now.
    fn members<'s>(&'s self, open: &'s OpenBatch) -> impl Iterator<Item = &'s Line> {
        let orders = open.order_from..open.order_from.saturating_add(open.size);
        let all = self.lines.iter();
        all.filter(move |line| orders.contains(&line.order) && line.batch == open.number)
    }
}

/// One compartment from one status to the next.
struct Step<'s> {
    rolling: &'s Rolling,
    name: &'s str,
    was: &'s CompartmentStatus,
    now: &'s CompartmentStatus,
    status: &'s Status,
}

impl Step<'_> {
    fn judge(&self, happened: &mut Seen) -> Held {
        match (&self.was.open_batch, &self.now.open_batch) {
            (None, None) => self.rests(happened),
            (None, Some(open)) if self.is_beside(open) => self.opens_beside(open),
            (None, Some(open)) => self.opens(open, happened),
            (Some(before), Some(open)) => self.fills(before, open),
            // Those that join a stopped compartment say nothing of what stopped it.
            (Some(open), None) if self.is_beside(open) => self.rests(happened),
            (Some(open), None) => self.ends(open, happened),
        }
    }

    fn broken(&self, rule: &str) -> Broken {
        let (was, now) = (self.was, self.now);
        let batches = format!("{:?} → {:?}", was.open_batch, now.open_batch);
        let states = format!("{:?} → {:?}", was.batch_state, now.batch_state);
        let here = self.rolling.compartments.get(self.name);
        Broken::new(rule, format!("{}: {batches}; {states}; {here:?}", self.name))
    }

    fn unless(&self, holds: bool, rule: &str) -> Held {
        if holds { Ok(()) } else { Err(self.broken(rule)) }
    }

    /// Counters change with a verdict, or go back to the beginning with a rollout that is complete.
    fn rests(&self, happened: &mut Seen) -> Held {
        if self.was.batch_state == self.now.batch_state {
            return Ok(());
        }
        self.unless(self.is_reset_on_completion(), "counters change with a verdict")?;
        happened.insert(Happened::ResetOnCompletion);
        Ok(())
    }

    fn is_reset_on_completion(&self) -> bool {
        let repaired: u32 =
            self.rolling.compartments.values().map(|here| here.matched - here.counted).sum();
        let Status { nodes_complete, nodes_total, .. } = self.status;
        let complete = nodes_complete + repaired >= *nodes_total;
        self.rolling.resets && complete && self.now.batch_state == BatchState::default()
    }

    /// It goes to what was complete before, while the compartment is stopped.
    fn is_beside(&self, open: &OpenBatch) -> bool {
        open.target != self.status.memory.target
    }

    /// Nodes that join a stopped compartment have a batch within its ceiling and no more.
    fn opens_beside(&self, open: &OpenBatch) -> Held {
        let (was, now) = (&self.was.batch_state, &self.now.batch_state);
        self.unless(was == now, "counters change with a verdict")?;
        self.unless(was.should_stop, "only a stopped compartment has a batch beside")?;
        let ceiling = self.rolling.compartments.get(self.name).map_or(0, Here::ceiling);
        self.unless((1..=ceiling).contains(&open.size), "a batch beside keeps to the ceiling")
    }

    /// The verdict is stored before the next batch, which has its number and at most its size.
    fn opens(&self, open: &OpenBatch, happened: &mut Seen) -> Held {
        let state = &self.was.batch_state;
        self.unless(*state == self.now.batch_state, "a verdict is stored before the next batch")?;
        self.unless(!state.should_stop, "a stopped compartment opens no batch")?;
        self.unless(open.number == state.current_batch, "batches are counted")?;
        self.unless(open.target == self.status.memory.target, "a batch has the target")?;
        self.unless(open.given == 0 && open.refused.is_empty(), "a batch begins empty")?;
        let Rolling { blind, deleting, .. } = self.rolling;
        let here = self.rolling.compartments.get(self.name).filter(|_| !blind || *deleting);
        let Some(here) = here else { return Err(self.broken("a batch has a compartment")) };
        let next = here.next_batch(state);
        let fits = (1..=next).contains(&open.size) && (open.size < next || !open.first_use);
        self.unless(fits, &format!("a batch has its size, at most {next}"))?;
        if open.size == next {
            happened.extend(here.grew(state, next));
        }
        Ok(())
    }

    fn fills(&self, before: &OpenBatch, open: &OpenBatch) -> Held {
        let given = before.given..=before.size;
        let same = OpenBatch { given: open.given, refused: open.refused.clone(), ..before.clone() };
        let taken = open.order_from..open.order_from.saturating_add(open.given);
        let refused = open.refused.iter().all(|order| taken.contains(order));
        let right = same == *open && given.contains(&open.given) && refused;
        self.unless(right, "a batch stays what it is")?;
        self.unless(self.was.batch_state == self.now.batch_state, "counters change with a verdict")
    }

    /// Every member is complete, failed, or let go; those that ended are the verdict.
    fn ends(&self, open: &OpenBatch, happened: &mut Seen) -> Held {
        let members = || self.rolling.members(open);
        self.unless(members().all(|line| line.outcome.is_some()), "a batch ends with its nodes")?;
        let ended = |how| count(members().filter(|line| line.outcome == Some(how)).count());
        let (complete, failed) = (ended(Outcome::Complete), ended(Outcome::Erroring));
        let (was, now) = (&self.was.batch_state, &self.now.batch_state);
        if complete + failed == 0 && was == now {
            return Ok(()); // Its nodes were let go: it comes again.
        }
        if self.is_reset_on_completion() {
            happened.insert(Happened::ResetOnCompletion);
            return Ok(());
        }
        let nothing = Here { pace: NO_PACE, matched: 0, counted: 0 };
        let here = self.rolling.compartments.get(self.name).unwrap_or(&nothing);
        self.unless(
            now.completed_nodes + now.failed_nodes <= here.counted,
            "no node is counted twice",
        )?;
        let target = &self.status.memory.target;
        let has_failed = |line: &&Line| {
            let here = line.compartment == self.name && line.target == *target;
            here && line.outcome == Some(Outcome::Erroring) && !line.in_repair
        };
        let all_failed = count(self.rolling.lines.iter().filter(has_failed).count());
        self.unless(now.failed_nodes == all_failed, "failed nodes are counted")?;
        let verdict = here.verdict(self.rolling.stop_after, was, now, (complete, failed), happened);
        let paced = BatchState { last_batch_size: was.last_batch_size, ..verdict.clone() };
        // One that was cut short, or was open when its counters were reset, says nothing of size.
        let is_aside = open.first_use || open.number != was.current_batch;
        let verdict = if is_aside { paced } else { verdict };
        self.unless(verdict == *now, &format!("a verdict is its nodes': {verdict:?}"))
    }
}

impl Here {
    fn ceiling(&self) -> u32 {
        ceiling(self.pace.budget, self.counted)
    }

    fn progress(&self, state: &BatchState) -> u32 {
        let through = (state.completed_nodes + state.failed_nodes) * 100;
        through.checked_div(self.counted).unwrap_or(100)
    }

    fn is_slower(&self, state: &BatchState) -> bool {
        let limit = self.pace.strategy.map_or(0, |strategy| strategy.safety_limit);
        state.last_batch_failed && self.progress(state) < limit
    }

    fn next_batch(&self, state: &BatchState) -> u32 {
        let Some(strategy) = self.pace.strategy else { return self.ceiling() };
        let (last, slower) = (state.last_batch_size, self.is_slower(state));
        let size = match strategy.growth {
            _ if last == 0 => strategy.initial_batch,
            Growth::Fixed => strategy.initial_batch,
            Growth::Linear(delta) if slower => last.saturating_sub(delta),
            Growth::Linear(delta) => last + delta,
            Growth::Exponential(factor) if slower => last / factor,
            Growth::Exponential(factor) => (last * factor).min(self.counted),
        };
        size.max(1).min(self.ceiling())
    }

    /// Says by which rule a batch of the full size has it.
    fn grew(&self, state: &BatchState, size: u32) -> Option<Happened> {
        let growth = self.pace.strategy?.growth;
        let last = state.last_batch_size;
        if state.last_batch_failed && !self.is_slower(state) && size > last && last > 0 {
            return Some(Happened::NotSlowed);
        }
        Some(match growth {
            _ if last == 0 => return None,
            Growth::Fixed => Happened::FixedAgain,
            Growth::Linear(_) if size > last => Happened::LinearGrew,
            Growth::Linear(_) if self.is_slower(state) && size < last => Happened::LinearSlowed,
            Growth::Exponential(_) if size > last => Happened::ExponentialGrew,
            Growth::Exponential(_) if self.is_slower(state) && size < last => {
                Happened::ExponentialSlowed
            }
            Growth::Linear(_) | Growth::Exponential(_) => return None,
        })
    }

    /// The counters after a batch of which so many are complete and so many failed.
    fn verdict(
        &self,
        stop_after: Option<u32>,
        was: &BatchState,
        now: &BatchState,
        (complete, failed): (u32, u32),
        happened: &mut Seen,
    ) -> BatchState {
        let strategy = self.pace.strategy;
        let threshold = strategy.map_or(100, |strategy| strategy.batch_threshold);
        let fails = complete * 100 / (complete + failed) < threshold;
        let mut state = BatchState {
            current_batch: was.current_batch + 1,
            consecutive_failures: if fails { was.consecutive_failures + 1 } else { 0 },
            completed_nodes: now.completed_nodes,
            failed_nodes: now.failed_nodes,
            should_stop: was.should_stop,
            last_batch_size: complete + failed,
            last_batch_failed: fails,
        };
        if !fails {
            let tolerated = (failed > 0).then_some(Happened::FailuresTolerated);
            let cleared = (was.consecutive_failures > 0).then_some(Happened::SuccessCleared);
            happened.extend(tolerated.into_iter().chain(cleared));
            return state;
        }
        let named = strategy.and_then(|it| Some((it.failure_threshold?, it.safety_limit)));
        let (limit, safe_from) = match named {
            Some((threshold, safe_from)) => (Some(threshold), safe_from),
            None => (stop_after, u32::MAX),
        };
        if limit.is_some_and(|limit| state.consecutive_failures >= limit) {
            state.should_stop = self.progress(&state) < safe_from;
            happened.insert(match (state.should_stop, named) {
                (false, _) => Happened::NotStopped,
                (true, Some(_)) => Happened::StoppedByPolicy,
                (true, None) => Happened::StoppedByFloor,
            });
        }
        state
    }
}

/// A stop is said, with the batch that caused it; nothing else is said to be one.
fn stops_are_said(status: &Status) -> Held {
    let all = status.memory.compartments.values();
    let mut stopped = all.filter(|compartment| compartment.batch_state.should_stop);
    let stops = stopped.clone().next().is_some();
    let said = status.conditions.iter().find(|it| it.kind == "Stopped" && it.is_true);
    let right = said.map_or(!stops, |condition| {
        stopped.any(|compartment| {
            let batch = format!("batch {}", compartment.batch_state.current_batch - 1);
            condition.message.contains(&batch)
                && condition.message.contains("deployment-policy reset")
        })
    });
    if right { Ok(()) } else { Err(Broken::new("a stop is said", format!("{said:?}"))) }
}
