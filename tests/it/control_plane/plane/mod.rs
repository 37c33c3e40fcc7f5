//! A real control plane: etcd, kube-apiserver and Kubernetes' own controllers.
//!
//! The tests have it as `control_plane`, and the benches include it by its path.
//!
//! In go the programs that `tests/control-plane/build` made; out come clients, a kubeconfig and
//! the audit log. There are no nodes and no scheduler: a test creates Node objects and plays their
//! kubelets. Nothing here may leave a process or a folder behind, whatever ends the test.
//!
//! ```ignore
//! #[tokio::test]
//! #[cfg_attr(not(control_plane), ignore = "needs a real control plane: run …")]
//! async fn example() {
//!     let plane = control_plane::shared().await;            // started once per test process
//!     let client = plane.client("example/1");               // system:masters, own user agent
//!     plane.ensure_namespace("example-pods").await;         // with its default ServiceAccount
//!     run_program(plane.kubeconfig());                      // for a child process
//!     let node = eventually("the node is gone", limit, async || …).await;
//!     let writes = plane.writes_by("example/1").await;      // from the API server's audit log
//! }
//! ```
//!
//! - [`shared`] has every controller of [`Controllers::Standard`]. Tests on it run side by side:
//!   unique names and a user agent of their own, and whoever makes Nodes removes them.
//! - [`ControlPlane::start`] starts one of its own in about 5 s and 350 MiB; dropping it stops it.
//! - Tokio's clock must not be paused in a test that talks to it: the server does not pause.
//! - A Node without heartbeats is NotReady after a minute where the node lifecycle controller
//!   runs, and a new one carries the taint `node.kubernetes.io/not-ready` until it is Ready.
//!   [`Controllers::WithoutNodeLifecycle`] is for many nodes that nobody plays.
//! - Missing programs fail with the command that makes them. The attribute above turns that into
//!   *ignored*, except where `NODEWRIGHT_REQUIRE_CONTROL_PLANE=1`.

mod audit;
mod credentials;
mod process;
mod programs;

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, PostParams};
use nodewright::clock::Clock;
use tempfile::TempDir;
use tokio::sync::OnceCell;

pub use audit::{AuditEntry, Stage, read};
use credentials::Credentials;
pub use process::{Program, Watchdog, is_running};

/// How long a control plane may take to answer. It takes 5 s; a machine whose cores compile
/// something else meanwhile needs many times that.
const START_LIMIT: Duration = Duration::from_secs(120);

/// How long one look lasts until the next: short beside what is waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How often a start is tried. A free port can be taken between our choice and the program's
/// bind; three times in a row it is not chance.
const START_ATTEMPTS_MAX: u32 = 3;

/// The user agent of the harness's own requests, which no audit shows.
const OWN_USER_AGENT: &str = "nodewright-test-harness";

/// Which of Kubernetes' controllers run beside the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// The API server alone: no garbage collection, PDBs refuse every eviction, cordons make no
    /// taint, new nodes have none, and namespaces never finish deleting.
    None,
    /// All that a rollout can meet (the list is in `programs.rs`).
    Standard,
    /// The same without what judges heartbeats; new nodes get no not-ready taint.
    WithoutNodeLifecycle,
}

/// A running control plane; dropping it ends its programs and removes its folder.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields are dropped in this order: the programs end before their folder goes.
    programs: Vec<Program>,
    watchdog: Mutex<Watchdog>,
    credentials: Credentials,
    audit_marks: AtomicU64,
    folder: TempDir,
}

/// Why there is no control plane.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    /// The Go programs were not built, or elsewhere.
    #[error(
        "needs a real control plane, and there is no {}; run tests/control-plane/build (Go 1.26, \
         about 8 minutes once), then cargo test",
        executable.display()
    )]
    ProgramMissing { executable: PathBuf },
    /// A program gave up; its log says why.
    #[error("{program} ended during the start ({status}); the end of its log:\n{log}")]
    ProgramEnded { program: &'static str, status: ExitStatus, log: String },
    /// A program runs and does not get ready.
    #[error("{what} did not happen within {} s; the end of the log of {program}:\n{log}",
        START_LIMIT.as_secs())]
    NotReady { what: &'static str, program: &'static str, log: String },
    /// Folder, ports, keys or processes of the harness itself.
    #[error("cannot prepare the control plane: {what}")]
    Prepare { what: &'static str, source: io::Error },
}

impl ControlPlane {
    /// Starts a control plane, or fails the test with the reason and the way out.
    ///
    /// When this returns it answers and its controllers work.
    pub async fn start(controllers: Controllers) -> Self {
        Self::try_start(controllers).await.unwrap_or_else(|error| panic!("{}", with_causes(&error)))
    }

