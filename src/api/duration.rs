//! Go's duration text: `"1h"`, `"30s"`, `"1h30m"`, `"1.5s"`.
//!
//! In: text as `time.ParseDuration` takes it. Out: a length of time that is never negative.
//! Must never: accept what upstream's decoder refuses, or print what it could not read back.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest text read, in bytes; Go's own longest output, `2562047h47m16.854775807s`, has 24.
pub const DURATION_TEXT_MAX_BYTES: usize = 64;

/// What the CRD accepts as a duration; parsing bounds the value besides.
pub const DURATION_PATTERN: &str =
    r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// A length of time in Go's notation; zero or more, at most 2^63 - 1 nanoseconds (292 years).
///
/// Upstream rejects negative values in every field that uses it (upstream contract A.2, A.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(Duration);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Nothing but perhaps a sign.
    #[error("the duration is empty; write a number and a unit, such as 30s or 1h30m")]
    Empty,
    /// A sign that upstream refuses in every field.
    #[error("duration {text:?} is negative; give zero or more")]
    Negative {
        /// The text as given.
        text: String,
    },
    /// A number without one of Go's units.
    #[error("duration {text:?} needs a unit after each number: ns, us, ms, s, m or h (no days)")]
    Unit {
        /// The text as given, cut at the longest text read.
        text: String,
    },
    /// A unit without a number, or a number with two points.
    #[error("duration {text:?} is not a number and a unit, such as 30s or 1h30m")]
    Number {
        /// The text as given, cut at the longest text read.
        text: String,
    },
    /// Over Go's range.
    #[error("duration {text:?} is longer than Go can hold (about 292 years)")]
    TooLong {
        /// The text as given, cut at the longest text read.
        text: String,
    },
}

const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// Go keeps a duration in an int64 of nanoseconds.
const NANOSECONDS_MAX: u128 = i64::MAX as u128;

/// Units in the order tried: `ms` before `m`, so that the longer name wins.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", NANOSECONDS_PER_SECOND),
    ("m", 60 * NANOSECONDS_PER_SECOND),
    ("h", 3_600 * NANOSECONDS_PER_SECOND),
];

impl GoDuration {
    /// Wraps a length of time; `None` over Go's range.
    #[must_use]
    pub fn new(duration: Duration) -> Option<Self> {
        (duration.as_nanos() <= NANOSECONDS_MAX).then_some(Self(duration))
    }

    /// Returns the length of time.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// Returns whole seconds, rounded up (`drainConfig.gracePeriod`, upstream contract A.2).
    #[must_use]
    pub fn seconds_rounded_up(self) -> u64 {
        self.0.as_secs() + u64::from(self.0.subsec_nanos() > 0)
    }

    /// Returns whole seconds, cut off (`gracefulShutdown`, upstream contract A.3).
    #[must_use]
    pub const fn seconds_cut_off(self) -> u64 {
        self.0.as_secs()
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let shown = || crate::api::annotations::cut(text, DURATION_TEXT_MAX_BYTES).to_owned();
        if text.len() > DURATION_TEXT_MAX_BYTES {
            return Err(DurationError::TooLong { text: shown() });
        }
        let is_negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
        if rest.is_empty() {
            return Err(DurationError::Empty);
        }
        if rest == "0" {
            return Ok(Self::default());
        }
        let mut total = 0_u128;
        while !rest.is_empty() {
            let (nanoseconds, after) = term(rest, &shown)?;
            total = total.saturating_add(nanoseconds);
            rest = after;
        }
        if total > NANOSECONDS_MAX {
            return Err(DurationError::TooLong { text: shown() });
        }
        // Go reads "-0s" as zero; so do we.
        if is_negative && total > 0 {
            return Err(DurationError::Negative { text: shown() });
        }
        Ok(Self(from_nanoseconds(total)))
    }
}

/// Go's `Duration.String`: `1h0m0s`, `1.5s`, `300ms`, `0s`.
impl fmt::Display for GoDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        match nanoseconds {
            0 => formatter.write_str("0s"),
            1..1_000 => write!(formatter, "{nanoseconds}ns"),
            1_000..1_000_000 => decimal(formatter, nanoseconds, 1_000, "µs"),
            1_000_000..NANOSECONDS_PER_SECOND => decimal(formatter, nanoseconds, 1_000_000, "ms"),
            _ => {
                let minutes = self.0.as_secs() / 60;
                if minutes >= 60 {
                    write!(formatter, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(formatter, "{}m", minutes % 60)?;
                }
                let below = nanoseconds % (60 * NANOSECONDS_PER_SECOND);
                decimal(formatter, below, NANOSECONDS_PER_SECOND, "s")
            }
        }
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": DURATION_TEXT_MAX_BYTES,
            "pattern": DURATION_PATTERN,
        })
    }
}

/// Reads one number with its unit off the front; returns nanoseconds and what follows.
fn term<'a>(text: &'a str, shown: &dyn Fn() -> String) -> Result<(u128, &'a str), DurationError> {
    let whole_length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, mut rest) = text.split_at(whole_length);
    let mut fraction = "";
    if let Some(after_point) = rest.strip_prefix('.') {
        let length = after_point.bytes().take_while(u8::is_ascii_digit).count();
        (fraction, rest) = after_point.split_at(length);
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::Number { text: shown() });
    }
    let Some((name, unit)) = UNITS.into_iter().find(|(name, _)| {
        // "1mb" must not read as one minute: a unit ends where a digit, a point or the end is.
        rest.strip_prefix(name).is_some_and(|after| {
            after.is_empty() || after.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        })
    }) else {
        return Err(DurationError::Unit { text: shown() });
    };
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| DurationError::TooLong { text: shown() })?
    };
    let mut nanoseconds = whole.saturating_mul(unit);
    let mut scale = unit;
    for digit in fraction.bytes() {
        scale /= 10;
        nanoseconds = nanoseconds.saturating_add(u128::from(digit - b'0') * scale);
    }
    Ok((nanoseconds, &rest[name.len()..]))
}

/// Builds the length of time; the caller has checked Go's range, which fits easily.
fn from_nanoseconds(total: u128) -> Duration {
    let seconds = u64::try_from(total / NANOSECONDS_PER_SECOND).unwrap_or(u64::MAX);
    let below = u32::try_from(total % NANOSECONDS_PER_SECOND).unwrap_or(0);
    Duration::new(seconds, below)
}

/// Writes `value / unit` without trailing zeros.
fn decimal(formatter: &mut fmt::Formatter<'_>, value: u128, unit: u128, name: &str) -> fmt::Result {
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return write!(formatter, "{whole}{name}");
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    write!(formatter, "{whole}.{}{name}", digits.trim_end_matches('0'))
}
