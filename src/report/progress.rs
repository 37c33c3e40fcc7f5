//! Progress in plain lines, for the demo and the log of a terminal.
//!
//! In: the state before, the state now. Out: one line for each thing that changed: the pool, the
//! batch, what waits and why. Never here: a line about something that stayed as it was.

use crate::model::{DEFAULT_COMPARTMENT, StatusWord};

use super::state::{Effect, FleetState, Need, RolloutState, WaitGroup};
use super::wording::{counted, node_names, short_revision};

/// Kinds of waiting named in a pool's line; the rest is counted.
const WAITS_SHOWN_MAX: usize = 2;

/// The reason's word of a node whose batch has not come.
const QUEUE: &str = "WaitingForBatch";

/// Returns what changed since `previous`, source first, then pools by name, then needs.
pub fn lines(previous: Option<&FleetState>, now: &FleetState) -> Vec<String> {
    let mut lines = source_lines(previous, now);
    let width = now.rollouts.keys().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, rollout) in &now.rollouts {
        let (packages, facts) = (packages(rollout), facts(name, rollout, now));
        let before = previous.and_then(|state| {
            let rollout = state.rollouts.get(name)?;
            Some((self::packages(rollout), self::facts(name, rollout, state)))
        });
        match before {
            Some(before) if before == (packages.clone(), facts.clone()) => {}
            // What a pool gets is said once, not again with every node.
            Some((known, _)) if known == packages => {
                lines.push(format!("{name:<width$}  {facts}"));
            }
            Some(_) | None => lines.push(format!("{name:<width$}  {packages}  {facts}")),
        }
        if begins(previous.and_then(|state| state.rollouts.get(name)), rollout) {
            lines.extend(to_come(rollout).map(|batches| format!("{name:<width$}  {batches}")));
        }
    }
    for name in previous.into_iter().flat_map(|state| state.rollouts.keys()) {
        if !now.rollouts.contains_key(name) {
            lines.push(format!("{name:<width$}  removed"));
        }
    }
    lines.extend(need_lines(previous, now));
    lines
}

fn source_lines(previous: Option<&FleetState>, now: &FleetState) -> Vec<String> {
    let after = &now.source;
    let applied_before = previous.and_then(|state| state.source.revision_applied.as_ref());
    let applied = after.revision_applied.as_ref().filter(|now| applied_before != Some(now));
    applied.map(|revision| format!("applied {}", short_revision(revision))).into_iter().collect()
}

/// Returns whether the first batch of a target has been opened. One that is opened again, because
/// the API server refused the first write, is no news.
fn begins(previous: Option<&RolloutState>, now: &RolloutState) -> bool {
    let is_known = previous
        .is_some_and(|previous| previous.started.is_some() && previous.target == now.target);
    now.started.is_some() && !is_known
}

/// Returns the batches in which a rollout that has begun will go, if every node succeeds.
fn to_come(rollout: &RolloutState) -> Option<String> {
    let compartments = rollout.compartments.iter().filter_map(|(name, compartment)| {
        let batches = compartment.outlook.as_ref()?.all_to_come();
        let of = if name == DEFAULT_COMPARTMENT { String::new() } else { format!("{name} ") };
        (!batches.is_empty()).then(|| format!("{of}{batches}"))
    });
    let compartments: Vec<String> = compartments.collect();
    (!compartments.is_empty()).then(|| format!("batches to come: {}", compartments.join("; ")))
}

/// Returns where one pool is, a function of the state alone.
fn facts(name: &str, rollout: &RolloutState, state: &FleetState) -> String {
    let mut facts = vec![format!("{}/{} done", rollout.nodes_complete, rollout.nodes_total)];
    match (rollout.nodes_down, rollout.nodes_in_progress) {
        (0, 0) => {}
        (0, working) if is_beside(rollout) => {
            facts.push(format!("{working} at work beside the workloads"));
        }
        (0, working) => facts.push(format!("{working} at work")),
        (down, _) => facts.push(format!("{down} down")),
    }
    if rollout.nodes_erroring > 0 {
        facts.push(format!("{} erroring", rollout.nodes_erroring));
    }
    facts.extend(wait_facts("waits", name, &state.waits));
    facts.extend(wait_facts("on purpose", name, &state.on_purpose));
    format!("{}  {}", where_now(rollout), facts.join(" · "))
}

