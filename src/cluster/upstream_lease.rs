//! The Lease of upstream's operator: while somebody renews it, two would act on the same nodes.
//!
//! In: the Lease as it is seen, in any namespace. Out: who leads there, and until when that must be
//! believed. Must never: compare the clock of another process with ours where there is another way:
//! what counts is when *we* last saw the Lease change.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::core::ObjectMeta;
use serde::Deserialize;

use super::shelf::Shelf;
use super::slim::{WireMeta, null_as_empty, watchable_as};
use super::store::{Places, State, Watched, namespaced};

/// Name of the Lease of upstream's operator (upstream contract H.3).
pub const UPSTREAM_LEASE: &str = "3c22c1ae.nvidia.com";

/// How long a Lease lasts that does not say: the default of upstream's library.
const DURATION_DEFAULT_SECONDS: u32 = 15;

/// A Lease that was last renewed so long ago, by its own word, has no living holder: no two clocks
/// of one cluster differ by as much.
const LONG_AGO: SignedDuration = SignedDuration::from_mins(10);

/// The Lease of upstream's operator in one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamLease {
    /// Where it is.
    pub namespace: String,
    /// Who holds it; empty when it was given up.
    pub holder: String,
    /// When it was last renewed, by the holder's clock.
    pub renewed: Option<Timestamp>,
    /// How long it lasts from there.
    pub duration: Duration,
}

/// Somebody who leads for upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    /// Where its Lease is.
    pub namespace: String,
    /// Who holds it.
    pub holder: String,
    /// Until when we hold back, if it is not renewed again.
    pub until: Timestamp,
}

/// What we saw of the Leases so far.
#[derive(Debug, Default)]
pub struct Rivals {
    /// By namespace: the last renewal, and when we first saw it.
    seen: BTreeMap<String, (Option<Timestamp>, Timestamp)>,
}

impl Rivals {
    /// Returns who leads for upstream now, of several the one that lasts longest.
    pub fn leading(&mut self, leases: &[UpstreamLease], now: Timestamp) -> Option<Rival> {
        self.seen.retain(|namespace, _| leases.iter().any(|lease| lease.namespace == *namespace));
        let rivals = leases.iter().filter_map(|lease| self.rival(lease, now));
        let rivals: Vec<Rival> = rivals.collect();
        rivals.into_iter().max_by_key(|rival| rival.until)
    }

    fn rival(&mut self, lease: &UpstreamLease, now: Timestamp) -> Option<Rival> {
        if lease.holder.is_empty() || lease.is_long_ago(now) {
            return None;
        }
        let seen = self.seen.entry(lease.namespace.clone()).or_insert((lease.renewed, now));
        if seen.0 != lease.renewed {
            *seen = (lease.renewed, now);
        }
        let lasts = SignedDuration::try_from(lease.duration).unwrap_or(LONG_AGO);
        let until = seen.1.checked_add(lasts).unwrap_or(Timestamp::MAX);
        let UpstreamLease { namespace, holder, .. } = lease.clone();
        (now < until).then_some(Rival { namespace, holder, until })
    }
}

impl UpstreamLease {
    /// Returns whether nobody can be behind it any more.
    fn is_long_ago(&self, now: Timestamp) -> bool {
        self.renewed.is_none_or(|renewed| now.duration_since(renewed) > LONG_AGO)
    }
}

impl Rival {
    /// Returns why nothing is done, and the way out.
    pub fn words(&self) -> String {
        let Self { namespace, holder, until: _ } = self;
        format!(
            "upstream's operator leads ({holder} renews the Lease {UPSTREAM_LEASE} in namespace \
             {namespace}): scale it to zero first"
        )
    }
}

/// A Lease, trimmed.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "WireLease")]
pub struct SlimLease {
    /// What kube's watcher asks for.
    pub metadata: ObjectMeta,
    /// What we keep.
    pub lease: UpstreamLease,
}

watchable_as!(SlimLease, k8s_openapi::api::coordination::v1::Lease);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireLease {
    metadata: WireMeta,
    #[serde(deserialize_with = "null_as_empty")]
    spec: WireLeaseSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireLeaseSpec {
    holder_identity: Option<String>,
    renew_time: Option<Timestamp>,
    lease_duration_seconds: Option<u32>,
}

impl From<WireLease> for SlimLease {
    fn from(wire: WireLease) -> Self {
        let WireLease { metadata, spec } = wire;
        let seconds = spec.lease_duration_seconds.unwrap_or(DURATION_DEFAULT_SECONDS);
        let shell = metadata.shell();
        let lease = UpstreamLease {
            namespace: metadata.namespace,
            holder: spec.holder_identity.unwrap_or_default(),
            renewed: spec.renew_time,
            duration: Duration::from_secs(u64::from(seconds)),
        };
        Self { metadata: shell, lease }
    }
}

impl Watched for SlimLease {
    type Kept = UpstreamLease;
    const KIND: &'static str = "leases";
    const MAY_BE_ABSENT: bool = true;

    fn shelf(state: &mut State) -> &mut Shelf<UpstreamLease> {
        &mut state.leases
    }

    fn keep(self, _places: &Places) -> UpstreamLease {
        self.lease
    }

    fn is_same(one: &UpstreamLease, other: &UpstreamLease) -> bool {
        // A renewal wakes nobody: whoever holds back looks again when its time is up.
        (&one.holder, one.duration) == (&other.holder, other.duration)
    }

    fn key(&self) -> String {
        namespaced(&self.metadata)
    }
}
