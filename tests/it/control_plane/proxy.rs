//! A proxy before the API server that counts what is written, and stops at a chosen request.
//!
//! In: plain HTTP of one client, on loopback. Out: the same requests over TLS, as the
//! administrator, watches streamed. At the chosen mutating request it says so once that request has
//! been answered, and from then on answers nobody: what it says that the server has done, the
//! client never hears. Leases are not counted: they come with time, not with work.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub struct Proxy {
    state: Arc<Counter>,
    kubeconfig: PathBuf,
    task: JoinHandle<()>,
}

struct Counter {
    upstream: kube::Client,
    writes: AtomicU64,
    stop_at: u64,
    reached: Notify,
}

impl Proxy {
    /// Serves until dropped; stops at the mutating request `stop_at`, counted from 1.
    pub async fn start(upstream: kube::Client, folder: &Path, stop_at: u64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port on loopback");
        let address = listener.local_addr().expect("an address");
        let kubeconfig = folder.join("kubeconfig-of-proxy");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        });
        std::fs::write(&kubeconfig, text.to_string()).expect("the folder is writable");
        let state = Arc::new(Counter {
            upstream,
            writes: AtomicU64::new(0),
            stop_at,
            reached: Notify::new(),
        });
        let router = Router::new().fallback(forward).with_state(Arc::clone(&state));
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves until it is stopped");
        });
        Self { state, kubeconfig, task }
    }

    /// Returns the kubeconfig that leads here.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Waits until the chosen request has been answered.
    pub async fn reached(&self) {
        self.state.reached.notified().await;
    }

    /// Returns how many mutating requests there were, refused ones included.
    pub fn writes(&self) -> u64 {
        self.state.writes.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(State(counter): State<Arc<Counter>>, request: Request) -> Response {
    let is_write = !["GET", "HEAD"].contains(&request.method().as_str())
        && !request.uri().path().contains("/leases");
    let number = match is_write {
        true => counter.writes.fetch_add(1, Ordering::SeqCst) + 1,
        false => counter.writes.load(Ordering::SeqCst),
    };
    // A request after the chosen one comes from a process that is dead already.
    if number > counter.stop_at || (number == counter.stop_at && !is_write) {
        return std::future::pending().await;
    }
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(http::header::HOST);
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let request = http::Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    let answer = counter.upstream.send(request).await;
    if is_write && number == counter.stop_at {
        counter.reached.notify_one();
        return std::future::pending().await;
    }
    match answer {
        Ok(answer) => answer.map(Body::new),
        Err(error) => {
            let mut answer = Response::new(Body::from(error.to_string()));
            *answer.status_mut() = http::StatusCode::BAD_GATEWAY;
            answer
        }
    }
}
