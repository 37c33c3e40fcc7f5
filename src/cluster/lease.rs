//! Leadership by a Lease, and the proof of it that every mutating request needs.
//!
//! In: a client, a name for this process, the clock. Out: who may act, until when, and the number
//! of the term (its epoch). Rules (design §4 rule 10): we act only while the time since the last
//! renewal *was sent* is less than the lease's duration less the time-out of a request; another
//! candidate takes over only when it has not seen the Lease change for the whole duration, as told
//! by its own clock. So the requests of one leader have ended before those of the next begin.
//! Must never: compare the API server's clock, or another candidate's, with ours; let a proof of
//! one term hold in the next.

mod candidate;
mod term;

use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::candidate::Candidate;
use crate::clock::Clock;

/// Name of the Lease, in our namespace.
pub const LEASE_NAME: &str = "nodewright";

/// How long the others wait after the last renewal they saw (design §4 rule 10).
pub const LEASE_DURATION: Duration = Duration::from_secs(10);

/// How often the holder renews: two renewals may fail before its right to act ends.
pub const RENEW_PERIOD: Duration = Duration::from_secs(3);

/// How often candidates look, and how soon a failed renewal is tried again.
///
/// Bounds how long a released Lease lies unused; costs one read per candidate and period.
pub const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// Shows that this process may change the cluster, for as long as [`LeaderProof::is_valid`] says.
///
/// Cheap to clone; all clones of a term are fenced together, and none is valid in a later term.
#[derive(Debug, Clone)]
pub struct LeaderProof {
    clock: Clock,
    valid_until: watch::Receiver<Option<Timestamp>>,
}

/// One term of leadership.
#[derive(Debug, Clone)]
struct Term {
    proof: LeaderProof,
    epoch: Epoch,
}

/// Number of a term; each is greater than all before it (`leaseTransitions` of the Lease).
///
/// Starts again at 1 only when somebody deletes the Lease and no candidate remembers it.
pub type Epoch = i32;

/// Takes part in the election for as long as it lives, and knows whether this process leads.
///
/// Dropping it gives the Lease up in the background; [`Leader::stop`] waits until that is done.
#[derive(Debug)]
pub struct Leader {
    term: watch::Receiver<Option<Term>>,
    task: JoinHandle<()>,
    stop: DropGuard,
}

impl LeaderProof {
    /// Wraps the end of our right to act; `None` fences every holder at once.
    pub fn new(clock: Clock, valid_until: watch::Receiver<Option<Timestamp>>) -> Self {
        Self { clock, valid_until }
    }

    /// Returns whether a mutating request may be sent now.
    pub fn is_valid(&self) -> bool {
        self.valid_until.borrow().is_some_and(|until| self.clock.now() < until)
    }
}

impl Leader {
    /// Begins to take part; must be called in a tokio runtime.
    ///
    /// `identity` must be another one for each process, restarts of one pod included (the pod's
    /// name and something random): it is how a candidate knows its own Lease again. After
    /// `shutdown` no proof is valid, and the Lease is given up when the requests under way have
    /// ended.
    pub fn start(
        client: Client,
        identity: &str,
        namespace: &str,
        clock: Clock,
        shutdown: &CancellationToken,
    ) -> Self {
        let stop = shutdown.child_token();
        let (sender, term) = watch::channel(None);
        let leases = Api::namespaced(client, namespace);
        let candidate = Candidate::new(leases, identity, clock);
        let task = tokio::spawn(term::run(candidate, sender, stop.clone()));
        Self { term, task, stop: stop.drop_guard() }
    }

    /// Returns the proof, if this process leads and may act right now.
    pub fn proof(&self) -> Option<LeaderProof> {
        self.current().map(|term| term.proof)
    }

    /// Returns the number of our term, if this process leads and may act right now.
    pub fn epoch(&self) -> Option<Epoch> {
        self.current().map(|term| term.epoch)
    }

    /// Waits until this process begins to lead or ceases to; at once if it did since the last
    /// call. Never returns after the election has ended.
    pub async fn changed(&mut self) {
        if self.term.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends taking part: fences every proof, then gives the Lease up, then returns.
    ///
    /// Takes as long as the requests under way, at most one request time-out, and one request.
    pub async fn stop(self) {
        let Self { term, task, stop } = self;
        drop(term);
        stop.disarm().cancel();
        if let Err(error) = task.await {
            tracing::error!(error = &error as &dyn std::error::Error, "election task failed");
        }
    }

    fn current(&self) -> Option<Term> {
        self.term.borrow().clone().filter(|term| term.proof.is_valid())
    }
}
