//! The request log as evidence: each promise can be broken, and then it is.

use nodewright::sim::{Ledger, Request, Verb};
use serde_json::{Value, json};

/// Requests in order, as the server would have logged them.
#[derive(Default)]
struct Log(Vec<Request>);

impl Log {
    fn add(&mut self, verb: Verb, (resource, subresource): (&str, &str), name: &str, body: Value) {
        let namespace = if resource == "pods" { "ml" } else { "" };
        self.0.push(Request {
            sequence: self.0.len() + 1,
            time: "2026-03-01T08:00:00Z".parse().expect("a time"),
            user_agent: "nodewright".to_owned(),
            verb,
            group: String::new(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            effect: None,
            code: Some(200),
            body,
        });
    }

    fn pod(&mut self, name: &str, node: &str) {
        self.add(Verb::Create, ("pods", ""), name, json!({"spec": {"nodeName": node}}));
    }

    fn interrupt(&mut self, name: &str, node: &str) {
        let labels = json!({"nodewright.nvidia.com/interrupt": "True"});
        let body = json!({"metadata": {"labels": labels}, "spec": {"nodeName": node}});
        self.add(Verb::Create, ("pods", ""), name, body);
    }

    fn evict(&mut self, pod: &str) {
        self.add(Verb::Create, ("pods", "eviction"), pod, Value::Null);
    }

    /// A pick or a release, which are merge patches.
    fn merge(&mut self, node: &str, unschedulable: bool, phase: &str) {
        let record = json!({"phase": phase}).to_string();
        let body = json!({
            "metadata": {"annotations": {"nodewright.nvidia.com/rollout_tuning": record}},
            "spec": {"unschedulable": unschedulable},
        });
        self.add(Verb::Patch, ("nodes", ""), node, body);
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(self.0.clone())
    }
}

#[test]
fn an_eviction_on_a_node_that_is_not_cordoned_is_found() {
    let mut log = Log::default();
    log.pod("a", "n1");
    assert!(log.ledger().evictions_follow_cordons(0).is_err(), "no eviction shows nothing");
    log.merge("n1", true, "picked");
    log.evict("a");
    assert!(log.ledger().evictions_follow_cordons(0).is_ok());
    let evicted = log.0.len();
    assert!(log.ledger().evictions_follow_cordons(evicted).is_err(), "it was before");
    log.merge("n1", false, "released");
    log.pod("b", "n1");
    log.evict("b");
    let why = log.ledger().evictions_follow_cordons(0).expect_err("the node was given back");
    assert!(why.starts_with("n1 was not cordoned"), "{why}");
}

#[test]
fn a_patch_that_was_refused_cordons_nothing() {
    let mut log = Log::default();
    log.pod("a", "n1");
    log.merge("n1", true, "picked");
    log.0[1].code = Some(409);
    log.evict("a");
    assert!(log.ledger().evictions_follow_cordons(0).is_err());
}

#[test]
fn one_node_too_many_is_found() {
    let pool = ["n1", "n2"].map(str::to_owned);
    let mut log = Log::default();
    assert!(log.ledger().within_budget(0, "tuning", &pool, 1).is_err(), "nothing was worked on");
    log.merge("n1", true, "picked");
    log.merge("n1", false, "released");
    log.merge("n2", false, "picked");
    assert!(log.ledger().within_budget(0, "tuning", &pool, 1).is_ok(), "one after the other");
    // A JSON patch of the record goes on with the visit.
    let path = "/metadata/annotations/nodewright.nvidia.com~1rollout_tuning";
    let value = json!({"phase": "interrupting"}).to_string();
    let again = json!([
        {"op": "test", "path": path, "value": json!({"phase": "released"}).to_string()},
        {"op": "replace", "path": path, "value": value},
    ]);
    log.add(Verb::Patch, ("nodes", ""), "n1", again);
    let why = log.ledger().within_budget(0, "tuning", &pool, 1).expect_err("two at once");
    assert!(why.starts_with("2 nodes of tuning were away at once, and only 1 may be"), "{why}");
    assert!(log.ledger().within_budget(0, "tuning", &pool, 2).is_ok());
}

#[test]
fn a_protected_pod_that_is_asked_to_go_is_found() {
    let pods = ["llama-0".to_owned()];
    let mut log = Log::default();
    log.pod("other", "n1");
    log.evict("other");
    assert!(log.ledger().untouched("ml", &pods).is_ok());
    for verb in [Verb::Delete, Verb::DeleteCollection] {
        let mut log = Log::default();
        let name = if verb == Verb::Delete { "llama-0" } else { "" };
        log.add(verb, ("pods", ""), name, Value::Null);
        assert!(log.ledger().untouched("ml", &pods).is_err(), "{verb}");
    }
    log.evict("llama-0");
    assert!(log.ledger().untouched("ml", &pods).is_err());
}

#[test]
fn a_disturbance_is_found() {
    let mut log = Log::default();
    log.merge("n1", true, "picked");
    assert!(log.ledger().undisturbed(0).is_err());
    assert!(log.ledger().undisturbed(1).is_ok(), "it was before");
    log.merge("n1", false, "picked");
    assert!(log.ledger().undisturbed(1).is_ok(), "a visit without a cordon disturbs nobody");
    log.evict("a");
    assert!(log.ledger().undisturbed(1).is_err());
}

#[test]
fn an_interrupt_that_did_not_wait_is_found() {
    let nodes = ["n1".to_owned()];
    let mut log = Log::default();
    log.pod("training", "n1");
    assert!(log.ledger().interrupts_came_after(0, 1, &nodes).is_err(), "there was none");
    log.interrupt("reboot", "n1");
    assert!(log.ledger().interrupts_came_after(0, 1, &nodes).is_ok());
    let why = log.ledger().interrupts_came_after(0, 2, &nodes).expect_err("too early");
    assert!(why.starts_with("n1 was not waited for"), "{why}");
}
