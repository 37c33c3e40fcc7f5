//! Watches the nodes and remembers how many were cordoned at once: the budget as users see it.
//!
//! In go the watch events of all nodes, out comes a [`View`]: the peak, who was ever cordoned, and
//! what each node was like at any time.
//! It must never answer from an incomplete view, since "never cordoned" is what a blind watcher
//! sees: a broken watch goes on where it was, [`Watcher::view`] waits until everything that a list
//! shows has passed by, and a gap in what was seen is an error of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::core::{ObjectList, Status};
use kube::{Client, ResourceExt};
use nodewright::clock::Clock;
use tokio::task::JoinHandle;

use super::view::line_of;

/// How long a watch stays open before it is begun anew where it was, in seconds; servers end
/// longer ones by themselves.
const WATCH_SECONDS: u32 = 290;

/// Between two tries after an error, and between two looks at what was seen.
const PAUSE: Duration = Duration::from_millis(500);

/// A watch that never skips a state in between: every version of every node passes by.
pub struct Watcher {
    seen: Arc<Mutex<Seen>>,
    nodes: Api<Node>,
    clock: Clock,
    task: JoinHandle<()>,
}

/// What every version of every node has shown so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The most nodes that were cordoned at the same time.
    pub peak: usize,
    /// The nodes that were ever cordoned.
    pub ever_cordoned: BTreeSet<String>,
    /// What each node was like, as `show nodes` has it, in order.
    pub lines: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The last version of each node that passed by, also of one that is gone.
    versions: BTreeMap<String, u64>,
    there: BTreeSet<String>,
    cordoned: BTreeSet<String>,
    peak: usize,
    ever: BTreeSet<String>,
    lines: BTreeMap<String, Vec<String>>,
    /// Why a watch or list had to be tried again; nothing was missed by that.
    breaks: Vec<String>,
    /// Why the nodes had to be listed anew; what they were in between, nobody saw.
    gaps: Vec<String>,
}

/// How a watch ended.
enum Ended {
    /// After its time, or because the server closed it.
    InTime,
    /// It can be begun again where it was.
    Broken(String),
    /// The server has forgotten what came after our version: 410.
    Expired(String),
}

impl Watcher {
    pub async fn start(client: Client, clock: Clock) -> Self {
        let nodes: Api<Node> = Api::all(client);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let list = nodes.list(&ListParams::default()).await.expect("nodes");
        let version = list.metadata.resource_version.unwrap_or_default();
        locked(&seen).note_all(&list.items);
        let task = tokio::spawn(follow(nodes.clone(), clock, Arc::clone(&seen), version));
        Self { seen, nodes, clock, task }
    }

    /// Lists the nodes, waits until the watch has shown all of that, and returns what it showed.
    ///
    /// It fails where this does not come true within `patience`, and where something may have
    /// been missed; both are failures of the watch and say nothing about the nodes.
    pub async fn view(&self, patience: Duration) -> Result<View, String> {
        let deadline = self.clock.now() + patience;
        let listed = loop {
            match self.nodes.list(&ListParams::default()).await {
                Ok(list) => break list,
                Err(error) if self.clock.now() > deadline => {
                    return Err(format!("the nodes cannot be listed: {error}"));
                }
                Err(_) => self.clock.sleep(PAUSE).await,
            }
        };
        loop {
            if self.task.is_finished() {
                return Err(format!("the watch of the nodes has ended; {}", self.seen().told()));
            }
            let Some(lacking) = self.seen().lacks(&listed) else { break };
            if self.clock.now() > deadline {
                let told = self.seen().told();
                return Err(format!("the watch of the nodes is behind, {lacking}; {told}"));
            }
            self.clock.sleep(PAUSE).await;
        }
        let seen = self.seen();
        if !seen.gaps.is_empty() {
            return Err(format!("the watch of the nodes has a gap; {}", seen.told()));
        }
        let (peak, ever_cordoned) = (seen.peak, seen.ever.clone());
        Ok(View { peak, ever_cordoned, lines: seen.lines.clone() })
    }

    /// Ends the watch, with its panic if it had one.
    pub async fn stop(self) {
        self.task.abort();
        if let Err(error) = self.task.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        locked(&self.seen)
    }
}

impl Seen {
    /// Notes a list: what is not in it is gone.
    fn note_all(&mut self, nodes: &[Node]) {
        let there: BTreeSet<String> = nodes.iter().map(ResourceExt::name_any).collect();
        self.cordoned.retain(|name| there.contains(name));
        self.there = there;
        for node in nodes {
            self.note(node);
        }
    }

