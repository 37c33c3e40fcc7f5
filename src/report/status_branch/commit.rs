//! The message of a status commit, and how soon it must be written.
//!
//! In: the state before, the state now. Out: one line that names the most important change,
//! trailers, an urgency. The counter `Nodewright-Seq` is the writer's own and added there.

use std::collections::BTreeSet;

use crate::model::{StatusWord, Urgency};
use crate::report::wording::{clean, counted, short_revision};
use crate::report::{FleetState, RolloutState};

/// Longest subject in characters: what `git log --oneline` and forges show uncut.
pub const SUBJECT_MAX_CHARS: usize = 72;

/// Longest cluster name in a subject, so that there is room for what happened.
const CLUSTER_MAX_BYTES: usize = 24;

/// Between the parts of a subject.
const JOINT: &str = " · ";

/// What about a rollout is worth a commit, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Stopped,
    Failed,
    Finished,
    Began,
    Moved,
}

/// Returns the subject: what happened since `previous`, at most 72 characters.
pub fn commit_subject(previous: Option<&FleetState>, now: &FleetState) -> String {
    let prefix = format!("status({}): ", clean(&now.source.cluster, CLUSTER_MAX_BYTES));
    let room = SUBJECT_MAX_CHARS.saturating_sub(prefix.chars().count());
    let parts = match previous {
        None => fleet_parts(now),
        Some(previous) => changed_parts(previous, now, room),
    };
    format!("{prefix}{}", fit(parts, room))
}

/// Joins the parts that fit; leaves the later ones out and cuts the first if it must.
fn fit(parts: Vec<String>, room: usize) -> String {
    let mut text = String::new();
    for part in parts {
        let joined = if text.is_empty() { part } else { format!("{text}{JOINT}{part}") };
        if joined.chars().count() <= room {
            text = joined;
        } else if text.is_empty() {
            text = joined.chars().take(room.saturating_sub(1)).collect::<String>();
            text.truncate(text.trim_end().len());
            text.push('…');
            break;
        } else {
            break;
        }
    }
    text
}

fn changed_parts(previous: &FleetState, now: &FleetState, room: usize) -> Vec<String> {
    let mut changes: Vec<(Change, &String)> = now
        .rollouts
        .iter()
        .filter_map(|(name, rollout)| Some((change(previous.rollouts.get(name), rollout)?, name)))
        .collect();
    changes.sort();
    let first = changes.first().copied();
    let source = source_parts(previous, now);
    match (first, source) {
        (Some((Change::Stopped | Change::Failed, name)), _) => {
            rollout_parts(previous, now, name, room)
        }
        (_, Some(parts)) => parts,
        (Some((_, name)), None) => rollout_parts(previous, now, name, room),
        (None, None) => gone_parts(previous, now).unwrap_or_else(|| fleet_parts(now)),
    }
}

fn change(previous: Option<&RolloutState>, now: &RolloutState) -> Option<Change> {
    let Some(previous) = previous else { return Some(Change::Began) };
    if previous == now {
        return None;
    }
    let is_complete = |rollout: &RolloutState| rollout.status == StatusWord::Complete;
    Some(if previous.stopped().is_none() && now.stopped().is_some() {
        Change::Stopped
    } else if previous.nodes_erroring < now.nodes_erroring {
        Change::Failed
    } else if !is_complete(previous) && is_complete(now) {
        Change::Finished
    } else if previous.target != now.target || previous.started != now.started {
        Change::Began
    } else {
        Change::Moved
    })
}

fn gone_parts(previous: &FleetState, now: &FleetState) -> Option<Vec<String>> {
    let name = previous.rollouts.keys().find(|name| !now.rollouts.contains_key(*name))?;
    Some(vec![format!("{name} removed")])
}

/// Returns what changed about the source, where that is news.
fn source_parts(previous: &FleetState, now: &FleetState) -> Option<Vec<String>> {
    let (before, after) = (&previous.source, &now.source);
    if let Some(held) = after.held.as_ref().filter(|held| before.held.as_ref() != Some(held)) {
        return Some(vec![format!("held {}", short_revision(&held.revision)), held.why.clone()]);
    }
    let refused = refusals(now);
    if !refused.is_empty() && refused != refusals(previous) {
        return Some(refused_parts(now));
    }
    if let Some(error) = after.error.as_ref().filter(|_| before.error.is_none()) {
        return Some(vec![format!("source: {}", error.what)]);
    }
    match &after.revision_applied {
        Some(revision) if before.revision_applied != after.revision_applied => {
            Some(vec![format!("applied {}", short_revision(revision))])
        }
        Some(_) | None if before.error.is_some() && after.error.is_none() => {
            Some(vec!["source can be read again".to_owned()])
        }
        Some(_) | None => None,
    }
}

