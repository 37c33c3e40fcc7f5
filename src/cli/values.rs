//! What flags hold beyond plain text, each read in one place.
//!
//! In: the text of one flag. Out: a value that needs no second look, or a sentence that says what
//! was expected. Must never: take something that fails later, far from the flag.

use crate::api::GoDuration;
use crate::git;
use crate::model::{Taint, TaintEffect};

/// Reads how often to ask for the branch, at least [`git::POLL_MIN`].
pub(super) fn poll(text: &str) -> Result<GoDuration, String> {
    let poll: GoDuration = text.parse().map_err(|error| format!("{error}"))?;
    if poll.get() < git::POLL_MIN {
        let least = git::POLL_MIN.as_secs();
        return Err(format!(
            "at least {least}s, because servers count requests; a push to a \
                            repository on this machine is seen at once all the same"
        ));
    }
    Ok(poll)
}

/// Reads a percentage from 1 to 100, with or without the sign.
pub(super) fn percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .filter(|percent| (1..=100).contains(percent))
        .ok_or_else(|| "a whole number from 1 to 100 is expected".to_owned())
}

/// Reads an image that names what to run: a tag or a digest, because neither changes by itself.
pub(super) fn image(text: &str) -> Result<String, String> {
    let name = text.rsplit('/').next().unwrap_or(text);
    let is_exact = name
        .split_once([':', '@'])
        .is_some_and(|(name, rest)| !name.is_empty() && !rest.is_empty());
    if !is_exact || text.contains(char::is_whitespace) {
        return Err("an image with its tag is expected, such as registry/agent:1.2.3".to_owned());
    }
    Ok(text.to_owned())
}

/// Reads an absolute folder on the hosts.
pub(super) fn host_folder(text: &str) -> Result<String, String> {
    let is_plain = text.starts_with('/') && !text.split('/').any(|part| part == "..");
    if !is_plain || text.trim_matches('/').is_empty() {
        return Err("an absolute folder on the hosts is expected, such as /var/lib/skyhook".into());
    }
    Ok(text.to_owned())
}

/// Reads the name of a Kubernetes object that may hold no dots: a cluster, a namespace, a Secret.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = !text.is_empty()
        && text.len() <= NAME_MAX_BYTES
        && text.chars().all(|c| is_letter(c) || c == '-' || c == '.')
        && text.starts_with(is_letter)
        && text.ends_with(is_letter)
        && !text.contains("..");
    if !is_name {
        return Err(format!(
            "a name is expected: at most {NAME_MAX_BYTES} of a-z, 0-9, `-` and `.`, with a letter \
             or digit first and last"
        ));
    }
    Ok(text.to_owned())
}

/// Reads the name of a node, written as kubectl does.
pub(super) fn node(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some(("node" | "nodes" | "no", node)) if name(node).is_ok() => Ok(node.to_owned()),
        Some(_) | None => Err("a node is expected, written node/NAME".to_owned()),
    }
}

/// Kubernetes' bound for namespaces and labels; a cluster's name is part of a branch's.
const NAME_MAX_BYTES: usize = 63;

/// Reads `key=value:Effect` or `key:Effect`, as `kubectl taint` takes it.
pub(super) fn taint(text: &str) -> Result<Taint, String> {
    let wrong = || "a taint is expected, such as nodewright.nvidia.com=runtime-required:NoSchedule";
    let (what, effect) = text.rsplit_once(':').ok_or_else(wrong)?;
    let effect = match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        _ => return Err(wrong().to_owned()),
    };
    let (key, value) = what.split_once('=').unwrap_or((what, ""));
    if key.is_empty() || text.contains(char::is_whitespace) {
        return Err(wrong().to_owned());
    }
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect })
}
