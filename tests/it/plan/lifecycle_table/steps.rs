//! Every combination of the table, compared with `steps.txt`, which a person can review.
//!
//! If a change of it is as meant: `cp target/tmp/steps.txt tests/it/plan/lifecycle_table/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodewright::model::{Stage, State};
use nodewright::plan::lifecycle::{At, Owes, Seen, Step, Wish, step};

use super::{STAGES, STATES, compare};

/// Longest line of the file.
const COLUMNS: usize = 100;

pub(super) const OWES: [Owes; 2] = [Owes::Nothing, Owes::Interrupt];

pub(super) const WISHES: [Wish; 14] = [
    Wish::Same,
    Wish::Restated,
    Wish::OtherImage,
    Wish::OtherConfig,
    Wish::OtherConfigInterrupting,
    Wish::HigherVersion,
    Wish::LowerVersion,
    Wish::LowerVersionAfterUninstall,
    Wish::UninstallAsked,
    Wish::RemovedWithUninstall,
    Wish::RemovedAsItIs,
    Wish::DeletedWithUninstall,
    Wish::DeletedAsItIs,
    Wish::UninstallUnknown,
];

pub(super) const SEEN: [Seen; 17] = [
    Seen::Untouched,
    Seen::Idle,
    Seen::CannotStart,
    Seen::AfterInterrupt,
    Seen::Succeeded,
    Seen::Running,
    Seen::Outdated,
    Seen::FirstStageDone,
    Seen::Failed,
    Seen::FailedForGood,
    Seen::Disrupted,
    Seen::CarriesInterrupt,
    Seen::InterruptIssued,
    Seen::InterruptElsewhere,
    Seen::InterruptDone,
    Seen::RebootOverdue,
    Seen::Spent,
];

