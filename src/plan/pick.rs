//! The pick: membership, the first entries in progress, and the cordon, in one patch.

use std::collections::BTreeMap;

use super::due;
use super::limits::{MESSAGE_BYTES_MAX, cut};
use super::select::Scope;
use super::visit::{Draft, begin_ready, hold};
use super::{leave, reapply};
use crate::model::{
    Action, Node, NodeMetadata, NodePatch, Outcome, PatchKind, Phase, RECORD_VERSION, Record,
    StatusWord,
};

/// A place in an open batch.
pub(crate) struct Place<'p> {
    /// The compartment whose batch it is.
    pub compartment: &'p str,
    /// The number of the batch.
    pub batch: u32,
    /// The order number that only this visit has.
    pub order: u32,
}

/// Returns the actions that take `node` into the open batch: the metadata its scripts read, then
/// the one patch with resourceVersion (design §4 rule 2).
pub(crate) fn pick<'a>(scope: &Scope<'a>, node: &'a Node, place: &Place<'_>) -> Vec<Action> {
    let before = scope.record(node);
    let mut draft = Draft {
        entries: scope.entries(node).clone(),
        record: new_record(scope, node, before, place),
        because: None,
        drain_start: None,
    };
    reapply::begin(scope, node, &mut draft);
    let again = draft.entries != *scope.entries(node);
    let entries = draft.entries.clone();
    let owed = if again { Some(draft.record.clone()) } else { before.cloned() };
    let standings = due::standings(scope, &entries, owed.as_ref());
    begin_ready(scope, node, &standings, &mut draft);
    hold_for_later_interrupts(scope, node, &mut draft);
    let record = draft.record;
    let metadata = NodeMetadata {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        rollout: scope.rollout.name.clone(),
        rollout_uid: scope.resource.uid.clone(),
        packages: scope.rollout.packages.clone(),
    };
    let patch = NodePatch {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        rollout: scope.rollout.name.clone(),
        kind: PatchKind::Pick { resource_version: node.resource_version.clone() },
        entries: Some(draft.entries),
        status: Some(StatusWord::InProgress),
        cordon_mark: (record.held && !record.prior_unschedulable).then_some(true),
        // The clock of a drain that ended an earlier visit does not run in this one.
        drain_start: scope
            .rollout_state(node)
            .and_then(|state| state.drain_start)
            .map(|_earlier| None),
        unschedulable: (record.held && !node.unschedulable).then_some(true),
        record: Some(record),
    };
    vec![Action::WriteNodeMetadata(metadata), Action::PatchNode(patch)]
}

/// A node is held from the start when any package of the visit interrupts, also one whose turn
/// comes only after another: cordoning in the middle would drain under running work.
fn hold_for_later_interrupts<'a>(scope: &Scope<'a>, node: &'a Node, draft: &mut Draft) {
    let interrupts = scope.needs(node).values().any(|need| need.interrupt.is_some());
    if interrupts {
        hold(scope, node, &mut draft.record);
    }
}

fn new_record<'a>(
    scope: &Scope<'a>,
    node: &'a Node,
    before: Option<&Record>,
    place: &Place<'_>,
) -> Record {
    let now = scope.input.now;
    // The visit is also unique when the record was lost: it grows with the clock.
    let clock = u64::try_from(now.as_second()).unwrap_or(0);
    let visit = before.map_or(0, |before| before.visit.saturating_add(1)).max(clock);
    let visit = visit.max(last_visit_of_executors(scope, node).saturating_add(1));
    let is_replaced = before.is_some_and(|before| leave::replaced(before, node).is_some());
    let because = because(scope, node);
    Record {
        v: RECORD_VERSION,
        cr_uid: scope.resource.uid.clone(),
        node_uid: node.uid.clone(),
        machine_id: node.machine_id.clone(),
        target: scope.target.clone(),
        generation: scope.resource.generation,
        visit,
        compartment: place.compartment.to_owned(),
        batch: place.batch,
        order: place.order,
        picked: now,
        phase: Phase::Picked,
        held: false,
        prior_unschedulable: false,
        cordoned: None,
        recordons: 0,
        gpus_before: before
            .filter(|_| !is_replaced)
            .and_then(|before| gpus_before(node, &scope.rollout.name, before)),
        boot_before: None,
        boot_last: Some(node.boot_id.clone()).filter(|boot| !boot.is_empty()),
        hosts_lost: before
            .filter(|before| before.outcome != Some(Outcome::Complete))
            .map_or(0, |before| before.hosts_lost),
        interrupts_due: BTreeMap::new(),
        interrupt: None,
        attempts: BTreeMap::new(),
        outcome: None,
        reason: because.as_ref().map(|(word, _)| (*word).to_owned()),
        message: because.map(|(_, text)| cut(&text, MESSAGE_BYTES_MAX)),
    }
}

/// Returns the last visit that pods on the node were made for: a record that somebody took away may
/// be younger than a second, and no pod of its visit may be taken for one of the next.
fn last_visit_of_executors(scope: &Scope<'_>, node: &Node) -> u64 {
    let here = scope.executors.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
    let own = here.iter().filter(|executor| executor.visit.rollout == scope.rollout.name);
    own.map(|executor| executor.visit.visit).max().unwrap_or(0)
}

/// Returns what the node offered before an earlier visit failed while it held it: also where a
/// person asked for another try, or one failed since that took no hold itself.
fn gpus_before(node: &Node, rollout: &str, before: &Record) -> Option<u32> {
    let failed = before.outcome == Some(Outcome::Erroring) && before.held;
    before.gpus_before.filter(|_| failed || node.is_left_cordoned_by(rollout, before))
}

/// Returns why a node that had everything is begun anew, as a word and for people, if it is.
fn because<'a>(scope: &Scope<'a>, node: &'a Node) -> Option<(&'static str, String)> {
    let record = scope.rollout_state(node)?.record.as_ref()?;
    let replaced = leave::replaced(record, node).map(|reason| (reason.word(), reason.to_string()));
    replaced.or_else(|| reapply::because(scope, node).map(|text| ("Reapply", text)))
}
