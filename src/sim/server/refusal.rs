//! Refusals: the `Status` objects a kube-apiserver answers with when it says no.
//!
//! In goes what is wrong, out comes code, reason, message and details as the real server writes
//! them, so that `kube::Error::Api` and everything that branches on it behaves. Never invents a
//! reason of its own.

use serde_json::{Value, json};

use super::resources::Kind;

/// What the real server answers, in plain text, where nothing is served.
const NO_SUCH_PATH: &str = "404 page not found\n";

/// One answer that is not a success.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    details: Value,
    /// Goes out as header and in the details; `None` where the real server sends none.
    pub retry_after_seconds: Option<u32>,
}

/// One field that is wrong, as in `details.causes`.
#[derive(Debug, Clone)]
pub(super) struct Cause {
    pub reason: &'static str,
    pub field: String,
    pub message: String,
}

impl Cause {
    /// Returns a cause of the given reason; `message` as the field package of Kubernetes words it.
    pub fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, field: field.into(), message: message.into() }
    }

    /// Returns "Invalid value" for a field.
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"))
    }
}

impl Refusal {
    /// Returns a refusal without details.
    pub fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
            retry_after_seconds: None,
        }
    }

    /// Returns 400 BadRequest.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message)
    }

    /// Returns 404 for an object.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} not found", kind.qualified());
        Self::about(404, "NotFound", message, kind, name)
    }

    /// Returns 404 for a path that nobody serves, as for a CRD that is not installed. The real
    /// server answers in plain text, which is why it has no reason.
    pub fn no_such_path() -> Self {
        Self::plain(404, "", NO_SUCH_PATH)
    }

    /// Returns 405 for a verb the resource does not have.
    pub fn method_not_allowed() -> Self {
        Self::plain(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// Returns 409 for a name that is taken.
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", kind.qualified());
        Self::about(409, "AlreadyExists", message, kind, name)
    }

    /// Returns 409 for a write that was based on an older version or a failed precondition.
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified());
        Self::about(409, "Conflict", message, kind, name)
    }

    /// Returns 409 for a stale resourceVersion, in the words every controller knows.
    pub fn stale(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and \
             try again",
        )
    }

    /// Returns 409 for a failed precondition of a deletion; it names the kind, not the resource.
    pub fn failed_precondition(kind: &Kind, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified_kind());
        let mut refusal = Self::about(409, "Conflict", message, kind, name);
        refusal.details["kind"] = json!(kind.kind);
        refusal
    }

    /// Returns 422 for an update that must name a resourceVersion and does not.
    pub fn version_required(kind: &Kind, name: &str) -> Self {
        let field = "metadata.resourceVersion";
        let why = "Invalid value: 0: must be specified for an update";
        let message = format!("{} {name:?} is invalid: {field}: {why}", kind.qualified());
        let mut refusal = Self::about(422, "Invalid", message, kind, name);
        refusal.details["causes"] =
            json!([{"reason": "FieldValueInvalid", "message": why, "field": field}]);
        refusal
    }

    /// Returns 422 for a patch whose result does not fit the type.
    pub fn unfit_patch(why: &str) -> Self {
        let why = format!("Invalid value: {why}");
        let mut refusal = Self::plain(422, "Invalid", format!(" \"\" is invalid: patch: {why}"));
        refusal.details =
            json!({"causes": [{"reason": "FieldValueInvalid", "message": why, "field": "patch"}]});
        refusal
    }

    /// Returns 410 for a resourceVersion or continue token that is too old.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::plain(410, "Expired", message)
    }

    /// Returns 415, naming what is understood.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::plain(415, "UnsupportedMediaType", message)
    }

    /// Returns 422 for an object with wrong fields.
    pub fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        let mut wrong: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        wrong.dedup();
        let list = match wrong.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {list}", kind.qualified_kind());
        let mut refusal = Self::about(422, "Invalid", message, kind, name);
        refusal.details["kind"] = json!(kind.kind);
        refusal.details["causes"] = causes
            .iter()
            .map(|cause| {
                json!({"reason": cause.reason, "message": cause.message, "field": cause.field})
            })
            .collect();
        refusal
    }

    /// Returns 422 as the server answers a JSON patch that does not apply, a failed test included.
    pub fn unprocessable_patch() -> Self {
        let why = "the server rejected our request due to an error in our request";
        let mut refusal = Self::plain(422, "Invalid", why);
        refusal.details = json!({});
        refusal
    }

    /// Returns 429; `retry_after_seconds` is what the server asks the client to wait.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut refusal = Self::plain(429, "TooManyRequests", message);
        if retry_after_seconds > 0 {
            refusal.details["retryAfterSeconds"] = json!(retry_after_seconds);
            refusal.retry_after_seconds = Some(retry_after_seconds);
        }
        refusal
    }

    /// Returns 500 as for an error of the server's own.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::plain(500, "InternalError", format!("Internal error occurred: {}", message.into()))
    }

    /// Returns 500 as for an error that nobody gave a reason.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::plain(500, "", message)
    }

    /// Returns 504 for a resourceVersion of the future.
    pub fn too_large_version(wanted: u64, current: u64) -> Self {
        let why = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let mut refusal = Self::plain(504, "Timeout", why);
        refusal.details = json!({
            "causes": [{
                "reason": "ResourceVersionTooLarge", "message": "Too large resource version",
            }],
            "retryAfterSeconds": 1,
        });
        refusal.retry_after_seconds = Some(1);
        refusal
    }

    /// Adds one cause to the details.
    pub fn with_cause(mut self, reason: &str, message: impl Into<String>) -> Self {
        self.details["causes"] = json!([{"reason": reason, "message": message.into()}]);
        self
    }

    /// Returns the `Status` object; what is empty is left out, as Go does.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            body["reason"] = json!(self.reason);
        }
        if !self.details.is_null() {
            body["details"] = self.details.clone();
        }
        body
    }

    /// Returns the text of the answer.
    pub fn text(&self) -> String {
        if self.message == NO_SUCH_PATH { self.message.clone() } else { self.body().to_string() }
    }

    fn about(code: u16, reason: &'static str, message: String, kind: &Kind, name: &str) -> Self {
        let mut details = json!({"name": name, "kind": kind.plural});
        if !kind.group.is_empty() {
            details["group"] = json!(kind.group);
        }
        Self { code, reason, message, details, retry_after_seconds: None }
    }
}
