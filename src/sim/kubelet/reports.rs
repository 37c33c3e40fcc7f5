//! The reports of one pod: what its containers did reaches the API server while they go on.
//!
//! In: statuses, each whole, in their order. Out: writes, one at a time, of the newest only, as the
//! status manager of a real kubelet does. Nothing waits for a report that will soon be outdated.
//! Must never: let an older status land after a newer one.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::edge::{Edge, Landed, PodId};

/// Where the statuses of a pod go.
pub(super) struct Reports {
    newest: watch::Sender<Report>,
    written: watch::Receiver<Written>,
}

/// Writes them; runs beside what makes them.
pub(super) struct Writer {
    edge: Edge,
    pod: PodId,
    /// Shortest time from one write to the next that nobody waits for.
    period: Duration,
    newest: watch::Receiver<Report>,
    written: watch::Sender<Written>,
}

/// A status, and how many there were with it.
struct Report {
    number: u64,
    status: Value,
    /// Whether somebody waits until it is written.
    is_awaited: bool,
}

/// Up to which number statuses are written, and whether the pod is still there.
struct Written {
    number: u64,
    landed: Landed,
}

/// Returns both ends.
pub(super) fn reports(edge: Edge, pod: PodId, period: Duration) -> (Reports, Writer) {
    let none = Report { number: 0, status: Value::Null, is_awaited: false };
    let (newest_sender, newest) = watch::channel(none);
    let (written_sender, written) = watch::channel(Written { number: 0, landed: Landed::Yes });
    let writer = Writer { edge, pod, period, newest, written: written_sender };
    (Reports { newest: newest_sender, written }, writer)
}

impl Reports {
    /// Reports a status, and returns when it is written.
    pub async fn write(&mut self, status: Value) -> Landed {
        let number = self.put(status, true);
        let is_over =
            |written: &Written| written.number >= number || written.landed == Landed::ObjectGone;
        match self.written.wait_for(is_over).await {
            Ok(written) => written.landed,
            // The writer has ended, and this pod's task with it.
            Err(_) => Landed::ObjectGone,
        }
    }

    /// Reports a status that will soon be different again. Says whether the pod is still there, as
    /// far as is known.
    pub fn note(&mut self, status: Value) -> Landed {
        self.put(status, false);
        self.written.borrow().landed
    }

    fn put(&mut self, status: Value, is_awaited: bool) -> u64 {
        let number = self.newest.borrow().number + 1;
        self.newest.send_replace(Report { number, status, is_awaited });
        number
    }
}

impl Writer {
    /// Writes what is newest, until the pod is gone.
    pub async fn run(mut self) {
        while self.newest.changed().await.is_ok() {
            let (number, status) = {
                let newest = self.newest.borrow_and_update();
                (newest.number, newest.status.clone())
            };
            let landed = self.edge.write_pod_status(&self.pod, &status).await;
            self.written.send_replace(Written { number, landed });
            if landed == Landed::ObjectGone {
                break;
            }
            if self.period.is_zero() {
                continue;
            }
            let clock = self.edge.clock;
            tokio::select! {
                () = clock.sleep(self.period) => {}
                _ = self.newest.wait_for(|it| it.is_awaited && it.number > number) => {}
            }
            // The wait has looked at what came meanwhile; it is still to be written.
            if self.newest.borrow().number > number {
                self.newest.mark_changed();
            }
        }
        std::future::pending::<()>().await;
    }
}
