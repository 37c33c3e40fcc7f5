//! The three patch formats, applied to the current object.
//!
//! In goes the object as stored and the body of the request, out comes the object as the client
//! wants it; preconditions and validation come after (`write.rs`). Strategic merge is served for
//! built-in kinds with the merge keys listed here; a list that is not listed is replaced, as the
//! real server does with atomic lists. Server-side apply is refused with 415: nothing of ours uses
//! it, and half an implementation would lie about ownership.

use serde_json::{Map, Value};

use super::refusal::Refusal;
use super::resources::Kind;

const ACCEPTED: &str = "the body of the request was in an unknown format - accepted media types \
     include: application/json-patch+json, application/merge-patch+json, \
     application/strategic-merge-patch+json";

/// Lists that strategic merge merges by a key, by field name (the Go tags `patchMergeKey`).
const MERGE_KEYS: [(&str, &str); 9] = [
    ("conditions", "type"),
    ("addresses", "type"),
    ("taints", "key"),
    ("containers", "name"),
    ("initContainers", "name"),
    ("env", "name"),
    ("volumes", "name"),
    ("ownerReferences", "uid"),
    ("volumeMounts", "mountPath"),
];

/// Applies the body to the current object.
pub(super) fn apply(
    kind: &Kind,
    current: &Value,
    content_type: &str,
    body: &Value,
) -> Result<Value, Refusal> {
    match content_type {
        "application/merge-patch+json" => {
            if !body.is_object() {
                return Err(Refusal::bad_request("error decoding patch: not a JSON object"));
            }
            let mut patched = current.clone();
            json_patch::merge(&mut patched, body);
            Ok(patched)
        }
        "application/json-patch+json" => {
            let operations: json_patch::Patch = serde_json::from_value(body.clone())
                .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))?;
            let mut patched = current.clone();
            json_patch::patch(&mut patched, &operations)
                .map_err(|_| Refusal::unprocessable_patch())?;
            Ok(patched)
        }
        "application/strategic-merge-patch+json" if !kind.is_custom() => {
            let changes = body
                .as_object()
                .ok_or_else(|| Refusal::bad_request("error decoding patch: not a JSON object"))?;
            let mut patched = current.clone();
            merge_fields(&mut patched, changes)?;
            Ok(patched)
        }
        "application/apply-patch+yaml" => Err(Refusal::unsupported_media_type(
            "the embedded API server has no server-side apply; use a merge or JSON patch",
        )),
        _ => Err(Refusal::unsupported_media_type(ACCEPTED)),
    }
}

fn merge_fields(target: &mut Value, changes: &Map<String, Value>) -> Result<(), Refusal> {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (name, change) in changes {
        if name.starts_with("$setElementOrder/") || name == "$retainKeys" {
            continue;
        }
        if name.starts_with('$') {
            return Err(Refusal::unsupported_media_type(format!(
                "the embedded API server does not know the strategic merge directive {name:?}"
            )));
        }
        match change {
            Value::Null => {
                if let Some(fields) = target.as_object_mut() {
                    fields.remove(name);
                }
            }
            Value::Object(inner) => merge_fields(&mut target[name], inner)?,
            Value::Array(items) => merge_list(name, &mut target[name], items)?,
            plain => target[name] = plain.clone(),
        }
    }
    Ok(())
}

fn merge_list(name: &str, target: &mut Value, changes: &[Value]) -> Result<(), Refusal> {
    let merge_key = MERGE_KEYS.iter().find(|(field, _)| *field == name).map(|(_, key)| *key);
    let Some(key) = merge_key else {
        // Finalizers are the one list of plain values that merges.
        if name == "finalizers" {
            let mut list = target.as_array().cloned().unwrap_or_default();
            list.extend(
                changes.iter().filter(|new| !list.contains(new)).cloned().collect::<Vec<_>>(),
            );
            *target = Value::Array(list);
        } else {
            *target = Value::Array(changes.to_vec());
        }
        return Ok(());
    };
    let mut list = target.as_array().cloned().unwrap_or_default();
    for change in changes {
        let Some(fields) = change.as_object() else {
            return Err(Refusal::bad_request(format!("{name}: a list of objects was expected")));
        };
        if fields.get("$patch").is_some_and(|directive| directive == "replace") {
            list.clear();
            continue;
        }
        if fields.get(key).is_none() {
            return Err(Refusal::bad_request(format!(
                "map: {change} does not contain declared merge key: {key}"
            )));
        }
        let place = list.iter().position(|item| item[key] == change[key]);
        match (fields.get("$patch").and_then(Value::as_str), place) {
            (Some("delete"), Some(index)) => {
                list.remove(index);
            }
            (Some("delete"), None) => {}
            (Some(other), _) => {
                return Err(Refusal::unsupported_media_type(format!(
                    "the embedded API server does not know the directive $patch: {other}"
                )));
            }
            (None, Some(index)) => merge_fields(&mut list[index], fields)?,
            (None, None) => {
                let mut item = Value::Object(Map::new());
                merge_fields(&mut item, fields)?;
                list.push(item);
            }
        }
    }
    *target = Value::Array(list);
    Ok(())
}
