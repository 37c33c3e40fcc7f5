//! One candidate's reads and writes of the Lease.
//!
//! In: what the Lease says, and since when it has said so on our clock. Out: our term, begun,
//! renewed or given up, each by one write with resourceVersion.
//! Must never: write over a version of the Lease that it has not read.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};

use super::{Epoch, LEASE_DURATION, LEASE_NAME};
use crate::api::keys::FIELD_MANAGER;
use crate::clock::Clock;
use crate::cluster::error::{ClusterError, Disposition};
use crate::cluster::fence::{REQUEST_TIMEOUT, bounded};

/// Longest duration that another holder's Lease is waited for, whatever it says.
///
/// A mistyped duration must not keep everybody out for ever.
const FOREIGN_DURATION_MAX: Duration = Duration::from_secs(60);

/// What a candidate knows of the Lease.
#[derive(Debug)]
pub(super) struct Candidate {
    leases: Api<Lease>,
    identity: String,
    clock: Clock,
    sighting: Option<Sighting>,
    /// The highest epoch seen or used.
    epoch: Epoch,
    /// The epoch we wrote into the Lease, or may have: an answer can be lost.
    claimed: Option<Epoch>,
}

/// Another holder's Lease, and since when it has looked like this on our clock.
#[derive(Debug)]
struct Sighting {
    holder: String,
    version: Option<String>,
    since: Timestamp,
    duration: Duration,
}

/// The Lease as we last wrote it.
#[derive(Debug)]
pub(super) struct Held {
    pub epoch: Epoch,
    /// When the renewal that counts was sent.
    pub sent: Timestamp,
    lease: Lease,
}

/// What an attempt to renew or give up came to.
#[derive(Debug)]
pub(super) enum Renewal {
    /// The Lease is ours.
    Kept(Box<Held>),
    /// It is not ours any more; the holder's name is empty when there is none.
    Lost { holder: String },
}

/// Who a Lease is to be held by.
#[derive(Debug, Clone, Copy)]
enum Holder {
    Us,
    Nobody,
}

impl Held {
    /// Returns from when on we must not act unless the Lease is renewed (design §4 rule 10).
    pub fn valid_until(&self) -> Timestamp {
        later(self.sent, LEASE_DURATION.saturating_sub(REQUEST_TIMEOUT))
    }
}

