//! The audit log: every request that reached the server, in order.
//!
//! Tests and the demo assert from it what really happened. It only grows; a cluster lives as long
//! as a test or a demo.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::Value;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// One request, as an audit log of a real server at level Request has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Counts from 1 in the order of arrival.
    pub sequence: usize,
    pub time: Timestamp,
    pub user_agent: String,
    pub verb: Verb,
    pub group: String,
    /// The plural, such as `nodes`.
    pub resource: String,
    /// Such as `status` or `eviction`; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster scope, and for lists across namespaces.
    pub namespace: String,
    /// Empty for lists; for a create the name in the body, if there is one.
    pub name: String,
    /// `None` until the answer, and for ever if the answer never came.
    pub code: Option<u16>,
    /// What carrying it out gave, also when its answer was lost; `None` if it was not carried out.
    pub effect: Option<u16>,
    pub body: Value,
}

/// The log itself.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Vec<Request>>);

impl Verb {
    /// Returns whether the request changes anything.
    pub fn is_mutating(self) -> bool {
        match self {
            Self::Get | Self::List | Self::Watch => false,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection => {
                true
            }
        }
    }

    /// Returns the word of Kubernetes' audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// One line: `#12 daemon patch nodes/status node-1 → 200`.
impl fmt::Display for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "#{} {} {} {}",
            self.sequence, self.user_agent, self.verb, self.resource
        )?;
        if !self.subresource.is_empty() {
            write!(formatter, "/{}", self.subresource)?;
        }
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => {}
            ("", name) => write!(formatter, " {name}")?,
            (namespace, name) => write!(formatter, " {namespace}/{name}")?,
        }
        match self.code {
            Some(code) => write!(formatter, " → {code}"),
            None => write!(formatter, " → no answer"),
        }
    }
}

impl Log {
    /// Adds a request and returns its sequence number.
    pub fn arrived(&self, mut request: Request) -> usize {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        request.sequence = entries.len() + 1;
        entries.push(request);
        entries.len()
    }

    /// Notes what carrying out a request gave.
    pub fn carried_out(&self, sequence: usize, code: u16) {
        self.note(sequence, |entry| entry.effect = Some(code));
    }

    /// Notes what a request was answered.
    pub fn answered(&self, sequence: usize, code: u16) {
        self.note(sequence, |entry| entry.code = Some(code));
    }

    fn note(&self, sequence: usize, note: impl FnOnce(&mut Request)) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = sequence.checked_sub(1).and_then(|index| entries.get_mut(index)) {
            note(entry);
        }
    }

    /// Returns everything so far.
    pub fn entries(&self) -> Vec<Request> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
