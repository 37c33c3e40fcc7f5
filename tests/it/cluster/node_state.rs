//! A node's annotations are read, or named as unreadable and left alone.

use std::collections::BTreeMap;

use nodewright::cluster::node_state::read_annotations;
use nodewright::cluster::slim_node::SlimNode;
use nodewright::model::{CordonMark, PackageId, Stage, State, StatusWord, TaintEffect};
use serde_json::json;

const P: &str = "nodewright.nvidia.com";

fn annotations<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(key, value)| (format!("{P}/{key}"), value.to_owned())).into()
}

#[test]
fn everything_of_a_rollout_is_read() {
    let entries = r#"{"a|1.0":{"name":"a","version":"1.0","image":"i","stage":"post-interrupt",
        "state":"complete","restarts":2,"newer":[1]}}"#;
    let (rollouts, cordons) = read_annotations(&annotations([
        ("nodeState_gpu", entries),
        ("status_gpu", "in_progress"),
        ("cordon_gpu", "true"),
        ("cordon_cpu", "true"),
        ("drainStart_gpu", "2026-03-01T08:00:00.123456789Z"),
        ("runtimeRequiredCordon", "true"),
        ("version_gpu", "v0.20.0"),
        ("ignore", "true"),
    ]));
    let gpu = &rollouts["gpu"];
    let id = PackageId { name: "a".to_owned(), version: "1.0".to_owned() };
    let entry = &gpu.entries[&id];
    assert!(entry.is(Stage::PostInterrupt, State::Complete));
    assert_eq!(entry.other["newer"], json!([1]), "what a newer writer added is kept");
    assert_eq!(gpu.entries_text.as_deref(), Some(entries), "the text is kept as it stands");
    assert_eq!(gpu.status, Some(StatusWord::InProgress));
    assert_eq!(
        gpu.drain_start.map(|it| it.to_string()).as_deref(),
        Some("2026-03-01T08:00:00.123456789Z")
    );
    assert_eq!((gpu.malformed.as_ref(), gpu.record.as_ref()), (None, None));
    assert_eq!(rollouts.len(), 1, "a cordon alone is no state of a rollout");
    let rollout = |name: &str| CordonMark::Rollout(name.to_owned());
    assert_eq!(cordons, [rollout("cpu"), rollout("gpu"), CordonMark::RuntimeRequired]);
}

