//! A plan in short text, for debugging and for logs of tests.
//!
//! In: a [`Plan`]. Out: verdicts counted by rollout, kind and reason; actions in words, in order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::model::{
    Action, DEFAULT_COMPARTMENT, ExecutorSpec, NodePatch, Outlook, PatchKind, Phase, Plan, Stage,
    StatusWrite, TaintPatch, Verdict, VerdictKind, Work,
};

use super::wording::moment;

/// Returns the plan as text.
pub fn text(plan: &Plan) -> String {
    let Plan { actions, verdicts, statuses: _, outlooks, wake_at, drains: _ } = plan;
    let mut text = String::new();
    for (rollout, verdicts) in verdicts {
        text.push_str(&counts(rollout, verdicts));
        let outlooks = outlooks.get(rollout).into_iter().flatten();
        for (compartment, outlook) in outlooks.filter(|(_, outlook)| !outlook.is_over()) {
            let _ = writeln!(text, "  {}", batches(compartment, outlook));
        }
    }
    if actions.is_empty() {
        text.push_str("nothing to do\n");
    }
    for action in actions {
        let _ = writeln!(text, "- {}", words(action));
    }
    if let Some(time) = wake_at {
        let _ = writeln!(text, "looks again at {}", moment(*time));
    }
    text
}

/// Returns for example `h200-train: 20 nodes; act 2 (Running 2), wait 18 (WaitingForBatch 18)`.
fn counts(rollout: &str, verdicts: &BTreeMap<String, Verdict>) -> String {
    let mut kinds: BTreeMap<VerdictKind, BTreeMap<&str, usize>> = BTreeMap::new();
    for verdict in verdicts.values() {
        let reasons = kinds.entry(verdict.kind).or_default();
        *reasons.entry(verdict.reason.word()).or_default() += 1;
    }
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, reasons)| {
            let total: usize = reasons.values().sum();
            let reasons: Vec<String> =
                reasons.iter().map(|(word, count)| format!("{word} {count}")).collect();
            format!("{} {total} ({})", kind_word(*kind), reasons.join(", "))
        })
        .collect();
    format!("{rollout}: {} nodes; {}\n", verdicts.len(), kinds.join(", "))
}

/// Returns for example `batches of production: 2 open, then 3, 4, 5, 5`.
fn batches(compartment: &str, outlook: &Outlook) -> String {
    let of = match compartment {
        DEFAULT_COMPARTMENT => String::new(),
        name => format!(" of {name}"),
    };
    match (&outlook.stopped, outlook.open) {
        (Some(_), _) => format!("batches{of}: stopped"),
        (None, Some(open)) => format!("batches{of}: {} open, then {}", open.size, outlook.sizes()),
        (None, None) => format!("batches{of} to come: {}", outlook.sizes()),
    }
}

fn kind_word(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Act => "act",
        VerdictKind::Wait => "wait",
        VerdictKind::Blocked => "blocked",
        VerdictKind::Done => "done",
    }
}

/// Returns an action in words.
pub fn words(action: &Action) -> String {
    match action {
        Action::CreateSnapshot(snapshot) => {
            format!("{}: write the snapshot of {}", snapshot.rollout, snapshot.package.id())
        }
        Action::DeleteSnapshot(snapshot) => {
            format!("{}: delete snapshot {}", snapshot.rollout, snapshot.name)
        }
        Action::WriteStatus(write) => status_words(write),
        Action::WriteNodeMetadata(metadata) => {
            format!("{} on {}: write the node's metadata", metadata.rollout, metadata.node)
        }
        Action::PatchNode(patch) => patch_words(patch),
        Action::Evict(eviction) => {
            format!("{} on {}: move pod {} away", eviction.rollout, eviction.node, eviction.pod)
        }
        Action::CreateExecutor(executor) => executor_words(executor),
        Action::DeleteExecutors { rollout, visits } => {
            let nodes: Vec<&str> = visits.iter().map(|visit| visit.node.as_str()).collect();
            format!("{rollout}: delete the executors of ended visits to {}", nodes.join(", "))
        }
        Action::PatchTaints(TaintPatch { node, rollout, before, after, .. }) => {
            format!("{rollout} on {node}: change its {} taints to {}", before.len(), after.len())
        }
        Action::SetFinalizer(write) => {
            let verb = if write.present { "add" } else { "remove" };
            format!("{}: {verb} the finalizer", write.rollout)
        }
        Action::CleanNode(cleaning) => {
            format!("{} on {}: remove its annotations", cleaning.rollout, cleaning.node)
        }
        Action::DeleteUpstreamWork { rollout, node, work } => {
            format!("{rollout} on {node}: delete {} of upstream's operator", work.name)
        }
        Action::DeleteExecutor { rollout, node, pod } => {
            format!("{rollout} on {node}: delete executor {pod}, which has not started")
        }
    }
}

fn status_words(write: &StatusWrite) -> String {
    let StatusWrite { rollout, resource_version: _, status, urgency: _, upstream: _ } = write;
    let open: Vec<String> = status
        .memory
        .compartments
        .values()
        .filter_map(|compartment| compartment.open_batch.as_ref())
        .map(|batch| format!(", batch {} of {} nodes open", batch.number, batch.size))
        .collect();
    let (word, done, total) = (status.word, status.nodes_complete, status.nodes_total);
    format!("{rollout}: write status {word}, {done}/{total} complete{}", open.concat())
}

fn patch_words(patch: &NodePatch) -> String {
    let (node, rollout) = (&patch.node, &patch.rollout);
    let phase = patch.record.as_ref().map_or("", |record| match record.phase {
        Phase::Picked => " (picked)",
        Phase::Interrupting => " (interrupt begun)",
        Phase::Interrupted => " (interrupt proven)",
        Phase::Released => " (released)",
    });
    let what = match &patch.kind {
        PatchKind::Pick { .. } => "pick the node".to_owned(),
        PatchKind::Recordon { .. } => "put the cordon back".to_owned(),
        PatchKind::Progress { .. } => format!("record progress{phase}"),
        PatchKind::Release { .. } => "let the node go".to_owned(),
    };
    let cordon = match patch.unschedulable {
        Some(true) => ", cordon",
        Some(false) => ", uncordon",
        None => "",
    };
    format!("{rollout} on {node}: {what}{cordon}")
}

fn executor_words(executor: &ExecutorSpec) -> String {
    let visit = &executor.visit;
    let work = match &executor.work {
        Work::Pull { .. } => "pulling the images".to_owned(),
        Work::Uninstall { .. } => Stage::Uninstall.to_string(),
        Work::Install { stages, .. } => {
            stages.iter().map(|stage| stage.as_str()).collect::<Vec<_>>().join(", ")
        }
        Work::Interrupt { interrupt, .. } => format!("interrupt {}", interrupt.kind),
        Work::Verify { .. } => Stage::PostInterrupt.to_string(),
    };
    let (package, attempt) = (executor.work.package_id(), executor.attempt);
    format!("{} on {}: start {work} of {package}, attempt {attempt}", visit.rollout, visit.node)
}
