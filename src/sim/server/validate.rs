//! Checks of metadata that every API server makes: names, labels, annotations, size.
//!
//! In goes an object about to be stored, out come the causes of a 422. Content of spec and status
//! is not looked at here.

use serde_json::{Value, json};

use super::refusal::{Cause, Refusal};
use super::resources::Kind;

/// Largest object etcd takes (`--max-request-bytes`).
const OBJECT_BYTES_MAX: usize = 1_572_864;
/// All annotation keys and values of an object together (apimachinery `TotalAnnotationSizeLimitB`).
const ANNOTATIONS_BYTES_MAX: usize = 262_144;
/// Longest DNS-1123 subdomain, which is what most names are.
const NAME_LENGTH_MAX: usize = 253;
/// Longest DNS-1123 label, label value and name part of a label key.
const LABEL_LENGTH_MAX: usize = 63;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
     characters or '-', and must start and end with an alphanumeric character";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
     characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character";

/// Checks name, labels, annotations and size of an object.
pub(super) fn check_metadata(kind: &Kind, object: &Value) -> Result<(), Refusal> {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let mut causes = Vec::new();
    check_name(kind, name, &mut causes);
    check_labels(&metadata["labels"], &mut causes);
    check_annotations(&metadata["annotations"], &mut causes);
    if !causes.is_empty() {
        return Err(Refusal::invalid(kind, name, &causes));
    }
    let size = object.to_string().len();
    if size > OBJECT_BYTES_MAX {
        return Err(Refusal::plain(500, "", "etcdserver: request is too large"));
    }
    Ok(())
}

/// Returns whether the text is a DNS-1123 label.
pub(super) fn is_label(text: &str) -> bool {
    text.len() <= LABEL_LENGTH_MAX && is_made_of(text, "-", LetterCase::Lower)
}

fn check_name(kind: &Kind, name: &str, causes: &mut Vec<Cause>) {
    let at = "metadata.name";
    // RBAC names are path segments, not DNS names.
    if kind.group == "rbac.authorization.k8s.io" {
        return;
    }
    if kind.is("namespaces") || kind.is("services") {
        if !is_label(name) {
            causes.push(Cause::invalid(at, &json!(name), LABEL));
        }
        return;
    }
    let is_subdomain = name.len() <= NAME_LENGTH_MAX
        && name.split('.').all(|part| is_made_of(part, "-", LetterCase::Lower));
    if !is_subdomain {
        causes.push(Cause::invalid(at, &json!(name), SUBDOMAIN));
    }
}

fn check_labels(labels: &Value, causes: &mut Vec<Cause>) {
    let at = "metadata.labels";
    for (key, value) in labels.as_object().into_iter().flatten() {
        if !is_qualified_name(key) {
            causes.push(Cause::invalid(at, &json!(key), QUALIFIED_NAME));
        }
        let text = value.as_str().unwrap_or_default();
        if text.len() > LABEL_LENGTH_MAX {
            let why = format!("must be no more than {LABEL_LENGTH_MAX} bytes");
            causes.push(Cause::invalid(at, value, &why));
        } else if !text.is_empty() && !is_made_of(text, "-_.", LetterCase::Any) {
            causes.push(Cause::invalid(at, value, LABEL_VALUE));
        }
    }
}

fn check_annotations(annotations: &Value, causes: &mut Vec<Cause>) {
    let at = "metadata.annotations";
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        if !is_qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid(at, &json!(key), QUALIFIED_NAME));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_BYTES_MAX {
        let message = format!("Too long: may not be more than {ANNOTATIONS_BYTES_MAX} bytes");
        causes.push(Cause::new("FieldValueTooLong", at, message));
    }
}

fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').unwrap_or(("", key));
    let prefix_holds = !key.contains('/')
        || (prefix.len() <= NAME_LENGTH_MAX
            && prefix.split('.').all(|part| is_made_of(part, "-", LetterCase::Lower)));
    prefix_holds && name.len() <= LABEL_LENGTH_MAX && is_made_of(name, "-_.", LetterCase::Any)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LetterCase {
    Lower,
    Any,
}

/// Returns whether the text is alphanumeric at both ends and, between, also of `inner`.
fn is_made_of(text: &str, inner: &str, case: LetterCase) -> bool {
    let plain = |letter: char| {
        letter.is_ascii_digit()
            || letter.is_ascii_lowercase()
            || (case == LetterCase::Any && letter.is_ascii_uppercase())
    };
    text.starts_with(plain)
        && text.ends_with(plain)
        && text.chars().all(|letter| plain(letter) || inner.contains(letter))
}