#[test]
fn what_a_person_let_go_of_is_told_apart_from_what_is_counted_on() {
    let entry = |version: &str, left: &str| {
        format!(
            r#""a|{version}":{{"name":"a","version":"{version}","image":"i","stage":"config",
            "state":"complete"{left}}}"#
        )
    };
    let left = r#","left":"2026-03-01T08:00:00Z""#;
    let text = format!("{{{},{}}}", entry("1.0", left), entry("2.0", ""));
    let (rollouts, _) = read_annotations(&annotations([("nodeState_gpu", &text)]));
    let names = |entries: &nodewright::model::Entries| -> Vec<String> {
        entries.keys().map(ToString::to_string).collect()
    };
    assert_eq!(names(&rollouts["gpu"].entries), ["a|2.0"]);
    assert_eq!(names(&rollouts["gpu"].left), ["a|1.0"]);
    assert_eq!(rollouts["gpu"].entries_text.as_ref(), Some(&text), "patches test all of it");
    let wrong = format!("{{{}}}", entry("1.0", r#","left":"yesterday""#));
    let (rollouts, _) = read_annotations(&annotations([("nodeState_gpu", &wrong)]));
    assert!(rollouts["gpu"].malformed.is_some(), "nothing is guessed");
}

#[test]
fn what_cannot_be_read_is_named_and_kept() {
    let table = [
        ("nodeState_gpu", "{", "nodeState: EOF"),
        ("nodeState_gpu", r#"{"no-version":{}}"#, "nodeState: "),
        (
            "nodeState_gpu",
            r#"{"a|1":{"name":"a","version":"1","stage":"dance","state":"x"}}"#,
            "dance",
        ),
        ("nodeState_gpu", "null", "nodeState: "),
        ("rollout_gpu", "[]", "rollout: "),
        ("rollout_gpu", r#"{"v":1}"#, "rollout: missing field"),
        ("drainStart_gpu", "yesterday", "drainStart: "),
    ];
    for (key, text, why) in table {
        let (rollouts, _) = read_annotations(&annotations([(key, text)]));
        let gpu = &rollouts["gpu"];
        let malformed = gpu.malformed.as_deref().unwrap_or_default();
        assert!(malformed.contains(why), "{key}={text}: {malformed:?}");
        assert!(gpu.entries.is_empty() && gpu.record.is_none());
    }
    let (rollouts, _) = read_annotations(&annotations([("nodeState_gpu", "{")]));
    assert_eq!(rollouts["gpu"].entries_text.as_deref(), Some("{"));
}

#[test]
fn a_record_of_a_newer_layout_is_left_alone() {
    let record = json!({
        "v": 2, "crUid": "c", "nodeUid": "n", "machineId": "m", "target": "t", "generation": 1,
        "visit": 1, "compartment": "__default__", "batch": 1, "order": 0,
        "picked": "2026-03-01T08:00:00Z", "phase": "picked",
    });
    let (rollouts, _) =
        read_annotations(&annotations([("rollout_gpu", record.to_string().as_str())]));
    assert!(rollouts["gpu"].record.is_none());
    let malformed = rollouts["gpu"].malformed.clone();
    assert_eq!(malformed.as_deref(), Some("rollout: layout 2 is newer than 1"));
}

#[test]
fn a_node_is_trimmed_to_what_something_depends_on() {
    let node: SlimNode = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "gpu-1", "uid": "u", "resourceVersion": "17",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"pool": "gpu", format!("{P}/ignore"): "true"},
            "annotations": {"volumes.kubernetes.io/controller-managed": "true"},
            "managedFields": [
                {"manager": "nodewright", "operation": "Update", "time": "2026-03-01T08:00:00Z",
                 "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
                {"manager": "kubectl-cordon", "time": "2026-03-02T08:00:00Z",
                 "fieldsV1": {"f:spec": {"f:unschedulable": {}, "f:taints": {}}}},
                {"manager": "kubelet", "time": "2026-03-03T08:00:00Z",
                 "fieldsV1": {"f:status": {"f:conditions": {}}}},
            ],
        },
        "spec": {
            "unschedulable": true, "podCIDR": "10.0.0.0/24",
            "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "2026-03-01T08:00:00Z"}],
        },
        "status": {
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-02-01T00:00:00Z",
                 "lastHeartbeatTime": "2026-03-04T00:00:00Z"},
            ],
            "nodeInfo": {"bootID": "b", "machineID": "m", "kernelVersion": "6.8"},
            "images": [{"names": ["x"], "sizeBytes": 1}],
        },
    }))
    .unwrap();
    let node = node.node;
    assert_eq!((node.name.as_str(), node.uid.as_str()), ("gpu-1", "u"));
    assert_eq!(node.unschedulable_manager.as_deref(), Some("kubectl-cordon"));
    assert!(node.unschedulable && node.ready && node.ignored && !node.deleting);
    assert_eq!(node.ready_since, Some("2026-02-01T00:00:00Z".parse().unwrap()));
    assert_eq!((node.boot_id.as_str(), node.machine_id.as_str()), ("b", "m"));
    assert_eq!(node.taints[0].effect, TaintEffect::NoExecute);
    assert!(node.rollouts.is_empty() && node.cordons.is_empty());
}

#[test]
fn a_node_with_next_to_nothing_hides_no_other() {
    let node: SlimNode = serde_json::from_value(json!({
        "metadata": {"name": "bare", "annotations": null, "labels": null},
        "spec": null, "status": {"conditions": null},
    }))
    .unwrap();
    assert!(!node.node.ready && node.node.labels.is_empty());
}
