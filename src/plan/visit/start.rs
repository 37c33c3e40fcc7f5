//! Starts what the record says is begun: moves pods, creates executors, waits out back-offs.

use super::super::drain::{Drain, drain};
use super::super::due::{self, Standing};
use super::super::lifecycle::{Seen, Step};
use super::super::limits::{REBOOT_DEADLINE, after};
use super::super::wake;
use super::advance::given_up;
use super::seen::{active, seen};
use super::watch::{backing_off, replace_stuck, running};
use super::{Visit, attempt_key};
use crate::model::{
    Action, Entry, ExecutorSpec, Group, Interrupt, InterruptKind, InterruptRecord, Package, Phase,
    Plan, Reason, Stage, Verdict, VerdictKind, Work,
};

/// Starts what may start now, and says what the node does or waits for.
pub(crate) fn start(visit: &Visit<'_>, plan: &mut Plan) -> Verdict {
    let scope = visit.scope;
    let mut verdicts = Vec::new();
    let mut known = None;
    let given_up = given_up(visit, scope.entries(visit.node), visit.record);
    for standing in due::standings(scope, scope.entries(visit.node), Some(visit.record)) {
        let seen = seen(scope, visit.node, visit.record, &standing);
        let step = standing.step(seen);
        let verdict = if let (Step::Start(group), Some(entry)) = (step, standing.entry) {
            if given_up {
                continue;
            } else if group == Group::Interrupt {
                start_interrupt(visit, entry, plan)
            } else {
                start_package(visit, entry, group, &mut known, plan)
            }
        } else if matches!(step, Step::Await | Step::Replace) {
            await_executor(visit, &standing, standing.entry, plan)
        } else if step == Step::AwaitInterrupt && seen == Seen::InterruptIssued {
            interrupt_issued(visit, plan)
        } else if step == Step::AwaitInterrupt && seen != Seen::InterruptElsewhere {
            await_interrupt(visit, &mut known, plan)
        } else if let Step::Finding(finding) = step {
            due::finding(&standing, finding)
        } else {
            continue;
        };
        verdicts.push(verdict);
    }
    verdicts.sort_by_key(|verdict| verdict.kind);
    let missing_snapshot = Verdict::wait(Reason::PreparingBatch);
    verdicts.into_iter().next().unwrap_or(missing_snapshot)
}

/// Watches the executor of a package, and takes away one that is not wanted and cannot start.
fn await_executor(
    visit: &Visit<'_>,
    standing: &Standing<'_>,
    entry: Option<&Entry>,
    plan: &mut Plan,
) -> Verdict {
    let Some(executor) = active(visit.scope, visit.node, standing.name) else {
        return Verdict::wait(Reason::PreparingBatch);
    };
    replace_stuck(executor, entry, plan);
    let Some(entry) = entry else {
        let (package, since) = (executor.package.clone(), executor.created);
        let stage = executor.running.unwrap_or(Stage::Config);
        return Verdict::wait(Reason::Running { package, stage, since });
    };
    running(visit, executor, entry, plan)
}

/// What the drain waits for, worked out at most once a tick.
type Drained = Option<Option<Verdict>>;

/// Returns why the interrupting packages of this node must still wait, and moves pods.
fn undrained(visit: &Visit<'_>, known: &mut Drained, plan: &mut Plan) -> Option<Verdict> {
    if known.is_none() {
        *known = Some(match drain(visit.scope, visit.node, visit.record) {
            Drain::Clear => None,
            Drain::Wait(waiting) => {
                plan.actions.extend(waiting.evictions);
                if let Some(at) = waiting.wake_at {
                    wake(plan, at);
                }
                Some(waiting.verdict)
            }
        });
    }
    known.clone().flatten()
}

fn start_package(
    visit: &Visit<'_>,
    entry: &Entry,
    group: Group,
    known: &mut Drained,
    plan: &mut Plan,
) -> Verdict {
    if let Some(verdict) = awaiting_turn(visit, entry, plan) {
        return verdict;
    }
    if let Some(verdict) = awaiting_parent(visit, entry) {
        return verdict;
    }
    let interrupting = visit.record.interrupts_due.contains_key(&entry.name);
    if interrupting && let Some(verdict) = undrained(visit, known, plan) {
        return verdict;
    }
    if let Some(verdict) = backing_off(visit, entry, group, plan) {
        return verdict;
    }
    let Some(package) = package_of(visit, entry) else {
        return without_snapshot(visit, entry);
    };
    let work = match entry.stage {
        Stage::PostInterrupt => Work::Verify { package },
        Stage::Uninstall | Stage::UninstallInterrupt => Work::Uninstall { package },
        Stage::Config => Work::Install { package, stages: vec![Stage::Config] },
        Stage::Apply | Stage::Upgrade | Stage::Interrupt => {
            Work::Install { package, stages: vec![entry.stage, Stage::Config] }
        }
    };
    create(visit, entry, work, plan)
}

/// With `serial` one package runs at a time, also where several go on after a shared interrupt.
fn awaiting_turn(visit: &Visit<'_>, entry: &Entry, plan: &Plan) -> Option<Verdict> {
    let rollout = visit.scope.rollout;
    if !rollout.serial {
        return None;
    }
    let runs = visit
        .active
        .iter()
        .filter(|executor| executor.visit.rollout == rollout.name && executor.group != Group::Pull);
    let starts = plan.actions.iter().filter_map(|action| {
        let Action::CreateExecutor(spec) = action else { return None };
        let here = spec.visit.rollout == rollout.name && spec.visit.node == visit.node.name;
        here.then(|| spec.work.package().name.as_str())
    });
    let mut first = runs.map(|executor| executor.package.name.as_str()).chain(starts);
    let on = first.find(|name| *name != entry.name)?.to_owned();
    Some(Verdict::wait(Reason::WaitingForPackage { package: entry.name.clone(), on }))
}

