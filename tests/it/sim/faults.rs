//! The fault knobs do what they say, and only to the requests they name.

use std::time::Duration;

use kube::api::PostParams;
use nodewright::sim::{Fault, Matching, Verb};

use super::{add_node, cluster, config_map, config_maps, node, nodes, refused, soon};

#[tokio::test(start_paused = true)]
async fn the_nth_matching_request_is_refused() {
    let cluster = cluster();
    let creates = Matching::writes().verb(Verb::Create).resource("nodes");
    cluster.faults().after(creates.clone(), 1, 1, Fault::InternalError);
    add_node(&cluster, "n1").await;
    let params = PostParams::default();
    config_maps(&cluster).create(&params, &config_map("m")).await.expect("not a node");
    let status = refused(nodes(&cluster).create(&params, &node("n2")).await);
    assert_eq!((status.code, status.reason.as_str()), (500, "InternalError"));
    add_node(&cluster, "n2").await;

    cluster.faults().next(creates, 1, Fault::TooManyRequests { retry_after_seconds: 3 });
    let status = refused(nodes(&cluster).create(&params, &node("n3")).await);
    assert_eq!(status.code, 429);
    assert_eq!(status.details.expect("details").retry_after_seconds, 3);

    cluster.faults().next(Matching::any().name("n1"), 1, Fault::Conflict);
    let mut first = nodes(&cluster).get("n2").await.expect("not this one");
    first = nodes(&cluster).replace("n2", &params, &first).await.expect("nor this");
    assert_eq!(first.metadata.name.as_deref(), Some("n2"));
    assert!(refused(nodes(&cluster).get("n1").await).is_conflict());
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_lost_after_the_write_landed() {
    let cluster = cluster();
    cluster.faults().next(Matching::writes(), 1, Fault::AnswerLost);
    let result = nodes(&cluster).create(&PostParams::default(), &node("n1")).await;
    assert!(matches!(result, Err(kube::Error::Service(_))), "{result:?}");
    nodes(&cluster).get("n1").await.expect("the write landed");
    assert_eq!(cluster.requests()[0].code, None);
}

#[tokio::test(start_paused = true)]
async fn a_request_can_be_slow_or_never_answered() {
    let cluster = cluster();
    let before = cluster.clock().now();
    cluster.faults().next(Matching::any(), 1, Fault::Delay(Duration::from_secs(7)));
    add_node(&cluster, "n1").await;
    assert_eq!(cluster.clock().now().duration_since(before).as_secs(), 7);
    cluster.faults().next(Matching::any(), 1, Fault::NeverAnswered);
    let api = nodes(&cluster);
    let params = PostParams::default();
    let two = node("n2");
    let silent = tokio::time::timeout(Duration::from_secs(60), api.create(&params, &two)).await;
    assert!(silent.is_err(), "no answer");
    nodes(&cluster).get("n2").await.expect("but it was carried out");
}

#[tokio::test(start_paused = true)]
async fn a_client_is_cut_off_at_its_kth_write() {
    let cluster = cluster();
    cluster.faults().cut_after("daemon", 2);
    let api: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(cluster.client("daemon"));
    let task = tokio::spawn(async move {
        for name in ["n1", "n2", "n3"] {
            let created = api.create(&PostParams::default(), &node(name)).await;
            created.expect("created");
        }
    });
    soon(cluster.faults().cut("daemon")).await;
    tokio::task::yield_now().await;
    assert!(!task.is_finished(), "it waits for an answer that never comes");
    task.abort();
    nodes(&cluster).get("n2").await.expect("the last write landed");
    assert_eq!(refused(nodes(&cluster).get("n3").await).code, 404);
    assert_eq!(cluster.faults().mutating_requests("daemon"), 2);
    assert_eq!(cluster.faults().mutating_requests("test"), 0, "reads do not count");
}

#[tokio::test(start_paused = true)]
async fn a_client_cut_at_zero_never_gets_a_word_in() {
    let cluster = cluster();
    cluster.faults().cut_after("daemon", 0);
    let api: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(cluster.client("daemon"));
    let silent = tokio::time::timeout(Duration::from_secs(60), api.get("n1")).await;
    assert!(silent.is_err());
    assert!(cluster.faults().is_cut("daemon"));
}
