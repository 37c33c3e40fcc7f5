//! Paths that name no resource: version, health, and which kinds are served.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::resources::{Kind, Scope};

/// The minor version the embedded server behaves like; the same as the real one in the tests.
const MINOR: &str = "36";

/// Answers a GET of such a path, or returns `None` if nothing is there.
pub(super) fn answer(path: &str, kinds: &[Arc<Kind>]) -> Option<Value> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["version"] => Some(json!({
            "major": "1", "minor": MINOR, "gitVersion": format!("v1.{MINOR}.0+embedded"),
            "gitCommit": "", "gitTreeState": "clean", "buildDate": "", "goVersion": "",
            "compiler": "rustc", "platform": "embedded",
        })),
        ["healthz" | "livez" | "readyz"] => Some(json!("ok")),
        ["api"] => Some(json!({
            "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [],
        })),
        ["apis"] => Some(groups(kinds)),
        ["api", version] => resources("", version, kinds),
        ["apis", group, version] => resources(group, version, kinds),
        _ => None,
    }
}

fn groups(kinds: &[Arc<Kind>]) -> Value {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in kinds.iter().filter(|kind| !kind.group.is_empty()) {
        let known = versions.entry(&kind.group).or_default();
        if !known.contains(&kind.version.as_str()) {
            known.push(&kind.version);
        }
    }
    let groups: Vec<Value> = versions
        .into_iter()
        .map(|(group, versions)| {
            let list: Vec<Value> = versions
                .into_iter()
                .map(|version| {
                    json!({"groupVersion": format!("{group}/{version}"), "version": version})
                })
                .collect();
            json!({"name": group, "preferredVersion": list[0], "versions": list})
        })
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn resources(group: &str, version: &str, kinds: &[Arc<Kind>]) -> Option<Value> {
    let served: Vec<&Arc<Kind>> =
        kinds.iter().filter(|kind| kind.group == group && kind.version == version).collect();
    let group_version = served.first()?.api_version();
    let resource = |name: String, kind: &Kind, verbs: &[&str]| {
        json!({
            "name": name, "singularName": kind.kind.to_lowercase(), "kind": kind.kind,
            "namespaced": kind.scope == Scope::Namespaced, "verbs": verbs,
        })
    };
    let mut list = Vec::new();
    for kind in served {
        let verbs =
            ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        list.push(resource(kind.plural.clone(), kind, &verbs));
        if kind.status {
            let name = format!("{}/status", kind.plural);
            list.push(resource(name, kind, &["get", "patch", "update"]));
        }
    }
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
        "resources": list,
    }))
}
