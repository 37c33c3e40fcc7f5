//! Batches: opened by one status write, filled by picks, judged when every member is done.
//!
//! Each compartment of a rollout has batches of its own; how large they are is [`super::pace`]'s
//! arithmetic. A node belongs to the open batch when its record has the batch's target and one of
//! the order numbers reserved for it, so a verdict is a count over records, and a node that moves
//! to another compartment stays in its batch until the verdict.

mod catch_up;

use std::collections::{BTreeMap, BTreeSet};

use super::compartments::{self, Compartment, Told};
use super::drain::protected_pods;
use super::first_use::FirstUse;
use super::joiners::{self, Joiners};
use super::pace::Ended;
use super::pick::{Place, pick};
use super::protect::was_let_go;
use super::pull::Pulls;
use super::rollout::is_named;
use super::select::Scope;
use super::{count, outlook, takeover};
use crate::model::{
    Action, BatchState, CompartmentStatus, Memory, Node, OpenBatch, Outcome, Outlook, Package,
    PatchKind, Plan, Reason, Record, Stopped, Verdict, VerdictKind,
};

/// Refused picks of a batch that are remembered; the numbers of further ones are burnt.
const REFUSED_MAX: usize = 64;

/// Refused picks of all batches of a rollout together, so that its status stays below 64 KiB with
/// any number of compartments.
const REFUSED_ALL_MAX: usize = 512;

/// Moves the open batches on, and returns what the status must remember.
///
/// Candidates are nodes that need work and may be picked; each gets its verdict here. Those among
/// them that join a stopped compartment have batches of their own.
pub(crate) fn advance<'a>(
    scope: &Scope<'a>,
    joiners: &Joiners<'_, 'a>,
    candidates: &[&'a Node],
    verdicts: &mut BTreeMap<String, Verdict>,
    plan: &mut Plan,
) -> Memory {
    let carried = orders_given(scope);
    let mut memory = remembered(scope, &carried);
    let mut statuses = std::mem::take(&mut memory.compartments);
    let mut outlooks = BTreeMap::new();
    let first = FirstUse::new(scope);
    // Places of batches that are kept for first users and not taken yet.
    let kept = statuses.values().filter_map(|status| status.open_batch.as_ref());
    let mut kept: u32 = kept.filter(|open| open.first_use).map(places_left).sum();
    let mut room = first.room(&first.at_work(plan)).saturating_sub(kept);
    let all = compartments::of(scope, candidates, &statuses);
    let refused_max = (REFUSED_ALL_MAX / all.len().max(1)).min(REFUSED_MAX);
    for compartment in all {
        let mut status = statuses.remove(&compartment.name).unwrap_or_default();
        if let Some(open) = &mut status.open_batch {
            note_given(&carried, open, refused_max);
        }
        let first = First { uses: &first, kept: &mut kept, room: &mut room };
        let mut turn =
            Turn { scope, joiners, compartment: &compartment, status: &mut status, first };
        let candidates = compartment.candidates.iter().copied();
        let (joining, candidates): (Vec<&Node>, Vec<&Node>) =
            candidates.partition(|node| joiners.scope_of(node).is_some());
        if turn.catches_up() || !joining.is_empty() {
            let waiting = turn.catch_up(&mut memory, &joining, verdicts, plan);
            wait_for(&waiting, &joining, verdicts);
        }
        let waiting = turn.advance(&mut memory, &candidates, verdicts, plan);
        wait_for(&waiting, &candidates, verdicts);
        let told = compartment.told(verdicts);
        joiners::remember(scope, &compartment, &told, &mut memory);
        let outlook = turn.show(&told);
        if compartment.known || status.open_batch.is_some() {
            outlooks.insert(compartment.name.clone(), outlook);
            memory.compartments.insert(compartment.name, status);
        }
    }
    joiners::tidy(&mut memory);
    let complete = verdicts.values().all(Verdict::is_through);
    plan.outlooks.insert(scope.rollout.name.clone(), outlooks);
    if complete && resets_batches(scope) && memory.begin_batches_anew() {
        // What was looked ahead to is of before.
        look_ahead(scope, joiners, &mut memory, verdicts, plan);
    }
    finish_timing(scope, &mut memory, complete);
    memory
}

