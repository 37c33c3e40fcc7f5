//! Guesses which objects a document that cannot be read was about, from its lines.
//!
//! A guess only ever holds objects back; none is applied because of one.

use std::collections::BTreeSet;

use super::Identity;
use crate::api::crd::Kind;

/// Returns the objects that the text seems to hold; empty when nothing can be said.
pub(super) fn identities(text: &str) -> BTreeSet<Identity> {
    let mut kinds: BTreeSet<Kind> = BTreeSet::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut inside_metadata = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if !line.starts_with([' ', '\t']) {
            inside_metadata = trimmed.starts_with("metadata:");
            let kind = value_of(trimmed, "kind:");
            kinds.extend(Kind::ALL.into_iter().filter(|known| kind == Some(known.name())));
        }
        if inside_metadata && let Some(name) = value_of(trimmed, "name:") {
            names.insert(name.to_owned());
        }
    }
    if kinds.is_empty() {
        kinds.extend(Kind::ALL);
    }
    let of_kind = |kind: Kind| names.iter().map(move |name| (kind, name.clone()));
    kinds.iter().flat_map(|kind| of_kind(*kind)).collect()
}

fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let value = line.strip_prefix(key)?.split(" #").next()?.trim();
    let value = value.trim_matches(['"', '\'']);
    (!value.is_empty()).then_some(value)
}
