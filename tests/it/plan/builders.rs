//! Small worlds, built by words that read as what they mean.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use nodewright::model::{
    Budget, Controller, DrainConfig, Interrupt, InterruptKind, Pace, Package, Pod, PodPhase,
    PodRef, Policy, Rollout, Sequencing, Uninstall,
};
use nodewright::plan::world::{End, Fate, World};

pub fn noon() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().expect("a constant")
}

/// A package of version `version`, without interrupt.
pub fn package(name: &str, version: &str) -> Package {
    Package {
        env_digest: None,
        name: name.to_owned(),
        version: version.parse().expect("a version in a test"),
        image: format!("registry.example/{name}"),
        container_sha: None,
        agent_image_override: None,
        interrupt: None,
        config_interrupts: BTreeMap::new(),
        depends_on: BTreeMap::new(),
        config_map: BTreeMap::new(),
        env: Vec::new(),
        resources: None,
        graceful_shutdown: None,
        stage_timeout: None,
        uninstall: Uninstall::default(),
    }
}

pub trait PackageExt {
    fn interrupting(self, kind: InterruptKind) -> Self;
    fn with_config(self, key: &str, value: &str) -> Self;
    fn on_config(self, key: &str, kind: InterruptKind) -> Self;
    fn after(self, name: &str, version: &str) -> Self;
    fn with_env(self, name: &str, value: &str) -> Self;
    fn with_uninstall(self) -> Self;
    fn asked_to_go(self) -> Self;
}

impl PackageExt for Package {
    fn interrupting(mut self, kind: InterruptKind) -> Self {
        self.interrupt = Some(interrupt(kind));
        self
    }

    fn with_config(mut self, key: &str, value: &str) -> Self {
        self.config_map.insert(key.to_owned(), value.to_owned());
        self
    }

    fn on_config(mut self, key: &str, kind: InterruptKind) -> Self {
        self.config_interrupts.insert(key.to_owned(), interrupt(kind));
        self
    }

    fn after(mut self, name: &str, version: &str) -> Self {
        self.depends_on.insert(name.to_owned(), version.to_owned());
        self
    }

    fn with_env(mut self, name: &str, value: &str) -> Self {
        let (name, value) = (name.to_owned(), Some(value.to_owned()));
        self.env.push(EnvVar { name, value, value_from: None });
        self
    }

    /// `uninstall.enabled`.
    fn with_uninstall(mut self) -> Self {
        self.uninstall.enabled = true;
        self
    }

    /// `uninstall.apply`.
    fn asked_to_go(mut self) -> Self {
        self.uninstall.apply = true;
        self
    }
}

pub fn interrupt(kind: InterruptKind) -> Interrupt {
    let services = if kind == InterruptKind::Service { vec!["chronyd".to_owned()] } else { vec![] };
    Interrupt { kind, services }
}

/// A rollout over all nodes that may disturb `count` at once.
pub fn rollout(count: u32, packages: Vec<Package>) -> Rollout {
    let selector = LabelSelector {
        match_labels: Some(BTreeMap::from([("workload".to_owned(), "training".to_owned())])),
        match_expressions: None,
    };
    Rollout {
        runtime_required_cordon_after: false,
        auto_taint_new_nodes: false,
        name: "tuning".to_owned(),
        priority: 200,
        sequencing: Sequencing::Node,
        serial: false,
        nodes: Selector::default(),
        protected: Some(Selector::try_from(selector).expect("a valid selector")),
        budget: Some(Budget::Count(count)),
        policy: None,
        reset_batches: None,
        drain: DrainConfig::default(),
        tolerations: Vec::new(),
        runtime_required: false,
        packages: packages.into_iter().map(|package| (package.name.clone(), package)).collect(),
    }
}

/// A policy that lets `count` nodes go at once, without a strategy.
pub fn policy(name: &str, count: u32) -> Policy {
    let fallback = Pace { budget: Budget::Count(count), strategy: None };
    Policy { name: name.to_owned(), fallback, compartments: Vec::new(), reset: true }
}

/// A world with `nodes` ready nodes and one rollout.
pub fn world(nodes: u32, rollout: Rollout) -> World {
    let mut world = World::new(noon());
    for number in 0..nodes {
        world.add_node(&format!("node-{number:02}"), &[("pool", "gpu")]);
        world.pass(1);
    }
    world.set_rollout(rollout);
    world
}

/// A running pod with a ReplicaSet behind it.
pub fn pod(node: &str, name: &str, labels: &[(&str, &str)]) -> Pod {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Pod {
        deletes_at: None,
        ready: true,
        reference: PodRef {
            namespace: "ml".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
        },
        node: node.to_owned(),
        labels: labels.collect(),
        phase: PodPhase::Running,
        terminating: false,
        controller: Some(Controller { kind: "ReplicaSet".to_owned(), name: "web".to_owned() }),
        mirror: false,
        tolerates_unschedulable: false,
        empty_dir: false,
        executor: false,
        since: noon(),
    }
}

pub trait WorldExt {
    fn settle(&mut self);
    fn finish_all(&mut self, end: End) -> usize;
    fn run(&mut self) -> usize;
    fn entry(&self, node: &str, package: &str) -> String;
    fn verdict(&mut self, node: &str) -> String;
}

impl WorldExt for World {
    /// Ticks until nothing changes; the audit must agree with every plan.
    fn settle(&mut self) {
        for _ in 0..100 {
            let (_, breaches, done) = self.tick(|_| Fate::Done);
            assert_eq!(breaches, vec![], "the audit disagrees with a plan");
            if done == 0 {
                return;
            }
        }
        panic!("the planner does not come to rest");
    }

    /// Ends all running executors, and lets pods that are terminating go.
    fn finish_all(&mut self, end: End) -> usize {
        self.pass(5);
        let leaving: Vec<PodRef> = self
            .input
            .observed
            .pods
            .values()
            .flat_map(BTreeMap::values)
            .filter(|pod| pod.terminating)
            .map(|pod| pod.reference.clone())
            .collect();
        for pod in &leaving {
            self.remove_pod(pod);
        }
        let active = self.active();
        for name in &active {
            self.end(name, end);
        }
        active.len() + leaving.len()
    }

    /// Plays everything to its end with success. Returns how many rounds it took.
    fn run(&mut self) -> usize {
        for round in 0..1000 {
            self.settle();
            if self.finish_all(End::Success) == 0 {
                return round;
            }
        }
        panic!("the rollout does not end");
    }

    /// Returns `stage state` of a package on a node.
    fn entry(&self, node: &str, package: &str) -> String {
        let entries = self.input.observed.nodes[node].entries("tuning");
        let found = entries.values().find(|entry| entry.name == package);
        found.map_or("none".to_owned(), |entry| {
            format!("{} {} {}", entry.version, entry.stage, entry.state)
        })
    }

    /// Returns the verdict on a node as text.
    fn verdict(&mut self, node: &str) -> String {
        let plan = nodewright::plan::plan(&self.input);
        let verdict = &plan.verdicts["tuning"][node];
        format!("{:?}: {}", verdict.kind, verdict.reason)
    }
}