/// Says what is wanted, and where that differs from upstream on purpose.
fn wish_text(wish: Wish) -> (&'static str, &'static [&'static str]) {
    match wish {
        Wish::Same => ("the version and configuration that stand there, or nothing does", &[]),
        Wish::Restated => (
            "the same content under another snapshot (uninstall flags, interrupt, limits)",
            &["upstream keeps no snapshot; ours records it, so that a later removal uninstalls"],
        ),
        Wish::OtherImage => (
            "the same version from another image or digest",
            &["a stage that runs ends with the image it has, upstream starts it again (B.2)"],
        ),
        Wish::OtherConfig => (
            "config keys or the environment differ, and no interrupt is asked for",
            &[
                "upstream looks at added and changed keys of all nodes at once; ours compares \
                 the snapshot of each node, and deleted keys count (B.3)",
                "an environment that differs runs config again; upstream does nothing on nodes \
                 that are complete",
                "a stage before config goes on where it is; upstream sets every node to config, \
                 also one that never ran apply (B.3)",
            ],
        ),
        Wish::OtherConfigInterrupting => (
            "a config key differs that configInterrupts names",
            &["as above; what is owed is dropped when it is done, upstream's list never is (B.3)"],
        ),
        Wish::HigherVersion => (
            "a higher version",
            &["from a version that never came past its apply, or is being uninstalled: apply; \
                 upstream runs upgrade (B.14, B.15)"],
        ),
        Wish::LowerVersion => (
            "a lower version, the one there has no uninstall",
            &["the higher version's entry goes when the lower is complete, upstream keeps it"],
        ),
        Wish::LowerVersionAfterUninstall => (
            "a lower version, the one there has an uninstall",
            &["upstream refuses it; ours uninstalls first, and one interrupt does for both"],
        ),
        Wish::UninstallAsked => (
            "uninstall.apply",
            &["an install that is not complete is uninstalled too, upstream waits for it (B.15)"],
        ),
        Wish::RemovedWithUninstall => (
            "not in the manifest any more, installed with an uninstall",
            &["upstream refuses it; ours uninstalls with what was installed, also an install \
                 that is not complete"],
        ),
        Wish::RemovedAsItIs => (
            "not in the manifest any more, installed without an uninstall",
            &["an uninstall that has begun goes on, upstream drops it"],
        ),
        Wish::DeletedWithUninstall => (
            "the resource is being deleted, installed with an uninstall",
            &["an install that is not complete is uninstalled too, upstream waits for it (B.15)"],
        ),
        Wish::DeletedAsItIs => (
            "the resource is being deleted, and has no uninstall for it, or none any more",
            &["an uninstall that has begun goes on unless it failed, upstream drops it"],
        ),
        Wish::UninstallUnknown => (
            "to be uninstalled, and what it was installed with is not known",
            &["upstream would uninstall with the manifest of now"],
        ),
    }
}

/// What a reader needs to know, and where every block differs from upstream on purpose.
const LEGEND: &str = "\
The life of a package on a node: every combination of where it stands, what is wanted and what is
seen, with the step that follows (src/plan/lifecycle). First what holds whatever is wanted, then a
heading for each wish; below it a block for what is seen, in it a row for each step, with the places
at which it is taken. `apply|config in_progress|erroring` is four places, a stage alone is all its
states, `apply not complete` all but one, `every stage` all seven. `owes` says whether an interrupt
is due before the package is complete; rows without it hold in both cases. B.2 to B.16 are sections
of the upstream contract.
Written by tests/it/plan/lifecycle_table/steps.rs, which says how to update it.

  begin       record the wanted version at this stage, in progress: new work, which takes a turn
  resume      the same for work that had begun: it goes on from this stage
  follow      work in hand goes on under the wanted snapshot, its attempts counted anew
  start       create the executor: install runs the stages up to config, verify post-interrupt
  await       leave what is under way alone, and say what it waits for
  delete      take the executor away: it does what is not on record, and has not begun
  record      write this end: a stage of its own, skipped (it waits for the merged interrupt), or
              complete (post-interrupt where the package declares an interrupt, else config)
  retry       record the failed attempt, erroring; the next one follows after a back-off
  give up     record the failure, erroring, and end the visit
  again       the executor is lost to something else: make it again, no attempt is spent
  adopt       record the wanted snapshot; nothing runs
  remove      remove the entry: what it named is not on the host any more
  leave it    keep the entry, which says what is left on the host; nothing runs
  take back   record the interrupt as not begun: its package is not where it was
  leave to    nothing now: the next visit does it, for this one has had its interrupt
  keep        record nothing: the end is not about where the package stands
  rest        nothing: it is as wanted
  finding     nothing until a person has looked at it; the words are in src/plan/lifecycle

Differs from upstream, whatever is wanted:
  - An executor that has begun ends first; upstream replaces one that does not match (D.5).
  - After its interrupt a visit begins nothing again that it had in hand, so no edit reboots a node
    twice; upstream's interrupt is keyed by the manifest's generation, and runs again (E.6).
  - What is open at interrupt or post-interrupt goes on there, and at config where the manifest has
    lost its interrupt; upstream starts at apply (B.2).
  - An uninstall-interrupt that owes nothing any more ends; upstream's waits for ever (I).
  - One pod runs apply and config: the first stage counts by itself when the second fails. A lost
    pod costs no attempt, a failed one is tried four times in all, an interrupt too (B.16).
  - A node that does not come back from its reboot is a failure after an hour, recorded where the
    reboot was; upstream's bound is the stage timeout, which may be none (B.16).
  - A state that is not written at a stage, such as `apply skipped`, is taken as open.
";

fn seen_text(seen: Seen) -> &'static str {
    match seen {
        Seen::Untouched => "not in hand of a visit",
        Seen::Idle => "in hand before the interrupt, no executor",
        Seen::CannotStart => "its executor cannot start",
        Seen::AfterInterrupt => "in hand after the interrupt, no executor",
        Seen::Succeeded => "its executor ended well",
        Seen::Running => "its executor runs",
        Seen::Outdated => "its executor cannot start and is out of date",
        Seen::FirstStageDone => "its executor failed or was lost after its first stage",
        Seen::Failed => "its executor failed, attempts are left",
        Seen::FailedForGood => "its executor failed at the last attempt",
        Seen::Disrupted => "its executor was lost to a disruption",
        Seen::CarriesInterrupt => "it carries the interrupt, which is not issued",
        Seen::InterruptIssued => "it carries the interrupt, which is issued",
        Seen::InterruptElsewhere => "another package carries the interrupt",
        Seen::InterruptDone => "the interrupt is done",
        Seen::Spent => "an interrupt was spent on it, and it is in nobody's hand",
        Seen::RebootOverdue => "the node did not come back in time",
    }
}

fn step_text(step: Step) -> String {
    match step {
        Step::Rest => "rest".to_owned(),
        Step::Leave => "leave it on the host".to_owned(),
        Step::Keep => "keep: not about this entry".to_owned(),
        Step::Adopt => "adopt the wanted snapshot".to_owned(),
        Step::Begin(stage) => format!("begin {stage} of the wanted version"),
        Step::Resume(stage) => format!("resume at {stage}"),
        Step::Follow(stage) => format!("follow the wanted snapshot at {stage}"),
        Step::BeginUninstall => "begin its uninstall".to_owned(),
        Step::Start(group) => format!("start the {group} executor"),
        Step::Await => "await the executor".to_owned(),
        Step::Replace => "delete the executor".to_owned(),
        Step::AwaitInterrupt => "await the merged interrupt".to_owned(),
        Step::Retry(stage) => format!("retry at {stage}"),
        Step::Again => "again: make the executor anew".to_owned(),
        Step::GiveUp(stage) => format!("give up at {stage}"),
        Step::Reach(stage, state) => format!("record {stage} {state}"),
        Step::Complete => "record complete".to_owned(),
        Step::Remove => "remove the entry".to_owned(),
        Step::Withdraw => "take back the interrupt".to_owned(),
        Step::Later => "leave to the next visit".to_owned(),
        Step::Finding(finding) => format!("finding: {finding:?}"),
    }
}

