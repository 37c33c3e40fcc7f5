//! Guesses which objects a document that cannot be read was about, from its lines.
//!
//! A guess only ever holds objects back; none is applied because of one.

use std::collections::BTreeSet;

use super::{Identity, legacy};
use crate::api::crd::Kind;
use crate::manifest::names::OBJECT_NAME_MAX_BYTES;
use crate::manifest::suggest::suggest;

/// Returns which of our objects the text seems to hold; `None` when nothing can be said.
pub(super) fn identities(text: &str) -> Option<BTreeSet<Identity>> {
    let mut kinds: BTreeSet<Kind> = BTreeSet::new();
    let mut is_foreign = false;
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
            kinds.extend(kind.and_then(legacy::kind_now));
            let names = Kind::ALL.map(Kind::name);
            is_foreign |= kind.is_some_and(|kind| {
                suggest(kind, &names).is_none() && legacy::kind_now(kind).is_none()
            });
        }
        if inside_metadata && let Some(name) = value_of(trimmed, "name:") {
            names.extend(Some(name.to_owned()).filter(|_| name.len() <= OBJECT_NAME_MAX_BYTES));
        }
    }
    if kinds.is_empty() && is_foreign {
        return Some(BTreeSet::new());
    }
    if names.is_empty() {
        return None;
    }
    if kinds.is_empty() {
        kinds.extend(Kind::ALL);
    }
    let of_kind = |kind: Kind| names.iter().map(move |name| (kind, name.clone()));
    Some(kinds.iter().flat_map(|kind| of_kind(*kind)).collect())
}

fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let value = line.strip_prefix(key)?.split(" #").next()?.trim();
    let value = value.trim_matches(['"', '\'']);
    (!value.is_empty()).then_some(value)
}
