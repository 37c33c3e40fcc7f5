//! JSON Schemas with which an editor completes and checks manifests.
//!
//! In: the CRD's schema. Out: plain JSON Schema. Must never: accept a field that does not exist,
//! since a typing error is what an editor is there for; rules between fields stay with the CRD.

use serde_json::{Map, Value, json};

use super::{Kind, at, crd, walk};
use crate::api::keys::RESOURCE_NAME_MAX_BYTES;
use crate::api::{GROUP, VERSION};

/// Returns the JSON Schema of a kind's manifests.
#[must_use]
pub fn editor_schema(kind: Kind) -> Value {
    let published = crd(kind);
    let schema = published.spec.versions.into_iter().next().and_then(|version| version.schema);
    let mut whole = serde_json::to_value(schema).expect("a CRD's schema is plain JSON");
    let mut spec = at(&mut whole["openAPIV3Schema"], "spec").take();
    walk(&mut spec, &mut relax);
    let description = published.spec.names.kind;
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": format!("{description} ({GROUP}/{VERSION})"),
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": false,
        "properties": {
            "apiVersion": {"const": format!("{GROUP}/{VERSION}")},
            "kind": {"const": kind.name()},
            "metadata": metadata(kind),
            "spec": spec,
        },
    })
}

fn metadata(kind: Kind) -> Value {
    let name_max = match kind {
        Kind::NodeWright => RESOURCE_NAME_MAX_BYTES,
        Kind::DeploymentPolicy => 253,
    };
    let texts = json!({"type": ["object", "null"], "additionalProperties": {"type": "string"}});
    json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": name_max},
            "labels": texts,
            "annotations": texts,
        },
    })
}

/// Says in JSON Schema what the CRD says with Kubernetes' extensions.
fn relax(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("x-kubernetes-validations");
    fields.remove("nullable");
    if fields.remove("x-kubernetes-int-or-string").is_some() {
        fields.remove("anyOf");
        fields.entry("type").or_insert_with(|| json!(["integer", "string"]));
    }
    // The API server ignores formats it does not know; editors print warnings.
    fields.remove("format");
    let required = fields.get("required").cloned().unwrap_or(Value::Null);
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        forgive_null(properties, &required);
        fields.insert("additionalProperties".to_owned(), json!(false));
    }
}

/// Lets an optional field be `null`, which reads as not given.
fn forgive_null(properties: &mut Map<String, Value>, required: &Value) {
    let is_required = |name: &str| {
        required.as_array().is_some_and(|names| names.iter().any(|other| other == name))
    };
    for (_, property) in properties.iter_mut().filter(|(name, _)| !is_required(name)) {
        if !property["x-kubernetes-int-or-string"].is_null() {
            property["type"] = json!(["integer", "string", "null"]);
        } else if let Some(kind) = property["type"].as_str().map(str::to_owned) {
            property["type"] = json!([kind, "null"]);
            if let Some(values) = property.get_mut("enum").and_then(Value::as_array_mut) {
                values.push(Value::Null);
            }
        }
    }
}
