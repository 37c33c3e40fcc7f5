//! Custom resources from Git: which steps, and what they do to the embedded cluster.

mod apply;
mod steps;

use std::collections::BTreeSet;

use kube::api::DynamicObject;
use nodewright::api::keys::CONFIG_DIGEST;
use nodewright::api::{DeploymentPolicy, NodeWright};
use nodewright::cluster::resources::{Adoption, Live, Pruning, Wanted, WantedObject};
use nodewright::cluster::source_state::ManagedObject;
use serde_json::{Value, json};

/// Digest of everything that these tests want, unless they say otherwise.
const DIGEST: &str = "d1";

pub fn wanted(objects: Vec<WantedObject>) -> Wanted {
    Wanted {
        objects,
        refused: BTreeSet::new(),
        pruning: Pruning::Allowed,
        adoption: Adoption::Refused,
    }
}

pub fn nodewright_spec(version: &str, priority: i32, policy: Option<&str>) -> Value {
    let mut spec = json!({
        "nodeSelectors": {"matchLabels": {"pool": "gpu"}},
        "priority": priority,
        "packages": {"tuning": {"version": version, "image": "registry.example.com/tuning"}},
    });
    if let Some(policy) = policy {
        spec["deploymentPolicy"] = policy.into();
    }
    spec
}

pub fn nodewright(name: &str, spec: &Value) -> WantedObject {
    let object = json!({"metadata": {"name": name}, "spec": spec});
    let object: NodeWright = serde_json::from_value(object).expect("a valid NodeWright");
    WantedObject::nodewright(&object, DIGEST)
}

fn policy_spec(count: i32) -> Value {
    json!({"default": {"budget": {"count": count}}})
}

pub fn policy(name: &str, count: i32) -> WantedObject {
    let object = json!({"metadata": {"name": name}, "spec": policy_spec(count)});
    let object: DeploymentPolicy = serde_json::from_value(object).expect("a valid policy");
    WantedObject::policy(&object, DIGEST)
}

/// An object as the API server would return it; `metadata` is merged in.
fn live(object: &ManagedObject, spec: &Value, metadata: Value) -> (ManagedObject, DynamicObject) {
    let mut whole = json!({
        "metadata": {
            "name": object.name, "uid": format!("uid-{}", object.name), "resourceVersion": "7",
            "annotations": {CONFIG_DIGEST: DIGEST},
        },
        "spec": spec,
    });
    json_patch::merge(&mut whole, &json!({"metadata": metadata}));
    (object.clone(), serde_json::from_value(whole).expect("a valid object"))
}

fn live_of<const N: usize>(objects: [(ManagedObject, DynamicObject); N]) -> Live {
    Live::from(objects)
}

pub fn managed<const N: usize>(objects: [ManagedObject; N]) -> BTreeSet<ManagedObject> {
    BTreeSet::from(objects)
}
