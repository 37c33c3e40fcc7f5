//! Tolerations: what the API server would refuse in every executor pod, refused once and early.

use k8s_openapi::api::core::v1::Toleration;

use super::breach::Breaches;
use super::names::is_label_key;
use super::path::Path;
use super::rules::Rule;
use super::schema::shown;
use super::suggest::suggest;

/// The last two need a feature gate of the API server.
const OPERATORS: &[&str] = &["Exists", "Equal", "Lt", "Gt"];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks a list of tolerations by Kubernetes' own rules.
pub(super) fn check(tolerations: &[Toleration], list: &Path, breaches: &mut Breaches) {
    for (position, one) in tolerations.iter().enumerate() {
        let path = list.index(position);
        let Toleration { key, operator, value, effect, toleration_seconds } = one;
        let (key, value) = (text(key.as_ref()), text(value.as_ref()));
        let (operator, effect) = (text(operator.as_ref()), text(effect.as_ref()));
        word(operator, OPERATORS, &path.key("operator"), breaches);
        word(effect, EFFECTS, &path.key("effect"), breaches);
        if !key.is_empty() && !is_label_key(key) {
            let message = format!("{} is not the key of a taint", shown(key));
            let way_out = "write a key such as nvidia.com/gpu";
            breaches.value(Rule::Toleration, &path.key("key"), message, way_out);
        }
        if operator == "Exists" && !value.is_empty() {
            let message = "the operator Exists takes no value".to_owned();
            let way_out = "remove the value, or write operator: Equal";
            breaches.key(Rule::Toleration, &path.key("value"), message, way_out);
        }
        if key.is_empty() && operator != "Exists" {
            let message = "a toleration without key needs the operator Exists".to_owned();
            let way_out = "add the key of the taint; without one every taint is tolerated";
            breaches.key(Rule::Toleration, &path, message, way_out);
        }
        if toleration_seconds.is_some() && effect != "NoExecute" {
            let message = "tolerationSeconds needs the effect NoExecute".to_owned();
            let path = path.key("tolerationSeconds");
            breaches.key(Rule::Toleration, &path, message, "remove it, or add the effect");
        }
    }
}

fn text(field: Option<&String>) -> &str {
    field.map(String::as_str).unwrap_or_default()
}

/// Checks a word that may be left out.
fn word(word: &str, known: &[&str], path: &Path, breaches: &mut Breaches) {
    if word.is_empty() || known.contains(&word) {
        return;
    }
    let message = format!("{} is not one of {}", shown(word), known.join(", "));
    let way_out = match suggest(word, known) {
        Some(meant) => format!("write {meant} if that is what you mean"),
        None => "write one of these".to_owned(),
    };
    breaches.value(Rule::Toleration, path, message, &way_out);
}
