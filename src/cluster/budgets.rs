//! Disruption budgets, looked up when an eviction was refused.
//!
//! In: the pod that may not go. Out: the budget that holds it, as its controller counts it.
//! Must never: ask for every pod by itself, or make a refusal an error: without the right to list
//! budgets (`list` on `poddisruptionbudgets`) the API server's own words have to do.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::requests::Requests;
use super::slim::{WireMeta, null_as_empty};
use crate::model::{DisruptionBudget, RefusalCause};

/// How long a list is used again: for all pods that are refused in one go, and no longer than
/// until the planner has the first of them asked again (10 s).
const KEPT: Duration = Duration::from_secs(5);

/// Budgets of one namespace that are looked at. There is one per workload; a namespace with more
/// gets the API server's words for those beyond.
const LISTED_MAX: usize = 500;

/// The budgets of the namespaces that were asked for lately.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    known: Mutex<BTreeMap<String, Listed>>,
}

/// The budgets of one namespace.
#[derive(Debug)]
struct Listed {
    at: Timestamp,
    budgets: Vec<(Selector, DisruptionBudget)>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireList {
    #[serde(deserialize_with = "null_as_empty")]
    items: Vec<WireBudget>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireBudget {
    metadata: WireMeta,
    #[serde(deserialize_with = "null_as_empty")]
    spec: WireSpec,
    #[serde(deserialize_with = "null_as_empty")]
    status: WireStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireSpec {
    selector: Option<LabelSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    expected_pods: u32,
    current_healthy: u32,
    desired_healthy: u32,
}

impl Budgets {
    /// Returns what holds a pod with these labels.
    ///
    /// One lookup at a time, so that the lanes of a tick share one list for each namespace.
    pub(super) async fn cause(
        &self,
        requests: &Requests,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> RefusalCause {
        let mut known = self.known.lock().await;
        let kept = SignedDuration::try_from(KEPT).unwrap_or(SignedDuration::ZERO);
        known.retain(|_, listed| now.duration_since(listed.at) < kept);
        if !known.contains_key(namespace) {
            let budgets = list(requests, namespace).await;
            known.insert(namespace.to_owned(), Listed { at: now, budgets });
        }
        let listed = known.get(namespace).map_or(&[][..], |listed| &listed.budgets);
        let mut holding: Vec<&DisruptionBudget> = listed
            .iter()
            .filter(|(selector, _)| selector.matches(labels))
            .map(|(_, budget)| budget)
            .collect();
        match (holding.pop(), holding.is_empty()) {
            (None, _) => RefusalCause::Unknown,
            (Some(budget), true) => RefusalCause::Budget(budget.clone()),
            (Some(last), false) => {
                let all = holding.into_iter().chain([last]);
                RefusalCause::SeveralBudgets(all.map(|budget| budget.name.clone()).collect())
            }
        }
    }
}

/// Lists the budgets of a namespace; none where that is not allowed or does not work.
async fn list(requests: &Requests, namespace: &str) -> Vec<(Selector, DisruptionBudget)> {
    let path =
        format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets?limit={LISTED_MAX}");
    let what = format!("listing disruption budgets of namespace {namespace}");
    match requests.read::<WireList>(what, &path).await {
        Ok(list) => list.unwrap_or_default().items.into_iter().filter_map(read).collect(),
        Err(error) => {
            tracing::debug!(namespace, %error, "budgets not listed, a refusal names none");
            Vec::new()
        }
    }
}

/// Reads a budget; one without a selector covers no pod, an empty selector every one.
fn read(wire: WireBudget) -> Option<(Selector, DisruptionBudget)> {
    let WireBudget { metadata, spec, status } = wire;
    let selector = Selector::try_from(spec.selector?).ok()?;
    let WireStatus { expected_pods, current_healthy, desired_healthy } = status;
    let budget = DisruptionBudget {
        name: format!("{}/{}", metadata.namespace, metadata.name),
        expected: expected_pods,
        healthy: current_healthy,
        desired: desired_healthy,
    };
    Some((selector, budget))
}
