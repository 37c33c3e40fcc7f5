//! `nodewright accept` against a real API server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, ObjectMeta, PostParams};
use nodewright::api::keys::ACCEPT;
use nodewright::cluster::source_state::SOURCE_NAME;

use super::{Ran, Shell, nodewright};
use crate::control_plane;

const IN_FORCE: &str = "1111111111111111111111111111111111111111";
const HELD: &str = "2222222222222222222222222222222222222222";
const OTHER: &str = "3333333333333333333333333333333333333333";

#[test]
fn only_a_whole_commit_is_taken() {
    let ran = nodewright(&["accept", "2222222"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("forty hexadecimal digits"), "{}", ran.err);
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn the_held_commit_is_let_through_and_no_other() {
    let plane = control_plane::shared().await;
    let namespace = "cli-accept";
    plane.ensure_namespace(namespace).await;
    let config_maps: Api<ConfigMap> = Api::namespaced(plane.client("cli-accept-test/1"), namespace);
    let kubeconfig = plane.kubeconfig();
    let accept = async |commit: &'static str| -> Ran {
        let kubeconfig = kubeconfig.clone();
        let run = move || {
            let kubeconfig = kubeconfig.to_str().expect("a path as text");
            Shell::new().with("NODEWRIGHT_NAMESPACE", namespace).run(&[
                "accept",
                commit,
                "--kubeconfig",
                kubeconfig,
            ])
        };
        tokio::task::spawn_blocking(run).await.expect("it runs")
    };

    let ran = accept(HELD).await;
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    let first = "error: no daemon in namespace cli-accept has seen a commit yet\nhint: ";
    assert!(ran.err.starts_with(first), "{}", ran.err);

    let data = [("seen", HELD), ("accepted", IN_FORCE)]
        .map(|(key, commit)| (key.to_owned(), format!("main@sha1:{commit}")));
    let config_map = ConfigMap {
        metadata: ObjectMeta { name: Some(SOURCE_NAME.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from(data)),
        ..ConfigMap::default()
    };
    config_maps.create(&PostParams::default(), &config_map).await.expect("created");

    let ran = accept(OTHER).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(4), ""));
    assert_eq!(
        ran.err,
        format!(
            "error: the daemon has seen main@sha1:{HELD}, which is another commit\n\
             hint: look at that one, then: nodewright accept {HELD}\n"
        )
    );
    let ran = accept(IN_FORCE).await;
    assert_eq!((ran.code, ran.out), (Some(0), format!("{IN_FORCE} is in force already\n")));
    let before = config_maps.get(SOURCE_NAME).await.expect("there");
    assert_eq!(before.annotations().get(ACCEPT), None);

    let ran = accept(HELD).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let said = format!("main@sha1:{HELD} is let through; the daemon applies it within seconds\n");
    assert_eq!(ran.out, said);
    let after = config_maps.get(SOURCE_NAME).await.expect("there");
    assert_eq!(after.annotations().get(ACCEPT).map(String::as_str), Some(HELD));
    assert_eq!(after.data, before.data);

    let ran = accept(HELD).await;
    let said = format!("{HELD} has been let through before\n");
    assert_eq!((ran.code, ran.out), (Some(0), said));
    let again = config_maps.get(SOURCE_NAME).await.expect("there");
    assert_eq!(again.resource_version(), after.resource_version(), "nothing was written twice");
}
