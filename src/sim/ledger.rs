//! The request log, read as evidence.
//!
//! In: every request that reached the API server, in order. Out: what the daemon did to whom, or a
//! sentence that says which promise was broken. It knows nothing of the daemon's own view: what
//! the daemon believes is no evidence.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Cluster, Request, Verb};
use crate::api::keys;

/// A promise that was kept, in words with numbers; or the sentence that says how it was broken.
pub type Promise = Result<String, String>;

/// The requests so far; the demo and tests ask it what really happened.
#[derive(Debug)]
pub struct Ledger {
    requests: Vec<Request>,
    /// The node of each pod that was ever made, by namespace and name.
    nodes_of_pods: BTreeMap<(String, String), String>,
}

/// One thing that a patch says about a node.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Unschedulable(bool),
    /// Whether the visit of this rollout is still going on.
    Visit {
        rollout: String,
        is_open: bool,
    },
}

impl Ledger {
    /// Returns the ledger of everything that a cluster has been asked so far.
    pub fn of(cluster: &Cluster) -> Self {
        Self::new(cluster.requests())
    }

    /// Returns the ledger of these requests, which are all since the beginning.
    pub fn new(requests: Vec<Request>) -> Self {
        let mut nodes_of_pods = BTreeMap::new();
        for request in requests.iter().filter(|request| request.verb == Verb::Create) {
            if request.resource == "pods" && request.subresource.is_empty() {
                let node = request.body["spec"]["nodeName"].as_str().unwrap_or_default();
                let pod = (request.namespace.clone(), request.name.clone());
                nodes_of_pods.insert(pod, node.to_owned());
            }
        }
        Self { requests, nodes_of_pods }
    }

    /// Returns how many requests there are: where the next chapter begins.
    pub fn count(&self) -> usize {
        self.requests.len()
    }

    /// Returns the whole log as lines.
    pub fn text(&self) -> String {
        let line = |request: &Request| format!("{:.3} {request}\n", request.time);
        self.requests.iter().map(line).collect()
    }

    /// Every eviction since `from` was asked for on a node that the daemon had cordoned before.
    /// There must be one, or nothing would be shown.
    ///
    /// # Errors
    /// The sentence that says which request broke the promise.
    pub fn evictions_follow_cordons(&self, from: usize) -> Promise {
        let mut cordoned = BTreeSet::new();
        let mut evictions = 0;
        for request in &self.requests {
            for said in said(request) {
                match said {
                    Said::Unschedulable(true) => drop(cordoned.insert(request.name.clone())),
                    Said::Unschedulable(false) => drop(cordoned.remove(&request.name)),
                    Said::Visit { .. } => {}
                }
            }
            if !is_eviction(request) || request.sequence <= from {
                continue;
            }
            let node = self.node_of(request)?;
            if !cordoned.contains(node) {
                return Err(format!("{node} was not cordoned when it was drained: {request}"));
            }
            evictions += 1;
        }
        match evictions {
            0 => Err("no pod was evicted, though there were some in the way".to_owned()),
            _ => Ok(format!("{evictions} evictions, each on a node that was cordoned before")),
        }
    }

    /// Since `from`, never more nodes of a rollout than `ceiling` were away at once, cordoned or
    /// in a visit. There must have been one.
    ///
    /// # Errors
    /// The sentence that says which request broke the promise.
    pub fn within_budget(
        &self,
        from: usize,
        rollout: &str,
        pool: &[String],
        ceiling: usize,
    ) -> Promise {
        let (mut visited, mut cordoned) = (BTreeSet::new(), BTreeSet::new());
        let mut most = 0;
        for request in self.requests.iter().filter(|request| pool.contains(&request.name)) {
            for said in said(request) {
                let (set, is_away) = match said {
                    Said::Unschedulable(is_away) => (&mut cordoned, is_away),
                    Said::Visit { rollout: of, is_open } if of == rollout => {
                        (&mut visited, is_open)
                    }
                    Said::Visit { .. } => continue,
                };
                if is_away {
                    set.insert(&request.name);
                } else {
                    set.remove(&request.name);
                }
            }
            let away = visited.union(&cordoned).count();
            if away > ceiling {
                return Err(format!(
                    "{away} nodes of {rollout} were away at once, and only {ceiling} may be: \
                     {request}"
                ));
            }
            if request.sequence > from {
                most = most.max(away);
            }
        }
        match most {
            0 => Err(format!("no node of {rollout} was worked on")),
            _ => Ok(format!("at most {most} nodes of {rollout} away at once, {ceiling} may be")),
        }
    }

