//! Addresses, ports that are taken, and an end that leaves nothing behind.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use jiff::SignedDuration;
use nodewright::clock::Clock;
use nodewright::daemon::http::{
    Health, HttpError, LOOP_SILENCE_MAX, ListenAddress, Servers, Surface,
};
use nodewright::daemon::metrics::Metrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{Running, get, noon, within};

/// Fast enough that the grace for slow clients, and their idleness, pass in milliseconds.
fn fast() -> Clock {
    Clock::starting_at(noon(), 1000)
}

/// Reads until the other side ends the connection, in whichever way.
async fn end_of(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end as well; what had come before it is in the buffer.
    let _read = within(stream.read_to_end(&mut bytes)).await;
    String::from_utf8(bytes).expect("text")
}

#[test]
fn addresses_are_read_and_written_alike() {
    let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    for (text, host, port) in [
        (":8081", None, 8081),
        (":0", None, 0),
        ("127.0.0.1:8443", Some(v4), 8443),
        ("[::1]:8443", Some(v6), 8443),
    ] {
        let address: ListenAddress = text.parse().expect(text);
        assert_eq!(address, ListenAddress { host, port });
        assert_eq!(address.to_string(), text);
    }
}

#[test]
fn what_is_no_address_says_what_to_write() {
    let complaints =
        ["8081", ":http", ":+80", ":65536", "127.0.0.1:", "localhost:8081", "::1:8081"]
            .map(|text| text.parse::<ListenAddress>().expect_err(text).to_string());
    assert_eq!(complaints.join("\n") + "\n", include_str!("addresses.txt"));
}

#[tokio::test]
async fn no_host_is_every_interface() {
    let any = ":0".parse().expect("a constant");
    let servers = Servers::bind(any, any, fast()).await.expect("free ports");
    let address = servers.address(Surface::Probes);
    assert!(address.ip().is_unspecified(), "{address}");
    let stop = CancellationToken::new();
    let health = Arc::new(Health::new(fast(), LOOP_SILENCE_MAX));
    let serving = servers.serve(health, Arc::new(Metrics::new()), stop.clone());
    let asking = async {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
        let (head, _) = get(loopback, "/healthz").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        stop.cancel();
    };
    tokio::join!(within(serving), asking);
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback");
    let port = taken.local_addr().expect("its address").port();
    let free = "127.0.0.1:0".parse().expect("a constant");
    let used = format!("127.0.0.1:{port}").parse().expect("an address");
    let error = Servers::bind(free, used, fast()).await.expect_err("the port is taken");
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on 127.0.0.1:{port} for metrics: free the port or choose another with \
             --metrics"
        )
    );
    let HttpError::Bind { surface, source, .. } = error;
    assert_eq!(surface, Surface::Metrics);
    assert_eq!(source.kind(), std::io::ErrorKind::AddrInUse);

    let every = format!(":{port}").parse().expect("an address");
    let error = Servers::bind(every, free, fast()).await.expect_err("the port is taken");
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on :{port} for probes: free the port or choose another with \
             --probes"
        )
    );
}

#[tokio::test]
async fn a_stop_leaves_no_socket_and_no_connection() {
    // Slower than the others: the grace has to be told from the idleness that ends it all.
    let clock = Clock::starting_at(noon(), 10);
    let running = Running::start(clock).await;
    let (probes, metrics) = (running.probes, running.metrics);
    // One client keeps its connection, one has sent half a request, one nothing.
    let mut keeping = TcpStream::connect(metrics).await.expect("a connection");
    keeping.write_all(b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n").await.expect("sent");
    let mut first = [0; 15];
    within(keeping.read_exact(&mut first)).await.expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    let mut half = TcpStream::connect(probes).await.expect("a connection");
    half.write_all(b"GET /healthz HT").await.expect("sent");
    let mut silent = TcpStream::connect(probes).await.expect("a connection");
    // Connections are accepted in order, so these are once a later one is answered.
    get(probes, "/healthz").await;

    let asked = clock.now();
    running.stop().await;
    let took = clock.now().duration_since(asked);
    assert!(took < SignedDuration::from_secs(60), "stopped for want of movement only: {took}");
    assert!(end_of(&mut keeping).await.ends_with("# EOF\n"), "the answer came whole");
    assert_eq!(end_of(&mut half).await, "");
    assert_eq!(end_of(&mut silent).await, "");
    for address in [probes, metrics] {
        TcpListener::bind(address).await.expect("the port is free again");
    }
}

#[tokio::test]
async fn a_dropped_server_ends_its_connections() {
    let running = Running::start(Clock::real()).await;
    let mut half = TcpStream::connect(running.probes).await.expect("a connection");
    half.write_all(b"GET /healthz HT").await.expect("sent");
    get(running.probes, "/healthz").await;
    running.task.abort();
    assert_eq!(end_of(&mut half).await, "");
}

#[tokio::test]
async fn a_connection_on_which_nothing_moves_ends_by_itself() {
    let running = Running::start(fast()).await;
    let mut half = TcpStream::connect(running.probes).await.expect("a connection");
    half.write_all(b"GET /healthz HT").await.expect("sent");
    let mut kept = TcpStream::connect(running.probes).await.expect("a connection");
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n").await.expect("sent");
    assert_eq!(end_of(&mut half).await, "");
    assert!(end_of(&mut kept).await.ends_with("ok\n"));
    running.stop().await;
}
