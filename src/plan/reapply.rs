//! Applied again after a reboot, where the cluster asks for it (`--reapply-on-reboot`).
//!
//! For hosts that forget at each boot what was put on them. A record keeps the boot in which the
//! host got what it has; another one, and only that, makes every package due again from `apply`,
//! paced like any change. Our own reboots move that boot along, so they are none of this.
//!
//! Differs from upstream, which applies again after its own reboot interrupts too, and interrupts
//! again: here the second reboot of a boot that nobody else caused cannot happen, because a reboot
//! that has just been is not owed again. At most once per boot ID (failures C13).

use super::due::{self, Need, Needs};
use super::select::Scope;
use super::visit::{Draft, hold};
use crate::model::{
    Entries, Entry, Input, Interrupt, InterruptKind, Node, Package, Resource, Rollout, Stage, State,
};

/// Returns whether the node was rebooted by somebody else since its packages were put there.
///
/// A node that was never visited by this daemon has no boot to compare with: its first visit
/// records one.
pub(crate) fn is_due(input: &Input, rollout: &Rollout, resource: &Resource, node: &Node) -> bool {
    if !input.rules.reapply_on_reboot || node.boot_id.is_empty() {
        return false;
    }
    let record = node.record(&rollout.name, &resource.uid).filter(|record| !record.is_open());
    let boot = record.and_then(|record| record.boot_last.as_ref());
    boot.is_some_and(|boot| *boot != node.boot_id)
}

/// Returns what is due on a node that was rebooted; `None` where nothing is for that reason.
pub(crate) fn needs<'a>(scope: &Scope<'a>, node: &'a Node) -> Option<Needs<'a>> {
    if !is_due(scope.input, scope.rollout, scope.resource, node) {
        return None;
    }
    let entries = scope.entries(node);
    let mut left = entries.clone();
    forget_other_versions(scope, &mut left);
    let needs = due::needs(scope, &left, scope.record(node));
    let mut needs: Needs<'a> =
        needs.into_iter().filter_map(|(name, need)| on_host(scope, entries, name, need)).collect();
    for (package, entry) in lost(scope, entries) {
        let due = needs.remove(package.name.as_str()).and_then(|need| need.interrupt);
        let interrupt = if entry.is(Stage::PostInterrupt, State::Complete) {
            Interrupt::merge(due.iter().chain(&without_reboot(package)))
        } else {
            due
        };
        let version = package.version.as_str();
        let need = Need { version, stage: Stage::Apply, interrupt, begun: true };
        needs.insert(&package.name, need);
    }
    Some(needs)
}

/// Returns the same need, named as the node's own entries or the wanted package name it.
fn on_host<'a>(
    scope: &Scope<'a>,
    entries: &'a Entries,
    name: &str,
    need: Need<'_>,
) -> Option<(&'a str, Need<'a>)> {
    let Need { version, stage, interrupt, begun } = need;
    let mut known = entries.keys().filter(|id| id.name == name && id.version == version);
    let known = known.next().map(|id| (id.name.as_str(), id.version.as_str()));
    let wanted = scope.rollout.packages.get(name);
    let wanted = wanted.map(|wanted| (wanted.name.as_str(), wanted.version.as_str()));
    let (name, version) = known.or(wanted)?;
    Some((name, Need { version, stage, interrupt, begun }))
}

/// Begins everything that the reboot took away, in the record of a pick.
pub(crate) fn begin<'a>(scope: &Scope<'a>, node: &'a Node, draft: &mut Draft) {
    let Some(needs) = needs(scope, node) else { return };
    forget_other_versions(scope, &mut draft.entries);
    for (package, before) in lost(scope, scope.entries(node)) {
        let Some(need) = needs.get(package.name.as_str()) else { continue };
        let entry = Entry {
            stage: need.stage,
            state: State::InProgress,
            restarts: None,
            untried: false,
            snapshot: Some(scope.snapshot_name(package).to_owned()),
            since: Some(scope.input.now),
            image: package.image.clone(),
            container_sha: package.container_sha.clone(),
            ..before.clone()
        };
        draft.entries.insert(package.id(), entry);
        if let Some(interrupt) = &need.interrupt {
            draft.record.interrupts_due.insert(package.name.clone(), interrupt.clone());
            hold(scope, node, &mut draft.record);
        }
    }
}

/// Other versions of what is wanted are gone from the host as well: there is nothing to upgrade
/// from, and nothing to uninstall first.
fn forget_other_versions(scope: &Scope<'_>, entries: &mut Entries) {
    entries.retain(|id, _| {
        let wanted = scope.rollout.packages.get(&id.name).filter(|it| !it.uninstall.apply);
        wanted.is_none_or(|wanted| wanted.version.as_str() == id.version)
    });
}

/// Returns, for people, why everything is applied again.
pub(crate) fn because<'a>(scope: &Scope<'a>, node: &'a Node) -> Option<String> {
    let due = is_due(scope.input, scope.rollout, scope.resource, node);
    let boot = scope.record(node)?.boot_last.as_ref().filter(|_| due)?;
    let now = &node.boot_id;
    Some(format!("rebooted since, boot ID {boot} became {now}: everything is applied again"))
}

/// Returns the wanted packages that had come onto the host, whole or in part.
fn lost<'a>(scope: &Scope<'a>, entries: &'a Entries) -> Vec<(&'a Package, &'a Entry)> {
    let wanted = scope.rollout.packages.values().filter(|package| !package.uninstall.apply);
    let known = wanted.filter_map(|package| Some((package, entries.get(&package.id())?)));
    known
        .filter(|(_, entry)| match entry.stage {
            Stage::Apply
            | Stage::Upgrade
            | Stage::Config
            | Stage::Interrupt
            | Stage::PostInterrupt => true,
            Stage::Uninstall | Stage::UninstallInterrupt => false,
        })
        .collect()
}

/// A reboot has just been: it is not owed again. On a host that forgets, it would undo its own
/// work; on one that does not, the package's marker of the interrupt is still there, and nothing
/// would happen for the reboot to be proven by.
fn without_reboot(package: &Package) -> Option<Interrupt> {
    package.interrupt.clone().filter(|interrupt| interrupt.kind != InterruptKind::Reboot)
}