/// Says what those wait for that were not picked.
fn wait_for(reason: &Reason, nodes: &[&Node], verdicts: &mut BTreeMap<String, Verdict>) {
    let stopped = matches!(reason, Reason::Stopped { .. } | Reason::NotCreated { .. });
    let kind = if stopped { VerdictKind::Blocked } else { VerdictKind::Wait };
    for node in nodes {
        let verdict = Verdict { kind, reason: reason.clone() };
        verdicts.entry(node.name.clone()).or_insert(verdict);
    }
}

/// Says what is to come in a tick that opens and fills no batch.
pub(crate) fn look_ahead<'a>(
    scope: &Scope<'a>,
    joiners: &Joiners<'_, 'a>,
    memory: &mut Memory,
    verdicts: &BTreeMap<String, Verdict>,
    plan: &mut Plan,
) {
    let mut outlooks = BTreeMap::new();
    let (uses, mut kept) = (FirstUse::new(scope), 0);
    let mut room = uses.room(&uses.at_work(plan));
    for compartment in compartments::of(scope, &[], &memory.compartments) {
        let status = memory.compartments.entry(compartment.name.clone()).or_default();
        let first = First { uses: &uses, kept: &mut kept, room: &mut room };
        let mut turn = Turn { scope, joiners, compartment: &compartment, status, first };
        let outlook = turn.show(&compartment.told(verdicts));
        outlooks.insert(compartment.name, outlook);
    }
    plan.outlooks.insert(scope.rollout.name.clone(), outlooks);
}

/// Returns what the status remembers, begun anew for a new target: failures and stops belong to a
/// target, order numbers go on so that none is ever used twice.
fn remembered(scope: &Scope<'_>, given: &BTreeSet<u32>) -> Memory {
    let before = scope.resource.status.as_ref().map(|status| &status.memory);
    let mut memory = match before {
        Some(memory) if memory.target == scope.target => memory.clone(),
        Some(memory) => Memory {
            target: scope.target.clone(),
            order_next: memory.order_next,
            completed: memory.completed.clone(),
            compartments: if resets_batches(scope) {
                BTreeMap::new()
            } else {
                memory.compartments.iter().map(|(name, it)| (name.clone(), carried(it))).collect()
            },
            ..Memory::default()
        },
        None => Memory { target: scope.target.clone(), ..Memory::default() },
    };
    takeover::import(scope, &mut memory);
    // A status that somebody wiped must not hand out again what nodes still carry.
    let above = given.last().map_or(0, |order| order.saturating_add(1));
    memory.order_next = memory.order_next.max(above);
    memory
}

/// Returns what a new target takes over where the reset option does not say otherwise: batches
/// are counted on, and grow from the last one.
fn carried(status: &CompartmentStatus) -> CompartmentStatus {
    let BatchState { current_batch, last_batch_size, .. } = status.batch_state;
    let batch_state = BatchState { current_batch, last_batch_size, ..BatchState::default() };
    CompartmentStatus { batch_state, ..CompartmentStatus::default() }
}

/// Returns whether batches start small again: the resource's word, else the policy's, else no
/// (upstream contract A.5).
fn resets_batches(scope: &Scope<'_>) -> bool {
    let policy = scope.policy().is_some_and(|policy| policy.reset);
    scope.rollout.reset_batches.unwrap_or(policy)
}

/// Returns how many nodes may still be picked into a batch.
pub(crate) fn places_left(open: &OpenBatch) -> u32 {
    open.size.saturating_sub(open.given).saturating_add(count(open.refused.len()))
}

/// One compartment in one tick.
struct Turn<'t, 'a> {
    scope: &'t Scope<'a>,
    joiners: &'t Joiners<'t, 'a>,
    compartment: &'t Compartment<'a>,
    status: &'t mut CompartmentStatus,
    first: First<'t, 'a>,
}

/// What a compartment must know of packages that are new to the cluster.
struct First<'t, 'a> {
    uses: &'t FirstUse<'a>,
    /// Places that open batches of any compartment keep for them.
    kept: &'t mut u32,
    /// Further such places that the forecasts of this tick have not given away.
    room: &'t mut u32,
}

