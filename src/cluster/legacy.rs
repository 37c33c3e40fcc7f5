//! Keys of the time before the rename, `skyhook.nvidia.com/…` (upstream contract A.1).
//!
//! In: a node's annotations. Out: the same under the present names, and which rollouts still have
//! keys under the former ones; what those are called, for whoever removes them.
//! Must never: let a former key speak where there is a present one. Upstream copies them when it
//! is upgraded and lets the copies stand for a day, whatever becomes of the originals: a former
//! cordon mark may then stand beside a cordon of somebody else.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::api::keys;

/// Annotations, all under the present names.
#[derive(Debug)]
pub struct Renamed<'a> {
    /// Key and value; a former key only where its rollout has no present one.
    pub annotations: Vec<(Cow<'a, str>, &'a str)>,
    /// Rollouts that have former keys, also ones that no longer count.
    pub with_former_keys: BTreeSet<&'a str>,
}

/// Makes a key of one rollout from its name.
type KeyOf = fn(&str) -> String;

/// Annotations that a rollout had under the former prefix.
const ANNOTATIONS: [KeyOf; 6] = [
    keys::node_state,
    keys::status,
    keys::version,
    keys::cordon,
    keys::drain_start,
    keys::drain_blocked,
];

/// Returns whether a key is ours, under either prefix.
pub fn is_ours(key: &str) -> bool {
    key.starts_with(keys::PREFIX) || key.starts_with(keys::LEGACY_PREFIX)
}

/// Returns what a key was called before the rename.
pub fn former(key: &str) -> String {
    key.replacen(keys::PREFIX, keys::LEGACY_PREFIX, 1)
}

/// Returns what a key is called now, for one of the time before the rename.
pub fn present(key: &str) -> Option<String> {
    let rest = key.strip_prefix(keys::LEGACY_PREFIX)?;
    Some(format!("{}{rest}", keys::PREFIX))
}

/// Returns every annotation that a rollout may have under the former prefix.
pub fn keys_of(rollout: &str) -> Vec<String> {
    ANNOTATIONS.iter().map(|key| former(&key(rollout))).collect()
}

/// Brings annotations under the present names.
pub fn renamed(annotations: &BTreeMap<String, String>) -> Renamed<'_> {
    let present_rollouts: BTreeSet<&str> =
        annotations.keys().filter_map(|key| rollout_of(key, keys::PREFIX)).collect();
    let mut all = Vec::new();
    let mut with_former_keys = BTreeSet::new();
    for (key, value) in annotations {
        let Some(renamed) = present(key) else {
            all.push((Cow::Borrowed(key.as_str()), value.as_str()));
            continue;
        };
        let rollout = rollout_of(key, keys::LEGACY_PREFIX);
        with_former_keys.extend(rollout);
        let is_spoken_for = rollout.is_some_and(|rollout| present_rollouts.contains(rollout))
            || annotations.contains_key(&renamed);
        if !is_spoken_for {
            all.push((Cow::Owned(renamed), value.as_str()));
        }
    }
    Renamed { annotations: all, with_former_keys }
}

/// Returns the rollout that an annotation under `prefix` is about.
fn rollout_of<'a>(key: &'a str, prefix: &str) -> Option<&'a str> {
    let name = key.strip_prefix(prefix)?;
    let folders = ANNOTATIONS.iter().chain([&(keys::rollout as KeyOf)]);
    folders.into_iter().find_map(|folder| {
        let folder = folder("");
        let rollout = name.strip_prefix(folder.strip_prefix(keys::PREFIX)?)?;
        (!rollout.is_empty()).then_some(rollout)
    })
}
