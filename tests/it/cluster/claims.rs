//! Marks of other operators on a node, off the wire.

use nodewright::cluster::slim_node::SlimNode;
use nodewright::model::{AtRelease, Claim};
use serde_json::{Value, json};

fn claims(labels: Value, annotations: Value, taints: Value, conditions: Value) -> Vec<Claim> {
    let node: SlimNode = serde_json::from_value(json!({
        "metadata": {"name": "gpu-1", "labels": labels, "annotations": annotations},
        "spec": {"taints": taints}, "status": {"conditions": conditions},
    }))
    .expect("a node in a test");
    node.node.claims
}

/// Returns who claims the node by which mark, and whether a release waits for them.
fn words(claims: &[Claim]) -> Vec<(&str, &str, bool)> {
    let words = claims.iter().map(|claim| {
        (claim.by.as_str(), claim.mark.as_str(), claim.at_release == AtRelease::Waits)
    });
    words.collect()
}

const GPU: &str = "nvidia.com/gpu-driver-upgrade-state";
const OFED: &str = "nvidia.com/ofed-driver-upgrade-state";

#[test]
fn a_driver_upgrade_claims_a_node_in_every_state_in_which_it_is_at_work() {
    let table = [
        ("", false),
        ("upgrade-done", false),
        ("upgrade-required", false),
        ("cordon-required", true),
        ("wait-for-jobs-required", true),
        ("pod-deletion-required", true),
        ("drain-required", true),
        ("node-maintenance-required", true),
        ("post-maintenance-required", true),
        ("pod-restart-required", true),
        ("validation-required", true),
        ("uncordon-required", true),
        ("a-state-of-tomorrow", true),
    ];
    for (by, key) in [("GPU Operator", GPU), ("Network Operator", OFED)] {
        for (state, at_work) in table {
            let found = claims(json!({key: state}), json!({}), json!([]), json!([]));
            let mark = format!("{key}={state}");
            let expected = if at_work { vec![(by, mark.as_str(), true)] } else { vec![] };
            assert_eq!(words(&found), expected, "{mark}");
        }
    }
    let failed = claims(json!({GPU: "upgrade-failed"}), json!({}), json!([]), json!([]));
    let mark = "nvidia.com/gpu-driver-upgrade-state=upgrade-failed";
    assert_eq!(words(&failed), [("GPU Operator", mark, false)], "it may stay for days");
}

#[test]
fn annotations_of_others_are_read_and_not_kept() {
    let table = [
        ("nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load", "Network Operator", true),
        ("nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load", "GPU Operator", true),
        ("quarantineHealthEvent", "NVSentinel", false),
        ("quarantineHealthEventIsCordoned", "NVSentinel", false),
        ("nvsentinel.nvidia.com/active-validation-request", "NVSentinel", false),
    ];
    for (key, by, waits) in table {
        let found = claims(json!({}), json!({key: "{\"checkName\":\"x\"}"}), json!([]), json!([]));
        assert_eq!(words(&found), [(by, key, waits)]);
        assert!(claims(json!({}), json!({key: ""}), json!([]), json!([])).is_empty(), "{key}");
    }
    let initial = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable";
    assert!(claims(json!({}), json!({initial: "true"}), json!([]), json!([])).is_empty());
}

#[test]
fn nvsentinel_claims_a_node_until_its_remediation_succeeded() {
    let key = "dgxc.nvidia.com/nvsentinel-state";
    for state in ["quarantined", "draining", "drain-succeeded", "drain-failed", "remediating"] {
        let found = claims(json!({key: state}), json!({}), json!([]), json!([]));
        let mark = format!("{key}={state}");
        assert_eq!(words(&found), [("NVSentinel", mark.as_str(), false)]);
    }
    for state in ["", "remediation-succeeded"] {
        assert!(claims(json!({key: state}), json!({}), json!([]), json!([])).is_empty());
    }
}

#[test]
fn taints_labels_and_conditions_that_say_that_a_node_is_somebody_elses() {
    let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule", "value": "x"}]);
    let table = [
        ("karpenter.sh/disrupted", "Karpenter"),
        ("karpenter.sh/disruption", "Karpenter"),
        ("ToBeDeletedByClusterAutoscaler", "cluster-autoscaler"),
        ("nvsentinel.nvidia.com/validation-pending", "NVSentinel"),
        ("nvsentinel.nvidia.com/external-remediation", "NVSentinel"),
        ("medik8s.io/drain", "Node Maintenance Operator"),
        ("cloud.google.com/impending-node-termination", "GKE"),
    ];
    for (key, by) in table {
        let found = claims(json!({}), json!({}), taint(key), json!([]));
        let mark = format!("taint {key}");
        assert_eq!(words(&found), [(by, mark.as_str(), false)]);
    }
    for quiet in ["DeletionCandidateOfClusterAutoscaler", "nvidia.com/gpu", "readiness.k8s.io/a"] {
        assert!(claims(json!({}), json!({}), taint(quiet), json!([])).is_empty(), "{quiet}");
    }
    let label = json!({"kubernetes.azure.com/upgrade-status": "Quarantined"});
    let found = claims(label, json!({}), json!([]), json!([]));
    assert_eq!(words(&found), [("AKS", "kubernetes.azure.com/upgrade-status=Quarantined", false)]);
    let kind = "MaintenanceInProgress";
    let condition =
        |status: &str| json!([{"type": kind, "status": status, "reason": "CloudProvider"}]);
    let found = claims(json!({}), json!({}), json!([]), condition("True"));
    assert_eq!(words(&found), [("CloudProvider", "condition MaintenanceInProgress", false)]);
    assert!(claims(json!({}), json!({}), json!([]), condition("False")).is_empty());
}

#[test]
fn a_node_is_new_until_anything_of_ours_is_on_it() {
    let is_new = |annotations: Value| {
        let node = json!({"metadata": {"name": "gpu-1", "annotations": annotations}});
        serde_json::from_value::<SlimNode>(node).unwrap().node.is_new
    };
    assert!(is_new(json!({})));
    assert!(is_new(json!({"node.alpha.kubernetes.io/ttl": "0"})));
    assert!(is_new(json!({"nodewright.nvidia.com/hold": "burn-in"})), "people wrote that");
    for ours in [
        "nodewright.nvidia.com/status_other",
        "nodewright.nvidia.com/autoTaint_nodewright.nvidia.com",
        "skyhook.nvidia.com/nodeState_gpu",
    ] {
        assert!(!is_new(json!({ours: "true"})), "{ours}");
    }
}

#[test]
fn the_gpus_a_node_offers_and_the_hold_of_a_person_are_read() {
    let node: SlimNode = serde_json::from_value(json!({
        "metadata": {"name": "gpu-1", "annotations": {"nodewright.nvidia.com/hold": "burn-in"}},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "7"}},
    }))
    .unwrap();
    assert_eq!((node.node.gpus, node.node.hold.as_deref()), (Some(7), Some("burn-in")));
}
