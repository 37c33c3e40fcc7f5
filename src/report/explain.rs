//! The stories behind `nodewright explain`: what, why, since when, what comes next, and what a
//! person can do, for a node or for a resource.
//!
//! In: the planner's input and answer. Out: facts that print as text for a terminal or serialize
//! as JSON. Ages count to the input's own `now`, so the same input tells the same story. Never
//! here: a guess; what is not known is left out, or says so.

mod answer;
mod next;
mod resource;

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::model::{
    Entries, Entry, Input, Node, Outcome, Phase, Plan, Reason, Record, Rollout, State, Verdict,
    VerdictKind,
};

use super::concern::{Concern, concern, retried_at, since, way_out_for};
use super::leftovers;
use super::survey::failing_since;
use super::wording::{age, clean, moment, short_revision};

pub use answer::{Answer, NotKnown};
pub use resource::{CompartmentStory, Names, ResourceStory, Sort, resource};

/// Longest line of others in the story.
const TEXT_MAX_BYTES: usize = 1024;

/// Headline of what waits for the source: it is counted as waiting, since what holds the source is
/// one need and not one of each node, but it does not go on by itself.
const SOURCE_HELD: &str = "HELD, until the source is let go";

/// A node's story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStory {
    /// Its name.
    pub node: String,
    /// Whether it is ready and schedulable, and who keeps it cordoned.
    pub standing: String,
    /// Other operators that work on the node; empty when none does.
    pub others: Vec<String>,
    /// What each rollout that selects it does there.
    pub rollouts: Vec<Chapter>,
    /// What rollouts left on its host that do not select it, are gone, or let it go.
    pub left: Vec<Left>,
}

/// What one rollout does on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chapter {
    /// The rollout.
    pub rollout: String,
    /// Who has to act, as a headline.
    pub headline: &'static str,
    /// The kind of the verdict.
    pub kind: VerdictKind,
    /// The reason in one word.
    pub reason: &'static str,
    /// The reason in one line.
    pub why: String,
    /// Since when it is so, where that is known.
    pub since: Option<Timestamp>,
    /// The same for people, with the age.
    #[serde(skip)]
    since_text: Option<String>,
    /// When it is tried again, where that is known.
    pub retry: Option<Timestamp>,
    /// The same for people, with the time until then.
    #[serde(skip)]
    retry_text: Option<String>,
    /// Packages and versions wanted.
    pub wanted: Option<String>,
    /// What is on the host, one package version a line.
    pub on_it: Vec<String>,
    /// What is still to come, in order, one package a line.
    pub next: Vec<String>,
    /// The last visit: its batch, its place and how far it is.
    pub visit: Option<String>,
    /// What is known of its reboot.
    pub reboot: Option<String>,
    /// What failed last, with its output.
    pub said: Option<String>,
    /// The revision in Git that is applied, where Git is the source.
    pub cause: Option<String>,
    /// What a person can do.
    pub way_out: String,
}

/// What an earlier rollout left on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Left {
    /// The rollout.
    pub rollout: String,
    /// Why nothing takes it off.
    pub why: &'static str,
    /// One package version a line.
    pub on_it: Vec<String>,
}

