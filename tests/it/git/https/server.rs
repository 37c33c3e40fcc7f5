//! An HTTPS server on loopback that runs `git http-backend`, as a small forge would.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::server::TlsStream;

pub const USER: &str = "ada";
pub const PASSWORD: &str = "s3cret";
pub const TOKEN: &str = "t0ken";

type Interloper = Box<dyn FnOnce() + Send>;

/// A private CA.
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A running server; ends when dropped.
pub struct Server {
    port: u16,
    forge: Arc<Forge>,
    task: JoinHandle<()>,
}

struct Forge {
    root: PathBuf,
    before_push: Mutex<Option<Interloper>>,
}

struct Listener {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        // A certificate whose issuer has its own name would count as signed by itself.
        parameters.distinguished_name.push(DnType::CommonName, "A private CA");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).expect("a certificate").pem();
        Self { pem, issuer: Issuer::new(parameters, key) }
    }

    fn server_config(&self, name: &str) -> ServerConfig {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a certificate that fits its key")
    }
}

impl Server {
    /// Serves the repositories below `root` with a certificate for `name`.
    pub async fn start(root: &Path, authority: &Authority, name: &str) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        let tls = TlsAcceptor::from(Arc::new(authority.server_config(name)));
        let forge = Arc::new(Forge { root: root.to_owned(), before_push: Mutex::new(None) });
        let router = Router::new().fallback(serve).with_state(Arc::clone(&forge));
        let task = tokio::spawn(async move {
            axum::serve(Listener { tcp, tls }, router).await.expect("the server runs");
        });
        Self { port, forge, task }
    }

    pub fn address(&self, repository: &str) -> String {
        format!("https://127.0.0.1:{}/{repository}", self.port)
    }

    /// Runs `interloper` when the next push arrives, before it is looked at.
    pub fn before_next_push(&self, interloper: impl FnOnce() + Send + 'static) {
        self.forge.before_push.lock().expect("no panic").replace(Box::new(interloper));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.tcp.accept().await else { continue };
            // A client that does not trust us ends the handshake: wait for the next.
            if let Ok(stream) = self.tls.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

async fn serve(State(forge): State<Arc<Forge>>, request: Request) -> Response<Body> {
    let path = request.uri().path().to_owned();
    // The packs of these two are the same as that of fleet.git, but damaged on the way.
    let damaged = ["/cut.git", "/bent.git"].into_iter().find(|it| path.starts_with(it));
    let path = damaged.map_or(path.clone(), |it| path.replacen(it, "/fleet.git", 1));
    let damage = damaged.filter(|_| request.method() == "POST");
    if path.starts_with("/moved.git") {
        return answer(StatusCode::FOUND, &[("location", "https://localhost:9/fleet.git")]);
    }
    if path.starts_with("/broken.git") {
        return answer(StatusCode::INTERNAL_SERVER_ERROR, &[]);
    }
    if !is_allowed(request.headers()) {
        return answer(StatusCode::UNAUTHORIZED, &[("www-authenticate", "Basic realm=\"git\"")]);
    }
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 * 1024 * 1024).await.expect("a body");
    let run = move || {
        if parts.method == "POST" && path.ends_with("/git-receive-pack") {
            let interloper = forge.before_push.lock().expect("no panic").take();
            if let Some(interloper) = interloper {
                interloper();
            }
        }
        let content_type = parts.headers.get(header::CONTENT_TYPE);
        let mut backend = Command::new("git");
        backend
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &forge.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("REMOTE_USER", USER)
            .env("REQUEST_METHOD", parts.method.as_str())
            .env("PATH_INFO", &path)
            .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
            .env("CONTENT_TYPE", content_type.map_or("", |it| it.to_str().unwrap_or_default()))
            .env("CONTENT_LENGTH", body.len().to_string());
        run_backend(backend, body.to_vec())
    };
    let mut output = tokio::task::spawn_blocking(run).await.expect("the backend ran");
    let half = output.len() / 2;
    match damage {
        Some("/cut.git") => output.truncate(half),
        Some("/bent.git") => output[half] ^= 0xff,
        Some(_) | None => {}
    }
    parse_cgi(&output)
}

fn is_allowed(headers: &HeaderMap) -> bool {
    let basic = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let bearer = format!("Bearer {TOKEN}");
    let given = headers.get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    given.is_some_and(|given| given == basic || given == bearer)
}

fn run_backend(mut backend: Command, body: Vec<u8>) -> Vec<u8> {
    let mut child = backend
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("git runs");
    let mut input = child.stdin.take().expect("a pipe");
    // The backend may close its input early, when it refuses the request.
    let writer = thread::spawn(move || drop(input.write_all(&body)));
    let output = child.wait_with_output().expect("git ends");
    writer.join().expect("no panic");
    output.stdout
}

fn parse_cgi(output: &[u8]) -> Response<Body> {
    let end = output.windows(4).position(|it| it == b"\r\n\r\n").expect("headers");
    let head = std::str::from_utf8(&output[..end]).expect("text");
    let mut response = Response::builder();
    for line in head.lines() {
        let (name, value) = line.split_once(": ").expect("a header");
        response = match name {
            "Status" => response.status(&value[..3]),
            _ => response.header(name, value),
        };
    }
    response.body(Body::from(output[end + 4..].to_vec())).expect("a response")
}

fn answer(status: StatusCode, headers: &[(&str, &str)]) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Body::empty()).expect("a response")
}
