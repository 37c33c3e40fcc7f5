//! A node's annotations, read: what each rollout did there, and who holds the cordon.
//!
//! In: annotations under our prefix, and under the one of the time before the rename (see
//! [`super::legacy`]). Out: [`NodeRollout`] by rollout, and cordon marks.
//! Must never: panic or guess; what cannot be read is named and left alone.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};

use super::legacy;
use crate::api::keys;
use crate::model::{CordonMark, Entries, NodeRollout, RECORD_VERSION, Record, Shared, StatusWord};

/// The value of marks.
pub const MARK: &str = "true";

/// Reads the annotations of a node.
pub fn read_annotations(
    annotations: &BTreeMap<String, String>,
) -> (BTreeMap<String, Shared<NodeRollout>>, Vec<CordonMark>) {
    let mut rollouts: BTreeMap<String, Shared<NodeRollout>> = BTreeMap::new();
    let mut cordons = Vec::new();
    let legacy::Renamed { annotations, with_former_keys } = legacy::renamed(annotations);
    for (key, value) in annotations.iter().map(|(key, value)| (key.as_ref(), *value)) {
        if key == keys::RUNTIME_REQUIRED_CORDON && value == MARK {
            cordons.push(CordonMark::RuntimeRequired);
        } else if let Some(rollout) = rollout_of(key, &keys::cordon("")) {
            // Any value counts: upstream looks for the key alone.
            cordons.push(CordonMark::Rollout(rollout.to_owned()));
        } else if let Some(rollout) = rollout_of(key, &keys::node_state("")) {
            read_entries(rollouts.entry(rollout.to_owned()).or_default(), value);
        } else if let Some(rollout) = rollout_of(key, &keys::rollout("")) {
            read_record(rollouts.entry(rollout.to_owned()).or_default(), value);
        } else if let Some(rollout) = rollout_of(key, &keys::drain_start("")) {
            read_drain_start(rollouts.entry(rollout.to_owned()).or_default(), value);
        } else if let Some(rollout) = rollout_of(key, &keys::status("")) {
            rollouts.entry(rollout.to_owned()).or_default().status = Some(read_status(value));
        }
    }
    for rollout in with_former_keys {
        rollouts.entry(rollout.to_owned()).or_default().legacy = true;
    }
    (rollouts, cordons)
}

fn rollout_of<'a>(key: &'a str, prefix: &str) -> Option<&'a str> {
    key.strip_prefix(prefix).filter(|rollout| !rollout.is_empty())
}

fn read_entries(into: &mut NodeRollout, text: &str) {
    into.entries_text = Some(text.to_owned());
    match serde_json::from_str::<Entries>(text) {
        Ok(entries) => {
            (into.left, into.entries) = entries.into_iter().partition(|(_, it)| it.left.is_some());
        }
        Err(error) => note_malformed(into, "nodeState", &error.to_string()),
    }
}

fn read_record(into: &mut NodeRollout, text: &str) {
    into.record_text = Some(text.to_owned());
    match serde_json::from_str::<Record>(text) {
        Ok(record) if record.v > RECORD_VERSION => note_malformed(
            into,
            "rollout",
            &format!("layout {} is newer than {RECORD_VERSION}", record.v),
        ),
        Ok(record) => into.record = Some(record),
        Err(error) => note_malformed(into, "rollout", &error.to_string()),
    }
}

fn read_drain_start(into: &mut NodeRollout, text: &str) {
    match text.parse() {
        Ok(start) => into.drain_start = Some(start),
        Err(error) => note_malformed(into, "drainStart", &error.to_string()),
    }
}

fn read_status(word: &str) -> StatusWord {
    let word: StrDeserializer<'_, ValueError> =
        serde::de::IntoDeserializer::into_deserializer(word);
    StatusWord::deserialize(word).unwrap_or(StatusWord::Unknown)
}

fn note_malformed(into: &mut NodeRollout, annotation: &str, why: &str) {
    let note = format!("{annotation}: {why}");
    into.malformed = Some(match into.malformed.take() {
        Some(earlier) => format!("{earlier}; {note}"),
        None => note,
    });
}
