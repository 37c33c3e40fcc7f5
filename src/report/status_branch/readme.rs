//! `README.md` of the status branch: the page a forge shows.
//!
//! In: a [`FleetState`]. Out: Markdown that reads well rendered and raw. It says "as of this
//! commit" and never a time of its own: a dead daemon must not leave a page that looks alive.

use std::fmt::Write as _;

use crate::model::{DEFAULT_COMPARTMENT, InterruptKind, Outlook, Severity, StatusWord};
use crate::report::wording::{
    code, counted, markdown, markdown_cell, moment, node_names, short_revision,
};
use crate::report::{
    Effect, FleetState, LeftBehind, Need, PackageState, RolloutState, SourceMode, SourceView,
    WaitGroup,
};

/// Needs listed on the page; the rest is in `status.json`. More than this is one problem.
const NEEDS_SHOWN_MAX: usize = 30;

/// Package versions left on hosts that are listed on the page.
const LEFT_SHOWN_MAX: usize = 20;

/// Warnings and notes listed on the page.
const NOTES_SHOWN_MAX: usize = 10;

/// Returns the page.
pub(super) fn page(state: &FleetState) -> String {
    let sections = [
        headline(state),
        source(&state.source),
        table(state),
        to_come(state),
        needs(state),
        waits("Waits by itself", &state.waits),
        waits("Held on purpose", &state.on_purpose),
        left_behind(&state.left_behind),
        notes(state),
    ];
    let mut page: String =
        sections.into_iter().filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n");
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn headline(state: &FleetState) -> String {
    let cluster = markdown(&state.source.cluster);
    let phase = state.phase.headline();
    let needs = match state.needs_person.len() {
        0 => "nothing needs a person".to_owned(),
        1 => "1 thing needs a person".to_owned(),
        more => format!("{more} things need a person"),
    };
    format!("# {cluster} · {phase} · {needs}\n")
}

fn source(source: &SourceView) -> String {
    let live = "State as of this commit; live: `kubectl get nodewrights`";
    let applied = match (source.mode, &source.revision_applied) {
        (SourceMode::Cluster, _) => "Wanted state from the resources in the cluster".to_owned(),
        (SourceMode::Git, Some(revision)) => format!("Applied {}", code(&short_revision(revision))),
        (SourceMode::Git, None) => "No revision applied yet".to_owned(),
    };
    let is_newer =
        source.revision_seen.is_some() && source.revision_seen != source.revision_applied;
    let seen = match &source.revision_seen {
        Some(revision) if is_newer => {
            format!(", {} seen and not applied", code(&short_revision(revision)))
        }
        Some(_) | None => String::new(),
    };
    format!("{applied}{seen}. {live}\n")
}

fn table(state: &FleetState) -> String {
    if state.rollouts.is_empty() {
        return "There are no rollouts.\n".to_owned();
    }
    let mut table = String::from(
        "| pool | package | done | down | state |\n\
         |---|---|--:|--:|---|\n",
    );
    for (name, rollout) in &state.rollouts {
        let total = rollout.nodes_total;
        let state_text = rollout_text(rollout);
        let (pool, down) = (markdown_cell(name), rollout.nodes_down);
        if rollout.packages.is_empty() {
            let done = rollout.nodes_complete;
            let _ = writeln!(table, "| {pool} | – | {done}/{total} | {down} | {state_text} |");
        }
        for (index, package) in rollout.packages.iter().enumerate() {
            let (text, done) = (package_text(package), package.done);
            // A pool's own facts stand in its first line only: they are not the package's.
            let line = match index {
                0 => format!("| {pool} | {text} | {done}/{total} | {down} | {state_text} |"),
                _ => format!("| | {text} | {done}/{total} | | |"),
            };
            table.push_str(&line);
            table.push('\n');
        }
    }
    table
}

fn package_text(package: &PackageState) -> String {
    let effect = match package.effect {
        Effect::Beside => "beside the workloads",
        Effect::Interrupts(InterruptKind::Reboot) => "reboot",
        Effect::Interrupts(InterruptKind::Service | InterruptKind::RestartAllServices) => {
            "restarts services"
        }
        Effect::Interrupts(InterruptKind::Noop) => "drains only",
        Effect::InterruptsOnConfig => "interrupt on some config changes",
    };
    format!("{} {} ({effect})", markdown_cell(&package.name), markdown_cell(&package.version))
}

fn rollout_text(rollout: &RolloutState) -> String {
    if let Some(stop) = rollout.stopped() {
        return format!("**stopped**, batch {}", stop.batch);
    }
    let erroring = match rollout.nodes_erroring {
        0 => String::new(),
        failed => format!(", **{failed} failed**"),
    };
    let is_empty = rollout.nodes_total == 0;
    match rollout.status {
        StatusWord::Complete | StatusWord::Waiting if is_empty => "no nodes matched".to_owned(),
        StatusWord::Complete => match rollout.completed {
            Some(time) => format!("{} {}", rollout.completed_words(), moment(time)),
            None => rollout.completed_words(),
        },
        StatusWord::InProgress => format!("{}{erroring}", batches(rollout)),
        StatusWord::Waiting if rollout.is_moving() => format!("{}{erroring}", batches(rollout)),
        StatusWord::Blocked | StatusWord::Erroring => {
            format!("**{}**{erroring}", rollout.status)
        }
        StatusWord::Waiting | StatusWord::Disabled | StatusWord::Paused | StatusWord::Unknown => {
            format!("{}{erroring}", rollout.status)
        }
    }
}

fn batches(rollout: &RolloutState) -> String {
    let named: Vec<String> = rollout
        .compartments
        .iter()
        .filter(|(_, compartment)| !compartment.is_over())
        .map(|(name, compartment)| {
            let of = match name.as_str() {
                DEFAULT_COMPARTMENT => String::new(),
                _ => format!("{} ", markdown_cell(name)),
            };
            let last = compartment.outlook.as_ref().map(Outlook::last_number);
            let last = last.map(|last| format!(" of {last}")).unwrap_or_default();
            format!("{of}batch {}{last}", compartment.batch)
        })
        .collect();
    if named.is_empty() { "in progress".to_owned() } else { named.join(", ") }
}

/// The sizes of the batches to come, and why a rollout goes on in which nodes failed.
fn to_come(state: &FleetState) -> String {
    let mut section = String::new();
    let moving = state.rollouts.iter().filter(|(_, rollout)| rollout.is_moving());
    for (name, rollout) in moving {
        for (compartment, outlook) in rollout.outlooks() {
            if outlook.is_over() {
                continue;
            }
            let of = match compartment {
                DEFAULT_COMPARTMENT => String::new(),
                compartment => format!(" {}", markdown(compartment)),
            };
            let now = outlook.open.map(|open| format!("{} open, then ", open.size));
            let (now, name) = (now.unwrap_or_default(), markdown(name));
            let _ = writeln!(section, "- **{name}**{of}: {now}{}", outlook.to_come);
            if let Some(why) = outlook.goes_on() {
                let _ = writeln!(section, "  - {why}");
            }
        }
    }
    if section.is_empty() { section } else { format!("## Batches to come\n\n{section}") }
}

fn needs(state: &FleetState) -> String {
    if state.needs_person.is_empty() {
        return String::new();
    }
    let mut section = format!("## Needs a person ({})\n\n", state.needs_person.len());
    for need in state.needs_person.iter().take(NEEDS_SHOWN_MAX) {
        section.push_str(&need_text(need));
    }
    match state.needs_person.len().saturating_sub(NEEDS_SHOWN_MAX) {
        0 => {}
        more => {
            let _ = writeln!(section, "- and {more} more, see `status.json`");
        }
    }
    section
}

fn need_text(need: &Need) -> String {
    let Need { word, rollout, nodes, place, message, way_out, since, stopped } = need;
    let rollout = rollout.as_ref().map(|name| format!("**{}**", markdown(name)));
    let nodes = (nodes.total > 0).then(|| markdown(&node_names(nodes)));
    let place = place.as_ref().map(|place| code(&short_revision(place)));
    let about: Vec<String> = rollout.into_iter().chain(nodes).chain(place).collect();
    let about = if about.is_empty() { String::new() } else { format!("{}: ", about.join(", ")) };
    let since = since.map(|time| format!(", since {}", moment(time))).unwrap_or_default();
    let stopped = stopped.as_ref().map(|text| format!("  - {}\n", markdown(text)));
    let (message, way_out) = (markdown(message), markdown(way_out));
    let stopped = stopped.unwrap_or_default();
    format!("- {about}{message} ({word}{since})\n  - way out: {way_out}\n{stopped}")
}

fn waits(heading: &str, groups: &[WaitGroup]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let total: u32 = groups.iter().map(|group| group.nodes).sum();
    let mut section = format!("## {heading} ({})\n\n", counted_nodes(total));
    for group in groups {
        let WaitGroup { rollout, word: _, label, nodes, example_node, example, since: _ } = group;
        let which = if *nodes == 1 { "" } else { "for example " };
        let _ = writeln!(
            section,
            "- **{}**, {nodes} × {label}; {which}{}: {}",
            markdown(rollout),
            markdown(example_node),
            markdown(example)
        );
    }
    section
}

fn counted_nodes(count: u32) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "node", "nodes")
}

