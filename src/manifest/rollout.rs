//! From a NodeWright as written to a [`model::Rollout`] whose fields all hold.
//!
//! In: one object, from a file or from the cluster. Out: the rollout, or every rule it breaks.
//! Must never: look at another object; whether the policy exists is asked elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use super::breach::{Breaches, RuleBreach};
use super::names::{NAME_FORM, is_object_name};
use super::path::Path;
use super::rules::Rule;
use super::schema::shown;
use super::selector::selector;
use super::{dependencies, package, toleration};
use crate::api::keys::RESOURCE_NAME_MAX_BYTES;
use crate::api::nodewright::{
    DrainConfig, InterruptionBudget, NodeWright, NodeWrightSpec, Sequencing,
};
use crate::model::{self, Severity};

/// Packages beyond which nothing is checked one by one; the schema allows 64.
const PACKAGES_CHECKED_MAX: usize = 1_000;

/// Validates one NodeWright.
///
/// # Errors
/// Every rule that refuses it. Warnings are not among them.
pub fn rollout(object: &NodeWright) -> Result<model::Rollout, Vec<RuleBreach>> {
    let (rollout, mut breaches) = examine(object);
    breaches.retain(|breach| breach.rule.severity() == Severity::Error);
    match rollout {
        Some(rollout) if breaches.is_empty() => Ok(rollout),
        Some(_) | None => Err(breaches),
    }
}

/// Returns the name of the policy that paces the rollout; an empty text names none.
pub(super) fn policy_of(object: &NodeWright) -> Option<&str> {
    object.spec.deployment_policy.as_deref().filter(|name| !name.is_empty())
}

/// Validates one NodeWright and returns warnings too; no rollout when a rule refuses it.
pub(super) fn examine(object: &NodeWright) -> (Option<model::Rollout>, Vec<RuleBreach>) {
    let mut breaches = Breaches::default();
    let rollout = build(object, &mut breaches);
    if rollout.is_none() && !breaches.any_error() {
        let message = "the resource cannot be used".to_owned();
        breaches.key(
            Rule::FieldUnreadable,
            &Path::default(),
            message,
            "compare it with its schema",
        );
    }
    (rollout.filter(|_| !breaches.any_error()), breaches.0)
}

fn build(object: &NodeWright, breaches: &mut Breaches) -> Option<model::Rollout> {
    let NodeWrightSpec {
        serial,
        node_selectors,
        pod_non_interrupt_labels,
        deployment_policy: _,
        deployment_policy_options,
        interruption_budget,
        drain_config,
        packages,
        additional_tolerations,
        runtime_required,
        runtime_required_cordon_after,
        auto_taint_new_nodes,
        priority,
        sequencing,
    } = &object.spec;
    let spec = Path::of(&["spec"]);
    let name = checked_name(object, breaches);
    let policy = policy_of(object).map(str::to_owned);
    check_policy_name(policy.as_deref(), &spec.key("deploymentPolicy"), breaches);
    let budget = interruption_budget
        .and_then(|budget| checked_budget(budget, policy.is_some(), &spec, breaches));
    for (option, is_set) in [
        ("runtimeRequiredCordonAfter", *runtime_required_cordon_after),
        ("autoTaintNewNodes", *auto_taint_new_nodes),
    ] {
        if is_set && !runtime_required {
            let message = format!("{option} has no effect without runtimeRequired");
            let way_out = "add runtimeRequired: true, or remove it";
            breaches.key(Rule::WithoutRuntimeRequired, &spec.key(option), message, way_out);
        }
    }
    if *priority < 1 {
        let message = format!("the priority is {priority}; it must be 1 or more");
        let way_out = "write 1 for the resource that runs first";
        breaches.value(Rule::OutOfRange, &spec.key("priority"), message, way_out);
    }
    let nodes = selector(node_selectors, &spec.key("nodeSelectors"), breaches);
    if nodes.as_ref().is_some_and(kube::core::Selector::selects_all) {
        let message = "an empty nodeSelectors selects every node of the cluster".to_owned();
        let way_out = "name a label of the nodes; the daemon holds it until it is approved";
        breaches.key(Rule::SelectsEverything, &spec.key("nodeSelectors"), message, way_out);
    }
    let protected =
        selector(pod_non_interrupt_labels, &spec.key("podNonInterruptLabels"), breaches);
    toleration::check(additional_tolerations, &spec.key("additionalTolerations"), breaches);
    let packages = checked_packages(packages, &spec.key("packages"), breaches);
    Some(model::Rollout {
        name,
        priority: *priority,
        sequencing: match sequencing {
            Sequencing::Node => model::Sequencing::Node,
            Sequencing::All => model::Sequencing::All,
        },
        serial: *serial,
        nodes: nodes?,
        protected: protected.filter(|selector| !selector.selects_all()),
        budget,
        policy,
        reset_batches: deployment_policy_options
            .and_then(|options| options.reset_batch_state_on_completion),
        drain: drain_config.map_or_else(model::DrainConfig::default, drain),
        tolerations: additional_tolerations.clone(),
        runtime_required: *runtime_required,
        runtime_required_cordon_after: *runtime_required_cordon_after,
        auto_taint_new_nodes: *auto_taint_new_nodes,
        packages,
    })
}

