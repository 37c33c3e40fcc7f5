//! What goes wrong on the command line: how bad, why, and what to do about it.
//!
//! In: the errors of every other room, each converted here and nowhere else. Out: an exit code and
//! the lines that people read. Must never: show a back-trace, or repeat a cause.

use std::error::Error;
use std::fmt;

use super::demo::DemoError;
use super::kubernetes::ConnectError;
use super::logging::LoggingError;
use super::out::{OutError, stderr};
use crate::cluster::ClusterError;
use crate::daemon::DaemonError;
use crate::git::{AddressError, CacheError, RevisionError, TransportError, TreeError};

/// An error with its kind and the way out.
#[derive(Debug)]
pub struct CliError {
    kind: ErrorKind,
    source: Box<dyn Error + Send + Sync>,
    hints: Vec<String>,
}

/// What kind of error it is, which is all that a script needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command cannot mean anything as it was typed, or a setting makes no sense.
    Usage,
    /// This machine or this program is at fault.
    Internal,
    /// What was read is not valid.
    InvalidConfiguration,
    /// A guard said no: nothing was changed.
    Refused,
    /// Git or the cluster cannot be reached, or did not let us in.
    Unreachable,
    /// The demo saw something else than it promised.
    NotAsPromised,
    /// A person asked it to stop before it was done.
    Stopped,
}

impl ErrorKind {
    /// Returns the exit code of the process (`--help` lists them).
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Usage | Self::Internal => 2,
            Self::InvalidConfiguration => 3,
            Self::Refused => 4,
            Self::Unreachable => 6,
            Self::NotAsPromised => 1,
            Self::Stopped => super::shutdown::STOPPED_EXIT_CODE,
        }
    }
}

impl CliError {
    /// Wraps an error.
    pub(super) fn new(kind: ErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, source: source.into(), hints: Vec::new() }
    }

    /// Says that the command line, or a setting, makes no sense.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message.into())
    }

    /// Says that the system takes no signal handlers.
    pub(super) fn no_signals(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Internal, format!("signals cannot be received: {error}"))
            .hint("raise the limit of open files of this process")
    }

    /// This program cannot be found, and it runs itself to talk to Git.
    pub(super) fn no_executable(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Internal, format!("this program cannot find itself: {error}"))
            .hint("start it by its full path")
    }

    /// Adds what to do about it.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Returns its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns what a terminal shows.
    pub fn report(&self) -> String {
        let Self { kind: _, source, hints } = self;
        let mut text = format!("error: {source}\n");
        let mut said = source.to_string();
        let mut cause = source.source();
        while let Some(error) = cause {
            // Errors of some libraries already end with what caused them.
            let why = error.to_string();
            if !said.contains(&why) {
                text.push_str(&format!("  caused by: {why}\n"));
                said = why;
            }
            cause = error.source();
        }
        for hint in hints {
            text.push_str(&format!("hint: {hint}\n"));
        }
        text
    }

    /// Prints it to standard error.
    pub(super) fn print(&self) {
        // Without standard error there is nobody left to tell; the exit code still does.
        drop(stderr().text(&self.report()));
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(formatter)
    }
}

impl Error for CliError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

impl From<OutError> for CliError {
    fn from(error: OutError) -> Self {
        Self::new(ErrorKind::Internal, error).hint("check the disk that the output goes to")
    }
}

impl From<LoggingError> for CliError {
    fn from(error: LoggingError) -> Self {
        Self::new(ErrorKind::Usage, error)
            .hint("write for example NODEWRIGHT_LOG=info, or NODEWRIGHT_LOG=warn,nodewright=debug")
    }
}

impl From<AddressError> for CliError {
    fn from(error: AddressError) -> Self {
        Self::new(ErrorKind::Usage, error)
    }
}

impl From<RevisionError> for CliError {
    fn from(error: RevisionError) -> Self {
        let hint = match &error {
            RevisionError::CommitId { .. } => "print it with git rev-parse <branch>",
            RevisionError::Branch { .. } => "name a branch of the repository, without refs/heads/",
            RevisionError::Revision { .. } => "copy it from the status, or from a status commit",
        };
        Self::new(ErrorKind::Usage, error).hint(hint)
    }
}

