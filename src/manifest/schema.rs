//! Checks a tree against the schema of a CRD, whatever the schema.
//!
//! In: a structural schema as JSON, a tree. Out: every field that is unknown, missing, of the
//! wrong type or outside its bounds. Must never: know a field of ours by name, but for the words
//! with which it explains a version without quotes.

mod scalars;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value as Json, json};

use super::breach::{Part, RuleBreach};
use super::path::Path;
use super::rules::Rule;
use super::suggest::suggest;
use super::tree::{Entry, Node, Value};
use crate::api::crd::{Kind, crd};
use crate::api::{GROUP, VERSION};

/// The schemas of everything we read.
pub(super) struct Schemas {
    nodewright: Json,
    policy: Json,
    cluster: Json,
    patterns: BTreeMap<String, Regex>,
}

/// Made once: they never change while the program runs.
static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::new);

/// What a file may hold that we read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Resource(Kind),
    Cluster,
}

/// The fields of `metadata` that Kubernetes has; those it fills in itself are ignored.
const METADATA: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

impl Schemas {
    fn new() -> Self {
        let mut schemas = Self {
            nodewright: object(Kind::NodeWright),
            policy: object(Kind::DeploymentPolicy),
            cluster: cluster(),
            patterns: BTreeMap::new(),
        };
        for schema in [&schemas.nodewright, &schemas.policy, &schemas.cluster] {
            compile(schema, &mut schemas.patterns);
        }
        schemas
    }

    /// Returns the schemas of this program.
    pub fn get() -> &'static Self {
        &SCHEMAS
    }

    /// Returns everything in which a tree differs from the schema of what it should be.
    pub fn check(&self, subject: Subject, node: &Node) -> Vec<RuleBreach> {
        let schema = match subject {
            Subject::Resource(Kind::NodeWright) => &self.nodewright,
            Subject::Resource(Kind::DeploymentPolicy) => &self.policy,
            Subject::Cluster => &self.cluster,
        };
        let mut walk = Walk { schemas: self, breaches: Vec::new() };
        walk.node(schema, node, &Path::default());
        walk.breaches
    }

    /// Returns whether a text has the form; a pattern that this crate cannot read accepts all.
    fn has_form(&self, pattern: &str, text: &str) -> bool {
        self.patterns.get(pattern).is_none_or(|regex| regex.is_match(text))
    }
}

/// Compiles every pattern in a schema.
fn compile(schema: &Json, patterns: &mut BTreeMap<String, Regex>) {
    match schema {
        Json::Object(fields) => {
            if let Some(Json::String(pattern)) = fields.get("pattern")
                && let Ok(regex) = Regex::new(pattern)
            {
                patterns.insert(pattern.clone(), regex);
            }
            fields.values().for_each(|inner| compile(inner, patterns));
        }
        Json::Array(items) => items.iter().for_each(|inner| compile(inner, patterns)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Returns the schema of a whole manifest of a kind.
fn object(kind: Kind) -> Json {
    let published = crd(kind);
    let schema = published.spec.versions.into_iter().next().and_then(|version| version.schema);
    let whole = serde_json::to_value(schema).expect("a CRD's schema is plain JSON");
    let spec = whole["openAPIV3Schema"]["properties"]["spec"].clone();
    json!({
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"type": "string", "enum": [format!("{GROUP}/{VERSION}")]},
            "kind": {"type": "string", "enum": [kind.name()]},
            "metadata": metadata(),
            "spec": spec,
        },
    })
}

fn metadata() -> Json {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let mut properties: serde_json::Map<String, Json> =
        METADATA.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    properties.insert("name".to_owned(), json!({"type": "string", "minLength": 1}));
    properties.insert("labels".to_owned(), texts.clone());
    properties.insert("annotations".to_owned(), texts);
    json!({"type": "object", "required": ["name"], "properties": properties})
}

/// Returns the schema of `cluster.yaml` (design §8), which is read and never applied.
fn cluster() -> Json {
    json!({
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {
            "apiVersion": {"type": "string", "enum": ["nodewright.dev/v1"]},
            "kind": {"type": "string", "enum": ["Cluster"]},
            "metadata": metadata(),
            "uses": {
                "type": "array",
                "maxItems": 256,
                "items": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 253,
                    "pattern": "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
                },
            },
        },
    })
}

