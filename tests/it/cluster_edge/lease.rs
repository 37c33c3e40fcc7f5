//! Two candidates for one Lease: never two leaders, whatever happens to requests.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use nodewright::clock::Clock;
use nodewright::cluster::Leader;
use nodewright::cluster::lease::{LEASE_DURATION, LEASE_NAME, RETRY_PERIOD};
use nodewright::sim::{Cluster, Fault, Matching, Verb};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::cluster;

/// How often the two candidates are looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// The time a mutating request may take: `LEASE_DURATION` less this is how long a proof holds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

fn candidate(cluster: &Cluster, name: &str) -> Leader {
    let (client, stop) = (cluster.client(name), CancellationToken::new());
    Leader::start(client, name, "nodewright", cluster.clock(), &stop)
}

fn leases(cluster: &Cluster) -> Api<Lease> {
    Api::namespaced(cluster.client("test"), "nodewright")
}

async fn holder(cluster: &Cluster) -> (String, i32) {
    let spec = leases(cluster).get(LEASE_NAME).await.expect("the Lease").spec.expect("a spec");
    (spec.holder_identity.expect("a holder"), spec.lease_transitions.expect("an epoch"))
}

async fn begins_to_lead(leader: &mut Leader) {
    while leader.proof().is_none() {
        leader.changed().await;
    }
}

fn passed(clock: Clock, since: Timestamp) -> Duration {
    Duration::try_from(clock.now().duration_since(since)).expect("time goes on")
}

fn requests_of(name: &str, verb: Verb) -> Matching {
    Matching::any().user_agent(name).resource("leases").verb(verb)
}

