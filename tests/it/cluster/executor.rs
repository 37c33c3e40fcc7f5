//! Executor pods are built in upstream's shape, with our cut.

use nodewright::cluster::EdgeSettings;
use nodewright::cluster::executor::build;
use nodewright::model::{ExecutorSpec, Stage, Work};
use serde_json::{Value, json};

use super::{eight, executor_spec, install, interrupt, package, pull, settings, to_value, verify};

fn built(work: Work) -> Value {
    to_value(&build(&executor_spec(work), &settings(), eight()))
}

fn golden(work: Work) -> String {
    serde_json::to_string_pretty(&built(work)).expect("becomes JSON")
}

fn container_names(pod: &Value) -> Vec<&str> {
    let containers = pod["spec"]["initContainers"].as_array().expect("a list");
    containers.iter().filter_map(|container| container["name"].as_str()).collect()
}

#[test]
fn an_install_pod_is_this() {
    insta::assert_snapshot!("install", golden(install()));
}

#[test]
fn an_interrupt_pod_is_this() {
    insta::assert_snapshot!("interrupt", golden(interrupt()));
}

#[test]
fn a_pull_pod_is_this_and_has_no_rights_on_the_host() {
    insta::assert_snapshot!("pull", golden(pull()));
}

#[test]
fn a_verify_pod_is_this() {
    insta::assert_snapshot!("verify", golden(verify()));
}

#[test]
fn the_next_attempt_begins_at_the_first_stage_not_recorded() {
    let pod = built(Work::Install { package: package(), stages: vec![Stage::Config] });
    assert_eq!(
        container_names(&pod),
        ["kernel-tuning-init", "kernel-tuning-config", "kernel-tuning-configcheck"]
    );
    let pod = built(Work::Install { package: package(), stages: vec![Stage::Upgrade] });
    let args = &pod["spec"]["initContainers"][2]["args"];
    assert_eq!((&args[0], &args[1]), (&json!("upgrade-check"), &json!("/root")));
}

#[test]
fn what_a_package_or_the_settings_say_is_heard() {
    let mut package = package();
    package.agent_image_override = Some("example.com/agent:mine".to_owned());
    package.container_sha = Some("sha256:1234".to_owned());
    package.stage_timeout = Some(std::time::Duration::ZERO);
    package.config_map.clear();
    package.resources = serde_json::from_value(json!({
        "cpuRequest": "100m", "cpuLimit": "1", "memoryRequest": "64Mi", "memoryLimit": "1Gi",
    }))
    .ok();
    let spec = ExecutorSpec {
        tolerations: vec![
            serde_json::from_value(json!({"key": "gpu", "operator": "Exists"})).unwrap(),
        ],
        ..executor_spec(Work::Verify { package })
    };
    let settings = EdgeSettings { image_pull_secret: Some("registry".to_owned()), ..settings() };
    let pod = to_value(&build(&spec, &settings, eight()));
    let spec = &pod["spec"];
    assert_eq!(spec["activeDeadlineSeconds"], Value::Null, "zero is no limit");
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "registry"}]));
    assert_eq!(spec["tolerations"][5], json!({"key": "gpu", "operator": "Exists"}));
    assert_eq!(spec["volumes"].as_array().map(Vec::len), Some(2), "no config, no volume of it");
    let init = &spec["initContainers"];
    assert_eq!(init[0]["image"], "ghcr.io/acme/kernel-tuning@sha256:1234");
    assert_eq!(init[1]["image"], "example.com/agent:mine");
    for container in init.as_array().unwrap() {
        assert_eq!(
            container["resources"],
            json!({"requests": {"cpu": "100m", "memory": "64Mi"},
                   "limits": {"cpu": "1", "memory": "1Gi"}})
        );
    }
}

#[test]
fn no_executor_has_a_priority_class_or_a_token() {
    for work in [install(), interrupt(), verify()] {
        let pod = built(work);
        assert_eq!(pod["spec"]["priorityClassName"], Value::Null);
        assert_eq!(pod["spec"]["automountServiceAccountToken"], json!(false));
        assert_eq!(pod["spec"]["restartPolicy"], "Never");
    }
}
