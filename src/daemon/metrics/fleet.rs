//! The fleet's series: upstream's gauges (upstream contract G) and the verdicts beside them.
//!
//! Counts are sums over the selected nodes. Upstream sets its counts inside a loop over pairs of
//! stage and state, so that a later pair overwrites an earlier one; that defect is not kept.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::text::{Labels, gauges};
use crate::model::{
    CompartmentStatus, DEFAULT_COMPARTMENT, Growth, Input, Node, Outlook, Pace, PackageId, Plan,
    Reason, Record, Rollout, Stage, State, StatusWord, Verdict, VerdictKind,
};

/// `policy_name` of a rollout without a policy (upstream contract G).
const NO_POLICY: &str = "legacy";

/// Every word of a status: all are shown, so that a graph falls to 0 and does not break off.
const STATUSES: [StatusWord; 8] = [
    StatusWord::Complete,
    StatusWord::Blocked,
    StatusWord::Waiting,
    StatusWord::Disabled,
    StatusWord::Paused,
    StatusWord::InProgress,
    StatusWord::Erroring,
    StatusWord::Unknown,
];

/// Every state, shown for each package version that is wanted or on a node.
const STATES: [State; 5] =
    [State::InProgress, State::Complete, State::Skipped, State::Erroring, State::Unknown];

/// Every stage, shown for each package version that is wanted or on a node.
const STAGES: [Stage; 7] = [
    Stage::Uninstall,
    Stage::UninstallInterrupt,
    Stage::Upgrade,
    Stage::Apply,
    Stage::Config,
    Stage::Interrupt,
    Stage::PostInterrupt,
];

/// What one tick saw and decided, counted.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    status: BTreeMap<String, StatusWord>,
    rollouts: BTreeMap<String, Counts>,
}

/// One rollout that can be read.
#[derive(Debug)]
struct Counts {
    policy: String,
    /// By compartment.
    strategies: BTreeMap<String, &'static str>,
    targets: u64,
    nodes: BTreeMap<StatusWord, u64>,
    verdicts: BTreeMap<(VerdictKind, &'static str), u64>,
    packages: BTreeMap<PackageId, PackageCounts>,
    compartments: BTreeMap<String, CompartmentStatus>,
    outlooks: BTreeMap<String, Outlook>,
}

#[derive(Debug, Default)]
struct PackageCounts {
    states: BTreeMap<State, u64>,
    stages: BTreeMap<Stage, u64>,
    restarts: u64,
}

impl Fleet {
    /// Counts what the plan says of every rollout in it.
    ///
    /// A resource that cannot be read is `blocked`, as in the report, and has no other series:
    /// which nodes and packages it is about is just what cannot be read.
    pub(super) fn new(input: &Input, plan: &Plan) -> Self {
        let unreadable = input.desired.invalid.keys();
        let mut fleet = Self {
            status: unreadable.map(|name| (name.clone(), StatusWord::Blocked)).collect(),
            rollouts: BTreeMap::new(),
        };
        for (name, verdicts) in &plan.verdicts {
            let Some(rollout) = input.desired.rollouts.get(name) else { continue };
            if let Some(status) = plan.statuses.get(name) {
                fleet.status.insert(name.clone(), status.word);
            }
            fleet.rollouts.insert(name.clone(), Counts::new(input, plan, rollout, verdicts));
        }
        fleet
    }

