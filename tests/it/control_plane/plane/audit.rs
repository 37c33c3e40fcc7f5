//! The API server's audit log, one JSON object a line, as entries a test can count.

use std::io;
use std::path::Path;

use serde::Deserialize;

/// One request as the API server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub verb: String,
    /// Like `nodes`; empty where the request is for no object, as `/version`.
    pub resource: String,
    /// Like `status` or `eviction`; empty for the object itself.
    pub subresource: String,
    /// Empty for a list, and for objects without a namespace.
    pub namespace: String,
    /// Empty for a list or a watch, and where the server chose the name.
    pub name: String,
    pub user_agent: String,
    pub uri: String,
    /// The HTTP status; 0 where the server noted none.
    pub code: u16,
    pub stage: Stage,
}

/// How far a request was when its entry was written. All but watches have one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Stage {
    RequestReceived,
    /// A watch has begun.
    ResponseStarted,
    ResponseComplete,
    /// The API server's own code panicked.
    Panic,
}

impl AuditEntry {
    /// Tells whether the request asked for a change; [`Self::code`] says whether it was made.
    pub fn is_write(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

/// Reads all complete lines; the last one may still be being written.
pub fn read(path: &Path) -> io::Result<Vec<AuditEntry>> {
    let text = std::fs::read_to_string(path)?;
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().map(|line| parse(line).map_err(io::Error::other)).collect()
}

fn parse(line: &str) -> Result<AuditEntry, serde_json::Error> {
    let Event { stage, request_uri, verb, user_agent, object_ref, response_status } =
        serde_json::from_str(line)?;
    let ObjectRef { resource, subresource, namespace, name } = object_ref;
    let code = response_status.code;
    let uri = request_uri;
    Ok(AuditEntry { verb, resource, subresource, namespace, name, user_agent, uri, code, stage })
}
