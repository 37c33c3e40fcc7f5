//! YAML as a small tree in which every key and value knows its file, line and column.
//!
//! In: one file's text. Out: its documents, or what is wrong with each of them.
//! Must never: let a document that cannot be read hide its neighbours, grow without bound through
//! aliases, or recurse deeper than [`DEPTH_MAX`].

mod build;

use std::fmt;
use std::rc::Rc;

use serde_json::{Map, Number};

use super::rules::Rule;

pub(super) use build::parse_file;

/// Deepest nesting of lists and maps; Kubernetes' own objects stay below 30.
pub const DEPTH_MAX: usize = 64;

/// Most nodes of one document once its aliases are written out; a YAML bomb needs millions.
pub const NODES_MAX: usize = 100_000;

/// Most documents of one file.
pub const DOCUMENTS_MAX: usize = 1_000;

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Path of the file, relative to the root, with `/`.
    pub file: Rc<str>,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column } = self;
        write!(f, "{file}:{line}:{column}")
    }
}

/// A value and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub place: Place,
    pub value: Value,
}

/// What a node holds. Children are shared, so an alias costs nothing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Scalar(Scalar),
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

/// One key of a map with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub key_place: Place,
    pub value: Rc<Node>,
}

/// A scalar as it was written and what it means in YAML 1.2's core schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scalar {
    /// The text as written, without quotes.
    pub text: String,
    /// Without quotes, so that its looks decide its type.
    pub plain: bool,
    /// What it means.
    pub meaning: Meaning,
}

/// The scalars of JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    Null,
    Bool(bool),
    Number(Number),
    Text,
}

/// A document, or why there is none.
#[derive(Debug)]
pub(super) struct Document {
    /// Where it starts.
    pub place: Place,
    /// Its root; `None` when it could not be read.
    pub root: Option<Rc<Node>>,
    /// What is wrong with it.
    pub flaws: Vec<Flaw>,
    /// The text of a document that could not be read, to guess whose it was.
    pub text: String,
}

/// Something wrong with the YAML itself.
#[derive(Clone, Debug)]
pub(super) struct Flaw {
    pub rule: Rule,
    pub place: Place,
    pub message: String,
    pub way_out: String,
}

impl Node {
    /// Returns the value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Rc<Self>> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns the entry of a key, if this is a map that has it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Value::List(_) | Value::Scalar(_) => None,
        }
    }

    /// Returns the text of a scalar, whatever its type.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) if scalar.meaning != Meaning::Null => Some(&scalar.text),
            Value::Scalar(_) | Value::List(_) | Value::Map(_) => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(Scalar { meaning: Meaning::Null, .. }))
    }

    /// Returns the tree as JSON, without places. Of a repeated key the first one counts.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Scalar(scalar) => match &scalar.meaning {
                Meaning::Null => serde_json::Value::Null,
                Meaning::Bool(truth) => serde_json::Value::Bool(*truth),
                Meaning::Number(number) => serde_json::Value::Number(number.clone()),
                Meaning::Text => serde_json::Value::String(scalar.text.clone()),
            },
            Value::List(items) => items.iter().map(|item| item.to_json()).collect(),
            Value::Map(entries) => {
                let mut map = Map::new();
                for Entry { key, value, .. } in entries {
                    if !map.contains_key(key) {
                        map.insert(key.clone(), value.to_json());
                    }
                }
                serde_json::Value::Object(map)
            }
        }
    }

    /// Returns the type in the words of the findings.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Scalar(scalar) => match &scalar.meaning {
                Meaning::Null => "nothing",
                Meaning::Bool(_) => "true or false",
                Meaning::Number(_) => "a number",
                Meaning::Text => "text",
            },
        }
    }
}

impl Scalar {
    /// Reads a scalar by the rules of YAML 1.2's core schema.
    ///
    /// A number that JSON cannot hold (infinity, over 64 bits) stays text.
    pub fn new(text: String, plain: bool) -> Self {
        let meaning = if plain { core_schema(&text) } else { Meaning::Text };
        Self { text, plain, meaning }
    }
}

fn core_schema(text: &str) -> Meaning {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Meaning::Null,
        "true" | "True" | "TRUE" => return Meaning::Bool(true),
        "false" | "False" | "FALSE" => return Meaning::Bool(false),
        _ => {}
    }
    number(text).map_or(Meaning::Text, Meaning::Number)
}

fn number(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix("0o") {
        return i64::from_str_radix(digits, 8).ok().filter(|_| unsigned(digits)).map(Number::from);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return i64::from_str_radix(digits, 16).ok().filter(|_| unsigned(digits)).map(Number::from);
    }
    let bare = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match bare.find(['e', 'E']) {
        Some(at) => (&bare[..at], Some(&bare[at + 1..])),
        None => (bare, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
        return None;
    }
    if let Some(exponent) = exponent {
        let bare = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if bare.is_empty() || !digits(bare) {
            return None;
        }
    } else if !mantissa.contains('.') {
        return text.parse::<i64>().ok().map(Number::from);
    }
    Number::from_f64(text.parse::<f64>().ok()?)
}

fn unsigned(digits: &str) -> bool {
    !digits.starts_with(['-', '+'])
}