/// Returns the story of `name`; `None` when there is no such node. `revision` is the one that Git
/// has brought into the cluster, where it did.
pub fn node(input: &Input, plan: &Plan, revision: Option<&str>, name: &str) -> Option<NodeStory> {
    let node = input.observed.nodes.get(name)?;
    let verdicts =
        plan.verdicts.iter().filter_map(|(rollout, verdicts)| Some((rollout, verdicts.get(name)?)));
    let is_selected = |rollout: &String| {
        plan.verdicts.get(rollout).is_some_and(|verdicts| verdicts.contains_key(name))
    };
    let left = |rollout: &String, why, entries: &Entries| Left {
        rollout: rollout.clone(),
        why,
        on_it: entries.values().map(entry_text).collect(),
    };
    let left = node.rollouts.iter().flat_map(|(rollout, state)| {
        let unselected = !is_selected(rollout) && !state.entries.is_empty();
        let because = || left(rollout, leftovers::because(input, rollout), &state.entries);
        let forgotten = || left(rollout, leftovers::FORGOTTEN, &state.left);
        let forgotten = (!state.left.is_empty()).then(forgotten);
        [unselected.then(because), forgotten].into_iter().flatten()
    });
    Some(NodeStory {
        node: name.to_owned(),
        standing: standing(node),
        others: node.claims.iter().map(|claim| format!("{} ({})", claim.by, claim.mark)).collect(),
        rollouts: verdicts
            .map(|(rollout, verdict)| chapter(input, node, revision, rollout, verdict))
            .collect(),
        left: left.collect(),
    })
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

fn chapter(
    input: &Input,
    node: &Node,
    revision: Option<&str>,
    name: &str,
    verdict: &Verdict,
) -> Chapter {
    let rollout = input.desired.rollouts.get(name);
    let cr_uid = input.observed.resources.get(name).map_or("", |found| &found.uid);
    let record = node.record(name, cr_uid);
    let reason = &verdict.reason;
    let began = since(reason).or_else(|| failing_since(node, name));
    let said = record.and_then(|record| record.message.as_deref());
    let ago = |time| format!("{}, {} ago", moment(time), age(input.now.duration_since(time)));
    let retry = retried_at(reason);
    Chapter {
        rollout: name.to_owned(),
        headline: headline(verdict),
        kind: verdict.kind,
        reason: reason.word(),
        why: clean(&reason.to_string(), TEXT_MAX_BYTES),
        since: began,
        since_text: began.map(ago),
        retry,
        retry_text: retry.map(|at| from_now(input.now, at)),
        wanted: rollout.map(wanted),
        on_it: node.entries(name).values().map(entry_text).collect(),
        next: rollout.map(|rollout| next::steps(input, node, rollout, verdict)).unwrap_or_default(),
        visit: record.map(visit),
        reboot: record.and_then(reboot),
        said: said.map(|text| clean(text, TEXT_MAX_BYTES)),
        cause: revision.map(short_revision),
        way_out: way_out_for(reason, name).replace("node/NAME", &format!("node/{}", node.name)),
    }
}

impl fmt::Display for NodeStory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  {}", self.node, self.standing)?;
        for other in &self.others {
            writeln!(f, "other operator at work: {other}")?;
        }
        if self.rollouts.is_empty() {
            writeln!(f, "no rollout selects this node")?;
        }
        for chapter in &self.rollouts {
            write!(f, "\n{chapter}")?;
        }
        for left in &self.left {
            writeln!(f, "\n{}  {}", left.rollout, left.why)?;
            lines(f, "on it", &left.on_it)?;
        }
        Ok(())
    }
}

impl fmt::Display for Chapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  {}", self.rollout, self.headline)?;
        line(f, "why", Some(&self.why))?;
        line(f, "since", self.since_text.as_ref())?;
        line(f, "retry", self.retry_text.as_ref())?;
        line(f, "wanted", self.wanted.as_ref())?;
        lines(f, "on it", &self.on_it)?;
        lines(f, "next", &self.next)?;
        line(f, "visit", self.visit.as_ref())?;
        line(f, "reboot", self.reboot.as_ref())?;
        line(f, "said", self.said.as_ref())?;
        line(f, "cause", self.cause.as_ref())?;
        line(f, "you can", Some(&self.way_out))
    }
}

fn line(f: &mut fmt::Formatter<'_>, label: &str, text: Option<&String>) -> fmt::Result {
    text.map_or(Ok(()), |text| writeln!(f, "  {label:<8} {text}"))
}

fn lines(f: &mut fmt::Formatter<'_>, label: &str, all: &[String]) -> fmt::Result {
    all.iter().try_for_each(|text| line(f, label, Some(text)))
}

/// Returns a time to come and how far away it is.
fn from_now(now: Timestamp, at: Timestamp) -> String {
    if at <= now {
        return format!("{}, due now", moment(at));
    }
    format!("{}, in {}", moment(at), age(at.duration_since(now)))
}

fn headline(verdict: &Verdict) -> &'static str {
    if matches!(verdict.reason, Reason::SourceHeld { .. }) {
        return SOURCE_HELD;
    }
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
    let left = entry.left.map(|time| format!(", let go {}", moment(time))).unwrap_or_default();
    let failed = match (state, restarts) {
        (State::Erroring, Some(count)) => format!(", {count} failed attempts"),
        (_, _) => String::new(),
    };
    let state = state.as_str().replace('_', " ");
    clean(&format!("{name} {version}: {stage} {state}{since}{failed}{left}"), TEXT_MAX_BYTES)
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
