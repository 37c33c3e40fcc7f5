//! Defaults and rules of built-in kinds that controllers can tell are there.
//!
//! In goes an object on its way into the store. Only what our own code or a scenario depends on is
//! here; each rule names the plugin or strategy of the real server it stands for.

use serde_json::{Value, json};

use super::refusal::{Cause, Refusal};
use super::resources::Kind;
use super::write::{Subresource, remove, text};

/// Grace period of a pod that names none.
pub(super) const GRACE_PERIOD_DEFAULT_SECONDS: i64 = 30;

/// Name of the volume with the ServiceAccount's token, which every pod gets.
const TOKEN_VOLUME: &str = "kube-api-access-embed";

/// Fills in what the server's defaulting and admission plugins fill in on creation.
pub(super) fn on_create(kind: &Kind, object: &mut Value) {
    if kind.is("pods") {
        default_pod(object);
    } else if kind.is("nodes") {
        add_not_ready_taint(object);
    } else if kind.is("namespaces") {
        let name = object["metadata"]["name"].clone();
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        object["status"] = json!({"phase": "Active"});
    }
}

/// Refuses changes of fields that cannot change.
pub(super) fn on_update(
    kind: &Kind,
    subresource: Subresource,
    old: &Value,
    new: &Value,
) -> Result<(), Refusal> {
    let name = text(&old["metadata"]["name"]);
    if kind.is("pods") && subresource == Subresource::Main && frozen(old) != frozen(new) {
        let cause = Cause::new(
            "FieldValueForbidden",
            "spec",
            "Forbidden: pod updates may not change fields other than \
             `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
             tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
             previously negative)",
        );
        return Err(Refusal::invalid(kind, name, &[cause]));
    }
    if (kind.is("configmaps") || kind.is("secrets")) && old["immutable"] == true {
        for field in ["data", "binaryData", "immutable"] {
            if old[field] != new[field] {
                let cause = Cause::new(
                    "FieldValueForbidden",
                    field,
                    "Forbidden: field is immutable when `immutable` is set",
                );
                return Err(Refusal::invalid(kind, name, &[cause]));
            }
        }
    }
    Ok(())
}

/// Returns a pod's spec without the few fields that may change.
fn frozen(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    for field in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"] {
        remove(&mut spec, field);
    }
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            remove(container, "image");
        }
    }
    if spec["initContainers"].is_null() {
        remove(&mut spec, "initContainers");
    }
    spec
}

/// Sets what defaulting and the plugins ServiceAccount, Priority and DefaultTolerationSeconds set.
fn default_pod(pod: &mut Value) {
    let spec = &mut pod["spec"];
    let defaults = [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(GRACE_PERIOD_DEFAULT_SECONDS)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("serviceAccountName", json!("default")),
        ("serviceAccount", json!("default")),
        ("enableServiceLinks", json!(true)),
        ("securityContext", json!({})),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
        ("priority", json!(0)),
    ];
    for (field, value) in defaults {
        if spec[field].is_null() {
            spec[field] = value;
        }
    }
    let with_token = spec["automountServiceAccountToken"] != false;
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            default_container(container);
            if with_token {
                let mount = json!({
                    "name": TOKEN_VOLUME, "readOnly": true,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                });
                push(&mut container["volumeMounts"], mount);
            }
        }
    }
    if with_token {
        let token = json!({"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}});
        let projected = json!({"sources": [token], "defaultMode": 420});
        push(&mut spec["volumes"], json!({"name": TOKEN_VOLUME, "projected": projected}));
    }
    if spec["initContainers"].is_null() {
        remove(spec, "initContainers");
    }
    let tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let mut all = tolerations.clone();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|toleration| {
            (text(&toleration["key"]) == key || text(&toleration["key"]).is_empty())
                && matches!(text(&toleration["effect"]), "" | "NoExecute")
        });
        if !tolerated {
            all.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
    spec["tolerations"] = Value::Array(all);
    pod["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"});
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}

fn default_container(container: &mut Value) {
    let image = text(&container["image"]);
    let is_latest = image.ends_with(":latest")
        || !image.rsplit('/').next().unwrap_or_default().contains([':', '@']);
    let policy = if is_latest { "Always" } else { "IfNotPresent" };
    for (field, value) in [
        ("imagePullPolicy", json!(policy)),
        ("terminationMessagePath", json!("/dev/termination-log")),
        ("terminationMessagePolicy", json!("File")),
        ("resources", json!({})),
    ] {
        if container[field].is_null() {
            container[field] = value;
        }
    }
}

/// Does what the plugin TaintNodesByCondition does: a new node takes no pods before it is ready.
fn add_not_ready_taint(node: &mut Value) {
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let key = "node.kubernetes.io/not-ready";
    if !taints.iter().any(|taint| taint["key"] == key && taint["effect"] == "NoSchedule") {
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
    }
    node["spec"]["taints"] = Value::Array(taints);
}
