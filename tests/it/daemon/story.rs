//! A pushed commit reaches the nodes and comes back as a status commit.

use nodewright::sim::scene::Workload;

use crate::fleet::{DAEMON, Fleet, is_complete, manifest, until};

#[tokio::test(start_paused = true)]
async fn a_pushed_commit_reaches_the_nodes_and_comes_back_as_a_status_commit() {
    let fleet = Fleet::new(5).await;
    let web = Workload::new("web", "gpu-001");
    fleet.scene().add_workload(&web).await.expect("a pod that the drain moves");
    let packages = "    kernel:\n      version: 1.0.0\n      image: registry.example/kernel\n      \
                    interrupt:\n        type: reboot\n";
    fleet.push(&[("gpu.yaml", &manifest("tuning", "count: 2", packages))]);
    let daemon = fleet.daemon(DAEMON);
    let state = until(&daemon, fleet.clock, is_complete).await;
    assert_eq!(state.rollouts["tuning"].nodes_total, 5);
    daemon.stop().await.expect("a graceful stop");
    fleet.assert_released().await;
    let entry = &fleet.node_state("gpu-001", "tuning").await["kernel|1.0.0"];
    assert_eq!(
        (entry["stage"].as_str(), entry["state"].as_str()),
        (Some("post-interrupt"), Some("complete"))
    );
    for number in 1..=5 {
        assert_eq!(fleet.kubelet.reboots(&format!("gpu-00{number}")), 1);
    }
    let log = fleet.origin.git(&["log", "--format=%s", "nodewright-status/dev"]);
    assert!(log.contains("5/5"), "{log}");
    let readme = fleet.origin.git(&["show", "nodewright-status/dev:README.md"]);
    assert!(readme.contains("tuning"), "{readme}");
    fleet.stop().await;
}
