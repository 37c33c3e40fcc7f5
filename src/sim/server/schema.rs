//! Structural schemas of CRDs: pruning, defaulting and validation.
//!
//! In goes an object as a client sent it, out comes the object as it is stored, or the list of
//! what is wrong in the words of a real server. CEL rules (`x-kubernetes-validations`) and
//! `format` are **not** evaluated: an object that only a CEL rule refuses is accepted here, and
//! refused by a real control plane, where the same scenarios run.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Map, Value};

use super::refusal::Cause;

/// The `openAPIV3Schema` of one version of a CRD.
#[derive(Debug)]
pub(super) struct Schema(Value);

impl Schema {
    /// Takes the schema as it stands in the CRD.
    pub fn new(schema: Value) -> Self {
        Self(schema)
    }

    /// Removes what the schema does not know, and returns the paths of what was removed.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        let Some(fields) = object.as_object_mut() else { return unknown };
        if keeps_unknown(&self.0) {
            return unknown;
        }
        fields.retain(|name, value| {
            // The server itself owns these three, whatever the schema says.
            if matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            match self.0["properties"].get(name) {
                Some(schema) => {
                    prune(schema, value, name, &mut unknown);
                    true
                }
                None => {
                    unknown.push(name.clone());
                    false
                }
            }
        });
        unknown
    }

    /// Fills in the defaults, after removing nulls where null is not allowed.
    pub fn default(&self, object: &mut Value) {
        fill_defaults(&self.0, object);
    }

    /// Returns everything that is wrong, in the order of the schema's fields.
    pub fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        let mut checked = object.clone();
        if let Some(fields) = checked.as_object_mut() {
            fields.remove("metadata");
        }
        validate(&self.0, &checked, "", &mut causes);
        causes.retain(|cause| cause.field != "metadata");
        causes
    }
}

