//! The CustomResourceDefinitions, as an API server takes them.
//!
//! In: the schemas that the serde types describe, and two tables: how long and how many
//! ([`bounds`]), and what must hold between fields ([`rules`]). Out: the two CRDs, and a JSON
//! Schema of each for editors. The same input gives the same output, byte for byte.
//! Must never: know a field that the types do not have, other than upstream's per-node maps.

mod bounds;
mod editor;
mod rules;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::api::{DeploymentPolicy, NodeWright};

pub use editor::editor_schema;

/// The resources of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One set of packages on one set of nodes.
    NodeWright,
    /// How a rollout is paced.
    DeploymentPolicy,
}

impl Kind {
    /// Every kind, in the order in which they are listed everywhere.
    pub const ALL: [Self; 2] = [Self::NodeWright, Self::DeploymentPolicy];

    /// Returns the name as written in a manifest.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NodeWright => "NodeWright",
            Self::DeploymentPolicy => "DeploymentPolicy",
        }
    }

    /// Returns the name as written in a URL.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::NodeWright => "nodewrights",
            Self::DeploymentPolicy => "deploymentpolicies",
        }
    }
}

/// Returns the CRDs of the group, in the order of [`Kind::ALL`].
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    Kind::ALL.into_iter().map(crd).collect()
}

/// Returns the CRD of one kind.
#[must_use]
pub fn crd(kind: Kind) -> CustomResourceDefinition {
    let derived = match kind {
        Kind::NodeWright => NodeWright::crd(),
        Kind::DeploymentPolicy => DeploymentPolicy::crd(),
    };
    let mut value = serde_json::to_value(derived).expect("a derived CRD is plain JSON");
    let version = &mut value["spec"]["versions"][0];
    version["additionalPrinterColumns"] = columns(kind);
    refine(kind, &mut version["schema"]["openAPIV3Schema"]);
    serde_json::from_value(value).expect("a refined CRD is still a CRD")
}

/// Turns a derived schema into the one we publish.
fn refine(kind: Kind, schema: &mut Value) {
    if kind == Kind::NodeWright {
        add_upstream_status(schema);
    }
    walk(schema, &mut prune_null);
    walk(schema, &mut quantity);
    for (prefix, table) in bounds::of(kind) {
        for (path, given) in table.iter() {
            let target = at(schema, &joined(prefix, path));
            for bound in given.iter() {
                bound.apply(target);
            }
        }
    }
    walk(schema, &mut bounds::fall_back);
    for (prefix, table) in rules::of(kind) {
        for rule in table.iter() {
            let target = at(schema, &joined(prefix, rule.path));
            let list = &mut target["x-kubernetes-validations"];
            if list.is_null() {
                *list = json!([]);
            }
            list.as_array_mut().expect("validations are a list").push(rule.to_json());
        }
    }
}

/// Adds what upstream keeps per node, so that a status it wrote stays valid and is not pruned.
///
/// We neither read nor write these (design §4), so they are in the schema only.
fn add_upstream_status(schema: &mut Value) {
    let text = json!({"type": "string"});
    let package = json!({
        "type": "object",
        "properties": {
            "name": text, "version": text, "image": text, "containerSHA": text,
            "stage": text, "state": text,
            "restarts": {"type": "integer", "format": "int32"},
        },
    });
    let map_of = |value: Value, description: &str| {
        json!({
            "type": "object",
            "description": format!("Upstream's; not written by this controller. {description}"),
            "additionalProperties": value,
        })
    };
    let packages = json!({"type": "object", "additionalProperties": package});
    let names = json!({"type": "array", "items": text});
    let status = at(schema, "status");
    let fields = status["properties"].as_object_mut().expect("a status has properties");
    let added = [
        ("nodeState", map_of(packages, "Package states by node.")),
        ("nodeStatus", map_of(text.clone(), "Status word by node.")),
        ("nodeBootIds", map_of(text.clone(), "Boot id by node.")),
        ("nodePriority", map_of(text, "When a node was picked, by node.")),
        ("configUpdates", map_of(names, "Changed configuration keys by package.")),
        (
            "nodeOrderOffset",
            json!({
                "type": "integer",
                "format": "int64",
                "description": "Upstream's; not written by this controller.",
            }),
        ),
    ];
    for (name, field) in added {
        fields.insert(name.to_owned(), field);
    }
}

/// Takes `nullable` away, so that the API server prunes a `null` and rules can ask with `has()`.
///
/// It stays where `null` means something besides "not given": a switch with a default.
fn prune_null(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if !fields.contains_key("default") {
        fields.remove("nullable");
    }
}

/// Completes the schema of a quantity, which may be written as a number.
fn quantity(schema: &mut Value) {
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
        schema["maxLength"] = json!(bounds::QUANTITY_MAX_LENGTH);
        schema["pattern"] = json!(bounds::QUANTITY_PATTERN);
    }
}

/// Calls `visit` on a schema and everything in it, parents first.
fn walk(schema: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    visit(schema);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|property| walk(property, visit));
    }
    for inner in ["additionalProperties", "items"] {
        if let Some(inner) = schema.get_mut(inner).filter(|inner| inner.is_object()) {
            walk(inner, visit);
        }
    }
}

/// Finds a schema by path: field names, `*` for the values of a map, `[]` for those of a list.
fn at<'a>(schema: &'a mut Value, path: &str) -> &'a mut Value {
    let mut found = schema;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let inner = match step {
            "*" => found.get_mut("additionalProperties"),
            "[]" => found.get_mut("items"),
            name => found.get_mut("properties").and_then(|fields| fields.get_mut(name)),
        };
        found = inner.expect("the tables name only fields that the types have");
    }
    found
}

fn joined(prefix: &str, path: &str) -> String {
    [prefix, path].join(".")
}

/// Returns the columns of `kubectl get` (upstream contract A.6).
fn columns(kind: Kind) -> Value {
    let columns: &[(&str, &str, &str)] = match kind {
        Kind::NodeWright => &[
            ("Status", "string", ".status.status"),
            ("Priority", "integer", ".spec.priority"),
            ("Age", "date", ".metadata.creationTimestamp"),
            ("Nodes In-Progress", "integer", ".status.nodesInProgress"),
            ("Complete Nodes", "string", ".status.completeNodes"),
            ("Packages", "string", ".status.packageList"),
            ("Policy", "string", ".spec.deploymentPolicy"),
        ],
        Kind::DeploymentPolicy => &[("Age", "date", ".metadata.creationTimestamp")],
    };
    let column = |(name, kind, path): &(&str, &str, &str)| {
        let (kind, path) = (*kind, *path);
        json!({"name": name, "type": kind, "jsonPath": path})
    };
    columns.iter().map(column).collect()
}