fn places() -> Vec<At> {
    let stages = STAGES.iter().flat_map(|stage| STATES.map(|state| Some((*stage, state))));
    std::iter::once(None).chain(stages).collect()
}

/// Writes places shortly: states by stage, `everywhere` for all.
fn places_text(places: &[At]) -> String {
    if places.len() == 1 + STAGES.len() * STATES.len() {
        return "everywhere".to_owned();
    }
    let mut parts = Vec::new();
    if places.contains(&None) {
        parts.push("no entry".to_owned());
    }
    let mut whole: Vec<&str> = Vec::new();
    let mut by_states: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for stage in STAGES {
        let states: Vec<&str> = STATES
            .iter()
            .filter(|state| places.contains(&Some((stage, **state))))
            .map(|state| state.as_str())
            .collect();
        let not_complete = states.len() == STATES.len() - 1 && !states.contains(&"complete");
        let states = if not_complete { vec!["not complete"] } else { states };
        if states.len() == STATES.len() {
            whole.push(stage.as_str());
        } else if !states.is_empty() {
            match by_states.iter_mut().find(|(known, _)| *known == states) {
                Some((_, stages)) => stages.push(stage.as_str()),
                None => by_states.push((states, vec![stage.as_str()])),
            }
        }
    }
    let stages_text = |stages: &[&str]| {
        if stages.len() == STAGES.len() { "every stage".to_owned() } else { stages.join("|") }
    };
    if !whole.is_empty() {
        parts.push(stages_text(&whole));
    }
    for (states, stages) in by_states {
        parts.push(format!("{} {}", stages_text(&stages), states.join("|")));
    }
    parts.join(", ")
}

/// Returns the steps at every place, grouped by step in the order of the first of each.
fn rows(owes: Owes, wish: Wish, seen: Seen) -> Vec<String> {
    let mut by_step: Vec<(Step, Vec<At>)> = Vec::new();
    for at in places() {
        let step = step(at, owes, wish, seen);
        match by_step.iter_mut().find(|(known, _)| *known == step) {
            Some((_, places)) => places.push(at),
            None => by_step.push((step, vec![at])),
        }
    }
    by_step
        .iter()
        .map(|(step, places)| format!("{:<40} {}", step_text(*step), places_text(places)))
        .collect()
}

/// Returns an indented row, its places on as many lines as they take.
fn row_text(row: &str) -> String {
    let mut text = format!("      {}", &row[..41.min(row.len())]);
    let mut column = text.len();
    for (nth, place) in row.get(41..).unwrap_or_default().split(", ").enumerate() {
        let separator = if nth == 0 { "" } else { ", " };
        if nth > 0 && column + separator.len() + place.len() > COLUMNS {
            let _ = write!(text, ",\n{:47}{place}", "");
            column = 47 + place.len();
        } else {
            let _ = write!(text, "{separator}{place}");
            column += separator.len() + place.len();
        }
    }
    text
}

/// Returns the rows of a wish and what is seen, with and without an interrupt owed where the two
/// differ.
fn block(wish: Wish, seen: Seen) -> Vec<String> {
    let [nothing, interrupt] = OWES.map(|owes| rows(owes, wish, seen));
    let common = |rows: &[String], others: &[String]| {
        rows.iter().filter(|row| others.contains(row)).cloned().collect::<Vec<String>>()
    };
    let mut all: Vec<String> =
        common(&nothing, &interrupt).iter().map(|row| row_text(row)).collect();
    for (word, own, other) in
        [("owes nothing", &nothing, &interrupt), ("owes an interrupt", &interrupt, &nothing)]
    {
        let own: Vec<&String> = own.iter().filter(|row| !other.contains(row)).collect();
        if !own.is_empty() {
            all.push(format!("    {word}"));
            all.extend(own.iter().map(|row| row_text(row)));
        }
    }
    all
}

