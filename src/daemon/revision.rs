//! What was read from Git becomes what the cluster's resources say.
//!
//! In: a reading, what the cluster remembers of the source, the proof. Out: the resources written,
//! the state of the source kept, and what is held back and why. Steps are made and carried out by
//! `cluster::resources`; whether a commit may take the place of the accepted one, by `git::judge`.
//! Must never: apply a held commit, or delete what did not come from Git.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use super::pull::{Reading, chain};
use crate::clock::Clock;
use crate::cluster::resources::{
    Adoption, Applied, Applier, Outcome, Pruning, Wanted, listed_after, listed_before, read_live,
    steps,
};
use crate::cluster::source_state::{ManagedKind, ManagedObject, SourceState, SourceStates};
use crate::cluster::source_watch::SourceWatch;
use crate::cluster::{ClusterError, Disposition, LeaderProof};
use crate::git::{self, Accepted, Ancestry, Candidate, CommitId, Decision, Hold, Revision};
use crate::model::{Finding, ObjectRef, Severity};
use crate::report::HeldRevision;

/// How often resources that nobody changed in Git are compared with the cluster: somebody may have
/// edited them there, and Git owns the spec.
const COMPARE_EVERY: Duration = Duration::from_secs(60);

/// Where a revision stands in the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// The commit that is not let through, and why.
    pub held: Option<HeldRevision>,
    /// Rollouts whose resources do not yet say what the revision does.
    pub pending: BTreeSet<String>,
    /// The revision that is being applied.
    pub applying: Option<String>,
    /// The revision whose resources are all in the cluster.
    pub applied: Option<String>,
    /// Objects that could not be written: what, and the way out.
    pub problems: Vec<Finding>,
    /// Somebody stopped all new disruption: the note.
    pub stop: Option<String>,
    /// What people approved, by rollout.
    pub approvals: BTreeMap<String, String>,
    /// The state of the source has not been read in this term: whether somebody stopped
    /// everything is not known.
    pub unread: bool,
}

