//! Events (`events.k8s.io/v1`) on nodes and resources, for `kubectl describe`.
//!
//! In: what happened to what. Out: an Event, or a higher count on one that says the same.
//! Best effort: an event is told to a queue of bounded length and written in the background; one
//! that finds no room, no leadership or no API server is dropped and counted.
//! Must never: make anybody wait, hold up a rollout, or keep memory for every object ever seen.

mod memory;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;

use self::memory::{Memory, Telling};
use super::error::ClusterError;
use super::fence::fenced;
use super::lease::LeaderProof;
use crate::api::annotations::{bounded_message, cut};
use crate::api::keys::{FIELD_MANAGER, PREFIX};
use crate::api::{GROUP, VERSION};
use crate::clock::Clock;

/// How many events wait to be written before more are dropped.
///
/// Enough for a batch of 100 nodes that is picked, drained and released at once.
const QUEUE_MAX: usize = 512;

/// Events of objects without a namespace live here; the API server accepts no other.
const NAMESPACE: &str = "default";

/// Longest `reportingInstance`, `reason` and `action` that the API takes, in bytes.
const WORD_MAX_BYTES: usize = 128;

/// Longest beginning of an event's name, in bytes: 253 less the dot and 16 digits.
const NAME_MAX_BYTES: usize = 236;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// To which object.
    pub regarding: Regarding,
    /// Whether somebody should look.
    pub severity: Severity,
    /// Why it is told, one CamelCase word: `Apply`, `Drain` (upstream contract A.7).
    pub reason: String,
    /// What was done, one CamelCase word: `MarkComplete` (upstream contract A.7).
    pub action: String,
    /// The line for people; cut at 1 KiB.
    pub note: String,
}

/// The object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Regarding {
    /// Its kind.
    pub kind: RegardingKind,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The kinds that events are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegardingKind {
    /// A Node.
    Node,
    /// A NodeWright.
    NodeWright,
}

/// Whether somebody should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Takes events; cheap to clone.
#[derive(Debug, Clone)]
pub struct Events {
    queue: mpsc::Sender<(LeaderProof, News)>,
    dropped: Arc<AtomicU64>,
}

/// Writes events, one after the other.
struct Writer {
    events: Api<Event>,
    clock: Clock,
    instance: String,
    memory: Memory,
}

impl Events {
    /// Begins to write in the background, until the last clone is dropped.
    ///
    /// `instance` names this process to people. Must be called in a tokio runtime.
    pub fn start(client: Client, instance: &str, clock: Clock) -> Self {
        let (queue, mut news) = mpsc::channel::<(LeaderProof, News)>(QUEUE_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut writer = Writer {
            events: Api::namespaced(client, NAMESPACE),
            clock,
            instance: cut(instance, WORD_MAX_BYTES).to_owned(),
            memory: Memory::default(),
        };
        let lost = Arc::clone(&dropped);
        tokio::spawn(async move {
            while let Some((proof, news)) = news.recv().await {
                if let Err(error) = writer.write(&proof, &news).await {
                    lost.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(
                        reason = news.reason,
                        error = &error as &dyn std::error::Error,
                        "event dropped"
                    );
                }
            }
        });
        Self { queue, dropped }
    }

    /// Tells what happened; returns at once, whatever becomes of it.
    pub fn tell(&self, proof: &LeaderProof, news: News) {
        if self.queue.try_send((proof.clone(), news)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many events were dropped so far, for a metric.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Writer {
    async fn write(&mut self, proof: &LeaderProof, news: &News) -> Result<(), ClusterError> {
        let now = self.clock.now();
        match self.memory.tell(news, now) {
            Telling::Known => Ok(()),
            Telling::Again { name, count } => {
                let result = self.count_up(proof, &name, count, now).await;
                match result {
                    // The API server forgets events after an hour; this one is new again.
                    Err(error) if error.is_not_found() => self.create(proof, news, now).await,
                    Ok(()) | Err(_) => result,
                }
            }
            Telling::New => self.create(proof, news, now).await,
        }
    }

    async fn create(
        &mut self,
        proof: &LeaderProof,
        news: &News,
        now: Timestamp,
    ) -> Result<(), ClusterError> {
        let name = self.memory.name(&news.regarding, now);
        let event = event(&name, news, &self.instance, now);
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let request = self.events.create(&params, &event);
        fenced(proof, self.clock, "create an Event", request).await?;
        self.memory.created(news, name, now);
        Ok(())
    }

    async fn count_up(
        &mut self,
        proof: &LeaderProof,
        name: &str,
        count: i32,
        now: Timestamp,
    ) -> Result<(), ClusterError> {
        let series = EventSeries { count, last_observed_time: MicroTime(now) };
        let patch = Patch::Merge(json!({"series": series}));
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let request = self.events.patch(name, &params, &patch);
        fenced(proof, self.clock, "count an Event", request).await.map(|_event| ())
    }
}

impl Regarding {
    fn reference(&self) -> ObjectReference {
        let (api_version, kind) = match self.kind {
            RegardingKind::Node => ("v1".to_owned(), "Node"),
            RegardingKind::NodeWright => (format!("{GROUP}/{VERSION}"), "NodeWright"),
        };
        ObjectReference {
            api_version: Some(api_version),
            kind: Some(kind.to_owned()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

fn event(name: &str, news: &News, instance: &str, now: Timestamp) -> Event {
    let News { regarding, severity, reason, action, note } = news;
    let severity = match severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    Event {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(format!("{PREFIX}{FIELD_MANAGER}")),
        reporting_instance: Some(instance.to_owned()),
        action: Some(cut(action, WORD_MAX_BYTES).to_owned()),
        reason: Some(cut(reason, WORD_MAX_BYTES).to_owned()),
        regarding: Some(regarding.reference()),
        note: Some(bounded_message(note)),
        type_: Some(severity.to_owned()),
        ..Event::default()
    }
}
