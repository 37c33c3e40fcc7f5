//! GPUs: a node goes back only when it offers as many as before.
//!
//! After an interrupt the driver is loaded, the device plugin registers, and only then do pods that
//! ask for GPUs find any. Released before, the node looks free and takes none of them.

use std::time::Duration;

use jiff::Timestamp;

use super::limits::after;
use super::visit::{Draft, Visit};
use super::wake;
use crate::model::{Node, Plan, Reason, Record, Verdict};

/// How long a node is kept for its GPUs: driver containers that compile take 10 to 20 minutes, and
/// a GPU that has not come by then needs a person, who sees it where the node is in service.
const GPUS_DEADLINE: Duration = Duration::from_mins(30);

/// The record's reason when a node went back without its GPUs.
const GPUS_MISSING: &str = "GpusMissing";

/// Remembers what the node offers as we take hold of it. What it offered before an earlier visit
/// failed stands: it may have failed by losing them.
pub(crate) fn remember(node: &Node, record: &mut Record) {
    record.gpus_before = record.gpus_before.max(node.gpus.filter(|gpus| *gpus > 0));
}

/// Returns that a node which has all its packages must still wait for its GPUs.
pub(crate) fn missing(visit: &Visit<'_>, draft: &Draft, plan: &mut Plan) -> Option<Verdict> {
    let (offered, before) = lacking(visit, draft)?;
    let since = since(draft)?;
    let deadline = after(since, GPUS_DEADLINE);
    if visit.now() >= deadline {
        return None;
    }
    wake(plan, deadline);
    Some(Verdict::wait(Reason::GpusMissing { offered, before, since }))
}

/// Says in the record of a node that goes back that it does so without its GPUs.
pub(crate) fn note_missing(visit: &Visit<'_>, draft: &mut Draft) {
    if let Some((offered, before)) = lacking(visit, draft) {
        let minutes = GPUS_DEADLINE.as_secs() / 60;
        draft.record.reason = Some(GPUS_MISSING.to_owned());
        draft.record.message = Some(format!(
            "let go after {minutes} minutes although it offers {offered} of {before} GPUs: look at \
             its driver and its device plugin"
        ));
    }
}

/// Returns how many are offered of how many; `None` when nothing is missing, or nothing is asked.
fn lacking(visit: &Visit<'_>, draft: &Draft) -> Option<(u32, u32)> {
    let before = draft.record.gpus_before?;
    let offered = visit.node.gpus.unwrap_or(0);
    let asks = draft.record.held && draft.record.interrupt.is_some();
    (asks && offered < before).then_some((offered, before))
}

/// Returns when the last package was done: from then on only the GPUs are waited for.
fn since(draft: &Draft) -> Option<Timestamp> {
    let interrupted = draft.record.interrupt.as_ref().map(|interrupt| interrupt.since);
    draft.entries.values().filter_map(|entry| entry.since).chain(interrupted).max()
}
