//! Reads `null` as "not given", as the API server does for fields that are not nullable.
//!
//! In: a field's value. Out: the value, or the field's default.
//! Must never: hide a value of the wrong type; only `null` is forgiven.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the type's own default: empty maps and lists, `false`.
///
/// The API server prunes a `null` on a field that is not nullable before it applies defaults, so
/// upstream accepts `packages:` with nothing after it; a file from Git must read the same.
///
/// # Errors
/// The value is there and of the wrong type.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads `null` as `true`, for the switches whose default is on.
///
/// # Errors
/// The value is there and not a boolean.
pub fn null_as_true<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(true))
}

/// Says `true`, for `#[serde(default = …)]`.
pub(crate) const fn yes() -> bool {
    true
}

/// Says `Some(true)`: a nullable switch that is on unless it is given.
///
/// An explicit `null` stays `None`, since there it means "ask the next place"
/// (upstream contract A.5, resolution of the reset option).
pub(crate) const fn some_yes() -> Option<bool> {
    Some(true)
}

/// Whether a value equals its type's default, so that it need not be written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
