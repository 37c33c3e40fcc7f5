//! One tree to one object: schema, then types, then the rules between fields.

use std::rc::Rc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::breach::{Part, RuleBreach};
use super::findings::Findings;
use super::layer::{Identity, reference};
use super::path::Path;
use super::rules::Rule;
use super::schema::{Schemas, Subject};
use super::tree::Node;
use super::{policy, rollout};
use crate::api::crd::Kind;
use crate::api::{DeploymentPolicy, NodeWright};
use crate::model::Severity;

/// What of `metadata` is ours to write; the rest of a pasted object is Kubernetes' own.
const METADATA_KEPT: &[&str] = &["name", "labels", "annotations"];

/// An object that broke no rule, still with its tree.
pub(super) enum Object {
    NodeWright(Box<NodeWright>),
    Policy(Box<DeploymentPolicy>),
}

/// Checks one tree; `None` when it is refused. Findings say why, and warn.
pub(super) fn check(
    identity: &Identity,
    root: &Rc<Node>,
    schemas: &Schemas,
    findings: &mut Findings,
) -> Option<Object> {
    let (kind, _) = identity;
    let mut breaches = schemas.check(Subject::Resource(*kind), root);
    let from_schema = breaches.clone();
    let mut add = |found: Vec<RuleBreach>| {
        // What the schema says of a field is more exact than what follows from it.
        let is_new = |one: &RuleBreach| from_schema.iter().all(|known| known.path != one.path);
        breaches.extend(found.into_iter().filter(is_new));
    };
    let object = match kind {
        Kind::NodeWright => typed::<NodeWright>(root).map(|object| {
            add(rollout::examine(&object).1);
            Object::NodeWright(Box::new(object))
        }),
        Kind::DeploymentPolicy => typed::<DeploymentPolicy>(root).map(|object| {
            add(policy::examine(&object));
            Object::Policy(Box::new(object))
        }),
    };
    let object = match object {
        Ok(object) => Some(object),
        Err(error) => {
            if breaches.is_empty() {
                breaches.push(unusable(&error));
            }
            None
        }
    };
    let mut is_refused = object.is_none();
    for breach in &breaches {
        is_refused |= breach.rule.severity() == Severity::Error;
        let place = breach.path.place(root, breach.part);
        findings.breach(breach, &place, Some(reference(identity)));
    }
    object.filter(|_| !is_refused)
}

fn unusable(error: &serde_json::Error) -> RuleBreach {
    RuleBreach {
        rule: Rule::FieldUnreadable,
        path: Path::default(),
        part: Part::Value,
        message: format!("the object cannot be used: {error}"),
        way_out: "correct the value; the schema says what each field takes".to_owned(),
    }
}

/// Reads the object from its tree, with only what a manifest may set of `metadata`.
fn typed<T: DeserializeOwned>(root: &Node) -> Result<T, serde_json::Error> {
    let mut json = root.to_json();
    if let Some(metadata) = json.get_mut("metadata").and_then(Json::as_object_mut) {
        let mut kept = Map::new();
        for name in METADATA_KEPT {
            if let Some(value) = metadata.remove(*name) {
                kept.insert((*name).to_owned(), value);
            }
        }
        *metadata = kept;
    }
    if let Some(fields) = json.as_object_mut() {
        fields.remove("status");
    }
    serde_json::from_value(json)
}