fn keeps_unknown(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn prune(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let rest = schema.get("additionalProperties").filter(|rest| !rest.is_boolean());
            let open = keeps_unknown(schema) || schema["additionalProperties"] == true;
            fields.retain(|name, inner| {
                let inner_path = format!("{path}.{name}");
                match schema["properties"].get(name).or(rest) {
                    Some(inner_schema) => {
                        prune(inner_schema, inner, &inner_path, unknown);
                        true
                    }
                    None if open => true,
                    None => {
                        unknown.push(inner_path);
                        false
                    }
                }
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune(&schema["items"], item, &format!("{path}[{index}]"), unknown);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn fill_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
                drop_null(inner, fields, name);
                if let Some(default) = inner.get("default")
                    && !fields.contains_key(name)
                {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(field) = fields.get_mut(name) {
                    fill_defaults(inner, field);
                }
            }
            if let Some(rest) = schema.get("additionalProperties").filter(|rest| rest.is_object()) {
                for name in fields.keys().cloned().collect::<Vec<_>>() {
                    drop_null(rest, fields, &name);
                }
                for field in fields.values_mut() {
                    fill_defaults(rest, field);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                fill_defaults(&schema["items"], item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Removes a null where null is not allowed: it counts as absent.
fn drop_null(schema: &Value, fields: &mut Map<String, Value>, name: &str) {
    if schema["nullable"] != true && fields.get(name).is_some_and(Value::is_null) {
        fields.remove(name);
    }
}

fn validate(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    if !has_type(schema, value) {
        let wanted = schema["type"].as_str().unwrap_or("integer,string");
        causes.push(Cause::new(
            "FieldValueTypeInvalid",
            path,
            format!(
                "Invalid value: \"{}\": {path} in body must be of type {wanted}: \"{}\"",
                type_name(value),
                type_name(value)
            ),
        ));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        let list: Vec<String> = allowed.iter().map(Value::to_string).collect();
        causes.push(Cause::new(
            "FieldValueNotSupported",
            path,
            format!("Unsupported value: {value}: supported values: {}", list.join(", ")),
        ));
    }
    validate_bounds(schema, value, path, causes);
    match value {
        Value::Object(fields) => validate_fields(schema, fields, path, causes),
        Value::Array(items) => validate_items(schema, items, path, causes),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    validate_combinations(schema, value, path, causes);
}

fn has_type(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_string() || value.is_i64() || value.is_u64();
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        // 1.0 is an integer for the real server, too.
        Some("integer") => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        _ => true,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Checks minimum, maximum, lengths, counts and the pattern.
fn validate_bounds(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if let Some(number) = value.as_f64() {
        let exclusive = |key: &str| schema[key] == true;
        if let Some(least) = schema["minimum"].as_f64()
            && (number < least || (exclusive("exclusiveMinimum") && number <= least))
        {
            let why = format!("{path} in body should be greater than or equal to {least}");
            causes.push(Cause::invalid(path, value, &why));
        }
        if let Some(most) = schema["maximum"].as_f64()
            && (number > most || (exclusive("exclusiveMaximum") && number >= most))
        {
            let why = format!("{path} in body should be less than or equal to {most}");
            causes.push(Cause::invalid(path, value, &why));
        }
    }
    let (size, least, most, noun) = match value {
        Value::String(text) => (text.chars().count(), "minLength", "maxLength", "chars long"),
        Value::Array(items) => (items.len(), "minItems", "maxItems", "items"),
        Value::Object(fields) => (fields.len(), "minProperties", "maxProperties", "items"),
        Value::Null | Value::Bool(_) | Value::Number(_) => return,
    };
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    if let Some(least) = schema[least].as_u64().filter(|least| size < *least) {
        let why = format!("{path} in body should be at least {least} {noun}");
        causes.push(Cause::invalid(path, value, &why));
    }
    if let Some(most) = schema[most].as_u64().filter(|most| size > *most) {
        let (reason, message) = match value {
            Value::String(_) => ("FieldValueTooLong", format!("may not be more than {most} bytes")),
            _ => ("FieldValueTooMany", format!("{size}: must have at most {most} {noun}")),
        };
        let start = if value.is_string() { "Too long" } else { "Too many" };
        causes.push(Cause::new(reason, path, format!("{start}: {message}")));
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str()) {
        let matched = Regex::new(pattern).is_ok_and(|regex| regex.is_match(text));
        if !matched {
            let why = format!("{path} in body should match '{pattern}'");
            causes.push(Cause::invalid(path, value, &why));
        }
    }
}

fn validate_fields(
    schema: &Value,
    fields: &Map<String, Value>,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            causes.push(Cause::new("FieldValueRequired", join(path, name), "Required value"));
        }
    }
    let rest = schema.get("additionalProperties").filter(|rest| rest.is_object());
    for (name, value) in fields {
        if let Some(inner) = schema["properties"].get(name).or(rest) {
            validate(inner, value, &join(path, name), causes);
        }
    }
}

fn validate_items(schema: &Value, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let is_set = schema["x-kubernetes-list-type"] == "set";
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let item_path = format!("{path}[{index}]");
        let identity = match keys {
            Some(keys) => Some(
                keys.iter()
                    .filter_map(Value::as_str)
                    .map(|key| (key.to_owned(), item[key].clone()))
                    .collect::<Map<_, _>>()
                    .into(),
            ),
            None => is_set.then(|| item.clone()),
        };
        if let Some(identity) =
            identity.filter(|identity: &Value| !seen.insert(identity.to_string()))
        {
            let message = format!("Duplicate value: {identity}");
            causes.push(Cause::new("FieldValueDuplicate", item_path.clone(), message));
        }
        validate(&schema["items"], item, &item_path, causes);
    }
}

/// Checks `allOf`, `anyOf`, `oneOf` and `not`, which only value rules may use in CRDs.
fn validate_combinations(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let passes = |part: &Value| {
        let mut inner = Vec::new();
        validate(part, value, path, &mut inner);
        inner.is_empty()
    };
    for part in schema["allOf"].as_array().into_iter().flatten() {
        validate(part, value, path, causes);
    }
    if let Some(parts) = schema["anyOf"].as_array()
        && !parts.iter().any(passes)
    {
        causes.push(combined(path, "must validate at least one schema (anyOf)"));
    }
    if let Some(parts) = schema["oneOf"].as_array() {
        let found = match parts.iter().filter(|part| passes(part)).count() {
            1 => None,
            0 => Some("none valid".to_owned()),
            several => Some(format!("{several} valid alternatives")),
        };
        if let Some(found) = found {
            let why = format!("must validate one and only one schema (oneOf). Found {found}");
            causes.push(combined(path, &why));
        }
    }
    if let Some(part) = schema.get("not")
        && passes(part)
    {
        causes.push(combined(path, "must not validate the schema (not)"));
    }
}

/// Returns the cause of a failed combination, which the real server reports without a field.
fn combined(path: &str, why: &str) -> Cause {
    Cause::new("FieldValueInvalid", "<nil>", format!("Invalid value: \"\": \"{path}\" {why}"))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
