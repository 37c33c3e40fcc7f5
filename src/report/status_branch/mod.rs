//! The status branch: the files of one commit, its message, and how soon it must be written.
//!
//! In: a [`FleetState`]. Out: bytes by path, a subject, trailers. A pure function of state: equal
//! state gives equal bytes, so "nothing changed" is a comparison of trees (gitops 3.3). Never
//! here: a time of writing, a configuration value, the push itself.

mod commit;
mod readme;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::short_hash;

use super::{FleetPhase, FleetState, LeftBehind, NodeFacts, RolloutState, SourceView, WaitGroup};

pub use commit::{SUBJECT_MAX_CHARS, commit_subject, trailers, urgency};

/// Layout of `status.json`.
pub const STATUS_SCHEMA: &str = "nodewright.dev/status/v1";

/// Layout of `nodes/<name>.json`.
pub const NODE_SCHEMA: &str = "nodewright.dev/node/v1";

/// Above so many nodes their files are spread over folders: a forge lists a thousand at most.
const FLAT_NODES_MAX: usize = 1000;

/// `status.json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    source: &'a SourceView,
    config_digest: String,
    phase: FleetPhase,
    rollouts: &'a BTreeMap<String, RolloutState>,
    needs_person: &'a [super::Need],
    waits: &'a [WaitGroup],
    on_purpose: &'a [WaitGroup],
    left_behind: &'a [LeftBehind],
}

/// `nodes/<name>.json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeDocument<'a> {
    schema: &'static str,
    node: &'a str,
    rollouts: &'a BTreeMap<String, Box<NodeFacts>>,
}

/// Returns every file of the branch by path, with `/`.
pub fn files(state: &FleetState) -> BTreeMap<String, Vec<u8>> {
    let FleetState {
        source,
        config_digest,
        phase,
        rollouts,
        needs_person,
        waits,
        on_purpose,
        left_behind,
        nodes,
    } = state;
    let status = StatusDocument {
        schema: STATUS_SCHEMA,
        source,
        config_digest: format!("sha256:{config_digest}"),
        phase: *phase,
        rollouts,
        needs_person,
        waits,
        on_purpose,
        left_behind,
    };
    let mut files = BTreeMap::from([
        ("README.md".to_owned(), readme::page(state).into_bytes()),
        ("status.json".to_owned(), json(&status)),
    ]);
    for (node, rollouts) in nodes {
        let document = NodeDocument { schema: NODE_SCHEMA, node, rollouts };
        files.insert(node_path(node, nodes.len()), json(&document));
    }
    files
}

fn node_path(node: &str, nodes: usize) -> String {
    if nodes > FLAT_NODES_MAX {
        format!("nodes/{}/{node}.json", &short_hash(node)[..2])
    } else {
        format!("nodes/{node}.json")
    }
}

/// Returns indented JSON with sorted keys and a final newline, which diffs line by line.
fn json<T: Serialize>(document: &T) -> Vec<u8> {
    let mut value = serde_json::to_value(document).expect("plain data with string keys is JSON");
    value.sort_all_objects();
    let mut bytes = serde_json::to_vec_pretty(&value).expect("a JSON value is JSON");
    bytes.push(b'\n');
    bytes
}
