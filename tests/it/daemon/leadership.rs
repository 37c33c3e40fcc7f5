//! Two daemons: never two that act, and no long time without one.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodewright::sim::{Fault, Matching, Request};

use super::safety::{assert_ran_once, assert_safe};
use super::{create, mutating, package, quick, without_git};
use crate::fleet::{Fleet, is_complete, until};

/// How long the other waits at most: the Lease's 10 s, a look a second, and a list.
const TAKEOVER_MAX: SignedDuration = SignedDuration::from_secs(15);

/// How long after a graceful stop the other begins.
const HANDOVER_MAX: SignedDuration = SignedDuration::from_secs(2);

async fn fleet() -> Fleet {
    let fleet = Fleet::with(3, quick()).await;
    create(&fleet, "count: 1", &package("kernel", "1.0.0", "interrupt:\n  type: reboot")).await;
    fleet
}

pub fn acts(fleet: &Fleet, agent: &str) -> Vec<Request> {
    mutating(fleet, agent).into_iter().filter(|it| it.resource != "leases").collect()
}

/// Every change was made by whoever the Lease named when it was made.
pub fn assert_one_acts(fleet: &Fleet) {
    let mut holder = String::new();
    for request in fleet.cluster.requests() {
        let is_done = request.effect.is_some_and(|code| code < 300);
        if !is_done || !request.verb.is_mutating() || !is_daemon(&request.user_agent) {
            continue;
        }
        if request.resource == "leases" {
            let named = request.body["spec"]["holderIdentity"].as_str().unwrap_or_default();
            named.clone_into(&mut holder);
        } else {
            assert_eq!(request.user_agent, holder, "{request}");
        }
    }
}

fn is_daemon(agent: &str) -> bool {
    agent == "one" || agent == "two"
}

/// Waits until `agent` has done something.
async fn has_acted(fleet: &Fleet, agent: &str) -> Timestamp {
    loop {
        if let Some(first) = acts(fleet, agent).first() {
            return first.time;
        }
        fleet.clock.sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_leader_is_replaced_and_does_nothing_when_it_comes_back() {
    let fleet = fleet().await;
    let one = without_git(&fleet, "one");
    has_acted(&fleet, "one").await;
    let two = without_git(&fleet, "two");
    // Frozen: nothing it asks for is answered for half a minute, then everything works again.
    let frozen = fleet.clock.now();
    let pause = Fault::Delay(Duration::from_secs(30));
    fleet.cluster.faults().next(Matching::any().user_agent("one"), usize::MAX, pause);
    let began = has_acted(&fleet, "two").await;
    assert!(began.duration_since(frozen) < TAKEOVER_MAX, "frozen {frozen}, replaced {began}");
    fleet.cluster.faults().heal();
    until(&two, fleet.clock, is_complete).await;
    fleet.clock.sleep(Duration::from_mins(2)).await;

    let late = acts(&fleet, "one").into_iter().filter(|it| it.time >= began).count();
    assert_eq!(late, 0, "the old leader acted after the new one");
    assert_one_acts(&fleet);
    assert_ran_once(&fleet, 1);
    assert_safe(&fleet, &["kernel"], 1);
    one.stop().await.expect("a graceful stop");
    two.stop().await.expect("a graceful stop");
    fleet.assert_released().await;
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_ends_its_writes_and_hands_over_at_once() {
    let fleet = fleet().await;
    let one = without_git(&fleet, "one");
    has_acted(&fleet, "one").await;
    let two = without_git(&fleet, "two");
    fleet.clock.sleep(Duration::from_secs(2)).await;

    one.stop().await.expect("a graceful stop");
    let stopped = fleet.clock.now();
    until(&two, fleet.clock, is_complete).await;

    for request in mutating(&fleet, "one") {
        assert!(request.code.is_some(), "left without an answer: {request}");
    }
    let released = mutating(&fleet, "one").last().cloned().expect("a last request");
    assert_eq!(released.body["spec"]["holderIdentity"], "", "{released}");
    let began = has_acted(&fleet, "two").await;
    assert!(began.duration_since(stopped) < HANDOVER_MAX, "stopped {stopped}, next {began}");
    assert_one_acts(&fleet);
    assert_ran_once(&fleet, 1);
    two.stop().await.expect("a graceful stop");
    fleet.stop().await;
}
