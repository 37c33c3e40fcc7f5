//! What Kubernetes takes as the name of an object, a label or a file of a ConfigMap.

/// Longest name of most objects, in bytes.
pub(super) const OBJECT_NAME_MAX_BYTES: usize = 253;

/// Longest part of a label key after its slash, and longest label value, in bytes.
const LABEL_MAX_BYTES: usize = 63;

/// Says how a name may look, for messages.
pub(super) const NAME_FORM: &str =
    "lower-case letters, digits, dashes and dots, starting and ending with a letter or digit";

/// Whether a text is a DNS subdomain (RFC 1123), as names of objects must be.
pub(super) fn is_object_name(name: &str, max_bytes: usize) -> bool {
    let is_part = |part: &str| {
        let edge =
            |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        edge(part.chars().next())
            && edge(part.chars().last())
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    name.len() <= max_bytes && name.split('.').all(is_part)
}

/// Whether a text is a label key: a name, with an optional domain and slash before it.
pub(super) fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, name)) => {
            is_object_name(domain, OBJECT_NAME_MAX_BYTES)
                && !name.is_empty()
                && is_label_value(name)
        }
        None => !key.is_empty() && is_label_value(key),
    }
}

/// Whether a text is a label value; it may be empty.
pub(super) fn is_label_value(value: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= LABEL_MAX_BYTES
        && edge(value.chars().next())
        && edge(value.chars().last())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Whether a text may be the key of a ConfigMap, which a package's file becomes.
pub(super) fn is_config_key(key: &str) -> bool {
    (1..=OBJECT_NAME_MAX_BYTES).contains(&key.len())
        && key != "."
        && !key.starts_with("..")
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Whether a text is the name of a package: it starts and ends with a letter (contract A.3).
pub(super) fn is_package_name(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase());
    (2..=43).contains(&name.len())
        && edge(name.chars().next())
        && edge(name.chars().last())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}
