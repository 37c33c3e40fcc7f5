//! The one place where requests leave for the API server.
//!
//! In: a method, a path, a body and the proof of leadership. Out: the answer, decoded, or an error
//! that says whether the change may have been made.
//! Must never: repeat a mutating request, send one without leadership, or wait without bound.

use std::time::Duration;

use kube::Client;
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ClusterError;
use super::lease::LeaderProof;
use crate::api::keys::FIELD_MANAGER;
use crate::clock::Clock;

/// How the body of a request is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// A whole object, or the options of a deletion.
    Json,
    /// RFC 7386.
    MergePatch,
    /// RFC 6902.
    JsonPatch,
    /// Kubernetes' own: lists merge by a key, for example conditions by their type.
    StrategicMergePatch,
}

impl Body {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::MergePatch => "application/merge-patch+json",
            Self::JsonPatch => "application/json-patch+json",
            Self::StrategicMergePatch => "application/strategic-merge-patch+json",
        }
    }
}

/// What a mutating request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// POST.
    Create,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

/// A mutating request, before it is sent.
#[derive(Debug, Clone)]
pub struct Mutation {
    /// What it is, in words: the beginning of every error message.
    pub what: String,
    /// The method.
    pub verb: Verb,
    /// Path and query.
    pub path: String,
    /// How the body is to be read.
    pub body: Body,
    /// The body.
    pub content: Value,
}

/// An answer: the object as it is now, or the server's word that there is none.
#[derive(Debug, Clone)]
pub enum Answer<T> {
    /// The object.
    Object(T),
    /// `kind: Status`, as deletions and evictions answer.
    Status(Box<Status>),
}

/// Sends requests within their time.
#[derive(Clone)]
pub struct Requests {
    client: Client,
    clock: Clock,
    timeout: Duration,
}

#[derive(Deserialize)]
struct KindOnly {
    #[serde(default)]
    kind: String,
}

impl Requests {
    /// Wraps a client; `timeout` is of the clock, and holds for each request.
    pub fn new(client: Client, clock: Clock, timeout: Duration) -> Self {
        Self { client, clock, timeout }
    }

    /// Sends a mutating request once.
    ///
    /// # Errors
    /// See [`ClusterError`]; after `TimedOut`, `Broken` and `Unreadable` it may have been done.
    pub async fn mutate<T: DeserializeOwned>(
        &self,
        proof: &LeaderProof,
        mutation: Mutation,
    ) -> Result<Answer<T>, ClusterError> {
        let Mutation { what, verb, path, body, content } = mutation;
        if !proof.is_valid() {
            return Err(ClusterError::NotLeader { request: what });
        }
        let method = match verb {
            Verb::Create => http::Method::POST,
            Verb::Patch => http::Method::PATCH,
            Verb::Delete => http::Method::DELETE,
        };
        let path = match verb {
            Verb::Create | Verb::Patch => with_field_manager(&path),
            Verb::Delete => path,
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, body.content_type())
            .body(content.to_string().into_bytes());
        self.send(what, request).await
    }

    /// Reads one object, `None` when it is not there.
    ///
    /// # Errors
    /// See [`ClusterError`]; reading changes nothing.
    pub async fn read<T: DeserializeOwned>(
        &self,
        what: String,
        path: &str,
    ) -> Result<Option<T>, ClusterError> {
        let request = http::Request::get(path).body(Vec::new());
        match self.send(what.clone(), request).await {
            Ok(Answer::Object(object)) => Ok(Some(object)),
            Ok(Answer::Status(status)) => Err(ClusterError::Refused { request: what, status }),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        what: String,
        request: Result<http::Request<Vec<u8>>, http::Error>,
    ) -> Result<Answer<T>, ClusterError> {
        let request = match request {
            Ok(request) => request,
            Err(source) => return Err(ClusterError::Unbuildable { request: what, source }),
        };
        let limit = self.clock.real_duration(self.timeout);
        let text = match tokio::time::timeout(limit, self.client.request_text(request)).await {
            Err(_elapsed) => {
                return Err(ClusterError::TimedOut { request: what, after: self.timeout });
            }
            Ok(Err(kube::Error::Api(status))) => {
                return Err(ClusterError::Refused { request: what, status });
            }
            Ok(Err(source)) => {
                return Err(ClusterError::Broken { request: what, source: Box::new(source) });
            }
            Ok(Ok(text)) => text,
        };
        decode(&text).map_err(|source| ClusterError::Unreadable { request: what, source })
    }
}

fn decode<T: DeserializeOwned>(text: &str) -> Result<Answer<T>, serde_json::Error> {
    let KindOnly { kind } = serde_json::from_str(text)?;
    if kind == "Status" {
        return serde_json::from_str(text).map(|status| Answer::Status(Box::new(status)));
    }
    serde_json::from_str(text).map(Answer::Object)
}

fn with_field_manager(path: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}fieldManager={FIELD_MANAGER}")
}
