//! A resource's story: how far it is, what needs a person, what goes on by itself.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{SOURCE_HELD, TEXT_MAX_BYTES, line, wanted};
use crate::model::{
    CompartmentStatus, Condition, Input, Outlook, Plan, Reason, Resource, Status, Verdict,
};
use crate::report::concern::{Concern, concern, label, way_out_for};
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
    /// Batches that are open and come next, and what stops them, by compartment.
    pub compartments: Vec<CompartmentStory>,
    /// The revision in Git that is applied, where Git is the source.
    pub cause: Option<String>,
    /// Nodes by reason, what needs a person first.
    pub sorts: Vec<Sort>,
    /// Conditions that hold.
    pub conditions: Vec<Condition>,
}

/// Where the batches of a compartment are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompartmentStory {
    /// Its name.
    pub compartment: String,
    /// The batch that is open or comes next, or that it was stopped.
    pub batch: String,
    /// The sizes of the batches after that, if all goes well and if it does not.
    pub to_come: Option<String>,
    /// What would stop it.
    pub stops: Option<String>,
    /// Why it goes on although nodes failed.
    pub goes_on: Option<String>,
    /// The same in numbers; `None` where nothing is planned.
    pub outlook: Option<Outlook>,
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
    pub way_out: String,
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
        notes: notes(resource, unreadable, status),
        wanted: input.desired.rollouts.get(name).map(wanted),
        complete: status.map_or(0, |status| status.nodes_complete),
        total: status.map_or(0, |status| status.nodes_total),
        compartments: status
            .map(|status| compartments(status, plan.outlooks.get(name)))
            .unwrap_or_default(),
        cause: revision.map(short_revision),
        sorts: plan.verdicts.get(name).map(|it| sorts(name, it)).unwrap_or_default(),
        conditions: status
            .into_iter()
            .flat_map(|status| &status.conditions)
            // The mirrored ones say the same again.
            .filter(|condition| condition.is_true && !condition.kind.contains('/'))
            .cloned()
            .collect(),
    })
}

fn notes(
    resource: Option<&Resource>,
    unreadable: Option<&String>,
    status: Option<&Status>,
) -> Vec<String> {
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
    if status.is_some_and(|status| status.nodes_total == 0) && !resource.deleting {
        let labels = "kubectl get nodes --show-labels";
        notes.push(format!("no node matches spec.nodeSelectors; compare it with: {labels}"));
    }
    notes
}

fn compartments(
    status: &Status,
    outlooks: Option<&BTreeMap<String, Outlook>>,
) -> Vec<CompartmentStory> {
    let compartments = status.memory.compartments.iter();
    compartments
        .map(|(name, compartment)| {
            let outlook = outlooks.and_then(|outlooks| outlooks.get(name));
            let under_way = outlook.filter(|it| !it.is_over() && it.stopped.is_none());
            CompartmentStory {
                compartment: name.clone(),
                batch: batch(compartment, outlook),
                to_come: under_way.map(Outlook::sizes),
                stops: under_way.map(Outlook::limits),
                goes_on: under_way.and_then(Outlook::goes_on),
                outlook: outlook.cloned(),
            }
        })
        .collect()
}

/// Returns where the batches are.
fn batch(compartment: &CompartmentStatus, outlook: Option<&Outlook>) -> String {
    let state = &compartment.batch_state;
    let (working, ceiling) = (compartment.in_progress, compartment.ceiling);
    let last = outlook.map(Outlook::last_number);
    let of_all = last.map(|last| format!(" of {last}")).unwrap_or_default();
    let stopped = || {
        let batch = state.current_batch.saturating_sub(1);
        let failures = state.consecutive_failures;
        format!("STOPPED in batch {batch}, {failures} failed in a row")
    };
    let now = match &compartment.open_batch {
        // A batch beside the rollout is of nodes that join.
        Some(open) if state.should_stop => {
            let nodes = counted(usize::try_from(open.size).unwrap_or(usize::MAX), "node", "nodes");
            format!("{}; {nodes} that joined to what was complete before", stopped())
        }
        Some(open) => {
            let since = moment(open.opened);
            let nodes = usize::try_from(open.size).unwrap_or(usize::MAX);
            let nodes = counted(nodes, "node", "nodes");
            format!("batch {}{of_all}, {nodes}, open since {since}", open.number)
        }
        None if state.should_stop => stopped(),
        None if outlook.is_some_and(Outlook::is_over) => "no batch open, none to come".to_owned(),
        None => format!("no batch open, next is {}{of_all}", state.current_batch),
    };
    format!("{now}; {working} in progress, at most {ceiling} disturbed")
}

fn sorts(rollout: &str, verdicts: &BTreeMap<String, Verdict>) -> Vec<Sort> {
    let mut sorts: BTreeMap<(Concern, &'static str), Sort> = BTreeMap::new();
    for (node, verdict) in verdicts {
        let (concern, reason) = (concern(verdict), &verdict.reason);
        let sort = sorts.entry((concern, reason.word())).or_insert_with(|| Sort {
            concern: heading(concern, reason),
            reason: reason.word(),
            label: label(reason),
            nodes: Names::default(),
            why: clean(&reason.to_string(), TEXT_MAX_BYTES),
            way_out: way_out_for(reason, rollout),
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

impl fmt::Display for CompartmentStory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { compartment, batch, to_come, stops, goes_on, outlook: _ } = self;
        line(f, "batch", Some(&format!("{compartment}: {batch}")))?;
        line(f, "to come", to_come.as_ref())?;
        line(f, "stops", stops.as_ref())?;
        line(f, "goes on", goes_on.as_ref())
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
        for compartment in &self.compartments {
            write!(f, "{compartment}")?;
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
