//! The puller: fetches Git at its own pace and reads what it finds.
//!
//! In: the source, wake-ups. Out: the newest reading, and the error that keeps us from a newer one.
//! It decides nothing: what a reading may replace is judged by the leader, in `revision`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::commit::files_of_commit;
use super::{Settings, SourceSettings};
use crate::clock::Clock;
use crate::cluster::resources::WantedObject;
use crate::cluster::source_state::ManagedObject;
use crate::git::{
    self, CommitId, RefWatch, Revision, Source, Transport, TransportError, TreeError,
};
use crate::manifest::{self, Layout, Parsed};
use crate::model::Finding;
use crate::report::SourceError;

/// First pause after a fetch that failed; doubles up to the poll interval.
const RETRY_FIRST: Duration = Duration::from_secs(2);

/// What one commit says.
#[derive(Debug, Clone)]
pub struct Reading {
    /// `main@sha1:<40 hex>`.
    pub revision: Revision,
    /// The objects, accepted by the rules of manifests.
    pub objects: Vec<WantedObject>,
    /// Objects that are there but refused: their last good state stays.
    pub refused: BTreeSet<ManagedObject>,
    /// Something could not be read: nothing may be removed because of this commit.
    pub unreadable: bool,
    /// What is wrong, with file, line and column.
    pub findings: Vec<Finding>,
}

/// What is known of the source.
#[derive(Debug, Clone, Default)]
pub struct PullStatus {
    /// The newest commit that was read.
    pub reading: Option<Arc<Reading>>,
    /// Why there is no newer one.
    pub error: Option<SourceError>,
    /// When Git last answered.
    pub answered: Option<Timestamp>,
}

/// Starts the puller, if there is something to pull; it ends when what is returned is dropped.
pub(super) fn start(
    settings: &Settings,
    clock: Clock,
    nudge: Arc<Notify>,
    sender: watch::Sender<PullStatus>,
    shutdown: CancellationToken,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let SourceSettings::Git { source, path } = &settings.source else { return tasks };
    let layout = Layout { cluster: Some(settings.cluster.clone()), path: path.clone() };
    let puller = Puller {
        source: source.clone(),
        transport: settings.transport.clone(),
        status_of: settings.cluster.clone(),
        layout,
        clock,
        sender,
        failures: 0,
    };
    tasks.spawn(async move {
        tokio::select! {
            () = puller.run(nudge) => {}
            () = shutdown.cancelled() => {}
        }
    });
    tasks
}

struct Puller {
    source: Source,
    transport: Transport,
    status_of: String,
    layout: Layout,
    clock: Clock,
    sender: watch::Sender<PullStatus>,
    failures: u32,
}

/// Why a commit could not be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("the commit cannot be read")]
    Tree(#[source] TreeError),
    #[error("reading the commit was cancelled")]
    Cancelled,
}

impl Puller {
    async fn run(mut self, nudge: Arc<Notify>) {
        let refs = self.watch_references();
        loop {
            self.pull().await;
            let pause = self.pause();
            tokio::select! {
                () = self.clock.sleep(pause) => {}
                () = nudge.notified() => {}
                () = changed(refs.as_ref()) => {}
            }
        }
    }

    fn watch_references(&self) -> Option<RefWatch> {
        git::watch(&self.source.remote.address).unwrap_or_else(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "local repository is not watched, it is polled");
            None
        })
    }

    fn pause(&self) -> Duration {
        match self.failures {
            0 => self.source.poll,
            failures => {
                let doublings = failures.saturating_sub(1).min(16);
                RETRY_FIRST.saturating_mul(1 << doublings).min(self.source.poll)
            }
        }
    }

    /// Fetches, and reads the commit if it is another one than last time.
    async fn pull(&mut self) {
        let request = self.source.fetch_request(Some(&self.status_of));
        let fetched = match self.transport.fetch(request).await {
            Ok(fetched) => fetched,
            Err(error) => return self.failed(&error),
        };
        let Some(commit) = fetched.source else { return };
        let known = self.sender.borrow().reading.clone();
        let reading = match known.filter(|known| known.revision.commit == commit) {
            Some(known) => Ok(known),
            None => self.read(commit).await.map(Arc::new),
        };
        let now = self.clock.now();
        match reading {
            Ok(reading) => {
                self.failures = 0;
                self.sender.send_modify(|status| {
                    *status =
                        PullStatus { reading: Some(reading), error: None, answered: Some(now) };
                });
            }
            Err(error) => {
                let way_out = "look at the commit with git fsck, or push another one".to_owned();
                self.report(chain(&error), way_out);
            }
        }
    }

    fn failed(&mut self, error: &TransportError) {
        self.report(chain(error), error.way_out().to_owned());
    }

    /// Keeps what was read before, and since when it cannot be newer.
    fn report(&mut self, what: String, way_out: String) {
        self.failures = self.failures.saturating_add(1);
        let now = self.clock.now();
        self.sender.send_modify(|status| {
            let since = status.error.as_ref().map_or(now, |known| known.since);
            let is_known = status.error.as_ref().is_some_and(|known| known.what == what);
            if !is_known {
                tracing::warn!(error = %what, way_out = %way_out, "the source cannot be read");
            }
            status.error = Some(SourceError { what, since, way_out });
        });
    }

    async fn read(&self, commit: CommitId) -> Result<Reading, ReadError> {
        let cache = self.source.cache.clone();
        let layout = self.layout.clone();
        let branch = self.source.branch.clone();
        let work = tokio::task::spawn_blocking(move || {
            let (files, problems) =
                files_of_commit(&cache, &commit, &layout.path).map_err(ReadError::Tree)?;
            let parsed = manifest::read(&files, &problems, &layout);
            let revision = Revision { branch, commit };
            Ok(reading(revision, parsed))
        });
        work.await.map_err(|_cancelled| ReadError::Cancelled)?
    }
}

async fn changed(refs: Option<&RefWatch>) {
    match refs {
        Some(refs) => refs.changed().await,
        None => std::future::pending().await,
    }
}

fn reading(revision: Revision, parsed: Parsed) -> Reading {
    let Parsed { nodewrights, policies, foreign: _, findings, unreadable, refused } = parsed;
    let policies = policies.values().map(|document| {
        let digest = manifest::config_digest(&document.object.spec);
        WantedObject::policy(&document.object, &digest)
    });
    let nodewrights = nodewrights.values().map(|document| {
        let digest = manifest::config_digest(&document.object.spec);
        WantedObject::nodewright(&document.object, &digest)
    });
    let refused = refused.into_iter().filter_map(|object| match object.kind.as_str() {
        "NodeWright" => Some(ManagedObject::nodewright(&object.name)),
        "DeploymentPolicy" => Some(ManagedObject::policy(&object.name)),
        _ => None,
    });
    Reading {
        revision,
        objects: policies.chain(nodewrights).collect(),
        refused: refused.collect(),
        unreadable,
        findings,
    }
}

/// Returns an error and its causes in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
