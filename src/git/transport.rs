//! The daemon's side of the transport process: start it, wait for it, kill it at the deadline.
//!
//! The wait is in real time on purpose: a network does not run on a simulated clock. It happens on
//! a blocking thread, so a paused tokio clock does not run ahead meanwhile.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::address::redact;
use super::error::TransportError;
use super::protocol::{Answer, FetchRequest, Fetched, PushRequest, Request};

/// The hidden verb that the binary passes to [`super::transport_main`].
pub const VERB: &str = "git-transport";

/// How long a fetch or a push may take in all.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(60);

/// What the child gets on top before it ends itself, should we be gone by then.
const ORPHAN_GRACE: Duration = Duration::from_secs(5);

/// The longest answer and the most of its last words that we read.
const ANSWER_MAX_BYTES: u64 = 256 * 1024;
const LAST_WORDS_MAX_BYTES: u64 = 4 * 1024;

/// Starts transport processes.
#[derive(Debug, Clone)]
pub struct Transport {
    /// Our own program.
    pub executable: PathBuf,
    /// When a fetch or a push is killed.
    pub deadline: Duration,
}

impl Transport {
    /// Returns a transport that runs `executable` and gives each transfer 60 s.
    pub fn new(executable: PathBuf) -> Self {
        Self { executable, deadline: DEADLINE_DEFAULT }
    }

    /// Fetches.
    ///
    /// Once started it goes on to its end or its deadline even if the future is dropped; the next
    /// one waits for it.
    ///
    /// # Errors
    ///
    /// Each way a fetch fails is a kind of [`TransportError`]; nothing of the cache is lost.
    pub async fn fetch(&self, request: FetchRequest) -> Result<Fetched, TransportError> {
        self.clone().in_background(move |transport| transport.fetch_blocking(request)).await
    }

    /// Pushes.
    ///
    /// # Errors
    ///
    /// Each way a push fails is a kind of [`TransportError`]. After `Deadline`, `ChildFailed` and
    /// `PushUnconfirmed` the push may have happened: read the branch before the next one.
    pub async fn push(&self, request: PushRequest) -> Result<(), TransportError> {
        self.clone().in_background(move |transport| transport.push_blocking(request)).await
    }

    /// Fetches. Blocking, up to the deadline.
    ///
    /// # Errors
    ///
    /// As [`Self::fetch`].
    pub fn fetch_blocking(&self, fetch: FetchRequest) -> Result<Fetched, TransportError> {
        let end_after_seconds = self.end_after_seconds();
        let request = Request::Fetch { fetch, end_after_seconds };
        match self.run(&request)? {
            Answer::Fetched { fetched } => Ok(fetched),
            Answer::Failed { error } => Err(error),
            Answer::Pushed => Err(failed(&request, "it answered something else than asked")),
        }
    }

    /// Pushes. Blocking, up to the deadline.
    ///
    /// # Errors
    ///
    /// As [`Self::push`].
    pub fn push_blocking(&self, push: PushRequest) -> Result<(), TransportError> {
        let end_after_seconds = self.end_after_seconds();
        let request = Request::Push { push, end_after_seconds };
        match self.run(&request)? {
            Answer::Pushed => Ok(()),
            Answer::Failed { error } => Err(error),
            Answer::Fetched { .. } => {
                Err(failed(&request, "it answered something else than asked"))
            }
        }
    }

    async fn in_background<T: Send + 'static>(
        self,
        work: impl FnOnce(&Self) -> Result<T, TransportError> + Send + 'static,
    ) -> Result<T, TransportError> {
        let executable = self.executable.display().to_string();
        tokio::task::spawn_blocking(move || work(&self)).await.unwrap_or_else(|error| {
            Err(TransportError::ChildStart { executable, detail: error.to_string() })
        })
    }

    fn end_after_seconds(&self) -> u64 {
        self.deadline.saturating_add(ORPHAN_GRACE).as_secs()
    }

    fn run(&self, request: &Request) -> Result<Answer, TransportError> {
        let mut child = self.start(request)?;
        let answer = self.converse(&mut child, request);
        // Whatever happened: no process is left behind. It is dead or done; both may be killed.
        drop(child.kill());
        let ended = child.wait();
        match answer {
            Ok(Some((answer, _))) if !answer.is_empty() => serde_json::from_slice(&answer)
                .map_err(|error| failed(request, &format!("its answer is not JSON: {error}"))),
            Ok(Some((_, last_words))) => {
                let last_words = redact(String::from_utf8_lossy(&last_words).trim());
                let ended = ended.map_or_else(|error| error.to_string(), |it| it.to_string());
                Err(failed(request, &format!("{ended}: {last_words}")))
            }
            Ok(None) => Err(TransportError::Deadline {
                remote: request.remote().address.to_string(),
                seconds: self.deadline.as_secs(),
            }),
            Err(error) => Err(failed(request, &error.to_string())),
        }
    }

    fn start(&self, request: &Request) -> Result<Child, TransportError> {
        let home = request.cache();
        fs::create_dir_all(home).map_err(|error| TransportError::Cache {
            folder: home.display().to_string(),
            detail: error.to_string(),
        })?;
        Command::new(&self.executable)
            .arg(VERB)
            // Nothing of our environment: no token, no proxy or Git settings of whoever started us.
            .env_clear()
            .env("HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| TransportError::ChildStart {
                executable: self.executable.display().to_string(),
                detail: error.to_string(),
            })
    }

    /// Returns answer and last words, or `None` when the deadline came first.
    fn converse(
        &self,
        child: &mut Child,
        request: &Request,
    ) -> std::io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        if let Some(mut input) = child.stdin.take() {
            // A child that died already breaks the pipe; its last words say more than that.
            drop(input.write_all(&serde_json::to_vec(request)?));
        }
        let (sender, receiver) = mpsc::channel();
        let output = child.stdout.take();
        let errors = child.stderr.take();
        thread::spawn(move || {
            let last_words = thread::spawn(move || read_all(errors, LAST_WORDS_MAX_BYTES));
            let answer = read_all(output, ANSWER_MAX_BYTES);
            // The receiver is gone when the deadline came first.
            drop(sender.send((answer, last_words.join().unwrap_or_default())));
        });
        Ok(receiver.recv_timeout(self.deadline).ok())
    }
}

/// Reads up to `max` bytes until the other end closes; what comes after is dropped with the pipe.
fn read_all(from: Option<impl Read>, max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // A pipe that breaks ends the text; the caller sees that it is short.
        drop(from.take(max).read_to_end(&mut bytes));
    }
    bytes
}

fn failed(request: &Request, detail: &str) -> TransportError {
    TransportError::ChildFailed {
        remote: request.remote().address.to_string(),
        detail: detail.to_owned(),
    }
}