fn checked_name(object: &NodeWright, breaches: &mut Breaches) -> String {
    let name = object.metadata.name.clone().unwrap_or_default();
    if let Some((message, way_out)) = name_flaw(&name, RESOURCE_NAME_MAX_BYTES) {
        breaches.value(Rule::ObjectName, &Path::of(&["metadata", "name"]), message, &way_out);
    }
    name
}

/// Returns what is wrong with the name of an object, and the way out.
pub(super) fn name_flaw(name: &str, max_bytes: usize) -> Option<(String, String)> {
    if name.len() > max_bytes {
        let message =
            format!("the name has {} characters; at most {max_bytes} are taken", name.len());
        let way_out = "shorten it; it becomes part of keys on nodes".to_owned();
        return Some((message, way_out));
    }
    (!is_object_name(name, max_bytes)).then(|| {
        (format!("{} is not a name for an object", shown(name)), format!("use {NAME_FORM}"))
    })
}

fn check_policy_name(policy: Option<&str>, path: &Path, breaches: &mut Breaches) {
    let flaw = policy.and_then(|name| name_flaw(name, super::names::OBJECT_NAME_MAX_BYTES));
    if let Some((message, way_out)) = flaw {
        breaches.value(Rule::ObjectName, path, message, &way_out);
    }
}

fn checked_budget(
    written: InterruptionBudget,
    has_policy: bool,
    spec: &Path,
    breaches: &mut Breaches,
) -> Option<model::Budget> {
    let path = spec.key("interruptionBudget");
    let InterruptionBudget { percent, count } = written;
    if has_policy && (percent.is_some() || count.is_some()) {
        let message = "deploymentPolicy and interruptionBudget are given together".to_owned();
        let way_out = "remove one; the policy has budgets of its own";
        breaches.key(Rule::PolicyAndBudget, &path, message, way_out);
    }
    let (field, given, most) = match (percent, count) {
        (None, None) => return None,
        (Some(_), Some(_)) => {
            let message = "percent and count are given together".to_owned();
            breaches.key(Rule::BudgetBoth, &path.key("count"), message, "remove one of them");
            return None;
        }
        (Some(percent), None) => ("percent", percent, 100),
        (None, Some(count)) => ("count", count, i32::MAX),
    };
    let path = path.key(field);
    let number = u32::try_from(given).ok().filter(|_| given <= most);
    let Some(number) = number else {
        let message = format!("{given} is outside the range of {field}");
        let way_out = if most == 100 { "write 0 to 100" } else { "write 0 or more" };
        breaches.value(Rule::OutOfRange, &path, message, way_out);
        return None;
    };
    if number == 0 {
        let message = format!("a {field} of 0 picks no node at all");
        let way_out = "write 1 or more when the rollout should go on";
        breaches.value(Rule::BudgetZero, &path, message, way_out);
    }
    Some(if most == 100 { model::Budget::Percent(number) } else { model::Budget::Count(number) })
}

fn checked_packages(
    written: &BTreeMap<String, crate::api::Package>,
    path: &Path,
    breaches: &mut Breaches,
) -> BTreeMap<String, model::Package> {
    if written.len() > PACKAGES_CHECKED_MAX {
        let message = format!("there are {} packages", written.len());
        breaches.key(Rule::TooManyEntries, path, message, "split them over several resources");
        return BTreeMap::new();
    }
    dependencies::check(written, path, breaches);
    let mut packages = BTreeMap::new();
    for (key, one) in written {
        if let Some(package) = package::package(key, one, &path.key(key), breaches) {
            packages.insert(key.clone(), package);
        }
    }
    packages
}

fn drain(written: DrainConfig) -> model::DrainConfig {
    let DrainConfig {
        disable_eviction,
        delete_empty_dir_data,
        force,
        ignore_daemon_sets,
        timeout,
        grace_period,
    } = written;
    model::DrainConfig {
        disable_eviction,
        delete_empty_dir: delete_empty_dir_data,
        force,
        ignore_daemon_sets,
        timeout: timeout.map(crate::api::GoDuration::get).filter(|timeout| !timeout.is_zero()),
        grace_period: grace_period.map(|grace| Duration::from_secs(grace.seconds_rounded_up())),
    }
}
