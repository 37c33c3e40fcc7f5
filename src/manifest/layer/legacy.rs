//! Documents under the group's former name, brought under the present one (upstream contract A.1).
//!
//! In: the root of a document. Out: the same document as it would be written now, every part still
//! in its place. The body is the same in both groups, so the same rules hold for it.
//! Must never: touch a document of another group, or of a kind that the group never had.

use std::rc::Rc;

use crate::api::crd::Kind;
use crate::api::keys::{LEGACY_PREFIX, PREFIX};
use crate::api::{GROUP, VERSION};
use crate::manifest::findings::Findings;
use crate::manifest::rules::Rule;
use crate::manifest::tree::{Entry, Meaning, Node, Scalar, Value};

/// The group's name before it was renamed.
pub(super) const LEGACY_GROUP: &str = "skyhook.nvidia.com";

/// The former name of the main kind.
const LEGACY_KIND: &str = "Skyhook";

/// Returns the kind that a kind of the former group is now.
pub(super) fn kind_now(kind: &str) -> Option<Kind> {
    match kind {
        LEGACY_KIND => Some(Kind::NodeWright),
        _ if kind == Kind::DeploymentPolicy.name() => Some(Kind::DeploymentPolicy),
        _ => None,
    }
}

/// Returns the document under the present names, with a finding where they are not the ones
/// written.
pub(super) fn renamed(root: &Rc<Node>, findings: &mut Findings) -> Rc<Node> {
    let text = |key: &str| root.get(key).and_then(|node| node.text());
    let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
        return Rc::clone(root);
    };
    let version = api_version.strip_prefix(LEGACY_GROUP).and_then(|rest| rest.strip_prefix('/'));
    let (Some(version), Some(now)) = (version, kind_now(kind)) else { return Rc::clone(root) };
    let message = format!("{kind} of {LEGACY_GROUP} is the former name of {}", now.name());
    let way_out =
        format!("it is read as such; write apiVersion: {GROUP}/{VERSION} and kind: {}", now.name());
    findings.place(Rule::LegacyGroup, &root.place, None, message, &way_out);
    let version = format!("{GROUP}/{version}");
    Rc::new(mapped(root, |entry| match entry.key.as_str() {
        "apiVersion" => with_text(entry, &version),
        "kind" => with_text(entry, now.name()),
        "metadata" => with_value(entry, mapped(&entry.value, metadata)),
        _ => entry.clone(),
    }))
}

/// Labels and annotations of ours are known by their present keys alone.
fn metadata(entry: &Entry) -> Entry {
    match entry.key.as_str() {
        "annotations" | "labels" => with_value(
            entry,
            mapped(&entry.value, |entry| {
                let key = entry.key.strip_prefix(LEGACY_PREFIX);
                let key = key.map_or_else(|| entry.key.clone(), |rest| format!("{PREFIX}{rest}"));
                Entry { key, ..entry.clone() }
            }),
        ),
        _ => entry.clone(),
    }
}

/// Returns a map with each of its entries changed; what is no map stays as it is.
fn mapped(node: &Node, change: impl Fn(&Entry) -> Entry) -> Node {
    match &node.value {
        Value::Map(entries) => Node {
            place: node.place.clone(),
            value: Value::Map(entries.iter().map(change).collect()),
        },
        Value::List(_) | Value::Scalar(_) => node.clone(),
    }
}

fn with_value(entry: &Entry, value: Node) -> Entry {
    Entry { value: Rc::new(value), ..entry.clone() }
}

fn with_text(entry: &Entry, text: &str) -> Entry {
    let scalar = Scalar { text: text.to_owned(), plain: true, meaning: Meaning::Text };
    with_value(entry, Node { place: entry.value.place.clone(), value: Value::Scalar(scalar) })
}
