//! What must hold, one function each (design §11). They know the world as it is and nothing of how
//! the planner reaches its decisions; they share no code with it or with its audit.

use std::collections::{BTreeMap, BTreeSet};

use nodewright::model::{
    Action, CordonMark, ExecutorSpec, Node, NodePatch, Outcome, PatchKind, Phase, Pod, PodPhase,
    Record, Rollout, Stage, Work,
};
use nodewright::plan::world::World;

use super::ceilings::{ceilings, picks_from_the_open_batch};
use super::floor::{first_ones_first, stopped_disturbs_nobody, unapproved_pick_nobody};
use super::ledger::Ledger;
use super::places;
use super::story::Broken;

type Held = Result<(), Broken>;

/// Looks at one action right before it is carried out.
pub fn judge(world: &World, ledger: &Ledger, action: &Action) -> Held {
    stopped_disturbs_nobody(world, action)?;
    match action {
        Action::PatchNode(patch) => {
            foreign_cordons_stay(world, patch)?;
            boot_id_comes_first(world, patch)?;
            if let Some(record) = picks(world, patch) {
                ceilings(world, patch)?;
                picks_from_the_open_batch(world, patch, record)?;
                picks_where_it_may(world, patch)?;
                first_ones_first(world, patch)?;
                unapproved_pick_nobody(world, patch)?;
                orders_are_new(world, ledger, patch, record)?;
            }
            Ok(())
        }
        Action::Evict(eviction) => {
            evicts_where_held(world, &eviction.rollout, &eviction.node, &eviction.pod.uid)
        }
        Action::CreateExecutor(spec) => {
            works_for_the_open_visit(world, spec)?;
            starts_where_it_may(world, spec)?;
            held(world, spec)?;
            pods_gone(world, spec)?;
            uninstalls_what_is_there(world, ledger, spec)?;
            order(world, ledger, spec)
        }
        Action::CreateSnapshot(_)
        | Action::DeleteSnapshot(_)
        | Action::WriteStatus(_)
        | Action::WriteNodeMetadata(_)
        | Action::DeleteExecutors { .. }
        | Action::PatchTaints(_)
        | Action::SetFinalizer(_)
        | Action::CleanNode(_)
        | Action::DeleteUpstreamWork { .. }
        | Action::DeleteExecutor { .. } => Ok(()),
    }
}

/// Looks at the world after each event.
pub fn check(world: &World, ledger: &Ledger) -> Held {
    one_executor(world)?;
    one_reboot(world, ledger)?;
    orders_are_unique(world, ledger)?;
    let_go_without_mark(world, ledger)
}

fn record<'a>(world: &'a World, rollout: &str, node: &'a Node) -> Option<&'a Record> {
    let resource = world.input.observed.resources.get(rollout)?;
    node.record(rollout, &resource.uid)
}

fn open<'a>(world: &'a World, rollout: &str, node: &'a Node) -> Option<&'a Record> {
    record(world, rollout, node).filter(|record| record.is_open())
}

/// Returns the record that a pick begins.
pub fn picks<'a>(world: &World, patch: &'a NodePatch) -> Option<&'a Record> {
    let node = world.input.observed.nodes.get(&patch.node)?;
    let begun = patch.record.as_ref()?;
    let known = record(world, &patch.rollout, node).map(|record| record.visit);
    let begins = begun.outcome.is_none() && known != Some(begun.visit);
    (matches!(patch.kind, PatchKind::Pick { .. }) && begins).then_some(begun)
}

fn is_worked_on(world: &World, node: &Node) -> bool {
    node.rollouts.keys().any(|rollout| open(world, rollout, node).is_some())
}

/// Returns whether a pick takes something off the host.
fn uninstalls(patch: &NodePatch) -> bool {
    let mut entries = patch.entries.iter().flat_map(|entries| entries.values());
    entries.any(|entry| matches!(entry.stage, Stage::Uninstall | Stage::UninstallInterrupt))
}

