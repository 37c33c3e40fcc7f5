//! Connections that can be ended from outside, and that end by themselves when nothing moves.
//!
//! A graceful shutdown waits for the clients, and a client may hold its connection open for ever
//! or send half a request. So every connection fails at its next step once it is cut, or after
//! [`IDLE_MAX`] without a byte in either direction.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::clock::Clock;

/// Longest pause on a connection: longer than the usual minute between two scrapes, which reuse
/// theirs, and short enough that abandoned ones do not pile up.
const IDLE_MAX: Duration = Duration::from_secs(90);

/// A listener whose connections end with `cut`.
#[derive(Debug)]
pub(super) struct Door {
    listener: TcpListener,
    clock: Clock,
    cut: CancellationToken,
}

/// A connection through the [`Door`].
pub(super) struct Connection {
    stream: TcpStream,
    clock: Clock,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    idle: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Door {
    pub(super) fn new(listener: TcpListener, clock: Clock, cut: CancellationToken) -> Self {
        Self { listener, clock, cut }
    }
}

impl Listener for Door {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let connection = Connection {
            stream,
            clock: self.clock,
            cut: Box::pin(self.cut.clone().cancelled_owned()),
            idle: idle(self.clock),
        };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl Connection {
    /// Does one step on the stream unless the connection is over; a step that moves something
    /// starts the time anew.
    fn step<T>(
        &mut self,
        context: &mut Context<'_>,
        step: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.cut.as_mut().poll(context).is_ready() {
            let why = "the daemon stops";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, why)));
        }
        if let Poll::Ready(done) = step(Pin::new(&mut self.stream), context) {
            self.idle = idle(self.clock);
            // Polled once, or the task would not be woken when nothing else wakes it.
            let _not_yet = self.idle.as_mut().poll(context);
            return Poll::Ready(done);
        }
        ready!(self.idle.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nothing moved on the connection")))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.step(context, |stream, context| stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.step(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.step(context, |stream, context| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A TCP stream has nothing to flush: always ready, which must not count as movement.
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("stream", &self.stream).finish_non_exhaustive()
    }
}

fn idle(clock: Clock) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move { clock.sleep(IDLE_MAX).await })
}
