//! The status of a resource stays small, whatever the size of the fleet.

use jiff::Timestamp;
use kube::core::{Expression, Selector};
use nodewright::cluster::status::{from_api, to_api};
use nodewright::model::{
    Budget, Compartment, CompletedPackages, Condition, DEFAULT_COMPARTMENT, Growth, OpenBatch,
    Pace, Policy, Rollout, Status, Strategy,
};
use nodewright::plan::plan;
use nodewright::plan::world::World;

use crate::plan::builders::{noon, package, rollout};

/// What an object may have in etcd is 1.5 MiB; what a person reads is far less (issue: 64 KiB).
const STATUS_BYTES_MAX: usize = 64 * 1024;

/// As many as a policy may have.
const COMPARTMENTS: u32 = 50;

const NODES: u32 = 10_000;

/// Every condition that we write, the mirrored ones too.
const CONDITIONS: [&str; 20] = [
    "ApplyPackage",
    "Blocked",
    "DeletionBlocked",
    "DeploymentPolicyNotFound",
    "DrainBlocked",
    "FailuresTolerated",
    "NodeStateMalformed",
    "NodesIgnored",
    "Ready",
    "RunsBesideWorkloads",
    "Stopped",
    "TaintNotTolerable",
    "UninstallFailed",
    "UninstallInProgress",
    "nodewright.nvidia.com/ApplyPackage",
    "nodewright.nvidia.com/DeploymentPolicyNotFound",
    "nodewright.nvidia.com/NodesIgnored",
    "nodewright.nvidia.com/Ready",
    "nodewright.nvidia.com/TaintNotTolerable",
    "nodewright.nvidia.com/Transition",
];

/// A name of a compartment as long as the CRD takes it.
fn name(number: u32) -> String {
    format!("{number:02}-{}", "n".repeat(60))
}

fn policy() -> Policy {
    let strategy = Strategy {
        growth: Growth::Linear(1),
        initial_batch: 1,
        batch_threshold: 90,
        failure_threshold: Some(3),
        safety_limit: 50,
    };
    let pace = Pace { budget: Budget::Percent(100), strategy: Some(strategy) };
    let compartments = (0..COMPARTMENTS).map(|number| Compartment {
        name: name(number),
        nodes: Selector::from_iter([Expression::Equal("ring".to_owned(), number.to_string())]),
        pace,
    });
    let compartments = compartments.collect();
    Policy { name: "rings".to_owned(), fallback: pace, compartments, reset: true }
}

/// The status of a fleet that begins, as the planner has it.
fn planned() -> Status {
    let mut world = World::new(noon());
    for number in 0..NODES {
        let ring = (number % COMPARTMENTS).to_string();
        world.add_node(&format!("gpu-{number:05}"), &[("ring", &ring)]);
    }
    world.input.desired.policies.insert("rings".to_owned(), policy());
    let wanted = Rollout {
        policy: Some("rings".to_owned()),
        budget: None,
        ..rollout(1, vec![package("motd", "1.0.0")])
    };
    world.set_rollout(wanted);
    world.input.observed.resources.get_mut("tuning").expect("the resource").finalizer = true;
    plan(&world.input).statuses.remove("tuning").expect("a status")
}

/// Fills everything that grows with the fleet as far as it can.
fn filled(mut status: Status) -> Status {
    let compartments = u32::try_from(status.memory.compartments.len()).expect("a few");
    assert_eq!(compartments, COMPARTMENTS + 1);
    for compartment in status.memory.compartments.values_mut() {
        let state = &mut compartment.batch_state;
        state.current_batch = NODES;
        state.completed_nodes = NODES;
        state.failed_nodes = NODES;
        state.last_batch_size = NODES;
        compartment.in_progress = NODES;
        compartment.completed = NODES;
        compartment.open_batch = Some(OpenBatch {
            target: status.memory.target.clone(),
            number: NODES,
            size: NODES,
            order_from: 100 * NODES,
            given: NODES,
            refused: vec![100 * NODES; 10],
            first_use: true,
            opened: noon(),
        });
    }
    // As much as is remembered: 4 KiB.
    status.memory.completed = (0..2)
        .map(|set| CompletedPackages {
            compartments: (7 * set..7 * set + 7).map(name).collect(),
            packages: (0..30)
                .map(|it| (format!("package-of-a-long-name-{it:02}"), "nw-0123456789abcdef".into()))
                .collect(),
        })
        .collect();
    let condition = |kind: &&str| Condition {
        kind: (*kind).to_owned(),
        is_true: true,
        reason: "NonInterruptPodsRunning".to_owned(),
        message: "m".repeat(1024),
    };
    status.conditions = CONDITIONS.iter().map(condition).collect();
    status
}

#[test]
fn fifty_compartments_and_ten_thousand_nodes_fit_into_64_kib() {
    let now: Timestamp = noon();
    let begins = planned();
    let nobody = &begins.memory.compartments[DEFAULT_COMPARTMENT];
    assert_eq!(nobody.batches_to_come, "", "no node is in it");
    let ring = &begins.memory.compartments[&name(7)];
    assert_eq!(ring.batches_to_come, "2, 3, 4, 5, 6, 7, 8, 9 and 11 more", "after the one of 1");
    for (what, status) in [("begins", begins.clone()), ("is full", filled(begins))] {
        let written = to_api(&status, None, now);
        let bytes = serde_json::to_string(&written).expect("becomes JSON").len();
        assert!(bytes < STATUS_BYTES_MAX, "a fleet that {what} has a status of {bytes} bytes");
        assert_eq!(from_api(&written).conditions, status.conditions, "all of them are ours");
        assert_eq!(from_api(&written).memory, status.memory);
    }
}
