//! A small fleet in words: rollouts, nodes and verdicts, enough for every surface.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::Selector;
use nodewright::model::{
    BatchNow, BatchState, Batches, CompartmentStatus, CordonMark, DEFAULT_COMPARTMENT, Desired,
    DrainConfig, Entry, Finding, Floor, Input, Interrupt, InterruptKind, Memory, Node, NodeRules,
    ObjectRef, Observed, OpenBatch, Outcome, Outlook, Package, Phase, Plan, PodRef, RECORD_VERSION,
    Reason, Record, Resource, Rollout, Sequencing, Severity, Stage, State, Status, StatusWord,
    StopCause, StopRule, StopRuleBy, Timings, Uninstall, Verdict,
};
use nodewright::report::{FleetState, SourceMode, SourceView};

pub fn time(text: &str) -> Timestamp {
    format!("2026-11-24T{text}:00Z").parse().expect("a time of the day")
}

pub fn revision(digit: char) -> String {
    format!("main@sha1:{}", digit.to_string().repeat(40))
}

/// The input, the answer and the source that a status is made of.
#[derive(Clone)]
pub struct World {
    pub input: Input,
    pub plan: Plan,
    pub source: SourceView,
}

impl World {
    pub fn new() -> Self {
        Self {
            input: Input {
                now: time("12:00"),
                desired: Desired::default(),
                observed: Observed::default(),
                halt: None,
                approvals: BTreeMap::new(),
                opening: BTreeMap::new(),
                floor: Floor::default(),
                rules: NodeRules::default(),
                own_node: None,
                own_pod: None,
            },
            plan: Plan::default(),
            source: SourceView {
                cluster: "prod-a".to_owned(),
                cluster_uid: "6f0c".to_owned(),
                mode: SourceMode::Git,
                revision_seen: Some(revision('e')),
                revision_applied: Some(revision('e')),
                held: None,
                findings: Vec::new(),
                error: None,
                epoch: 42,
            },
        }
    }

    pub fn state(&self) -> FleetState {
        FleetState::new(&self.input, &self.plan, &self.source)
    }

    /// Adds a rollout of these packages that is in batch 1, with nothing done.
    pub fn rollout(&mut self, name: &str, packages: &[Package]) -> &mut Self {
        let packages = packages.iter().map(|package| (package.name.clone(), package.clone()));
        let rollout = Rollout {
            runtime_required_cordon_after: false,
            auto_taint_new_nodes: false,
            name: name.to_owned(),
            priority: 200,
            sequencing: Sequencing::Node,
            serial: false,
            nodes: Selector::default(),
            protected: None,
            budget: None,
            policy: None,
            reset_batches: None,
            drain: DrainConfig::default(),
            tolerations: Vec::new(),
            runtime_required: false,
            packages: packages.collect(),
        };
        self.plan.statuses.insert(name.to_owned(), status(&rollout));
        self.plan.verdicts.insert(name.to_owned(), BTreeMap::new());
        self.input.desired.rollouts.insert(name.to_owned(), rollout);
        self.input.observed.resources.insert(name.to_owned(), resource(name));
        self
    }

    /// Adds nodes that nothing was done on, each with this verdict.
    pub fn nodes(&mut self, rollout: &str, names: &[&str], verdict: &Verdict) -> &mut Self {
        for name in names {
            self.input.observed.nodes.entry((*name).to_owned()).or_insert_with(|| node(name));
            let verdicts = self.plan.verdicts.entry(rollout.to_owned()).or_default();
            verdicts.insert((*name).to_owned(), verdict.clone());
        }
        let total = self.plan.verdicts[rollout].len();
        let done = self.plan.verdicts[rollout].values().filter(|v| **v == Verdict::done()).count();
        let status = self.status(rollout);
        status.nodes_total = u32::try_from(total).expect("a small fleet");
        status.nodes_complete = u32::try_from(done).expect("a small fleet");
        self
    }

    pub fn status(&mut self, rollout: &str) -> &mut Status {
        self.plan.statuses.get_mut(rollout).expect("the rollout was added")
    }

    pub fn compartment(&mut self, rollout: &str) -> &mut CompartmentStatus {
        let compartments = &mut self.status(rollout).memory.compartments;
        compartments.get_mut(DEFAULT_COMPARTMENT).expect("the synthetic compartment")
    }

    pub fn batch(&mut self, rollout: &str, number: u32, in_progress: u32) -> &mut Self {
        let target = self.input.desired.rollouts[rollout].target();
        let compartment = self.compartment(rollout);
        compartment.in_progress = in_progress;
        compartment.batch_state.current_batch = number;
        let opened = time("11:30");
        let open = OpenBatch {
            target,
            number,
            size: 4,
            order_from: 0,
            given: 0,
            refused: Vec::new(),
            opened,
            first_use: false,
        };
        compartment.open_batch = Some(open);
        self
    }

