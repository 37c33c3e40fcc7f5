//! What the API server refused, remembered beside what is known.
//!
//! In: refusals of evictions and creations. Out: entries that the view shows, for as long as they
//! say something. Must never: outlive what was refused.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{Change, State, Store};
use crate::model::{PodRef, Refusal, Rejection};

/// How long a rejection that is not repeated is remembered: whatever asked for it has ended.
const REJECTION_KEPT: Duration = Duration::from_hours(1);

impl Store {
    /// Remembers that a disruption budget does not let a pod go, so that it is not asked at once
    /// again; forgotten with the pod.
    pub fn note_refusal(&self, pod: &PodRef, refusal: Refusal) {
        self.with(|state, _| {
            drop(state.refusals.insert(pod.uid.clone(), (pod.clone(), refusal)));
            let State { refusals, pods, .. } = state;
            refusals.retain(|uid, (pod, _)| {
                pods.get(&pod.to_string()).is_some_and(|kept| kept.pod.reference.uid == *uid)
            });
            Change::Visible
        });
    }

    /// Returns the labels of this very pod.
    pub fn pod_labels(&self, pod: &PodRef) -> Option<BTreeMap<String, String>> {
        let state = self.lock();
        let kept = state.pods.get(&pod.to_string()).filter(|it| it.pod.reference.uid == pod.uid);
        kept.map(|kept| kept.pod.labels.clone())
    }

    /// Remembers that something could not be created.
    pub fn note_rejection(&self, key: String, now: Timestamp, message: String) {
        self.with(|state, _| {
            let kept = |rejection: &Rejection| {
                now.duration_since(rejection.at).unsigned_abs() < REJECTION_KEPT
            };
            state.rejections.retain(|_, rejection| kept(rejection));
            let since = state.rejections.get(&key).map_or(now, |known| known.since);
            state.rejections.insert(key, Rejection { since, at: now, message });
            Change::Visible
        });
    }

    /// Forgets a rejection: it could be created.
    pub fn forget_rejection(&self, key: &str) {
        if self.lock().rejections.contains_key(key) {
            self.with(|state, _| {
                state.rejections.remove(key);
                Change::Visible
            });
        }
    }

    /// Returns whether a pod that is known is no executor of ours.
    pub fn is_foreign_pod(&self, pod: &PodRef) -> bool {
        let state = self.lock();
        state.pods.get(&pod.to_string()).is_some_and(|kept| kept.executor.is_none())
    }
}