/// Nobody is picked who is ignored, worked on by others, or of a resource that is held.
fn picks_where_it_may(world: &World, patch: &NodePatch) -> Held {
    if world.is_behind() {
        return Ok(());
    }
    let node = &world.input.observed.nodes[&patch.node];
    let resource = &world.input.observed.resources[&patch.rollout];
    let wanted = &world.input.desired.rollouts[&patch.rollout];
    let tainted = node.taints.iter().any(|taint| taint.key == "dedicated");
    let because = [
        (node.ignored, "ignored"),
        (node.deleting, "being deleted"),
        (!node.ready, "not ready"),
        (tainted, "tainted"),
        (!wanted.selects(&node.labels), "not selected"),
        (resource.paused, "of a paused resource"),
        (resource.disabled, "of a disabled resource"),
        (resource.deleting && !uninstalls(patch), "of a resource that is being deleted"),
        (is_worked_on(world, node), "visited already"),
        // A revision that is being applied may wait for this very deletion.
        (world.input.opening.contains_key(&patch.rollout) && !resource.deleting, "held"),
    ];
    match because.iter().find(|(holds, _)| *holds) {
        Some((_, why)) => {
            Err(Broken::new("picks where it may", format!("{} is {why}", patch.node)))
        }
        None => Ok(()),
    }
}

/// No order number is handed out twice: not while a node has it, nor after the status has noted
/// that it is given, whatever became of the node. What a person wipes before leaves no trace.
fn orders_are_new(world: &World, ledger: &Ledger, patch: &NodePatch, begun: &Record) -> Held {
    let order = (begun.cr_uid.clone(), begun.order);
    let own = (patch.node_uid.clone(), begun.visit);
    let Some(given) = ledger.orders.get(&order).filter(|given| **given != own) else {
        return Ok(());
    };
    let mut nodes = world.input.observed.nodes.values();
    let carried = nodes.any(|node| {
        record(world, &patch.rollout, node).is_some_and(|record| record.order == begun.order)
    });
    if !carried && !ledger.noted.contains(&order) {
        return Ok(());
    }
    let detail = format!("{} gets {} of {}", patch.node, begun.order, given.0);
    Err(Broken::new("orders are new", detail))
}

/// A cordon that others set is never lifted.
fn foreign_cordons_stay(world: &World, patch: &NodePatch) -> Held {
    let node = world.input.observed.nodes.get(&patch.node);
    let lifts = patch.unschedulable == Some(false) && node.is_some_and(|node| node.unschedulable);
    if lifts && world.foreign.contains(&patch.node) {
        return Err(Broken::new("foreign cordons stay", patch.node.clone()));
    }
    let others = node.into_iter().flat_map(|node| &node.cordons).any(|mark| match mark {
        CordonMark::Rollout(name) => *name != patch.rollout,
        CordonMark::RuntimeRequired => true,
    });
    if lifts && others {
        let detail = format!("{} has another mark", patch.node);
        return Err(Broken::new("foreign cordons stay", detail));
    }
    Ok(())
}

/// The boot ID before an interrupt is on record with it.
fn boot_id_comes_first(world: &World, patch: &NodePatch) -> Held {
    let Some(node) = world.input.observed.nodes.get(&patch.node) else { return Ok(()) };
    let Some(after) = &patch.record else { return Ok(()) };
    let before = record(world, &patch.rollout, node).map(|record| record.phase);
    let begins = after.phase == Phase::Interrupting && before != Some(Phase::Interrupting);
    let known = after.boot_before.as_ref() == Some(&node.boot_id);
    if begins && !known && !world.is_behind() {
        return Err(Broken::new("boot ID comes first", patch.node.clone()));
    }
    Ok(())
}