fn left_behind(left: &[LeftBehind]) -> String {
    if left.is_empty() {
        return String::new();
    }
    let mut section = format!("## Left on hosts ({})\n\n", left.len());
    for LeftBehind { rollout, package, version, why, nodes } in left.iter().take(LEFT_SHOWN_MAX) {
        let _ = writeln!(
            section,
            "- {} {} on {} ({}): **{}** {why}",
            markdown(package),
            markdown(version),
            counted_nodes(nodes.total),
            markdown(&node_names(nodes)),
            markdown(rollout),
        );
    }
    match left.len().saturating_sub(LEFT_SHOWN_MAX) {
        0 => {}
        more => {
            let _ = writeln!(section, "- and {more} more, see `status.json`");
        }
    }
    section
}

/// Warnings and notes about manifests, which refuse nothing.
fn notes(state: &FleetState) -> String {
    let milder: Vec<_> = state
        .source
        .findings
        .iter()
        .filter(|finding| finding.severity != Severity::Error)
        .collect();
    if milder.is_empty() {
        return String::new();
    }
    let mut section = format!("## Worth knowing ({})\n\n", milder.len());
    for finding in milder.iter().take(NOTES_SHOWN_MAX) {
        let _ = writeln!(
            section,
            "- {}: {} ({}); {}",
            code(&finding.place()),
            markdown(&finding.message),
            finding.code,
            markdown(&finding.way_out)
        );
    }
    match milder.len().saturating_sub(NOTES_SHOWN_MAX) {
        0 => {}
        more => {
            let _ = writeln!(section, "- and {more} more, see `status.json`");
        }
    }
    section
}
