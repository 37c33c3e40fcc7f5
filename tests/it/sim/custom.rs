//! Custom resources: served by their CRD, pruned, defaulted, validated, status apart.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use nodewright::sim::Cluster;
use serde_json::{Value, json};

use super::{cluster, config_map, config_maps, parse, refused};

fn crd() -> CustomResourceDefinition {
    let spec = json!({
        "type": "object", "required": ["image"],
        "properties": {
            "image": {"type": "string", "minLength": 1, "maxLength": 20, "pattern": "^[a-z/.]+$"},
            "kind": {"type": "string", "enum": ["service", "reboot"], "default": "service"},
            "count": {"type": "integer", "minimum": 0, "maximum": 10, "nullable": true},
            "size": {"x-kubernetes-int-or-string": true},
            "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
            "env": {
                "type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"},
            },
            "nested": {
                "type": "object", "default": {},
                "properties": {"deep": {"type": "boolean", "default": true}},
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let status = json!({"type": "object", "properties": {"state": {"type": "string"}}});
    parse(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget", "singular": "widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": spec, "status": status},
                }},
            }],
        },
    }))
}

fn widgets(cluster: &Cluster) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    Api::all_with(cluster.client("test"), &resource)
}

fn widget(spec: Value) -> DynamicObject {
    parse(json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec,
    }))
}

