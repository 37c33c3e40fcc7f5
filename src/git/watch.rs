//! Wakes the daemon when somebody pushes to a repository on this machine's disk.
//!
//! A hint, nothing more: file events get lost, so the poll stays the truth. It watches references
//! only, and one push is one wake-up, or a few.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use thiserror::Error;
use tokio::sync::Notify;

use super::address::{Address, Scheme};

/// How long no event must come before a burst counts as over.
const QUIET: Duration = Duration::from_millis(50);

/// How many events one burst gathers at most, so that a busy repository still wakes us.
const BURST_MAX: usize = 1_000;

/// Wakes whoever waits when a reference of the repository changed.
#[derive(Debug)]
pub struct RefWatch {
    changed: Arc<Notify>,
    /// Ends the events, and with them the thread, when dropped.
    _watcher: RecommendedWatcher,
}

/// Says why a local repository cannot be watched; polling goes on.
#[derive(Debug, Error)]
pub enum WatchError {
    /// There is no repository at this path (yet).
    #[error("{} is not a repository that can be watched", path.display())]
    NotARepository {
        /// The path.
        path: PathBuf,
    },
    /// The system refused the watch, for example because all watches are in use.
    #[error("{} cannot be watched", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: notify::Error,
    },
}

/// Watches a repository; `None` when it is not on this machine.
///
/// # Errors
///
/// There is no repository, or the system has no watch left. Polling works all the same.
pub fn watch(address: &Address) -> Result<Option<RefWatch>, WatchError> {
    let path = match address.scheme() {
        Scheme::File { path } => path,
        Scheme::Https | Scheme::Ssh { .. } => return Ok(None),
    };
    let folder =
        references_folder(path).ok_or_else(|| WatchError::NotARepository { path: path.clone() })?;
    let refused = |source| WatchError::Refused { path: folder.clone(), source };
    let (sender, receiver) = mpsc::channel();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // An error (a queue that ran over) may hide a push: it wakes too.
        if event.as_ref().map_or(true, concerns_references) {
            // The thread is gone only when the watch is being dropped.
            sender.send(()).unwrap_or_default();
        }
    })
    .map_err(refused)?;
    // `HEAD` and `packed-refs` lie in the folder itself, the loose references below `refs`.
    watcher.watch(&folder, RecursiveMode::NonRecursive).map_err(refused)?;
    watcher.watch(&folder.join("refs"), RecursiveMode::Recursive).map_err(refused)?;
    let changed = Arc::new(Notify::new());
    let wakes = Arc::clone(&changed);
    thread::spawn(move || gather(&receiver, &wakes));
    Ok(Some(RefWatch { changed, _watcher: watcher }))
}

impl RefWatch {
    /// Waits until a reference changed since the last call; safe to drop and call again.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Turns bursts of events into single wake-ups; ends with the watcher.
fn gather(events: &Receiver<()>, wakes: &Notify) {
    while events.recv().is_ok() {
        for _ in 0..BURST_MAX {
            if events.recv_timeout(QUIET).is_err() {
                break;
            }
        }
        wakes.notify_one();
    }
}

fn concerns_references(event: &Event) -> bool {
    let changes = match event.kind {
        EventKind::Access(_) => false,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    };
    changes && event.paths.iter().any(|path| is_reference(path))
}

/// Lock files come and go around every change; the rename at the end is what counts.
fn is_reference(path: &Path) -> bool {
    let named = |wanted: &str| path.file_name().is_some_and(|name| name == wanted);
    let is_lock = path.extension().is_some_and(|extension| extension == "lock");
    let below_refs = path.components().any(|part| part.as_os_str() == "refs");
    !is_lock && (below_refs || named("HEAD") || named("packed-refs"))
}

/// Finds the folder that holds `refs`: of a bare repository, a `.git` folder, or a work tree of
/// another repository.
fn references_folder(path: &Path) -> Option<PathBuf> {
    let dot_git = path.join(".git");
    let folder = if dot_git.is_dir() {
        dot_git
    } else if let Ok(text) = fs::read_to_string(&dot_git) {
        path.join(text.strip_prefix("gitdir:")?.trim())
    } else {
        path.to_owned()
    };
    let common = match fs::read_to_string(folder.join("commondir")) {
        Ok(text) => folder.join(text.trim()),
        Err(_) => folder,
    };
    let is_repository = common.join("refs").is_dir() && common.join("HEAD").is_file();
    is_repository.then_some(common)
}
