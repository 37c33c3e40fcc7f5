//! One tick: observe, plan, audit, act, report. Level-triggered: whatever woke us, a tick starts
//! from the world as it is, and start-up is an ordinary tick.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::conditions::Conditions;
use super::desired::desired;
use super::http::Readiness;
use super::metrics::{Leadership, SourceHold};
use super::news::{self, Outlooks, Verdicts};
use super::pull::{PullStatus, Reading, chain};
use super::reporter::{State, until};
use super::revision::{self, Revisions};
use super::rival::RivalWatch;
use super::{Settings, Signs, SourceSettings, earlier};
use crate::clock::Clock;
use crate::cluster::events::Events;
use crate::cluster::secrets::References;
use crate::cluster::{Actor, Executed, Leader, LeaderProof, Observer, Outcome, View};
use crate::model::{
    Action, Desired, Finding, Input, Opening, Plan, Reason, Severity, Status, Urgency,
};
use crate::plan::{Names, audit, freeze, plan_with};
use crate::report::{FleetState, SourceMode, SourceView, plan_text, progress};

/// How long a read may take before it counts as unanswered.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// First pause after something failed; doubles up to [`RETRY_MAX`].
pub(super) const RETRY_FIRST: Duration = Duration::from_secs(1);

/// Longest pause after failures, so that an API server that is back is noticed soon.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Shortest time between two ticks: many events of one moment share one.
const TICK_GAP: Duration = Duration::from_millis(100);

/// How long counters in a status wait for others, so that many nodes share one write.
const ROUTINE_STATUS_GAP: Duration = Duration::from_secs(2);

/// How long we do nothing after the API server dropped fields that we wrote.
const OUTDATED_CRD_PAUSE: Duration = Duration::from_secs(60);

/// How often a tick happens although nothing changed: compares resources with Git.
const IDLE_TICK: Duration = Duration::from_secs(60);

/// Where the state of the fleet goes after each tick.
pub(super) struct Outlets {
    pub fleet: watch::Sender<State>,
    pub reporter: watch::Sender<State>,
    pub events: Events,
    pub signs: Signs,
}

/// The loop, with what it must remember between ticks: nothing that a restart may not lose.
pub(super) struct Loop {
    settings: Settings,
    clock: Clock,
    cluster_uid: String,
    observer: Observer,
    actor: Actor,
    leader: Leader,
    outlets: Outlets,
    revisions: Revisions,
    references: References,
    names: Names,
    /// The term whose caches were listed with quorum (design §4 rule 9).
    refreshed_for: Option<i32>,
    /// When a status was last written, by rollout.
    status_written: BTreeMap<String, Timestamp>,
    /// Set while the CRDs in the cluster are older than this program.
    outdated_crd: Option<(String, Timestamp)>,
    /// Whether upstream's operator leads: nothing is done while it does.
    rival: RivalWatch,
    /// What was last shown.
    shown: Option<Shown>,
    failures: u32,
    conditions: Conditions,
    /// What the API server refused for good in the last tick.
    refused: Vec<Finding>,
}

/// What the last tick showed, to tell what changed.
struct Shown {
    verdicts: Verdicts,
    statuses: BTreeMap<String, Status>,
    outlooks: Outlooks,
    source: SourceView,
    state: Arc<FleetState>,
}

/// When to tick again.
struct Rest {
    at: Option<Timestamp>,
}

impl Loop {
    #[expect(clippy::too_many_arguments, reason = "the one place where the parts come together")]
    pub(super) fn new(
        settings: Settings,
        client: Client,
        clock: Clock,
        cluster_uid: String,
        observer: Observer,
        actor: Actor,
        leader: Leader,
        outlets: Outlets,
    ) -> Self {
        let cache = match &settings.source {
            SourceSettings::Git { source, .. } => source.cache.clone(),
            SourceSettings::Cluster => std::path::PathBuf::new(),
        };
        let namespace = settings.edge.namespace.clone();
        let references = References::new(client.clone(), &settings.edge, clock, &cluster_uid);
        let revisions = Revisions::new(client, &namespace, clock, settings.adoption, cache);
        Self {
            settings,
            clock,
            cluster_uid,
            observer,
            actor,
            leader,
            outlets,
            revisions,
            references,
            names: Names::default(),
            refreshed_for: None,
            status_written: BTreeMap::new(),
            outdated_crd: None,
            rival: RivalWatch::default(),
            shown: None,
            failures: 0,
            conditions: Conditions::new(clock),
            refused: Vec::new(),
        }
    }