/// One check under way.
struct Walk<'a> {
    schemas: &'a Schemas,
    breaches: Vec<RuleBreach>,
}

impl Walk<'_> {
    fn report(&mut self, rule: Rule, path: &Path, part: Part, message: String, way_out: String) {
        self.breaches.push(RuleBreach { rule, path: path.clone(), part, message, way_out });
    }

    fn node(&mut self, schema: &Json, node: &Node, path: &Path) {
        if schema["x-kubernetes-int-or-string"] == json!(true) {
            return self.number_or_text(schema, node, path);
        }
        match schema["type"].as_str() {
            Some("object") => self.object(schema, node, path),
            Some("array") => self.list(schema, node, path),
            Some("string") => self.text(schema, node, path),
            Some("integer") => self.integer(schema, node, path),
            Some("boolean") => self.boolean(node, path),
            _ => {}
        }
    }

    fn object(&mut self, schema: &Json, node: &Node, path: &Path) {
        let Value::Map(entries) = &node.value else {
            return self.wrong_type(node, path, "a map", "write keys with values");
        };
        self.required(schema, node, path);
        if let Some(most) = schema["maxProperties"].as_u64() {
            self.at_most(entries.len(), most, path);
        }
        let fields = schema["properties"].as_object();
        let inner = &schema["additionalProperties"];
        for Entry { key, value, .. } in entries {
            let path = path.key(key);
            match fields.and_then(|fields| fields.get(key)) {
                // Not given, as the API server prunes it.
                Some(_) if value.is_null() => {}
                Some(field) => self.node(field, value, &path),
                None if inner.is_object() => self.node(inner, value, &path),
                None => {
                    if let Some(fields) = fields {
                        let known: Vec<&str> = fields.keys().map(String::as_str).collect();
                        self.unknown(key, &known, &path);
                    }
                }
            }
        }
    }

    fn required(&mut self, schema: &Json, node: &Node, path: &Path) {
        for name in schema["required"].as_array().into_iter().flatten() {
            let Some(name) = name.as_str() else { continue };
            if node.get(name).is_some_and(|value| !value.is_null()) {
                continue;
            }
            let message = format!("the field {name} is missing");
            let way_out = format!("add {name}");
            let path = if node.get(name).is_some() { path.key(name) } else { path.clone() };
            self.report(Rule::MissingField, &path, Part::Key, message, way_out);
        }
    }

    fn unknown(&mut self, key: &str, known: &[&str], path: &Path) {
        let message = format!("there is no field {}", shown(key));
        let way_out = if *path == Path::of(&["status"]) {
            "remove it; the status is written by the daemon, not in a manifest".to_owned()
        } else if let Some(meant) = suggest(key, known) {
            format!("write {meant} if that is what you mean, or remove it")
        } else {
            format!("remove it; the fields here are {}", known.join(", "))
        };
        self.report(Rule::UnknownField, path, Part::Key, message, way_out);
    }

    fn list(&mut self, schema: &Json, node: &Node, path: &Path) {
        let Value::List(items) = &node.value else {
            return self.wrong_type(
                node,
                path,
                "a list",
                "write one item a line, each after \"- \"",
            );
        };
        if let Some(most) = schema["maxItems"].as_u64() {
            self.at_most(items.len(), most, path);
        }
        for (position, item) in items.iter().enumerate() {
            self.node(&schema["items"], item, &path.index(position));
        }
    }

    fn at_most(&mut self, count: usize, most: u64, path: &Path) {
        if count as u64 > most {
            let message = format!("there are {count} entries; at most {most} are allowed");
            let way_out = format!("keep {most} or fewer");
            self.report(Rule::TooManyEntries, path, Part::Key, message, way_out);
        }
    }

    fn wrong_type(&mut self, node: &Node, path: &Path, wanted: &str, way_out: &str) {
        let message = match node.text() {
            Some(text) => {
                format!("{wanted} is wanted here; {} is {}", shown(text), node.kind())
            }
            None => format!("{wanted} is wanted here, not {}", node.kind()),
        };
        self.report(Rule::WrongType, path, Part::Value, message, way_out.to_owned());
    }
}

/// Quotes a text for a message and cuts it; manifests may hold whole files.
pub(super) fn shown(text: &str) -> String {
    const SHOWN_MAX_CHARACTERS: usize = 80;
    match text.char_indices().nth(SHOWN_MAX_CHARACTERS) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
