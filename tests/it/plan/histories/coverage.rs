//! What occurred in the histories: a rule about something that never happens proves nothing.

use std::collections::{BTreeMap, BTreeSet};

use nodewright::model::{Group, Plan, Stage};
use nodewright::plan::lifecycle::{Asked, Finding, Seen, Step, step};

use super::super::lifecycle_table::combinations;
use super::paces::{Happened, Seen as Paced};

/// Reasons that no plan of a history gives, and why.
const REASONS_ELSEWHERE: &[(&str, &str)] = &[
    ("InvalidResource", "said of resources that cannot be read: manifest::live"),
    ("Deleting", "no part of the planner gives it"),
    ("Frozen", "set by the daemon when the audit objects, which ends a history"),
    ("PackageFinding", SNAPSHOTS),
    ("UpstreamWork", "needs work of upstream's operator: plan::takeover"),
];

/// Actions that no plan of a history has, and why.
const ACTIONS_ELSEWHERE: &[(&str, &str)] =
    &[("delete-upstream-work", "needs work of upstream's operator: plan::takeover")];

/// Rows of the table that the planner does not ask for in a history, and why; `lifecycle_table` has
/// them all.
const ROWS_ELSEWHERE: &[(Seen, Step, &str)] = &[
    (Seen::FirstStageDone, Step::Keep, TAKEN),
    (Seen::Succeeded, Step::Keep, TAKEN),
    (Seen::Failed, Step::Keep, TAKEN),
    (Seen::FailedForGood, Step::Keep, TAKEN),
    (Seen::Disrupted, Step::Keep, TAKEN),
    (Seen::Untouched, UNKNOWN, SNAPSHOTS),
    (Seen::Idle, UNKNOWN, SNAPSHOTS),
    (Seen::AfterInterrupt, UNKNOWN, SNAPSHOTS),
    (Seen::Spent, UNKNOWN, SNAPSHOTS),
];

const UNKNOWN: Step = Step::Finding(Finding::UninstallUnknown);
const TAKEN: &str = "an end is taken in only where its entry stands at the executor's stage";
const SNAPSHOTS: &str = "nobody deletes a snapshot in a history: plan::uninstalls";

/// Rows that are too rare for a promise: several things must go wrong at one moment. A history may
/// come upon them; `lifecycle_table` has them all.
const ROWS_RARE: &[(Seen, Step)] = &[
    (Seen::Untouched, Step::Remove),
    (Seen::Idle, Step::Resume(Stage::Uninstall)),
    (Seen::Idle, Step::Resume(Stage::UninstallInterrupt)),
    (Seen::Idle, Step::Resume(Stage::Upgrade)),
    (Seen::Idle, Step::Resume(Stage::Config)),
    (Seen::Idle, Step::Resume(Stage::Interrupt)),
    (Seen::Idle, Step::Resume(Stage::PostInterrupt)),
    (Seen::Idle, Step::Remove),
    (Seen::CannotStart, Step::Adopt),
    (Seen::CannotStart, Step::Begin(Stage::Config)),
    (Seen::CannotStart, Step::Resume(Stage::Uninstall)),
    (Seen::CannotStart, Step::Resume(Stage::UninstallInterrupt)),
    (Seen::CannotStart, Step::Resume(Stage::Upgrade)),
    (Seen::CannotStart, Step::Resume(Stage::Apply)),
    (Seen::CannotStart, Step::Resume(Stage::Config)),
    (Seen::CannotStart, Step::Resume(Stage::Interrupt)),
    (Seen::CannotStart, Step::Resume(Stage::PostInterrupt)),
    (Seen::CannotStart, Step::Follow(Stage::Upgrade)),
    (Seen::CannotStart, Step::Follow(Stage::Config)),
    (Seen::CannotStart, Step::Follow(Stage::Interrupt)),
    (Seen::CannotStart, Step::Remove),
    (Seen::FailedForGood, Step::GiveUp(Stage::Uninstall)),
    (Seen::FailedForGood, Step::GiveUp(Stage::UninstallInterrupt)),
    (Seen::FailedForGood, Step::GiveUp(Stage::Upgrade)),
    (Seen::FailedForGood, Step::GiveUp(Stage::Apply)),
    (Seen::FailedForGood, Step::GiveUp(Stage::Config)),
    (Seen::FailedForGood, Step::GiveUp(Stage::Interrupt)),
    (Seen::FailedForGood, Step::GiveUp(Stage::PostInterrupt)),
    (Seen::RebootOverdue, Step::GiveUp(Stage::Interrupt)),
    (Seen::RebootOverdue, Step::GiveUp(Stage::UninstallInterrupt)),
    (Seen::AfterInterrupt, Step::Start(Group::Uninstall)),
    (Seen::AfterInterrupt, Step::Remove),
    (Seen::Spent, Step::Rest),
    (Seen::Spent, Step::Adopt),
    (Seen::Spent, Step::Leave),
    (Seen::Spent, Step::Remove),
    (Seen::Spent, Step::Later),
];

