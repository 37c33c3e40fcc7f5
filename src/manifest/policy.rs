//! From a DeploymentPolicy as written to one whose fields all hold (upstream contract A.5).

use std::collections::BTreeMap;

use super::breach::{Breaches, RuleBreach};
use super::names::OBJECT_NAME_MAX_BYTES;
use super::path::Path;
use super::rollout::name_flaw;
use super::rules::Rule;
use super::schema::shown;
use super::selector::selector;
use crate::api::deployment_policy::{Budget, Compartment, DEFAULT_COMPARTMENT, Pace, Strategy};
use crate::api::{DeploymentPolicy, DeploymentPolicySpec};
use crate::model::{self, Severity};

/// Validates one DeploymentPolicy.
///
/// # Errors
/// Every rule that refuses it.
pub fn policy(object: &DeploymentPolicy) -> Result<model::Policy, Vec<RuleBreach>> {
    let mut breaches = examine(object);
    breaches.retain(|breach| breach.rule.severity() == Severity::Error);
    let name = object.metadata.name.clone().unwrap_or_default();
    if breaches.is_empty() { Ok(model::Policy { name }) } else { Err(breaches) }
}

/// Returns every rule that a policy breaks.
pub(super) fn examine(object: &DeploymentPolicy) -> Vec<RuleBreach> {
    let mut breaches = Breaches::default();
    let name = object.metadata.name.as_deref().unwrap_or_default();
    if let Some((message, way_out)) = name_flaw(name, OBJECT_NAME_MAX_BYTES) {
        breaches.value(Rule::ObjectName, &Path::of(&["metadata", "name"]), message, &way_out);
    }
    let DeploymentPolicySpec { fallback, compartments, reset_batch_state_on_completion: _ } =
        &object.spec;
    let Pace { budget, strategy } = fallback;
    pace(*budget, *strategy, &Path::of(&["spec", "default"]), &mut breaches);
    compartments_of(compartments, &mut breaches);
    breaches.0
}

fn compartments_of(compartments: &[Compartment], breaches: &mut Breaches) {
    let list = Path::of(&["spec", "compartments"]);
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut selectors: BTreeMap<String, &str> = BTreeMap::new();
    for (position, compartment) in compartments.iter().enumerate() {
        let Compartment { name, selector: written, budget, strategy } = compartment;
        let path = list.index(position);
        if name == DEFAULT_COMPARTMENT {
            let message = format!("{DEFAULT_COMPARTMENT} holds the nodes that no other selects");
            let way_out = "choose another name; give those nodes their pace under default";
            breaches.value(Rule::CompartmentName, &path.key("name"), message, way_out);
        } else if names.insert(name, position).is_some() {
            let message = format!("there are two compartments {}", shown(name));
            breaches.value(Rule::CompartmentName, &path.key("name"), message, "rename one");
        }
        if selector(written, &path.key("selector"), breaches).is_some() {
            let text = serde_json::to_string(written).expect("a selector is plain JSON");
            if let Some(other) = selectors.insert(text, name) {
                let message = format!("compartment {} selects the same nodes", shown(other));
                let way_out = "give each compartment nodes of its own";
                let path = path.key("selector");
                breaches.key(Rule::CompartmentSelector, &path, message, way_out);
            }
        }
        pace(*budget, *strategy, &path, breaches);
    }
}

fn pace(budget: Budget, strategy: Option<Strategy>, path: &Path, breaches: &mut Breaches) {
    let Budget { percent, count } = budget;
    let path_budget = path.key("budget");
    match (percent, count) {
        (Some(_), Some(_)) => {
            let message = "percent and count are given together".to_owned();
            breaches.key(Rule::PolicyBudget, &path_budget.key("count"), message, "remove one");
        }
        (None, None) => {
            let message = "neither percent nor count is given".to_owned();
            let way_out = "write percent: 1 to 100, or count: 1 or more";
            breaches.key(Rule::PolicyBudget, &path_budget, message, way_out);
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
    for (field, value, most) in [("percent", percent, 100), ("count", count, i32::MAX)] {
        if value.is_some_and(|value| value < 1 || value > most) {
            let message = format!("the {field} is outside its range");
            let way_out = if most == 100 { "write 1 to 100" } else { "write 1 or more" };
            breaches.value(Rule::OutOfRange, &path_budget.key(field), message, way_out);
        }
    }
    if let Some(Strategy { fixed, linear, exponential }) = strategy {
        let given = [fixed.is_some(), linear.is_some(), exponential.is_some()];
        let count = given.into_iter().filter(|given| *given).count();
        if count != 1 {
            let message = format!("{count} strategies are given");
            let way_out = "give exactly one of fixed, linear and exponential";
            breaches.key(Rule::PolicyStrategy, &path.key("strategy"), message, way_out);
        }
    }
}
