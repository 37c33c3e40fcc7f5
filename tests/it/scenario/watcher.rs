//! Watches the nodes and remembers how many were cordoned at once: the budget as users see it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use tokio::task::JoinHandle;

/// What was seen so far.
#[derive(Debug, Default)]
struct Seen {
    cordoned: BTreeSet<String>,
    peak: usize,
    ever: BTreeSet<String>,
}

/// A watch that never skips a state in between: every version of every node passes by.
pub struct Watcher {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Watcher {
    pub async fn start(client: Client) -> Self {
        let nodes: Api<Node> = Api::all(client);
        let list = nodes.list(&ListParams::default()).await.expect("nodes");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noting = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut version = list.metadata.resource_version.unwrap_or_default();
            loop {
                let parameters = WatchParams::default().timeout(290);
                let Ok(stream) = nodes.watch(&parameters, &version).await else { return };
                let mut stream = std::pin::pin!(stream);
                while let Some(event) = stream.next().await {
                    let Ok(event) = event else { break };
                    let (node, is_there) = match event {
                        WatchEvent::Added(node) | WatchEvent::Modified(node) => (node, true),
                        WatchEvent::Deleted(node) => (node, false),
                        WatchEvent::Bookmark(_) => continue,
                        WatchEvent::Error(error) => panic!("the watch of the nodes: {error}"),
                    };
                    version = node.resource_version().unwrap_or_default();
                    note(&noting, &node, is_there);
                }
            }
        });
        Self { seen, task }
    }

    /// Returns the most nodes that were cordoned at the same time.
    pub fn peak(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).peak
    }

    /// Returns the nodes that were ever cordoned.
    pub fn ever_cordoned(&self) -> BTreeSet<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).ever.clone()
    }

    pub async fn stop(self) {
        self.task.abort();
        if let Err(error) = self.task.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

fn note(seen: &Mutex<Seen>, node: &Node, is_there: bool) {
    let name = node.name_any();
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if is_there && is_cordoned {
        seen.ever.insert(name.clone());
        seen.cordoned.insert(name);
        seen.peak = seen.peak.max(seen.cordoned.len());
    } else {
        seen.cordoned.remove(&name);
    }
}
