//! Says what a document is: one of our objects, somebody else's, none, or one that cannot be told.

use super::legacy::LEGACY_GROUP;
use super::{Foreign, Identity};
use crate::api::crd::Kind;
use crate::api::keys::RESOURCE_NAME_MAX_BYTES;
use crate::api::{GROUP, VERSION};
use crate::manifest::findings::Findings;
use crate::manifest::names::OBJECT_NAME_MAX_BYTES;
use crate::manifest::rollout::name_flaw;
use crate::manifest::rules::Rule;
use crate::manifest::schema::shown;
use crate::manifest::suggest::suggest;
use crate::manifest::tree::{Node, Place, Value};

/// The group of files that the daemon reads and never applies.
const FILE_GROUP: &str = "nodewright.dev";

/// Files of kustomize, which need not say what they are.
const KUSTOMIZE: &[&str] = &["kustomization.yaml", "kustomization.yml"];

/// What a document is.
pub(super) enum Class {
    /// One of our objects.
    Ours(Identity),
    /// An object of another kind.
    Foreign(Foreign),
    /// Nothing that could be one of our objects.
    Skipped,
    /// It may be one of our objects, and nobody can say which; a finding says why.
    Broken,
}

/// Says what a document is, with a finding unless it is simply one of ours.
pub(super) fn classify(root: &Node, place: &Place, findings: &mut Findings) -> Class {
    let name = place.file.rsplit('/').next().unwrap_or(&place.file);
    if KUSTOMIZE.contains(&name) {
        return Class::Skipped;
    }
    let text = |key: &str| root.get(key).and_then(|node| node.text());
    match (text("apiVersion"), text("kind")) {
        (Some(version), Some(kind)) => with_header(root, version, kind, findings),
        (version, kind) => without_header(root, place, version, kind, findings),
    }
}

fn without_header(
    root: &Node,
    place: &Place,
    version: Option<&str>,
    kind: Option<&str>,
    findings: &mut Findings,
) -> Class {
    let looks_like_one = |node: &Node| {
        ["apiVersion", "kind", "metadata", "spec"].iter().any(|key| node.get(key).is_some())
    };
    let is_near = match &root.value {
        Value::Map(_) => looks_like_one(root),
        Value::List(items) => items.iter().any(|item| looks_like_one(item)),
        Value::Scalar(_) => false,
    };
    if !is_near {
        let message = "the document is no Kubernetes object and is skipped".to_owned();
        let way_out = "move it out of the folder, or into one that starts with a dot";
        findings.place(Rule::NotAnObject, place, None, message, way_out);
        return Class::Skipped;
    }
    let missing = match (version, kind) {
        (None, Some(_)) => "apiVersion is missing",
        (Some(_), None) => "kind is missing",
        (None, None) | (Some(_), Some(_)) => "apiVersion and kind are missing",
    };
    let way_out = format!("add apiVersion: {GROUP}/{VERSION} and kind: NodeWright, or what it is");
    findings.place(Rule::IncompleteHeader, place, None, missing.to_owned(), &way_out);
    Class::Broken
}

fn with_header(root: &Node, api_version: &str, kind: &str, findings: &mut Findings) -> Class {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let known = Kind::ALL.into_iter().find(|known| known.name() == kind);
    if group == GROUP {
        return match known {
            Some(known) if version == VERSION => ours(root, known, findings),
            Some(_) => unknown_version(root, version, findings),
            None => unknown_kind(root, kind, findings),
        };
    }
    if let Some(item) = listed(root) {
        let message = "a List of objects is not read".to_owned();
        let way_out = "write each object as a document of its own, with --- between them";
        findings.place(Rule::UnknownKind, &item.place, None, message, way_out);
        return Class::Broken;
    }
    let is_slip = group != LEGACY_GROUP && suggest(group, &[GROUP]).is_some();
    if is_slip || (known == Some(Kind::NodeWright) && group != LEGACY_GROUP) {
        let message = format!("{} is not the group of {kind}", shown(group));
        let way_out = format!("write apiVersion: {GROUP}/{VERSION}");
        let place = header_place(root, "apiVersion");
        findings.place(Rule::UnknownKind, &place, None, message, &way_out);
        return Class::Broken;
    }
    foreign(root, group, api_version, kind, findings)
}

