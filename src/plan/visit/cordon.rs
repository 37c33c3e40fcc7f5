//! A cordon that was lifted while we hold the node (design §6).
//!
//! In: a visit that holds its node, and a node that is schedulable. Out: the cordon put back, or
//! why nothing is started here.
//! Must never: overrule a person, or fight a controller for ever.

use super::super::limits::{CORDON_REFLEX, RECORDONS_MAX, after};
use super::Visit;
use crate::model::{Action, NodePatch, PatchKind, Plan, Reason, Verdict};

/// Programs that people sit in front of, as the field managers that they write under.
///
/// A manager is by default the first word of the program's user agent: a web page that asks
/// through a proxy writes as its browser does.
const PEOPLE: [&str; 15] = [
    "Lens",
    "Mozilla",
    "OpenLens",
    "curl",
    "dashboard",
    "freelens",
    "headlamp",
    "k9s",
    "kubectl",
    "kubernetes-dashboard",
    "node-fetch",
    "oc",
    "octant",
    "rancher",
    "steve",
];

/// What is said of a controller that left no name.
const NAMELESS: &str = "a controller that leaves no name";

/// Who lifted a cordon.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lifter {
    /// Somebody at a keyboard, or nobody can say: obeyed.
    Person,
    /// A program by itself.
    Controller(String),
    /// Whoever had cordoned the node before us took that back, which says nothing of ours.
    EarlierOwner,
}

/// Puts the cordon back, or says why not.
///
/// A person is obeyed: nothing starts here until the node is cordoned again. A controller is not,
/// [`RECORDONS_MAX`] times in a visit; after that, the same.
pub(crate) fn lifted(visit: &Visit<'_>, plan: &mut Plan) -> Verdict {
    let record = visit.record;
    let fights = match lifter(visit) {
        Lifter::Person => {
            let manager = visit.node.unschedulable_manager.clone();
            return Verdict::blocked(Reason::Uncordoned { manager });
        }
        Lifter::Controller(manager) if record.recordons >= RECORDONS_MAX => {
            let times = record.recordons;
            return Verdict::blocked(Reason::CordonFought { manager, times });
        }
        Lifter::Controller(_) => 1,
        Lifter::EarlierOwner => 0,
    };
    put_back(visit, fights, plan);
    Verdict::wait(Reason::CordonNotSeen)
}

/// Returns who lifted the cordon, as far as the API server keeps that.
///
/// It keeps the manager of a field that is there: only a server-side apply of `false` leaves its
/// name, a patch or an update that takes the field away leaves none. Without a name it was a
/// controller if it came within [`CORDON_REFLEX`] of our cordon, and else a person: to stop for a
/// controller costs time, to fight a person costs trust.
fn lifter(visit: &Visit<'_>) -> Lifter {
    let (node, record) = (visit.node, visit.record);
    if record.prior_unschedulable && !node.is_cordoned_by(&visit.scope.rollout.name) {
        return Lifter::EarlierOwner;
    }
    match &node.unschedulable_manager {
        Some(manager) if is_person(manager) => Lifter::Person,
        Some(manager) => Lifter::Controller(manager.clone()),
        None => {
            let reflex = record.cordoned.is_some_and(|at| visit.now() < after(at, CORDON_REFLEX));
            if reflex { Lifter::Controller(NAMELESS.to_owned()) } else { Lifter::Person }
        }
    }
}

/// Returns whether a field manager is a program that people sit in front of, such as `kubectl`,
/// `kubectl-cordon` or `kubectl-client-side-apply`. One we do not know is a controller.
fn is_person(manager: &str) -> bool {
    PEOPLE.iter().any(|known| {
        let rest = manager.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '/', '.']))
    })
}

/// The cordon becomes ours, whoever's it was before: mark, count and `unschedulable` in one patch,
/// so that a write which fails does not count (failures B3, B8).
fn put_back(visit: &Visit<'_>, fights: u32, plan: &mut Plan) {
    let (node, scope) = (visit.node, visit.scope);
    let mut record = visit.record.clone();
    record.recordons = record.recordons.saturating_add(fights);
    record.cordoned = Some(visit.now());
    record.prior_unschedulable = false;
    let kind = PatchKind::Recordon { resource_version: node.resource_version.clone() };
    plan.actions.push(Action::PatchNode(NodePatch {
        record: Some(record),
        cordon_mark: Some(true),
        unschedulable: Some(true),
        ..NodePatch::new(node, &scope.rollout.name, kind)
    }));
}
