//! `nodewright stop --all` and `nodewright go` against a real API server.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use nodewright::cluster::lease::LEASE_NAME;
use serde_json::json;

use super::{Ran, Shell, nodewright};
use crate::control_plane;

#[test]
fn one_rollout_is_not_stopped_by_this() {
    let ran = nodewright(&["stop"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("--all"), "{}", ran.err);
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn everything_is_stopped_where_a_daemon_was_and_goes_on_again() {
    let plane = control_plane::shared().await;
    let namespace = "cli-stop";
    plane.ensure_namespace(namespace).await;
    let kubeconfig = plane.kubeconfig();
    let run = async |arguments: &'static [&'static str]| -> Ran {
        let kubeconfig = kubeconfig.to_str().expect("a path as text").to_owned();
        let run = move || {
            let arguments = [arguments, &["--kubeconfig", &kubeconfig]].concat();
            Shell::new().with("NODEWRIGHT_NAMESPACE", namespace).run(&arguments)
        };
        tokio::task::spawn_blocking(run).await.expect("it runs")
    };
    let stop: &[&str] = &["stop", "--all", "--reason", "a drill"];

    let ran = run(stop).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(4), ""));
    let first =
        "error: nothing is stopped: no daemon has ever been at work in namespace cli-stop\n";
    assert!(ran.err.starts_with(first), "{}", ran.err);
    assert!(ran.err.contains("hint: name the daemon's namespace with --namespace"), "{}", ran.err);
    let nothing = "nothing was stopped by the daemon in namespace cli-stop\n";
    assert_eq!(run(&["go"]).await.out, nothing);

    let leases: Api<Lease> = Api::namespaced(plane.client("cli-stop-test/1"), namespace);
    let given_up = json!({"metadata": {"name": LEASE_NAME}, "spec": {}});
    let given_up = serde_json::from_value(given_up).expect("a Lease");
    leases.create(&PostParams::default(), &given_up).await.expect("created");

    let ran = run(stop).await;
    let said = "stopped: no daemon is at work in namespace cli-stop, and one that starts obeys\n\
                to go on where it was: nodewright go\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), said, ""));
    let ran = run(&["go"]).await;
    let said = "goes on where it was; the stop was: a drill, at 20";
    assert!(ran.code == Some(0) && ran.out.starts_with(said), "{}{}", ran.out, ran.err);
    assert_eq!(run(&["go"]).await.out, nothing);
}