impl Candidate {
    pub fn new(leases: Api<Lease>, identity: &str, clock: Clock) -> Self {
        let identity = identity.to_owned();
        Self { leases, identity, clock, sighting: None, epoch: 0, claimed: None }
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Looks at the Lease and takes it if it is free; `None` while somebody else holds it.
    pub async fn try_to_lead(&mut self) -> Result<Option<Held>, ClusterError> {
        let lease = self.read().await?;
        if !self.is_free(lease.as_ref()) {
            return Ok(None);
        }
        let epoch = self.epoch.saturating_add(1);
        let lease = lease.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(LEASE_NAME.to_owned()), ..ObjectMeta::default() },
            spec: None,
        });
        let claimed_before = self.claimed;
        let error = match self.write(lease, epoch, Holder::Us).await {
            Ok(held) => {
                self.sighting = None;
                return Ok(Some(held));
            }
            Err(error) => error,
        };
        if error.code().is_some_and(|code| code < 500) {
            // Refused for certain: if this epoch is in the Lease, it is another candidate's.
            self.claimed = claimed_before;
        }
        if error.disposition() == Disposition::Conflict { Ok(None) } else { Err(error) }
    }

    /// Renews the Lease.
    ///
    /// A conflict is not yet a loss: a renewal whose answer was lost, or somebody's label on the
    /// Lease, changes its version as well. So the Lease is read again, once.
    pub async fn renew(&mut self, held: &Held) -> Result<Renewal, ClusterError> {
        self.rewrite(held, Holder::Us).await
    }

    /// Gives the Lease up, so that the next candidate need not wait until it runs out.
    pub async fn give_up(&mut self, held: &Held) -> Result<Renewal, ClusterError> {
        self.rewrite(held, Holder::Nobody).await
    }

    /// Returns the holder that was last seen, for people.
    pub fn seen_holder(&self) -> Option<&str> {
        self.sighting.as_ref().map(|sighting| sighting.holder.as_str())
    }

    async fn rewrite(&mut self, held: &Held, holder: Holder) -> Result<Renewal, ClusterError> {
        let (mut lease, mut reread) = (held.lease.clone(), false);
        loop {
            match self.write(lease, held.epoch, holder).await {
                Ok(held) => return Ok(Renewal::Kept(Box::new(held))),
                Err(error) if error.is_not_found() => return Ok(lost("")),
                Err(error) if error.disposition() != Disposition::Conflict || reread => {
                    return Err(error);
                }
                Err(_conflict) => reread = true,
            }
            let Some(there) = self.read().await? else { return Ok(lost("")) };
            if !self.is_own(&there, held.epoch) {
                return Ok(lost(holder_of(&there)));
            }
            lease = there;
        }
    }

    /// Writes a version of the Lease that was read before; a new one is created.
    async fn write(
        &mut self,
        mut lease: Lease,
        epoch: Epoch,
        holder: Holder,
    ) -> Result<Held, ClusterError> {
        let sent = self.clock.now();
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if spec.lease_transitions != Some(epoch) {
            spec.acquire_time = Some(MicroTime(sent));
        }
        spec.holder_identity = Some(match holder {
            Holder::Us => self.identity.clone(),
            Holder::Nobody => String::new(),
        });
        spec.lease_duration_seconds = i32::try_from(LEASE_DURATION.as_secs()).ok();
        spec.lease_transitions = Some(epoch);
        spec.renew_time = Some(MicroTime(sent));
        self.epoch = self.epoch.max(epoch);
        self.claimed = Some(epoch);
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        let answer = if lease.metadata.resource_version.is_none() {
            bounded(self.clock, "create the Lease", self.leases.create(&params, &lease)).await
        } else {
            let request = self.leases.replace(LEASE_NAME, &params, &lease);
            bounded(self.clock, "renew the Lease", request).await
        };
        Ok(Held { epoch, sent, lease: answer? })
    }

    async fn read(&self) -> Result<Option<Lease>, ClusterError> {
        bounded(self.clock, "read the Lease", self.leases.get_opt(LEASE_NAME)).await
    }

    /// Returns whether the Lease may be taken, and remembers what it looks like.
    fn is_free(&mut self, lease: Option<&Lease>) -> bool {
        let now = self.clock.now();
        let Some(lease) = lease else {
            // Somebody deleted it; its holder may still act until it would have run out.
            return self.sighting.as_ref().is_none_or(|sighting| sighting.has_run_out(now));
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let epoch = spec.lease_transitions.unwrap_or(0);
        self.epoch = self.epoch.max(epoch);
        let holder = holder_of(lease);
        if holder.is_empty() || self.is_own(lease, epoch) {
            return true;
        }
        if let Some(sighting) = &self.sighting
            && sighting.version == lease.metadata.resource_version
        {
            return sighting.has_run_out(now);
        }
        let said = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let said = said.map_or(LEASE_DURATION, Duration::from_secs);
        self.sighting = Some(Sighting {
            holder: holder.to_owned(),
            version: lease.metadata.resource_version.clone(),
            since: now,
            duration: said.clamp(LEASE_DURATION, FOREIGN_DURATION_MAX),
        });
        false
    }

    /// Returns whether it was this process that wrote the Lease in that epoch.
    fn is_own(&self, lease: &Lease, epoch: Epoch) -> bool {
        let there = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        holder_of(lease) == self.identity
            && self.claimed == Some(epoch)
            && there.unwrap_or(0) == epoch
    }
}

impl Sighting {
    fn has_run_out(&self, now: Timestamp) -> bool {
        now >= later(self.since, self.duration)
    }
}

fn holder_of(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn lost(holder: &str) -> Renewal {
    Renewal::Lost { holder: holder.to_owned() }
}

fn later(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
