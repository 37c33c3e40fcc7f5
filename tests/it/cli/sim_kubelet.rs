//! `nodewright sim kubelet` on a real API server: a Node object comes to life.

use std::process::{Child, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};

use super::{Shell, nodewright};
use crate::control_plane::{self, eventually};

/// Enough for a machine that is busy compiling.
const LIMIT: Duration = Duration::from_secs(60);

/// Kills the child should the test end early.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already, which is what we want.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_rule_that_cannot_be_read_is_told_with_its_place() {
    let ran = nodewright(&["sim", "kubelet", "--rule=stage:apply"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("is not key=value"), "{}", ran.err);

    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("script");
    let text = "# the first attempt fails\n\nstage=apply,attempt=1,exit=3\nstage=apply,exit=no\n";
    std::fs::write(&file, text).expect("it can be written");
    let shell = Shell::new().in_folder(folder.path());
    let ran = shell.run(&["sim", "kubelet", "--script=script"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.err, "error: script:4: exit=\"no\" is not a whole number\n");
}

#[tokio::test]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn a_node_without_a_machine_gets_ready_and_a_signal_ends_it() {
    let plane = control_plane::shared().await;
    let nodes: Api<Node> = Api::all(plane.client("cli-sim-test/1"));
    let name = "cli-sim-kubelet";
    let node = Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(name.to_owned(), "yes".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..Node::default()
    };
    nodes.create(&PostParams::default(), &node).await.expect("created");

    let kubeconfig = plane.kubeconfig();
    let shell = Shell::new();
    let mut command = shell.command(&[
        "sim",
        "kubelet",
        "--kubeconfig",
        kubeconfig.to_str().expect("a path as text"),
        "--selector=cli-sim-kubelet=yes",
        "--log=json",
    ]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut running = Running(child);
    eventually("the node is ready", LIMIT, async || {
        let node = nodes.get(name).await.expect("there");
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        conditions.iter().find(|one| one.type_ == "Ready" && one.status == "True").map(drop)
    })
    .await;

    let pid = running.0.id().to_string();
    let killed = std::process::Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.expect("every Linux has kill").success());
    let status = eventually("it ends", LIMIT, async || running.0.try_wait().expect("ours")).await;
    nodes.delete(name, &DeleteParams::default()).await.expect("deleted");
    assert_eq!(status.code(), Some(0));
    let output = std::io::read_to_string(running.0.stderr.take().expect("piped")).expect("UTF-8");
    let lines: Vec<serde_json::Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    assert_eq!(lines.first().map(|line| &line["message"]), Some(&"playing kubelets".into()));
    let last = lines.last().map(|line| &line["message"]);
    assert_eq!(last, Some(&"stop requested, ending what is in progress".into()));
}
