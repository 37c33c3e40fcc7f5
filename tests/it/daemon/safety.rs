//! What must hold in every run, read from the audit log and the kubelet's own count.

use std::collections::{BTreeMap, BTreeSet};

use nodewright::api::keys;
use nodewright::sim::{Request, Verb};
use serde_json::Value;

use crate::fleet::Fleet;

/// A node as the requests so far have made it.
#[derive(Debug, Default, Clone)]
struct NodeNow {
    unschedulable: bool,
    is_visited: bool,
}

/// The cluster as the requests so far have made it.
struct Replay<'a> {
    nodes: BTreeMap<String, NodeNow>,
    /// Node of each pod, by namespace and name.
    pods: BTreeMap<(String, String), String>,
    interrupting: &'a [&'a str],
    ceiling: usize,
    /// Interrupt pods made, by node.
    interrupts: BTreeMap<String, BTreeSet<String>>,
}

/// No eviction and no executor of an interrupting package on a node that is not cordoned, and
/// never more nodes in progress or cordoned than `ceiling`; after every single request.
pub fn assert_safe(fleet: &Fleet, interrupting: &[&str], ceiling: usize) {
    assert_safe_since(fleet, interrupting, 0, ceiling);
}

/// The same; the ceiling counts from the request with this number on.
pub fn assert_safe_since(fleet: &Fleet, interrupting: &[&str], since: usize, ceiling: usize) {
    let mut replay = Replay {
        nodes: BTreeMap::new(),
        pods: BTreeMap::new(),
        interrupting,
        ceiling: usize::MAX,
        interrupts: BTreeMap::new(),
    };
    for request in fleet.cluster.requests() {
        if request.sequence >= since {
            replay.ceiling = ceiling;
        }
        if request.effect.is_some_and(|code| code < 300) {
            replay.take(&request);
        }
    }
    for (node, pods) in &replay.interrupts {
        let reboots = fleet.kubelet.reboots(node) as usize;
        assert!(reboots <= pods.len(), "{node} rebooted {reboots} times for {pods:?}");
    }
}

/// No container of a package ran to success twice on a node, and each node rebooted so often.
pub fn assert_ran_once(fleet: &Fleet, reboots: u32) {
    let packages: BTreeMap<String, String> = fleet
        .cluster
        .requests()
        .iter()
        .filter(|request| request.verb == Verb::Create && request.resource == "pods")
        .map(|request| (request.name.clone(), label(&request.body, keys::PACKAGE).to_owned()))
        .collect();
    let mut ran = BTreeSet::new();
    for run in fleet.kubelet.runs().iter().filter(|run| run.namespace == "nodewright") {
        let package = packages.get(&run.pod).cloned().unwrap_or_default();
        let what = (run.node.clone(), package, run.container.clone());
        // The last container of a pod is the same in each: it has nothing to do.
        let counts = run.exit_code == 0 && !is_pause(&run.container);
        assert!(!counts || ran.insert(what), "ran to completion twice: {run:?}");
    }
    let nodes: BTreeSet<&String> = ran.iter().map(|(node, ..)| node).collect();
    for node in nodes {
        assert_eq!(fleet.kubelet.reboots(node), reboots, "reboots of {node}");
    }
}

/// The container that keeps a pod's shape, and the copy of the package into the host's folder,
/// which every executor begins with.
fn is_pause(container: &str) -> bool {
    container == "pause" || container == "done" || container.ends_with("-init")
}

impl Replay<'_> {
    fn take(&mut self, request: &Request) {
        let Request { verb, resource, subresource, namespace, name, body, .. } = request;
        match (verb, resource.as_str(), subresource.as_str()) {
            (Verb::Create, "nodes", "") => {
                self.nodes.insert(name.clone(), NodeNow::default());
            }
            (Verb::Delete, "nodes", "") => {
                self.nodes.remove(name);
            }
            (Verb::Patch, "nodes", "") => self.patched(name, body),
            (Verb::Create, "pods", "") => {
                let node = body["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
                let node = if node.is_empty() { pinned_node(body) } else { node };
                if namespace == "nodewright" {
                    self.executor_created(request, &node);
                }
                self.pods.insert((namespace.clone(), name.clone()), node);
            }
            (Verb::Create, "pods", "eviction") => {
                let node = self.pods.get(&(namespace.clone(), name.clone())).cloned();
                let node = node.unwrap_or_else(|| panic!("of no node: {request}"));
                let is_cordoned = self.nodes.get(&node).is_some_and(|node| node.unschedulable);
                assert!(is_cordoned, "{request} from {node}, which is not cordoned");
            }
            _ => {}
        }
        let disturbed: Vec<&String> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.unschedulable || node.is_visited)
            .map(|(name, _)| name)
            .collect();
        assert!(disturbed.len() <= self.ceiling, "{disturbed:?} at once after {request}");
    }

    fn executor_created(&mut self, request: &Request, node: &str) {
        if label(&request.body, keys::GROUP) == "pull" {
            let spec = &request.body["spec"];
            let rights = ["hostPID", "hostNetwork", "volumes", "initContainers"];
            let found = rights.iter().find(|right| !spec[**right].is_null());
            assert!(found.is_none(), "{request}: a pull with {found:?}");
            return;
        }
        let package = label(&request.body, keys::PACKAGE);
        let name = package.rsplit_once('-').map_or(package, |(name, _)| name);
        let now = self.nodes.get(node).cloned().unwrap_or_default();
        assert!(now.is_visited, "{request}: {node} is not in progress");
        if self.interrupting.contains(&name) {
            assert!(now.unschedulable, "{request}: {node} is not cordoned");
        }
        if label(&request.body, keys::GROUP) == "interrupt" {
            let pods = self.interrupts.entry(node.to_owned()).or_default();
            pods.insert(request.name.clone());
        }
    }

    fn patched(&mut self, name: &str, body: &Value) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let record_key = keys::rollout("tuning");
        let mut record = None;
        match body {
            Value::Array(operations) => {
                for operation in operations.iter().filter(|it| it["op"] == "add") {
                    let path = operation["path"].as_str().unwrap_or_default().replace("~1", "/");
                    if path == "/spec/unschedulable" {
                        node.unschedulable = operation["value"] == true;
                    } else if path.ends_with(&record_key) {
                        record = operation["value"].as_str();
                    }
                }
            }
            body => {
                if let Some(unschedulable) = body["spec"].get("unschedulable") {
                    node.unschedulable = *unschedulable == true;
                }
                record = body["metadata"]["annotations"][&record_key].as_str();
            }
        }
        if let Some(record) = record {
            let record: Value = serde_json::from_str(record).expect("a record");
            node.is_visited = record["outcome"].is_null();
        }
    }
}

fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// Returns the node an executor asks for, however it does.
fn pinned_node(body: &Value) -> String {
    let text = &body["spec"]["nodeSelector"]["kubernetes.io/hostname"];
    text.as_str().unwrap_or_default().to_owned()
}