    /// Starts a control plane.
    pub async fn try_start(controllers: Controllers) -> Result<Self, ControlPlaneError> {
        let folder = Path::new(env!("NODEWRIGHT_CONTROL_PLANE_FOLDER"));
        let mut attempt = 1;
        loop {
            match Self::start_from(folder, controllers).await {
                Err(ControlPlaneError::ProgramEnded { log, .. })
                    if attempt < START_ATTEMPTS_MAX && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Starts the programs of a folder.
    pub async fn start_from(
        executables: &Path,
        controllers: Controllers,
    ) -> Result<Self, ControlPlaneError> {
        let mut wanted = vec![programs::ETCD, programs::API_SERVER];
        if controllers != Controllers::None {
            wanted.push(programs::CONTROLLERS);
        }
        for name in &wanted {
            let executable = executables.join(name);
            if !executable.is_file() {
                return Err(ControlPlaneError::ProgramMissing { executable });
            }
        }
        let prepare = |what| move |source| ControlPlaneError::Prepare { what, source };
        let folder =
            TempDir::with_prefix("nodewright-control-plane-").map_err(prepare("its folder"))?;
        let ports = free_ports().map_err(prepare("free ports"))?;
        let credentials = Credentials::write(folder.path(), ports.api_server)
            .map_err(prepare("its keys and certificates"))?;
        let watchdog = Watchdog::spawn(folder.path()).map_err(prepare("its watchdog"))?;
        let watchdog = Mutex::new(watchdog);
        let audit_marks = AtomicU64::new(0);
        let mut plane = Self { programs: Vec::new(), watchdog, credentials, audit_marks, folder };
        for name in wanted {
            let arguments = match name {
                programs::ETCD => programs::etcd_arguments(plane.folder.path(), &ports),
                programs::API_SERVER => {
                    programs::api_server_arguments(plane.folder.path(), &ports, controllers)
                }
                _ => {
                    plane.wait_until_ready().await?;
                    programs::controllers_arguments(plane.folder.path(), &ports, controllers)
                }
            };
            let log = plane.folder.path().join(format!("{name}.log"));
            let program = Program::spawn(&mut plane.watchdog(), name, executables, &arguments, log)
                .map_err(prepare("a program"))?;
            plane.programs.push(program);
        }
        match controllers {
            Controllers::None => plane.wait_until_ready().await?,
            Controllers::Standard | Controllers::WithoutNodeLifecycle => {
                plane.wait_until_controlled().await?;
            }
        }
        Ok(plane)
    }

    /// Returns a configuration whose requests the audit log shows under `user_agent`.
    ///
    /// It does not retry: kube's default hides a 429, for minutes, and counts as many requests.
    pub fn config(&self, user_agent: &str) -> kube::Config {
        self.credentials.config(user_agent)
    }

    /// Returns a client of system:masters whose requests carry `user_agent`.
    ///
    /// It belongs to the runtime of the test that asks, so it is made anew for each.
    pub fn client(&self, user_agent: &str) -> kube::Client {
        kube::Client::try_from(self.config(user_agent)).expect("our own configuration is valid")
    }

    /// Returns the kubeconfig of system:masters, for child processes.
    pub fn kubeconfig(&self) -> PathBuf {
        credentials::kubeconfig(self.folder.path())
    }

    /// Returns the name and the process of each program that was started.
    pub fn processes(&self) -> Vec<(&'static str, u32)> {
        let programs = self.programs.iter().map(|program| (program.name(), program.id()));
        programs.chain([("watchdog", self.watchdog().id())]).collect()
    }

    /// Starts `nodewright` with these arguments, which does not outlive the test either; its output
    /// goes to the log `name` in our folder.
    pub fn spawn(&self, name: &str, arguments: &[String]) -> Program {
        let executables = Path::new(env!("CARGO_BIN_EXE_nodewright"));
        let executables = executables.parent().expect("a program lies in a folder");
        let log = self.folder.path().join(format!("{name}.log"));
        let program =
            Program::spawn(&mut self.watchdog(), "nodewright", executables, arguments, log);
        program.expect("nodewright starts")
    }

    /// Returns the folder in which everything of this control plane is, until it is dropped.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn watchdog(&self) -> MutexGuard<'_, Watchdog> {
        self.watchdog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a namespace in which pods can be created, and waits until they can.
    pub async fn ensure_namespace(&self, name: &str) {
        let client = self.client(OWN_USER_AGENT);
        let namespace = Namespace { metadata: named(name), ..Namespace::default() };
        create_if_missing(&Api::all(client.clone()), &namespace).await;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, name);
        if self.programs.iter().any(|program| program.name() == programs::CONTROLLERS) {
            eventually(&format!("ServiceAccount default in {name}"), START_LIMIT, async || {
                accounts.get_opt("default").await.ok().flatten()
            })
            .await;
        } else {
            let account =
                ServiceAccount { metadata: named("default"), ..ServiceAccount::default() };
            create_if_missing(&accounts, &account).await;
        }
    }

    /// Returns what the API server was asked so far, in order, without the harness's own requests.
    ///
    /// A request whose answer has arrived is in it: a marked request is sent first, and the log
    /// is read when that one shows.
    pub async fn audit(&self) -> Vec<AuditEntry> {
        let mark = format!("/version?mark={}", self.audit_marks.fetch_add(1, Ordering::Relaxed));
        let request = http::Request::get(&mark).body(Vec::new()).expect("the mark is a valid URI");
        self.client(OWN_USER_AGENT).request_text(request).await.expect("the API server answers");
        let path = self.folder.path().join(programs::AUDIT_LOG);
        eventually("the marked request in the audit log", START_LIMIT, async || {
            let entries = read(&path).expect("the audit log can be read");
            entries.iter().any(|entry| entry.uri == mark).then_some(entries)
        })
        .await
        .into_iter()
        .filter(|entry| entry.user_agent != OWN_USER_AGENT)
        .collect()
    }

    /// Returns the mutating requests of one user agent, refused ones included.
    pub async fn writes_by(&self, user_agent: &str) -> Vec<AuditEntry> {
        let mut entries = self.audit().await;
        entries.retain(|entry| entry.user_agent == user_agent && entry.is_write());
        entries
    }

    async fn wait_until_ready(&mut self) -> Result<(), ControlPlaneError> {
        let client = self.client(OWN_USER_AGENT);
        self.wait_for("an answer of /readyz", async || {
            let request =
                http::Request::get("/readyz").body(Vec::new()).expect("the request is valid");
            client.request_text(request).await.is_ok()
        })
        .await
    }

    /// The controllers make this object first of all, and pods need it.
    async fn wait_until_controlled(&mut self) -> Result<(), ControlPlaneError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(OWN_USER_AGENT), "default");
        self.wait_for("the ServiceAccount of the namespace default", async || {
            accounts.get_opt("default").await.is_ok_and(|found| found.is_some())
        })
        .await
    }

