//! The client of a real cluster sends each request once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use http::StatusCode;
use http::header::USER_AGENT;
use nodewright::clock::Clock;
use nodewright::cluster::requests::{Body, Mutation, Requests, Verb};
use nodewright::cluster::{ClusterError, Disposition, LeaderProof, client};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::settings;

/// Refuses everything as an overloaded server does, and counts.
async fn refuse(
    State(count): State<Arc<AtomicUsize>>,
    headers: http::HeaderMap,
) -> (StatusCode, [(&'static str, &'static str); 1], String) {
    assert!(headers[USER_AGENT].to_str().is_ok_and(|agent| agent.starts_with("nodewright/")));
    count.fetch_add(1, Ordering::SeqCst);
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503,
        "reason": "ServiceUnavailable", "message": "starting",
    });
    (StatusCode::SERVICE_UNAVAILABLE, [("Retry-After", "0")], status.to_string())
}

#[tokio::test]
async fn a_refused_write_is_not_repeated() {
    let count = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let app = Router::new().fallback(refuse).with_state(Arc::clone(&count));
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let clock = Clock::real();
    let (_lease, valid_until) = watch::channel(Some(jiff::Timestamp::MAX));
    let proof = LeaderProof::new(clock, valid_until);
    let client = client(kube::Config::new(url)).unwrap();
    let requests = Requests::new(client, clock, settings().request_timeout);
    let mutation = Mutation {
        what: "creating a pod".to_owned(),
        verb: Verb::Create,
        path: "/api/v1/namespaces/nodewright/pods".to_owned(),
        body: Body::Json,
        content: json!({}),
    };
    let error = requests.mutate::<Value>(&proof, mutation).await.unwrap_err();
    assert!(matches!(error, ClusterError::Refused { .. }), "{error:?}");
    assert_eq!(error.disposition(), Disposition::Retry);
    assert_eq!(
        error.to_string(),
        "creating a pod: the API server answered 503 ServiceUnavailable: starting"
    );
    assert_eq!(count.load(Ordering::SeqCst), 1);
    server.abort();
}
