//! One node's story: what, why, since when, what is on it, what a person can do.
//!
//! In: the planner's input and answer. Out: text for a terminal. Ages count to the input's own
//! `now`, so the same input tells the same story.

use std::fmt::Write as _;

use crate::model::{
    Entry, Input, Node, NodeRollout, Outcome, Phase, Plan, Record, Rollout, State, Verdict,
};

use super::concern::{Concern, concern, since, way_out};
use super::survey::failing_since;
use super::wording::{age, clean, moment};

/// Longest line of others in the story.
const TEXT_MAX_BYTES: usize = 1024;

/// Returns the story of `name`; `None` when there is no such node.
pub fn node(input: &Input, plan: &Plan, name: &str) -> Option<String> {
    let node = input.observed.nodes.get(name)?;
    let mut story = format!("{name}  {}\n", standing(node));
    let verdicts: Vec<(&String, &Verdict)> = plan
        .verdicts
        .iter()
        .filter_map(|(rollout, verdicts)| Some((rollout, verdicts.get(name)?)))
        .collect();
    if verdicts.is_empty() {
        story.push_str("no rollout selects this node\n");
    }
    for (rollout, verdict) in verdicts {
        story.push('\n');
        story.push_str(&chapter(input, node, rollout, verdict));
    }
    for (rollout, state) in &node.rollouts {
        let is_selected = plan.verdicts.get(rollout).is_some_and(|all| all.contains_key(name));
        if !is_selected && !state.entries.is_empty() {
            let _ = write!(story, "\n{rollout}  no longer selects this node\n");
            story.push_str(&left_behind(state));
        }
    }
    Some(story)
}

/// Returns whether the node is ready and schedulable, and who keeps it cordoned.
fn standing(node: &Node) -> String {
    let ready = if node.ready { "ready" } else { "NOT READY" };
    let holders: Vec<&str> = node
        .rollouts
        .keys()
        .map(String::as_str)
        .filter(|rollout| node.is_cordoned_by(rollout))
        .collect();
    let cordon = match (node.unschedulable, holders.is_empty()) {
        (false, _) => "schedulable".to_owned(),
        (true, false) => format!("cordoned for {}", holders.join(", ")),
        (true, true) => match &node.unschedulable_manager {
            Some(manager) => format!("cordoned by {manager}, not by us"),
            None => "cordoned, not by us".to_owned(),
        },
    };
    format!("{ready} · {cordon}")
}

fn chapter(input: &Input, node: &Node, name: &str, verdict: &Verdict) -> String {
    let rollout = input.desired.rollouts.get(name);
    let cr_uid = input.observed.resources.get(name).map_or("", |found| &found.uid);
    let record = node.record(name, cr_uid);
    let reason = &verdict.reason;
    let began = since(reason).or_else(|| failing_since(node, name));
    let mut lines = vec![("why", clean(&reason.to_string(), TEXT_MAX_BYTES))];
    if let Some(time) = began {
        lines.push((
            "since",
            format!("{}, {} ago", moment(time), age(input.now.duration_since(time))),
        ));
    }
    lines.extend(rollout.map(|rollout| ("wanted", wanted(rollout))));
    lines.extend(node.entries(name).values().map(|entry| ("on it", entry_text(entry))));
    lines.extend(record.map(|record| ("visit", visit(record))));
    lines.extend(record.and_then(|record| Some(("reboot", reboot(record)?))));
    if let Some(message) = record.and_then(|record| record.message.as_deref()) {
        lines.push(("said", clean(message, TEXT_MAX_BYTES)));
    }
    lines.push(("you can", way_out(reason).to_owned()));
    let mut text = format!("{name}  {}\n", headline(verdict));
    for (label, line) in lines {
        let _ = writeln!(text, "  {label:<8} {line}");
    }
    text
}

fn headline(verdict: &Verdict) -> &'static str {
    match concern(verdict) {
        Concern::Settled => "DONE",
        Concern::Works => "WORKING",
        Concern::Waits => "WAITING, goes on by itself",
        Concern::OnPurpose => "HELD on purpose",
        Concern::NeedsPerson => "BLOCKED, needs you",
    }
}

fn wanted(rollout: &Rollout) -> String {
    let packages: Vec<String> = rollout
        .packages
        .values()
        .map(|package| match &package.interrupt {
            Some(interrupt) => format!("{} {} ({})", package.name, package.version, interrupt.kind),
            None => format!("{} {}", package.name, package.version),
        })
        .collect();
    packages.join(", ")
}

fn entry_text(entry: &Entry) -> String {
    let Entry { name, version, image: _, container_sha: _, stage, state, restarts, .. } = entry;
    let since = entry.since.map(|time| format!(" since {}", moment(time))).unwrap_or_default();
    let failed = match (state, restarts) {
        (State::Erroring, Some(count)) => format!(", {count} failed attempts"),
        (_, _) => String::new(),
    };
    let state = state.as_str().replace('_', " ");
    clean(&format!("{name} {version}: {stage} {state}{since}{failed}"), TEXT_MAX_BYTES)
}

fn visit(record: &Record) -> String {
    let Record { visit, batch, order, picked, phase, outcome, .. } = record;
    let end = match (outcome, phase) {
        (Some(Outcome::Complete), _) => "ended complete",
        (Some(Outcome::Erroring), _) => "ended in failure",
        (Some(Outcome::Released), _) => "let go without a result",
        (None, Phase::Picked) => "at work",
        (None, Phase::Interrupting) => "interrupt under way",
        (None, Phase::Interrupted) => "interrupt proven, verifying",
        (None, Phase::Released) => "released",
    };
    format!("number {visit}, batch {batch}, order {order}, picked {}, {end}", moment(*picked))
}

/// Returns what is known of a reboot; `None` when the visit had none.
fn reboot(record: &Record) -> Option<String> {
    let before = record.boot_before.as_ref()?;
    Some(match record.boot_proven() {
        Some(proven) => format!("proven: boot ID {before} became {proven}"),
        None => format!("boot ID before is {before}, not yet changed"),
    })
}

/// Returns what an earlier rollout left on a node that it no longer selects.
fn left_behind(state: &NodeRollout) -> String {
    let mut text = String::new();
    for entry in state.entries.values() {
        let _ = writeln!(text, "  {:<8} {}", "on it", entry_text(entry));
    }
    text
}
