//! Names of objects and values of labels, derived so that the same thing always has one name.
//!
//! In: names of rollouts, packages and nodes. Out: text that Kubernetes accepts.
//! Must never: look at the cluster; a name follows from what it names.

use crate::model::{
    Executor, ExecutorSpec, Group, InterruptKind, PackageId, VisitRef, Work, short_hash,
};

/// Longest name of a pod or value of a label that we make, in bytes: a DNS label.
pub const LABEL_MAX_BYTES: usize = 63;

/// Longest name of a ConfigMap, in bytes: a DNS subdomain.
pub const OBJECT_NAME_MAX_BYTES: usize = 253;

/// What the hash and the dash before it take.
const HASH_BYTES: usize = 9;

/// Joins parts into a name of at most `max_bytes`, ending in a hash of all of them
/// (upstream contract D.1).
pub fn safe_name(max_bytes: usize, parts: &[&str]) -> String {
    let joined = parts.join("-").replace('.', "-");
    let hash = short_hash(&joined);
    let kept = &joined[..joined.floor_char_boundary(max_bytes - HASH_BYTES)];
    format!("{kept}-{hash}").to_lowercase()
}

/// Returns `text` where a label may have it as its value, else a safe name of it.
///
/// Versions may hold a `+`, and node names 253 bytes; neither is a value of a label.
pub fn label_value(text: &str) -> String {
    let is_edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_valid = text.len() <= LABEL_MAX_BYTES
        && is_edge(text.chars().next())
        && is_edge(text.chars().last())
        && text.chars().all(is_inner);
    if is_valid {
        return text.to_owned();
    }
    let cleaned: String = text.chars().map(|c| if is_inner(c) { c } else { '-' }).collect();
    let name = safe_name(LABEL_MAX_BYTES, &[cleaned.trim_start_matches(['-', '_', '.'])]);
    // Two texts that differ only in what was replaced must stay apart.
    format!("{}{}", &name[..name.len() - (HASH_BYTES - 1)], short_hash(text))
}

/// Returns the value of the visit label: `<visit>-<first 8 of the hash of the node's UID>`.
pub fn visit_label(visit: &VisitRef) -> String {
    format!("{}-{}", visit.visit, short_hash(&visit.node_uid))
}

/// Returns the visit that a label names.
pub fn visit_of_label(label: &str) -> Option<u64> {
    label.split_once('-')?.0.parse().ok()
}

/// Returns the name of an executor pod.
///
/// It follows from rollout, group, package, node, visit and attempt: creating it twice is a
/// Conflict, never a second run. Another Node object of the same name gives another name. A pull
/// belongs to no visit: it is told apart by the snapshot, so that a new target pulls anew.
pub fn executor_name(spec: &ExecutorSpec) -> String {
    let kind = match &spec.work {
        Work::Pull { .. } => &spec.snapshot,
        Work::Uninstall { .. } | Work::Install { .. } | Work::Verify { .. } => "",
        Work::Interrupt { interrupt, .. } => interrupt.kind.as_str(),
    };
    let package = spec.work.package_id();
    named(&spec.visit, &package, spec.work.group(), kind, spec.attempt)
}

/// Returns whether an executor that was seen has the name that follows from what it says of
/// itself: a copy made by hand, or one whose labels were changed, has not.
pub fn has_its_name(executor: &Executor) -> bool {
    let Executor { visit, package, group, attempt, snapshot, .. } = executor;
    const INTERRUPTS: [InterruptKind; 4] = [
        InterruptKind::Reboot,
        InterruptKind::Service,
        InterruptKind::RestartAllServices,
        InterruptKind::Noop,
    ];
    let is_named =
        |kind: &str| named(visit, package, *group, kind, *attempt) == executor.reference.name;
    match group {
        Group::Pull => is_named(snapshot),
        Group::Uninstall | Group::Install | Group::Verify => is_named(""),
        Group::Interrupt => INTERRUPTS.iter().any(|kind| is_named(kind.as_str())),
    }
}

fn named(visit: &VisitRef, package: &PackageId, group: Group, kind: &str, attempt: u32) -> String {
    let (label, attempt) = (visit_label(visit), attempt.to_string());
    let all = [
        visit.rollout.as_str(),
        &package.name,
        &package.version.replace('+', "-"),
        group.as_str(),
        kind,
        &visit.node,
        &label,
        &attempt,
    ];
    let parts: Vec<&str> = all.into_iter().filter(|part| !part.is_empty()).collect();
    safe_name(LABEL_MAX_BYTES, &parts)
}

/// Returns the name of the ConfigMap with a node's metadata (upstream contract D.1).
pub fn node_metadata_name(rollout: &str, node: &str) -> String {
    safe_name(OBJECT_NAME_MAX_BYTES, &[rollout, node, "metadata"])
}

/// Returns the beginning of a package's container names: 43 bytes leave room for the longest
/// stage and its check (upstream contract D.2).
pub fn container_prefix(package: &str) -> &str {
    const PREFIX_MAX_BYTES: usize = 43;
    &package[..package.floor_char_boundary(PREFIX_MAX_BYTES)]
}
