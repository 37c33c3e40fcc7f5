//! Host keys: is the key a server showed one that we were given?
//!
//! In: the text of a known_hosts file as OpenSSH writes it (plain and hashed names, several names
//! a line, `*` and `?` patterns, `!` exceptions, `[host]:port`, `@revoked`). Out: yes, or a problem
//! that says what a person should compare. Never: "accept new".
//!
//! Lines we cannot read are counted, not refused, as OpenSSH does; `@cert-authority` lines are not
//! supported (libssh2 has no host certificates) and count as not read.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Holds the entries of a known_hosts file.
#[derive(Debug, Clone, Default)]
pub struct KnownHosts {
    entries: Vec<Entry>,
    unread: usize,
}

/// Says why a host key is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "problem", rename_all = "camelCase")]
pub enum HostKeyProblem {
    /// No entry is for this host and port.
    UnknownHost {
        /// How many lines of the file could not be read.
        unread_lines: usize,
    },
    /// There are entries for this host, but of other key types.
    UnknownType {
        /// The key types we know for it.
        known: Vec<String>,
    },
    /// The host has another key of this type than the one we were given.
    Changed,
    /// The key is marked `@revoked`.
    Revoked,
    /// The server showed no key that we can read.
    NoKey,
}

#[derive(Debug, Clone)]
struct Entry {
    marker: Marker,
    names: Names,
    key_type: String,
    key: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Trusted,
    Revoked,
}

#[derive(Debug, Clone)]
enum Names {
    Patterns(Vec<String>),
    /// HMAC-SHA1 of the name, keyed by a salt: `HashKnownHosts yes`.
    Hashed {
        salt: Vec<u8>,
        hash: Vec<u8>,
    },
}

impl KnownHosts {
    /// Reads the text of a known_hosts file.
    pub fn parse(text: &str) -> Self {
        let mut known = Self::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match parse_line(line) {
                Some(entry) => known.entries.push(entry),
                None => known.unread += 1,
            }
        }
        known
    }

    /// Checks the key (the raw SSH wire form) that `host` showed on `port`.
    ///
    /// # Errors
    ///
    /// The key is not exactly one that an entry for this host and port gives, or it is revoked.
    pub fn check(&self, host: &str, port: u16, key: &[u8]) -> Result<(), HostKeyProblem> {
        let key_type = key_type_of(key).ok_or(HostKeyProblem::NoKey)?;
        let matching = self.matching(host, port);
        // A revoked key is refused whatever else the file says, also under other names.
        if self.entries.iter().any(|it| it.marker == Marker::Revoked && it.key == key) {
            return Err(HostKeyProblem::Revoked);
        }
        if matching.is_empty() {
            return Err(HostKeyProblem::UnknownHost { unread_lines: self.unread });
        }
        if matching.iter().any(|entry| entry.key == key) {
            return Ok(());
        }
        if matching.iter().any(|entry| entry.key_type == key_type) {
            return Err(HostKeyProblem::Changed);
        }
        let mut known: Vec<String> = matching.iter().map(|it| it.key_type.clone()).collect();
        known.sort();
        known.dedup();
        Err(HostKeyProblem::UnknownType { known })
    }

    /// Returns the trusted entries for one host, written plainly.
    ///
    /// libssh2 asks the server for a key type that this file lists; it cannot read markers or
    /// patterns, so it gets only what concerns this host. The check itself is always ours.
    pub(super) fn plain_lines(&self, host: &str, port: u16) -> String {
        let name = name_for(host, port);
        let lines = self
            .matching(host, port)
            .into_iter()
            .map(|entry| format!("{name} {} {}\n", entry.key_type, STANDARD.encode(&entry.key)));
        lines.collect()
    }

    fn matching(&self, host: &str, port: u16) -> Vec<&Entry> {
        let name = name_for(host, port);
        let trusted = self.entries.iter().filter(|entry| entry.marker == Marker::Trusted);
        trusted.filter(|entry| entry.names.matches(&name)).collect()
    }
}

