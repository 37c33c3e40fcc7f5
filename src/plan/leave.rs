//! A node that leaves a visit before its end: it is not eligible any more, or another host.
//!
//! What runs ends first, and what ended is recorded; then the visit is closed as released, which is
//! no failure, its batch goes on without it, and our cordon goes (design §7, failures D3). Nothing
//! new is started meanwhile. When the node is eligible again it is picked again and goes on.

use super::limits::{MESSAGE_BYTES_MAX, REBOOT_DEADLINE, after, cut};
use super::taints;
use super::visit::{Draft, Visit};
use super::wake;
use crate::model::{Action, InterruptKind, Node, Outcome, Phase, Plan, Reason, Record, Verdict};

/// Losses of the host to our own reboots in a row after which a visit ends as a failure.
const HOSTS_LOST_MAX: u32 = 2;

/// Why a node leaves its visit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Leaving {
    /// It is not to be worked on.
    Ineligible(Verdict),
    /// The host behind the Node object is another one.
    Replaced(Reason),
}

/// Returns why the node leaves the visit it is in, if it does.
pub(crate) fn leaving(visit: &Visit<'_>) -> Option<Leaving> {
    let Visit { scope, node, record, .. } = visit;
    if let Some(reason) = replaced(record, node) {
        return Some(Leaving::Replaced(reason));
    }
    let ineligible = if node.ignored {
        Some(Verdict::blocked(Reason::Ignored))
    } else if !node.claims.is_empty() {
        // Their taints say whose turn it is, not that the node is meant for others.
        None
    } else {
        let taint = taints::expelling(scope.rollout, &scope.input.rules, node);
        taint.map(taints::not_tolerated)
    };
    ineligible.map(Leaving::Ineligible)
}

/// Returns that the host is another one than the record speaks of: nothing the entries say is on
/// it. A Node object made anew for the same host keeps what somebody copied to it.
pub(crate) fn replaced(record: &Record, node: &Node) -> Option<Reason> {
    let (before, now) = (record.machine_id.as_str(), node.machine_id.as_str());
    (!before.is_empty() && !now.is_empty() && before != now)
        .then(|| Reason::HostReplaced { before: before.to_owned(), now: now.to_owned() })
}

/// Returns whether the record says that the visit failed because the host was another one: nothing
/// is on it, and that is no sign that a person reset it.
pub(crate) fn has_lost_its_host(record: &Record) -> bool {
    record.outcome == Some(Outcome::Erroring) && record.hosts_lost >= HOSTS_LOST_MAX
}

/// Closes the visit once nothing of it runs.
pub(crate) fn leave(visit: &Visit<'_>, leaving: &Leaving, draft: &mut Draft) {
    if draft.record.outcome.is_some() || is_busy(visit, leaving, draft) {
        return;
    }
    let (word, text) = leaving.words();
    draft.record.outcome = Some(Outcome::Released);
    draft.record.phase = Phase::Released;
    draft.record.reason = Some(word.to_owned());
    draft.record.message = Some(cut(&text, MESSAGE_BYTES_MAX));
    if matches!(leaving, Leaving::Replaced(_)) {
        draft.entries.clear();
        draft.record.interrupts_due.clear();
        lost_to_reboot(visit, draft);
    }
}

/// A host whose machine ID does not outlive a reboot would be installed and rebooted for ever.
fn lost_to_reboot(visit: &Visit<'_>, draft: &mut Draft) {
    let kind = visit.record.interrupt.as_ref().map(|interrupt| interrupt.kind);
    let rebooting =
        visit.record.phase == Phase::Interrupting && kind == Some(InterruptKind::Reboot);
    if !rebooting {
        return;
    }
    draft.record.hosts_lost = draft.record.hosts_lost.saturating_add(1);
    if draft.record.hosts_lost >= HOSTS_LOST_MAX {
        draft.record.outcome = Some(Outcome::Erroring);
        let times = draft.record.hosts_lost;
        draft.record.message = Some(format!(
            "the host was another one after each of {times} reboots: its machine ID does not \
             outlive a reboot, keep /etc/machine-id or leave the reboot out"
        ));
    }
}

/// Says what the node waits for before it leaves. Executors of a host that is gone are ended: the
/// kubelet of the new one would run them again.
pub(crate) fn waiting(visit: &Visit<'_>, leaving: Leaving, plan: &mut Plan) -> Verdict {
    if let Some(interrupt) = &visit.record.interrupt {
        wake(plan, after(interrupt.since, REBOOT_DEADLINE));
    }
    match leaving {
        Leaving::Ineligible(verdict) => verdict,
        Leaving::Replaced(reason) => {
            let active = visit.executors.iter().filter(|executor| executor.is_active());
            let orphans = active.filter(|executor| !executor.terminating);
            plan.actions.extend(orphans.map(|executor| Action::DeleteExecutor {
                rollout: visit.scope.rollout.name.clone(),
                node: visit.node.name.clone(),
                pod: executor.reference.clone(),
            }));
            Verdict::wait(reason)
        }
    }
}

/// Returns whether something of the visit still does its work: a pod, or a reboot of this very host
/// that was issued and is neither proven nor overdue.
fn is_busy(visit: &Visit<'_>, leaving: &Leaving, draft: &Draft) -> bool {
    let same_host = !matches!(leaving, Leaving::Replaced(_));
    visit.executors.iter().any(|executor| executor.is_active())
        || (same_host && visit.is_issued(&draft.record))
}

impl Leaving {
    /// Returns why, as a word and for people.
    fn words(&self) -> (&'static str, String) {
        match self {
            Self::Ineligible(Verdict { reason, .. }) | Self::Replaced(reason) => {
                (reason.word(), reason.to_string())
            }
        }
    }
}
