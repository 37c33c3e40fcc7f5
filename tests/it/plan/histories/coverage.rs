//! What occurred in the histories: a rule about something that never happens proves nothing.

use std::collections::BTreeSet;

use nodewright::model::Plan;

/// Reasons that no history here needs to lead to, and why.
const REASONS_ELSEWHERE: &[(&str, &str)] = &[
    ("SourceHeld", "comes from Git, as another reason to hold: daemon tests"),
    ("InvalidResource", "comes from reading resources: manifest::live"),
    ("ReferenceMissing", "comes from reading resources"),
    ("Frozen", "set by the daemon when the audit objects: a defect"),
    ("UpstreamWork", "needs work of upstream's operator: plan::takeover"),
    ("MalformedState", "no event spoils an annotation yet: plan::holds"),
    ("PackageFinding", "no event deletes a snapshot yet: plan::lifecycle_table"),
    ("Deleting", "no event deletes a resource yet: plan::deletion"),
    ("DeletionBlocked", "no event deletes a resource yet: plan::deletion"),
    ("HostReplaced", "no event changes a machine ID alone yet: plan::hosts"),
    ("TaintPending", "no rollout of a history taints nodes yet: plan::taints"),
    ("GpusMissing", "no node of a history offers GPUs yet: plan::hosts"),
    ("PullFailed", "pulls end as soon as they are asked for here: plan::pulls"),
    ("NotCreated", "no executor is refused here yet"),
    ("BudgetNever", "refusals of a history name no budget: plan::drains"),
    ("SeveralBudgets", "refusals of a history name no budget: plan::drains"),
    ("UnhealthyPodHeld", "refusals of a history name no budget: plan::drains"),
];

/// Actions that no history here needs to lead to, and why.
const ACTIONS_ELSEWHERE: &[(&str, &str)] = &[
    ("delete-upstream-work", "needs work of upstream's operator: plan::takeover"),
    ("patch-taints", "no rollout of a history taints nodes yet: plan::taints"),
    ("clean-node", "no event deletes a resource yet: plan::deletion"),
];

/// Words of reasons and actions that occurred.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    pub reasons: BTreeSet<&'static str>,
    pub actions: BTreeSet<&'static str>,
}

impl Coverage {
    /// Takes in one plan.
    pub fn learn(&mut self, plan: &Plan) {
        for verdict in plan.verdicts.values().flat_map(|nodes| nodes.values()) {
            self.reasons.insert(verdict.reason.word());
        }
        self.actions.extend(plan.actions.iter().map(|action| action.word()));
    }

    /// Takes in another history's.
    pub fn merge(&mut self, other: Self) {
        self.reasons.extend(other.reasons);
        self.actions.extend(other.actions);
    }

    /// Returns what never occurred although nothing says why.
    pub fn gaps(&self) -> Vec<String> {
        let reasons = words(include_str!("../../../../src/model/reason.rs"));
        let actions = words(include_str!("../../../../src/model/action.rs"));
        let mut gaps = missing("reason", &reasons, &self.reasons, REASONS_ELSEWHERE);
        gaps.extend(missing("action", &actions, &self.actions, ACTIONS_ELSEWHERE));
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
    let excused = |word: &str| elsewhere.iter().any(|(other, _)| *other == word);
    let never = all.iter().filter(|word| !occurred.contains(**word) && !excused(word));
    let never = never.map(|word| format!("{what} {word} never occurred"));
    let unknown = elsewhere.iter().filter(|(word, _)| !all.contains(word));
    never.chain(unknown.map(|(word, why)| format!("{what} {word} is no more: {why}"))).collect()
}

#[test]
fn every_variant_has_a_word_that_is_found() {
    assert!(words(include_str!("../../../../src/model/reason.rs")).contains(&"HandsOff"));
    assert!(words(include_str!("../../../../src/model/action.rs")).contains(&"recordon"));
}
