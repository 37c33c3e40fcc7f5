//! Whether upstream's operator leads: while it does, nothing is done here.
//!
//! In: its Leases as they are seen. Out: who leads, said once when it begins and once when it ends.
//! Must never: let both act on the same nodes at once.

use jiff::Timestamp;

use crate::cluster::upstream_lease::{Rival, Rivals, UpstreamLease};

/// What we know of upstream's operator.
#[derive(Debug, Default)]
pub(super) struct RivalWatch {
    rivals: Rivals,
    /// Who leads, as of the last look.
    pub leads: Option<Rival>,
}

impl RivalWatch {
    /// Looks again.
    pub fn look(&mut self, leases: &[UpstreamLease], now: Timestamp) {
        let leads = self.rivals.leading(leases, now);
        let holder = |rival: &Option<Rival>| rival.as_ref().map(|rival| rival.holder.clone());
        match &leads {
            Some(rival) if holder(&self.leads) != holder(&leads) => {
                tracing::warn!(why = rival.words(), "nothing is done");
            }
            None if self.leads.is_some() => {
                tracing::info!("upstream's operator does not lead any more: going on");
            }
            Some(_) | None => {}
        }
        self.leads = leads;
    }
}