fn ours(root: &Node, kind: Kind, findings: &mut Findings) -> Class {
    let max_bytes = match kind {
        Kind::NodeWright => RESOURCE_NAME_MAX_BYTES,
        Kind::DeploymentPolicy => OBJECT_NAME_MAX_BYTES,
    };
    let written = root.get("metadata").and_then(|metadata| metadata.get("name"));
    let Some((node, name)) = written.and_then(|node| Some((node, node.text()?))) else {
        let message = "metadata.name is missing".to_owned();
        let way_out = "add metadata with a name; generateName is not read";
        findings.place(Rule::ObjectName, &root.place, None, message, way_out);
        return Class::Broken;
    };
    let identity = (kind, name.to_owned());
    if let Some((message, way_out)) = name_flaw(name, max_bytes) {
        let object = Some(super::reference(&identity));
        findings.place(Rule::ObjectName, &node.place, object, message, &way_out);
        return Class::Broken;
    }
    Class::Ours(identity)
}

fn unknown_version(root: &Node, version: &str, findings: &mut Findings) -> Class {
    let message = format!("the group {GROUP} has no version {}", shown(version));
    let way_out = format!("write apiVersion: {GROUP}/{VERSION}");
    let place = header_place(root, "apiVersion");
    findings.place(Rule::UnknownKind, &place, None, message, &way_out);
    Class::Broken
}

fn unknown_kind(root: &Node, kind: &str, findings: &mut Findings) -> Class {
    let names = Kind::ALL.map(Kind::name);
    let message = format!("the group {GROUP} has no kind {}", shown(kind));
    let way_out = match suggest(kind, &names) {
        Some(meant) => format!("write {meant} if that is what you mean"),
        None => format!("write one of {}", names.join(", ")),
    };
    findings.place(Rule::UnknownKind, &header_place(root, "kind"), None, message, &way_out);
    Class::Broken
}

fn header_place(root: &Node, key: &str) -> Place {
    root.get(key).map_or_else(|| root.place.clone(), |node| node.place.clone())
}

/// Returns the first of our objects in a List.
fn listed(root: &Node) -> Option<&Node> {
    let Value::List(items) = &root.get("items")?.value else { return None };
    let is_ours = |item: &Node| {
        let version = item.get("apiVersion").and_then(|node| node.text()).unwrap_or_default();
        version.starts_with(GROUP) || version.starts_with(LEGACY_GROUP)
    };
    items.iter().map(AsRef::as_ref).find(|item| is_ours(item))
}

fn foreign(
    root: &Node,
    group: &str,
    api_version: &str,
    kind: &str,
    findings: &mut Findings,
) -> Class {
    let name = root.get("metadata").and_then(|metadata| metadata.get("name"));
    let name = name.and_then(|node| node.text()).map(str::to_owned);
    let place = &root.place;
    if group == FILE_GROUP {
        return Class::Skipped;
    }
    if group == LEGACY_GROUP {
        let message = format!("{} is no kind that {LEGACY_GROUP} ever had", shown(kind));
        let way_out =
            format!("write apiVersion: {GROUP}/{VERSION} and kind: NodeWright, or what it is");
        findings.place(Rule::LegacyGroup, place, None, message, &way_out);
    } else {
        let message = format!("{kind} of {} is not ours and is skipped", shown(api_version));
        let way_out = "nothing needs to be done; other tools may apply it";
        findings.place(Rule::ForeignKind, place, None, message, way_out);
    }
    Class::Foreign(Foreign {
        file: place.file.to_string(),
        line: place.line,
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name,
    })
}
