//! A resource's status, between the planner's words and the API's (upstream contract A.6, A.7).
//!
//! In and out: [`model::Status`] and [`NodeWrightStatus`]. Must never: lose what the planner must
//! find again, or touch a condition of somebody else.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Map, Value};

use crate::api::annotations::bounded_message;
use crate::api::{NodeWrightStatus, keys, status as api};
use crate::model;

/// Types of conditions that are ours alone: one that is not in a status written by us is gone
/// (upstream contract A.7).
const OWN_CONDITIONS: [&str; 14] = [
    "ApplyPackage",
    "Blocked",
    "DeletionBlocked",
    "DeploymentPolicyNotFound",
    "DrainBlocked",
    "FailuresTolerated",
    "NodeStateMalformed",
    "NodesIgnored",
    "Ready",
    "RunsBesideWorkloads",
    "Stopped",
    "TaintNotTolerable",
    "UninstallFailed",
    "UninstallInProgress",
];

/// The last change of the status word, which is written under the prefix alone. Older consumers
/// look for some of the others under the prefix too.
const TRANSITION: &str = "Transition";

/// Reads the planner's status from a resource.
pub fn from_api(status: &NodeWrightStatus) -> model::Status {
    let NodeWrightStatus {
        observed_generation,
        status: word,
        nodes_in_progress,
        complete_nodes,
        package_list,
        conditions,
        compartment_statuses,
        rollout,
    } = status;
    let (complete, total) = complete_nodes.split_once('/').unwrap_or(("0", "0"));
    model::Status {
        observed_generation: *observed_generation,
        word: word.map_or(model::StatusWord::Unknown, word_from_api),
        nodes_in_progress: unsigned(*nodes_in_progress),
        nodes_complete: complete.parse().unwrap_or_default(),
        nodes_total: total.parse().unwrap_or_default(),
        packages: package_list.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect(),
        conditions: conditions
            .iter()
            .filter(|condition| is_own(&condition.type_))
            .map(condition_from_api)
            .collect(),
        memory: memory_from_api(compartment_statuses, rollout.clone().unwrap_or_default()),
    }
}

/// Writes the planner's status over the one that is there.
///
/// A condition's transition time is kept while its status is; conditions of others are kept. Times
/// are written to the second, as Kubernetes has them.
pub fn to_api(
    status: &model::Status,
    previous: Option<&NodeWrightStatus>,
    now: Timestamp,
) -> NodeWrightStatus {
    let model::Status {
        observed_generation,
        word,
        nodes_in_progress,
        nodes_complete,
        nodes_total,
        packages,
        conditions,
        memory,
    } = status;
    let there = previous.map_or(&[][..], |previous| &previous.conditions);
    let mut written: Vec<Condition> =
        there.iter().filter(|condition| !is_own(&condition.type_)).cloned().collect();
    for condition in conditions {
        let before = there.iter().find(|before| before.type_ == condition.kind);
        let written_one = condition_to_api(condition, before, *observed_generation, now);
        written.retain(|other| other.type_ != condition.kind);
        written.push(written_one);
    }
    written.sort_by(|one, other| one.type_.cmp(&other.type_));
    let (compartment_statuses, rollout) = memory_to_api(memory);
    NodeWrightStatus {
        observed_generation: *observed_generation,
        status: Some(word_to_api(*word)),
        nodes_in_progress: signed(*nodes_in_progress),
        complete_nodes: format!("{nodes_complete}/{nodes_total}"),
        package_list: packages.join(","),
        conditions: written,
        compartment_statuses,
        rollout: Some(rollout),
    }
}

