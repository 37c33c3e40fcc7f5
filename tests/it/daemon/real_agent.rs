//! The whole way for real: executors run the agent with a package, each node a folder of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodewright::sim::{ContainerEnd, ContainerStart, KubeletOptions, Runner};

use super::{change, create, nodewrights, package, quick, without_git};
use crate::agent::host::{Host, as_root, copy_folder};
use crate::fleet::{Fleet, is_complete, until};

/// Where containers see the host's root.
const ROOT: &str = "/root";

/// Where images of packages have what they bring.
const PACKAGE: &str = "/skyhook-package";

/// Sets the value on the host, and checks it.
const ONE: &str = "configMap:\n  config.sh: echo one > /value\n  config_check.sh: |\n    \
                   read -r value < /value\n    [ \"$value\" = one ]";

/// Checks for a value that nobody sets.
const TWO: &str = "configMap:\n  config.sh: echo one > /value\n  config_check.sh: |\n    \
                   echo looking\n    read -r value < /value\n    [ \"$value\" = two ] || {\n      \
                   echo \"the value is $value and not two\"\n      exit 3\n    }";

/// A container runtime whose nodes are folders and whose package images are `tests/packages/hooks`.
#[derive(Debug)]
struct Hosts(BTreeMap<String, Host>);

impl Runner for Hosts {
    fn run(&self, container: &ContainerStart) -> ContainerEnd {
        let root = self.0[&container.node].root();
        let own = tempfile::tempdir().expect("a temporary folder");
        let (image, log) = (own.path().join("image"), own.path().join("termination-log"));
        copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages/hooks"), &image);
        for (path, text) in &container.files {
            let path = Path::new(path).strip_prefix(PACKAGE).expect("mounted into the package");
            let file = image.join(path);
            fs::create_dir_all(file.parent().expect("a folder")).expect("the folder");
            fs::write(file, text).expect("the mounted file");
        }
        fs::write(&log, "").expect("the kubelet's file");
        // No mount namespace: what the container would see is named by where it is.
        let (root, image) = (root.to_string_lossy(), image.to_string_lossy());
        let placed = |word: &String| word.replace(ROOT, &root).replace(PACKAGE, &image);
        let mut command = match container.command.split_first() {
            None => as_root(),
            Some((program, _)) => Command::new(program),
        };
        match container.command.split_first() {
            None => command.arg("agent"),
            Some((_, rest)) => command.args(rest.iter().map(placed)),
        };
        command.args(container.args.iter().map(placed)).env_clear().env("PATH", "/usr/bin:/bin");
        command.envs(&container.env).env("NODEWRIGHT_TERMINATION_LOG", &log).stdin(Stdio::null());
        let output = command.output().expect("the program starts");
        let mut message = fs::read_to_string(&log).expect("the termination message");
        if message.is_empty() && !output.status.success() {
            message = String::from_utf8_lossy(&output.stderr).into_owned();
        }
        ContainerEnd { exit_code: output.status.code().expect("no signal"), message }
    }
}

#[tokio::test(start_paused = true)]
async fn a_real_package_is_installed_on_every_node_and_its_failing_check_is_named() {
    let names = ["gpu-001", "gpu-002"];
    let hosts = names.map(|name| (name.to_owned(), Host::new()));
    let hosts = Arc::new(Hosts(hosts.into()));
    let runner: Arc<dyn Runner> = hosts.clone();
    let fleet = Fleet::with(2, KubeletOptions { runner: Some(runner), ..quick() }).await;
    create(&fleet, "count: 1", &package("hooks", "1.0.0", ONE)).await;
    let daemon = without_git(&fleet, "daemon");
    until(&daemon, fleet.clock, is_complete).await;

    for name in names {
        let host = &hosts.0[name];
        assert_eq!(host.read("/value"), "one\n");
        let history = host.read("/var/lib/skyhook/tuning/history/hooks.json");
        assert!(history.contains("\"current-version\": \"1.0.0\""), "{history}");
        let flags = host.list("/var/lib/skyhook/tuning/flags/hooks/1.0.0");
        for arguments in ["['apply']_[0]", "['config']_[0]"] {
            let flag = format!("hook.sh_{}", STANDARD.encode(arguments));
            assert!(flags.contains(&flag), "no {flag} in {flags:?}");
        }
        let state = fleet.node_state(name, "tuning").await;
        let hooks = &state["hooks|1.0.0"];
        assert_eq!((&hooks["stage"], &hooks["state"]), (&"config".into(), &"complete".into()));
    }
    assert!(fleet.kubelet.runs().iter().all(|run| run.exit_code == 0));

    change(&fleet, "count: 1", &package("hooks", "1.0.0", TWO)).await;
    let stopped = until(&daemon, fleet.clock, |state| {
        state.rollouts.values().any(|rollout| rollout.nodes_erroring > 0)
    })
    .await;
    let erring = stopped.nodes.iter().find_map(|(name, rollouts)| {
        let message = rollouts["tuning"].visit.as_ref()?.message.clone()?;
        Some((name.clone(), message))
    });
    let (name, message) = erring.expect("a node with a message");
    let state = fleet.node_state(&name, "tuning").await;
    assert_eq!(state["hooks|1.0.0"]["state"], "erroring", "{state}");
    fleet.clock.sleep(Duration::from_secs(5)).await;
    let status = nodewrights(&fleet).get("tuning").await.expect("there").status;
    let status = serde_json::to_value(&status).expect("JSON");
    let conditions = status["conditions"].as_array().expect("conditions");
    let ready = conditions.iter().find(|it| it["type"] == "Ready").expect("a Ready condition");
    for told in [message.as_str(), ready["message"].as_str().expect("a message")] {
        assert!(told.contains("hook.sh"), "{told}");
        assert!(told.contains("the value is one and not two"), "{told}");
    }
    daemon.stop().await.expect("a graceful stop");
    fleet.stop().await;
}
