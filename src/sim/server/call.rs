//! A request, read: verb, address, query and body.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::log::{Request, Verb};
use super::refusal::Refusal;
use super::resources::{Address, Kind, Scope};
use super::selector::Selector;
use super::view::View;
use super::watch::{Bookmarks, Start, Wish};
use super::write::{FieldValidation, Intent, Persistence, Subresource, text};

/// Largest body the real server reads.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// One request for a resource.
#[derive(Debug)]
pub(super) struct Call {
    pub verb: Verb,
    pub address: Address,
    pub query: BTreeMap<String, String>,
    pub content_type: String,
    pub view: View,
    pub body: Value,
    pub user_agent: String,
}

impl Call {
    /// Reads a request, or returns `None` if its path names no resource.
    pub fn read(
        user_agent: &str,
        parts: &http::request::Parts,
        body: &[u8],
    ) -> Result<Option<Self>, Refusal> {
        let Some(address) = Address::parse(parts.uri.path()) else { return Ok(None) };
        if body.len() > BODY_BYTES_MAX {
            let why = format!("limit is {BODY_BYTES_MAX}");
            return Err(Refusal::plain(413, "RequestEntityTooLarge", why));
        }
        let query: BTreeMap<String, String> =
            form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect();
        let header = |name: http::header::HeaderName| {
            let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let content_type = header(http::header::CONTENT_TYPE);
        let content_type = content_type.split(';').next().unwrap_or_default().trim().to_owned();
        let is_apply = content_type == "application/apply-patch+yaml";
        let body = if body.is_empty() || is_apply {
            Value::Null
        } else {
            serde_json::from_slice(body).map_err(|error| {
                Refusal::bad_request(format!("error decoding the body of the request: {error}"))
            })?
        };
        let wants_watch = query.get("watch").is_some_and(|wish| wish == "true" || wish == "1");
        let verb = verb_of(&parts.method, &address, wants_watch)?;
        let view = View::of(&header(http::header::ACCEPT));
        let user_agent = user_agent.to_owned();
        Ok(Some(Self { verb, address, query, content_type, view, body, user_agent }))
    }

    /// Returns the entry of the audit log, still without an answer.
    pub fn entry(&self, time: Timestamp) -> Request {
        let address = &self.address;
        let of_body = || text(&self.body["metadata"]["name"]).to_owned();
        Request {
            sequence: 0,
            time,
            user_agent: self.user_agent.clone(),
            verb: self.verb,
            group: address.group.clone(),
            resource: address.plural.clone(),
            subresource: address.subresource.clone().unwrap_or_default(),
            namespace: address.namespace.clone().unwrap_or_default(),
            name: address.name.clone().unwrap_or_else(of_body),
            code: None,
            effect: None,
            body: self.body.clone(),
        }
    }

    /// Returns the name of the path.
    pub fn name(&self) -> &str {
        self.address.name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace of the path, empty for cluster scope.
    pub fn namespace(&self) -> &str {
        self.address.namespace.as_deref().unwrap_or_default()
    }

    /// Returns one query parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Checks that the path fits the scope of the kind.
    pub fn check_scope(&self, kind: &Kind) -> Result<(), Refusal> {
        let in_namespace = self.address.namespace.is_some();
        let across = matches!(self.verb, Verb::List | Verb::Watch);
        match kind.scope {
            Scope::Cluster if in_namespace => Err(Refusal::no_such_path()),
            Scope::Namespaced if !in_namespace && !across => Err(Refusal::method_not_allowed()),
            Scope::Cluster | Scope::Namespaced => Ok(()),
        }
    }

    /// Returns the selectors of the query.
    pub fn selector(&self, kind: &Kind) -> Result<Selector, Refusal> {
        Selector::parse(kind, self.parameter("labelSelector"), self.parameter("fieldSelector"))
    }

    /// Returns what a create, update or patch means to do.
    pub fn intent(&self, kind: &Arc<Kind>, now: Timestamp) -> Result<Intent, Refusal> {
        let subresource = match self.address.subresource.as_deref() {
            None => Subresource::Main,
            Some("status") if kind.status => Subresource::Status,
            Some(_) => return Err(Refusal::no_such_path()),
        };
        let agent = self.user_agent.split('/').next().unwrap_or_default();
        let strict = self.parameter("fieldValidation") == Some("Strict");
        let dry_run = self.parameter("dryRun").is_some();
        Ok(Intent {
            kind: kind.clone(),
            namespace: self.namespace().to_owned(),
            subresource,
            writer: self.parameter("fieldManager").unwrap_or(agent).to_owned(),
            now,
            fields: if strict { FieldValidation::Strict } else { FieldValidation::Drop },
            persistence: if dry_run { Persistence::DryRun } else { Persistence::Stored },
        })
    }

    /// Returns what a watch asks for.
    pub fn wish(&self, kind: &Arc<Kind>) -> Result<Wish, Refusal> {
        let marked = self.parameter("sendInitialEvents") == Some("true");
        let start = match self.parameter("resourceVersion") {
            _ if marked => Start::EverythingThenMark,
            None | Some("0") => Start::Everything,
            Some(version) => Start::After(parse_revision(version)?),
        };
        let bookmarks = match self.parameter("allowWatchBookmarks") {
            Some("true" | "1") => Bookmarks::Wanted,
            _ => Bookmarks::Unwanted,
        };
        let timeout = self.parameter("timeoutSeconds").and_then(|text| text.parse().ok());
        Ok(Wish {
            kind: kind.clone(),
            namespace: self.address.namespace.clone(),
            selector: self.selector(kind)?,
            start,
            bookmarks,
            timeout: timeout.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            view: self.view,
            user_agent: self.user_agent.clone(),
        })
    }
}

/// Returns a resourceVersion as the number it is here.
pub(super) fn parse_revision(version: &str) -> Result<u64, Refusal> {
    version.parse().map_err(|_| {
        Refusal::bad_request(format!("invalid resource version: {version:?} is not a number"))
    })
}

fn verb_of(method: &http::Method, address: &Address, watch: bool) -> Result<Verb, Refusal> {
    let named = address.name.is_some();
    match (method.as_str(), named) {
        ("GET", _) if watch => Ok(Verb::Watch),
        ("GET", true) => Ok(Verb::Get),
        ("GET", false) => Ok(Verb::List),
        // A POST to a name is the creation of a subresource, such as an eviction.
        ("POST", _) if !named || address.subresource.is_some() => Ok(Verb::Create),
        ("PUT", true) => Ok(Verb::Update),
        ("PATCH", true) => Ok(Verb::Patch),
        ("DELETE", true) => Ok(Verb::Delete),
        ("DELETE", false) => Ok(Verb::DeleteCollection),
        _ => Err(Refusal::method_not_allowed()),
    }
}
