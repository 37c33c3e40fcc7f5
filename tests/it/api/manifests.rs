//! Manifests as people write them for upstream: read, defaulted, and written back.

use nodewright::api::deployment_policy::Strategy;
use nodewright::api::nodewright::Sequencing;
use nodewright::api::package::InterruptType;
use nodewright::api::status::{
    BatchState, CompartmentRollout, OpenBatch, RolloutStatus, StatusWord,
};
use nodewright::api::{DeploymentPolicy, NodeWright, NodeWrightStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SIMPLE: &str = include_str!("manifests/simple.yaml");
const BUDGET: &str = include_str!("manifests/budget.yaml");
const POLICY: &str = include_str!("manifests/policy.yaml");
const EVERYTHING: &str = include_str!("manifests/everything.yaml");

fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_yaml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Reads, writes and reads again; returns what was read and what was written.
fn round_trip<T>(text: &str) -> (T, Value)
where
    T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug,
{
    let object: T = read(text);
    let written = serde_json::to_value(&object).expect("an object is plain JSON");
    let again: T = serde_json::from_value(written.clone()).expect("what we write, we read");
    assert_eq!(again, object);
    (object, written)
}

/// Panics with the path of what `text` says and `written` lacks or says differently.
fn contains(path: &str, written: &Value, text: &Value) {
    match (written, text) {
        (Value::Object(written), Value::Object(text)) => {
            for (key, value) in text {
                let found = written.get(key).unwrap_or_else(|| panic!("{path}.{key} was lost"));
                contains(&format!("{path}.{key}"), found, value);
            }
        }
        (Value::Array(written), Value::Array(text)) => {
            assert_eq!(written.len(), text.len(), "{path}");
            for (index, (written, text)) in written.iter().zip(text).enumerate() {
                contains(&format!("{path}[{index}]"), written, text);
            }
        }
        _ => assert_eq!(written, text, "{path}"),
    }
}

#[test]
fn a_simple_manifest_gets_upstreams_defaults() {
    let (object, written) = round_trip::<NodeWright>(SIMPLE);
    let spec = &object.spec;
    assert!(!spec.serial && !spec.runtime_required && !spec.auto_taint_new_nodes);
    assert!(!spec.runtime_required_cordon_after);
    assert_eq!((spec.priority, spec.sequencing), (200, Sequencing::Node));
    assert_eq!((spec.interruption_budget, spec.drain_config), (None, None));
    assert_eq!(spec.packages["shellscript"].version, "1.1.1");
    assert_eq!(
        written["spec"],
        json!({
            "serial": false,
            "packages": {"shellscript": {
                "version": "1.1.1",
                "image": "ghcr.io/nvidia/skyhook-packages/shellscript",
            }},
            "runtimeRequired": false,
            "runtimeRequiredCordonAfter": false,
            "autoTaintNewNodes": false,
            "priority": 200,
            "sequencing": "node",
        })
    );
}

#[test]
fn a_budget_is_a_share_or_a_number() {
    let (object, _) = round_trip::<NodeWright>(BUDGET);
    let budget = object.spec.interruption_budget.unwrap();
    assert_eq!((budget.percent, budget.count), (Some(33), None));
    let selected = object.spec.node_selectors.match_labels.unwrap();
    assert_eq!(selected["nodepool"], "gpu");
    assert!(object.spec.pod_non_interrupt_labels.match_labels.is_some());
}

#[test]
fn a_policy_gets_its_strategies_defaults_without_a_webhook() {
    let (object, written) = round_trip::<DeploymentPolicy>(POLICY);
    let spec = &object.spec;
    assert_eq!(spec.reset_batch_state_on_completion, Some(true));
    assert_eq!(spec.fallback.strategy, None);
    let strategies: Vec<Strategy> =
        spec.compartments.iter().map(|one| one.strategy.unwrap()).collect();
    let fixed = strategies[0].fixed.unwrap();
    assert_eq!((fixed.initial_batch, fixed.batch_threshold), (1, 100));
    assert_eq!((fixed.failure_threshold, fixed.safety_limit), (None, 50));
    let linear = strategies[1].linear.unwrap();
    assert_eq!((linear.initial_batch, linear.delta), (2, 1));
    let exponential = strategies[2].exponential.unwrap();
    assert_eq!((exponential.growth_factor, exponential.failure_threshold), (2, Some(3)));
    assert_eq!(written["spec"]["default"], json!({"budget": {"percent": 25}}));
}

#[test]
fn nothing_that_a_manifest_says_is_lost() {
    for text in [SIMPLE, BUDGET, EVERYTHING] {
        let (_, written) = round_trip::<NodeWright>(text);
        contains("", &written, &read(text));
    }
    let (_, written) = round_trip::<DeploymentPolicy>(POLICY);
    contains("", &written, &read(POLICY));
}

#[test]
fn every_field_of_the_spec_is_read() {
    let (object, _) = round_trip::<NodeWright>(EVERYTHING);
    let spec = &object.spec;
    assert_eq!((spec.priority, spec.sequencing, spec.serial), (5, Sequencing::All, true));
    let drain = spec.drain_config.unwrap();
    assert!(drain.disable_eviction && drain.force && !drain.delete_empty_dir_data);
    assert_eq!(drain.timeout.unwrap().get().as_secs(), 5_400);
    let options = spec.deployment_policy_options.unwrap();
    assert_eq!(options.reset_batch_state_on_completion, Some(false));
    let tuning = &spec.packages["tuning"];
    assert_eq!(tuning.interrupt.as_ref().unwrap().kind, InterruptType::Reboot);
    let service = &tuning.config_interrupts["service_*"];
    assert_eq!(service.kind, InterruptType::Service);
    assert_eq!(service.services, ["containerd", "kubelet"]);
    assert_eq!(tuning.depends_on["shellscript"], "1.1.1");
    assert_eq!(tuning.resources.as_ref().unwrap().cpu_request.as_ref().unwrap().0, "1");
    assert_eq!(tuning.stage_timeout.unwrap().to_string(), "0s");
    let uninstall = tuning.uninstall.unwrap();
    assert!(uninstall.enabled && !uninstall.apply);
    assert!(tuning.env[1].value_from.is_some());
}

#[test]
fn the_manifests_have_only_fields_that_the_editor_schema_has() {
    use nodewright::api::crd::{Kind, editor_schema};
    fn check(path: &str, schema: &Value, text: &Value) {
        for (key, value) in text.as_object().into_iter().flatten() {
            let field = &schema["properties"][key];
            let field = if field.is_null() { &schema["additionalProperties"] } else { field };
            assert!(field.is_object(), "{path}.{key} is not in the schema");
            check(&format!("{path}.{key}"), field, value);
        }
        for value in text.as_array().into_iter().flatten() {
            check(&format!("{path}[]"), &schema["items"], value);
        }
    }
    for text in [SIMPLE, BUDGET, EVERYTHING] {
        check("", &editor_schema(Kind::NodeWright), &read(text));
    }
    check("", &editor_schema(Kind::DeploymentPolicy), &read(POLICY));
}

#[test]
fn null_reads_as_not_given() {
    let spec = json!({
        "serial": null, "nodeSelectors": null, "packages": {"one": {
            "version": "1", "image": "repo", "name": null, "env": null, "dependsOn": null,
            "configMap": null, "interrupt": {"type": "noop", "services": null},
            "uninstall": {"enabled": true, "apply": null},
        }},
        "priority": null, "sequencing": null, "additionalTolerations": null,
        "drainConfig": {"force": null, "timeout": null},
        "deploymentPolicyOptions": {"resetBatchStateOnCompletion": null},
    });
    let spec: nodewright::api::NodeWrightSpec = serde_json::from_value(spec).unwrap();
    assert_eq!((spec.priority, spec.sequencing), (200, Sequencing::Node));
    assert!(spec.drain_config.unwrap().force);
    // The one null that is an answer: leave it to the policy.
    assert_eq!(spec.deployment_policy_options.unwrap().reset_batch_state_on_completion, None);
    let package = &spec.packages["one"];
    assert!(package.env.is_empty() && package.name.is_empty());
    let policy = json!({"default": {
        "budget": {"count": 1, "percent": null},
        "strategy": {"linear": {"initialBatch": null, "delta": null, "safetyLimit": null}},
    }});
    let policy: nodewright::api::DeploymentPolicySpec = serde_json::from_value(policy).unwrap();
    let linear = policy.fallback.strategy.unwrap().linear.unwrap();
    assert_eq!((linear.initial_batch, linear.delta, linear.safety_limit), (1, 1, 50));
}

#[test]
fn a_wrong_type_is_an_error_and_not_a_default() {
    for (wrong, told) in [
        (json!({"serial": "yes"}), "expected a boolean"),
        (json!({"packages": {"one": {"version": 1.1, "image": "x"}}}), "expected a string"),
        (json!({"packages": {"one": {"image": "x"}}}), "missing field `version`"),
        (json!({"sequencing": "none"}), "unknown variant `none`"),
        (json!({"drainConfig": {"timeout": "1d"}}), "needs a unit"),
        (json!({"drainConfig": {"gracePeriod": "-1s"}}), "is negative"),
    ] {
        let error = serde_json::from_value::<nodewright::api::NodeWrightSpec>(wrong).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn a_status_of_upstream_is_read_without_its_maps_per_node() {
    let status = json!({
        "status": "in_progress", "observedGeneration": 2, "nodesInProgress": 1,
        "completeNodes": "1/3", "packageList": "shellscript:1.1.1",
        "nodeState": {"node-a": {"shellscript|1.1.1": {"state": "complete"}}},
        "nodeStatus": {"node-a": "complete"}, "nodeOrderOffset": 1,
        "compartmentStatuses": {"__default__": {
            "matched": 3, "ceiling": 1, "inProgress": 1, "completed": 1, "progressPercent": 33,
            "batchState": {"currentBatch": 2, "lastBatchSize": 1, "completedNodes": 1},
        }},
    });
    let status: NodeWrightStatus = serde_json::from_value(status).unwrap();
    assert_eq!(status.status, Some(StatusWord::InProgress));
    let batch = status.compartment_statuses["__default__"].batch_state.unwrap();
    let expected = BatchState {
        current_batch: 2,
        last_batch_size: 1,
        completed_nodes: 1,
        ..BatchState::default()
    };
    assert_eq!(batch, expected);
    let written = serde_json::to_value(&status).unwrap();
    assert!(written.get("nodeState").is_none() && written.get("rollout").is_none());
}

#[test]
fn an_open_batch_is_remembered() {
    let target = "t".to_owned();
    let open_batch = OpenBatch {
        number: 3,
        size: 2,
        order_from: 4,
        given: 1,
        refused: Vec::new(),
        target,
        opened: None,
        first_use: false,
    };
    let compartment = CompartmentRollout {
        target: Some("t".to_owned()),
        open_batch: Some(open_batch),
        batches_to_come: Some("2, 4".to_owned()),
    };
    let status = NodeWrightStatus {
        rollout: Some(RolloutStatus {
            started: None,
            completed: None,
            target: Some("t".to_owned()),
            order_offset: 6,
            compartments: [("__default__".to_owned(), compartment)].into(),
            completed_packages: Vec::new(),
        }),
        ..NodeWrightStatus::default()
    };
    let written = serde_json::to_value(&status).unwrap();
    assert_eq!(
        written["rollout"],
        json!({"target": "t", "orderOffset": 6, "compartments": {"__default__": {
            "target": "t", "openBatch": {
                "number": 3, "size": 2, "orderFrom": 4, "given": 1, "target": "t",
            }, "batchesToCome": "2, 4",
        }}})
    );
    assert_eq!(serde_json::from_value::<NodeWrightStatus>(written).unwrap(), status);
    let fresh: NodeWrightStatus = serde_json::from_value(json!({})).unwrap();
    assert_eq!((fresh.complete_nodes.as_str(), fresh.status), ("0/0", None));
}
