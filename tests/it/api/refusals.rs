//! The CRDs on a real API server: they are taken, good objects pass, each bad one is refused.
//!
//! Everything is a dry run, so that tests which share the server do not meet these objects.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use nodewright::api::crd::{Kind, crds};
use nodewright::api::{GROUP, VERSION};
use serde_json::{Value, json};

use crate::control_plane::{eventually, shared};

const SIMPLE: &str = include_str!("manifests/simple.yaml");
const POLICY: &str = include_str!("manifests/policy.yaml");

/// A merge patch that spoils the simple manifest, and what the API server must say.
const BAD: &[(&str, &str)] = &[
    (r#"{"interruptionBudget": {"percent": 1, "count": 1}}"#, "give percent or count, not both"),
    (
        r#"{"deploymentPolicy": "careful", "interruptionBudget": {"count": 1}}"#,
        "give deploymentPolicy or interruptionBudget, not both",
    ),
    (r#"{"interruptionBudget": {"percent": 101}}"#, "less than or equal to 100"),
    (r#"{"interruptionBudget": {"count": -1}}"#, "greater than or equal to 0"),
    (r#"{"priority": 0}"#, "greater than or equal to 1"),
    (r#"{"sequencing": "none"}"#, "supported values: \"node\", \"all\""),
    (r#"{"drainConfig": {"timeout": "1d"}}"#, "spec.drainConfig.timeout"),
    (r#"{"drainConfig": {"gracePeriod": "-1s"}}"#, "spec.drainConfig.gracePeriod"),
    (r#"{"packages": {"Upper": {"version": "1", "image": "a"}}}"#, "a package's name has 2 to 43"),
    (r#"{"packages": {"ends-1": {"version": "1", "image": "a"}}}"#, "a package's name has 2 to 43"),
    (r#"{"packages": {"shellscript": {"name": "other"}}}"#, "must be the same as its key"),
    (r#"{"packages": {"shellscript": {"version": "latest"}}}"#, "must be a semantic version"),
    (r#"{"packages": {"shellscript": {"version": 1.1}}}"#, "must be of type string"),
    (r#"{"packages": {"shellscript": {"version": null}}}"#, "Required value"),
    (r#"{"packages": {"shellscript": {"image": "a/b:1"}}}"#, "must not carry a tag"),
    (r#"{"packages": {"shellscript": {"image": "a/b:"}}}"#, "must not carry a tag"),
    (r#"{"packages": {"shellscript": {"image": "a/b@sha256:00"}}}"#, "must not carry a digest"),
    (r#"{"packages": {"shellscript": {"image": "a b"}}}"#, "spec.packages.shellscript.image"),
    (r#"{"packages": {"shellscript": {"containerSHA": "00"}}}"#, "shellscript.containerSHA"),
    (
        r#"{"packages": {"shellscript": {"interrupt": {"type": "restart_all_services"}}}}"#,
        "\"restartAllServices\"",
    ),
    (r#"{"packages": {"shellscript": {"uninstall": {"apply": true}}}}"#, "needs enabled: true"),
    (
        r#"{"packages": {"shellscript": {"dependsOn": {"missing": "1"}}}}"#,
        "dependsOn must name a package of this resource",
    ),
    (
        r#"{"packages": {"other": {
            "version": "1", "image": "a", "dependsOn": {"shellscript": "1.1.2"}}}}"#,
        "with exactly the version it has here",
    ),
    (
        r#"{"packages": {"shellscript": {"dependsOn": {"shellscript": "1.1.1"}}}}"#,
        "a package cannot depend on itself",
    ),
    (r#"{"packages": {"shellscript": {"resources": {"cpuLimit": "1"}}}}"#, "give all of cpu"),
    (
        r#"{"packages": {"shellscript": {"resources": {
            "cpuRequest": 0, "cpuLimit": 1, "memoryRequest": "1Gi", "memoryLimit": "1Gi"}}}}"#,
        "cpuRequest must be above zero",
    ),
    (
        r#"{"packages": {"shellscript": {"resources": {
            "cpuRequest": 1, "cpuLimit": 1, "memoryRequest": "1Gi", "memoryLimit": "1Mi"}}}}"#,
        "memoryLimit not below it",
    ),
    (r#"{"packages": {"shellscript": {"interupt": {}}}}"#, "unknown field"),
];

/// The same for the policy.
const BAD_POLICY: &[(&str, &str)] = &[
    (r#"{"default": {"budget": {"count": 1}}}"#, "give exactly one of percent and count"),
    (r#"{"default": {"budget": {"percent": null}}}"#, "give exactly one of percent and count"),
    (r#"{"default": {"budget": {"percent": 0}}}"#, "greater than or equal to 1"),
    (r#"{"default": {"strategy": {}}}"#, "give exactly one of fixed, linear and exponential"),
    (r#"{"default": {"strategy": {"fixed": {}, "linear": {}}}}"#, "give exactly one of fixed"),
    (
        r#"{"default": {"strategy": {"exponential": {"growthFactor": 1}}}}"#,
        "greater than or equal to 2",
    ),
    (
        r#"{"default": {"strategy": {"fixed": {"batchThreshold": 101}}}}"#,
        "less than or equal to 100",
    ),
    (
        r#"{"compartments": [{"name": "__default__", "budget": {"count": 1}}]}"#,
        "__default__ is the compartment",
    ),
    (
        r#"{"compartments": [
            {"name": "one", "budget": {"count": 1}}, {"name": "one", "budget": {"count": 2}}]}"#,
        "each compartment needs a name of its own",
    ),
];

async fn install(client: &kube::Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crds() {
        let name = definition.metadata.name.clone().expect("a CRD has a name");
        let parameters = PatchParams::apply("api-tests").force();
        definitions
            .patch(&name, &parameters, &Patch::Apply(&definition))
            .await
            .unwrap_or_else(|error| panic!("the API server refuses {name}: {error}"));
    }
}

/// Creates an object as a dry run; returns what the API server says against it.
async fn refusal(client: &kube::Client, kind: Kind, object: &Value) -> Option<String> {
    let plural = kind.plural();
    let path = format!("/apis/{GROUP}/{VERSION}/{plural}?dryRun=All&fieldValidation=Strict");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .expect("the path is legal");
    match client.request::<Value>(request).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.message.clone()),
        Err(error) => panic!("the API server does not answer: {error}"),
    }
}

/// Waits until the server takes the good objects: a CRD's rules are live soon after it is taken.
async fn accepted(client: &kube::Client, kind: Kind, object: &Value) {
    eventually("a good object is accepted", Duration::from_secs(30), async || {
        refusal(client, kind, object).await.is_none().then_some(())
    })
    .await;
}

async fn each_is_refused(client: &kube::Client, kind: Kind, good: &Value, bad: &[(&str, &str)]) {
    for (patch, told) in bad {
        let patch: Value = serde_json::from_str(patch).expect("the tables hold JSON");
        let mut object = good.clone();
        json_patch::merge(&mut object["spec"], &patch);
        let said = refusal(client, kind, &object).await;
        let said = said.unwrap_or_else(|| panic!("accepted: {patch}"));
        assert!(said.contains(told), "{patch}\nsaid: {said}\nnot:  {told}");
    }
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn the_api_server_takes_the_crds_and_refuses_what_they_forbid() {
    let client = shared().await.client("api-refusals/1");
    install(&client).await;

    let simple: Value = serde_yaml::from_str(SIMPLE).unwrap();
    for good in [SIMPLE, include_str!("manifests/budget.yaml")] {
        accepted(&client, Kind::NodeWright, &serde_yaml::from_str(good).unwrap()).await;
    }
    let everything = include_str!("manifests/everything.yaml");
    accepted(&client, Kind::NodeWright, &serde_yaml::from_str(everything).unwrap()).await;
    each_is_refused(&client, Kind::NodeWright, &simple, BAD).await;

    let mut long_name = simple.clone();
    long_name["metadata"]["name"] = json!("n".repeat(50));
    assert_eq!(refusal(&client, Kind::NodeWright, &long_name).await, None);
    long_name["metadata"]["name"] = json!("n".repeat(51));
    let said = refusal(&client, Kind::NodeWright, &long_name).await.unwrap();
    assert!(said.contains("metadata.name may have at most 50 characters"), "{said}");

    let policy: Value = serde_yaml::from_str(POLICY).unwrap();
    accepted(&client, Kind::DeploymentPolicy, &policy).await;
    each_is_refused(&client, Kind::DeploymentPolicy, &policy, BAD_POLICY).await;
}