impl<'a> Turn<'_, 'a> {
    /// Judges, opens or fills the batch; returns what a candidate waits for that is not picked.
    fn advance(
        &mut self,
        memory: &mut Memory,
        candidates: &[&'a Node],
        verdicts: &mut BTreeMap<String, Verdict>,
        plan: &mut Plan,
    ) -> Reason {
        match self.status.open_batch.clone() {
            Some(_) if self.catches_up() => self.stands_beside(verdicts),
            Some(open) => {
                let members = members(self.scope, &open);
                let over = members.iter().all(|(_, record)| !record.is_open());
                let full = open.given >= open.size && open.refused.is_empty();
                let pulls = Pulls::new(self.scope);
                // Nodes whose images cannot be pulled do not hold the others' batch.
                let stuck = || !members.is_empty() && pulls.all_fail(candidates, &open);
                // A stop is no verdict: the batch goes on where it was.
                let halted = self.scope.input.halt.is_some();
                if over && !halted && (full || candidates.is_empty() || stuck()) {
                    self.judge(&open, &members, verdicts);
                    self.status.open_batch = None;
                    Reason::PreparingBatch
                } else {
                    self.fill(self.first.uses, &pulls, &open, candidates, verdicts, plan)
                }
            }
            None if candidates.is_empty() => Reason::PreparingBatch,
            None => match self.stopped(verdicts) {
                Some(stopped) => stopped.reason(&self.compartment.name),
                None => self.open(memory, candidates, plan),
            },
        }
    }

    /// Counts the members' outcomes: the verdict on the batch (upstream contract B.10, with an
    /// erroring node ending its membership).
    fn judge(
        &mut self,
        open: &OpenBatch,
        members: &[(&Node, &Record)],
        verdicts: &BTreeMap<String, Verdict>,
    ) {
        let ended = |outcome| {
            count(members.iter().filter(|(_, record)| record.outcome == Some(outcome)).count())
        };
        let batch = Ended { complete: ended(Outcome::Complete), failed: ended(Outcome::Erroring) };
        let told = self.compartment.told(verdicts);
        let now = outlook::standing(self.scope, self.compartment, &told);
        let state = &mut self.status.batch_state;
        self.compartment.pacing.judge_open(open, state, batch, now);
    }

    /// Returns why the compartment opens no more batches.
    fn stopped(&self, verdicts: &BTreeMap<String, Verdict>) -> Option<Stopped> {
        let is_stopped = self.status.batch_state.should_stop;
        let told = is_stopped.then(|| self.compartment.told(verdicts))?;
        outlook::stopped(self.scope, self.compartment, self.status, &told)
    }

    /// Opens the next batch, if a node of it could be picked.
    fn open(&mut self, memory: &mut Memory, candidates: &[&'a Node], plan: &Plan) -> Reason {
        let scope = self.scope;
        let ceiling = self.compartment.pacing.ceiling();
        let disturbed = self.disturbed(plan);
        if ceiling == 0 {
            return Reason::BudgetZero;
        }
        let free_ride = candidates.iter().any(|node| scope.is_disturbed(node));
        if count(disturbed.len()) >= ceiling && !free_ride {
            return budget_used(ceiling, disturbed);
        }
        let next = self.compartment.pacing.next_batch(&self.status.batch_state);
        let paced = next.min(count(candidates.len()));
        let mut new = candidates.iter().filter_map(|node| self.first.uses.on(node));
        let first = new.next();
        let others = candidates.len() - usize::from(first.is_some()) - new.count();
        let at_work = self.first.uses.at_work(plan);
        let room = self.first.uses.room(&at_work).saturating_sub(*self.first.kept);
        let size = paced.min(count(others).saturating_add(room));
        if size == 0
            && let Some(package) = first
        {
            return first_use(package, at_work);
        }
        if size < paced {
            *self.first.kept = self.first.kept.saturating_add(size);
        }
        self.status.open_batch = Some(OpenBatch {
            target: scope.target.clone(),
            number: self.status.batch_state.current_batch,
            size,
            order_from: memory.order_next,
            given: 0,
            refused: Vec::new(),
            opened: scope.input.now,
            first_use: size < paced,
        });
        memory.order_next = memory.order_next.saturating_add(size);
        memory.timings.started = memory.timings.started.or(Some(scope.input.now));
        memory.timings.completed = None;
        Reason::PreparingBatch
    }

    /// Picks candidates into the open batch, as far as the ceiling has room (design §7).
    fn fill(
        &self,
        uses: &FirstUse<'a>,
        pulls: &Pulls<'_, 'a>,
        open: &OpenBatch,
        candidates: &[&'a Node],
        verdicts: &mut BTreeMap<String, Verdict>,
        plan: &mut Plan,
    ) -> Reason {
        let scope = pulls.scope;
        let ceiling = self.compartment.pacing.ceiling();
        if ceiling == 0 {
            return Reason::BudgetZero;
        }
        // Grows with each pick: what this tick takes is used as well.
        let mut disturbed = self.disturbed(plan);
        let mut room = ceiling.saturating_sub(count(disturbed.len()));
        let first = open.order_from.saturating_add(open.given);
        let further = first..open.order_from.saturating_add(open.size);
        let mut orders = open.refused.iter().copied().chain(further);
        let snapshots_there = scope.rollout.packages.values().all(|package| {
            let name = scope.snapshot_name(package);
            scope.input.observed.snapshots.contains_key(name) || !is_named(scope, package)
        });
        if !snapshots_there {
            return not_created(scope).unwrap_or(Reason::PreparingBatch);
        }
        let mut reason = Reason::WaitingForBatch { batch: open.number };
        let mut taken = open.given.saturating_sub(count(open.refused.len()));
        let mut at_work = uses.at_work(plan);
        for node in pulls.failed_last(in_order(scope, candidates)) {
            let free_ride = scope.is_disturbed(node);
            if room == 0 && !free_ride {
                if taken < open.size {
                    reason = budget_used(ceiling, disturbed);
                }
                break;
            }
            let new = uses.on(node);
            if let Some(package) = new.filter(|_| uses.room(&at_work) == 0) {
                if taken < open.size {
                    let first = first_use(package, at_work.clone());
                    verdicts.insert(node.name.clone(), Verdict::wait(first));
                }
                continue;
            }
            let gate = pulls.gate(node, open);
            if let Some(verdict) = gate.failure(plan) {
                verdicts.insert(node.name.clone(), verdict);
                continue;
            }
            let Some(order) = orders.next() else { break };
            taken += 1;
            if new.is_some() {
                at_work.push(node.name.clone());
            }
            if !free_ride {
                room -= 1;
            }
            if let Some(verdict) = gate.pulling(plan) {
                verdicts.insert(node.name.clone(), verdict);
                continue;
            }
            if !free_ride {
                disturbed.push(node.name.clone());
            }
            let compartment = self.compartment.name.as_str();
            let place = Place { compartment, batch: open.number, order };
            plan.actions.extend(pick(scope, node, &place));
            let picking = Verdict::act(Reason::Picking { batch: open.number });
            verdicts.insert(node.name.clone(), picking);
        }
        let first = || candidates.iter().find_map(|node| uses.on(node));
        match first().filter(|_| open.first_use && taken >= open.size) {
            Some(package) => first_use(package, at_work),
            None => reason,
        }
    }

    /// Returns the nodes that count against the ceiling: those of the compartment, and those that
    /// its batch still has elsewhere; what an earlier rollout picks in this very tick among them.
    fn disturbed(&self, plan: &Plan) -> Vec<String> {
        let picks = plan.actions.iter().filter_map(|action| {
            let Action::PatchNode(patch) = action else { return None };
            matches!(patch.kind, PatchKind::Pick { .. }).then_some(patch.node.as_str())
        });
        let picked: BTreeSet<&str> = picks.collect();
        let counts =
            |node: &Node| self.scope.is_disturbed(node) || picked.contains(node.name.as_str());
        let here = self.compartment.nodes.iter().copied().filter(|node| counts(node));
        let here: Vec<&Node> = here.collect();
        let open = self.status.open_batch.iter();
        let members = open.flat_map(|open| members(self.scope, open));
        let open = members.filter(|(_, record)| record.is_open());
        let known: BTreeSet<&str> = here.iter().map(|node| node.name.as_str()).collect();
        let away = open.map(|(node, _)| node).filter(|node| !known.contains(node.name.as_str()));
        here.iter().copied().chain(away).map(|node| node.name.clone()).collect()
    }

    /// Fills in what people read, and returns what is to come after this tick.
    fn show(&mut self, told: &Told<'_, 'a>) -> Outlook {
        let nodes = &self.compartment.nodes;
        self.status.matched = count(nodes.len());
        self.status.ceiling = self.compartment.pacing.ceiling();
        self.status.completed = told.done();
        let records = self.compartment.records.iter();
        self.status.in_progress = count(records.filter(|(_, record)| record.is_open()).count());
        let hundredfold = self.status.completed.saturating_mul(100);
        self.status.progress_percent = hundredfold.checked_div(self.status.matched).unwrap_or(100);
        if self.status.batch_state.current_batch == 0 {
            self.status.batch_state = BatchState::default();
        }
        let members = self.status.open_batch.as_ref().map(|open| members(self.scope, open));
        let members = members.unwrap_or_default();
        let first = (self.first.uses, &mut *self.first.room);
        let outlook =
            outlook::outlook(self.scope, self.compartment, self.status, &members, told, first);
        self.status.batches_to_come = match outlook.to_come.is_empty() {
            true => String::new(),
            false => outlook.to_come.to_string(),
        };
        outlook
    }
}

fn members<'a>(scope: &Scope<'a>, open: &OpenBatch) -> Vec<(&'a Node, &'a Record)> {
    let orders = open.order_from..open.order_from.saturating_add(open.size);
    let mut members = scope.records_with(orders);
    members.retain(|(_, record)| record.batch == open.number);
    members
}

/// Sorts candidates: those already disturbed first, for they cost nothing; then those
/// that upstream had begun; untouched before
/// failed, the daemon's own node last, nodes without protected pods first, oldest, by name.
fn in_order<'a>(scope: &Scope<'a>, candidates: &[&'a Node]) -> Vec<&'a Node> {
    let mut order = candidates.to_vec();
    order.sort_by_cached_key(|node| {
        (
            !scope.is_disturbed(node),
            !takeover::is_of_running_batch(scope, node),
            scope.record(node).is_some_and(|record| record.outcome == Some(Outcome::Erroring)),
            scope.input.own_node.as_ref() == Some(&node.name),
            !protected_pods(scope, node).is_empty(),
            was_let_go(scope, node),
            node.created,
            node.name.as_str(),
        )
    });
    order
}

/// Returns the order numbers that nodes carry, also those that are not selected any more: none is
/// ever given again.
fn orders_given(scope: &Scope<'_>) -> BTreeSet<u32> {
    let records = scope.records.iter().chain(&scope.elsewhere);
    records.map(|(_, record)| record.order).collect()
}

/// Notes which numbers of a batch are given. They are given in order, and the status remembers how
/// many: a node that left the batch, was picked again, or was reset by a person has burnt its own.
///
/// One that nobody has when a later one is first seen was never had: the API server refused its
/// pick, for a heartbeat that came between. It is given again, and is the place of another node.
fn note_given(carried: &BTreeSet<u32>, open: &mut OpenBatch, refused_max: usize) {
    let numbers = open.order_from..open.order_from.saturating_add(open.size);
    open.refused.retain(|order| !carried.contains(order));
    let Some(last) = carried.range(numbers).next_back() else { return };
    let before = open.order_from.saturating_add(open.given);
    let refused = (before..*last).filter(|order| !carried.contains(order));
    open.refused.extend(refused.take(refused_max.saturating_sub(open.refused.len())));
    open.given = open.given.max((last - open.order_from).saturating_add(1));
}

/// Returns why a snapshot that is wanted cannot be made.
fn not_created(scope: &Scope<'_>) -> Option<Reason> {
    scope.rollout.packages.values().find_map(|package| {
        let name = scope.snapshot_name(package);
        let rejection = scope.input.observed.rejections.get(name)?;
        let (why, since) = (rejection.message.clone(), rejection.since);
        Some(Reason::NotCreated { object: format!("configmap {name}"), why, since })
    })
}

fn budget_used(ceiling: u32, nodes: Vec<String>) -> Reason {
    Reason::BudgetUsed { ceiling, nodes: nodes.into() }
}

fn first_use(package: &Package, nodes: Vec<String>) -> Reason {
    Reason::FirstUse { package: package.id(), nodes: nodes.into() }
}

fn finish_timing(scope: &Scope<'_>, memory: &mut Memory, complete: bool) {
    if !complete {
        memory.timings.completed = None;
    } else if memory.timings.started.is_some() && memory.timings.completed.is_none() {
        memory.timings.completed = Some(scope.input.now);
    }
}
