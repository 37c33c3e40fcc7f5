//! Live objects: valid ones become rollouts, the others are named and frozen.

use nodewright::api::{DeploymentPolicy, NodeWright};
use nodewright::manifest::{Rule, config_digest, desired, rollout};
use nodewright::model::{Budget, Growth, Pace, Strategy};
use serde_json::{Value, json};

fn live(name: &str, spec: &Value) -> NodeWright {
    serde_json::from_value(json!({
        "apiVersion": "nodewright.nvidia.com/v1alpha1",
        "kind": "NodeWright",
        "metadata": {"name": name, "uid": "1", "resourceVersion": "7"},
        "spec": spec,
    }))
    .expect("the types take it")
}

fn policy(name: &str, spec: &Value) -> DeploymentPolicy {
    serde_json::from_value(json!({
        "apiVersion": "nodewright.nvidia.com/v1alpha1",
        "kind": "DeploymentPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }))
    .expect("the types take it")
}

fn package(version: &str) -> Value {
    json!({"version": version, "image": "ghcr.io/example/a"})
}

#[test]
fn one_invalid_resource_does_not_hold_up_another() {
    let slow = policy("slow", &json!({"default": {"budget": {"count": 1}}}));
    let broken = policy("broken", &json!({"default": {"budget": {}}}));
    let objects = [
        live("good", &json!({"packages": {"ab": package("1.0.0")}, "deploymentPolicy": "slow"})),
        live("bad", &json!({"packages": {"ab": package("latest")}})),
        live("paced", &json!({"packages": {"ab": package("1.0.0")}, "deploymentPolicy": "broken"})),
        live("gone", &json!({"deploymentPolicy": "not-there"})),
    ];
    let desired = desired(&objects, &[slow, broken]);
    let rollouts: Vec<&str> = desired.rollouts.keys().map(String::as_str).collect();
    // Whether a policy exists is the planner's question: the rollout waits and says so.
    assert_eq!(rollouts, ["gone", "good"]);
    assert_eq!(desired.policies.len(), 1);
    let bad = &desired.invalid["bad"];
    assert!(bad.contains("spec.packages.ab.version") && bad.contains("latest"), "{bad}");
    assert!(desired.invalid["paced"].contains("broken"));
}

#[test]
fn what_a_crd_lets_through_is_still_checked() {
    let table = [
        (json!({"interruptionBudget": {"percent": 1, "count": 1}}), Rule::BudgetBoth),
        (json!({"interruptionBudget": {"percent": -1}}), Rule::OutOfRange),
        (json!({"interruptionBudget": {"count": -1}}), Rule::OutOfRange),
        (json!({"priority": 0}), Rule::OutOfRange),
        (json!({"packages": {"a1": package("1.0.0")}}), Rule::PackageName),
        (json!({"packages": {"ab": {"version": "1", "image": "a:1"}}}), Rule::ImageTag),
        (
            json!({"packages": {"ab": {"version": "1", "image": "a", "dependsOn": {"cd": "1"}}}}),
            Rule::DependencyMissing,
        ),
        (
            json!({"nodeSelectors": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            Rule::Selector,
        ),
        (
            json!({"packages": {"ab": {"version": "1", "image": "a", "configMap": {
                "a": "x".repeat(512 * 1024), "b": "x".repeat(512 * 1024),
            }}}}),
            Rule::ConfigSize,
        ),
    ];
    for (spec, rule) in table {
        let breaches = rollout(&live("a", &spec)).expect_err("it breaks a rule");
        let rules: Vec<Rule> = breaches.iter().map(|breach| breach.rule).collect();
        assert_eq!(rules, [rule]);
    }
    let name = "a".repeat(51);
    assert!(rollout(&live(&name, &json!({}))).is_err());
}

#[test]
fn warnings_do_not_refuse() {
    let spec = json!({"nodeSelectors": {}, "interruptionBudget": {"percent": 0}});
    let rollout = rollout(&live("a", &spec)).expect("it is valid");
    assert!(rollout.budget.is_some_and(nodewright::model::Budget::is_zero));
    assert_eq!(rollout.protected, None, "an empty selector protects nothing");
}

#[test]
fn the_digest_is_of_the_specification_with_its_defaults() {
    let short = live("a", &json!({}));
    let long = live("b", &json!({"priority": 200, "serial": false, "sequencing": "node"}));
    assert_eq!(config_digest(&short.spec), config_digest(&long.spec));
    let other = live("a", &json!({"priority": 201}));
    assert_ne!(config_digest(&short.spec), config_digest(&other.spec));
    assert_eq!(config_digest(&short.spec).len(), 64);
}

#[test]
fn images_with_a_port_are_no_images_with_a_tag() {
    for (image, is_valid) in [
        ("registry:5000/a", true),
        ("registry:5000/a/b", true),
        ("a", true),
        ("a:1", false),
        ("registry:5000/a:1", false),
        ("a:", false),
        ("a@", false),
        ("a@sha256:0", false),
    ] {
        let spec = json!({"packages": {"ab": {"version": "1", "image": image}}});
        assert_eq!(rollout(&live("a", &spec)).is_ok(), is_valid, "{image}");
    }
}

#[test]
fn quantities_compare_across_suffixes() {
    for (request, limit, is_valid) in [
        ("500m", "0.5", true),
        ("0.5", "499m", false),
        ("1Gi", "1073741824", true),
        ("1Gi", "1G", false),
        ("1k", "1Ki", true),
        ("1e3", "1k", true),
        ("1n", "1u", true),
        ("0", "1", false),
        ("-1", "1", false),
        ("x", "1", false),
        ("1.5.2", "9", false),
        ("1Qi", "9", false),
    ] {
        let resources = json!({
            "cpuRequest": request, "cpuLimit": limit, "memoryRequest": "1", "memoryLimit": "1",
        });
        let package = json!({"version": "1", "image": "a", "resources": resources});
        let object = live("a", &json!({"packages": {"ab": package}}));
        assert_eq!(rollout(&object).is_ok(), is_valid, "{request} up to {limit}");
    }
}

#[test]
fn a_policy_is_read_with_its_defaults_filled_in() {
    let written = policy(
        "rings",
        &json!({
            "default": {"budget": {"percent": 100}, "strategy": {"exponential": {
                "batchThreshold": 90, "failureThreshold": 3,
            }}},
            "compartments": [
                {"name": "edge", "selector": {"matchLabels": {"ring": "edge"}},
                 "budget": {"count": 2}, "strategy": {"linear": {}}},
                {"name": "core", "budget": {"count": 1}},
            ],
        }),
    );
    let read = &desired(&[], &[written]).policies["rings"];
    assert!(read.reset, "the default of resetBatchStateOnCompletion");
    let exponential = Strategy {
        growth: Growth::Exponential(2),
        initial_batch: 1,
        batch_threshold: 90,
        failure_threshold: Some(3),
        safety_limit: 50,
    };
    assert_eq!(read.fallback, Pace { budget: Budget::Percent(100), strategy: Some(exponential) });
    let linear = Strategy {
        growth: Growth::Linear(1),
        batch_threshold: 100,
        failure_threshold: None,
        ..exponential
    };
    let (edge, core) = (&read.compartments[0], &read.compartments[1]);
    assert_eq!(edge.pace, Pace { budget: Budget::Count(2), strategy: Some(linear) });
    assert_eq!(core.pace, Pace { budget: Budget::Count(1), strategy: None });
    let labels = [("ring".to_owned(), "edge".to_owned())].into();
    assert!(edge.selects(&labels) && core.selects(&labels), "an empty selector is every node");
    assert!(!edge.selects(&[].into()));
}

/// Upstream's CRDs and a webhook that is off let these through.
#[test]
fn numbers_of_a_strategy_outside_their_range_refuse_the_policy() {
    let table = [
        ("fixed", json!({"initialBatch": 0})),
        ("fixed", json!({"batchThreshold": 0})),
        ("fixed", json!({"batchThreshold": 101})),
        ("linear", json!({"failureThreshold": 0})),
        ("linear", json!({"delta": 0})),
        ("exponential", json!({"safetyLimit": 101})),
        ("exponential", json!({"growthFactor": 1})),
    ];
    for (kind, numbers) in table {
        let spec = json!({"default": {"budget": {"count": 1}, "strategy": {kind: numbers}}});
        let paced = live("paced", &json!({"deploymentPolicy": "odd"}));
        let desired = desired(&[paced], &[policy("odd", &spec)]);
        assert!(desired.policies.is_empty(), "{spec}");
        let why = &desired.invalid["paced"];
        let field = spec["default"]["strategy"][kind].as_object().expect("one").keys().next();
        let path = format!("spec.default.strategy.{kind}.{}", field.expect("a field"));
        assert!(why.contains(&path), "{why} does not name {path}");
    }
}
