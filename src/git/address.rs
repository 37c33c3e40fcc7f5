//! Addresses of repositories.
//!
//! In: what a person typed or pasted (`https://…`, `ssh://…`, `git@host:path`, `file:///…`, a
//! path). Out: one normal form. Never: an address that carries a credential, which would end up in
//! logs, in status files and in the process list.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The user name when an ssh address names none; what every forge expects.
const SSH_USER_DEFAULT: &str = "git";

/// The port when an ssh address names none.
const SSH_PORT_DEFAULT: u16 = 22;

/// Is the address of a repository in its normal form, without a credential.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    text: String,
    scheme: Scheme,
}

/// Says how a repository is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// A repository on this machine's disk.
    File {
        /// The absolute path of the bare repository or of the folder that holds `.git`.
        path: PathBuf,
    },
    /// HTTP over TLS.
    Https,
    /// SSH with a key, and a host key that we were given.
    Ssh {
        /// The user to log in as.
        user: String,
        /// The host, as the known_hosts file names it.
        host: String,
        /// The port, 22 when the address names none.
        port: u16,
    },
}

/// Says which setting holds an address we cannot use, and why.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct AddressError {
    /// The flag or field that holds the address.
    pub field: String,
    /// What is wrong with it.
    pub problem: AddressProblem,
}

/// Is what is wrong with an address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressProblem {
    /// A user name with a password, or a token, in front of the host.
    #[error(
        "the address carries a credential, which would show up in logs and status files; take it \
         out, and put it as `username` and `password` into the credentials folder"
    )]
    Credential,
    /// A scheme that sends credentials and content in the clear, or one we do not know.
    #[error("`{scheme}://` is not supported; use https://, ssh://, file:// or an absolute path")]
    Scheme {
        /// The scheme that was given.
        scheme: String,
    },
    /// No host, no path, or a port that is no number.
    #[error("`{address}` is not a whole address: {missing}")]
    Incomplete {
        /// The address, redacted.
        address: String,
        /// What is missing or wrong.
        missing: &'static str,
    },
}

impl Address {
    /// Parses what a person typed; `field` is the flag or field to name in the error.
    ///
    /// # Errors
    ///
    /// The address carries a credential, has a scheme we refuse, or is not complete.
    pub fn parse(field: &str, text: &str) -> Result<Self, AddressError> {
        Self::from_text(text.trim())
            .map_err(|problem| AddressError { field: field.to_owned(), problem })
    }

