//! From a DeploymentPolicy as written to one whose fields all hold (upstream contract A.5).

use std::collections::BTreeMap;

use super::breach::{Breaches, RuleBreach};
use super::names::OBJECT_NAME_MAX_BYTES;
use super::path::Path;
use super::rollout::name_flaw;
use super::rules::Rule;
use super::schema::shown;
use super::selector::selector;
use crate::api::deployment_policy::{
    Budget, Compartment, DEFAULT_COMPARTMENT, Exponential, Fixed, Linear, Pace, Strategy,
};
use crate::api::{DeploymentPolicy, DeploymentPolicySpec};
use crate::model::{self, Severity};

/// Validates one DeploymentPolicy.
///
/// # Errors
/// Every rule that refuses it.
pub fn policy(object: &DeploymentPolicy) -> Result<model::Policy, Vec<RuleBreach>> {
    let mut breaches = examine(object);
    breaches.retain(|breach| breach.rule.severity() == Severity::Error);
    if !breaches.is_empty() {
        return Err(breaches);
    }
    let DeploymentPolicySpec { fallback, compartments, reset_batch_state_on_completion } =
        &object.spec;
    let compartments = compartments.iter().filter_map(|compartment| {
        let Compartment { name, selector: written, budget, strategy } = compartment;
        // Examined above: what cannot be read has been refused.
        let nodes = selector(written, &Path::default(), &mut Breaches::default())?;
        Some(model::Compartment { name: name.clone(), nodes, pace: paced(*budget, *strategy) })
    });
    Ok(model::Policy {
        name: object.metadata.name.clone().unwrap_or_default(),
        fallback: paced(fallback.budget, fallback.strategy),
        compartments: compartments.collect(),
        reset: reset_batch_state_on_completion.unwrap_or_default(),
    })
}

/// Returns the pace as whole numbers; fields outside their range have been refused.
fn paced(budget: Budget, strategy: Option<Strategy>) -> model::Pace {
    let budget = match (budget.percent, budget.count) {
        (Some(percent), _) => model::Budget::Percent(whole(percent)),
        (None, count) => model::Budget::Count(count.map_or(0, whole)),
    };
    let strategy = strategy.and_then(|Strategy { fixed, linear, exponential }| {
        let fixed = fixed.map(|it| {
            let Fixed { initial_batch, batch_threshold, failure_threshold, safety_limit } = it;
            (model::Growth::Fixed, initial_batch, batch_threshold, failure_threshold, safety_limit)
        });
        let linear = linear.map(|it| {
            let growth = model::Growth::Linear(whole(it.delta));
            let Linear { initial_batch, batch_threshold, failure_threshold, .. } = it;
            (growth, initial_batch, batch_threshold, failure_threshold, it.safety_limit)
        });
        let exponential = exponential.map(|it| {
            let growth = model::Growth::Exponential(whole(it.growth_factor));
            let Exponential { initial_batch, batch_threshold, failure_threshold, .. } = it;
            (growth, initial_batch, batch_threshold, failure_threshold, it.safety_limit)
        });
        let (growth, initial_batch, batch_threshold, failure_threshold, safety_limit) =
            fixed.or(linear).or(exponential)?;
        Some(model::Strategy {
            growth,
            initial_batch: whole(initial_batch),
            batch_threshold: whole(batch_threshold),
            failure_threshold: failure_threshold.map(whole),
            safety_limit: whole(safety_limit),
        })
    });
    model::Pace { budget, strategy }
}

fn whole(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
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
        numbers_of(Strategy { fixed, linear, exponential }, &path.key("strategy"), breaches);
    }
}

/// Looks at the numbers of every strategy that is given: a cluster whose CRDs are upstream's may
/// hold some that ours would refuse.
fn numbers_of(strategy: Strategy, path: &Path, breaches: &mut Breaches) {
    const ANY: i32 = i32::MAX;
    let mut numbers = Vec::new();
    let mut common = |kind, initial, threshold, failures: Option<i32>, safety| {
        numbers.push((kind, "initialBatch", Some(initial), 1, ANY));
        numbers.push((kind, "batchThreshold", Some(threshold), 1, 100));
        numbers.push((kind, "failureThreshold", failures, 1, ANY));
        numbers.push((kind, "safetyLimit", Some(safety), 1, 100));
    };
    if let Some(it) = strategy.fixed {
        let Fixed { initial_batch, batch_threshold, failure_threshold, safety_limit } = it;
        common("fixed", initial_batch, batch_threshold, failure_threshold, safety_limit);
    }
    if let Some(it) = strategy.linear {
        let Linear { initial_batch, batch_threshold, failure_threshold, safety_limit, .. } = it;
        common("linear", initial_batch, batch_threshold, failure_threshold, safety_limit);
    }
    if let Some(it) = strategy.exponential {
        let Exponential { initial_batch, batch_threshold, failure_threshold, safety_limit, .. } =
            it;
        common("exponential", initial_batch, batch_threshold, failure_threshold, safety_limit);
    }
    numbers.extend(strategy.linear.map(|it| ("linear", "delta", Some(it.delta), 1, ANY)));
    let factor = strategy.exponential.map(|it| Some(it.growth_factor));
    numbers.extend(factor.map(|factor| ("exponential", "growthFactor", factor, 2, ANY)));
    for (kind, field, value, least, most) in numbers {
        if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
            let message = format!("the {field} is {value}, outside its range");
            let way_out = match (least, most) {
                (1, 100) => "write 1 to 100",
                (2, _) => "write 2 or more",
                _ => "write 1 or more",
            };
            let path = path.key(kind).key(field);
            breaches.value(Rule::OutOfRange, &path, message, way_out);
        }
    }
}