    async fn wait_for(
        &mut self,
        what: &'static str,
        mut happened: impl AsyncFnMut() -> bool,
    ) -> Result<(), ControlPlaneError> {
        let programs = &mut self.programs;
        let outcome = within(START_LIMIT, async || {
            if let Some(ended) = programs.iter_mut().find_map(Program::ended) {
                return Some(Err(ended));
            }
            happened().await.then_some(Ok(()))
        })
        .await;
        outcome.unwrap_or_else(|| {
            let newest = self.programs.last().expect("a program was started before the wait");
            let (program, log) = (newest.name(), newest.log_end());
            Err(ControlPlaneError::NotReady { what, program, log })
        })
    }
}

/// The loopback ports of one control plane.
#[derive(Debug, Clone, Copy)]
struct Ports {
    etcd_clients: u16,
    etcd_peers: u16,
    api_server: u16,
    controllers: u16,
}

/// Returns the control plane that the tests of this process share, and starts it for the first.
///
/// libtest has no end of all tests to stop it at, so the watchdog does when the process ends.
pub async fn shared() -> &'static ControlPlane {
    static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
    SHARED.get_or_init(|| ControlPlane::start(Controllers::Standard)).await
}

/// Returns what `attempt` finds, or fails the test after `limit` of looking.
pub async fn eventually<T>(
    what: &str,
    limit: Duration,
    attempt: impl AsyncFnMut() -> Option<T>,
) -> T {
    within(limit, attempt)
        .await
        .unwrap_or_else(|| panic!("{what}: did not happen within {} s", limit.as_secs()))
}

/// Returns what `attempt` finds within `limit` of looking.
pub async fn within<T>(limit: Duration, mut attempt: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let clock = Clock::real();
    let deadline = clock.now() + limit;
    loop {
        let found = attempt().await;
        if found.is_some() || clock.now() > deadline {
            return found;
        }
        clock.sleep(POLL_INTERVAL).await;
    }
}

/// Returns an error with its causes.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn named(name: &str) -> kube::core::ObjectMeta {
    kube::core::ObjectMeta { name: Some(name.to_owned()), ..Default::default() }
}

async fn create_if_missing<K>(api: &Api<K>, object: &K)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("cannot create {:?}: {error}", object.meta().name),
    }
}

/// Returns ports that were free a moment ago, all different: each is held until all are chosen.
fn free_ports() -> io::Result<Ports> {
    let mut listeners = Vec::new();
    for _ in 0..4 {
        listeners.push(TcpListener::bind(("127.0.0.1", 0))?);
    }
    let port = |index: usize| listeners[index].local_addr().map(|address| address.port());
    Ok(Ports {
        etcd_clients: port(0)?,
        etcd_peers: port(1)?,
        api_server: port(2)?,
        controllers: port(3)?,
    })
}
