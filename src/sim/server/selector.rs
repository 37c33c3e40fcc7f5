//! Label and field selectors of list, watch and deletecollection.
//!
//! In goes the text of a query parameter, out comes something that matches objects. A field that
//! the real server does not index is a 400 here too.

use serde_json::Value;

use super::refusal::Refusal;
use super::resources::Kind;

/// A parsed pair of selectors; the default matches everything.
#[derive(Debug, Clone, Default)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Debug, Clone)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

#[derive(Debug, Clone)]
struct FieldRequirement {
    path: Vec<String>,
    value: String,
    wanted: Wanted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Equal,
    Different,
}

impl Selector {
    /// Returns the selector of the two query parameters.
    pub fn parse(kind: &Kind, labels: Option<&str>, fields: Option<&str>) -> Result<Self, Refusal> {
        Ok(Self {
            labels: parse_labels(labels.unwrap_or_default())?,
            fields: parse_fields(kind, fields.unwrap_or_default())?,
        })
    }

    /// Returns whether the object is selected.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|requirement| requirement.matches(labels))
            && self.fields.iter().all(|field| field.matches(object))
    }

    /// Returns whether everything is selected.
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

impl Requirement {
    fn matches(&self, labels: &Value) -> bool {
        let value = |key: &str| labels.get(key).and_then(Value::as_str);
        match self {
            Self::In(key, values) => {
                value(key).is_some_and(|found| values.iter().any(|wanted| wanted == found))
            }
            Self::NotIn(key, values) => {
                value(key).is_none_or(|found| values.iter().all(|wanted| wanted != found))
            }
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
        }
    }
}

impl FieldRequirement {
    fn matches(&self, object: &Value) -> bool {
        let found = self.path.iter().try_fold(object, |value, key| value.get(key));
        let text = match found {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            // An absent boolean is false and an absent string is empty, as in the Go types.
            _ if self.path.last().is_some_and(|key| key == "unschedulable") => "false".to_owned(),
            _ => String::new(),
        };
        (text == self.value) == (self.wanted == Wanted::Equal)
    }
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, Refusal> {
    split_outside_parentheses(text).into_iter().map(parse_requirement).collect()
}

fn parse_requirement(part: &str) -> Result<Requirement, Refusal> {
    let one = |value: &str| vec![value.trim().to_owned()];
    let key_of = |text: &str| text.trim().to_owned();
    if let Some((head, list)) = part.split_once('(') {
        let list = list.strip_suffix(')').ok_or_else(|| unparsable(part))?;
        let values = list.split(',').map(|value| value.trim().to_owned()).collect();
        return match head.split_whitespace().collect::<Vec<_>>().as_slice() {
            [key, "in"] => Ok(Requirement::In((*key).to_owned(), values)),
            [key, "notin"] => Ok(Requirement::NotIn((*key).to_owned(), values)),
            _ => Err(unparsable(part)),
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(key_of(key), one(value)));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(key_of(key), one(value)));
    }
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Requirement::Absent(key_of(key)));
    }
    if part.contains(char::is_whitespace) {
        return Err(unparsable(part));
    }
    Ok(Requirement::Exists(part.to_owned()))
}

fn parse_fields(kind: &Kind, text: &str) -> Result<Vec<FieldRequirement>, Refusal> {
    let mut fields = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (path, value, wanted) = if let Some((path, value)) = part.split_once("!=") {
            (path, value, Wanted::Different)
        } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (path, value, Wanted::Equal)
        } else {
            return Err(Refusal::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{part}'"
            )));
        };
        if !is_indexed(kind, path) {
            return Err(Refusal::bad_request(format!("field label not supported: {path}")));
        }
        let path = path.split('.').map(str::to_owned).collect();
        fields.push(FieldRequirement { path, value: value.to_owned(), wanted });
    }
    Ok(fields)
}

/// Returns whether the real server serves a field selector on this path.
fn is_indexed(kind: &Kind, path: &str) -> bool {
    match path {
        "metadata.name" | "metadata.namespace" => true,
        "spec.nodeName"
        | "spec.restartPolicy"
        | "spec.schedulerName"
        | "spec.serviceAccountName"
        | "status.podIP"
        | "status.nominatedNodeName" => kind.is("pods"),
        "status.phase" => kind.is("pods") || kind.is("namespaces"),
        "spec.unschedulable" => kind.is("nodes"),
        "reason" | "type" | "reportingController" => kind.is("events"),
        other => other.starts_with("involvedObject.") && kind.is("events") && kind.group.is_empty(),
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn unparsable(part: &str) -> Refusal {
    Refusal::bad_request(format!("unable to parse requirement: couldn't parse {part:?}"))
}
