//! The hosts of the world: what executors come to, reboots, kubelets that do not start a pod.

use super::World;
use super::parts::failure;
use crate::model::{
    Executor, ExecutorPhase, ExecutorSpec, Group, InterruptKind, Stage, Waiting, Work,
};

/// How an executor ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every stage succeeds.
    Success,
    /// The first stage that is not complete fails.
    Failure,
    /// The first stage succeeds, the one after it fails; with one stage as [`Self::Failure`].
    Partly,
    /// The pod is lost to something that is not its fault.
    Disruption,
    /// Somebody deletes the pod before it has done anything.
    Vanish,
    /// A reboot from which the node does not come back by itself; else as [`Self::Disruption`].
    Gone,
}

impl World {
    /// Returns the executors that may still do something.
    pub fn active(&self) -> Vec<String> {
        let executors = self.input.observed.executors.iter();
        executors
            .filter(|(_, executor)| executor.is_active())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Ends an executor. A reboot ends it with the node: it fails, and the boot ID changes.
    pub fn end(&mut self, name: &str, end: End) {
        let now = self.input.now;
        let told = self.told.get(name);
        let Some(executor) = self.input.observed.executors.get_mut(name) else { return };
        let stages = stages(executor, told);
        let reboots = told.is_some_and(|spec| {
            matches!(&spec.work, Work::Interrupt { interrupt, .. }
                if interrupt.kind == InterruptKind::Reboot)
        });
        let (done, failure) = match end {
            End::Vanish => {
                self.input.observed.executors.remove(name);
                return;
            }
            // It dies with its node, whatever it was about to say.
            End::Success | End::Gone | End::Partly if reboots => {
                (stages, Some(failure(None, "node was shut down", true)))
            }
            End::Success => (stages, None),
            End::Partly if stages.len() > 1 => {
                let failure = failure(stages.last().copied(), "exit 1", false);
                (stages[..stages.len() - 1].to_vec(), Some(failure))
            }
            End::Failure | End::Partly => {
                (Vec::new(), Some(failure(stages.first().copied(), "exit 1", false)))
            }
            End::Disruption | End::Gone => (Vec::new(), Some(failure(None, "evicted", true))),
        };
        executor.finished = Some(now);
        executor.phase =
            if failure.is_some() { ExecutorPhase::Failed } else { ExecutorPhase::Succeeded };
        executor.failure = failure;
        executor.waiting = None;
        executor.running = None;
        executor.begun = true;
        if !reboots {
            executor.completed.clone_from(&done);
        }
        let (visit, package) = (executor.visit.clone(), executor.package.to_string());
        let snapshot = executor.snapshot.clone();
        for stage in done {
            let run = (visit.node.clone(), package.clone(), snapshot.clone(), stage, visit.visit);
            self.completed.push(run);
        }
        if reboots && matches!(end, End::Success | End::Partly | End::Gone) {
            let key = (visit.node_uid.clone(), visit.rollout.clone(), visit.visit);
            *self.issued.entry(key).or_default() += 1;
            if end == End::Gone { self.go_down(&visit.node) } else { self.reboot(&visit.node) }
        }
    }

    /// Reboots a node: what runs on it dies, and it comes back with another boot ID.
    pub fn reboot(&mut self, name: &str) {
        let version = self.next_version();
        let count = self.reboots.entry(name.to_owned()).or_default();
        *count += 1;
        let boot_id = format!("boot-{name}-{count}");
        if let Some(node) = self.input.observed.nodes.get_mut(name) {
            node.boot_id = boot_id;
            node.resource_version = version;
        }
        self.lose_executors(name);
    }

    /// A node goes down and stays down: its kubelet says nothing more, not of its pods either.
    pub fn go_down(&mut self, name: &str) {
        self.set_ready(name, false);
        self.lost.insert(name.to_owned());
    }

    /// A node that went down comes back, as after a reboot.
    pub fn come_back(&mut self, name: &str) {
        if self.lost.remove(name) {
            self.reboot(name);
            self.set_ready(name, true);
        }
    }

    /// A kubelet cannot start a pod that has not done anything yet.
    pub fn stall(&mut self, name: &str, reason: &str) {
        let now = self.input.now;
        let Some(executor) = self.input.observed.executors.get_mut(name) else { return };
        executor.phase = ExecutorPhase::Pending;
        executor.begun = false;
        executor.running = None;
        executor.stage_since = None;
        let message = "it cannot be started".to_owned();
        executor.waiting =
            Some(Waiting { reason: reason.to_owned(), message, image: String::new(), since: now });
    }

    /// Everything that runs on the node ends with it.
    pub(super) fn lose_executors(&mut self, node: &str) {
        let now = self.input.now;
        for executor in self.input.observed.executors.values_mut() {
            if executor.visit.node == node && executor.is_active() {
                executor.phase = ExecutorPhase::Failed;
                executor.finished = Some(now);
                executor.failure = Some(failure(None, "node was shut down", true));
            }
        }
    }
}

/// Returns the stages that an executor was told to run.
fn stages(executor: &Executor, told: Option<&ExecutorSpec>) -> Vec<Stage> {
    match (executor.group, told.map(|spec| &spec.work)) {
        (Group::Install, Some(Work::Install { stages, .. })) => stages.clone(),
        (Group::Install, _) => match executor.running {
            Some(first) if first != Stage::Config => vec![first, Stage::Config],
            Some(_) | None => vec![Stage::Config],
        },
        (Group::Pull, _) => Vec::new(),
        (Group::Uninstall, _) => vec![Stage::Uninstall],
        (Group::Interrupt, _) => vec![Stage::Interrupt],
        (Group::Verify, _) => vec![Stage::PostInterrupt],
    }
}
