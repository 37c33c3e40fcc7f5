//! What fetch and push have in common: credentials, host keys, certificates, and what libgit2's
//! errors mean.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use git2::{CertificateCheckStatus, Cred, CredentialType, ErrorClass, ErrorCode, RemoteCallbacks};

use crate::git::address::{Address, Scheme, redact};
use crate::git::cache::CacheError;
use crate::git::credentials::Credentials;
use crate::git::error::TransportError;
use crate::git::known_hosts::{HostKeyProblem, KnownHosts, fingerprint, key_type_of};
use crate::git::options;
use crate::git::source::Remote;

/// The most of a server's words that an error repeats.
const WORDS_MAX_CHARS: usize = 512;

/// Holds what one transfer needs, and what its callbacks found out.
pub(super) struct Session {
    pub(super) remote: String,
    address: Address,
    credentials: Credentials,
    known_hosts: KnownHosts,
    /// The first thing that went wrong inside a callback: libgit2 passes on only its text.
    noted: RefCell<Option<TransportError>>,
    offered: RefCell<u32>,
}

impl Session {
    /// Reads the credentials and makes ready what must be there before a connection.
    pub(super) fn begin(remote: &Remote, cache: &Path) -> Result<Self, TransportError> {
        let Remote { address, credentials } = remote;
        let credentials = match credentials {
            Some(folder) => {
                Credentials::read(folder).map_err(|error| unusable(address, &chain(&error)))?
            }
            None => Credentials::default(),
        };
        let known_hosts = match (address.scheme(), &credentials.known_hosts) {
            (Scheme::Ssh { .. }, None) => {
                return Err(unusable(
                    address,
                    "ssh needs `known_hosts`, the host keys to accept, and there is none",
                ));
            }
            (Scheme::Ssh { .. }, Some(text)) => KnownHosts::parse(text),
            (Scheme::Https | Scheme::File { .. }, _) => KnownHosts::default(),
        };
        if let Scheme::Ssh { host, port, .. } = address.scheme() {
            if credentials.identity.is_none() {
                return Err(unusable(address, "ssh needs `identity`, a key, and there is none"));
            }
            let lines = known_hosts.plain_lines(host, *port);
            list_known_hosts(cache, &lines).map_err(|error| TransportError::Cache {
                folder: cache.display().to_string(),
                detail: error.to_string(),
            })?;
        }
        if let (Scheme::Https, Some(bundle)) = (address.scheme(), &credentials.ca) {
            options::trust_certificates(bundle).map_err(|error| {
                unusable(address, &format!("{}: {}", bundle.display(), error.message()))
            })?;
        }
        Ok(Self {
            remote: address.to_string(),
            address: address.clone(),
            credentials,
            known_hosts,
            noted: RefCell::new(None),
            offered: RefCell::new(0),
        })
    }

    /// Returns the header for a bearer token, if there is one.
    pub(super) fn headers(&self) -> Vec<String> {
        match (self.address.scheme(), &self.credentials.bearer_token) {
            (Scheme::Https, Some(token)) => vec![format!("Authorization: Bearer {token}")],
            (Scheme::Https | Scheme::File { .. } | Scheme::Ssh { .. }, _) => Vec::new(),
        }
    }

