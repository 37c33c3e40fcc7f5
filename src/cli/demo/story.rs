//! The story: four chapters, each said, played, and proven.
//!
//! In: the world, the repository, what the daemon shows. Out: text, and an error at the first
//! thing that does not come out. Each chapter asks its own questions of the request log and of the
//! cluster, and each question can be answered with no.

use std::sync::Arc;
use std::time::Duration;

use super::commits::{
    self, ADA, BROKEN_AT, FABRIC_AFTER, FABRIC_BEFORE, GENERAL_AFTER, GRACE, KERNEL_AFTER,
    KERNEL_BEFORE, LIN, Pools,
};
use super::error::DemoError;
use super::screen::Screen;
use super::state::{self, Spec, Wanted};
use super::watch::Watch;
use super::workloads::{TRAINING_AGENT, TRAINING_JOB, TRAINING_NAMESPACE, Training, worker};
use super::world::{GENERAL, H200_TRAIN, World};
use crate::git::{CommitId, LocalRepository, Person};
use crate::model::{Severity, StatusWord};
use crate::report::FleetState;
use crate::sim::{Ledger, Promise};

/// The branch that the daemon follows.
pub(super) const BRANCH: &str = "main";

/// Name of the cluster: its folder in `examples-repo`, and its status branch.
pub(super) const CLUSTER: &str = "demo";

/// How long everyone watches the waiting before the training ends.
const WATCHED_WAITING: Duration = Duration::from_secs(20);

/// How many nodes may be away at once, as the manifests say it: 25 percent of the training pool,
/// rounded down but at least one, and two of the general pool.
const TRAINING_BUDGET_PERCENT: usize = 25;
const GENERAL_BUDGET_COUNT: usize = 2;

/// Everything that the chapters share.
pub(super) struct Story<'a> {
    pub world: &'a World,
    pub repository: &'a LocalRepository,
    pub screen: &'a mut Screen,
    pub watch: Watch,
    pub pools: Pools,
    /// The nodes that the training job will run on.
    pub job_nodes: Vec<String>,
}

