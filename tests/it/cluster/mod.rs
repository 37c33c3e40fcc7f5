//! The production edge: what it builds and reads as pure tables, what it does on the embedded
//! cluster, under paused time.

mod act;
mod budgets;
mod claims;
mod connect;
mod executor;
mod executor_state;
mod faults;
mod names;
mod names_t21;
mod node_state;
mod observe;
mod shelf;
mod skew;
mod status;
mod status_size;
mod stop;
mod taints;
mod upstream;
mod world;

use std::time::Duration;

use jiff::Timestamp;
use nodewright::cluster::EdgeSettings;
use nodewright::model::{ExecutorSpec, Interrupt, InterruptKind, Package, Stage, VisitRef, Work};
use serde_json::{Value, json};

/// When the daemon asks for executors here: eight in the morning, as the server has it too.
fn eight() -> Timestamp {
    "2026-03-01T08:00:00Z".parse().expect("a time")
}

fn settings() -> EdgeSettings {
    EdgeSettings::new("nodewright", "ghcr.io/nvidia/nodewright/agent:v0.20.0")
}

fn package() -> Package {
    let package = json!({
        "name": "kernel-tuning",
        "version": "1.4.0",
        "image": "ghcr.io/acme/kernel-tuning",
        "interrupt": {"type": "reboot"},
        "configMap": {"sysctl.conf": "vm.swappiness = 0\n", "limits.conf": "nofile\n"},
        "env": [{"name": "LEVEL", "value": "high"}],
        "gracefulShutdown": {"secs": 40, "nanos": 0},
        "stageTimeout": {"secs": 600, "nanos": 0},
    });
    serde_json::from_value(package).expect("the test writes a valid package")
}

fn visit() -> VisitRef {
    VisitRef {
        rollout: "gpu".to_owned(),
        node: "gpu-1".to_owned(),
        node_uid: "uid-of-gpu-1".to_owned(),
        visit: 3,
    }
}

fn executor_spec(work: Work) -> ExecutorSpec {
    ExecutorSpec {
        visit: visit(),
        rollout_uid: "uid-of-gpu".to_owned(),
        generation: 7,
        order: 5,
        attempt: 2,
        snapshot: package().snapshot_name("gpu"),
        work,
        tolerations: Vec::new(),
    }
}

fn install() -> Work {
    Work::Install { package: package(), stages: vec![Stage::Apply, Stage::Config] }
}

fn interrupt() -> Work {
    let services = vec!["containerd".to_owned(), "kubelet".to_owned()];
    let interrupt = Interrupt { kind: InterruptKind::Service, services };
    Work::Interrupt { package: package(), interrupt }
}

fn pull() -> Work {
    Work::Pull { package: package() }
}

fn verify() -> Work {
    Work::Verify { package: package() }
}

fn to_value<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("becomes JSON")
}

/// How long anything may take before a test gives up, on the paused clock.
const PATIENCE: Duration = Duration::from_secs(600);
