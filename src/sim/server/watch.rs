//! Watches: the stream of changes of one resource from a revision on.
//!
//! In goes where to start and what to select, out come the lines of a real watch: events, bookmarks
//! and, when the start is too old, the 410 that makes a client list again. An object that stops
//! matching the selector is sent as deleted, one that starts as added.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http_body::Frame;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;

use super::Cluster;
use super::refusal::Refusal;
use super::resources::Kind;
use super::selector::Selector;
use super::store::Change;
use super::view::View;

/// How often a quiet watch that asked for bookmarks gets one; the real server's period.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// How long a watch lasts that names no time-out (the real server: 30 to 60 min).
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30 * 60);

/// Shortest wait for an event: a time that has just come must not become a busy loop.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// What a client asked to watch.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub kind: Arc<Kind>,
    pub namespace: Option<String>,
    pub selector: Selector,
    pub start: Start,
    pub bookmarks: Bookmarks,
    pub timeout: Option<Duration>,
    pub view: View,
    pub user_agent: String,
}

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// With every object that exists, as if just added.
    Everything,
    /// The same, and a bookmark that says when these have all been sent.
    EverythingThenMark,
    /// With the changes after this revision.
    After(u64),
}

/// Whether the client understands bookmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bookmarks {
    Wanted,
    Unwanted,
}

struct Watch {
    cluster: Cluster,
    wish: Wish,
    cursor: u64,
    news: Receiver<u64>,
    turned: Receiver<u64>,
    drops: u64,
    /// What is to be sent, each line with the time from which on.
    lines: VecDeque<(Timestamp, Bytes)>,
    bookmark_at: Timestamp,
    end: Timestamp,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The last line has been queued.
    Ended,
}

/// Opens a watch.
pub(super) fn open(
    cluster: Cluster,
    wish: Wish,
) -> impl Stream<Item = Result<Frame<Bytes>, std::convert::Infallible>> + Send + 'static {
    let watch = Watch::new(cluster, wish);
    futures::stream::unfold(watch, |mut watch| async move {
        let line = watch.next_line().await?;
        Some((Ok(Frame::data(line)), watch))
    })
}

impl Watch {
    fn new(cluster: Cluster, wish: Wish) -> Self {
        let now = cluster.now();
        let (news, cursor, lines) = cluster.with_state(|state| {
            let revision = state.store.revision();
            let collection = state.store.collection(&wish.kind.key());
            let mut lines = VecDeque::new();
            let cursor = match wish.start {
                Start::After(start) => start,
                Start::Everything | Start::EverythingThenMark => {
                    for object in collection.objects.iter().filter(|(key, object)| {
                        is_in(wish.namespace.as_deref(), &key.0) && wish.selector.matches(object)
                    }) {
                        lines.push_back((now, wish.line("ADDED", object.1)));
                    }
                    revision
                }
            };
            if wish.start == Start::EverythingThenMark {
                let annotations = json!({"k8s.io/initial-events-end": "true"});
                lines.push_back((now, wish.bookmark(cursor, Some(annotations))));
            }
            (collection.news(), cursor, lines)
        });
        let timeout = wish.timeout.unwrap_or(TIMEOUT_DEFAULT);
        Self {
            turned: cluster.faults().turned(),
            drops: cluster.faults().drops(&wish.kind.plural),
            bookmark_at: later(now, BOOKMARK_PERIOD),
            end: later(now, timeout),
            cluster,
            wish,
            cursor,
            news,
            lines,
            phase: Phase::Open,
        }
    }

    async fn next_line(&mut self) -> Option<Bytes> {
        loop {
            let faults = self.cluster.faults();
            if self.drops != faults.drops(&self.wish.kind.plural) {
                return None;
            }
            self.news.borrow_and_update();
            self.turned.borrow_and_update();
            let is_silent = faults.is_silent(&self.wish.kind.plural, &self.wish.user_agent);
            let now = self.cluster.now();
            if !is_silent {
                self.gather(later(now, faults.lag(&self.wish.user_agent)));
                if let Some((_, line)) = self.lines.pop_front_if(|(from, _)| *from <= now) {
                    return Some(line);
                }
            }
            if self.phase == Phase::Ended || now >= self.end {
                return None;
            }
            if now >= self.bookmark_at {
                self.bookmark_at = later(now, BOOKMARK_PERIOD);
                // A bookmark says that everything before it has been sent.
                if self.wish.bookmarks == Bookmarks::Wanted && self.lines.is_empty() {
                    return Some(self.wish.bookmark(self.cursor, None));
                }
            }
            let next = self.lines.front().filter(|_| !is_silent).map_or(self.end, |line| line.0);
            let pause = self.bookmark_at.min(self.end).min(next).duration_since(now);
            let pause = Duration::try_from(pause).unwrap_or_default();
            let clock = self.cluster.clock();
            tokio::select! {
                changed = self.news.changed() => changed.ok()?,
                _ = self.turned.changed() => {}
                () = clock.sleep(pause.max(PAUSE_MIN)) => {}
            }
        }
    }

    /// Queues what happened since the cursor, to be sent from a certain time on.
    fn gather(&mut self, from: Timestamp) {
        if self.phase == Phase::Ended {
            return;
        }
        let Self { cluster, wish, cursor, lines, phase, .. } = self;
        cluster.with_state(|state| {
            let revision = state.store.revision();
            let collection = state.store.collection(&wish.kind.key());
            let oldest = collection.oldest();
            match collection.since(*cursor) {
                Some(changes) => {
                    let events = changes.filter_map(|change| wish.event(change));
                    lines.extend(events.map(|line| (from, line)));
                    *cursor = revision.max(*cursor);
                }
                None => {
                    let why = format!("too old resource version: {cursor} ({oldest})");
                    let error = json!({"type": "ERROR", "object": Refusal::expired(why).body()});
                    lines.push_back((from, Bytes::from(format!("{error}\n"))));
                    *phase = Phase::Ended;
                }
            }
        });
    }
}

impl Wish {
    fn event(&self, change: &Change) -> Option<Bytes> {
        if !is_in(self.namespace.as_deref(), &change.key.0) {
            return None;
        }
        let selected = |object: &Option<Arc<Value>>| {
            object.as_ref().filter(|object| self.selector.matches(object)).cloned()
        };
        match (selected(&change.before), selected(&change.after)) {
            (None, None) => None,
            (None, Some(after)) => Some(self.line("ADDED", &after)),
            (Some(_), Some(after)) => Some(self.line("MODIFIED", &after)),
            (Some(before), None) => {
                let mut last = Value::clone(&before);
                last["metadata"]["resourceVersion"] = json!(change.revision.to_string());
                Some(self.line("DELETED", &last))
            }
        }
    }

    fn line(&self, event: &str, object: &Value) -> Bytes {
        let object = self.view.render(&self.kind, object);
        Bytes::from(format!("{{\"type\":\"{event}\",\"object\":{object}}}\n"))
    }

    fn bookmark(&self, revision: u64, annotations: Option<Value>) -> Bytes {
        let mut object = json!({
            "apiVersion": self.kind.api_version(), "kind": self.kind.kind,
            "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
        });
        if let Some(annotations) = annotations {
            object["metadata"]["annotations"] = annotations;
        }
        Bytes::from(format!("{}\n", json!({"type": "BOOKMARK", "object": object})))
    }
}

/// Returns whether a namespace is the wanted one, or all are wanted.
pub(super) fn is_in(wanted: Option<&str>, namespace: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == namespace)
}

fn later(now: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    now.saturating_add(pause).unwrap_or(Timestamp::MAX)
}