/// Pods are moved only off a node that was read back as unschedulable and that we hold, and none
/// while a protected one runs; one that is going is not asked again.
fn evicts_where_held(world: &World, rollout: &str, node: &str, uid: &str) -> Held {
    let Some(node) = world.input.observed.nodes.get(node) else { return Ok(()) };
    let holds = open(world, rollout, node).is_some_and(|record| record.held);
    let cordoned = node.unschedulable || world.is_behind();
    let pod = pods_on(world, node).find(|pod| pod.reference.uid == uid);
    let rule = "evicts where held";
    if !holds || !cordoned {
        return Err(Broken::new(rule, format!("{} is not held", node.name)));
    }
    if world.is_behind() {
        return Ok(());
    }
    if pod.is_some_and(|pod| pod.terminating) {
        return Err(Broken::new(rule, format!("pod {uid} is going already")));
    }
    let wanted = &world.input.desired.rollouts[rollout];
    if let Some(pod) = pods_on(world, node).find(|pod| is_protected(wanted, pod)) {
        return Err(Broken::new(rule, format!("protected {} runs there", pod.reference)));
    }
    Ok(())
}

/// An executor works for the visit that is open on the very node.
fn works_for_the_open_visit(world: &World, spec: &ExecutorSpec) -> Held {
    let node = world.input.observed.nodes.get(&spec.visit.node);
    let Some(node) = node else { return Ok(()) };
    if spec.work.group() == nodewright::model::Group::Pull || world.is_behind() {
        return Ok(());
    }
    let visit = open(world, &spec.visit.rollout, node).map(|record| record.visit);
    if node.uid != spec.visit.node_uid || visit != Some(spec.visit.visit) {
        let detail = format!("{} has no visit {}", node.name, spec.visit.visit);
        return Err(Broken::new("works for the open visit", detail));
    }
    Ok(())
}

/// Nothing starts for a paused or disabled resource, or on a node that is not ready.
fn starts_where_it_may(world: &World, spec: &ExecutorSpec) -> Held {
    let resource = world.input.observed.resources.get(&spec.visit.rollout);
    let node = world.input.observed.nodes.get(&spec.visit.node);
    let (Some(resource), Some(node), false) = (resource, node, world.is_behind()) else {
        return Ok(());
    };
    if resource.paused || resource.disabled || !node.ready {
        let detail = format!("{} on {}", spec.work.package_id(), node.name);
        return Err(Broken::new("starts where it may", detail));
    }
    Ok(())
}

/// No interrupt and no interrupting package on a node that is not held by us.
fn held(world: &World, spec: &ExecutorSpec) -> Held {
    let node = world.input.observed.nodes.get(&spec.visit.node);
    let Some(node) = node.filter(|_| disturbs(world, spec)) else { return Ok(()) };
    // What a daemon that lags has read may have been taken away by a person since.
    let record = open(world, &spec.visit.rollout, node);
    let holds = record.map_or(world.is_behind(), |record| record.held);
    if holds && (node.unschedulable || world.is_behind()) {
        return Ok(());
    }
    Err(Broken::new("held", format!("{} on {}", spec.work.package_id(), node.name)))
}

/// No interrupt while a pod that must finish or leave is there.
fn pods_gone(world: &World, spec: &ExecutorSpec) -> Held {
    let node = world.input.observed.nodes.get(&spec.visit.node);
    let wanted = world.input.desired.rollouts.get(&spec.visit.rollout);
    let (Some(node), Some(wanted), false) = (node, wanted, world.is_behind()) else {
        return Ok(());
    };
    let stays = pods_on(world, node).find(|pod| must_leave(wanted, pod));
    match stays.filter(|_| disturbs(world, spec)) {
        Some(pod) => {
            Err(Broken::new("pods gone", format!("{} is on {}", pod.reference, node.name)))
        }
        None => Ok(()),
    }
}

/// Returns whether an executor interrupts, or belongs to a package that will.
fn disturbs(world: &World, spec: &ExecutorSpec) -> bool {
    let node = world.input.observed.nodes.get(&spec.visit.node);
    let record = node.and_then(|node| open(world, &spec.visit.rollout, node));
    let owed =
        record.is_some_and(|record| record.interrupts_due.contains_key(&spec.work.package().name));
    matches!(spec.work, Work::Interrupt { .. }) || owed
}

fn pods_on<'a>(world: &'a World, node: &Node) -> impl Iterator<Item = &'a Pod> {
    world.input.observed.pods.get(&node.name).into_iter().flat_map(BTreeMap::values)
}