/// Why a revision could not be brought further; it is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum RevisionError {
    #[error("the cluster did not take the revision")]
    Cluster(#[from] ClusterErrorBox),
    #[error("the history of the revision cannot be read")]
    History(#[source] git::TreeError),
    #[error("reading the history was cancelled")]
    Cancelled,
}

/// Keeps the error small where it is passed on.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct ClusterErrorBox(Box<ClusterError>);

impl From<ClusterError> for RevisionError {
    fn from(error: ClusterError) -> Self {
        Self::Cluster(ClusterErrorBox(Box::new(error)))
    }
}

/// Brings revisions into the cluster.
pub(super) struct Revisions {
    client: Client,
    clock: Clock,
    states: SourceStates,
    watch: SourceWatch,
    /// What the watch knows is not enough: a new term, or a write that went wrong.
    reread: bool,
    applier: Applier,
    adoption: Adoption,
    cache: PathBuf,
    /// The commit that is fully in the cluster, and when that was last compared.
    settled: Option<(CommitId, Timestamp)>,
    standing: Standing,
}

impl Revisions {
    pub(super) fn new(
        client: Client,
        namespace: &str,
        clock: Clock,
        adoption: Adoption,
        cache: PathBuf,
    ) -> Self {
        Self {
            states: SourceStates::new(client.clone(), namespace, clock),
            watch: SourceWatch::start(client.clone(), namespace),
            reread: true,
            applier: Applier::new(client.clone(), clock, adoption),
            client,
            clock,
            adoption,
            cache,
            settled: None,
            standing: Standing { unread: true, ..Standing::default() },
        }
    }

    /// Returns where the revision stood after the last step.
    pub(super) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Forgets what is settled: another process may have led in between.
    pub(super) fn forget(&mut self) {
        self.settled = None;
        self.reread = true;
        self.standing.unread = true;
    }

    /// Waits until somebody changed the state of the source, such as by a stop.
    pub(super) async fn changed(&mut self) {
        self.watch.changed().await;
    }

    /// Brings the newest reading as far as it may go; cheap when there is nothing to do.
    pub(super) async fn advance(
        &mut self,
        proof: &LeaderProof,
        reading: Option<&Reading>,
    ) -> Result<(), RevisionError> {
        let advanced = self.advance_once(proof, reading).await;
        // After a conflict or a lost answer, what the watch says may be too old to go on from.
        self.reread |= advanced.is_err();
        advanced
    }

    async fn advance_once(
        &mut self,
        proof: &LeaderProof,
        reading: Option<&Reading>,
    ) -> Result<(), RevisionError> {
        let state = self.state().await?;
        self.standing.unread = false;
        self.standing.stop = state.stop.as_ref().map(|stop| stop.note.clone());
        self.standing.approvals.clone_from(&state.approvals);
        let state = self.obey(proof, state).await?;
        let Some(reading) = reading else {
            self.note_unapplied(&state);
            return Ok(());
        };
        let commit = &reading.revision.commit;
        if self.is_settled(commit, &state) {
            return Ok(());
        }
        match self.judge(reading, &state).await? {
            Decision::Held(hold) => self.hold(proof, reading, &state, &hold).await,
            Decision::Accept => self.apply(proof, reading, &state).await,
        }
    }

    /// Says that a stop is obeyed: every write of earlier ticks has had its answer, and what is
    /// planned from here on knows of it. Whoever stopped waits for this.
    async fn obey(
        &self,
        proof: &LeaderProof,
        state: SourceState,
    ) -> Result<SourceState, RevisionError> {
        let note = self.standing.stop.clone().filter(|note| !note.is_empty());
        if note == state.obeyed {
            return Ok(state);
        }
        let obeyed = SourceState { obeyed: note.clone(), ..state.clone() };
        match note {
            Some(note) => tracing::warn!(note, "stopped by hand: nothing new is disturbed"),
            None => tracing::info!("the stop is lifted: everything goes on where it was"),
        }
        self.write(proof, &state, &obeyed).await
    }

    /// What was accepted and only partly written, before a restart or a revision that is held,
    /// keeps its rollouts from beginning anything new (design §8).
    fn note_unapplied(&mut self, state: &SourceState) {
        self.standing.applied.clone_from(&state.applied);
        let unapplied = state.accepted.clone().filter(|_| state.accepted != state.applied);
        self.standing.pending = match unapplied {
            Some(_) => state.managed.iter().filter_map(rollout_name).collect(),
            None => BTreeSet::new(),
        };
        self.standing.applying = unapplied;
    }

    async fn state(&mut self) -> Result<SourceState, RevisionError> {
        if self.reread {
            self.watch.note(self.states.read().await?);
            self.reread = false;
        }
        Ok(self.watch.current())
    }

    async fn write(
        &self,
        proof: &LeaderProof,
        read: &SourceState,
        wanted: &SourceState,
    ) -> Result<SourceState, RevisionError> {
        let written = self.states.write(proof, read, wanted).await?;
        self.watch.note(written.clone());
        Ok(written)
    }

    fn is_settled(&self, commit: &CommitId, state: &SourceState) -> bool {
        let fresh = self.settled.as_ref().is_some_and(|(settled, compared)| {
            let age = self.clock.now().duration_since(*compared);
            settled == commit && age.unsigned_abs() < COMPARE_EVERY
        });
        fresh && !state.accepts(&commit.to_string())
    }

    async fn judge(
        &self,
        reading: &Reading,
        state: &SourceState,
    ) -> Result<Decision, RevisionError> {
        let accepted = state.accepted.as_deref().and_then(|text| text.parse::<Revision>().ok());
        let Some(accepted) = accepted else { return Ok(Decision::Accept) };
        let candidate = reading.revision.commit.clone();
        let ancestry = self.ancestry(accepted.commit.clone(), candidate.clone()).await?;
        let accepted = Accepted { commit: accepted.commit, resources: state.managed.len() };
        let resources = reading.objects.len() + reading.refused.len();
        // A commit that cannot be read is not one that holds nothing.
        let resources = if reading.unreadable { resources.max(1) } else { resources };
        let let_through = state.acceptance.as_deref().and_then(|sha| sha.parse().ok());
        let candidate = Candidate { commit: candidate, ancestry, resources };
        Ok(git::judge(Some(&accepted), &candidate, let_through.as_ref()))
    }

    async fn ancestry(
        &self,
        accepted: CommitId,
        candidate: CommitId,
    ) -> Result<Ancestry, RevisionError> {
        if accepted == candidate {
            return Ok(Ancestry::Same);
        }
        let cache = self.cache.clone();
        tokio::task::spawn_blocking(move || git::ancestry(&cache, &accepted, &candidate))
            .await
            .map_err(|_cancelled| RevisionError::Cancelled)?
            .map_err(RevisionError::History)
    }

    async fn hold(
        &mut self,
        proof: &LeaderProof,
        reading: &Reading,
        state: &SourceState,
        hold: &Hold,
    ) -> Result<(), RevisionError> {
        let commit = hold.candidate();
        let held = HeldRevision {
            revision: reading.revision.to_string(),
            why: hold.to_string(),
            way_out: format!(
                "push a commit on top of the accepted one, or: nodewright accept {commit}"
            ),
        };
        if self.standing.held.as_ref() != Some(&held) {
            let reason = hold.reason();
            tracing::warn!(commit = %commit, reason, why = %held.why, "revision held");
        }
        self.standing.held = Some(held);
        self.note_unapplied(state);
        let wanted = SourceState { seen: Some(reading.revision.to_string()), ..state.clone() };
        self.write(proof, state, &wanted).await?;
        self.settled = Some((reading.revision.commit.clone(), self.clock.now()));
        Ok(())
    }

    /// Writes the objects of an accepted revision: the list of what is ours before anything is
    /// made, and again when it is done.
    async fn apply(
        &mut self,
        proof: &LeaderProof,
        reading: &Reading,
        state: &SourceState,
    ) -> Result<(), RevisionError> {
        let revision = reading.revision.to_string();
        let wanted = self.wanted(reading);
        let live = read_live(&self.client, self.clock).await?;
        let steps = steps(&wanted, &live, &state.managed);
        let names = |objects: &mut dyn Iterator<Item = String>| objects.collect::<BTreeSet<_>>();
        self.standing.held = None;
        self.standing.pending = names(
            &mut steps
                .iter()
                .map(crate::cluster::resources::Step::object)
                .filter(|object| object.kind == ManagedKind::NodeWright)
                .map(|object| object.name.clone()),
        );
        self.standing.applying = (!steps.is_empty()).then(|| revision.clone());
        let listed = listed_before(&wanted, &state.managed, &steps);
        let begun = SourceState {
            seen: Some(revision.clone()),
            accepted: Some(revision.clone()),
            managed: listed.clone(),
            acceptance: None,
            ..state.clone()
        };
        let state = self.write(proof, state, &begun).await?;
        let is_new = state.applied.as_ref() != Some(&revision);
        let applied = self.applier.apply(proof, steps).await;
        self.take_in(&applied);
        let whole = self.standing.pending.is_empty() && !applied.iter().any(is_tried_again);
        let done = SourceState {
            applied: if whole { Some(revision.clone()) } else { state.applied.clone() },
            managed: listed_after(&listed, &applied),
            ..state.clone()
        };
        self.write(proof, &state, &done).await?;
        self.standing.applied.clone_from(&done.applied);
        if whole {
            self.standing.applying = None;
            self.settled = Some((reading.revision.commit.clone(), self.clock.now()));
            if is_new {
                let findings = reading.findings.len();
                let objects = applied.len();
                tracing::info!(commit = %revision, objects, findings, "revision applied");
            }
        }
        Ok(())
    }

    fn wanted(&self, reading: &Reading) -> Wanted {
        Wanted {
            objects: reading.objects.clone(),
            refused: reading.refused.clone(),
            pruning: if reading.unreadable { Pruning::Held } else { Pruning::Allowed },
            adoption: self.adoption,
        }
    }

    /// Takes in what became of each step. What only a person can solve is not waited for: the
    /// other rollouts of the revision go on.
    fn take_in(&mut self, applied: &[Applied]) {
        let before = std::mem::take(&mut self.standing.problems);
        for Applied { object, outcome } in applied {
            let trouble = trouble(object, outcome);
            let waits = trouble.as_ref().is_some_and(|trouble| trouble.next == Next::Again);
            // A policy may have the name of a rollout.
            if object.kind == ManagedKind::NodeWright && !waits {
                self.standing.pending.remove(&object.name);
            }
            let Some(trouble) = trouble else { continue };
            let problem = finding(object, &trouble);
            if !before.contains(&problem) {
                let why = &trouble.why;
                tracing::warn!(object = %object, why, "object is not as Git wants it");
            }
            self.standing.problems.push(problem);
        }
    }
}

/// Why an object is not as Git wants it.
struct Trouble {
    why: String,
    next: Next,
}

/// Who solves it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The next try.
    Again,
    /// Somebody.
    Person,
}