    /// Returns callbacks that give credentials once and check host keys.
    pub(super) fn callbacks(&self) -> RemoteCallbacks<'_> {
        let mut callbacks = RemoteCallbacks::new();
        callbacks.credentials(|_, user, allowed| self.offer(user, allowed));
        callbacks.certificate_check(|certificate, _| match certificate.as_hostkey() {
            Some(shown) => self.check_host_key(shown.hostkey()),
            // X.509 is the TLS library's work: it verifies chain and name.
            None => Ok(CertificateCheckStatus::CertificatePassthrough),
        });
        callbacks
    }

    /// Remembers what a callback found and returns the error that makes libgit2 stop.
    pub(super) fn stop_with(&self, error: TransportError) -> git2::Error {
        let stop = git2::Error::from_str(&error.to_string());
        self.noted.borrow_mut().get_or_insert(error);
        stop
    }

    /// Returns what an error of libgit2 means.
    pub(super) fn translate(&self, error: &git2::Error) -> TransportError {
        if let Some(noted) = self.noted.borrow_mut().take() {
            return noted;
        }
        meaning(&self.remote, error)
    }

    fn offer(&self, user: Option<&str>, allowed: CredentialType) -> Result<Cred, git2::Error> {
        let user = user.map(str::to_owned).unwrap_or_else(|| match self.address.scheme() {
            Scheme::Ssh { user, .. } => user.clone(),
            Scheme::Https | Scheme::File { .. } => "git".to_owned(),
        });
        if allowed.contains(CredentialType::USERNAME) {
            return Cred::username(&user);
        }
        let tries = self.offered.replace_with(|tries| *tries + 1);
        let Credentials { username, password, identity, .. } = &self.credentials;
        let is_ssh = matches!(self.address.scheme(), Scheme::Ssh { .. });
        match (is_ssh, identity, password) {
            _ if tries > 0 => Err(self.refused(&format!(
                "{} in the credentials folder was not accepted",
                if is_ssh { "`identity`" } else { "`username` with `password`" }
            ))),
            (true, Some(key), passphrase) => {
                Cred::ssh_key_from_memory(&user, None, key, passphrase.as_deref())
            }
            (false, _, Some(password)) => {
                Cred::userpass_plaintext(username.as_deref().unwrap_or("git"), password)
            }
            (true, None, _) | (false, _, None) => {
                Err(self.refused(if self.credentials.bearer_token.is_some() {
                    "`bearerToken` was not accepted; most forges take tokens as `password`"
                } else {
                    "it wants credentials, and there are none"
                }))
            }
        }
    }

    fn refused(&self, detail: &str) -> git2::Error {
        self.stop_with(TransportError::Authentication {
            remote: self.remote.clone(),
            detail: detail.to_owned(),
        })
    }

    fn check_host_key(&self, key: Option<&[u8]>) -> Result<CertificateCheckStatus, git2::Error> {
        let Scheme::Ssh { host, port, .. } = self.address.scheme() else {
            return Err(git2::Error::from_str("a host key on a connection that is not ssh"));
        };
        let checked = match key {
            Some(key) => self.known_hosts.check(host, *port, key),
            None => Err(HostKeyProblem::NoKey),
        };
        let key = key.unwrap_or_default();
        match checked {
            Ok(()) => Ok(CertificateCheckStatus::CertificateOk),
            Err(problem) => Err(self.stop_with(TransportError::HostKey {
                host: host.clone(),
                port: *port,
                key_type: key_type_of(key).unwrap_or_else(|| "unknown".to_owned()),
                fingerprint: fingerprint(key),
                problem,
            })),
        }
    }
}

/// Returns what it means that our own clone does not open.
pub(super) fn unusable_cache(cache: &Path, error: &CacheError) -> TransportError {
    TransportError::Cache { folder: cache.display().to_string(), detail: chain(error) }
}

/// Returns what an error of libgit2 means; its texts are all it gives for some of them.
fn meaning(remote: &str, error: &git2::Error) -> TransportError {
    let remote = remote.to_owned();
    let detail = words(error.message());
    let says = |texts: &[&str]| {
        let lower = detail.to_ascii_lowercase();
        texts.iter().any(|text| lower.contains(text))
    };
    match (error.code(), error.class()) {
        (ErrorCode::Certificate, _) | (_, ErrorClass::Ssl) => {
            TransportError::Certificate { remote, detail }
        }
        (ErrorCode::Auth, _) => TransportError::Authentication { remote, detail },
        _ if says(&["status code: 401", "status code: 403", "authentication", "publickey"]) => {
            TransportError::Authentication { remote, detail }
        }
        _ if says(&["failed to read key", "extract public key", "passphrase", "private key"]) => {
            TransportError::Credentials {
                remote,
                detail: format!(
                    "`identity` cannot be read, or `password` does not open it: {detail}"
                ),
            }
        }
        _ if says(&["status code: 404", "not appear to be a git", "cannot redirect"]) => {
            TransportError::RepositoryMissing { remote, detail }
        }
        (ErrorCode::NotFound, ErrorClass::Repository | ErrorClass::Os) => {
            TransportError::RepositoryMissing { remote, detail }
        }
        _ if says(&["failed to resolve path", "could not find repository"]) => {
            TransportError::RepositoryMissing { remote, detail }
        }
        _ if says(&["failed to connect", "failed to resolve address", "timed out"]) => {
            TransportError::Unreachable { remote, detail }
        }
        (_, ErrorClass::Indexer | ErrorClass::Odb | ErrorClass::Object | ErrorClass::Zlib) => {
            TransportError::Corrupt { remote, detail }
        }
        (ErrorCode::Eof, _) => TransportError::Corrupt { remote, detail },
        (_, _) => TransportError::Server { remote, detail },
    }
}

/// Returns somebody else's words fit to be shown: no credential, one line, not endless.
pub(super) fn words(text: &str) -> String {
    let line: String =
        text.trim().chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    redact(&line).chars().take(WORDS_MAX_CHARS).collect()
}

fn unusable(address: &Address, detail: &str) -> TransportError {
    TransportError::Credentials { remote: address.to_string(), detail: words(detail) }
}

/// Returns an error with its causes, for the wire: the answer holds texts only.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

/// Writes the host's keys where libssh2 looks for the key types to ask the server for.
///
/// Our home is the cache folder, so this is nobody's personal file.
fn list_known_hosts(home: &Path, lines: &str) -> std::io::Result<()> {
    let folder = home.join(".ssh");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("known_hosts"), lines)
}
