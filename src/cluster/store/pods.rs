//! How pods are kept, and since when each is going.
//!
//! In: a pod off the wire. Out: what drains ask, and the executor or the work of upstream's that it
//! is. Must never: take a time of the API server's clock for one of ours.

use jiff::Timestamp;

use super::{KeptPod, Places, State, Watched};
use crate::cluster::executor_state;
use crate::cluster::shelf::Shelf;
use crate::cluster::slim_pod::SlimPod;
use crate::cluster::upstream::{self, UpstreamPod};

impl Watched for SlimPod {
    type Kept = KeptPod;
    const KIND: &'static str = "pods";

    fn shelf(state: &mut State) -> &mut Shelf<KeptPod> {
        &mut state.pods
    }

    fn keep(mut self, places: &Places) -> KeptPod {
        // Labels are anybody's to write: an executor is in our namespace or in upstream's.
        let namespace = &self.pod.reference.namespace;
        self.pod.executor = self.pod.executor && places.all.contains(namespace);
        let is_ours = self.pod.executor && *namespace == places.own;
        let executor = if is_ours { executor_state::read(&self) } else { None };
        let mut upstream =
            if self.pod.executor && executor.is_none() { upstream::of_pod(&self) } else { None };
        let now = places.clock.now();
        if let Some(UpstreamPod::Work(work)) = &mut upstream {
            work.seen = now;
        }
        let over = now.checked_add(self.grace).unwrap_or(Timestamp::MAX);
        self.pod.deletes_at = self.pod.terminating.then_some(over);
        KeptPod { pod: self.pod, executor, upstream }
    }

    fn carry(kept: &mut KeptPod, before: &KeptPod) {
        // A deletion that is repeated may shorten the grace.
        let times = kept.pod.deletes_at.zip(before.pod.deletes_at);
        kept.pod.deletes_at = times.map(|(now, then)| now.min(then)).or(kept.pod.deletes_at);
        if let (Some(UpstreamPod::Work(work)), Some(UpstreamPod::Work(seen))) =
            (&mut kept.upstream, &before.upstream)
        {
            work.seen = seen.seen;
        }
    }

    fn is_same(one: &KeptPod, other: &KeptPod) -> bool {
        one == other
    }

    fn key(&self) -> String {
        self.pod.reference.to_string()
    }
}
