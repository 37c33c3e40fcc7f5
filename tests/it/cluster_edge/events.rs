//! Events: told once, counted after that, and never in anybody's way.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams};
use nodewright::cluster::events::{Events, News, Regarding, RegardingKind, Severity};
use nodewright::sim::{Cluster, Fault, Matching};

use super::{cluster, leader, writes};

/// More than the writer needs for what is waiting, under paused time.
const A_MOMENT: Duration = Duration::from_millis(10);

fn news(node: &str, note: &str) -> News {
    News {
        regarding: Regarding {
            kind: RegardingKind::Node,
            name: node.to_owned(),
            uid: format!("uid-{node}"),
        },
        severity: Severity::Warning,
        reason: "Drain".to_owned(),
        action: "DrainTimeout".to_owned(),
        note: note.to_owned(),
    }
}

async fn events(cluster: &Cluster) -> Vec<Event> {
    let api: Api<Event> = Api::namespaced(cluster.client("person"), "default");
    api.list(&ListParams::default()).await.expect("listed").items
}

#[tokio::test(start_paused = true)]
async fn an_event_says_what_happened_to_what() {
    let cluster = cluster();
    let (proof, _fence) = leader(cluster.clock());
    let events_out = Events::start(cluster.client("daemon"), "nodewright-0", cluster.clock());
    let resource = Regarding {
        kind: RegardingKind::NodeWright,
        name: "tuning".to_owned(),
        uid: "u".to_owned(),
    };
    let told = News { regarding: resource, severity: Severity::Normal, ..news("n", "done") };

    events_out.tell(&proof, told);
    cluster.clock().sleep(A_MOMENT).await;

    let events = events(&cluster).await;
    let [event] = events.as_slice() else { panic!("{events:?}") };
    let regarding = event.regarding.clone().expect("an object");
    assert_eq!(regarding.api_version.as_deref(), Some("nodewright.nvidia.com/v1alpha1"));
    assert_eq!(regarding.kind.as_deref(), Some("NodeWright"));
    assert_eq!(regarding.name.as_deref(), Some("tuning"));
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.reason.as_deref(), Some("Drain"));
    assert_eq!(event.action.as_deref(), Some("DrainTimeout"));
    assert_eq!(event.note.as_deref(), Some("done"));
    assert_eq!(event.reporting_instance.as_deref(), Some("nodewright-0"));
    let controller = event.reporting_controller.as_deref();
    assert_eq!(controller, Some("nodewright.nvidia.com/nodewright"));
    assert!(event.series.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_same_again_is_counted_and_written_now_and_then() {
    let cluster = cluster();
    let clock = cluster.clock();
    let (proof, _fence) = leader(clock);
    let events_out = Events::start(cluster.client("daemon"), "nodewright-0", clock);

    for _ in 0..61 {
        events_out.tell(&proof, news("gpu-1", "held by ns/pod"));
        clock.sleep(Duration::from_secs(1)).await;
    }

    let there = events(&cluster).await;
    let [event] = there.as_slice() else { panic!("{there:?}") };
    assert_eq!(event.series.as_ref().map(|series| series.count), Some(61));
    assert_eq!(writes(&cluster, "events").len(), 3, "one event, counted up each 30 s");

    clock.sleep(Duration::from_secs(6 * 60)).await;
    events_out.tell(&proof, news("gpu-1", "held by ns/pod"));
    clock.sleep(A_MOMENT).await;
    assert_eq!(events(&cluster).await.len(), 2, "after a quiet time it is news again");
}

#[tokio::test(start_paused = true)]
async fn another_object_or_note_is_another_event_up_to_a_bound() {
    let cluster = cluster();
    let clock = cluster.clock();
    let (proof, _fence) = leader(clock);
    let events_out = Events::start(cluster.client("daemon"), "nodewright-0", clock);

    events_out.tell(&proof, news("gpu-1", "held by ns/pod"));
    for pods in 0..40 {
        events_out.tell(&proof, news("gpu-2", &format!("{pods} pods are left")));
        clock.sleep(Duration::from_secs(1)).await;
    }

    let there = events(&cluster).await;
    let of = |node: &str| {
        let is_of = |event: &&Event| {
            event.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some(node)
        };
        there.iter().filter(is_of).count()
    };
    assert_eq!((of("gpu-1"), of("gpu-2")), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn a_long_note_is_cut() {
    let cluster = cluster();
    let (proof, _fence) = leader(cluster.clock());
    let events_out = Events::start(cluster.client("daemon"), "nodewright-0", cluster.clock());

    events_out.tell(&proof, news("gpu-1", &"ä".repeat(4000)));
    cluster.clock().sleep(A_MOMENT).await;

    let note = events(&cluster).await.remove(0).note.expect("a note");
    assert!(note.len() <= 1024 && note.ends_with('…'), "{} bytes", note.len());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_makes_nobody_wait() {
    let cluster = cluster();
    let clock = cluster.clock();
    let (proof, _fence) = leader(clock);
    let events_out = Events::start(cluster.client("daemon"), "nodewright-0", clock);
    let matching = Matching::any().resource("events");
    cluster.faults().next(matching, usize::MAX, Fault::NeverAnswered);
    let before = clock.now();

    for node in 0..1000 {
        events_out.tell(&proof, news(&format!("gpu-{node}"), "held"));
    }

    assert_eq!(clock.now(), before);
    assert_eq!(events_out.dropped(), 1000 - 512, "what finds no room is counted");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_forgot_is_told_again() {
    let cluster = cluster();
    let clock = cluster.clock();
    let (proof, _fence) = leader(clock);
    let events_out = Events::start(cluster.client("daemon"), "nodewright-0", clock);
    events_out.tell(&proof, news("gpu-1", "held"));
    clock.sleep(Duration::from_secs(60)).await;
    let api: Api<Event> = Api::namespaced(cluster.client("person"), "default");
    let name = events(&cluster).await.remove(0).metadata.name.expect("a name");
    api.delete(&name, &DeleteParams::default()).await.expect("deleted");

    events_out.tell(&proof, news("gpu-1", "held"));
    clock.sleep(A_MOMENT).await;

    assert_eq!(events(&cluster).await.len(), 1);
    assert_eq!(events_out.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_leadership_nothing_leaves() {
    let cluster = cluster();
    let (proof, fence) = leader(cluster.clock());
    let events_out = Events::start(cluster.client("daemon"), "nodewright-0", cluster.clock());
    fence.send_replace(None);

    events_out.tell(&proof, news("gpu-1", "held"));
    cluster.clock().sleep(A_MOMENT).await;

    assert_eq!(writes(&cluster, "events"), []);
    assert_eq!(events_out.dropped(), 1);
}
