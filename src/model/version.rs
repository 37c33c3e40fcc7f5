//! Package versions as upstream compares them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A package version: the text as written, ordered as Go's `x/mod/semver` orders it.
///
/// A leading `v` and missing parts are accepted (`v1`, `1.2`); build metadata does not count. Two
/// spellings of one version (`1.2` and `1.2.0`) are different names with equal precedence.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    text: String,
    parsed: semver::Version,
}

/// The text is no version in the sense of [`Version`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a version: expected MAJOR[.MINOR[.PATCH]] with an optional leading v, \
     for example 1.4.0"
)]
pub struct InvalidVersion {
    text: String,
}

impl Version {
    /// Returns the version exactly as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Compares by precedence alone: `1.2` and `v1.2.0` are equal.
    pub fn precedence(&self, other: &Self) -> Ordering {
        self.parsed.cmp_precedence(&other.parsed)
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidVersion { text: text.to_owned() };
        let bare = text.strip_prefix('v').unwrap_or(text);
        let core_end = bare.find(['-', '+']).unwrap_or(bare.len());
        let (core, suffix) = bare.split_at(core_end);
        let missing = match core.split('.').count() {
            1 => ".0.0",
            2 => ".0",
            _ => "",
        };
        // As in Go: a shortened version carries no pre-release and no build.
        if !missing.is_empty() && !suffix.is_empty() {
            return Err(invalid());
        }
        let parsed =
            semver::Version::parse(&format!("{core}{missing}{suffix}")).map_err(|_| invalid())?;
        Ok(Self { text: text.to_owned(), parsed })
    }
}

impl TryFrom<String> for Version {
    type Error = InvalidVersion;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.text
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.precedence(other).then_with(|| self.text.cmp(&other.text))
    }
}
