//! Marks that say that another operator works on a node (neighbours 1.1, 1.6, 1.7, 1.10).
//!
//! In: labels, annotations, taints and conditions as they come off the wire. Out: [`Claim`]s, few
//! and mostly none, so that nothing else of what others wrote has to be kept.
//! Must never: write one of these keys, or take a queued or finished work for one at work.

use std::collections::BTreeMap;

use crate::model::{AtRelease, Claim, Taint};

use super::slim_node::WireCondition;

/// Driver upgrades of one library in two operators, each with its own family of keys.
const DRIVERS: &[(&str, &str, &str)] = &[
    (
        "GPU Operator",
        "nvidia.com/gpu-driver-upgrade-state",
        "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load",
    ),
    (
        "Network Operator",
        "nvidia.com/ofed-driver-upgrade-state",
        "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load",
    ),
];

/// States of a driver upgrade in which the node is not worked on. A queued one is no claim: our
/// visit first, then theirs, is one drain each as before.
const DRIVER_AT_REST: &[&str] = &["", "upgrade-done", "upgrade-required"];

/// A driver upgrade that a person must look at; it may stay for days.
const DRIVER_FAILED: &str = "upgrade-failed";

/// NVSentinel's state of a node; gone, or this, when it is done.
const SENTINEL_STATE: &str = "dgxc.nvidia.com/nvsentinel-state";
const SENTINEL_DONE: &str = "remediation-succeeded";

/// Annotations of NVSentinel that are there for as long as a node is its own.
const SENTINEL_ANNOTATIONS: &[&str] = &[
    "quarantineHealthEvent",
    "quarantineHealthEventIsCordoned",
    "nvsentinel.nvidia.com/active-validation-request",
];

/// Taints by key, with who puts them there. All of them say that the node is cordoned, in repair,
/// or about to go.
const TAINTS: &[(&str, &str)] = &[
    ("NVSentinel", "nvsentinel.nvidia.com/validation-pending"),
    ("NVSentinel", "nvsentinel.nvidia.com/external-remediation"),
    ("Karpenter", "karpenter.sh/disrupted"),
    // Before Karpenter 1.0; the value said which kind of disruption.
    ("Karpenter", "karpenter.sh/disruption"),
    ("cluster-autoscaler", "ToBeDeletedByClusterAutoscaler"),
    ("Node Maintenance Operator", "medik8s.io/drain"),
    ("GKE", "cloud.google.com/impending-node-termination"),
    ("AWS Node Termination Handler", "aws-node-termination-handler/spot-itn"),
    ("AWS Node Termination Handler", "aws-node-termination-handler/scheduled-maintenance"),
];

/// Labels with the value that says so, and who puts them there.
const LABELS: &[(&str, &str, &str)] = &[
    ("AKS", "kubernetes.azure.com/upgrade-status", "Quarantined"),
    ("GKE", "cloud.google.com/active-node-maintenance", "ONGOING"),
];

/// Conditions of KEP-5683. We publish none of them, so whoever does is somebody else.
const CONDITIONS: &[&str] = &["DrainInProgress", "MaintenanceInProgress"];

/// Reads the claims on a node, each with the exact mark that says so.
pub fn read_claims(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    taints: &[Taint],
    conditions: &[WireCondition],
) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (by, state, safe_load) in DRIVERS {
        claims.extend(driver_upgrade(by, state, labels));
        // The init container of the driver waits for the node to be drained: released before, it
        // would be cordoned again at once.
        if is_set(annotations, safe_load) {
            claims.push(claim(by, (*safe_load).to_owned(), AtRelease::Waits));
        }
    }
    if let Some(state) = labels.get(SENTINEL_STATE)
        && !state.is_empty()
        && state != SENTINEL_DONE
    {
        claims.push(stays("NVSentinel", format!("{SENTINEL_STATE}={state}")));
    }
    let sentinel = SENTINEL_ANNOTATIONS.iter().filter(|key| is_set(annotations, key));
    claims.extend(sentinel.map(|key| stays("NVSentinel", (*key).to_owned())));
    for (by, key) in TAINTS {
        if taints.iter().any(|taint| taint.key == *key) {
            claims.push(stays(by, format!("taint {key}")));
        }
    }
    for (by, key, value) in LABELS {
        if labels.get(*key).is_some_and(|found| found == value) {
            claims.push(stays(by, format!("{key}={value}")));
        }
    }
    for kind in CONDITIONS {
        let found = conditions.iter().find(|condition| condition.kind == *kind);
        if let Some(condition) = found.filter(|condition| condition.status == "True") {
            let by = condition.reason.as_deref().filter(|reason| !reason.is_empty());
            claims.push(stays(by.unwrap_or("another operator"), format!("condition {kind}")));
        }
    }
    claims
}

fn driver_upgrade(by: &str, key: &str, labels: &BTreeMap<String, String>) -> Option<Claim> {
    let state = labels.get(key).map(String::as_str).unwrap_or_default();
    // A state that is not known yet is at work: it is theirs to say that they are done.
    let at_release =
        if state == DRIVER_FAILED { AtRelease::LeavesCordon } else { AtRelease::Waits };
    (!DRIVER_AT_REST.contains(&state)).then(|| claim(by, format!("{key}={state}"), at_release))
}

/// Returns whether an annotation is there with a value that says something.
fn is_set(annotations: &BTreeMap<String, String>, key: &str) -> bool {
    annotations.get(key).is_some_and(|value| !value.is_empty() && value != "false")
}

fn stays(by: &str, mark: String) -> Claim {
    claim(by, mark, AtRelease::LeavesCordon)
}

fn claim(by: &str, mark: String, at_release: AtRelease) -> Claim {
    Claim { by: by.to_owned(), mark, at_release }
}
