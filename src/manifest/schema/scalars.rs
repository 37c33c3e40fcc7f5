//! The part of the check that looks at texts, numbers and switches.

use serde_json::Value as Json;

use super::{Walk, shown};
use crate::api::duration::{DURATION_PATTERN, GoDuration};
use crate::manifest::breach::Part;
use crate::manifest::path::Path;
use crate::manifest::rules::Rule;
use crate::manifest::suggest::suggest;
use crate::manifest::tree::{Meaning, Node, Scalar, Value};

/// What YAML 1.1, which kubectl still reads, takes for true and false.
const YES: &[&str] = &["y", "Y", "yes", "Yes", "YES", "on", "On", "ON"];
const NO: &[&str] = &["n", "N", "no", "No", "NO", "off", "Off", "OFF"];

impl Walk<'_> {
    pub(super) fn text(&mut self, schema: &Json, node: &Node, path: &Path) {
        let Value::Scalar(scalar) = &node.value else {
            return self.wrong_type(node, path, "a text", "write a text");
        };
        match &scalar.meaning {
            Meaning::Text => {
                if let Some(other) = other_type(scalar) {
                    let message =
                        format!("{} is {other} to kubectl, which reads YAML 1.1", scalar.text);
                    let way_out = format!("put it in quotes: \"{}\"", scalar.text);
                    self.report(Rule::AmbiguousText, path, Part::Value, message, way_out);
                }
                self.text_form(schema, &scalar.text, path);
            }
            Meaning::Null => self.wrong_type(node, path, "a text", "write \"\" for an empty text"),
            Meaning::Bool(_) | Meaning::Number(_) => self.unquoted(node, scalar, path),
        }
    }

    /// Reports what would be a text if it had quotes.
    fn unquoted(&mut self, node: &Node, scalar: &Scalar, path: &Path) {
        let text = &scalar.text;
        let way_out = format!("put it in quotes: \"{text}\"");
        let is_version = path.last_key() == Some("version") || path.has_key("dependsOn");
        match &scalar.meaning {
            Meaning::Number(number) if is_version => {
                let message =
                    format!("without quotes {text} is the number {number}, not a version");
                self.report(Rule::UnquotedVersion, path, Part::Value, message, way_out);
            }
            Meaning::Number(_) | Meaning::Bool(_) | Meaning::Null | Meaning::Text => {
                self.wrong_type(node, path, "a text", &way_out);
            }
        }
    }

    fn text_form(&mut self, schema: &Json, text: &str, path: &Path) {
        if let Some(allowed) = schema["enum"].as_array() {
            let allowed: Vec<&str> = allowed.iter().filter_map(Json::as_str).collect();
            if !allowed.contains(&text) {
                let message = format!("{} is not one of {}", shown(text), allowed.join(", "));
                let way_out = match suggest(text, &allowed) {
                    Some(meant) => format!("write {meant} if that is what you mean"),
                    None => "write one of these".to_owned(),
                };
                self.report(Rule::NotAllowed, path, Part::Value, message, way_out);
            }
            return;
        }
        let characters = text.chars().count() as u64;
        if schema["minLength"].as_u64().is_some_and(|least| characters < least) {
            let message = "the text is empty".to_owned();
            self.report(Rule::TextForm, path, Part::Value, message, "write a value".to_owned());
        } else if let Some(most) = schema["maxLength"].as_u64().filter(|most| characters > *most) {
            let message = format!("the text has {characters} characters; at most {most} are taken");
            self.report(Rule::TextForm, path, Part::Value, message, "shorten it".to_owned());
        } else if let Some(pattern) = schema["pattern"].as_str() {
            self.pattern(pattern, text, path);
        }
    }

    fn pattern(&mut self, pattern: &str, text: &str, path: &Path) {
        if pattern == DURATION_PATTERN {
            if let Err(error) = text.parse::<GoDuration>() {
                let way_out = "write a length of time such as 30s, 10m or 1h30m".to_owned();
                self.report(Rule::Duration, path, Part::Value, error.to_string(), way_out);
            }
            return;
        }
        if self.schemas.has_form(pattern, text) {
            return;
        }
        let message = format!("{} does not have the form that is wanted here", shown(text));
        let way_out = if path.last_key() == Some("containerSHA") {
            "write sha256: and 64 digits of 0 to 9 and a to f".to_owned()
        } else {
            format!("write what matches {pattern}")
        };
        self.report(Rule::TextForm, path, Part::Value, message, way_out);
    }

    pub(super) fn boolean(&mut self, node: &Node, path: &Path) {
        let Value::Scalar(scalar) = &node.value else {
            return self.wrong_type(node, path, "true or false", "write true or false");
        };
        let text = scalar.text.as_str();
        let way_out = match &scalar.meaning {
            Meaning::Bool(_) => return,
            Meaning::Text if YES.contains(&text) => "write true",
            Meaning::Text if NO.contains(&text) => "write false",
            Meaning::Text if ["true", "false"].contains(&text) => "remove the quotes",
            Meaning::Text | Meaning::Null | Meaning::Number(_) => "write true or false",
        };
        self.wrong_type(node, path, "true or false", way_out);
    }

    pub(super) fn integer(&mut self, schema: &Json, node: &Node, path: &Path) {
        let Value::Scalar(scalar) = &node.value else {
            return self.wrong_type(node, path, "a whole number", "write a number");
        };
        let number = match &scalar.meaning {
            Meaning::Number(number) => number,
            Meaning::Text if scalar.text.parse::<i64>().is_ok() => {
                return self.wrong_type(node, path, "a whole number", "remove the quotes");
            }
            Meaning::Text if scalar.text.ends_with('%') => {
                return self.wrong_type(node, path, "a whole number", "leave the percent sign out");
            }
            Meaning::Text | Meaning::Null | Meaning::Bool(_) => {
                return self.wrong_type(node, path, "a whole number", "write a number");
            }
        };
        let Some(whole) = number.as_i64() else {
            let way_out = "write it without a fraction or exponent";
            return self.wrong_type(node, path, "a whole number", way_out);
        };
        self.octal(scalar, path);
        self.range(schema, whole, path);
    }

    fn octal(&mut self, scalar: &Scalar, path: &Path) {
        let digits = scalar.text.trim_start_matches(['+', '-']);
        if digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0x") {
            let message =
                format!("{} is another number to kubectl, which reads YAML 1.1", { &scalar.text });
            let way_out = "write it without leading zeros".to_owned();
            self.report(Rule::AmbiguousText, path, Part::Value, message, way_out);
        }
    }

    fn range(&mut self, schema: &Json, number: i64, path: &Path) {
        let is_narrow = schema["format"] == "int32";
        let (narrow_least, narrow_most) = (f64::from(i32::MIN), f64::from(i32::MAX));
        let least = schema["minimum"].as_f64().or(is_narrow.then_some(narrow_least));
        let most = schema["maximum"].as_f64().or(is_narrow.then_some(narrow_most));
        let value = number as f64;
        if least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most) {
            return;
        }
        let range = match (least, most) {
            (Some(least), Some(most)) if most < narrow_most => format!("{least} to {most}"),
            (Some(least), _) if value < least => format!("{least} or more"),
            (_, Some(most)) => format!("{most} or less"),
            (_, None) => "within its range".to_owned(),
        };
        let message = format!("{number} is outside the range; it must be {range}");
        let way_out = format!("write a number that is {range}");
        self.report(Rule::OutOfRange, path, Part::Value, message, way_out);
    }

    /// Checks a quantity, which may be written as a whole number or as text.
    pub(super) fn number_or_text(&mut self, schema: &Json, node: &Node, path: &Path) {
        let Value::Scalar(scalar) = &node.value else {
            return self.wrong_type(node, path, "a quantity", "write one such as 500m or 2Gi");
        };
        match &scalar.meaning {
            Meaning::Number(number) if number.is_i64() => {}
            Meaning::Text => self.text_form(schema, &scalar.text, path),
            Meaning::Number(_) => {
                let way_out = format!("put it in quotes: \"{}\"", scalar.text);
                self.wrong_type(node, path, "a quantity", &way_out);
            }
            Meaning::Null | Meaning::Bool(_) => {
                self.wrong_type(node, path, "a quantity", "write one such as 500m or 2Gi");
            }
        }
    }
}

/// Returns what YAML 1.1 takes a text without quotes for, if not for text.
fn other_type(scalar: &Scalar) -> Option<&'static str> {
    let text = scalar.text.as_str();
    if !scalar.plain {
        return None;
    }
    if YES.contains(&text) {
        return Some("true");
    }
    if NO.contains(&text) {
        return Some("false");
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let with_underscores = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.contains('_')
        && digits.chars().all(|c| c.is_ascii_digit() || c == '_');
    let binary = digits
        .strip_prefix("0b")
        .is_some_and(|bits| !bits.is_empty() && bits.chars().all(|c| c == '0' || c == '1'));
    (with_underscores || binary).then_some("a number")
}