/// Returns which object is refused, or how many, and where the first is wrong.
fn refused_parts(state: &FleetState) -> Vec<String> {
    let objects: BTreeSet<String> = state
        .refused()
        .map(|finding| {
            finding.object.as_ref().map_or_else(|| finding.file.clone(), ToString::to_string)
        })
        .collect();
    let what = match (objects.len(), objects.first()) {
        (1, Some(object)) => format!("refused {object}"),
        (count, _) => format!("refused {}", counted(count, "object", "objects")),
    };
    let place = state.refused().next().map(|finding| {
        let place = finding.place();
        place.rsplit('/').next().unwrap_or(&place).to_owned()
    });
    std::iter::once(what).chain(place).collect()
}

/// Returns where objects are refused.
fn refusals(state: &FleetState) -> Vec<String> {
    state.refused().map(|finding| finding.place()).collect()
}

/// Returns `pool package version`, batch, done and what went wrong; without the package where
/// the rest would not fit beside it.
fn rollout_parts(previous: &FleetState, now: &FleetState, name: &str, room: usize) -> Vec<String> {
    let Some(rollout) = now.rollouts.get(name) else { return fleet_parts(now) };
    let mut parts = vec![name.to_owned()];
    if let Some(stop) = rollout.stopped() {
        parts.push(format!("stopped in batch {}", stop.batch));
    } else if rollout.status == StatusWord::Complete {
        parts.push(rollout.completed_words());
    } else if rollout.status == StatusWord::InProgress || rollout.is_moving() {
        parts.push(format!("batch {}", rollout.batch()));
    } else {
        parts.push(rollout.status.as_str().replace('_', " "));
    }
    parts.push(format!("{}/{} done", rollout.nodes_complete, rollout.nodes_total));
    if rollout.nodes_erroring > 0 {
        parts.push(format!("{} erroring", rollout.nodes_erroring));
    }
    if let Some(package) = package_at_work(previous.rollouts.get(name), rollout) {
        let length = parts.join(JOINT).chars().count() + " ".len() + package.chars().count();
        if length <= room {
            parts[0] = format!("{name} {package}");
        }
    }
    parts
}

/// Returns `name version` of the package that is being rolled out, if it is one alone.
fn package_at_work(previous: Option<&RolloutState>, now: &RolloutState) -> Option<String> {
    let pending = |rollout: &RolloutState| -> Vec<String> {
        let total = rollout.nodes_total;
        let packages = rollout.packages.iter().filter(|package| package.done < total);
        packages.map(|package| format!("{} {}", package.name, package.version)).collect()
    };
    let mut at_work = pending(now);
    if at_work.is_empty() {
        at_work = previous.map(pending).unwrap_or_default();
    }
    if at_work.len() == 1 { at_work.pop() } else { None }
}

fn fleet_parts(now: &FleetState) -> Vec<String> {
    let sum = |of: &dyn Fn(&RolloutState) -> u32| now.rollouts.values().map(of).sum::<u32>();
    let (done, total) = (sum(&|r| r.nodes_complete), sum(&|r| r.nodes_total));
    let stopped = now.rollouts.values().filter(|rollout| rollout.stopped().is_some()).count();
    let erroring = sum(&|r| r.nodes_erroring);
    let mut parts =
        vec![counted(now.rollouts.len(), "rollout", "rollouts"), format!("{done}/{total} done")];
    if stopped > 0 {
        parts.push(format!("{stopped} stopped"));
    }
    if erroring > 0 {
        parts.push(format!("{erroring} erroring"));
    }
    parts
}

/// Returns the trailers, without the writer's own sequence number.
pub fn trailers(state: &FleetState) -> Vec<(String, String)> {
    let source = state.source.revision_applied.as_ref();
    let all = [
        ("Nodewright-Cluster", Some(state.source.cluster.clone())),
        ("Nodewright-Cluster-UID", Some(state.source.cluster_uid.clone())),
        ("Nodewright-Source", source.cloned()),
        ("Nodewright-Config", Some(format!("sha256:{}", state.config_digest))),
        ("Nodewright-Phase", Some(state.phase.as_str().to_owned())),
        ("Nodewright-Epoch", Some(state.source.epoch.to_string())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns how soon the change since `previous` must be written; `None` when there is none.
pub fn urgency(previous: Option<&FleetState>, now: &FleetState) -> Option<Urgency> {
    let Some(previous) = previous else { return Some(Urgency::Urgent) };
    if previous.is_same_content(now) {
        return None;
    }
    let is_turn = now.rollouts.iter().any(|(name, rollout)| {
        change(previous.rollouts.get(name), rollout).is_some_and(|change| change != Change::Moved)
    });
    let (before, after) = (&previous.source, &now.source);
    let is_source_news = before.revision_applied != after.revision_applied
        || before.held != after.held
        || before.error.is_some() != after.error.is_some()
        || refusals(previous) != refusals(now);
    let is_gone = gone_parts(previous, now).is_some();
    let is_new_need = now.needs_person.iter().any(|need| {
        let is_known = |known: &crate::report::Need| {
            known.word == need.word && known.rollout == need.rollout && known.place == need.place
        };
        !previous.needs_person.iter().any(is_known)
    });
    let is_urgent = is_turn || is_source_news || is_gone || is_new_need;
    Some(if is_urgent { Urgency::Urgent } else { Urgency::Routine })
}
