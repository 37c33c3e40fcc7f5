//! Fleets in every state that a rollout can be in.
//!
//! In: how many nodes, and the state. Out: a planner world in it. One node is taken to the end by
//! the planner itself; what that leaves on it is put on all others.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::{Expression, Selector};
use nodewright::model::{
    Budget, Compartment, DrainConfig, Floor, Growth, Interrupt, InterruptKind, NodeRollout, Pace,
    Package, Policy, Rollout, Sequencing, Strategy, Uninstall,
};
use nodewright::plan::world::{End, Fate, World};

/// Packages of the rollout.
pub const PACKAGES: u32 = 5;

/// Compartments of its policy.
pub const COMPARTMENTS: u32 = 10;

/// Labels on a node beside its pool: about as many as a GPU node of a cloud has.
const LABELS: u32 = 24;

/// The name of the rollout.
const ROLLOUT: &str = "tuning";

/// Ticks that bring a fleet into the middle of its batches.
const TICKS: usize = 4;

/// The states that are measured.
pub const STATES: [State; 6] = [
    State::Cold,
    State::Complete,
    State::OneChanged,
    State::NewVersion,
    State::Batches,
    State::AllAtWork,
];

/// Where a fleet stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing is installed, and the daemon has just started.
    Cold,
    /// Every node has what is wanted.
    Complete,
    /// One of them has lost it.
    OneChanged,
    /// A new version of every package has just come.
    NewVersion,
    /// Every second node has it, and a batch of each compartment is under way.
    Batches,
    /// No node has it, and all of them are under way.
    AllAtWork,
}

/// What a plan may ask of the allocator, by node.
pub struct Bounds {
    pub allocations: f64,
    pub bytes: f64,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Complete => "complete",
            Self::OneChanged => "one node changed",
            Self::NewVersion => "a new version",
            Self::Batches => "batches under way",
            Self::AllAtWork => "all nodes under way",
        }
    }

    /// Returns how many nodes are done.
    pub fn done(self, nodes: u32) -> usize {
        let done = match self {
            Self::Cold | Self::NewVersion | Self::AllAtWork => 0,
            Self::Complete => nodes,
            Self::OneChanged => nodes - 1,
            Self::Batches => nodes / 2,
        };
        done as usize
    }

    /// Measured, and a third more.
    pub fn bounds(self) -> Bounds {
        let (allocations, bytes) = match self {
            Self::Cold => (14.0, 8_000.0),
            Self::Complete => (8.0, 4_000.0),
            Self::OneChanged => (8.0, 4_000.0),
            Self::NewVersion => (28.0, 8_000.0),
            Self::Batches => (50.0, 16_000.0),
            Self::AllAtWork => (690.0, 80_000.0),
        };
        Bounds { allocations, bytes }
    }

    /// Returns a fleet in this state.
    pub fn fleet(self, nodes: u32) -> World {
        let mut world = empty(nodes);
        match self {
            Self::Cold => world.set_rollout(rollout("1.0.0")),
            Self::Complete => installed(&mut world, nodes),
            Self::OneChanged => {
                installed(&mut world, nodes);
                world.change_node("gpu-00100", |node| node.rollouts.clear());
            }
            Self::NewVersion => {
                installed(&mut world, nodes);
                world.set_rollout(rollout("1.1.0"));
            }
            Self::Batches => {
                installed(&mut world, nodes);
                let (done, snapshots) = one_node(&["1.0.0", "1.1.0"]);
                world.input.observed.snapshots.extend(snapshots);
                leave(&mut world, &done, |number| number % 2 == 0);
                world.set_rollout(rollout("1.1.0"));
                begin(&mut world);
            }
            Self::AllAtWork => {
                installed(&mut world, nodes);
                world.input.floor = Floor::upstream();
                let policies = &mut world.input.desired.policies;
                policies.insert(ROLLOUT.to_owned(), policy(Budget::Percent(100), None));
                world.set_rollout(rollout("1.1.0"));
                begin(&mut world);
            }
        }
        world
    }
}

/// Opens batches and picks their nodes, until their executors run.
fn begin(world: &mut World) {
    for _ in 0..TICKS {
        let _ended = world.tick(|_| Fate::Done);
        world.pass(1);
    }
}

fn settle(world: &mut World) {
    while world.tick(|_| Fate::Done).2 > 0 {
        world.pass(1);
    }
}