fn text() -> String {
    let mut text = format!("{LEGEND}\n== Whatever is wanted ==\n");
    let same = |seen: &Seen| {
        let first = block(Wish::Same, *seen);
        WISHES.iter().all(|wish| block(*wish, *seen) == first)
    };
    for seen in SEEN.iter().filter(|seen| same(seen)) {
        let _ = writeln!(text, "\n  {}", seen_text(*seen));
        let _ = writeln!(text, "{}", block(Wish::Same, *seen).join("\n"));
    }
    // Wishes with the same answers are told together, in the order of the first of each.
    let mut told: Vec<(String, Vec<Wish>)> = Vec::new();
    for wish in WISHES {
        let body = wish_body(wish, SEEN.iter().copied().filter(|seen| !same(seen)));
        match told.iter_mut().find(|(known, _)| *known == body) {
            Some((_, wishes)) => wishes.push(wish),
            None => told.push((body, vec![wish])),
        }
    }
    for (body, wishes) in told {
        text.push('\n');
        for wish in wishes {
            let (wanted, differences) = wish_text(wish);
            let _ = writeln!(text, "== Wanted: {wanted} ==");
            for difference in differences {
                let _ = writeln!(text, "{}", wrapped("   differs from upstream: ", difference));
            }
        }
        text.push_str(&body);
    }
    text
}

/// Returns a paragraph under a heading, its later lines indented.
fn wrapped(start: &str, words: &str) -> String {
    let mut text = start.trim_end().to_owned();
    let mut column = text.len();
    for word in words.split_whitespace() {
        if column + 1 + word.len() > COLUMNS {
            let _ = write!(text, "\n      {word}");
            column = 6 + word.len();
        } else {
            let _ = write!(text, " {word}");
            column += 1 + word.len();
        }
    }
    text
}

/// Returns the blocks of a wish, those with the same rows together.
fn wish_body(wish: Wish, seen: impl Iterator<Item = Seen>) -> String {
    let mut blocks: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for seen in seen {
        let block = block(wish, seen);
        match blocks.iter_mut().find(|(known, _)| *known == block) {
            Some((_, headings)) => headings.push(seen_text(seen)),
            None => blocks.push((block, vec![seen_text(seen)])),
        }
    }
    let blocks = blocks
        .iter()
        .map(|(block, headings)| format!("\n  {}\n{}\n", headings.join("\n  "), block.join("\n")));
    blocks.collect()
}

#[test]
fn every_combination_has_its_step() {
    compare("steps.txt", &text(), include_str!("steps.txt"));
}

/// Steps by which a package is taken along: each must be reachable, or the row is dead.
#[test]
fn every_step_and_finding_is_taken_somewhere() {
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for (wish, seen) in WISHES.iter().flat_map(|wish| SEEN.map(|seen| (*wish, seen))) {
        for (owes, at) in OWES.iter().flat_map(|owes| places().into_iter().map(|at| (*owes, at))) {
            let step = step_text(step(at, owes, wish, seen));
            let word = step.split_whitespace().next().unwrap_or_default().to_owned();
            *taken.entry(word).or_default() += 1;
        }
    }
    let words: Vec<&str> = taken.keys().map(String::as_str).collect();
    assert_eq!(
        words,
        [
            "adopt", "again:", "await", "begin", "delete", "finding:", "follow", "give", "keep:",
            "leave", "record", "remove", "rest", "resume", "retry", "start", "take",
        ]
    );
    assert_eq!(taken.values().sum::<usize>(), 14 * 17 * 2 * 36);
}

/// What must hold of whole rows, whatever the table says otherwise.
#[test]
fn no_row_starts_or_loses_what_it_must_not() {
    for (wish, seen) in WISHES.iter().flat_map(|wish| SEEN.map(|seen| (*wish, seen))) {
        for (owes, at) in OWES.iter().flat_map(|owes| places().into_iter().map(|at| (*owes, at))) {
            let step = step(at, owes, wish, seen);
            let row = format!("{at:?} {owes:?} {wish:?} {seen:?}: {step:?}");
            let running = matches!(seen, Seen::Running | Seen::InterruptIssued);
            let waits = matches!(step, Step::Await | Step::AwaitInterrupt);
            assert!(!running || waits, "something may be going on there: {row}");
            if matches!(step, Step::Start(_)) {
                let open = at
                    .is_some_and(|(_, state)| matches!(state, State::InProgress | State::Erroring));
                assert!(open, "nothing runs that is not on record: {row}");
            }
            if seen == Seen::Succeeded && at.is_none() {
                assert_eq!(step, Step::Keep, "an end never makes an entry: {row}");
            }
            let off = matches!(at, Some((Stage::Uninstall | Stage::UninstallInterrupt, _)));
            assert!(step != Step::Remove || off, "only an uninstall takes an entry: {row}");
            let begins = matches!(step, Step::Begin(_) | Step::Resume(_) | Step::Follow(_));
            assert!(seen != Seen::AfterInterrupt || !begins, "one interrupt per visit: {row}");
        }
    }
}
