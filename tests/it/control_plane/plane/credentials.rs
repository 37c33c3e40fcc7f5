//! Keys, certificates, the administrator's token and the files that carry them.
//!
//! Everything is made anew for each control plane and never leaves its folder, which only its
//! owner can read.

use std::io;
use std::path::{Path, PathBuf};

use http::HeaderValue;
use http::header::USER_AGENT;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use serde_json::json;

pub const ROOT_CERTIFICATE: &str = "ca.crt";
pub const SERVER_CERTIFICATE: &str = "server.crt";
pub const SERVER_KEY: &str = "server.key";
pub const ACCOUNTS_KEY: &str = "accounts.key";
pub const ACCOUNTS_PUBLIC_KEY: &str = "accounts.pub";
pub const TOKENS: &str = "tokens.csv";
pub const AUDIT_POLICY: &str = "audit-policy.json";

/// Where the API server is and what proves who is who.
pub struct Credentials {
    server: http::Uri,
    root_certificate: Vec<u8>,
    token: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Makes all of it and writes what the programs read into `folder`.
    pub fn write(folder: &Path, port: u16) -> io::Result<Self> {
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text);
        let root = root_certificate().map_err(io::Error::other)?;
        let server_key = KeyPair::generate().map_err(io::Error::other)?;
        let server_certificate =
            CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])
                .and_then(|parameters| parameters.signed_by(&server_key, &root))
                .map_err(io::Error::other)?;
        write(ROOT_CERTIFICATE, &root.pem())?;
        write(SERVER_CERTIFICATE, &server_certificate.pem())?;
        write(SERVER_KEY, &server_key.serialize_pem())?;
        // ECDSA: the API server takes it for tokens as it takes RSA, which ring cannot generate.
        let accounts = KeyPair::generate().map_err(io::Error::other)?;
        write(ACCOUNTS_KEY, &accounts.serialize_pem())?;
        write(ACCOUNTS_PUBLIC_KEY, &accounts.public_key_pem())?;
        let token = format!("{:032x}", fastrand::u128(..));
        write(TOKENS, &format!("{token},admin,admin,system:masters\n"))?;
        write(AUDIT_POLICY, &audit_policy().to_string())?;
        let server = format!("https://127.0.0.1:{port}");
        let kubeconfig_text = kubeconfig_of(folder, &server, &token).to_string();
        std::fs::write(kubeconfig(folder), kubeconfig_text)?;
        Ok(Self {
            server: server.parse().expect("an address with a port is a URI"),
            root_certificate: root.der().to_vec(),
            token,
        })
    }

    pub fn config(&self, user_agent: &str) -> kube::Config {
        let mut config = kube::Config::new(self.server.clone());
        config.root_cert = Some(vec![self.root_certificate.clone()]);
        config.auth_info.token = Some(self.token.clone().into());
        // A refused eviction is an answer here, not something to try again for minutes.
        config.default_retry = false;
        let value = HeaderValue::from_str(user_agent).expect("a user agent is printable ASCII");
        config.headers.push((USER_AGENT, value));
        config
    }
}

/// Returns where the administrator's kubeconfig is in the folder of a control plane.
pub fn kubeconfig(folder: &Path) -> PathBuf {
    folder.join("kubeconfig")
}

fn root_certificate() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    parameters.distinguished_name.push(DnType::CommonName, "nodewright tests");
    CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)
}

/// Every request once, when it is answered; a watch also when it begins.
fn audit_policy() -> serde_json::Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": "Metadata" }],
    })
}

/// JSON is YAML, so this is a kubeconfig for every program that reads one.
fn kubeconfig_of(folder: &Path, server: &str, token: &str) -> serde_json::Value {
    let root = folder.join(ROOT_CERTIFICATE);
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": {
            "server": server, "certificate-authority": root,
        }}],
        "users": [{ "name": "admin", "user": { "token": token } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "admin" } }],
        "current-context": "test",
    })
}