/// A fleet on which nothing is.
fn empty(nodes: u32) -> World {
    let began: Timestamp = "2026-11-30T12:00:00Z".parse().expect("a constant");
    let mut world = World::new(began);
    world.input.floor = Floor::default();
    world
        .input
        .desired
        .policies
        .insert(ROLLOUT.to_owned(), policy(Budget::Percent(10), Some(Growth::Exponential(2))));
    let labels: Vec<(String, String)> = (0..LABELS)
        .map(|number| (format!("example.com/label-{number:02}"), number.to_string()))
        .collect();
    for number in 0..nodes {
        let pool = pool(number);
        let mut labels: Vec<(&str, &str)> =
            labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        labels.push(("pool", &pool));
        world.add_node(&name(number), &labels);
        world.pass(1);
    }
    for node in world.input.observed.nodes.values_mut() {
        node.is_new = false;
    }
    world
}

fn name(number: u32) -> String {
    format!("gpu-{number:05}")
}

fn pool(number: u32) -> String {
    format!("pool-{}", number % COMPARTMENTS)
}

/// Everything is there, as finished visits leave it, and the status says so.
fn installed(world: &mut World, nodes: u32) {
    let (done, snapshots) = one_node(&["1.0.0"]);
    world.input.observed.snapshots = snapshots;
    leave(world, &done, |number| number < nodes);
    world.set_rollout(rollout("1.0.0"));
    settle(world);
}

/// Takes one node through these versions; returns what is on it then, and the snapshots.
fn one_node(versions: &[&str]) -> (NodeRollout, BTreeMap<String, nodewright::model::Snapshot>) {
    let mut world = empty(1);
    for version in versions {
        world.set_rollout(rollout(version));
        loop {
            settle(&mut world);
            world.pass(5);
            let active = world.active();
            if active.is_empty() {
                break;
            }
            for executor in &active {
                world.end(executor, End::Success);
            }
        }
    }
    let node = &world.input.observed.nodes[&name(0)];
    (NodeRollout::clone(&node.rollouts[ROLLOUT]), world.input.observed.snapshots)
}

/// Puts what a finished visit left on one node on others.
fn leave(world: &mut World, done: &NodeRollout, on: impl Fn(u32) -> bool) {
    for (number, node) in (0..).zip(world.input.observed.nodes.values_mut()) {
        if !on(number) {
            continue;
        }
        let mut state = done.clone();
        let record = state.record.as_mut().expect("a visit leaves its record");
        record.node_uid.clone_from(&node.uid);
        record.machine_id.clone_from(&node.machine_id);
        record.boot_last = Some(node.boot_id.clone());
        record.order = number;
        record.compartment = pool(number);
        state.record_text = serde_json::to_string(&state.record).ok();
        node.rollouts.insert(ROLLOUT.to_owned(), state.into());
    }
}

fn package(number: u32, version: &str) -> Package {
    let first = number == 0;
    Package {
        env_digest: None,
        name: format!("package-{number}"),
        version: version.parse().expect("a version"),
        image: format!("registry.example/package-{number}"),
        container_sha: None,
        agent_image_override: None,
        interrupt: first.then_some(Interrupt { kind: InterruptKind::Noop, services: Vec::new() }),
        config_interrupts: BTreeMap::new(),
        depends_on: BTreeMap::new(),
        config_map: BTreeMap::from([("sysctl.conf".to_owned(), "vm.swappiness=0\n".repeat(50))]),
        env: Vec::new(),
        resources: None,
        graceful_shutdown: None,
        stage_timeout: None,
        uninstall: Uninstall::default(),
    }
}

fn rollout(version: &str) -> Rollout {
    let packages = (0..PACKAGES).map(|number| package(number, version));
    Rollout {
        name: ROLLOUT.to_owned(),
        priority: 200,
        sequencing: Sequencing::Node,
        serial: false,
        nodes: Selector::from_iter([Expression::Exists("pool".to_owned())]),
        protected: None,
        budget: None,
        policy: Some(ROLLOUT.to_owned()),
        reset_batches: None,
        drain: DrainConfig::default(),
        tolerations: Vec::new(),
        runtime_required: false,
        runtime_required_cordon_after: false,
        auto_taint_new_nodes: false,
        packages: packages.map(|package| (package.name.clone(), package)).collect(),
    }
}

fn policy(budget: Budget, growth: Option<Growth>) -> Policy {
    let strategy = growth.map(|growth| Strategy {
        growth,
        initial_batch: 50,
        batch_threshold: 90,
        failure_threshold: Some(3),
        safety_limit: 50,
    });
    let pace = Pace { budget, strategy };
    let compartments = (0..COMPARTMENTS).map(|number| Compartment {
        name: pool(number),
        nodes: Selector::from_iter([Expression::Equal("pool".to_owned(), pool(number))]),
        pace,
    });
    Policy {
        name: ROLLOUT.to_owned(),
        fallback: pace,
        compartments: compartments.collect(),
        reset: true,
    }
}
