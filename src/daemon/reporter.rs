//! The reporter: gathers changes of state and writes them to the status branch at its own pace.
//!
//! In: the state of the fleet after each tick, `None` when we do not lead. Out: commits. A push
//! that fails is tried again with whatever the state is then; it never slows a rollout.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::metrics::Metrics;
use super::pull::chain;
use super::{DaemonError, Settings, Signs, SourceSettings};
use crate::clock::Clock;
use crate::git::{Pacer, StatusBranch, StatusCommit, StatusError, Transport, Urgency, Written};
use crate::model;
use crate::report::{FleetState, status_branch};

/// How long the last write at a graceful stop may take: the grace period of a pod is 30 s.
const LAST_WRITE_MAX: Duration = Duration::from_secs(15);

/// The state to report; `None` while another process leads.
pub(super) type State = Option<Arc<FleetState>>;

/// A running reporter; finishing it writes what is pending, dropping it ends it at once.
pub(super) struct Reporter {
    tasks: JoinSet<()>,
}

impl Reporter {
    /// Waits for the last write, but not for ever.
    pub(super) async fn finish(self) {
        let Self { mut tasks } = self;
        let ended = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_WRITE_MAX, ended).await.is_err() {
            tracing::warn!("the last status commit was not written in time");
        }
    }
}

/// Starts the reporter, if there is a place to report to.
pub(super) fn start(
    settings: &Settings,
    cluster_uid: &str,
    clock: Clock,
    signs: &Signs,
    states: watch::Receiver<State>,
) -> Result<Reporter, DaemonError> {
    let mut tasks = JoinSet::new();
    let Some(status) = &settings.status else { return Ok(Reporter { tasks }) };
    let source = match &settings.source {
        SourceSettings::Git { source, .. } => Some(source),
        SourceSettings::Cluster => None,
    };
    let branch = StatusBranch::new(
        status.remote.clone(),
        status.cache.clone(),
        &settings.cluster,
        cluster_uid,
        source,
    )
    .map_err(DaemonError::Status)?;
    let writer = Writer {
        branch,
        transport: settings.transport.clone(),
        clock,
        pacer: Pacer::new(clock.now()),
        noted: None,
        written: None,
        trouble: None,
        metrics: Arc::clone(&signs.metrics),
    };
    writer.metrics.show_status_pushes();
    tasks.spawn(writer.run(states));
    Ok(Reporter { tasks })
}

struct Writer {
    branch: StatusBranch,
    transport: Transport,
    clock: Clock,
    pacer: Pacer,
    /// The last state that a change was noted for.
    noted: State,
    /// The last state that is on the branch.
    written: State,
    /// Why the last write failed, and since when writes do.
    trouble: Option<(String, Timestamp)>,
    metrics: Arc<Metrics>,
}

impl Writer {
    /// Runs until the loop has ended and dropped its end of `states`.
    async fn run(mut self, mut states: watch::Receiver<State>) {
        loop {
            let due = self.pacer.due(self.branch.status_branches());
            let pause = due.map(|due| until(self.clock.now(), due));
            tokio::select! {
                changed = states.changed() => {
                    let state = states.borrow_and_update().clone();
                    self.note(state);
                    if changed.is_err() {
                        break;
                    }
                }
                () = rest(self.clock, pause) => self.flush().await,
            }
        }
        if self.pacer.due(self.branch.status_branches()).is_some() {
            self.flush().await;
        }
    }

    fn note(&mut self, state: State) {
        let Some(state) = state else {
            // Another process leads and writes: nothing of ours is pending any more.
            self.noted = None;
            self.pacer = Pacer::new(self.clock.now());
            return;
        };
        let urgency = status_branch::urgency(self.noted.as_deref(), &state);
        if let Some(urgency) = urgency {
            let urgency = match urgency {
                model::Urgency::Routine => Urgency::Routine,
                model::Urgency::Urgent => Urgency::Urgent,
            };
            self.pacer.note(urgency, self.clock.now());
        }
        self.noted = Some(state);
    }

    async fn flush(&mut self) {
        let Some(state) = self.noted.clone() else { return };
        self.pacer.begin(self.clock.now());
        let commit = StatusCommit {
            files: status_branch::files(&state),
            subject: status_branch::commit_subject(self.written.as_deref(), &state),
            trailers: status_branch::trailers(&state),
            time: self.clock.now(),
        };
        let epoch = state.source.epoch;
        match self.branch.write(&self.transport, &commit, epoch, self.clock).await {
            Ok(written) => {
                self.succeeded(&written, &commit.subject);
                self.written = Some(state);
            }
            Err(error) => self.failed(&error),
        }
    }

    fn succeeded(&mut self, written: &Written, subject: &str) {
        self.metrics.status_push_succeeded(self.clock.now());
        if let Some((_, since)) = self.trouble.take() {
            tracing::info!(%since, "the status branch is written again");
        }
        match written {
            Written::Unchanged => {}
            Written::Pushed { commit, seq, attempts, foreign } => {
                tracing::info!(%commit, seq, attempts, subject, "status pushed");
                if let Some(foreign) = foreign {
                    tracing::warn!(
                        commit = %foreign,
                        "a commit that is not ours is on the status branch; \
                         kept as the parent of ours"
                    );
                }
            }
        }
    }

    fn failed(&mut self, error: &StatusError) {
        let now = self.clock.now();
        self.pacer.failed(now);
        let text = chain(error);
        let since = self.trouble.as_ref().map_or(now, |(_, since)| *since);
        if self.trouble.as_ref().is_none_or(|(known, _)| *known != text) {
            let way_out = error.way_out();
            tracing::warn!(
                error = %text,
                %since,
                way_out = %way_out,
                "the status branch is not written; rollouts go on"
            );
        }
        self.trouble = Some((text, since));
    }
}

/// Waits; for ever when there is nothing to wait for.
async fn rest(clock: Clock, pause: Option<Duration>) {
    match pause {
        Some(pause) => clock.sleep(pause).await,
        None => std::future::pending().await,
    }
}

/// Returns how long it is from `now` to `then`, zero when it is past.
pub(super) fn until(now: Timestamp, then: Timestamp) -> Duration {
    let left: SignedDuration = then.duration_since(now);
    Duration::try_from(left).unwrap_or(Duration::ZERO)
}
