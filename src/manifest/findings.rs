//! Collects findings; sorted, without repeats and bounded at the end.

use std::collections::BTreeSet;

use super::breach::RuleBreach;
use super::rules::Rule;
use super::tree::{Flaw, Place};
use crate::model::{Finding, ObjectRef, Severity};

/// Most findings that are handed on; more than that is one mistake repeated.
pub const FINDINGS_MAX: usize = 200;

/// Longest text of a finding, in bytes: it must fit into an annotation and on a screen.
const TEXT_MAX_BYTES: usize = 1024;

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    all: BTreeSet<(String, Option<u32>, Option<u32>, Finding)>,
}

impl Findings {
    /// Adds a finding about a file as a whole.
    pub fn file(&mut self, rule: Rule, file: &str, message: String, way_out: &str) {
        self.add(Finding {
            file: file.to_owned(),
            line: None,
            column: None,
            severity: rule.severity(),
            code: rule.code().to_owned(),
            object: None,
            path: None,
            message,
            way_out: way_out.to_owned(),
        });
    }

    /// Adds a finding about a place that is not a field of an object.
    pub fn place(
        &mut self,
        rule: Rule,
        place: &Place,
        object: Option<ObjectRef>,
        message: String,
        way_out: &str,
    ) {
        self.add(Finding {
            file: place.file.to_string(),
            line: Some(place.line),
            column: Some(place.column),
            severity: rule.severity(),
            code: rule.code().to_owned(),
            object,
            path: None,
            message,
            way_out: way_out.to_owned(),
        });
    }

    /// Adds what is wrong with the YAML itself.
    pub fn flaw(&mut self, flaw: &Flaw, object: Option<ObjectRef>) {
        let Flaw { rule, place, message, way_out } = flaw;
        self.place(*rule, place, object, message.clone(), way_out);
    }

    /// Adds what is wrong inside an object.
    pub fn breach(&mut self, breach: &RuleBreach, place: &Place, object: Option<ObjectRef>) {
        let RuleBreach { rule, path, part: _, message, way_out } = breach;
        self.add(Finding {
            file: place.file.to_string(),
            line: Some(place.line),
            column: Some(place.column),
            severity: rule.severity(),
            code: rule.code().to_owned(),
            object,
            path: (!path.is_root()).then(|| path.to_string()),
            message: message.clone(),
            way_out: way_out.clone(),
        });
    }

    fn add(&mut self, mut finding: Finding) {
        bound(&mut finding.message);
        bound(&mut finding.way_out);
        finding.path.iter_mut().for_each(bound);
        self.all.insert((finding.file.clone(), finding.line, finding.column, finding));
    }

    /// Returns them in the order of files and lines, errors first where there are too many.
    pub fn finish(self) -> Vec<Finding> {
        let mut findings: Vec<_> = self.all.into_iter().map(|(.., finding)| finding).collect();
        if findings.len() <= FINDINGS_MAX {
            return findings;
        }
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let hidden = findings.split_off(FINDINGS_MAX - 1);
        let errors = hidden.iter().filter(|finding| finding.severity == Severity::Error).count();
        findings.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        findings.push(Finding {
            file: hidden[0].file.clone(),
            line: None,
            column: None,
            severity: hidden[0].severity,
            code: Rule::MoreFindings.code().to_owned(),
            object: None,
            path: None,
            message: format!("and {} more findings, {errors} of them errors", hidden.len()),
            way_out: "correct those above and read again".to_owned(),
        });
        findings
    }
}

/// Cuts a text, and takes out what would move a terminal's cursor; it may quote a manifest.
fn bound(text: &mut String) {
    if text.contains(char::is_control) {
        *text = text.replace(char::is_control, "\u{fffd}");
    }
    if text.len() > TEXT_MAX_BYTES {
        text.truncate(text.floor_char_boundary(TEXT_MAX_BYTES - "…".len()));
        text.push('…');
    }
}