impl From<TransportError> for CliError {
    fn from(error: TransportError) -> Self {
        let kind = match &error {
            TransportError::Unreachable { .. }
            | TransportError::Deadline { .. }
            | TransportError::Authentication { .. }
            | TransportError::Credentials { .. }
            | TransportError::HostKey { .. }
            | TransportError::Certificate { .. }
            | TransportError::RepositoryMissing { .. }
            | TransportError::RepositoryEmpty { .. }
            | TransportError::BranchMissing { .. }
            | TransportError::Corrupt { .. }
            | TransportError::Server { .. }
            | TransportError::PushRefused { .. }
            | TransportError::TipMoved { .. }
            | TransportError::PushUnconfirmed { .. } => ErrorKind::Unreachable,
            TransportError::TooLarge { .. } => ErrorKind::Refused,
            TransportError::Cache { .. }
            | TransportError::ChildStart { .. }
            | TransportError::ChildFailed { .. } => ErrorKind::Internal,
        };
        // The daemon's words for it; here nobody goes on asking.
        let way_out = error.way_out().trim_end_matches("; we go on asking");
        Self::new(kind, error).hint(way_out)
    }
}

impl From<CacheError> for CliError {
    fn from(error: CacheError) -> Self {
        Self::new(ErrorKind::Internal, error)
            .hint("make the cache folder writable, or delete it: it is filled again")
    }
}

impl From<TreeError> for CliError {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::Cache(error) => error.into(),
            TreeError::Commit { .. } | TreeError::Object { .. } => {
                Self::new(ErrorKind::Internal, error)
                    .hint("delete the cache folder: it is filled again")
            }
        }
    }
}

impl From<DaemonError> for CliError {
    fn from(error: DaemonError) -> Self {
        let kind = match &error {
            DaemonError::Forbidden { .. } => ErrorKind::Unreachable,
            DaemonError::Status(_) | DaemonError::Http(_) => ErrorKind::Usage,
            DaemonError::Task { .. } => ErrorKind::Internal,
        };
        Self::new(kind, error)
    }
}

impl From<ConnectError> for CliError {
    fn from(error: ConnectError) -> Self {
        let hint = match error {
            ConnectError::Client(error) => return error.into(),
            ConnectError::Kubeconfig { .. } => {
                "name a file and a context that kubectl can use, with --kubeconfig and --context"
            }
            ConnectError::Infer { .. } => {
                "outside a cluster name a file with --kubeconfig, or set KUBECONFIG"
            }
        };
        Self::new(ErrorKind::Usage, error).hint(hint)
    }
}

impl From<ClusterError> for CliError {
    fn from(error: ClusterError) -> Self {
        let (kind, hint) = match &error {
            ClusterError::Refused { status, .. } => match status.code {
                401 => (ErrorKind::Unreachable, "log in again: the token has probably expired"),
                403 => (ErrorKind::Unreachable, "ask for the right that the answer names"),
                409 => (ErrorKind::Refused, "somebody wrote at the same time: try again"),
                _ => (ErrorKind::Unreachable, "look at the answer, and at the API server's log"),
            },
            ClusterError::TimedOut { .. } | ClusterError::Broken { .. } => {
                (ErrorKind::Unreachable, "check that kubectl reaches this cluster, then try again")
            }
            ClusterError::Unusable { .. } => {
                (ErrorKind::Usage, "check the certificates and the user of that context")
            }
            ClusterError::InTheWay { .. } => (ErrorKind::Refused, "see who made it, and why"),
            ClusterError::NotLeader { .. }
            | ClusterError::Unreadable { .. }
            | ClusterError::TooLarge { .. }
            | ClusterError::Unbuildable { .. } => {
                (ErrorKind::Internal, "this is a defect; please report it with these lines")
            }
        };
        Self::new(kind, error).hint(hint)
    }
}

impl From<DemoError> for CliError {
    fn from(error: DemoError) -> Self {
        let (kind, hint) = match error {
            DemoError::Address(error) => return error.into(),
            DemoError::Out(error) => return error.into(),
            DemoError::Stopped => return Self::new(ErrorKind::Stopped, error),
            DemoError::NotAsPromised { .. } => (
                ErrorKind::NotAsPromised,
                "on a busy machine play it slower, with --speed 10; what fails then is a defect: \
                 please report it with both logs",
            ),
            DemoError::FolderNotEmpty { .. } => {
                (ErrorKind::Usage, "name a folder that is empty or does not exist with --keep")
            }
            DemoError::Folder { .. } => {
                (ErrorKind::Usage, "name a folder that can be written with --keep")
            }
            DemoError::FolderName { .. } => (ErrorKind::Usage, "name another one with --keep"),
            DemoError::Executable(_) => (ErrorKind::Internal, "start nodewright by its full path"),
            DemoError::Git(_) => (ErrorKind::Internal, "check that the disk is not full"),
            DemoError::Example { .. }
            | DemoError::Scene(_)
            | DemoError::Cluster { .. }
            | DemoError::DaemonEnded { .. }
            | DemoError::Task { .. } => {
                (ErrorKind::Internal, "this is a defect; please report it with these lines")
            }
        };
        Self::new(kind, error).hint(hint)
    }
}
