//! The transport process: one request on standard input, one answer on standard output, exit.
//!
//! It has no token of the cluster and an empty environment, reads the credentials itself, and is
//! the first that the kernel kills when memory runs out. It never decides anything: what a branch
//! that moved means is the daemon's business.

mod fetch;
mod push;
mod push_local;
mod session;

use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, process, thread};

use thiserror::Error;

use super::error::TransportError;
use super::options;
use super::protocol::{Answer, Request};

/// The longest request we read; a real one has a few hundred bytes.
const REQUEST_MAX_BYTES: u64 = 64 * 1024;

/// How the process ends when nobody killed it at the deadline: the daemon is gone.
const EXIT_ORPHANED: i32 = 3;

/// Says why the transport process could not even answer.
#[derive(Debug, Error)]
pub enum TransportMainError {
    /// The request cannot be read.
    #[error("the request cannot be read from standard input")]
    Read(#[source] io::Error),
    /// The request is not what the daemon of this version sends.
    #[error("the request is not understood; this verb is for nodewright's own use")]
    Request(#[source] serde_json::Error),
    /// The answer cannot be written: the daemon is gone.
    #[error("the answer cannot be written to standard output")]
    Write(#[source] io::Error),
}

/// Serves one request; the body of the hidden verb `git-transport`. Blocking.
///
/// A transfer that fails is an answer, not an error.
///
/// # Errors
///
/// The request cannot be read, or the answer cannot be written.
pub fn transport_main(input: impl Read, mut output: impl Write) -> Result<(), TransportMainError> {
    let mut text = String::new();
    input.take(REQUEST_MAX_BYTES).read_to_string(&mut text).map_err(TransportMainError::Read)?;
    let request: Request = serde_json::from_str(&text).map_err(TransportMainError::Request)?;
    end_when_orphaned(Duration::from_secs(request.end_after_seconds()));
    offer_to_be_killed_first();
    let answer = serve(&request).unwrap_or_else(|error| Answer::Failed { error });
    serde_json::to_writer(&mut output, &answer)
        .map_err(io::Error::from)
        .and_then(|()| output.flush())
        .map_err(TransportMainError::Write)
}

fn serve(request: &Request) -> Result<Answer, TransportError> {
    options::set_process_options().map_err(|error| TransportError::ChildFailed {
        remote: request.remote().address.to_string(),
        detail: error.message().to_owned(),
    })?;
    match request {
        Request::Fetch { fetch, .. } => {
            fetch::fetch(fetch).map(|fetched| Answer::Fetched { fetched })
        }
        Request::Push { push, .. } => push::push(push).map(|()| Answer::Pushed),
    }
}

/// Ends the process after `limit` even if the daemon died and nobody is there to kill it.
fn end_when_orphaned(limit: Duration) {
    thread::spawn(move || {
        let (_sender, receiver) = mpsc::channel::<()>();
        // Nothing is ever sent: this is a wait that simulated clocks have no part in.
        if receiver.recv_timeout(limit).is_err() {
            process::exit(EXIT_ORPHANED);
        }
    });
}

/// Tells the kernel to kill this process, not the daemon, when a pack eats all the memory.
///
/// Where that is not allowed, the deadline and the limits still hold.
fn offer_to_be_killed_first() {
    drop(fs::write("/proc/self/oom_score_adj", "1000"));
}