fn is_protected(wanted: &Rollout, pod: &Pod) -> bool {
    let runs = matches!(pod.phase, PodPhase::Pending | PodPhase::Running);
    runs && !pod.executor && wanted.protects(&pod.labels)
}

/// What a drain moves or waits for, written down once more (upstream contract B.6).
fn must_leave(wanted: &Rollout, pod: &Pod) -> bool {
    let daemon_set = pod.controller.as_ref().is_some_and(|owner| owner.kind == "DaemonSet");
    let over = matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
    let stays = pod.mirror
        || pod.executor
        || pod.tolerates_unschedulable
        || pod.reference.namespace == "kube-system"
        || (daemon_set && wanted.drain.ignore_daemon_sets);
    is_protected(wanted, pod) || (!over && !stays)
}

/// An uninstall runs with the version and the configuration that the host has, whatever is wanted.
fn uninstalls_what_is_there(world: &World, ledger: &Ledger, spec: &ExecutorSpec) -> Held {
    let Work::Uninstall { package } = &spec.work else { return Ok(()) };
    let host = ledger.hosts.get(&spec.visit.node_uid);
    let Some(installed) = host.and_then(|host| host.get(&package.name)) else { return Ok(()) };
    let same = installed.config.as_ref().is_none_or(|config| *config == package.config_map);
    let config = same || installed.forgotten;
    // What an upgrade that failed has left is the newer version's to take off.
    let tried = ledger.tried.get(&(spec.visit.node_uid.clone(), package.name.clone()));
    let tried = tried.filter(|tried| **tried != installed.version);
    let version = tried.unwrap_or(&installed.version);
    let right = version == package.version.as_str() && (config || tried.is_some());
    if right || world.is_behind() {
        return Ok(());
    }
    let there = format!("{installed:?} is, and {tried:?} was tried");
    let detail = format!("{} on {}, where {there}", package.id(), spec.visit.node);
    Err(Broken::new("uninstalls what is there", detail))
}

/// No stage before its predecessor ran on the host, no package before its dependencies.
fn order(world: &World, ledger: &Ledger, spec: &ExecutorSpec) -> Held {
    let nothing = BTreeMap::new();
    let host = ledger.hosts.get(&spec.visit.node_uid).unwrap_or(&nothing);
    let package = spec.work.package();
    let version = package.version.as_str();
    let installed = host.get(&package.name).filter(|installed| installed.version == version);
    let (Work::Install { stages, .. }, true) = (&spec.work, !world.is_behind()) else {
        let configured = installed.is_some_and(|installed| installed.config.is_some());
        // Whose host was exchanged since is not known to a daemon that is behind.
        if matches!(spec.work, Work::Verify { .. }) && !configured && !world.is_behind() {
            let detail = format!("post-interrupt of {} unconfigured", package.id());
            return Err(Broken::new("order", detail));
        }
        return Ok(());
    };
    if stages.first() == Some(&Stage::Config) && installed.is_none() {
        let detail = format!("config of {} on {}", package.id(), spec.visit.node);
        return Err(Broken::new("order", detail));
    }
    let wanted = world.input.desired.rollouts[&spec.visit.rollout].packages.get(&package.name);
    let wanted = wanted.filter(|wanted| wanted.version.as_str() == version);
    // What it waits for is what the manifest says now, also where its own snapshot is older.
    for (parent, version) in &wanted.unwrap_or(package).depends_on {
        let there = host
            .get(parent)
            .is_some_and(|installed| installed.version == *version && installed.config.is_some());
        if !there {
            let detail = format!("{} before {parent} on {}", package.id(), spec.visit.node);
            return Err(Broken::new("order", detail));
        }
    }
    Ok(())
}