    /// Sets what is to come of the rollout's one compartment.
    pub fn outlook(&mut self, rollout: &str, outlook: Outlook) -> &mut Self {
        let outlooks = BTreeMap::from([(DEFAULT_COMPARTMENT.to_owned(), outlook)]);
        self.plan.outlooks.insert(rollout.to_owned(), outlooks);
        self
    }

    /// Puts an entry, a visit and the cordon mark of `rollout` on a node.
    pub fn visit(&mut self, rollout: &str, name: &str, stage: Stage, state: State) -> &mut Record {
        let wanted = &self.input.desired.rollouts[rollout];
        let package = wanted.packages.values().next().expect("a rollout has packages");
        let entry = entry(rollout, package, stage, state);
        let record = record(wanted, name);
        let node = self.input.observed.nodes.get_mut(name).expect("the node was added");
        node.unschedulable = true;
        node.cordons.push(CordonMark::Rollout(rollout.to_owned()));
        let state = node.rollouts.entry(rollout.to_owned()).or_default();
        state.entries.insert(entry.id(), entry);
        state.record.insert(record)
    }
}

/// The fleet of the status page: a pool that waits for training, one that is complete, one that
/// was stopped, and a manifest that was refused.
pub fn three_pools() -> World {
    let mut world = World::new();
    world.rollout("h100-train", &[package("kernel-tuning", "1.5.0", Some(InterruptKind::Reboot))]);
    world.nodes("h100-train", &["gpu-001", "gpu-002"], &Verdict::done());
    let since = time("09:12");
    world.nodes("h100-train", &["gpu-003"], &protected("llama-70b-0", time("08:03")));
    world.nodes("h100-train", &["gpu-004"], &protected("llama-70b-1", time("07:01")));
    world.nodes("h100-train", &["gpu-005"], &Verdict::wait(Reason::Rebooting { since }));
    world.nodes("h100-train", &["gpu-006"], &Verdict::wait(Reason::WaitingForBatch { batch: 2 }));
    world.nodes("h100-train", &["gpu-007"], &Verdict::blocked(Reason::Ignored));
    world.batch("h100-train", 2, 3);
    world.outlook("h100-train", outlook());
    let record = world.visit("h100-train", "gpu-005", Stage::Interrupt, State::InProgress);
    record.phase = Phase::Interrupting;
    record.boot_before = Some("boot-1".to_owned());

    let driver = package("check-only", "0.3.0", None);
    world.rollout("gb200", &[package("kernel-tuning", "1.4.2", None), driver]);
    world.nodes("gb200", &["gb-001", "gb-002", "gb-003"], &Verdict::done());
    world.status("gb200").word = StatusWord::Complete;
    world.status("gb200").memory.timings.completed = Some(time("06:40"));

    stopped_pool(&mut world);
    world.source.findings.push(refused("clusters/prod-a/storage.yaml", 7));
    world
}

/// What stopped the pool `general`.
pub fn stop_cause() -> StopCause {
    StopCause {
        nodes: vec!["cpu-011".to_owned(), "cpu-019".to_owned()],
        in_batch: 2,
        total: 2,
        why: "config of containerd-cfg|2.1.1 failed 4 times: config-check exit 1: unknown key \
              `SystemdCgroups`"
            .to_owned(),
    }
}

/// Batch 2 of 4 nodes is open, 1 of which failed; 8 and 3 nodes are to come.
pub fn outlook() -> Outlook {
    Outlook {
        nodes: 20,
        complete: 4,
        failed: 1,
        open: Some(BatchNow { number: 2, size: 4, failed: 1 }),
        number: 2,
        to_come: Batches::from_iter([8, 3]),
        if_failing: Batches::from_iter([2]),
        failing_stops: true,
        rule: StopRule {
            succeed_percent: 90,
            after: Some(2),
            by: StopRuleBy::Policy,
            safe_from: Some((10, 50)),
        },
        failures: 0,
        stopped: None,
    }
}

fn stopped_pool(world: &mut World) {
    let containerd = package("containerd-cfg", "2.1.1", Some(InterruptKind::Service));
    world.rollout("general", &[containerd]);
    world.nodes("general", &["cpu-001"], &Verdict::done());
    let failed = Verdict::blocked(Reason::Failed {
        package: "containerd-cfg|2.1.1".to_owned().try_into().expect("name and version"),
        stage: Stage::Config,
        attempts: 4,
        why: "config-check exit 1: unknown key `SystemdCgroups`".to_owned(),
    });
    world.nodes("general", &["cpu-011", "cpu-019"], &failed);
    let stopped = Verdict::blocked(Reason::Stopped {
        compartment: DEFAULT_COMPARTMENT.to_owned(),
        batch: 3,
        failures: 2,
        cause: Some(stop_cause()),
    });
    world.nodes("general", &["cpu-020", "cpu-021"], &stopped);
    for name in ["cpu-011", "cpu-019"] {
        let record = world.visit("general", name, Stage::Config, State::Erroring);
        record.outcome = Some(Outcome::Erroring);
        record.phase = Phase::Released;
        record.reason = Some("Failed".to_owned());
        record.message = Some("config-check exit 1:\n\tunknown key".to_owned());
    }
    world.status("general").word = StatusWord::Erroring;
    let state = &mut world.compartment("general").batch_state;
    *state = BatchState {
        current_batch: 4,
        consecutive_failures: 2,
        failed_nodes: 2,
        should_stop: true,
        last_batch_failed: true,
        ..BatchState::default()
    };
}