/// Returns what a package waits for whose parent became due again after it had begun.
fn awaiting_parent(visit: &Visit<'_>, entry: &Entry) -> Option<Verdict> {
    let package = visit.scope.rollout.package(&entry.id())?;
    if entry.stage == Stage::PostInterrupt {
        return None;
    }
    let needs = visit.scope.needs(visit.node);
    let ready = due::ready(visit.scope.rollout, &needs, visit.scope.entries(visit.node));
    if ready.contains(&entry.name.as_str()) {
        return None;
    }
    let on = package.depends_on.keys().map(String::as_str);
    let on = on.filter(|parent| needs.contains_key(parent)).chain(needs.keys().copied()).next();
    let on = on.unwrap_or_default().to_owned();
    Some(Verdict::wait(Reason::WaitingForPackage { package: entry.name.clone(), on }))
}

/// Waits for the other packages, and for the node, before the interrupt is recorded as begun.
fn await_interrupt(visit: &Visit<'_>, known: &mut Drained, plan: &mut Plan) -> Verdict {
    if let Some(verdict) = undrained(visit, known, plan) {
        return verdict;
    }
    match visit.active.first() {
        Some(executor) => Verdict::wait(Reason::Running {
            package: executor.package.clone(),
            stage: executor.running.unwrap_or(Stage::Config),
            since: executor.created,
        }),
        None => Verdict::wait(Reason::Recording { group: Group::Install }),
    }
}

/// Says what an interrupt that was issued waits for.
fn interrupt_issued(visit: &Visit<'_>, plan: &mut Plan) -> Verdict {
    let Some(InterruptRecord { kind, since, .. }) = visit.record.interrupt else {
        return Verdict::wait(Reason::Recording { group: Group::Interrupt });
    };
    match kind {
        InterruptKind::Reboot => {
            wake(plan, after(since, REBOOT_DEADLINE));
            Verdict::wait(Reason::Rebooting { since })
        }
        InterruptKind::RestartAllServices | InterruptKind::Service | InterruptKind::Noop => {
            Verdict::wait(Reason::Interrupting { kind, since })
        }
    }
}

fn start_interrupt(visit: &Visit<'_>, entry: &Entry, plan: &mut Plan) -> Verdict {
    let Some(InterruptRecord { kind, services, .. }) = visit.record.interrupt.clone() else {
        return Verdict::wait(Reason::Recording { group: Group::Interrupt });
    };
    if !visit.node.ready {
        return Verdict::wait(Reason::NodeNotReady { since: visit.node.ready_since });
    }
    if let Some(executor) = visit.active.first() {
        return running(visit, executor, entry, plan);
    }
    let mut known = None;
    if let Some(verdict) = undrained(visit, &mut known, plan) {
        return verdict;
    }
    if let Some(verdict) = backing_off(visit, entry, Group::Interrupt, plan) {
        return verdict;
    }
    let Some(package) = package_of(visit, entry) else {
        return without_snapshot(visit, entry);
    };
    let interrupt = Interrupt { kind, services };
    create(visit, entry, Work::Interrupt { package, interrupt }, plan)
}

/// Returns the package as it is being put on the node: from its snapshot.
fn package_of(visit: &Visit<'_>, entry: &Entry) -> Option<Package> {
    let name = entry.snapshot.as_ref()?;
    let snapshot = visit.scope.input.observed.snapshots.get(name)?;
    Some(snapshot.package.clone())
}

/// A snapshot that is still wanted is made again; one of an older target that somebody deleted is
/// not, and what it held is not known.
fn without_snapshot(visit: &Visit<'_>, entry: &Entry) -> Verdict {
    let rollout = visit.scope.rollout;
    let wanted = rollout.package(&entry.id()).map(|package| visit.scope.snapshot_name(package));
    if entry.snapshot.is_some() && entry.snapshot.as_deref() == wanted {
        return Verdict::wait(Reason::PreparingBatch);
    }
    let why = match &entry.snapshot {
        Some(name) => format!("{} needs the ConfigMap {name}, which is gone", entry.id()),
        None => format!("{} names no snapshot to go on with", entry.id()),
    };
    Verdict::blocked(Reason::MalformedState { why })
}

fn recorded_attempts(visit: &Visit<'_>, group: Group, entry: &Entry) -> u32 {
    let key = attempt_key(group, &entry.name);
    visit.record.attempts.get(&key).copied().unwrap_or(0)
}

fn create(visit: &Visit<'_>, entry: &Entry, work: Work, plan: &mut Plan) -> Verdict {
    debug_assert!(visit.record.phase != Phase::Released, "a released visit starts nothing");
    let attempt = recorded_attempts(visit, work.group(), entry).saturating_add(1);
    plan.actions.push(Action::CreateExecutor(ExecutorSpec {
        visit: visit.visit_ref(),
        rollout_uid: visit.scope.resource.uid.clone(),
        generation: visit.record.generation,
        order: visit.record.order,
        attempt,
        snapshot: entry.snapshot.clone().unwrap_or_default(),
        work,
        tolerations: visit.scope.rollout.tolerations.clone(),
    }));
    let package = entry.id();
    Verdict {
        kind: VerdictKind::Act,
        reason: Reason::Starting { package, stage: entry.stage, attempt },
    }
}
