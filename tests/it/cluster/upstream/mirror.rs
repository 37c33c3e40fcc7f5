//! Objects under the group's former name reach the cluster as what they are now.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use nodewright::api::crd::crds;
use nodewright::api::keys::{MIRRORED_FROM, PAUSE};
use nodewright::cluster::mirror::steps;
use nodewright::sim::Cluster;
use serde_json::{Value, json};

use super::super::world::{World, parse};

/// A cluster that serves the former group too, as one that upstream v0.15 was installed in.
async fn with_former_kinds() -> World {
    World::with(async |cluster: &Cluster| {
        let client = cluster.client("test");
        for crd in crds() {
            let mut crd = serde_json::to_value(&crd).expect("JSON");
            let text = crd.to_string().replace("nodewright.nvidia.com", "skyhook.nvidia.com");
            crd = serde_json::from_str(&text).expect("JSON");
            if crd["spec"]["names"]["kind"] == "NodeWright" {
                crd["metadata"]["name"] = json!("skyhooks.skyhook.nvidia.com");
                crd["spec"]["names"] = json!({
                    "kind": "Skyhook", "plural": "skyhooks", "singular": "skyhook",
                    "listKind": "SkyhookList",
                });
            }
            let crd: CustomResourceDefinition = parse(crd);
            let api = Api::all(client.clone());
            api.create(&PostParams::default(), &crd).await.expect("accepted");
        }
    })
    .await
}

fn skyhooks(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("skyhook.nvidia.com", "v1alpha1", "Skyhook");
    let resource = ApiResource::from_gvk_with_plural(&kind, "skyhooks");
    Api::all_with(world.cluster.client("test"), &resource)
}

async fn create(world: &World, name: &str, image: &str) {
    let object = parse(json!({
        "apiVersion": "skyhook.nvidia.com/v1alpha1",
        "kind": "Skyhook",
        "metadata": {
            "name": name,
            "annotations": {"skyhook.nvidia.com/pause": "true", "argocd.argoproj.io/x": "y"},
        },
        "spec": {"packages": {"kernel": {"version": "1.0.0", "image": image}}},
    }));
    skyhooks(world).create(&PostParams::default(), &object).await.expect("accepted");
    world.until(|view| view.former.skyhooks.contains_key(name)).await;
}

async fn change(world: &World, name: &str, patch: Value) {
    let patch = Patch::Merge(patch);
    skyhooks(world).patch(name, &PatchParams::default(), &patch).await.expect("accepted");
}

#[tokio::test(start_paused = true)]
async fn a_former_object_is_mirrored_and_kept_the_same() {
    let world = with_former_kinds().await;
    create(&world, "old", "registry:5000/kernel:1.0.0").await;
    assert!(world.actor.mirror(&world.proof, &world.view()).await);
    let copy = world.nodewrights().get("old").await.expect("it is made");
    let annotations = copy.metadata.annotations.clone().expect("some");
    assert_eq!(annotations[MIRRORED_FROM], "skyhook.nvidia.com/old");
    assert_eq!((annotations[PAUSE].as_str(), annotations.len()), ("true", 2));
    let package = &copy.spec.packages["kernel"];
    assert_eq!(package.image, "registry:5000/kernel", "the tag goes, the port stays");
    assert_eq!(steps(&world.view()), (vec![], vec![]), "in the store, so nothing more to do");

    let patch = json!({
        "metadata": {"annotations": {"skyhook.nvidia.com/pause": null}},
        "spec": {"packages": {"kernel": null, "tools": {"version": "2.0.0", "image": "tools"}}},
    });
    change(&world, "old", patch).await;
    world.until(|view| !steps(view).0.is_empty()).await;
    assert!(world.actor.mirror(&world.proof, &world.view()).await);
    let copy = world.nodewrights().get("old").await.expect("it is there");
    assert_eq!(copy.spec.packages.keys().collect::<Vec<_>>(), ["tools"]);
    assert!(!copy.metadata.annotations.expect("some").contains_key(PAUSE));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_made_by_hand_or_taken_over_is_left_alone() {
    let world = with_former_kinds().await;
    // The world has a NodeWright of this name.
    create(&world, "gpu", "kernel").await;
    assert_eq!(steps(&world.view()), (vec![], vec![]));
    create(&world, "old", "kernel").await;
    assert!(world.actor.mirror(&world.proof, &world.view()).await);
    let taken = Patch::Merge(json!({"metadata": {"annotations": {MIRRORED_FROM: null}}}));
    let api = world.nodewrights();
    api.patch("old", &PatchParams::default(), &taken).await.expect("accepted");
    change(&world, "old", json!({"spec": {"serial": true}})).await;
    world
        .until(|view| {
            let copy = view.nodewrights["old"].metadata.annotations.clone().unwrap_or_default();
            !copy.contains_key(MIRRORED_FROM)
        })
        .await;
    assert_eq!(steps(&world.view()), (vec![], vec![]), "somebody owns it now");
    skyhooks(&world).delete("old", &Default::default()).await.expect("accepted");
    world.until(|view| !view.former.skyhooks.contains_key("old")).await;
    assert_eq!(steps(&world.view()), (vec![], vec![]));
    api.get("old").await.expect("a copy is never deleted");
    world.stop().await;
}