/// At most one executor per package, and nothing beside an interrupt, on a node.
fn one_executor(world: &World) -> Held {
    let mut seen: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    let mut busy: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for executor in world.input.observed.executors.values() {
        if !executor.is_active() || executor.group == nodewright::model::Group::Pull {
            continue;
        }
        let node = executor.visit.node.as_str();
        let (interrupts, all) = busy.entry(node).or_default();
        *all += 1;
        *interrupts += usize::from(executor.group == nodewright::model::Group::Interrupt);
        let fresh = seen.insert((node, &executor.visit.rollout, &executor.package.name));
        if !fresh || (*interrupts > 0 && *all > 1) {
            let detail = format!("{} on {node}", executor.package);
            return Err(Broken::new("one executor", detail));
        }
    }
    Ok(())
}

/// Exactly one reboot per interrupt, and none without one on record.
fn one_reboot(world: &World, ledger: &Ledger) -> Held {
    for (key, count) in &world.issued {
        let recorded = ledger.interrupts.get(key).map_or(0, BTreeSet::len);
        if *count as usize > recorded {
            let detail = format!("{count} for visit {} of {} to {}", key.2, key.1, key.0);
            return Err(Broken::new("one reboot", detail));
        }
    }
    Ok(())
}

/// Order numbers are unique within a rollout, and a visit keeps its own.
fn orders_are_unique(world: &World, ledger: &Ledger) -> Held {
    let mut seen = BTreeSet::new();
    for node in world.input.observed.nodes.values() {
        for name in node.rollouts.keys() {
            let Some(record) = record(world, name, node) else { continue };
            if !seen.insert((name, record.order)) {
                let detail = format!("{} of {name} twice, on {}", record.order, node.name);
                return Err(Broken::new("orders are unique", detail));
            }
            let visit = (record.cr_uid.clone(), node.uid.clone(), record.visit);
            if ledger.visits.get(&visit).is_some_and(|first| *first != record.order) {
                let detail = format!("{} changed on {}", record.order, node.name);
                return Err(Broken::new("orders are stable", detail));
            }
        }
    }
    Ok(())
}

/// A node that was let go does not carry our mark.
fn let_go_without_mark(world: &World, ledger: &Ledger) -> Held {
    for node in world.input.observed.nodes.values() {
        for mark in &node.cordons {
            let CordonMark::Rollout(name) = mark else { continue };
            let Some(record) = record(world, name, node) else { continue };
            let let_go = matches!(record.outcome, Some(Outcome::Complete | Outcome::Released));
            let visit = (node.uid.clone(), name.clone(), record.visit);
            if let_go && !ledger.retried.contains(&visit) {
                return Err(Broken::new("let go without mark", node.name.clone()));
            }
        }
    }
    Ok(())
}

/// The counts in the status equal the world's, once the planner has come to rest.
pub fn counts(world: &World) -> Held {
    for (name, resource) in &world.input.observed.resources {
        let (Some(status), Some(wanted)) =
            (&resource.status, world.input.desired.rollouts.get(name))
        else {
            continue;
        };
        let nodes = world.input.observed.nodes.values();
        let total = nodes.filter(|node| wanted.selects(&node.labels)).count();
        if status.nodes_total as usize != total {
            let detail = format!("{name} shows {} of {total} nodes", status.nodes_total);
            return Err(Broken::new("counts", detail));
        }
        let compartments = &status.memory.compartments;
        let of = |compartment: &str| compartments.get(compartment).cloned().unwrap_or_default();
        let matched: u32 = compartments.values().map(|all| all.matched).sum();
        for (compartment, nodes) in places::compartments(world, wanted) {
            let shown = of(compartment);
            let working = nodes.iter().filter(|node| open(world, name, node).is_some()).count();
            let right = shown.matched as usize == nodes.len()
                && shown.in_progress as usize == working
                && shown.completed <= shown.matched;
            // Without its policy, nobody knows who is where.
            let blind = wanted.policy.as_ref();
            let blind = blind.is_some_and(|it| !world.input.desired.policies.contains_key(it));
            if (!right && !blind) || matched as usize != total {
                let (there, shown) = (nodes.len(), (shown.matched, shown.in_progress));
                let detail = format!(
                    "{name}, {compartment} shows {shown:?} of {there} nodes, {working} working"
                );
                return Err(Broken::new("counts", detail));
            }
        }
    }
    Ok(())
}