    fn note(&mut self, node: &Node) {
        let name = node.name_any();
        self.versions.insert(name.clone(), version_of(node));
        self.there.insert(name.clone());
        let (lines, line) = (self.lines.entry(name.clone()).or_default(), line_of(node));
        if lines.last() != Some(&line) {
            lines.push(line);
        }
        if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
            self.ever.insert(name.clone());
            self.cordoned.insert(name);
            self.peak = self.peak.max(self.cordoned.len());
        } else {
            self.cordoned.remove(&name);
        }
    }

    fn note_gone(&mut self, node: &Node) {
        let name = node.name_any();
        self.there.remove(&name);
        self.cordoned.remove(&name);
        self.versions.insert(name, version_of(node));
    }

    /// Returns what a list shows and the watch has not shown yet.
    fn lacks(&self, listed: &ObjectList<Node>) -> Option<String> {
        let seen_of = |name: &str| self.versions.get(name).copied().unwrap_or_default();
        for node in &listed.items {
            let (name, version) = (node.name_any(), version_of(node));
            if seen_of(&name) < version {
                return Some(format!("{name} is at {version} and seen at {}", seen_of(&name)));
            }
        }
        let listed_at = number(listed.metadata.resource_version.as_deref());
        let is_listed = |name: &String| listed.items.iter().any(|node| node.name_any() == *name);
        // One that joined after the list is not in it either.
        let is_gone = |name: &&String| !is_listed(name) && seen_of(name) <= listed_at;
        let gone = self.there.iter().find(is_gone)?;
        Some(format!("{gone} is gone and was not seen going"))
    }

    /// Returns what went wrong with the watch, and what it saw in spite of that.
    fn told(&self) -> String {
        let last = |why: &[String]| why.last().map(|it| format!(" (last: {it})"));
        format!(
            "it broke off {} times{}, lost its place {} times{}, and saw {} nodes cordoned at \
             once, these at some time: {:?}",
            self.breaks.len(),
            last(&self.breaks).unwrap_or_default(),
            self.gaps.len(),
            last(&self.gaps).unwrap_or_default(),
            self.peak,
            self.ever
        )
    }
}

/// Watches from a version on, for ever.
async fn follow(nodes: Api<Node>, clock: Clock, seen: Arc<Mutex<Seen>>, mut version: String) {
    loop {
        match watch(&nodes, &seen, &mut version).await {
            Ended::InTime => {}
            Ended::Broken(why) => {
                locked(&seen).breaks.push(why);
                clock.sleep(PAUSE).await;
            }
            Ended::Expired(why) => match nodes.list(&ListParams::default()).await {
                Ok(list) => {
                    let mut seen = locked(&seen);
                    seen.gaps.push(why);
                    seen.note_all(&list.items);
                    version = list.metadata.resource_version.unwrap_or_default();
                }
                // The watch answers once more that its version is too old.
                Err(error) => {
                    locked(&seen).breaks.push(format!("list: {error}"));
                    clock.sleep(PAUSE).await;
                }
            },
        }
    }
}

async fn watch(nodes: &Api<Node>, seen: &Mutex<Seen>, version: &mut String) -> Ended {
    let parameters = WatchParams::default().timeout(WATCH_SECONDS);
    let stream = match nodes.watch(&parameters, version).await {
        Ok(stream) => stream,
        Err(kube::Error::Api(status)) => return refused(&status),
        Err(error) => return Ended::Broken(error.to_string()),
    };
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.next().await {
        match event {
            Ok(WatchEvent::Added(node) | WatchEvent::Modified(node)) => {
                locked(seen).note(&node);
                *version = version_of(&node).to_string();
            }
            Ok(WatchEvent::Deleted(node)) => {
                locked(seen).note_gone(&node);
                *version = version_of(&node).to_string();
            }
            Ok(WatchEvent::Bookmark(mark)) => version.clone_from(&mark.metadata.resource_version),
            Ok(WatchEvent::Error(status)) => return refused(&status),
            Err(kube::Error::Api(status)) => return refused(&status),
            Err(error) => return Ended::Broken(error.to_string()),
        }
    }
    Ended::InTime
}

fn refused(status: &Status) -> Ended {
    let why = format!("{} {}", status.code, status.message);
    if status.code == 410 { Ended::Expired(why) } else { Ended::Broken(why) }
}

/// Returns the resourceVersion as a number; both clusters count up, as etcd does.
fn version_of(node: &Node) -> u64 {
    number(node.metadata.resource_version.as_deref())
}

fn number(version: Option<&str>) -> u64 {
    version.and_then(|it| it.parse().ok()).expect("a resourceVersion is a number")
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
