//! A resource's story: how far it is, what needs a person, what goes on by itself.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{SOURCE_HELD, TEXT_MAX_BYTES, line, wanted};
use crate::model::{Condition, Input, Plan, Reason, Resource, Status, Verdict};
use crate::report::concern::{Concern, concern, label, way_out};
use crate::report::wording::{clean, counted, moment, short_revision};

/// Names shown of each kind of reason; the rest is a number.
const NAMES_SHOWN_MAX: usize = 10;

/// A resource's story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceStory {
    /// Its name.
    pub resource: String,
    /// Its status in one word.
    pub status: String,
    /// What holds all of it: paused, disabled, being deleted, unreadable.
    pub notes: Vec<String>,
    /// Packages and versions wanted; `None` when the resource cannot be read.
    pub wanted: Option<String>,
    /// Nodes that are complete.
    pub complete: u32,
    /// Nodes selected.
    pub total: u32,
    /// Batches that are open or come next, and stops, by compartment.
    pub batches: Vec<String>,
    /// The revision in Git that is applied, where Git is the source.
    pub cause: Option<String>,
    /// Nodes by reason, what needs a person first.
    pub sorts: Vec<Sort>,
    /// Conditions that hold.
    pub conditions: Vec<Condition>,
}

/// Nodes with the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sort {
    /// Who has to act.
    pub concern: &'static str,
    /// The reason in one word.
    pub reason: &'static str,
    /// The heading.
    pub label: &'static str,
    /// Which nodes.
    pub nodes: Names,
    /// The first node's reason in one line.
    pub why: String,
    /// What a person can do.
    pub way_out: &'static str,
}

/// Some names, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Names {
    /// The first of them.
    pub first: Vec<String>,
    /// All of them.
    pub total: usize,
}

/// Returns the story of the resource `name`; `None` when there is none of that name.
pub fn resource(
    input: &Input,
    plan: &Plan,
    revision: Option<&str>,
    name: &str,
) -> Option<ResourceStory> {
    let resource = input.observed.resources.get(name);
    let unreadable = input.desired.invalid.get(name);
    if resource.is_none() && unreadable.is_none() {
        return None;
    }
    let status = plan.statuses.get(name).or_else(|| resource?.status.as_ref());
    Some(ResourceStory {
        resource: name.to_owned(),
        status: status.map_or("unknown".to_owned(), |status| status.word.to_string()),
        notes: notes(resource, unreadable),
        wanted: input.desired.rollouts.get(name).map(wanted),
        complete: status.map_or(0, |status| status.nodes_complete),
        total: status.map_or(0, |status| status.nodes_total),
        batches: status.map(batches).unwrap_or_default(),
        cause: revision.map(short_revision),
        sorts: plan.verdicts.get(name).map(sorts).unwrap_or_default(),
        conditions: status
            .into_iter()
            .flat_map(|status| &status.conditions)
            .filter(|condition| condition.is_true)
            .cloned()
            .collect(),
    })
}

fn notes(resource: Option<&Resource>, unreadable: Option<&String>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = unreadable {
        notes.push(format!(
            "cannot be read, nothing is done for it: {}",
            clean(why, TEXT_MAX_BYTES)
        ));
    }
    let Some(resource) = resource else { return notes };
    if resource.deleting {
        notes.push("being deleted: its nodes are left in order first".to_owned());
    }
    if resource.paused {
        notes.push("paused by annotation nodewright.nvidia.com/pause".to_owned());
    }
    if resource.disabled {
        notes.push("disabled by annotation nodewright.nvidia.com/disable".to_owned());
    }
    notes
}

fn batches(status: &Status) -> Vec<String> {
    let compartments = status.memory.compartments.iter();
    compartments
        .map(|(name, compartment)| {
            let state = &compartment.batch_state;
            let now = match &compartment.open_batch {
                Some(open) => format!(
                    "batch {} of {} open since {}",
                    open.number,
                    counted(usize::try_from(open.size).unwrap_or(usize::MAX), "node", "nodes"),
                    moment(open.opened)
                ),
                None if state.should_stop => {
                    format!("STOPPED after {} failed batches in a row", state.consecutive_failures)
                }
                None => format!("no batch open, next is {}", state.current_batch),
            };
            let (working, ceiling) = (compartment.in_progress, compartment.ceiling);
            format!("{name}: {now}, {working} in progress, at most {ceiling} disturbed")
        })
        .collect()
}

fn sorts(verdicts: &BTreeMap<String, Verdict>) -> Vec<Sort> {
    let mut sorts: BTreeMap<(Concern, &'static str), Sort> = BTreeMap::new();
    for (node, verdict) in verdicts {
        let (concern, reason) = (concern(verdict), &verdict.reason);
        let sort = sorts.entry((concern, reason.word())).or_insert_with(|| Sort {
            concern: heading(concern, reason),
            reason: reason.word(),
            label: label(reason),
            nodes: Names::default(),
            why: clean(&reason.to_string(), TEXT_MAX_BYTES),
            way_out: way_out(reason),
        });
        sort.nodes.total += 1;
        if sort.nodes.first.len() < NAMES_SHOWN_MAX {
            sort.nodes.first.push(node.clone());
        }
    }
    // What needs a person is what this is read for.
    sorts.into_values().rev().collect()
}

fn heading(concern: Concern, reason: &Reason) -> &'static str {
    if matches!(reason, Reason::SourceHeld { .. }) {
        return SOURCE_HELD;
    }
    match concern {
        Concern::Settled => "DONE",
        Concern::Works => "WORKS",
        Concern::Waits => "WAITS, goes on by itself",
        Concern::OnPurpose => "HELD on purpose",
        Concern::NeedsPerson => "NEEDS YOU",
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first.join(", "))?;
        match self.total - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl fmt::Display for ResourceStory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, status, complete, total, .. } = self;
        writeln!(f, "{resource}  {status} · {complete}/{total} nodes complete")?;
        for note in &self.notes {
            line(f, "note", Some(note))?;
        }
        line(f, "wanted", self.wanted.as_ref())?;
        line(f, "cause", self.cause.as_ref())?;
        for batch in &self.batches {
            line(f, "batch", Some(batch))?;
        }
        let mut concern = "";
        for sort in &self.sorts {
            if sort.concern != concern {
                concern = sort.concern;
                writeln!(f, "\n{concern}")?;
            }
            let Sort { label, nodes, why, way_out, .. } = sort;
            writeln!(f, "  {}, {label}: {nodes}", counted(nodes.total, "node", "nodes"))?;
            if concern != "DONE" {
                writeln!(f, "    why      {why}")?;
                writeln!(f, "    you can  {way_out}")?;
            }
        }
        if !self.conditions.is_empty() {
            writeln!(f, "\nCONDITIONS")?;
        }
        for Condition { kind, reason, message, .. } in &self.conditions {
            writeln!(f, "  {kind} ({reason}): {}", clean(message, TEXT_MAX_BYTES))?;
        }
        Ok(())
    }
}