async fn with_crd() -> Cluster {
    let cluster = cluster();
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client("test"));
    crds.create(&PostParams::default(), &crd()).await.expect("the CRD is accepted");
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_served_from_its_crd_on_and_not_before() {
    let cluster = cluster();
    let status = refused(widgets(&cluster).get("w").await);
    assert_eq!(status.code, 404);
    assert!(!status.is_not_found(), "kube tells a missing path from a missing object");
    assert_eq!(status.message, "404 page not found");
    let cluster = with_crd().await;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client("test"));
    let crd = crds.get("widgets.example.com").await.expect("it is there");
    let conditions = crd.status.and_then(|status| status.conditions).expect("conditions");
    assert!(conditions.iter().any(|one| one.type_ == "Established" && one.status == "True"));
    let api = widgets(&cluster);
    api.create(&PostParams::default(), &widget(json!({"image": "a"}))).await.expect("served");
    crds.delete("widgets.example.com", &DeleteParams::default()).await.expect("accepted");
    assert_eq!(refused(widgets(&cluster).get("w").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_pruned_and_defaults_filled_in() {
    let cluster = with_crd().await;
    let sent = widget(json!({
        "image": "a", "surprise": 1, "kind": null, "env": {"A": "b"}, "free": {"any": [1]},
        "nested": {"odd": 1}, "count": null, "tags": null,
    }));
    let stored = widgets(&cluster).create(&PostParams::default(), &sent).await.expect("accepted");
    assert_eq!(
        stored.data["spec"],
        json!({
            "image": "a", "kind": "service", "env": {"A": "b"}, "free": {"any": [1]},
            "nested": {"deep": true}, "count": null,
        })
    );
    let strict = PatchParams {
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..Default::default()
    };
    let patch = Patch::Merge(json!({"spec": {"surprise": 1}}));
    let status = refused(widgets(&cluster).patch("w", &strict, &patch).await);
    assert_eq!(status.code, 400);
    assert!(status.message.contains("unknown field \"spec.surprise\""), "{}", status.message);
}

#[tokio::test(start_paused = true)]
async fn each_rule_of_the_schema_is_checked() {
    let cluster = with_crd().await;
    let cases = [
        (json!({}), "spec.image", "FieldValueRequired"),
        (json!({"image": 5}), "spec.image", "FieldValueTypeInvalid"),
        (json!({"image": ""}), "spec.image", "FieldValueInvalid"),
        (json!({"image": "A B"}), "spec.image", "FieldValueInvalid"),
        (json!({"image": "a".repeat(21)}), "spec.image", "FieldValueTooLong"),
        (json!({"image": "a", "kind": "x"}), "spec.kind", "FieldValueNotSupported"),
        (json!({"image": "a", "count": -1}), "spec.count", "FieldValueInvalid"),
        (json!({"image": "a", "count": 11}), "spec.count", "FieldValueInvalid"),
        (json!({"image": "a", "count": 1.5}), "spec.count", "FieldValueTypeInvalid"),
        (json!({"image": "a", "size": true}), "spec.size", "FieldValueTypeInvalid"),
        (json!({"image": "a", "tags": ["a", "b", "c"]}), "spec.tags", "FieldValueTooMany"),
        (json!({"image": "a", "tags": [1]}), "spec.tags[0]", "FieldValueTypeInvalid"),
        (
            json!({"image": "a", "env": {"A": "", "B": "", "C": ""}}),
            "spec.env",
            "FieldValueTooMany",
        ),
    ];
    for (spec, field, reason) in cases {
        let sent = widget(spec);
        let status = refused(widgets(&cluster).create(&PostParams::default(), &sent).await);
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
        assert!(status.message.starts_with("Widget.example.com \"w\" is invalid: "));
        let cause = &status.details.expect("details").causes[0];
        assert_eq!((cause.field.as_str(), cause.reason.as_str()), (field, reason));
    }
    for size in [json!(5), json!("5%")] {
        let sent = widget(json!({"image": "a", "size": size}));
        let dry = PostParams { dry_run: true, ..Default::default() };
        widgets(&cluster).create(&dry, &sent).await.expect("an int or a string");
    }
}

#[tokio::test(start_paused = true)]
async fn spec_counts_generations_and_status_does_not() {
    let cluster = with_crd().await;
    let api = widgets(&cluster);
    let mut sent = widget(json!({"image": "a"}));
    sent.data["status"] = json!({"state": "made up"});
    let created = api.create(&PostParams::default(), &sent).await.expect("accepted");
    assert_eq!(created.metadata.generation, Some(1));
    assert_eq!(created.data["status"], Value::Null);
    let both = Patch::Merge(json!({
        "metadata": {"labels": {"a": "b"}}, "spec": {"image": "b"}, "status": {"state": "new"},
    }));
    let params = PatchParams::default();
    let main = api.patch("w", &params, &both).await.expect("accepted");
    assert_eq!((main.metadata.generation, &main.data["status"]), (Some(2), &Value::Null));
    let both = Patch::Merge(json!({
        "metadata": {"labels": {"a": "c"}}, "spec": {"image": "c"}, "status": {"state": "new"},
    }));
    let status = api.patch_status("w", &params, &both).await.expect("accepted");
    assert_eq!(status.metadata.generation, Some(2));
    assert_eq!(status.data["spec"]["image"], "b");
    assert_eq!(status.data["status"]["state"], "new");
    assert_eq!(status.labels()["a"], "b");
}

#[tokio::test(start_paused = true)]
async fn a_strategic_merge_of_a_custom_resource_is_a_415() {
    let cluster = with_crd().await;
    let api = widgets(&cluster);
    api.create(&PostParams::default(), &widget(json!({"image": "a"}))).await.expect("accepted");
    let patch = Patch::Strategic(json!({"spec": {"image": "b"}}));
    assert_eq!(refused(api.patch("w", &PatchParams::default(), &patch).await).code, 415);
}

#[tokio::test(start_paused = true)]
async fn what_a_custom_resource_owned_goes_with_it() {
    let cluster = with_crd().await;
    let api = widgets(&cluster);
    let owner = api.create(&PostParams::default(), &widget(json!({"image": "a"}))).await;
    let owner = owner.expect("accepted");
    let mut owned = config_map("owned");
    owned.metadata.owner_references = Some(vec![parse(json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": owner.uid(),
    }))]);
    let maps = config_maps(&cluster);
    maps.create(&PostParams::default(), &owned).await.expect("created");
    api.delete("w", &DeleteParams::default()).await.expect("accepted");
    assert_eq!(refused(maps.get("owned").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn our_own_kinds_are_served_from_our_own_crds() {
    let cluster = cluster();
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client("test"));
    for crd in nodewright::api::crd::crds() {
        crds.create(&PostParams::default(), &crd).await.expect("the CRD is accepted");
    }
    let api: Api<nodewright::api::NodeWright> = Api::all(cluster.client("test"));
    let sent = parse(json!({
        "apiVersion": "nodewright.nvidia.com/v1alpha1", "kind": "NodeWright",
        "metadata": {"name": "gpu-node-tuning"},
        "spec": {
            "nodeSelectors": {"matchLabels": {"nodepool": "gpu"}},
            "interruptionBudget": {"percent": 33},
            "packages": {"nvidia-tuned": {
                "version": "0.9.0", "image": "registry.example/nvidia-tuned",
            }},
        },
    }));
    let stored = api.create(&PostParams::default(), &sent).await.expect("accepted");
    assert_eq!(stored.spec.packages.len(), 1);
    let wrong = Patch::Merge(json!({"spec": {"packages": {"nvidia-tuned": {"version": null}}}}));
    let status = refused(api.patch("gpu-node-tuning", &PatchParams::default(), &wrong).await);
    assert_eq!(status.code, 422);
}