    /// Nobody asked to evict or delete one of these pods.
    ///
    /// # Errors
    /// The sentence that says which request broke the promise.
    pub fn untouched(&self, namespace: &str, pods: &[String]) -> Promise {
        let touches = |request: &&Request| {
            let removes = is_eviction(request)
                || matches!(request.verb, Verb::Delete | Verb::DeleteCollection)
                    && request.resource == "pods";
            let named = request.name.is_empty() || pods.contains(&request.name);
            removes && request.namespace == namespace && named
        };
        match self.requests.iter().find(touches) {
            Some(request) => Err(format!("a protected pod was to go: {request}")),
            None => Ok(format!("none of the {} protected pods was ever touched", pods.len())),
        }
    }

    /// Since `from`, no node was cordoned and no pod evicted.
    ///
    /// # Errors
    /// The sentence that says which request broke the promise.
    pub fn undisturbed(&self, from: usize) -> Promise {
        let disturbs = |request: &&Request| {
            request.sequence > from
                && (is_eviction(request) || said(request).contains(&Said::Unschedulable(true)))
        };
        match self.requests.iter().find(disturbs) {
            Some(request) => Err(format!("a change without an interrupt disturbed: {request}")),
            None => Ok("no node was cordoned and no pod evicted for it".to_owned()),
        }
    }

    /// On each of these nodes an interrupt was started since `from`, and none of them before the
    /// request with the number `after`.
    ///
    /// # Errors
    /// The sentence that says which request broke the promise.
    pub fn interrupts_came_after(&self, from: usize, after: usize, nodes: &[String]) -> Promise {
        let starts = |request: &&Request, node: &str| {
            let label = &request.body["metadata"]["labels"][keys::INTERRUPT];
            request.sequence > from
                && request.verb == Verb::Create
                && label == keys::INTERRUPT_VALUE
                && request.body["spec"]["nodeName"] == node
        };
        for node in nodes {
            match self.requests.iter().find(|request| starts(request, node)) {
                None => return Err(format!("nothing was restarted on {node}")),
                Some(request) if request.sequence <= after => {
                    return Err(format!("{node} was not waited for: {request}"));
                }
                Some(_) => {}
            }
        }
        Ok(format!("{}: restarted only after the training pods had ended", nodes.join(", ")))
    }

    /// Returns the number of the last request by `agent`, 0 if there is none.
    pub fn last_of(&self, agent: &str) -> usize {
        let own = self.requests.iter().rev().find(|request| request.user_agent == agent);
        own.map_or(0, |request| request.sequence)
    }

    fn node_of(&self, request: &Request) -> Result<&String, String> {
        let pod = (request.namespace.clone(), request.name.clone());
        let node = self.nodes_of_pods.get(&pod);
        node.ok_or_else(|| format!("a pod that nobody made was to be evicted: {request}"))
    }
}

fn is_eviction(request: &Request) -> bool {
    request.subresource == "eviction"
}

/// Returns what an accepted patch of a node says about cordons and visits.
fn said(request: &Request) -> Vec<Said> {
    let is_accepted = request.code.is_some_and(|code| (200..300).contains(&code));
    let of_node = request.resource == "nodes" && request.subresource.is_empty();
    if request.verb != Verb::Patch || !of_node || !is_accepted {
        return Vec::new();
    }
    let rollout_prefix = keys::rollout("");
    let visit = |key: &str, value: &Value| {
        let rollout = key.strip_prefix(&rollout_prefix)?.to_owned();
        let record: Value = serde_json::from_str(value.as_str().unwrap_or("null")).ok()?;
        let is_open = !record.is_null() && record["phase"] != "released";
        Some(Said::Visit { rollout, is_open })
    };
    let mut said = Vec::new();
    match &request.body {
        Value::Array(operations) => {
            for operation in operations.iter().filter(|operation| operation["op"] != "test") {
                let path = operation["path"].as_str().unwrap_or_default();
                if path == "/spec/unschedulable" {
                    said.push(Said::Unschedulable(operation["value"] == true));
                } else if let Some(key) = path.strip_prefix("/metadata/annotations/") {
                    said.extend(visit(&key.replace("~1", "/"), &operation["value"]));
                }
            }
        }
        merge => {
            if let Some(is_away) = merge["spec"]["unschedulable"].as_bool() {
                said.push(Said::Unschedulable(is_away));
            }
            for (key, value) in merge["metadata"]["annotations"].as_object().into_iter().flatten() {
                said.extend(visit(key, value));
            }
        }
    }
    said
}
