//! Why the demo ends early.

use std::path::PathBuf;

use crate::cli::OutError;
use crate::daemon::DaemonError;
use crate::git::{AddressError, LocalError};
use crate::sim::scene::SceneError;

/// What keeps the demo from its end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Something that was promised did not happen: the point of the demo.
    #[error("{chapter}: {what}")]
    NotAsPromised {
        /// The title of the chapter.
        chapter: String,
        /// What should be, and what is.
        what: String,
    },
    /// A person pressed Ctrl-C.
    #[error("stopped on request")]
    Stopped,
    #[error("{} cannot be used", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the folder {} is not empty", path.display())]
    FolderNotEmpty { path: PathBuf },
    #[error("the path {} is not text that an address can hold", path.display())]
    FolderName { path: PathBuf },
    #[error("this program does not know where it lies")]
    Executable(#[source] std::io::Error),
    /// A file of the examples is not what the story expects: a defect in the demo.
    #[error("{file} of examples-repo does not say {text:?}, which the story changes")]
    Example { file: &'static str, text: &'static str },
    #[error("the repository of the demo cannot be used")]
    Git(#[from] LocalError),
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("the embedded cluster did not take its first objects")]
    Scene(#[from] SceneError),
    #[error("{doing} failed in the embedded cluster")]
    Cluster {
        doing: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("the daemon ended before the story did")]
    DaemonEnded {
        #[source]
        source: Option<DaemonError>,
    },
    #[error("the {task} ended by a defect")]
    Task {
        task: &'static str,
        #[source]
        source: tokio::task::JoinError,
    },
    #[error(transparent)]
    Out(#[from] OutError),
}

impl DemoError {
    /// Wraps what the embedded cluster answered.
    pub(super) fn cluster(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Cluster { doing, source: Box::new(source) }
    }
}