/// Returns whether no package of the rollout disturbs workloads.
fn is_beside(rollout: &RolloutState) -> bool {
    rollout.packages.iter().all(|package| package.effect == Effect::Beside)
}

fn packages(rollout: &RolloutState) -> String {
    let named: Vec<String> = rollout
        .packages
        .iter()
        .map(|package| format!("{} {}", package.name, package.version))
        .collect();
    if named.is_empty() { "–".to_owned() } else { named.join(", ") }
}

fn where_now(rollout: &RolloutState) -> String {
    match (rollout.stopped(), rollout.status) {
        (Some(stop), _) => format!("STOPPED in batch {}", stop.batch),
        (None, StatusWord::Complete | StatusWord::Waiting) if rollout.nodes_total == 0 => {
            "no nodes matched".to_owned()
        }
        (None, StatusWord::Complete) => rollout.completed_words(),
        (None, _) if rollout.is_moving() => format!("batch {}", rollout.batch()),
        (None, word) => word.as_str().replace('_', " "),
    }
}

fn wait_facts(word: &str, rollout: &str, groups: &[WaitGroup]) -> Option<String> {
    // The mere queue says nothing that the batch and the count of nodes done do not say.
    let is_told = |group: &&WaitGroup| group.rollout == rollout && group.word != QUEUE;
    let mut own: Vec<&WaitGroup> = groups.iter().filter(is_told).collect();
    // What has waited for longest is what people look for.
    own.sort_by_key(|group| (group.since.is_none(), group.since, group.word.clone()));
    let shown: Vec<String> = own.iter().take(WAITS_SHOWN_MAX).map(|group| wait(group)).collect();
    let more = match own.len().saturating_sub(WAITS_SHOWN_MAX) {
        0 => String::new(),
        more => format!("; and {}", counted(more, "more reason", "more reasons")),
    };
    (!shown.is_empty()).then(|| format!("{word}: {}{more}", shown.join("; ")))
}

fn wait(group: &WaitGroup) -> String {
    match group.nodes {
        1 => format!("{}: {}", group.example_node, group.example),
        nodes => format!("{nodes} × {}, {}: {}", group.label, group.example_node, group.example),
    }
}

/// Returns what began to need a person, and what no longer does.
fn need_lines(previous: Option<&FleetState>, now: &FleetState) -> Vec<String> {
    let before: Vec<String> =
        previous.iter().flat_map(|state| &state.needs_person).map(need_line).collect();
    let after: Vec<String> = now.needs_person.iter().map(need_line).collect();
    let mut lines: Vec<String> = now
        .needs_person
        .iter()
        .zip(&after)
        .filter(|(_, line)| !before.contains(line))
        .map(|(need, line)| format!("NEEDS YOU  {line} → {}", need.way_out))
        .collect();
    let is_over = |need: &Need| {
        !now.needs_person.iter().any(|now| (&now.word, &now.rollout) == (&need.word, &need.rollout))
    };
    let over = previous.iter().flat_map(|state| &state.needs_person).filter(|need| is_over(need));
    lines.extend(over.map(|need| format!("SETTLED    {}", need_line(need))));
    lines
}

fn need_line(need: &Need) -> String {
    let place = need.place.as_ref().map(|place| short_revision(place));
    let nodes = (need.nodes.total > 0).then(|| node_names(&need.nodes));
    let about: Vec<String> = need.rollout.clone().into_iter().chain(nodes).chain(place).collect();
    if about.is_empty() {
        need.message.clone()
    } else {
        format!("{}: {}", about.join(" "), need.message)
    }
}
