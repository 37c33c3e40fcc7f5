//! The wish to stop: SIGTERM of the kubelet, or a test.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

/// How often a waiting agent looks whether it shall stop: far below any grace period.
pub(super) const STOP_POLL: Duration = Duration::from_millis(100);

/// Tells whether the agent was asked to stop; cheap to copy, the same for everyone with a copy.
///
/// The running step is always allowed to finish: half a package is worse than a late one.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Returns a wish that SIGTERM and SIGINT of this process express.
    pub fn on_termination() -> io::Result<Self> {
        let stop = Self::default();
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
        }
        Ok(stop)
    }

    /// Asks the agent to stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Tells whether the agent was asked to stop.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits until `limit` has passed or a stop is requested, whichever is first.
    pub(super) fn wait(&self, limit: Duration) {
        // Nobody ever sends: the channel is a way to wait that a signal's flag can cut short.
        let (_sender, receiver) = mpsc::channel::<()>();
        let mut passed = Duration::ZERO;
        while passed < limit && !self.is_requested() {
            if receiver.recv_timeout(STOP_POLL).is_ok() {
                return;
            }
            passed += STOP_POLL;
        }
    }
}
