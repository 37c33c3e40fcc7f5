//! Requests that take something away: evictions and deletions, each by UID.
//!
//! In: what the planner named. Out: one request each, and what its answer means.
//! Must never: touch the successor of a pod under the same name.

use std::time::Duration;

use kube::core::Status;
use serde_json::{Value, json};

use super::error::ClusterError;
use super::names::visit_label;
use super::requests::{Body, Mutation, Verb};
use crate::api::keys;
use crate::model::{
    ConfigMapRef, Eviction, EvictionMethod, PodRef, UpstreamKind, UpstreamRef, VisitRef,
};

/// Visits in one `deletecollection`: its selector stands in the URL, at about 20 bytes each.
pub const VISITS_PER_REQUEST_MAX: usize = 500;

/// Returns the request that moves a pod.
pub fn eviction(eviction: &Eviction) -> Mutation {
    let Eviction { node, rollout: _, pod, method, grace_period } = eviction;
    let options = delete_options(&pod.uid, *grace_period);
    match method {
        EvictionMethod::Evict => Mutation {
            what: format!("evicting pod {pod} from node {node}"),
            verb: Verb::Create,
            path: format!("{}/eviction", pod_path(pod)),
            body: Body::Json,
            content: json!({
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": { "name": pod.name, "namespace": pod.namespace },
                "deleteOptions": options,
            }),
        },
        EvictionMethod::Delete => Mutation {
            what: format!("deleting pod {pod} from node {node}"),
            verb: Verb::Delete,
            path: pod_path(pod),
            body: Body::Json,
            content: options,
        },
    }
}

/// Returns the request that deletes one executor.
pub fn executor(pod: &PodRef) -> Mutation {
    Mutation {
        what: format!("deleting executor {pod}"),
        verb: Verb::Delete,
        path: pod_path(pod),
        body: Body::Json,
        content: delete_options(&pod.uid, None),
    }
}

/// Returns the request that deletes a Job or pod of upstream's.
pub fn upstream_work(work: &UpstreamRef) -> Mutation {
    let UpstreamRef { kind, namespace, name, uid } = work;
    let folder = match kind {
        UpstreamKind::Job => format!("/apis/batch/v1/namespaces/{namespace}/jobs"),
        UpstreamKind::Pod => format!("/api/v1/namespaces/{namespace}/pods"),
    };
    Mutation {
        what: format!("deleting {name} of upstream's operator"),
        verb: Verb::Delete,
        path: format!("{folder}/{name}"),
        body: Body::Json,
        content: delete_options(uid, None),
    }
}

/// Returns the request that deletes the executors of at most [`VISITS_PER_REQUEST_MAX`] visits.
pub fn executors(namespace: &str, rollout: &str, visits: &[VisitRef]) -> Mutation {
    let values = visits.iter().map(visit_label).collect::<Vec<_>>().join(",");
    let selector = format!("{}={rollout},{} in ({values})", keys::NAME, keys::VISIT);
    Mutation {
        what: format!("deleting executors of {} visits of rollout {rollout}", visits.len()),
        verb: Verb::Delete,
        path: format!("/api/v1/namespaces/{namespace}/pods?labelSelector={}", query(&selector)),
        body: Body::Json,
        content: json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
        }),
    }
}

/// Returns the request that deletes a snapshot.
pub fn snapshot(namespace: &str, snapshot: &ConfigMapRef) -> Mutation {
    let ConfigMapRef { rollout, name, uid } = snapshot;
    Mutation {
        what: format!("deleting snapshot {name} of rollout {rollout}"),
        verb: Verb::Delete,
        path: format!("/api/v1/namespaces/{namespace}/configmaps/{name}"),
        body: Body::Json,
        content: delete_options(uid, None),
    }
}

/// Returns why an eviction has to wait for others, if that is what the answer says.
///
/// A pod under two disruption budgets is refused with a 500 that never changes by itself. A 429 of
/// a server that has too much to do is no word about the pod.
pub fn blocked_by(error: &ClusterError) -> Option<String> {
    let ClusterError::Refused { status, .. } = error else { return None };
    let is_two_budgets = status.code == 500 && status.message.contains("PodDisruptionBudget");
    let is_held = status.code == 429
        && (budget_cause(status).is_some() || status.message.contains("disruption budget"));
    (is_held || is_two_budgets).then(|| budget_words(status))
}

/// Returns the cause that names the budget, where there is one, else the message.
fn budget_words(status: &Status) -> String {
    budget_cause(status).unwrap_or(&status.message).to_owned()
}

fn budget_cause(status: &Status) -> Option<&str> {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    let cause = causes.find(|cause| cause.reason == "DisruptionBudget")?;
    Some(&cause.message)
}

fn pod_path(pod: &PodRef) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

fn delete_options(uid: &str, grace_period: Option<Duration>) -> Value {
    let mut options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": { "uid": uid },
        "propagationPolicy": "Background",
    });
    if let Some(grace) = grace_period {
        // Upstream rounds up (upstream contract A.2); cutting off would make half a second none.
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        options["gracePeriodSeconds"] = json!(seconds);
    }
    options
}

/// Escapes a selector for a query: everything but letters, digits and what is always allowed.
fn query(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
