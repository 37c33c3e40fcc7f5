//! Content digests: the names of snapshots, the identity of what is wanted.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Returns the SHA-256 of the canonical JSON of `value`, as 64 lower-case hex digits.
///
/// Canonical: our types hold ordered maps only, so equal values give equal bytes.
pub fn digest_hex<T: Serialize>(value: &T) -> String {
    let bytes = serde_json::to_vec(value).expect("plain data with string keys becomes JSON");
    hex(&Sha256::digest(bytes))
}

/// Returns the first 8 hex digits of the SHA-256 of `text`, as upstream shortens names
/// (upstream contract D.1).
pub fn short_hash(text: &str) -> String {
    let mut digits = hex(&Sha256::digest(text.as_bytes()));
    digits.truncate(8);
    digits
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
