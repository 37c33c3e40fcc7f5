//! The command lines of the programs: what a control plane on loopback for tests looks like.

use std::path::Path;

use super::{Controllers, Ports, credentials};

pub const ETCD: &str = "etcd";
pub const API_SERVER: &str = "kube-apiserver";
pub const CONTROLLERS: &str = "kube-controller-manager";

/// The audit log's name in the folder of a control plane.
pub const AUDIT_LOG: &str = "audit.log";

/// What `Controllers::Standard` runs, besides the judge of heartbeats.
const CONTROLLERS_STANDARD: [&str; 11] = [
    // A namespace's pods need its ServiceAccount, and a deleted namespace must empty.
    "serviceaccount-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    // Owner references, and pods whose node is gone.
    "garbage-collector-controller",
    "pod-garbage-collector-controller",
    // Evictions are answered from what it writes into the PDB.
    "disruption-controller",
    // Workloads that come back when they are evicted.
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "job-controller",
    "daemonset-controller",
];

/// Turn cordons and missing heartbeats into taints, and taints into evictions.
const CONTROLLERS_OF_NODES: [&str; 2] = ["node-lifecycle-controller", "taint-eviction-controller"];

pub fn etcd_arguments(folder: &Path, ports: &Ports) -> Vec<String> {
    let clients = format!("http://127.0.0.1:{}", ports.etcd_clients);
    let peers = format!("http://127.0.0.1:{}", ports.etcd_peers);
    vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        // The folder does not outlive the program, so nothing is gained by waiting for the disk.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
    ]
}

pub fn api_server_arguments(folder: &Path, ports: &Ports, controllers: Controllers) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd_clients),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.api_server),
        format!("--tls-cert-file={}", file(credentials::SERVER_CERTIFICATE)),
        format!("--tls-private-key-file={}", file(credentials::SERVER_KEY)),
        format!("--token-auth-file={}", file(credentials::TOKENS)),
        format!("--service-account-key-file={}", file(credentials::ACCOUNTS_PUBLIC_KEY)),
        format!("--service-account-signing-key-file={}", file(credentials::ACCOUNTS_KEY)),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        // Executor pods are privileged.
        "--allow-privileged".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        // Loopback is no address for an Endpoints object.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--audit-policy-file={}", file(credentials::AUDIT_POLICY)),
        format!("--audit-log-path={}", file(AUDIT_LOG)),
        // In MiB: one file, never rotated, so that its reader sees everything.
        "--audit-log-maxsize=4096".to_owned(),
    ];
    if controllers != Controllers::Standard {
        // This plug-in's taint would stay: only the node lifecycle controller takes it off.
        arguments.push("--disable-admission-plugins=TaintNodesByCondition".to_owned());
    }
    arguments
}

pub fn controllers_arguments(
    folder: &Path,
    ports: &Ports,
    controllers: Controllers,
) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut names = CONTROLLERS_STANDARD.to_vec();
    match controllers {
        Controllers::None => names.clear(),
        Controllers::Standard => names.extend(CONTROLLERS_OF_NODES),
        Controllers::WithoutNodeLifecycle => {}
    }
    vec![
        format!("--kubeconfig={}", credentials::kubeconfig(folder).display()),
        format!("--controllers={}", names.join(",")),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.controllers),
        format!("--tls-cert-file={}", file(credentials::SERVER_CERTIFICATE)),
        format!("--tls-private-key-file={}", file(credentials::SERVER_KEY)),
        format!("--root-ca-file={}", file(credentials::ROOT_CERTIFICATE)),
        format!("--service-account-private-key-file={}", file(credentials::ACCOUNTS_KEY)),
        // The default of 20 requests a second is for clusters that share their API server.
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
    ]
}
