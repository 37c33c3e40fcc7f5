//! The probes, and the metrics as they are served.

use std::time::Duration;

use jiff::ToSpan;
use nodewright::clock::Clock;
use nodewright::daemon::http::{Health, Liveness, Readiness};
use nodewright::daemon::metrics::Leadership;

use super::{Running, get, noon, package, rollout, world};

#[tokio::test(start_paused = true)]
async fn a_loop_is_alive_until_its_next_sign_is_overdue() {
    let health = Health::new(Clock::starting_at(noon(), 1), Duration::from_secs(60));
    assert_eq!(health.liveness(), Liveness::Alive, "a start is a sign of life");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(health.liveness(), Liveness::Alive);
    tokio::time::advance(Duration::from_secs(1)).await;
    let due = noon() + 60.seconds();
    assert_eq!(health.liveness(), Liveness::Silent { heard: noon(), due });
    health.alive(noon() + 61.seconds());
    assert_eq!(health.liveness(), Liveness::Alive);
}

#[tokio::test(start_paused = true)]
async fn a_rest_is_no_silence_but_oversleeping_is() {
    let health = Health::new(Clock::starting_at(noon(), 1), Duration::from_secs(60));
    let wake_at = noon() + 600.seconds();
    health.resting_until(noon(), wake_at);
    tokio::time::advance(Duration::from_secs(660)).await;
    assert_eq!(health.liveness(), Liveness::Alive);
    tokio::time::advance(Duration::from_secs(1)).await;
    let due = wake_at + 60.seconds();
    assert_eq!(health.liveness(), Liveness::Silent { heard: noon(), due });
    // A time to wake that has passed already is no time to rest.
    health.resting_until(noon() + 661.seconds(), noon());
    assert_eq!(health.liveness(), Liveness::Alive);
}

#[tokio::test]
async fn probes_flip_and_say_why() {
    let clock = Clock::starting_at(noon(), 1);
    let running = Running::start(clock).await;
    let (head, body) = get(running.probes, "/readyz").await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert!(body.starts_with("the caches are not listed yet: "), "{body}");
    running.health.set_readiness(Readiness::Listed);
    let (head, body) = get(running.probes, "/readyz").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, "ok\n");

    let (head, body) = get(running.probes, "/healthz").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, "ok\n");
    running.health.alive(noon() - 1.hour());
    let (head, body) = get(running.probes, "/healthz").await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert_eq!(
        body,
        "the loop is silent since 2026-11-30T11:00:00Z and was due by 2026-11-30T11:02:00Z: its \
         last log lines say what it was doing\n"
    );
    running.health.alive(clock.now());
    let (head, _) = get(running.probes, "/healthz").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    running.stop().await;
}

#[tokio::test]
async fn metrics_are_served_as_open_metrics() {
    let running = Running::start(Clock::real()).await;
    let world = world(2, rollout("tuning", package("kernel", "1.2.0")));
    running.book.set_leadership(Leadership::Leader);
    running.book.observe(&world.input, &nodewright::plan::plan(&world.input));
    let (head, body) = get(running.metrics, "/metrics").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.lines().any(|line| line == kind), "{head}");
    assert_eq!(body, running.book.encode());
    assert!(body.ends_with("# EOF\n"), "{body}");

    let (head, body) = get(running.metrics, "/healthz").await;
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    assert_eq!(body, "there is /metrics here\n");
    let (head, _) = get(running.probes, "/metrics").await;
    assert!(head.starts_with("HTTP/1.1 404 "), "the two surfaces stay apart: {head}");
    running.stop().await;
}