/// Returns the trouble as people read it beside what is wrong with files.
fn finding(object: &ManagedObject, trouble: &Trouble) -> Finding {
    let (severity, way_out) = match trouble.next {
        Next::Person => (Severity::Error, "do as it says, or revert the commit"),
        Next::Again => (Severity::Warning, "nothing: it is tried again"),
    };
    Finding {
        file: "the cluster".to_owned(),
        line: None,
        column: None,
        severity,
        code: "NW0201".to_owned(),
        object: Some(ObjectRef {
            kind: object.kind.as_str().to_owned(),
            name: object.name.clone(),
        }),
        path: None,
        message: trouble.why.clone(),
        way_out: way_out.to_owned(),
    }
}

fn rollout_name(object: &ManagedObject) -> Option<String> {
    (object.kind == ManagedKind::NodeWright).then(|| object.name.clone())
}

/// Returns whether an object was not written and will be tried again: the revision is not applied
/// before, also where no rollout waits for it.
fn is_tried_again(applied: &Applied) -> bool {
    match &applied.outcome {
        Outcome::Failed(error) => error.disposition() != Disposition::GiveUp,
        Outcome::Waiting { .. } => true,
        Outcome::Written
        | Outcome::Unchanged
        | Outcome::Altered
        | Outcome::Deleted
        | Outcome::Refused(_)
        | Outcome::Kept { .. }
        | Outcome::Held { .. } => false,
    }
}

fn trouble(object: &ManagedObject, outcome: &Outcome) -> Option<Trouble> {
    let (why, next) = match outcome {
        Outcome::Written | Outcome::Unchanged | Outcome::Deleted => return None,
        Outcome::Altered => (
            "the API server dropped or changed fields: update the CRDs (nodewright crds)"
                .to_owned(),
            Next::Person,
        ),
        Outcome::Waiting { since } => {
            (format!("being deleted since {since:.0}, written again when it is gone"), Next::Again)
        }
        Outcome::Refused(owner) => (owner.explain(object), Next::Person),
        Outcome::Kept { named_by } => {
            (format!("not in Git any more, kept while {named_by} names it"), Next::Again)
        }
        Outcome::Held { policy } => (format!("waits for {policy}"), Next::Again),
        // The same refusal would come in every tick; it is compared again once a minute.
        Outcome::Failed(error) if error.disposition() == Disposition::GiveUp => {
            (chain(error), Next::Person)
        }
        Outcome::Failed(error) => (chain(error), Next::Again),
    };
    Some(Trouble { why, next })
}

/// Returns the error with its causes.
pub(super) fn text(error: &RevisionError) -> String {
    chain(error)
}
