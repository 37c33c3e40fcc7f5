//! A status written is the status read, and nobody else's condition is touched.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use nodewright::api::NodeWrightStatus;
use nodewright::cluster::status::{from_api, merge_difference, to_api};
use nodewright::model::{self, Status, StatusWord};
use serde_json::json;

const EARLY: &str = "2026-03-01T08:00:00Z";
const LATE: &str = "2026-03-01T09:00:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().expect("a valid time")
}

fn condition(kind: &str, is_true: bool) -> model::Condition {
    model::Condition {
        kind: kind.to_owned(),
        is_true,
        reason: "Progressing".to_owned(),
        message: "1/3 nodes complete".to_owned(),
    }
}

fn full() -> Status {
    let compartment = model::CompartmentStatus {
        matched: 3,
        ceiling: 2,
        in_progress: 1,
        completed: 1,
        progress_percent: 33,
        batch_state: model::BatchState {
            current_batch: 4,
            consecutive_failures: 1,
            completed_nodes: 5,
            failed_nodes: 6,
            should_stop: true,
            last_batch_size: 7,
            last_batch_failed: true,
        },
        open_batch: Some(model::OpenBatch {
            target: "0123456789abcdef".to_owned(),
            number: 4,
            size: 2,
            order_from: 9,
            given: 2,
            refused: vec![9],
            opened: time(EARLY),
            first_use: true,
        }),
        batches_to_come: "4, 8".to_owned(),
    };
    Status {
        observed_generation: Some(6),
        word: StatusWord::InProgress,
        nodes_in_progress: 1,
        nodes_complete: 1,
        nodes_total: 3,
        packages: vec!["a:1.0".to_owned(), "b:2.0".to_owned()],
        conditions: vec![condition("Ready", false)],
        memory: model::Memory {
            target: "0123456789abcdef".to_owned(),
            order_next: 11,
            timings: model::Timings { started: Some(time(EARLY)), completed: Some(time(LATE)) },
            compartments: [("__default__".to_owned(), compartment)].into(),
            completed: vec![model::CompletedPackages {
                compartments: ["__default__".to_owned()].into(),
                packages: [("a".to_owned(), "nw-0123456789abcdef".to_owned())].into(),
            }],
        },
    }
}

fn over_the_wire(status: &NodeWrightStatus) -> NodeWrightStatus {
    let text = serde_json::to_string(status).expect("becomes JSON");
    serde_json::from_str(&text).expect("is read back")
}

#[test]
fn a_status_survives_the_round_trip() {
    let empty = Status {
        observed_generation: None,
        word: StatusWord::Unknown,
        nodes_in_progress: 0,
        nodes_complete: 0,
        nodes_total: 0,
        packages: Vec::new(),
        conditions: Vec::new(),
        memory: model::Memory::default(),
    };
    let words = [
        StatusWord::Complete,
        StatusWord::Blocked,
        StatusWord::Waiting,
        StatusWord::Disabled,
        StatusWord::Paused,
        StatusWord::InProgress,
        StatusWord::Erroring,
        StatusWord::Unknown,
    ];
    let every_word = words.map(|word| Status { word, ..empty.clone() });
    for status in every_word.iter().chain([&full()]) {
        let written = to_api(status, None, time(LATE));
        assert_eq!(&from_api(&over_the_wire(&written)), status);
    }
}

#[test]
fn upstreams_words_are_written() {
    let written = serde_json::to_value(to_api(&full(), None, time(LATE))).unwrap();
    assert_eq!(written["completeNodes"], "1/3");
    assert_eq!(written["packageList"], "a:1.0,b:2.0");
    assert_eq!(written["status"], "in_progress");
    assert_eq!(written["compartmentStatuses"]["__default__"]["batchState"]["currentBatch"], 4);
    assert_eq!(written["conditions"][0]["lastTransitionTime"], LATE);
}

#[test]
fn a_status_of_upstream_is_read() {
    let upstream: NodeWrightStatus = serde_json::from_value(json!({
        "status": "in_progress", "completeNodes": "2/5", "nodesInProgress": 1,
        "nodeState": {"n": {}}, "nodeStatus": {"n": "complete"},
        "conditions": [{"type": "nodewright.nvidia.com/Transition", "status": "True",
            "reason": "in_progress", "message": "", "lastTransitionTime": EARLY}],
        "compartmentStatuses": {"__default__": {"matched": 5, "batchState": {"currentBatch": 2}}},
    }))
    .unwrap();
    let read = from_api(&upstream);
    assert_eq!((read.nodes_complete, read.nodes_total), (2, 5));
    let kinds: Vec<&str> = read.conditions.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, ["nodewright.nvidia.com/Transition"], "replaced by the next of ours");
    assert_eq!(read.memory.compartments["__default__"].batch_state.current_batch, 2);
    assert_eq!(read.memory.target, "");
}

#[test]
fn transition_times_are_kept_while_the_status_is() {
    let first = to_api(&full(), None, time(EARLY));
    let mut status = full();
    status.conditions[0].message = "2/3 nodes complete".to_owned();
    let second = to_api(&status, Some(&first), time(LATE));
    assert_eq!(second.conditions[0].last_transition_time, Time(time(EARLY)));
    assert_eq!(second.conditions[0].message, "2/3 nodes complete");
    status.conditions[0].is_true = true;
    let third = to_api(&status, Some(&second), time(LATE));
    assert_eq!(third.conditions[0].last_transition_time, Time(time(LATE)));
}

#[test]
fn what_the_planner_says_is_read_back_as_ours() {
    let kinds = ["NodesIgnored", "Ready", "RunsBesideWorkloads", "Stopped", "TaintNotTolerable"];
    let mut status = full();
    status.conditions = kinds.map(|kind| condition(kind, true)).into();
    let written = over_the_wire(&to_api(&status, None, time("2026-03-01T08:00:00Z")));
    assert_eq!(from_api(&written).conditions, status.conditions);
}

#[test]
fn conditions_of_others_are_kept_and_ours_go() {
    let theirs = Condition {
        type_: "example.com/Audited".to_owned(),
        status: "True".to_owned(),
        reason: "Yes".to_owned(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(time(EARLY)),
    };
    let mut status = full();
    status.conditions = vec![condition("DeploymentPolicyNotFound", true)];
    let mut before = to_api(&status, None, time(EARLY));
    before.conditions.push(theirs.clone());
    let after = to_api(&full(), Some(&before), time(LATE));
    let kinds: Vec<&str> = after.conditions.iter().map(|it| it.type_.as_str()).collect();
    assert_eq!(kinds, ["Ready", "example.com/Audited"]);
    assert_eq!(after.conditions[1], theirs);
}

#[test]
fn the_difference_takes_away_what_is_gone() {
    let from = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1, 2], "f": "same"});
    let to = json!({"b": {"d": 3}, "e": [2], "f": "same", "g": {}});
    let patch = merge_difference(&from, &to);
    let expected = json!({"a": null, "b": {"c": null, "d": 3}, "e": [2], "g": {}});
    assert_eq!(patch, Some(expected.clone()));
    let mut patched = from;
    json_patch::merge(&mut patched, &expected);
    assert_eq!(patched, to);
    assert_eq!(merge_difference(&to, &to), None);
}