impl Story<'_> {
    /// Plays it all.
    pub async fn play(mut self) -> Result<(), DemoError> {
        self.first_rollout().await?;
        let upgrade = self.upgrade().await?;
        self.broken_manifest().await?;
        self.revert(&upgrade).await
    }

    async fn first_rollout(&mut self) -> Result<(), DemoError> {
        const TITLE: &str = "Chapter 1: the first rollout";
        self.screen.chapter(
            TITLE,
            "The repository says what each pool should have; no node has any of it yet. The \
             daemon takes the pools batch by batch: it cordons a node, moves its pods away, \
             installs, restarts what must be restarted, verifies, and gives the node back.",
        )?;
        let first = self.repository.history(BRANCH)?;
        let first = first.first().map(|told| told.commit.clone());
        let first = first.ok_or_else(|| broken(TITLE, "the repository is empty"))?;
        self.until_applied(TITLE, &first).await?;
        self.until_complete(TITLE, &[(H200_TRAIN, KERNEL_BEFORE), (GENERAL, KERNEL_BEFORE)])
            .await?;
        let ledger = Ledger::of(&self.world.cluster);
        self.proven(TITLE, ledger.evictions_follow_cordons(0))?;
        self.within_budgets(TITLE, &ledger, 0)?;
        self.proven(TITLE, ledger.within_budget(0, GENERAL, &self.world.general, 2))?;
        self.proven(TITLE, state::reboots(self.world, 1))?;
        self.proven_nodes(TITLE, KERNEL_BEFORE, FABRIC_BEFORE, KERNEL_BEFORE).await
    }

    async fn upgrade(&mut self) -> Result<CommitId, DemoError> {
        const TITLE: &str = "Chapter 2: an upgrade with reboots, while a training job runs";
        let nodes = self.job_nodes.join(", ");
        self.screen.chapter(
            TITLE,
            &format!(
                "The job {TRAINING_NAMESPACE}/{TRAINING_JOB} trains on {nodes}. Its pods are \
                 protected. Lin commits kernel-tuning {KERNEL_AFTER}, which reboots every node \
                 of {H200_TRAIN}: nodes without training go first, the others wait for the job."
            ),
        )?;
        let client = self.world.cluster.client(TRAINING_AGENT);
        let training = Training::start(client, self.job_nodes.clone()).await?;
        self.until_phase(TITLE, &training, "Running").await?;
        let from = Ledger::of(&self.world.cluster).count();
        self.pools.upgrade()?;
        let commit = self.commit(LIN, commits::UPGRADE_MESSAGE)?;
        self.until_applied(TITLE, &commit).await?;
        self.until_only_training_left(TITLE).await?;
        self.screen.progress(&format!("-- {TRAINING_JOB} has reached its last step and ends"))?;
        training.finish().await?;
        self.until_phase(TITLE, &training, "Succeeded").await?;
        self.until_complete(TITLE, &[(H200_TRAIN, KERNEL_AFTER)]).await?;
        let ledger = Ledger::of(&self.world.cluster);
        let workers: Vec<String> = (0..self.job_nodes.len()).map(worker).collect();
        let ended = ledger.last_of(TRAINING_AGENT);
        self.proven(TITLE, ledger.untouched(TRAINING_NAMESPACE, &workers))?;
        self.proven(TITLE, ledger.interrupts_came_after(from, ended, &self.job_nodes))?;
        self.proven(TITLE, ledger.evictions_follow_cordons(from))?;
        self.within_budgets(TITLE, &ledger, from)?;
        self.proven(TITLE, state::reboots(self.world, 2))?;
        self.proven_nodes(TITLE, KERNEL_AFTER, FABRIC_BEFORE, KERNEL_BEFORE).await?;
        Ok(commit)
    }

    async fn broken_manifest(&mut self) -> Result<(), DemoError> {
        const TITLE: &str = "Chapter 3: a commit that is half wrong";
        self.screen.chapter(
            TITLE,
            "Grace changes both pools in one commit, and writes a version of the general pool \
             as 1.2, which YAML takes for a number. That file is refused and its pool stays as \
             it is; the other pool takes its part, without a restart and so without a drain.",
        )?;
        let before = Spec::read(self.world, GENERAL).await?;
        let from = Ledger::of(&self.world.cluster).count();
        self.pools.break_general()?;
        let commit = self.commit(GRACE, commits::BROKEN_MESSAGE)?;
        let state = self.until_applied(TITLE, &commit).await?;
        self.proven(TITLE, refused(&state))?;
        self.until_package(TITLE, H200_TRAIN, "fabric-check", FABRIC_AFTER).await?;
        self.until_told(TITLE, "refused").await?;
        let ledger = Ledger::of(&self.world.cluster);
        self.proven(TITLE, ledger.undisturbed(from))?;
        self.within_budgets(TITLE, &ledger, from)?;
        let after = Spec::read(self.world, GENERAL).await?;
        self.proven(TITLE, before.is_kept(&after, GENERAL))?;
        self.proven_nodes(TITLE, KERNEL_AFTER, FABRIC_AFTER, KERNEL_BEFORE).await?;

        self.screen
            .say("Ada writes the version in full: 1.2.0. Now the general pool goes on too.")?;
        let from = ledger.count();
        self.pools.fix_general()?;
        let commit = self.commit(ADA, commits::FIXED_MESSAGE)?;
        self.until_applied(TITLE, &commit).await?;
        self.until_complete(TITLE, &[(H200_TRAIN, KERNEL_AFTER), (GENERAL, GENERAL_AFTER)]).await?;
        let ledger = Ledger::of(&self.world.cluster);
        self.proven(TITLE, ledger.evictions_follow_cordons(from))?;
        let general = &self.world.general;
        let budget = GENERAL_BUDGET_COUNT;
        self.proven(TITLE, ledger.within_budget(from, GENERAL, general, budget))?;
        self.proven(TITLE, state::reboots(self.world, 2))?;
        self.proven_nodes(TITLE, KERNEL_AFTER, FABRIC_AFTER, GENERAL_AFTER).await
    }

    async fn revert(&mut self, upgrade: &CommitId) -> Result<(), DemoError> {
        const TITLE: &str = "Chapter 4: the upgrade is taken back";
        self.screen.chapter(
            TITLE,
            &format!(
                "The new boot parameter costs throughput. Lin reverts the commit, as with git \
                 revert; the lower version {KERNEL_BEFORE} is applied, with the same care. What \
                 others changed in between stays."
            ),
        )?;
        let from = Ledger::of(&self.world.cluster).count();
        let time = self.world.clock.now();
        let commit = self.repository.revert(BRANCH, (LIN, time), upgrade)?;
        self.announce(LIN, &commit)?;
        self.until_applied(TITLE, &commit).await?;
        self.until_complete(TITLE, &[(H200_TRAIN, KERNEL_BEFORE), (GENERAL, GENERAL_AFTER)])
            .await?;
        let ledger = Ledger::of(&self.world.cluster);
        self.proven(TITLE, ledger.evictions_follow_cordons(from))?;
        self.within_budgets(TITLE, &ledger, from)?;
        self.proven(TITLE, state::reboots(self.world, 3))?;
        self.proven_nodes(TITLE, KERNEL_BEFORE, FABRIC_AFTER, GENERAL_AFTER).await
    }

    fn commit(&mut self, person: Person<'_>, message: &str) -> Result<CommitId, DemoError> {
        let time = self.world.clock.now();
        let commit =
            self.repository.commit(BRANCH, (person, time), message, &self.pools.files())?;
        self.announce(person, &commit)?;
        Ok(commit)
    }

    fn announce(&mut self, person: Person<'_>, commit: &CommitId) -> Result<(), DemoError> {
        let history = self.repository.history(BRANCH)?;
        let subject = history.first().map(|told| told.subject().to_owned()).unwrap_or_default();
        let short = &commit.as_str()[..7];
        Ok(self.screen.progress(&format!("-- {} pushes {short} {subject}", person.name))?)
    }

    async fn until_applied(
        &mut self,
        title: &str,
        commit: &CommitId,
    ) -> Result<Arc<FleetState>, DemoError> {
        let revision = format!("{BRANCH}@sha1:{commit}");
        let what = format!("{revision} is in the cluster");
        self.watch
            .until(self.screen, (title, &what), |state| {
                state.source.revision_applied.as_ref() == Some(&revision)
            })
            .await
    }

    /// Waits until these rollouts are complete with these versions of kernel-tuning.
    async fn until_complete(
        &mut self,
        title: &str,
        wanted: &[(&str, &str)],
    ) -> Result<(), DemoError> {
        for (rollout, version) in wanted {
            self.until_package(title, rollout, "kernel-tuning", version).await?;
        }
        Ok(())
    }

    async fn until_package(
        &mut self,
        title: &str,
        rollout: &str,
        package: &str,
        version: &str,
    ) -> Result<(), DemoError> {
        let what = format!("{rollout} is complete with {package} {version}");
        let state = self
            .watch
            .until(self.screen, (title, &what), |state| {
                state.rollouts.get(rollout).is_some_and(|rollout| {
                    let mut packages = rollout.packages.iter();
                    rollout.status == StatusWord::Complete
                        && packages.any(|one| one.name == package && one.version == version)
                })
            })
            .await?;
        drop(state);
        Ok(())
    }

    /// Waits until every node without the training job is done, and the job's nodes wait for it.
    async fn until_only_training_left(&mut self, title: &str) -> Result<(), DemoError> {
        let others = self.world.training.len().saturating_sub(self.job_nodes.len());
        let clock = self.world.clock;
        let what = "all nodes but those of the training job are done, and these wait for it";
        let look = |state: &FleetState| {
            let done = state.rollouts.get(H200_TRAIN).map_or(0, |rollout| rollout.nodes_complete);
            let waits = state.waits.iter().any(|wait| {
                wait.rollout == H200_TRAIN
                    && wait.word == "ProtectedPod"
                    && self.job_nodes.contains(&wait.example_node)
            });
            usize::try_from(done).is_ok_and(|done| done == others) && waits
        };
        let state = self.watch.until(self.screen, (title, what), look).await?;
        drop(state);
        let since = clock.now();
        // Long enough to see that nothing happens meanwhile.
        self.watch
            .asking(self.screen, (title, what), async || {
                let waited = clock.now().duration_since(since).unsigned_abs();
                Ok((waited >= WATCHED_WAITING).then_some(()))
            })
            .await
    }

    async fn until_phase(
        &mut self,
        title: &str,
        training: &Training,
        phase: &str,
    ) -> Result<(), DemoError> {
        let what = format!("every pod of {TRAINING_JOB} is {phase}");
        self.watch
            .asking(self.screen, (title, &what), async || {
                let phases = training.phases().await?;
                Ok(phases.iter().all(|one| one.as_deref() == Some(phase)).then_some(()))
            })
            .await
    }

    /// Waits until a status commit says `word` in its subject.
    async fn until_told(&mut self, title: &str, word: &str) -> Result<(), DemoError> {
        let what = format!("a commit of the status branch says {word:?} in its subject");
        let repository = self.repository;
        self.watch
            .asking(self.screen, (title, &what), async || {
                let history = repository.history(&super::status_branch())?;
                Ok(history.iter().any(|told| told.subject().contains(word)).then_some(()))
            })
            .await
    }

    fn proven(&mut self, title: &str, promise: Promise) -> Result<(), DemoError> {
        match promise {
            Ok(kept) => Ok(self.screen.proven(&kept)?),
            Err(what) => Err(broken(title, what)),
        }
    }

    fn within_budgets(
        &mut self,
        title: &str,
        ledger: &Ledger,
        from: usize,
    ) -> Result<(), DemoError> {
        let pool = &self.world.training;
        let ceiling = (pool.len() * TRAINING_BUDGET_PERCENT / 100).max(1);
        self.proven(title, ledger.within_budget(from, H200_TRAIN, pool, ceiling))
    }

    /// What the nodes say is installed, and that all of them are open for pods.
    async fn proven_nodes(
        &mut self,
        title: &str,
        kernel: &str,
        fabric: &str,
        general: &str,
    ) -> Result<(), DemoError> {
        let nodes = self.world.read_nodes().await?;
        let of = |rollout, package, version| Wanted { rollout, package, version };
        let (training, others) = (&self.world.training, &self.world.general);
        for (pool, wanted) in [
            (training, of(H200_TRAIN, "kernel-tuning", kernel)),
            (training, of(H200_TRAIN, "fabric-check", fabric)),
            (others, of(GENERAL, "kernel-tuning", general)),
        ] {
            self.proven(title, state::has_package(&nodes, pool, wanted))?;
        }
        self.proven(title, state::released(&nodes))
    }
}

/// The broken manifest is refused where it is wrong, with a way out, and nothing else is.
fn refused(state: &FleetState) -> Promise {
    let errors: Vec<_> = state
        .source
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .collect();
    let [finding] = errors.as_slice() else {
        return Err(format!("one manifest is wrong, and these were refused: {errors:?}"));
    };
    let (file, line, column) = BROKEN_AT;
    let is_there = finding.file == file
        && finding.line == Some(line)
        && finding.column == Some(column)
        && !finding.way_out.is_empty();
    if !is_there {
        return Err(format!(
            "it is wrong at {file}:{line}:{column}, and this was said: {finding:?}"
        ));
    }
    Ok(format!(
        "refused at {}: {} (way out: {})",
        finding.place(),
        finding.message,
        finding.way_out
    ))
}

fn broken(chapter: &str, what: impl Into<String>) -> DemoError {
    DemoError::NotAsPromised { chapter: chapter.to_owned(), what: what.into() }
}