/// Looks at both for so long and returns who led at each look: `a`, `b` or `-`.
async fn watch_both(clock: Clock, a: &Leader, b: &Leader, duration: Duration) -> String {
    let (began, mut seen) = (clock.now(), String::new());
    while passed(clock, began) < duration {
        let now = match (a.proof().is_some(), b.proof().is_some()) {
            (true, true) => panic!("two leaders after {:?}", passed(clock, began)),
            (true, false) => 'a',
            (false, true) => 'b',
            (false, false) => '-',
        };
        if !seen.ends_with(now) {
            seen.push(now);
        }
        clock.sleep(LOOK_PERIOD).await;
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_and_keeps_leading() {
    let cluster = cluster();
    let mut a = candidate(&cluster, "a");
    begins_to_lead(&mut a).await;
    let b = candidate(&cluster, "b");

    let seen = watch_both(cluster.clock(), &a, &b, Duration::from_secs(300)).await;

    assert_eq!(seen, "a");
    assert_eq!(a.epoch(), Some(1));
    assert_eq!(b.epoch(), None);
    assert_eq!(holder(&cluster).await, ("a".to_owned(), 1));
    let writes = super::writes(&cluster, "leases");
    assert!(writes.iter().all(|request| request.user_agent == "a"), "b only reads");
    assert!((100..=102).contains(&writes.len()), "one write in 3 s, not {}", writes.len());
}

#[tokio::test(start_paused = true)]
async fn never_two_leaders_whatever_happens_to_the_renewals_of_one() {
    let faults = [
        Fault::NeverAnswered,
        Fault::AnswerLost,
        Fault::Delay(Duration::from_millis(1900)),
        Fault::Delay(Duration::from_secs(30)),
        Fault::ConnectionRefused,
        Fault::InternalError,
        Fault::Unavailable,
        Fault::Conflict,
    ];
    for fault in faults {
        for skip in [0, 2, 7] {
            for times in [1, 3, 12] {
                let cluster = cluster();
                let mut a = candidate(&cluster, "a");
                begins_to_lead(&mut a).await;
                let b = candidate(&cluster, "b");
                let matching = requests_of("a", Verb::Update);
                cluster.faults().after(matching, skip, times, fault.clone());

                let seen = watch_both(cluster.clock(), &a, &b, Duration::from_secs(60)).await;

                let end = seen.chars().last().expect("looked at");
                assert_ne!(end, '-', "{fault:?} from {skip} for {times}: {seen}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_proof_ends_before_the_lease_when_renewals_fail() {
    for fault in [Fault::InternalError, Fault::ConnectionRefused, Fault::NeverAnswered] {
        let cluster = cluster();
        let clock = cluster.clock();
        let mut a = candidate(&cluster, "a");
        begins_to_lead(&mut a).await;
        let proof = a.proof().expect("a leads");
        clock.sleep(Duration::from_secs(7)).await;
        let spec = leases(&cluster).get(LEASE_NAME).await.expect("the Lease").spec.expect("a spec");
        let renewed = spec.renew_time.expect("a renewal").0;
        cluster.faults().next(Matching::any().user_agent("a"), usize::MAX, fault.clone());

        while proof.is_valid() {
            clock.sleep(LOOK_PERIOD).await;
        }

        let held = passed(clock, renewed);
        let bound = LEASE_DURATION - REQUEST_TIMEOUT;
        assert!(held >= bound && held <= bound + LOOK_PERIOD, "{fault:?}: held for {held:?}");
        assert!(a.proof().is_none() && a.epoch().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_followed_within_a_bound() {
    let cluster = cluster();
    let clock = cluster.clock();
    let mut a = candidate(&cluster, "a");
    begins_to_lead(&mut a).await;
    let mut b = candidate(&cluster, "b");
    clock.sleep(Duration::from_secs(20)).await;
    cluster.faults().cut_after("a", 0);
    let died = clock.now();

    begins_to_lead(&mut b).await;

    let took = passed(clock, died);
    let last_renewal_at_most_before = Duration::from_secs(3);
    assert!(took >= LEASE_DURATION - last_renewal_at_most_before, "too soon: {took:?}");
    assert!(took <= LEASE_DURATION + 2 * RETRY_PERIOD, "too late: {took:?}");
    assert!(a.proof().is_none(), "a is fenced although it hears nothing");
    assert_eq!(holder(&cluster).await, ("b".to_owned(), 2));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let cluster = cluster();
    let clock = cluster.clock();
    let mut a = candidate(&cluster, "a");
    begins_to_lead(&mut a).await;
    let mut b = candidate(&cluster, "b");
    clock.sleep(Duration::from_secs(20)).await;
    let stopped = clock.now();

    a.stop().await;
    assert_eq!(holder(&cluster).await, (String::new(), 1));
    begins_to_lead(&mut b).await;

    assert!(passed(clock, stopped) <= RETRY_PERIOD, "took {:?}", passed(clock, stopped));
    assert_eq!(b.epoch(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_given_up_only_after_requests_under_way_had_their_time() {
    let cluster = cluster();
    let clock = cluster.clock();
    let mut a = candidate(&cluster, "a");
    begins_to_lead(&mut a).await;
    let proof = a.proof().expect("a leads");
    let stopped = clock.now();

    let stopping = tokio::spawn(a.stop());
    clock.sleep(Duration::from_secs(1)).await;
    assert!(!proof.is_valid(), "no request is sent after the signal to stop");
    assert_eq!(holder(&cluster).await.0, "a", "but one may still be under way");
    stopping.await.expect("stops");

    assert_eq!(passed(clock, stopped), REQUEST_TIMEOUT, "it waits no longer than a request takes");
    assert_eq!(holder(&cluster).await.0, "");
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_whose_answer_was_lost_is_known_again() {
    let cluster = cluster();
    let clock = cluster.clock();
    let began = clock.now();
    cluster.faults().next(requests_of("a", Verb::Create), 1, Fault::AnswerLost);
    let mut a = candidate(&cluster, "a");

    begins_to_lead(&mut a).await;

    assert!(passed(clock, began) <= RETRY_PERIOD, "took {:?}", passed(clock, began));
    assert_eq!(a.epoch(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_restart_under_the_same_name_waits_like_anybody_else() {
    let cluster = cluster();
    let clock = cluster.clock();
    let mut a = candidate(&cluster, "a");
    begins_to_lead(&mut a).await;
    let began = clock.now();
    let client = cluster.client("a-again");
    let stop = CancellationToken::new();
    let again = Leader::start(client, "a", "nodewright", clock, &stop);

    let seen = watch_both(clock, &a, &again, Duration::from_secs(60)).await;

    assert_eq!(seen, "a");
    assert!(passed(clock, began) >= Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_label_on_the_lease_does_not_end_a_term() {
    let cluster = cluster();
    let clock = cluster.clock();
    let mut a = candidate(&cluster, "a");
    begins_to_lead(&mut a).await;
    let proof = a.proof().expect("a leads");
    let label = Patch::Merge(json!({"metadata": {"labels": {"seen-by": "audit"}}}));
    for _ in 0..5 {
        clock.sleep(Duration::from_secs(4)).await;
        let params = PatchParams::default();
        leases(&cluster).patch(LEASE_NAME, &params, &label).await.expect("labelled");
    }

    clock.sleep(Duration::from_secs(30)).await;

    assert!(proof.is_valid(), "the same term goes on");
    let lease = leases(&cluster).get(LEASE_NAME).await.expect("the Lease");
    assert_eq!(lease.metadata.labels.expect("labels")["seen-by"], "audit", "it stays");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_makes_nobody_hurry() {
    let cluster = cluster();
    let clock = cluster.clock();
    let mut a = candidate(&cluster, "a");
    begins_to_lead(&mut a).await;
    let b = candidate(&cluster, "b");
    clock.sleep(Duration::from_secs(20)).await;
    let params = DeleteParams::default();
    leases(&cluster).delete(LEASE_NAME, &params).await.expect("deleted");

    let seen = watch_both(clock, &a, &b, Duration::from_secs(60)).await;

    assert!(!seen.contains('b'), "b still waits when a, which knows better, takes it: {seen}");
    let epoch = a.epoch().or(b.epoch()).expect("somebody leads again");
    assert_eq!(epoch, 2, "the number of the term goes on although the Lease began anew");
}

#[tokio::test(start_paused = true)]
async fn another_machines_clock_is_never_believed() {
    let cluster = cluster();
    let clock = cluster.clock();
    let spec: Value = json!({
        "holderIdentity": "elsewhere", "leaseDurationSeconds": 86_400, "leaseTransitions": 41,
        "acquireTime": "1999-01-01T00:00:00.000000Z", "renewTime": "1999-01-01T00:00:00.000000Z",
    });
    let lease = serde_json::from_value(json!({"metadata": {"name": LEASE_NAME}, "spec": spec}));
    let lease: Lease = lease.expect("a valid Lease");
    leases(&cluster).create(&PostParams::default(), &lease).await.expect("created");
    let began = clock.now();
    let mut a = candidate(&cluster, "a");

    begins_to_lead(&mut a).await;

    let waited = SignedDuration::try_from(passed(clock, began)).expect("in range").as_secs();
    assert!((60..=62).contains(&waited), "an old time is not believed, nor a day: {waited} s");
    assert_eq!(a.epoch(), Some(42));
}
