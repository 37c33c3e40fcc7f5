//! What the ConfigMap `nodewright-source` says now, without asking again and again.
//!
//! In: a watch of that one object, and the answers to our own writes. Out: the newest state, and a
//! wake-up when it changes, so that a stop or an acceptance by a person is obeyed at once.
//! Must never: let a late event undo an answer that was already seen, or stop on an error.

use std::sync::Arc;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::shelf::Revision;
use super::source_state::{SOURCE_NAME, SourceState};

/// Keeps the state of the source current for as long as it lives.
#[derive(Debug)]
pub struct SourceWatch {
    sender: Arc<watch::Sender<SourceState>>,
    receiver: watch::Receiver<SourceState>,
    task: JoinHandle<()>,
}

impl SourceWatch {
    /// Begins to watch; must be called in a tokio runtime.
    pub fn start(client: Client, namespace: &str) -> Self {
        let (sender, receiver) = watch::channel(SourceState::default());
        let sender = Arc::new(sender);
        let config_maps = Api::namespaced(client, namespace);
        let task = tokio::spawn(follow(config_maps, Arc::clone(&sender)));
        Self { sender, receiver, task }
    }

    /// Returns the newest state that is known; an empty one as long as nothing is.
    pub fn current(&self) -> SourceState {
        self.receiver.borrow().clone()
    }

    /// Takes in the answer to a read or a write, unless something newer is known.
    pub fn note(&self, state: SourceState) {
        put(&self.sender, state);
    }

    /// Waits until the state is another one; a change while nobody waits is not lost.
    pub async fn changed(&mut self) {
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for SourceWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(config_maps: Api<ConfigMap>, sender: Arc<watch::Sender<SourceState>>) {
    let states = watch_object(config_maps, SOURCE_NAME).default_backoff();
    pin_mut!(states);
    let mut trouble = None;
    while let Some(state) = states.next().await {
        match state {
            Ok(Some(config_map)) => put(&sender, SourceState::parse(&config_map)),
            // Not there in a list, or deleted. One that was created since comes right after.
            Ok(None) => replace(&sender, SourceState::default()),
            Err(error) => {
                let error = error.to_string();
                if trouble.as_ref() != Some(&error) {
                    tracing::warn!(
                        config_map = SOURCE_NAME,
                        error,
                        "watch failed: a stop or an acceptance may be seen late, trying again"
                    );
                }
                trouble = Some(error);
                continue;
            }
        }
        if trouble.take().is_some() {
            tracing::info!(config_map = SOURCE_NAME, "watch works again");
        }
    }
}

fn put(sender: &watch::Sender<SourceState>, state: SourceState) {
    // Without a version: it is not there, as the server says.
    let is_older = state.version.is_some() && revision(&state) < revision(&sender.borrow());
    if !is_older {
        replace(sender, state);
    }
}

fn replace(sender: &watch::Sender<SourceState>, state: SourceState) {
    sender.send_if_modified(|known| {
        let is_news = *known != state;
        *known = state;
        is_news
    });
}

fn revision(state: &SourceState) -> Revision {
    Revision::parse(state.version.as_deref().unwrap_or_default())
}