    /// Ticks until `shutdown`; returns the election, which outlives the loop.
    pub(super) async fn run(
        mut self,
        mut pulls: watch::Receiver<PullStatus>,
        shutdown: CancellationToken,
    ) -> Leader {
        loop {
            self.outlets.signs.health.alive(self.clock.now());
            tokio::select! {
                () = self.observer.ready() => break,
                () = shutdown.cancelled() => return self.leader,
                () = self.clock.sleep(IDLE_TICK) => {
                    let troubles = self.observer.troubles();
                    tracing::warn!(?troubles, "the API server has not listed everything yet");
                }
            }
        }
        tracing::info!(cluster = %self.settings.cluster, "caches are listed");
        self.outlets.signs.health.set_readiness(Readiness::Listed);
        if matches!(self.settings.source, SourceSettings::Git { .. }) {
            self.outlets.signs.metrics.show_source();
        }
        loop {
            let status = pulls.borrow_and_update().clone();
            let rest = self.turn(&status, &shutdown).await;
            let now = self.clock.now();
            let pause = rest.at.map_or(IDLE_TICK, |at| until(now, at).min(IDLE_TICK));
            self.outlets.signs.health.resting_until(now, after(now, pause));
            tokio::select! {
                () = shutdown.cancelled() => return self.leader,
                () = self.clock.sleep(TICK_GAP) => {}
            }
            tokio::select! {
                () = shutdown.cancelled() => return self.leader,
                () = self.observer.changed() => {}
                () = self.revisions.changed() => {}
                _ = pulls.changed() => {}
                () = self.leader.changed() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// Ticks if we lead; otherwise shows nothing and waits.
    async fn turn(&mut self, pulls: &PullStatus, shutdown: &CancellationToken) -> Rest {
        let leading = self.leader.proof().zip(self.leader.epoch());
        let leadership = if leading.is_some() { Leadership::Leader } else { Leadership::Standby };
        self.outlets.signs.metrics.set_leadership(leadership);
        let Some((proof, epoch)) = leading else {
            if self.shown.take().is_some() {
                tracing::warn!("not the leader any more: nothing is changed from here on");
                self.outlets.fleet.send_replace(None);
                self.outlets.reporter.send_replace(None);
            }
            return Rest { at: None };
        };
        if self.refreshed_for != Some(epoch) {
            tracing::info!(epoch, "leading: listing everything anew before the first action");
            tokio::select! {
                () = self.observer.refresh() => {}
                () = shutdown.cancelled() => return Rest { at: None },
                () = self.clock.sleep(READ_TIMEOUT) => {
                    tracing::warn!("the API server does not list everything in time, trying again");
                    return Rest { at: Some(self.clock.now()) };
                }
            }
            self.revisions.forget();
            self.refreshed_for = Some(epoch);
        }
        self.tick(&proof, epoch, pulls).await
    }

    async fn tick(&mut self, proof: &LeaderProof, epoch: i32, pulls: &PullStatus) -> Rest {
        let began = self.clock.now();
        let mut failed = false;
        self.rival.look(&self.observer.upstream_leases(), began);
        if self.rival.leads.is_none()
            && let Err(error) = self.revisions.advance(proof, pulls.reading.as_deref()).await
        {
            failed = true;
            let error = revision::text(&error);
            tracing::warn!(error, "the source's state was not brought further, trying again");
        }
        let view = self.observer.observe();
        let mut desired = desired(&view);
        let missing = self.references.resolve(&mut desired).await;
        if self.rival.leads.is_none() && !self.actor.mirror(proof, &view).await {
            failed = true;
        }
        let input = self.input(began, view, desired, missing);
        let mut plan = plan_with(&input, &mut self.names);
        let breaches = audit(&input, &plan);
        for breach in &breaches {
            self.outlets.signs.metrics.count_breach(breach.invariant);
            let invariant = breach.invariant.to_string();
            tracing::error!(
                rollout = %breach.rollout,
                invariant,
                detail = %breach.detail,
                "the plan breaks an invariant: the rollout is frozen, this is a defect in \
                 NodeWright, please report it"
            );
        }
        freeze(&mut plan, &breaches);
        let mut rest = Rest { at: plan.wake_at };
        let actions = self.due_actions(std::mem::take(&mut plan.actions), &mut rest);
        let executed = self.actor.execute(proof, actions).await;
        failed |= self.take_in(&executed);
        if self.rival.leads.is_none() {
            let next =
                self.conditions.publish(&self.actor, proof, &input.observed, &executed).await;
            rest.at = earlier(rest.at, next);
        }
        let told = self.shown.as_ref().map(|shown| (&shown.verdicts, &shown.outlooks));
        news::tell(&self.outlets.events, proof, &input, &plan, &executed, told);
        self.show(&input, &plan, epoch, pulls, &executed);
        let took = self.clock.now().duration_since(began).unsigned_abs();
        self.outlets.signs.metrics.observe_tick(took);
        self.failures = if failed { self.failures.saturating_add(1) } else { 0 };
        if failed {
            let doublings = self.failures.saturating_sub(1).min(16);
            let pause = RETRY_FIRST.saturating_mul(1 << doublings).min(RETRY_MAX);
            rest.at = earlier(rest.at, Some(after(self.clock.now(), pause)));
        }
        rest
    }

    /// Makes the planner's input of what was seen.
    fn input(
        &self,
        now: Timestamp,
        view: View,
        desired: Desired,
        missing: BTreeMap<String, Reason>,
    ) -> Input {
        let mut opening = self.opening(&desired);
        for (name, reason) in missing {
            opening.entry(name).or_insert(Opening::Held(reason));
        }
        Input {
            now,
            desired,
            observed: view.observed,
            halt: self.halt(),
            approvals: self.revisions.standing().approvals.clone(),
            opening,
            floor: self.settings.floor,
            rules: self.settings.rules.clone(),
            own_node: self.settings.own_node.clone(),
            own_pod: self.settings.own_pod(),
        }
    }

    /// Says why nothing is disturbed any more, whatever the rollout.
    fn halt(&self) -> Option<Reason> {
        // Nothing is done then, and nothing read: that upstream leads is the reason to give.
        if self.rival.leads.is_some() {
            return None;
        }
        let standing = self.revisions.standing();
        if let Some(note) = &standing.stop {
            return Some(Reason::StoppedByHand { note: note.clone() });
        }
        let why = "the ConfigMap nodewright-source cannot be read: nobody knows whether everything \
                   is stopped";
        standing.unread.then(|| Reason::SourceHeld { why: why.to_owned() })
    }

    /// Says for which rollouts nothing new may begin now.
    fn opening(&self, desired: &Desired) -> BTreeMap<String, Opening> {
        let standing = self.revisions.standing();
        let held = |name: &String| {
            if let Some(rival) = &self.rival.leads {
                return Some(Reason::SourceHeld { why: rival.words() });
            }
            let revision = standing.applying.clone()?;
            standing.pending.contains(name).then_some(Reason::ApplyingRevision { revision })
        };
        let names = desired.rollouts.keys();
        names.filter_map(|name| Some((name.clone(), Opening::Held(held(name)?)))).collect()
    }

    /// Leaves out counters whose time has not come, and everything while the CRDs are outdated.
    fn due_actions(&mut self, planned: Vec<Action>, rest: &mut Rest) -> Vec<Action> {
        let now = self.clock.now();
        if let Some(rival) = &self.rival.leads {
            rest.at = earlier(rest.at, Some(rival.until));
            return Vec::new();
        }
        if let Some((_, since)) = &self.outdated_crd {
            let again = after(*since, OUTDATED_CRD_PAUSE);
            if now < again {
                rest.at = earlier(rest.at, Some(again));
                return Vec::new();
            }
            self.outdated_crd = None;
        }
        let mut due = Vec::new();
        for action in planned {
            if let Action::WriteStatus(write) = &action {
                let last = self.status_written.get(&write.rollout);
                let at = last.map(|last| after(*last, ROUTINE_STATUS_GAP));
                if write.urgency == Urgency::Routine && at.is_some_and(|at| now < at) {
                    rest.at = earlier(rest.at, at);
                    continue;
                }
                self.status_written.insert(write.rollout.clone(), now);
            }
            due.push(action);
        }
        due
    }

    /// Logs what became of each action. Returns whether one of them must be tried again later.
    fn take_in(&mut self, executed: &[Executed]) -> bool {
        let mut failed = false;
        self.refused.clear();
        for Executed { action, outcome } in executed {
            let what = plan_text::words(action);
            let outcome_word = outcome.word();
            self.outlets.signs.metrics.count_action(action.word(), outcome_word);
            match outcome {
                Outcome::Done => tracing::debug!(action = %what, "done"),
                Outcome::Skipped | Outcome::Conflict { .. } => {
                    tracing::debug!(action = %what, outcome = outcome_word, "planned again");
                }
                Outcome::Blocked { why } => tracing::debug!(action = %what, why, "refused for now"),
                Outcome::OutdatedCrd { what: missing } => {
                    tracing::error!(
                        missing,
                        "the CRDs in the cluster are older than this program: update them \
                         (nodewright crds); nothing is done for a minute"
                    );
                    self.outdated_crd = Some((missing.clone(), self.clock.now()));
                }
                Outcome::Retry(error) | Outcome::Unknown(error) => {
                    failed = true;
                    let (outcome, error) = (outcome_word, chain(error));
                    tracing::warn!(action = %what, outcome, error = %error, "trying again");
                }
                Outcome::GaveUp(error) => {
                    failed = true;
                    self.refused.push(refusal(&what, &chain(error)));
                    tracing::error!(
                        action = %what,
                        error = %chain(error),
                        "refused by the API server: somebody must look at it"
                    );
                }
            }
        }
        failed
    }

    /// Shows the fleet as it is now, if that is anything new.
    fn show(
        &mut self,
        input: &Input,
        plan: &Plan,
        epoch: i32,
        pulls: &PullStatus,
        executed: &[Executed],
    ) {
        // Until Git has answered once, an empty cluster says nothing worth a commit.
        let is_git = matches!(self.settings.source, SourceSettings::Git { .. });
        if is_git && pulls.reading.is_none() && pulls.error.is_none() && plan.statuses.is_empty() {
            return;
        }
        let source = self.source_view(epoch, pulls);
        if let Some(answered) = pulls.answered {
            self.outlets.signs.metrics.source_succeeded(answered);
        }
        let is_known = executed.is_empty()
            && self.shown.as_ref().is_some_and(|shown| {
                shown.verdicts == plan.verdicts
                    && shown.statuses == plan.statuses
                    && shown.outlooks == plan.outlooks
                    && shown.source == source
            });
        if is_known {
            return;
        }
        self.show_metrics(input, plan, &source);
        let state = Arc::new(FleetState::new(input, plan, &source));
        let previous = self.shown.as_ref().map(|shown| Arc::clone(&shown.state));
        for line in progress::lines(previous.as_deref(), &state) {
            tracing::info!("{line}");
        }
        self.outlets.fleet.send_replace(Some(Arc::clone(&state)));
        self.outlets.reporter.send_replace(Some(Arc::clone(&state)));
        self.shown = Some(Shown {
            verdicts: plan.verdicts.clone(),
            statuses: plan.statuses.clone(),
            outlooks: plan.outlooks.clone(),
            source,
            state,
        });
    }

    /// What is wrong in Git, in the cluster's answers to it, and in what the API server refused.
    fn findings(&self, reading: Option<&Reading>) -> Vec<Finding> {
        let in_git = reading.map(|reading| reading.findings.clone()).unwrap_or_default();
        let standing = self.revisions.standing().problems.iter().cloned();
        in_git.into_iter().chain(standing).chain(self.refused.iter().cloned()).collect()
    }

    fn show_metrics(&self, input: &Input, plan: &Plan, source: &SourceView) {
        let metrics = &self.outlets.signs.metrics;
        metrics.observe(input, plan);
        metrics.set_findings(&source.findings);
        let is_held = source.held.is_some() || source.error.is_some();
        metrics.set_source_hold(if is_held { SourceHold::Held } else { SourceHold::Free });
    }

    fn source_view(&self, epoch: i32, pulls: &PullStatus) -> SourceView {
        let standing = self.revisions.standing();
        let reading = pulls.reading.as_ref();
        SourceView {
            cluster: self.settings.cluster.clone(),
            cluster_uid: self.cluster_uid.clone(),
            mode: match self.settings.source {
                SourceSettings::Cluster => SourceMode::Cluster,
                SourceSettings::Git { .. } => SourceMode::Git,
            },
            revision_seen: reading.map(|reading| reading.revision.to_string()),
            revision_applied: standing.applied.clone(),
            held: standing.held.clone(),
            findings: self.findings(reading.map(Arc::as_ref)),
            error: pulls.error.clone(),
            epoch: u64::try_from(epoch).unwrap_or(0),
        }
    }
}

/// Returns a refusal as people read it: admission, quota or rights stand in the way.
fn refusal(what: &str, why: &str) -> Finding {
    Finding {
        file: "the cluster".to_owned(),
        line: None,
        column: None,
        severity: Severity::Error,
        code: "NW0202".to_owned(),
        object: None,
        path: None,
        message: format!("the API server refuses to {what}: {why}"),
        way_out: "give the daemon the right, or change what refuses it".to_owned(),
    }
}

pub(super) fn after(at: Timestamp, pause: Duration) -> Timestamp {
    jiff::SignedDuration::try_from(pause)
        .ok()
        .and_then(|pause| at.checked_add(pause).ok())
        .unwrap_or(Timestamp::MAX)
}