/// Returns the merge patch that turns one object into the other.
pub fn merge_difference(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let mut patch = Map::new();
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in to {
        let difference = match from.get(key) {
            Some(before) => merge_difference(before, value),
            None => Some(value.clone()),
        };
        if let Some(difference) = difference {
            patch.insert(key.clone(), difference);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn is_own(kind: &str) -> bool {
    let bare = kind.strip_prefix(keys::PREFIX).unwrap_or(kind);
    OWN_CONDITIONS.contains(&bare) || (bare == TRANSITION && bare != kind)
}

fn condition_from_api(condition: &Condition) -> model::Condition {
    model::Condition {
        kind: condition.type_.clone(),
        is_true: condition.status == "True",
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    }
}

fn condition_to_api(
    condition: &model::Condition,
    before: Option<&Condition>,
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    let model::Condition { kind, is_true, reason, message } = condition;
    let status = if *is_true { "True" } else { "False" };
    let kept = before.filter(|before| before.status == status);
    Condition {
        type_: kind.clone(),
        status: status.to_owned(),
        reason: reason.clone(),
        message: bounded_message(message),
        observed_generation: generation,
        last_transition_time: kept
            .map_or_else(|| Time(now), |before| before.last_transition_time.clone()),
    }
}

fn memory_from_api(
    statuses: &BTreeMap<String, api::CompartmentStatus>,
    rollout: api::RolloutStatus,
) -> model::Memory {
    let api::RolloutStatus {
        target,
        order_offset,
        started,
        completed,
        mut compartments,
        completed_packages,
    } = rollout;
    let target = target.unwrap_or_default();
    let compartments = statuses
        .iter()
        .map(|(name, shown)| {
            let ours = compartments.remove(name).unwrap_or_default();
            (name.clone(), compartment_from_api(*shown, ours))
        })
        .collect();
    model::Memory {
        target,
        order_next: u32::try_from(order_offset).unwrap_or_default(),
        timings: model::Timings {
            started: started.map(|time| time.0),
            completed: completed.map(|time| time.0),
        },
        compartments,
        completed: completed_packages
            .into_iter()
            .map(|api::CompletedPackages { compartments, packages }| model::CompletedPackages {
                compartments,
                packages,
            })
            .collect(),
    }
}

fn compartment_from_api(
    shown: api::CompartmentStatus,
    ours: api::CompartmentRollout,
) -> model::CompartmentStatus {
    let api::CompartmentRollout { target: _, open_batch: open, batches_to_come } = ours;
    let api::CompartmentStatus {
        matched,
        ceiling,
        in_progress,
        completed,
        progress_percent,
        batch_state,
    } = shown;
    model::CompartmentStatus {
        matched: unsigned(matched),
        ceiling: unsigned(ceiling),
        in_progress: unsigned(in_progress),
        completed: unsigned(completed),
        progress_percent: unsigned(progress_percent),
        batch_state: batch_from_api(batch_state.unwrap_or_default()),
        open_batch: open.map(|open| {
            let api::OpenBatch {
                number,
                size,
                order_from,
                given,
                refused,
                target,
                opened,
                first_use,
            } = open;
            let order = |order: i64| u32::try_from(order).unwrap_or_default();
            model::OpenBatch {
                target,
                number: unsigned(number),
                size: unsigned(size),
                order_from: order(order_from),
                given: unsigned(given),
                refused: refused.into_iter().map(order).collect(),
                opened: opened.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
                first_use,
            }
        }),
        batches_to_come: batches_to_come.unwrap_or_default(),
    }
}

/// Reads the counters of a compartment.
pub fn batch_from_api(state: api::BatchState) -> model::BatchState {
    let api::BatchState {
        current_batch,
        consecutive_failures,
        completed_nodes,
        failed_nodes,
        should_stop,
        last_batch_size,
        last_batch_failed,
    } = state;
    model::BatchState {
        current_batch: unsigned(current_batch),
        consecutive_failures: unsigned(consecutive_failures),
        completed_nodes: unsigned(completed_nodes),
        failed_nodes: unsigned(failed_nodes),
        should_stop,
        last_batch_size: unsigned(last_batch_size),
        last_batch_failed,
    }
}

fn memory_to_api(
    memory: &model::Memory,
) -> (BTreeMap<String, api::CompartmentStatus>, api::RolloutStatus) {
    let model::Memory { target, order_next, timings, compartments, completed: sets } = memory;
    let model::Timings { started, completed } = timings;
    let shown = compartments
        .iter()
        .map(|(name, compartment)| (name.clone(), compartment_to_api(compartment)))
        .collect();
    let ours = compartments.iter().map(|(name, compartment)| {
        let open_batch = compartment.open_batch.as_ref().map(open_batch_to_api);
        let of_target = Some(target.clone()).filter(|target| !target.is_empty());
        let to_come = compartment.batches_to_come.clone();
        let batches_to_come = Some(to_come).filter(|to_come| !to_come.is_empty());
        let rollout = api::CompartmentRollout { target: of_target, open_batch, batches_to_come };
        (name.clone(), rollout)
    });
    let rollout = api::RolloutStatus {
        target: Some(target.clone()).filter(|target| !target.is_empty()),
        order_offset: i64::from(*order_next),
        started: started.map(Time),
        completed: completed.map(Time),
        compartments: ours.collect(),
        completed_packages: sets
            .iter()
            .map(|set| api::CompletedPackages {
                compartments: set.compartments.clone(),
                packages: set.packages.clone(),
            })
            .collect(),
    };
    (shown, rollout)
}

fn compartment_to_api(compartment: &model::CompartmentStatus) -> api::CompartmentStatus {
    let model::CompartmentStatus {
        matched,
        ceiling,
        in_progress,
        completed,
        progress_percent,
        batch_state,
        open_batch: _,
        batches_to_come: _,
    } = compartment;
    let model::BatchState {
        current_batch,
        consecutive_failures,
        completed_nodes,
        failed_nodes,
        should_stop,
        last_batch_size,
        last_batch_failed,
    } = batch_state;
    api::CompartmentStatus {
        matched: signed(*matched),
        ceiling: signed(*ceiling),
        in_progress: signed(*in_progress),
        completed: signed(*completed),
        progress_percent: signed(*progress_percent),
        batch_state: Some(api::BatchState {
            current_batch: signed(*current_batch),
            consecutive_failures: signed(*consecutive_failures),
            completed_nodes: signed(*completed_nodes),
            failed_nodes: signed(*failed_nodes),
            should_stop: *should_stop,
            last_batch_size: signed(*last_batch_size),
            last_batch_failed: *last_batch_failed,
        }),
    }
}

fn open_batch_to_api(open: &model::OpenBatch) -> api::OpenBatch {
    let model::OpenBatch { target, number, size, order_from, given, refused, opened, first_use } =
        open;
    api::OpenBatch {
        number: signed(*number),
        size: signed(*size),
        order_from: i64::from(*order_from),
        given: signed(*given),
        refused: refused.iter().copied().map(i64::from).collect(),
        target: target.clone(),
        opened: Some(Time(*opened)),
        first_use: *first_use,
    }
}

fn word_from_api(word: api::StatusWord) -> model::StatusWord {
    match word {
        api::StatusWord::Unknown => model::StatusWord::Unknown,
        api::StatusWord::Complete => model::StatusWord::Complete,
        api::StatusWord::Blocked => model::StatusWord::Blocked,
        api::StatusWord::Waiting => model::StatusWord::Waiting,
        api::StatusWord::Disabled => model::StatusWord::Disabled,
        api::StatusWord::Paused => model::StatusWord::Paused,
        api::StatusWord::InProgress => model::StatusWord::InProgress,
        api::StatusWord::Erroring => model::StatusWord::Erroring,
    }
}

fn word_to_api(word: model::StatusWord) -> api::StatusWord {
    match word {
        model::StatusWord::Unknown => api::StatusWord::Unknown,
        model::StatusWord::Complete => api::StatusWord::Complete,
        model::StatusWord::Blocked => api::StatusWord::Blocked,
        model::StatusWord::Waiting => api::StatusWord::Waiting,
        model::StatusWord::Disabled => api::StatusWord::Disabled,
        model::StatusWord::Paused => api::StatusWord::Paused,
        model::StatusWord::InProgress => api::StatusWord::InProgress,
        model::StatusWord::Erroring => api::StatusWord::Erroring,
    }
}

fn unsigned(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
