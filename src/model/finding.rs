//! Findings: what is wrong with what was written, where, and the way out.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Works, but probably not as meant.
    Warning,
    /// The object is refused; its last good state stays in force.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// The object a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Kind, for example `NodeWright`.
    pub kind: String,
    /// metadata.name.
    pub name: String,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// One thing that is wrong or worth knowing about a manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// File, relative to the root of the tree, with `/`.
    pub file: String,
    /// Line, from 1; `None` when the whole file is meant.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
    /// How bad it is.
    pub severity: Severity,
    /// Stable code, for example `NW0107`.
    pub code: String,
    /// The object it is in, where that is known.
    pub object: Option<ObjectRef>,
    /// The path inside the object, for example `spec.packages.kernel.version`.
    pub path: Option<String>,
    /// What is wrong: one sentence without a final period.
    pub message: String,
    /// What to do about it: one sentence without a final period.
    pub way_out: String,
}

impl Finding {
    /// Returns `file:line:column`, as far as known.
    pub fn place(&self) -> String {
        match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}", self.file),
            (Some(line), None) => format!("{}:{line}", self.file),
            (None, _) => self.file.clone(),
        }
    }
}
