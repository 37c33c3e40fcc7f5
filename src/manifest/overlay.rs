//! An overlay document over its base: JSON merge patch (RFC 7386) on trees, so places survive.
//!
//! Maps merge, lists replace, `null` removes; what `kustomize build` makes of the same files.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::tree::{Entry, Node, Value};

/// Returns the base with the overlay over it. Each value keeps the place where it was written.
pub(super) fn merge(base: &Node, overlay: &Node) -> Node {
    let (Value::Map(under), Value::Map(over)) = (&base.value, &overlay.value) else {
        return without_nulls(overlay);
    };
    let mut entries: Vec<Entry> = under.clone();
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();
    for (position, entry) in entries.iter().enumerate() {
        positions.entry(entry.key.clone()).or_insert(position);
    }
    let mut removed: Vec<usize> = Vec::new();
    for entry in over {
        match positions.get(&entry.key).copied() {
            Some(position) if entry.value.is_null() => removed.push(position),
            Some(position) => {
                let value = merge(&entries[position].value, &entry.value);
                // A field that merges is still the base's; one that is replaced is the overlay's.
                let key_place = match &value.value {
                    Value::Map(_) => entries[position].key_place.clone(),
                    Value::List(_) | Value::Scalar(_) => entry.key_place.clone(),
                };
                let key = entry.key.clone();
                entries[position] = Entry { key, key_place, value: Rc::new(value) };
            }
            None if entry.value.is_null() => {}
            None => {
                let value = Rc::new(without_nulls(&entry.value));
                let (key, key_place) = (entry.key.clone(), entry.key_place.clone());
                positions.insert(key.clone(), entries.len());
                entries.push(Entry { key, key_place, value });
            }
        }
    }
    removed.sort_unstable();
    removed.dedup();
    for position in removed.into_iter().rev() {
        entries.remove(position);
    }
    Node { place: base.place.clone(), value: Value::Map(entries) }
}

/// A patch onto nothing: a `null` has nothing to remove. Lists are taken as they are.
fn without_nulls(node: &Node) -> Node {
    let value = match &node.value {
        Value::Map(entries) => Value::Map(
            entries
                .iter()
                .filter(|entry| !entry.value.is_null())
                .map(|entry| Entry {
                    key: entry.key.clone(),
                    key_place: entry.key_place.clone(),
                    value: Rc::new(without_nulls(&entry.value)),
                })
                .collect(),
        ),
        Value::List(_) | Value::Scalar(_) => node.value.clone(),
    };
    Node { place: node.place.clone(), value }
}