pub fn protected(pod: &str, since: Timestamp) -> Verdict {
    Verdict::wait(Reason::ProtectedPod {
        pods: 1,
        first: pod_ref(pod),
        owner: Some("JobSet llama-70b".to_owned()),
        since,
    })
}

pub fn pod_ref(name: &str) -> PodRef {
    PodRef { namespace: "ml".to_owned(), name: name.to_owned(), uid: format!("uid-{name}") }
}

pub fn refused(file: &str, line: u32) -> Finding {
    Finding {
        file: file.to_owned(),
        line: Some(line),
        column: Some(14),
        severity: Severity::Error,
        code: "NW0107".to_owned(),
        object: Some(ObjectRef { kind: "NodeWright".to_owned(), name: "storage".to_owned() }),
        path: Some("spec.packages.mounts.version".to_owned()),
        message: "version 1.10 is read as the number 1.1".to_owned(),
        way_out: "quote it: version: \"1.10\"".to_owned(),
    }
}

pub fn package(name: &str, version: &str, interrupt: Option<InterruptKind>) -> Package {
    Package {
        env_digest: None,
        name: name.to_owned(),
        version: version.parse().expect("a version"),
        image: format!("ghcr.io/acme/{name}"),
        container_sha: None,
        agent_image_override: None,
        interrupt: interrupt.map(|kind| Interrupt { kind, services: Vec::new() }),
        config_interrupts: BTreeMap::new(),
        depends_on: BTreeMap::new(),
        config_map: BTreeMap::from([("tuning.conf".to_owned(), "top-secret-value".to_owned())]),
        env: Vec::new(),
        resources: None,
        graceful_shutdown: None,
        stage_timeout: None,
        uninstall: Uninstall::default(),
    }
}

pub fn entry(rollout: &str, package: &Package, stage: Stage, state: State) -> Entry {
    Entry {
        name: package.name.clone(),
        version: package.version.as_str().to_owned(),
        image: package.image.clone(),
        container_sha: None,
        stage,
        state,
        restarts: (state == State::Erroring).then_some(4),
        untried: false,
        applied: None,
        snapshot: Some(package.snapshot_name(rollout)),
        since: Some(time("10:15")),
        left: None,
        other: BTreeMap::new(),
    }
}

pub fn record(rollout: &Rollout, node: &str) -> Record {
    Record {
        cordoned: None,
        recordons: 0,
        gpus_before: None,
        v: RECORD_VERSION,
        cr_uid: format!("cr-{}", rollout.name),
        node_uid: format!("node-{node}"),
        machine_id: "machine".to_owned(),
        target: rollout.target(),
        generation: 1,
        visit: 7,
        compartment: DEFAULT_COMPARTMENT.to_owned(),
        batch: 2,
        order: 5,
        picked: time("10:00"),
        phase: Phase::Picked,
        held: true,
        prior_unschedulable: false,
        boot_before: None,
        boot_last: None,
        hosts_lost: 0,
        interrupt: None,
        interrupts_due: BTreeMap::new(),
        attempts: BTreeMap::new(),
        outcome: None,
        reason: None,
        message: None,
    }
}

fn node(name: &str) -> Node {
    Node {
        hold: None,
        is_new: false,
        annotated: true,
        gpus: None,
        claims: Vec::new(),
        name: name.to_owned(),
        uid: format!("node-{name}"),
        resource_version: "1".to_owned(),
        created: time("00:00"),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        unschedulable: false,
        unschedulable_manager: None,
        ready: true,
        ready_since: None,
        boot_id: "boot-1".to_owned(),
        machine_id: "machine".to_owned(),
        deleting: false,
        ignored: false,
        cordons: Vec::new(),
        conditions: BTreeMap::new(),
        rollouts: BTreeMap::new(),
    }
}

fn resource(name: &str) -> Resource {
    Resource {
        finalizer: false,
        upstream: None,
        uid: format!("cr-{name}"),
        resource_version: "1".to_owned(),
        generation: 1,
        paused: false,
        disabled: false,
        deleting: false,
        status: None,
    }
}

fn status(rollout: &Rollout) -> Status {
    let compartments =
        BTreeMap::from([(DEFAULT_COMPARTMENT.to_owned(), CompartmentStatus::default())]);
    let timings = Timings { started: Some(time("10:00")), completed: None };
    Status {
        observed_generation: None,
        word: StatusWord::InProgress,
        nodes_in_progress: 0,
        nodes_complete: 0,
        nodes_total: 0,
        packages: Vec::new(),
        conditions: Vec::new(),
        memory: Memory { target: rollout.target(), timings, compartments, ..Memory::default() },
    }
}