    /// Writes every series.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let status = self.status.iter().flat_map(|(name, current)| {
            STATUSES
                .map(|word| ([named(name), ("status", word.as_str())], u64::from(word == *current)))
        });
        let help = "1 for the current status of the NodeWright, 0 for the others.";
        gauges(encoder, ("nodewright_status", help), status)?;
        self.encode_nodes(encoder)?;
        self.encode_packages(encoder)?;
        self.encode_compartments(encoder)
    }

    fn encode_nodes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let nodes = self.rollouts.iter().flat_map(|(name, counts)| {
            STATUSES
                .map(|word| ([named(name), ("status", word.as_str())], of(&counts.nodes, &word)))
        });
        gauges(encoder, ("nodewright_node_status_count", "Selected nodes by status."), nodes)?;
        let targets = self.rollouts.iter().map(|(name, counts)| ([named(name)], counts.targets));
        gauges(encoder, ("nodewright_node_target_count", "Selected nodes."), targets)?;
        let verdicts = self.rollouts.iter().flat_map(|(name, counts)| {
            counts.verdicts.iter().map(|(&(kind, reason), &count)| {
                ([named(name), ("kind", kind_word(kind)), ("reason", reason)], count)
            })
        });
        let help = "Selected nodes by verdict; explain node/<name> says it in words.";
        gauges(encoder, ("nodewright_verdict_nodes", help), verdicts)
    }

    fn encode_packages(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let states = self.packages().flat_map(|([name, package, version], counts)| {
            STATES.map(|state| {
                ([name, package, version, ("state", state.as_str())], of(&counts.states, &state))
            })
        });
        let help = "Selected nodes by state of the package version.";
        gauges(encoder, ("nodewright_package_state_count", help), states)?;
        let stages = self.packages().flat_map(|([name, package, version], counts)| {
            STAGES.map(|stage| {
                ([name, package, version, ("stage", stage.as_str())], of(&counts.stages, &stage))
            })
        });
        let help = "Selected nodes by stage of the package version.";
        gauges(encoder, ("nodewright_package_stage_count", help), stages)?;
        let restarts = self.packages().map(|(labels, counts)| (labels, counts.restarts));
        let help = "Failed attempts at the stage each selected node is at, summed.";
        gauges(encoder, ("nodewright_package_restarts_count", help), restarts)
    }

    fn encode_compartments(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Value = fn(&CompartmentStatus) -> u32;
        let families: [(&str, &str, Value); 8] = [
            ("nodewright_rollout_matched_nodes", "Nodes in the compartment.", |it| it.matched),
            ("nodewright_rollout_ceiling", "Most nodes disturbed at once.", |it| it.ceiling),
            ("nodewright_rollout_in_progress", "Nodes picked and not released.", |it| {
                it.in_progress
            }),
            ("nodewright_rollout_completed", "Nodes complete.", |it| it.completed),
            ("nodewright_rollout_progress_percent", "Nodes complete, in percent.", |it| {
                it.progress_percent
            }),
            ("nodewright_rollout_current_batch", "The batch that is open or comes next.", |it| {
                it.batch_state.current_batch
            }),
            ("nodewright_rollout_consecutive_failures", "Failed batches in a row.", |it| {
                it.batch_state.consecutive_failures
            }),
            ("nodewright_rollout_should_stop", "1 when failures stopped the rollout.", |it| {
                u32::from(it.batch_state.should_stop)
            }),
        ];
        for (family, help, value) in families {
            let series = self.rollouts.iter().flat_map(|(name, counts)| {
                counts.compartments.iter().map(move |(compartment, status)| {
                    (counts.labels(name, compartment), u64::from(value(status)))
                })
            });
            gauges(encoder, (family, help), series)?;
        }
        self.encode_outlooks(encoder)
    }

    fn encode_outlooks(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Value = fn(&Outlook) -> u32;
        let families: [(&str, &str, Value); 4] = [
            ("nodewright_rollout_failed", "Nodes that failed for good.", |it| it.failed),
            (
                "nodewright_rollout_batches_to_come",
                "Batches after the open one, if every node succeeds from now on.",
                |it| it.to_come.count(),
            ),
            (
                "nodewright_rollout_stopped_batch",
                "The batch whose failures stopped the rollout, 0 while none did; the NodeWright's \
                 condition Stopped says which nodes and why.",
                |it| it.stopped.as_ref().map_or(0, |stopped| stopped.batch),
            ),
            ("nodewright_rollout_stopped_nodes", "Nodes that failed in that batch.", |it| {
                let cause = it.stopped.as_ref().and_then(|stopped| stopped.cause.as_ref());
                cause.map_or(0, |cause| cause.in_batch)
            }),
        ];
        for (family, help, value) in families {
            let series = self.rollouts.iter().flat_map(|(name, counts)| {
                counts.outlooks.iter().map(move |(compartment, outlook)| {
                    (counts.labels(name, compartment), u64::from(value(outlook)))
                })
            });
            gauges(encoder, (family, help), series)?;
        }
        Ok(())
    }

    fn packages(&self) -> impl Iterator<Item = (Labels<'_, 3>, &PackageCounts)> {
        self.rollouts.iter().flat_map(|(name, counts)| {
            counts.packages.iter().map(move |(id, package)| {
                let version = ("package_version", id.version.as_str());
                ([named(name), ("package_name", id.name.as_str()), version], package)
            })
        })
    }
}

