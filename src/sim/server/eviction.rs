//! `pods/eviction`: deletes a pod if its disruption budget allows.
//!
//! The budget is computed here from the pods of the moment. A real cluster reads it from the
//! budget's status, which its disruption controller keeps; the answers are the same once that has
//! caught up. Whoever reads a budget finds the same numbers in its status.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::State;
use super::delete::DeleteOptions;
use super::refusal::Refusal;
use super::resources::Kind;
use super::store::{ObjectKey, ResourceKey};
use super::write::text;

/// What a budget says about the pods it selects.
struct Allowance {
    expected: i64,
    healthy: i64,
    desired: i64,
}

impl State {
    /// Evicts a pod, or says why not in the words of the real server.
    pub fn evict(
        &mut self,
        pods: &Arc<Kind>,
        key: &ObjectKey,
        body: &Value,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let pod =
            self.store.get(&pods.key(), key).ok_or_else(|| Refusal::not_found(pods, &key.1))?;
        let options = DeleteOptions::parse(&body["deleteOptions"]);
        options.check(pods, &pod)?;
        if !ignores_budgets(&pod) {
            self.check_budgets(&key.0, &pod)?;
        }
        self.delete(pods, key, &options, now)?;
        Ok(())
    }

    fn check_budgets(&mut self, namespace: &str, pod: &Value) -> Result<(), Refusal> {
        let budgets: Vec<Arc<Value>> = self
            .in_namespace("policy", "poddisruptionbudgets", namespace)
            .filter(|budget| selects(&budget["spec"]["selector"], pod))
            .collect();
        let budget = match budgets.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                return Err(Refusal::unexpected(
                    "This pod has more than one PodDisruptionBudget, which the eviction \
                     subresource does not support.",
                ));
            }
        };
        let Allowance { expected: _, healthy, desired } = self.allowance(namespace, budget);
        let is_ready = is_ready(pod);
        let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        if !is_ready && (always || (desired > 0 && healthy >= desired)) {
            return Ok(());
        }
        if healthy > desired {
            return Ok(());
        }
        let message = format!(
            "The disruption budget {} needs {desired} healthy pods and has {healthy} currently",
            text(&budget["metadata"]["name"])
        );
        let refusal = Refusal::too_many_requests(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            0,
        );
        Err(refusal.with_cause("DisruptionBudget", message))
    }

    fn allowance(&mut self, namespace: &str, budget: &Value) -> Allowance {
        let selected: Vec<Arc<Value>> = self
            .in_namespace("", "pods", namespace)
            .filter(|pod| selects(&budget["spec"]["selector"], pod))
            .filter(|pod| !matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed"))
            .collect();
        let healthy = selected.iter().filter(|pod| is_healthy(pod)).count();
        let expected = self.expected(namespace, &selected);
        let spec = &budget["spec"];
        let desired = match (scaled(&spec["minAvailable"], expected), &spec["maxUnavailable"]) {
            (Some(least), _) => least,
            (None, most) => expected - scaled(most, expected).unwrap_or(0),
        };
        let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
        Allowance { expected, healthy, desired: desired.max(0) }
    }

    /// Brings the status of every budget up to date, as the disruption controller does.
    pub fn count_budgets(&mut self) {
        let resource = budgets();
        let stored = &self.store.collection(&resource).objects;
        let all: Vec<(ObjectKey, Arc<Value>)> =
            stored.iter().map(|(key, budget)| (key.clone(), budget.clone())).collect();
        for (key, budget) in all {
            let Allowance { expected, healthy, desired } = self.allowance(&key.0, &budget);
            let status = json!({
                "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected,
                "disruptionsAllowed": (healthy - desired).max(0),
                "observedGeneration": budget["metadata"]["generation"],
            });
            if budget["status"] != status {
                let mut counted = Value::clone(&budget);
                counted["status"] = status;
                self.store.put(&resource, key, counted);
            }
        }
    }

    /// Returns how many pods there should be: the replicas of the owners that exist, and each pod
    /// without such an owner as one.
    fn expected(&mut self, namespace: &str, selected: &[Arc<Value>]) -> i64 {
        let mut owners = BTreeSet::new();
        let mut expected = 0;
        for pod in selected {
            let owner = pod["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|owner| owner["controller"] == true);
            let replicas = owner.and_then(|owner| {
                let plural = format!("{}s", text(&owner["kind"]).to_lowercase());
                let resource = ResourceKey { group: "apps".to_owned(), plural };
                let key = (namespace.to_owned(), text(&owner["name"]).to_owned());
                let found = self.store.get(&resource, &key)?;
                let replicas = found["spec"]["replicas"].as_i64()?;
                Some((text(&owner["uid"]).to_owned(), replicas))
            });
            let is_counted = replicas.as_ref().is_some_and(|(uid, _)| owners.contains(uid));
            match replicas {
                Some(_) if is_counted => {}
                Some((uid, replicas)) => {
                    owners.insert(uid);
                    expected += replicas;
                }
                None => expected += 1,
            }
        }
        expected
    }

    fn in_namespace(
        &mut self,
        group: &str,
        plural: &str,
        namespace: &str,
    ) -> impl Iterator<Item = Arc<Value>> {
        let resource = ResourceKey { group: group.to_owned(), plural: plural.to_owned() };
        let inside: Vec<Arc<Value>> = self
            .store
            .collection(&resource)
            .objects
            .iter()
            .filter(|(key, _)| key.0 == namespace)
            .map(|(_, object)| object.clone())
            .collect();
        inside.into_iter()
    }
}

fn budgets() -> ResourceKey {
    ResourceKey { group: "policy".to_owned(), plural: "poddisruptionbudgets".to_owned() }
}

/// Returns whether evicting is deleting: pods that do not run, or are going already.
fn ignores_budgets(pod: &Value) -> bool {
    matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed" | "Pending")
        || !pod["metadata"]["deletionTimestamp"].is_null()
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn is_healthy(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null() && is_ready(pod)
}

/// Returns the number an int-or-percent stands for; the real controller rounds up.
fn scaled(value: &Value, total: i64) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    Some((total * percent + 99) / 100)
}

/// Returns whether a `LabelSelector` selects the pod; an empty one selects all.
fn selects(selector: &Value, pod: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let labels = &pod["metadata"]["labels"];
    let equal = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector["matchExpressions"].as_array().into_iter().flatten().all(|expression| {
            let found = labels.get(text(&expression["key"]));
            let listed = found.is_some_and(|value| {
                expression["values"].as_array().is_some_and(|list| list.contains(value))
            });
            match text(&expression["operator"]) {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}
