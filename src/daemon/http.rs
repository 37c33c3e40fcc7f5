//! What the daemon answers over HTTP: probes for the kubelet, metrics for whoever scrapes.
//!
//! In: [`Health`] and [`Metrics`], kept current by the loop. Out: `/healthz` and `/readyz` on one
//! address, `/metrics` on the other. Never here: a change of anything, or work of the loop; a
//! request costs the same however large the fleet's plan is.
//!
//! Both speak plain HTTP. Metrics name rollouts, packages and counts, no nodes and no secrets, but
//! whoever reaches the port can read them: until they are served with TLS and authorisation, as
//! upstream does on this port, bind them to loopback or keep the port behind a NetworkPolicy.

mod address;
mod connection;
mod health;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use crate::clock::Clock;

use connection::Door;

pub use address::{InvalidAddress, ListenAddress};
pub use health::{Health, LOOP_SILENCE_MAX, Liveness, Readiness};

/// How long answers that are being written may take once the daemon stops: a scrape takes
/// milliseconds, and the kubelet's 30 seconds of grace belong to the loop.
pub const GRACE_MAX: Duration = Duration::from_secs(2);

/// One of the two addresses we listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Surface {
    /// `/healthz` and `/readyz`.
    Probes,
    /// `/metrics`.
    Metrics,
}

impl Surface {
    /// Returns the flag that sets the address.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Probes => "--probes",
            Self::Metrics => "--metrics",
        }
    }

    /// Returns the word used in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Probes => "probes",
            Self::Metrics => "metrics",
        }
    }
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address cannot be had.
    #[error(
        "cannot listen on {address} for {}: free the port or choose another with {}",
        surface.as_str(),
        surface.flag()
    )]
    Bind {
        /// What would have been served there.
        surface: Surface,
        /// The address as it was given.
        address: ListenAddress,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// Both addresses, bound; nothing is answered before [`Self::serve`].
#[derive(Debug)]
pub struct Servers {
    probes: Bound,
    metrics: Bound,
    clock: Clock,
}

#[derive(Debug)]
struct Bound {
    surface: Surface,
    listener: TcpListener,
    address: SocketAddr,
}

impl Servers {
    /// Binds both addresses, or neither: what is wrong shows at the start and not at a scrape.
    pub async fn bind(
        probes: ListenAddress,
        metrics: ListenAddress,
        clock: Clock,
    ) -> Result<Self, HttpError> {
        let probes = Bound::new(Surface::Probes, probes).await?;
        let metrics = Bound::new(Surface::Metrics, metrics).await?;
        Ok(Self { probes, metrics, clock })
    }

    /// Returns where a surface really listens: port 0 became a port.
    pub fn address(&self, surface: Surface) -> SocketAddr {
        match surface {
            Surface::Probes => self.probes.address,
            Surface::Metrics => self.metrics.address,
        }
    }

    /// Answers until `stop`; afterwards no socket and no task is left, even of a client that
    /// keeps its connection open. Dropping the future ends the connections too.
    pub async fn serve(self, health: Arc<Health>, metrics: Arc<Metrics>, stop: CancellationToken) {
        let Self { probes, metrics: scrapes, clock } = self;
        let cut = CancellationToken::new();
        let _cut_when_dropped = cut.clone().drop_guard();
        let answers = async {
            tokio::join!(
                probes.serve(probe_routes(health), clock, &stop, &cut),
                scrapes.serve(metric_routes(metrics), clock, &stop, &cut),
            )
        };
        let impatience = async {
            stop.cancelled().await;
            clock.sleep(GRACE_MAX).await;
            cut.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ((), ()) = answers => {}
            () = impatience => {}
        }
    }
}

impl Bound {
    async fn new(surface: Surface, address: ListenAddress) -> Result<Self, HttpError> {
        let bound = async {
            let listener = listen(address).await?;
            let bound = listener.local_addr()?;
            io::Result::Ok((listener, bound))
        };
        let (listener, bound) =
            bound.await.map_err(|source| HttpError::Bind { surface, address, source })?;
        Ok(Self { surface, listener, address: bound })
    }

    async fn serve(
        self,
        routes: Router,
        clock: Clock,
        stop: &CancellationToken,
        cut: &CancellationToken,
    ) {
        let Self { surface, listener, address } = self;
        let surface = surface.as_str();
        tracing::info!(surface, %address, "listening");
        let door = Door::new(listener, clock, cut.clone());
        let served =
            axum::serve(door, routes).with_graceful_shutdown(stop.clone().cancelled_owned());
        // It retries a failed accept by itself; today it never returns an error.
        if let Err(error) = served.await {
            tracing::error!(surface, %address, %error, "no longer listening");
        }
    }
}

/// Binds every interface where no host is named: both families at once, or IPv4 alone on a
/// machine without IPv6.
async fn listen(address: ListenAddress) -> io::Result<TcpListener> {
    let ListenAddress { host, port } = address;
    let Some(host) = host else {
        return match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
            Ok(listener) => Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
            Err(_no_ipv6) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
        };
    };
    TcpListener::bind((host, port)).await
}

fn probe_routes(health: Arc<Health>) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there are /healthz and /readyz here\n") })
        .with_state(health)
}

fn metric_routes(metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is /metrics here\n") })
        .with_state(metrics)
}

async fn healthz(State(health): State<Arc<Health>>) -> Response {
    let liveness = health.liveness();
    let status = match liveness {
        Liveness::Alive => StatusCode::OK,
        Liveness::Silent { .. } => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{liveness}\n")).into_response()
}

async fn readyz(State(health): State<Arc<Health>>) -> Response {
    let readiness = health.readiness();
    let status = match readiness {
        Readiness::Listed => StatusCode::OK,
        Readiness::Listing => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{readiness}\n")).into_response()
}

async fn scrape(State(metrics): State<Arc<Metrics>>) -> Response {
    ([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], metrics.encode()).into_response()
}
