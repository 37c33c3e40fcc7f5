//! Credentials: a folder of files named as the keys of a Flux Git secret.
//!
//! In: a folder, usually a mounted Secret. Out: the values, in memory of the child process only.
//! Never: a value in an error, a log line or a `Debug` text.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The largest credential file we read; a CA bundle of a whole system is about 250 KiB.
const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// Holds what the folder gives; each is `None` where the file is missing.
#[derive(Clone, Default)]
pub struct Credentials {
    /// `username`: for https.
    pub username: Option<String>,
    /// `password`: password or token for https, passphrase of `identity` for ssh.
    pub password: Option<String>,
    /// `bearerToken`: sent as `Authorization: Bearer …`; forges want basic auth instead.
    pub bearer_token: Option<String>,
    /// `ca.crt`, or the older `caFile`: the path of a CA bundle in PEM.
    pub ca: Option<PathBuf>,
    /// `identity`: the private key for ssh, in PEM or OpenSSH form.
    pub identity: Option<String>,
    /// `known_hosts`: the host keys we accept.
    pub known_hosts: Option<String>,
}

/// Says which file of the credentials folder cannot be used.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// The folder is not there, or may not be read.
    #[error("the credentials folder {} cannot be read", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is there, but cannot be read.
    #[error("the credential file {} cannot be read", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file that is too large, empty, or not text.
    #[error("the credential file {} is {problem}", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: &'static str,
    },
}

impl Credentials {
    /// Reads the folder. Blocking: reads files.
    ///
    /// # Errors
    ///
    /// The folder is missing, or a file in it is unreadable, empty, too large or not text.
    pub fn read(folder: &Path) -> Result<Self, CredentialsError> {
        fs::read_dir(folder)
            .map_err(|source| CredentialsError::Folder { folder: folder.to_owned(), source })?;
        let line = |name: &str| -> Result<Option<String>, CredentialsError> {
            Ok(read(folder, name)?.map(|text| text.trim_end_matches(['\r', '\n']).to_owned()))
        };
        let ca = ["ca.crt", "caFile"].iter().map(|name| folder.join(name)).find(|it| it.exists());
        Ok(Self {
            username: line("username")?,
            password: line("password")?,
            bearer_token: line("bearerToken")?,
            ca,
            identity: read(folder, "identity")?,
            known_hosts: read(folder, "known_hosts")?,
        })
    }
}

impl fmt::Debug for Credentials {
    /// Shows which are there, never what they are.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { username, password, bearer_token, ca, identity, known_hosts } = self;
        formatter
            .debug_struct("Credentials")
            .field("username", &username.is_some())
            .field("password", &password.is_some())
            .field("bearer_token", &bearer_token.is_some())
            .field("ca", ca)
            .field("identity", &identity.is_some())
            .field("known_hosts", &known_hosts.is_some())
            .finish()
    }
}

fn read(folder: &Path, name: &str) -> Result<Option<String>, CredentialsError> {
    let file = folder.join(name);
    let size = match fs::metadata(&file) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CredentialsError::File { file, source }),
    };
    if size > FILE_MAX_BYTES {
        return Err(CredentialsError::Content { file, problem: "larger than 1 MiB" });
    }
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        Err(source) => return Err(CredentialsError::File { file, source }),
    };
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(CredentialsError::Content { file, problem: "not text" });
    };
    if text.trim().is_empty() {
        return Err(CredentialsError::Content { file, problem: "empty" });
    }
    Ok(Some(text))
}