    /// Returns the normal form, which holds no credential and may be shown.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns how the repository is reached.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    fn from_text(text: &str) -> Result<Self, AddressProblem> {
        if text.chars().any(char::is_control) {
            return Err(incomplete(text, "it holds a control character"));
        }
        match text.split_once("://") {
            Some(("file", path)) => Self::from_path(text, path),
            Some(("https", rest)) => Self::from_https(text, rest),
            Some(("ssh" | "git+ssh" | "ssh+git", rest)) => Self::from_ssh(text, rest),
            Some((scheme, _)) => Err(AddressProblem::Scheme { scheme: scheme.to_owned() }),
            None if is_path(text) => Self::from_path(text, text),
            None => Self::from_scp(text),
        }
    }

    fn from_path(text: &str, path: &str) -> Result<Self, AddressProblem> {
        if path.is_empty() {
            return Err(incomplete(text, "the path is missing"));
        }
        if text.starts_with("file://") && !path.starts_with('/') {
            return Err(incomplete(text, "a file address has three slashes: file:///path"));
        }
        let path = std::path::absolute(path).map_err(|_| incomplete(text, "no such path"))?;
        let Some(shown) = path.to_str() else {
            return Err(incomplete(text, "the path is not UTF-8"));
        };
        let shown = if shown.len() > 1 { shown.trim_end_matches('/') } else { shown };
        Ok(Self {
            text: format!("file://{shown}"),
            scheme: Scheme::File { path: PathBuf::from(shown) },
        })
    }

    fn from_https(text: &str, rest: &str) -> Result<Self, AddressProblem> {
        let (authority, path) = split_path(rest);
        if authority.contains('@') {
            return Err(AddressProblem::Credential);
        }
        if path.contains('?') || path.contains('#') {
            // A token in the query is the other place where people put credentials.
            return Err(AddressProblem::Credential);
        }
        let (host, port) = split_port(text, authority)?;
        require(text, host, path)?;
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let path = path.trim_end_matches('/');
        let host = host.to_ascii_lowercase();
        Ok(Self { text: format!("https://{host}{port}{path}"), scheme: Scheme::Https })
    }

    fn from_ssh(text: &str, rest: &str) -> Result<Self, AddressProblem> {
        let (authority, path) = split_path(rest);
        let (user, host) = authority.rsplit_once('@').unwrap_or((SSH_USER_DEFAULT, authority));
        let (host, port) = split_port(text, host)?;
        Self::ssh(text, user, host, port.unwrap_or(SSH_PORT_DEFAULT), path)
    }

    /// Reads `git@host:path`, the form that forges show on their clone button.
    fn from_scp(text: &str) -> Result<Self, AddressProblem> {
        let Some((authority, path)) = text.split_once(':') else {
            return Err(incomplete(text, "neither a scheme, nor a host, nor an absolute path"));
        };
        let (user, host) = authority.rsplit_once('@').unwrap_or((SSH_USER_DEFAULT, authority));
        let path = format!("/{}", path.trim_start_matches('/'));
        Self::ssh(text, user, host, SSH_PORT_DEFAULT, &path)
    }

    fn ssh(
        text: &str,
        user: &str,
        host: &str,
        port: u16,
        path: &str,
    ) -> Result<Self, AddressProblem> {
        if user.contains(':') {
            return Err(AddressProblem::Credential);
        }
        require(text, host, path)?;
        if user.is_empty() {
            return Err(incomplete(text, "the user is missing"));
        }
        let path = path.trim_end_matches('/');
        let host = host.to_ascii_lowercase();
        let shown = if port == SSH_PORT_DEFAULT { String::new() } else { format!(":{port}") };
        Ok(Self {
            text: format!("ssh://{user}@{host}{shown}{path}"),
            scheme: Scheme::Ssh {
                user: user.to_owned(),
                host: host.trim_matches(['[', ']']).to_owned(),
                port,
            },
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl TryFrom<String> for Address {
    type Error = AddressProblem;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::from_text(&text)
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.text
    }
}

/// Returns `text` with every credential inside an address replaced by `***`.
///
/// For everything that libgit2 or a server said before it is shown, logged or stored: user names
/// with passwords, tokens as user names, and queries. A lone user name of ssh stays.
pub fn redact(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || c.is_control() || "'\"<>()".contains(c))
            .unwrap_or(after.len());
        let (address, tail) = after.split_at(end);
        shown.push_str(&redact_one(before.ends_with("ssh://"), address));
        rest = tail;
    }
    shown.push_str(rest);
    shown
}

fn redact_one(is_ssh: bool, address: &str) -> String {
    let (authority, path) = split_path(address);
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) if is_ssh && !user.contains(':') => format!("{user}@{host}"),
        Some((_, host)) => format!("***@{host}"),
        None => authority.to_owned(),
    };
    match path.split_once('?') {
        Some((path, _)) => format!("{authority}{path}?***"),
        None => format!("{authority}{path}"),
    }
}

fn is_path(text: &str) -> bool {
    let dotted = text == "." || text == ".." || text.starts_with("./") || text.starts_with("../");
    dotted || Path::new(text).is_absolute()
}

fn split_path(rest: &str) -> (&str, &str) {
    rest.find('/').map_or((rest, ""), |at| rest.split_at(at))
}

/// Splits `host:port`; an IPv6 host stands in brackets.
fn split_port<'a>(
    text: &str,
    authority: &'a str,
) -> Result<(&'a str, Option<u16>), AddressProblem> {
    let after_host = authority.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = authority.get(after_host..).and_then(|tail| tail.find(':')) else {
        return Ok((authority, None));
    };
    let (host, port) = authority.split_at(after_host + colon);
    match port.trim_start_matches(':').parse::<u16>() {
        Ok(port) if port != 0 => Ok((host, Some(port))),
        Ok(_) | Err(_) => Err(incomplete(text, "the port is not a number from 1 to 65535")),
    }
}

fn require(text: &str, host: &str, path: &str) -> Result<(), AddressProblem> {
    if host.is_empty() || host.starts_with('-') {
        return Err(incomplete(text, "the host is missing"));
    }
    if path.trim_matches('/').is_empty() {
        return Err(incomplete(text, "the path is missing"));
    }
    Ok(())
}

fn incomplete(text: &str, missing: &'static str) -> AddressProblem {
    AddressProblem::Incomplete { address: redact(text).escape_debug().to_string(), missing }
}
