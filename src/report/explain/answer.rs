//! A story with what could not be looked at for it: an answer never sounds surer than it is.

use std::fmt;

use serde::Serialize;

use super::TEXT_MAX_BYTES;
use crate::report::wording::clean;

/// A story, and what it does without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer<S> {
    /// The story.
    #[serde(flatten)]
    pub story: S,
    /// What could not be looked at; empty when everything was.
    pub not_known: Vec<NotKnown>,
}

/// Something that could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotKnown {
    /// What: a kind of object, or one object.
    pub what: String,
    /// Why not, in the API server's words.
    pub why: String,
    /// What the story may be wrong about therefore.
    pub so: &'static str,
    /// What a person can do.
    pub way_out: String,
}

impl<S: fmt::Display> fmt::Display for Answer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for NotKnown { what, why, so, way_out } in &self.not_known {
            writeln!(f, "NOT KNOWN  {what}: {}", clean(why, TEXT_MAX_BYTES))?;
            writeln!(f, "  so       {so}")?;
            writeln!(f, "  you can  {way_out}\n")?;
        }
        write!(f, "{}", self.story)
    }
}
