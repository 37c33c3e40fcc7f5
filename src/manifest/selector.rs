//! Label selectors: checked by Kubernetes' rules and made ready to match.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::Selector;

use super::breach::Breaches;
use super::names::{is_label_key, is_label_value};
use super::path::Path;
use super::rules::Rule;
use super::schema::shown;

const KEY_WAY_OUT: &str = "write a label key such as nodepool or example.com/pool";
const VALUE_WAY_OUT: &str = "write at most 63 letters, digits, dashes, underscores and \
     dots, from letter or digit to letter or digit";

/// Returns the selector, or `None` when something is wrong with it.
pub(super) fn selector(
    written: &LabelSelector,
    path: &Path,
    breaches: &mut Breaches,
) -> Option<Selector> {
    let before = breaches.0.len();
    let labels = path.key("matchLabels");
    for (key, value) in written.match_labels.iter().flatten() {
        let path = labels.key(key);
        check_key(key, &path, breaches);
        check_value(value, &path, breaches);
    }
    for (position, one) in written.match_expressions.iter().flatten().enumerate() {
        requirement(one, &path.key("matchExpressions").index(position), breaches);
    }
    if breaches.0.len() > before {
        return None;
    }
    match Selector::try_from(written.clone()) {
        Ok(selector) => Some(selector),
        Err(error) => {
            let way_out = "write matchLabels or matchExpressions as for a Deployment";
            breaches.key(Rule::Selector, path, error.to_string(), way_out);
            None
        }
    }
}

fn requirement(one: &LabelSelectorRequirement, path: &Path, breaches: &mut Breaches) {
    let LabelSelectorRequirement { key, operator, values } = one;
    if !is_label_key(key) {
        let message = format!("{} is not a label key", shown(key));
        breaches.value(Rule::Selector, &path.key("key"), message, KEY_WAY_OUT);
    }
    let values = values.as_deref().unwrap_or_default();
    match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            let message = format!("the operator {operator} needs values");
            breaches.key(Rule::Selector, path, message, "add values with at least one value");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let message = format!("the operator {operator} takes no values");
            breaches.key(Rule::Selector, &path.key("values"), message, "remove values");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => {
            let message = format!("{} is not an operator", shown(operator));
            let way_out = "write In, NotIn, Exists or DoesNotExist";
            breaches.value(Rule::Selector, &path.key("operator"), message, way_out);
        }
    }
    for (position, value) in values.iter().enumerate() {
        check_value(value, &path.key("values").index(position), breaches);
    }
}

fn check_key(key: &str, path: &Path, breaches: &mut Breaches) {
    if !is_label_key(key) {
        let message = format!("{} is not a label key", shown(key));
        breaches.key(Rule::Selector, path, message, KEY_WAY_OUT);
    }
}

fn check_value(value: &str, path: &Path, breaches: &mut Breaches) {
    if !is_label_value(value) {
        let message = format!("{} is not a label value", shown(value));
        breaches.value(Rule::Selector, path, message, VALUE_WAY_OUT);
    }
}