impl Counts {
    fn new(
        input: &Input,
        plan: &Plan,
        rollout: &Rollout,
        verdicts: &BTreeMap<String, Verdict>,
    ) -> Self {
        let wanted =
            rollout.packages.values().map(|package| (package.id(), PackageCounts::default()));
        let memory = plan.statuses.get(&rollout.name).map(|status| &status.memory);
        let mut counts = Self {
            policy: rollout.policy.clone().unwrap_or_else(|| NO_POLICY.to_owned()),
            strategies: strategies(input, rollout),
            targets: 0,
            nodes: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            packages: wanted.collect(),
            compartments: memory.map(|memory| memory.compartments.clone()).unwrap_or_default(),
            outlooks: plan.outlooks.get(&rollout.name).cloned().unwrap_or_default(),
        };
        let uid = input.observed.resources.get(&rollout.name).map(|resource| resource.uid.as_str());
        for (name, verdict) in verdicts {
            let node = input.observed.nodes.get(name);
            let record = node.zip(uid).and_then(|(node, uid)| node.record(&rollout.name, uid));
            let word = node_status(verdict, record.is_some_and(Record::is_open));
            counts.targets += 1;
            *counts.nodes.entry(word).or_default() += 1;
            *counts.verdicts.entry((verdict.kind, verdict.reason.word())).or_default() += 1;
            if let Some(node) = node {
                counts.count_entries(node, &rollout.name);
            }
        }
        counts
    }

    /// The labels of what is counted by compartment.
    fn labels<'a>(&'a self, rollout: &'a str, compartment: &'a str) -> Labels<'a, 4> {
        [
            named(rollout),
            ("policy_name", self.policy.as_str()),
            ("compartment_name", compartment),
            ("strategy", self.strategies.get(compartment).copied().unwrap_or("unknown")),
        ]
    }

    fn count_entries(&mut self, node: &Node, rollout: &str) {
        for (id, entry) in node.entries(rollout) {
            if !self.packages.contains_key(id) {
                self.packages.insert(id.clone(), PackageCounts::default());
            }
            let Some(counts) = self.packages.get_mut(id) else { continue };
            *counts.states.entry(entry.state).or_default() += 1;
            *counts.stages.entry(entry.stage).or_default() += 1;
            counts.restarts += u64::try_from(entry.restarts.unwrap_or(0)).unwrap_or(0);
        }
    }
}

/// Returns a node's status in upstream's words (upstream contract B.13), read from the verdict as
/// the totals in the resource's status are: a node in a visit is in progress whatever it waits for.
fn node_status(verdict: &Verdict, visited: bool) -> StatusWord {
    match (verdict.kind, &verdict.reason) {
        (VerdictKind::Done, _) => StatusWord::Complete,
        (_, Reason::Failed { .. } | Reason::InterruptFailed { .. }) => StatusWord::Erroring,
        _ if visited => StatusWord::InProgress,
        (VerdictKind::Act, _) => StatusWord::InProgress,
        (VerdictKind::Wait, _) => StatusWord::Waiting,
        (VerdictKind::Blocked, Reason::Paused) => StatusWord::Paused,
        (VerdictKind::Blocked, Reason::Disabled) => StatusWord::Disabled,
        (VerdictKind::Blocked, _) => StatusWord::Blocked,
    }
}

fn kind_word(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Act => "act",
        VerdictKind::Wait => "wait",
        VerdictKind::Blocked => "blocked",
        VerdictKind::Done => "done",
    }
}

fn of<K: Ord>(counts: &BTreeMap<K, u64>, key: &K) -> u64 {
    counts.get(key).copied().unwrap_or_default()
}

/// The label that names the rollout.
fn named(rollout: &str) -> (&'static str, &str) {
    ("nodewright_name", rollout)
}

/// Returns the word for each compartment's strategy. Without a policy there is one, and its batches
/// are of a fixed size (upstream contract B.10).
fn strategies(input: &Input, rollout: &Rollout) -> BTreeMap<String, &'static str> {
    let default = DEFAULT_COMPARTMENT.to_owned();
    let Some(name) = &rollout.policy else { return BTreeMap::from([(default, "fixed")]) };
    let Some(policy) = input.desired.policies.get(name) else { return BTreeMap::new() };
    let own = policy.compartments.iter().map(|it| (it.name.clone(), strategy_word(&it.pace)));
    own.chain([(default, strategy_word(&policy.fallback))]).collect()
}

fn strategy_word(pace: &Pace) -> &'static str {
    match pace.strategy.map(|strategy| strategy.growth) {
        Some(Growth::Fixed) => "fixed",
        Some(Growth::Linear(_)) => "linear",
        Some(Growth::Exponential(_)) => "exponential",
        None => "unknown",
    }
}
