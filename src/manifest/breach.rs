//! What is wrong inside one object, said by path, before anybody knows which file it came from.

use std::fmt;

use super::path::Path;
use super::rules::Rule;
use crate::model::Severity;

/// What is wrong inside one object, before its file is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleBreach {
    /// The rule.
    pub rule: Rule,
    /// Where in the object.
    pub path: Path,
    /// Whether the key or its value is meant.
    pub part: Part,
    /// What is wrong: one sentence without a final period.
    pub message: String,
    /// What to do about it: one sentence without a final period.
    pub way_out: String,
}

/// The part of an entry that a finding points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The name of the field.
    Key,
    /// What it holds.
    Value,
}

impl fmt::Display for RuleBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, path, part: _, message, way_out } = self;
        write!(f, "{}: {path}: {message}; {way_out}", rule.code())
    }
}

/// Collects what is wrong with one object.
#[derive(Debug, Default)]
pub(super) struct Breaches(pub Vec<RuleBreach>);

impl Breaches {
    /// Adds a breach that points to a value.
    pub fn value(&mut self, rule: Rule, path: &Path, message: String, way_out: &str) {
        self.add(rule, path, Part::Value, message, way_out);
    }

    /// Adds a breach that points to the name of a field.
    pub fn key(&mut self, rule: Rule, path: &Path, message: String, way_out: &str) {
        self.add(rule, path, Part::Key, message, way_out);
    }

    fn add(&mut self, rule: Rule, path: &Path, part: Part, message: String, way_out: &str) {
        let (path, way_out) = (path.clone(), way_out.to_owned());
        self.0.push(RuleBreach { rule, path, part, message, way_out });
    }

    /// Returns whether any of them refuses the object.
    pub fn any_error(&self) -> bool {
        self.0.iter().any(|breach| breach.rule.severity() == Severity::Error)
    }
}
