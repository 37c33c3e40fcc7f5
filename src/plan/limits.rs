//! Every bound of the planner, with the reason for it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::HOST_LOST_AFTER;

/// Attempts at a stage before the node counts as erroring: upstream's back-off limit of 3 and the
/// first try (upstream contract B.16).
pub(crate) const ATTEMPTS_MAX: i32 = 4;

/// Wait before the second attempt; doubles with each one after it. Long enough for a package
/// mirror's hiccup, short enough for a person who watches.
const BACK_OFF_FIRST: Duration = Duration::from_secs(10);

/// Longest wait between attempts, so that a repaired mirror is noticed in a coffee's time.
const BACK_OFF_MAX: Duration = Duration::from_mins(5);

/// Wait before an eviction that a budget refused is asked again: the budget's own controller
/// needs a moment, and the API server should not be asked every second by every node.
pub(crate) const EVICTION_RETRY: Duration = Duration::from_secs(10);

/// How long after its last second a pod on an unreachable node is still waited for. Its deletion
/// timestamp includes the grace period already (failures A17); a minute more is what a kubelet
/// that is alive but cut off may be late by its clock and its runtime.
pub(crate) const UNREACHABLE_MARGIN: Duration = Duration::from_mins(1);

/// Longest wait for a protected pod while nodes without one are left: then the node is let go and
/// put last (design §6). A quarter of an hour lets a job at its end finish, and costs a GPU node
/// little.
pub(crate) const PROTECTED_PATIENCE: Duration = Duration::from_mins(15);

/// A cordon that is lifted this soon after it was set was lifted by a program: a person has yet to
/// see it.
pub(crate) const CORDON_REFLEX: Duration = Duration::from_secs(10);

/// How often a cordon that a controller lifts is put back in one visit (design §6).
pub(crate) const RECORDONS_MAX: u32 = 3;

/// Longest time for a node to come back from a reboot.
pub(crate) const REBOOT_DEADLINE: Duration = HOST_LOST_AFTER;

/// How long a kubelet may take to start a pod before people are told: pulls of large images and a
/// busy kubelet take tens of seconds.
pub(crate) const START_NOTICE: Duration = Duration::from_secs(30);

/// How long a pod may fail to start before a person must look: a registry's hiccup is shorter
/// (design §6).
pub(crate) const START_DEADLINE: Duration = Duration::from_mins(5);

/// How long a pod may be in the making: a large image over a slow link, or a volume that cannot be
/// mounted. As long as the margin that a pod's own deadline leaves for it.
pub(crate) const CREATE_DEADLINE: Duration = Duration::from_mins(15);

/// How long the pods of a visit stay after it, so that a late create of the same name fails.
pub(crate) const TOMBSTONE: Duration = Duration::from_mins(1);

/// Clean-up happens on multiples of this, so that the visits of a batch share one request.
pub(crate) const CLEAN_UP_EVERY: Duration = Duration::from_secs(30);

/// Longest text in a record: annotations are read with every node, so they stay small.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1024;

/// Returns `at` plus `duration`, at the end of time at the latest.
pub(crate) fn after(at: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|duration| at.checked_add(duration).ok())
        .unwrap_or(Timestamp::MAX)
}

/// Returns the wait after `failures` failed attempts: 10 s, 20 s, 40 s, … at most 5 min.
pub(crate) fn back_off(failures: i32) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(0).min(16);
    BACK_OFF_FIRST.saturating_mul(1 << doublings).min(BACK_OFF_MAX)
}

/// Cuts `text` at a character boundary so that it has at most `bytes_max` bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