impl Names {
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Hashed { salt, hash } => Hmac::<Sha1>::new_from_slice(salt)
                .is_ok_and(|mac| mac.chain_update(name.as_bytes()).verify_slice(hash).is_ok()),
            Self::Patterns(patterns) => {
                let mut matched = false;
                for pattern in patterns {
                    match pattern.strip_prefix('!') {
                        // An exception wins over every pattern of its line.
                        Some(exception) if glob_matches(exception, name) => return false,
                        Some(_) => {}
                        None => matched |= glob_matches(pattern, name),
                    }
                }
                matched
            }
        }
    }
}

impl fmt::Display for HostKeyProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownHost { unread_lines: 0 } => {
                formatter.write_str("known_hosts has no entry for this host and port")
            }
            Self::UnknownHost { unread_lines } => write!(
                formatter,
                "known_hosts has no entry for this host and port, and {unread_lines} lines of it \
                 cannot be read"
            ),
            Self::UnknownType { known } => write!(
                formatter,
                "known_hosts has keys of this host, but only of type {}",
                known.join(", ")
            ),
            Self::Changed => formatter.write_str(
                "known_hosts has another key of this type for this host: either the host got a new \
                 key, or somebody else is answering",
            ),
            Self::Revoked => formatter.write_str("known_hosts marks this key as revoked"),
            Self::NoKey => formatter.write_str("the server showed no key that can be read"),
        }
    }
}

/// Returns `SHA256:…`, as `ssh-keygen -l` prints it.
pub fn fingerprint(key: &[u8]) -> String {
    format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(key)))
}

/// Returns the key type that is written inside the key itself.
pub(super) fn key_type_of(key: &[u8]) -> Option<String> {
    let (length, rest) = key.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let name = std::str::from_utf8(rest.get(..length)?).ok()?;
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-@.".contains(&byte));
    (plain && !name.is_empty()).then(|| name.to_owned())
}

fn name_for(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

fn parse_line(line: &str) -> Option<Entry> {
    let mut words = line.split_ascii_whitespace();
    let mut first = words.next()?;
    let marker = match first {
        "@revoked" => {
            first = words.next()?;
            Marker::Revoked
        }
        marker if marker.starts_with('@') => return None,
        _ => Marker::Trusted,
    };
    let key_type = words.next()?.to_owned();
    let key = STANDARD.decode(words.next()?).ok()?;
    // A line whose key is of another type than it says is a mistake, not a key.
    (key_type_of(&key)? == key_type).then_some(())?;
    Some(Entry { marker, names: parse_names(first)?, key_type, key })
}

fn parse_names(text: &str) -> Option<Names> {
    let Some(hashed) = text.strip_prefix("|1|") else {
        return Some(Names::Patterns(
            text.split(',').map(str::to_ascii_lowercase).filter(|it| !it.is_empty()).collect(),
        ));
    };
    let (salt, hash) = hashed.split_once('|')?;
    Some(Names::Hashed { salt: STANDARD.decode(salt).ok()?, hash: STANDARD.decode(hash).ok()? })
}

/// Matches `*` and `?`; everything else stands for itself, brackets too.
fn glob_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at_pattern, mut at_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at_name < name.len() {
        match (pattern.get(at_pattern), name.get(at_name)) {
            (Some(b'*'), _) => {
                star = Some((at_pattern, at_name));
                at_pattern += 1;
            }
            (Some(one), Some(other)) if *one == b'?' || one == other => {
                at_pattern += 1;
                at_name += 1;
            }
            (Some(_) | None, _) => {
                let Some((star_pattern, star_name)) = star else { return false };
                star = Some((star_pattern, star_name + 1));
                at_pattern = star_pattern + 1;
                at_name = star_name + 1;
            }
        }
    }
    pattern.get(at_pattern..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}
