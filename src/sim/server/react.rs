//! What the controllers of a real cluster do after a write, done at once.
//!
//! The CRD controller serves new kinds, the node lifecycle controller keeps its taints, the
//! deletion of an object whose finalizers are gone completes. Each is a change of its own with its
//! own resourceVersion, as it is in a real cluster: the writer's answer is older than the object.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::State;
use super::resources::{Kind, Origin, Scope};
use super::schema::Schema;
use super::store::ObjectKey;
use super::write::text;

/// Taints the node lifecycle controller owns, and the state of the node each stands for.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

impl State {
    /// Lets the controllers see an object that was just stored.
    pub fn react(&mut self, kind: &Arc<Kind>, key: &ObjectKey, now: Timestamp) {
        if kind.is("customresourcedefinitions") {
            self.establish(kind, key, now);
        }
        if kind.is("nodes") {
            self.taint_by_condition(kind, key, now);
        }
        self.finish_deletion(kind, key, now);
    }

    /// Serves every served version of a CRD and says so in its status.
    fn establish(&mut self, kind: &Arc<Kind>, key: &ObjectKey, now: Timestamp) {
        let Some(crd) = self.store.get(&kind.key(), key) else { return };
        self.forget_kinds(&crd);
        let spec = &crd["spec"];
        for version in spec["versions"].as_array().into_iter().flatten() {
            if version["served"] == true {
                self.kinds.push(Arc::new(custom_kind(spec, version)));
            }
        }
        if crd["status"]["acceptedNames"] == spec["names"] {
            return;
        }
        let condition = |name: &str, reason: &str| {
            json!({
                "type": name, "status": "True", "reason": reason, "message": "",
                "lastTransitionTime": super::write::seconds(now),
            })
        };
        let stored: Vec<&Value> = spec["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|version| version["storage"] == true)
            .map(|version| &version["name"])
            .collect();
        let mut established = Value::clone(&crd);
        established["status"] = json!({
            "acceptedNames": spec["names"], "storedVersions": stored,
            "conditions": [
                condition("NamesAccepted", "NoConflicts"),
                condition("Established", "InitialNamesAccepted"),
            ],
        });
        self.store.put(&kind.key(), key.clone(), established);
    }

    /// Stops serving a CRD's kinds and drops their objects.
    pub fn unregister(&mut self, crd: &Value) {
        let spec = &crd["spec"];
        let kind = self.kinds.iter().find(|kind| serves(spec, kind)).cloned();
        self.forget_kinds(crd);
        let Some(kind) = kind else { return };
        let keys: Vec<ObjectKey> =
            self.store.collection(&kind.key()).objects.keys().cloned().collect();
        for key in keys {
            self.store.remove(&kind.key(), &key);
        }
    }

    fn forget_kinds(&mut self, crd: &Value) {
        self.kinds.retain(|kind| !serves(&crd["spec"], kind));
    }

    /// Keeps the taints that say a node is not ready, unreachable or unschedulable.
    fn taint_by_condition(&mut self, kind: &Arc<Kind>, key: &ObjectKey, now: Timestamp) {
        let Some(node) = self.store.get(&kind.key(), key) else { return };
        let ready = node["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Ready")
            .map(|condition| text(&condition["status"]));
        let mut wanted = Vec::new();
        match ready {
            Some("True") => {}
            Some("False") => wanted.push(NOT_READY),
            Some(_) => wanted.push(UNREACHABLE),
            // Nobody reported yet: the taint of the admission plugin stays as it is.
            None => {
                if has_taint(&node, NOT_READY) {
                    wanted.push(NOT_READY);
                }
            }
        }
        if node["spec"]["unschedulable"] == true {
            wanted.push(UNSCHEDULABLE);
        }
        let is_ours = |taint: &Value| {
            taint["effect"] == "NoSchedule"
                && [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&text(&taint["key"]))
        };
        let old = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let mut taints: Vec<Value> = old
            .iter()
            .filter(|taint| !is_ours(taint) || wanted.contains(&text(&taint["key"])))
            .cloned()
            .collect();
        for missing in wanted.into_iter().filter(|wanted| !has_taint(&node, wanted)) {
            let added = super::write::seconds(now);
            taints.push(json!({"key": missing, "effect": "NoSchedule", "timeAdded": added}));
        }
        if taints == old {
            return;
        }
        let mut tainted = Value::clone(&node);
        if taints.is_empty() {
            super::write::remove(&mut tainted["spec"], "taints");
        } else {
            tainted["spec"]["taints"] = Value::Array(taints);
        }
        self.store.put(&kind.key(), key.clone(), tainted);
    }
}

fn has_taint(node: &Value, key: &str) -> bool {
    node["spec"]["taints"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|taint| taint["key"] == key && taint["effect"] == "NoSchedule")
}

fn serves(spec: &Value, kind: &Kind) -> bool {
    kind.is_custom() && spec["group"] == kind.group && spec["names"]["plural"] == kind.plural
}

fn custom_kind(spec: &Value, version: &Value) -> Kind {
    let names = &spec["names"];
    let scope = if spec["scope"] == "Namespaced" { Scope::Namespaced } else { Scope::Cluster };
    Kind {
        group: text(&spec["group"]).to_owned(),
        version: text(&version["name"]).to_owned(),
        kind: text(&names["kind"]).to_owned(),
        plural: text(&names["plural"]).to_owned(),
        scope,
        status: !version["subresources"]["status"].is_null(),
        unconditional_update: false,
        generation: true,
        origin: Origin::Custom(Arc::new(Schema::new(version["schema"]["openAPIV3Schema"].clone()))),
    }
}
