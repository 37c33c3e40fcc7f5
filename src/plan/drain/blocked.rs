//! Why the API server does not let a pod go, and the condition that says so of all nodes.
//!
//! In: what was refused. Out: one [`Reason`] or one [`Condition`].
//! Must never: call a refusal an error: it is asked again at a steady rate, whatever the reason.

use std::collections::BTreeMap;

use super::super::limits::{MESSAGE_BYTES_MAX, cut};
use super::filter::EMPTY_DIR;
use crate::model::{Condition, Pod, PodRef, Reason, Refusal, RefusalCause, Verdict};

/// Nodes that the condition spells out (upstream contract A.7).
const SHOWN_MAX: usize = 10;

/// Returns the verdict on the worst refusal: what never changes by itself comes first.
pub(super) fn verdict(held: &[(&Pod, &Refusal)]) -> Option<Verdict> {
    let pods = u32::try_from(held.len()).unwrap_or(u32::MAX);
    let (pod, refusal) = held.iter().min_by_key(|(pod, refusal)| rank(pod, refusal))?;
    let reference = pod.reference.clone();
    Some(match &refusal.cause {
        RefusalCause::SeveralBudgets(budgets) => {
            Verdict::blocked(Reason::SeveralBudgets { pod: reference, budgets: budgets.clone() })
        }
        RefusalCause::Budget(budget) if budget.is_never() => {
            Verdict::blocked(Reason::BudgetNever {
                pod: reference,
                budget: budget.name.clone(),
                desired: budget.desired,
                expected: budget.expected,
            })
        }
        // It may yet become ready, so it is a wait.
        RefusalCause::Budget(budget) if !pod.ready => {
            let budget = budget.name.clone();
            Verdict::wait(Reason::UnhealthyPodHeld { pod: reference, budget })
        }
        RefusalCause::Budget(budget) => Verdict::wait(Reason::DisruptionBudget {
            pods,
            pod: reference,
            why: format!(
                "PodDisruptionBudget {} needs {} of {} pods healthy and has {}",
                budget.name, budget.desired, budget.expected, budget.healthy
            ),
        }),
        RefusalCause::Unknown => {
            let why = refusal.message.clone();
            Verdict::wait(Reason::DisruptionBudget { pods, pod: reference, why })
        }
    })
}

fn rank(pod: &Pod, refusal: &Refusal) -> (u8, PodRef) {
    let rank = match &refusal.cause {
        RefusalCause::SeveralBudgets(_) => 0,
        RefusalCause::Budget(budget) if budget.is_never() => 1,
        RefusalCause::Budget(_) if !pod.ready => 2,
        RefusalCause::Budget(_) | RefusalCause::Unknown => 3,
    };
    (rank, pod.reference.clone())
}

/// Returns the condition `DrainBlocked` (upstream contract A.7), while a drain is held.
pub(crate) fn condition(
    verdicts: &BTreeMap<String, Verdict>,
    nodes_total: usize,
) -> Option<Condition> {
    let blocked: Vec<(&'static str, String)> = verdicts
        .iter()
        .filter_map(|(node, verdict)| {
            let (word, pod) = blocker(&verdict.reason)?;
            Some((word, format!("{pod} on {node}: {}", verdict.reason)))
        })
        .collect();
    let (first, _) = blocked.first()?;
    let same = blocked.iter().all(|(word, _)| word == first);
    let shown: Vec<&str> =
        blocked.iter().take(SHOWN_MAX).map(|(_, detail)| detail.as_str()).collect();
    let more = blocked.len().saturating_sub(SHOWN_MAX);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    Some(Condition {
        kind: "DrainBlocked".to_owned(),
        is_true: true,
        reason: if same { *first } else { "MultipleCauses" }.to_owned(),
        message: cut(
            &format!(
                "{}/{nodes_total} nodes blocked draining; {}{more}",
                blocked.len(),
                shown.join("; ")
            ),
            MESSAGE_BYTES_MAX,
        ),
    })
}

/// Returns upstream's word for what blocks a drain, and the pod.
fn blocker(reason: &Reason) -> Option<(&'static str, &PodRef)> {
    if let Reason::DisruptionBudget { pod, .. }
    | Reason::BudgetNever { pod, .. }
    | Reason::SeveralBudgets { pod, .. }
    | Reason::UnhealthyPodHeld { pod, .. } = reason
    {
        return Some(("PodDisruptionBudget", pod));
    }
    let Reason::DrainRefused { pod, why } = reason else { return None };
    let word = if why.starts_with(EMPTY_DIR) { "EmptyDirData" } else { "UnmanagedPod" };
    Some((word, pod))
}