/// Words of reasons and actions that occurred.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    pub reasons: BTreeSet<&'static str>,
    pub actions: BTreeSet<&'static str>,
    /// What the table was asked about.
    pub asked: Asked,
    /// What came to pass with batches.
    pub paces: Paced,
    /// Plans that were made.
    pub plans: u64,
}

impl Coverage {
    /// Takes in one plan.
    pub fn learn(&mut self, plan: &Plan) {
        for verdict in plan.verdicts.values().flat_map(|nodes| nodes.values()) {
            self.reasons.insert(verdict.reason.word());
        }
        self.plans += 1;
        self.actions.extend(plan.actions.iter().map(|action| action.word()));
    }

    /// Takes in another history's.
    pub fn merge(&mut self, other: Self) {
        self.reasons.extend(other.reasons);
        self.actions.extend(other.actions);
        self.asked.merge(&other.asked);
        self.paces.extend(other.paces);
        self.plans += other.plans;
    }

    /// Returns what never occurred although nothing says why, and what did although something says
    /// that it cannot.
    pub fn gaps(&self) -> Vec<String> {
        let reasons = words(include_str!("../../../../src/model/reason.rs"));
        let actions = words(include_str!("../../../../src/model/action.rs"));
        let mut gaps = missing("reason", &reasons, &self.reasons, REASONS_ELSEWHERE);
        gaps.extend(missing("action", &actions, &self.actions, ACTIONS_ELSEWHERE));
        gaps.extend(self.row_gaps());
        let never = Happened::ALL.iter().filter(|happened| !self.paces.contains(happened));
        gaps.extend(never.map(|happened| format!("of batches, {happened:?} never occurred")));
        gaps
    }

    /// A row of the table: what is seen, and the step that follows.
    fn row_gaps(&self) -> Vec<String> {
        let mut rows: BTreeMap<(Seen, Step), bool> = BTreeMap::new();
        for (at, owes, wish, seen) in combinations() {
            let row = rows.entry((seen, step(at, owes, wish, seen))).or_default();
            *row |= self.asked.contains(at, owes, wish, seen);
        }
        let mut gaps = Vec::new();
        for (row, occurred) in rows {
            let elsewhere = ROWS_ELSEWHERE.iter().find(|(seen, step, _)| (*seen, *step) == row);
            match elsewhere {
                Some((_, _, why)) if occurred => {
                    gaps.push(format!("row {row:?} occurred although {why}"));
                }
                None if !occurred && !ROWS_RARE.contains(&row) => {
                    gaps.push(format!("row {row:?} never occurred"));
                }
                Some(_) | None => {}
            }
        }
        gaps
    }
}

/// Returns the words that `fn word` gives to the variants of an enum.
fn words(source: &str) -> Vec<&str> {
    let begin = source.find("pub fn word").expect("the enum gives each variant a word");
    let body = &source[begin..];
    let end = body.find("\n    }\n").expect("the function ends");
    body[..end].lines().filter_map(|line| line.split("=> \"").nth(1)?.split('"').next()).collect()
}

fn missing(
    what: &str,
    all: &[&str],
    occurred: &BTreeSet<&'static str>,
    elsewhere: &[(&str, &str)],
) -> Vec<String> {
    let excuse = |word: &str| elsewhere.iter().find(|(other, _)| *other == word);
    let mut gaps = Vec::new();
    for word in all {
        match (occurred.contains(word), excuse(word)) {
            (true, Some((_, why))) => gaps.push(format!("{what} {word} occurred although {why}")),
            (false, None) => gaps.push(format!("{what} {word} never occurred")),
            (true, None) | (false, Some(_)) => {}
        }
    }
    let unknown = elsewhere.iter().filter(|(word, _)| !all.contains(word));
    gaps.extend(unknown.map(|(word, why)| format!("{what} {word} is no more: {why}")));
    gaps
}

#[test]
fn every_variant_has_a_word_that_is_found() {
    assert!(words(include_str!("../../../../src/model/reason.rs")).contains(&"HandsOff"));
    assert!(words(include_str!("../../../../src/model/action.rs")).contains(&"recordon"));
}
