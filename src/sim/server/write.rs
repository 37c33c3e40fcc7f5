//! Create and update: from what a client sent to what is stored.
//!
//! In goes an object (already patched, if it came as a patch), out comes the stored object or the
//! refusal of a real server: preconditions first, then what the server owns, then admission, then
//! validation. Deletion is in `delete.rs`, what controllers do afterwards in `react.rs`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::refusal::{Cause, Refusal};
use super::resources::{Kind, Origin, Scope};
use super::store::{ObjectKey, ResourceKey};
use super::{State, admission, validate};

/// Everything about a write that is not the object.
#[derive(Debug, Clone)]
pub(super) struct Intent {
    pub kind: Arc<Kind>,
    /// Namespace of the path; empty for cluster scope.
    pub namespace: String,
    pub subresource: Subresource,
    /// Who writes: the `fieldManager`, else the first word of the user agent.
    pub writer: String,
    pub now: Timestamp,
    pub fields: FieldValidation,
    pub persistence: Persistence,
}

/// What of an object a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subresource {
    Main,
    Status,
}

/// What happens to fields the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Drop,
    Strict,
}

/// Whether the result is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Persistence {
    Stored,
    DryRun,
}

/// How an update was made, for the rules on a missing resourceVersion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Put,
    Patch,
}

impl Intent {
    /// Returns where objects of this write are stored.
    pub fn resource(&self) -> ResourceKey {
        self.kind.key()
    }

    fn key(&self, name: &str) -> ObjectKey {
        (self.namespace.clone(), name.to_owned())
    }
}

impl Kind {
    /// Returns where its objects are stored, whatever the version.
    pub fn key(&self) -> ResourceKey {
        ResourceKey { group: self.group.clone(), plural: self.plural.clone() }
    }
}

impl State {
    /// Creates an object.
    pub fn create(&mut self, intent: &Intent, mut object: Value) -> Result<Arc<Value>, Refusal> {
        let kind = &intent.kind;
        self.name_object(intent, &mut object)?;
        let name = text(&object["metadata"]["name"]).to_owned();
        if kind.scope == Scope::Namespaced {
            self.namespace_accepts(intent)?;
        }
        if !text(&object["metadata"]["resourceVersion"]).is_empty() {
            return Err(Refusal::unexpected(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        // A node registers itself with its status; all others start without one.
        if kind.status
            && !kind.is("nodes")
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        admission::on_create(kind, &mut object);
        require_kind(kind, &object)?;
        let mut object = normalize(intent, Method::Put, object)?;
        let metadata = &mut object["metadata"];
        for owned in ["deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"] {
            remove(metadata, owned);
        }
        metadata["uid"] = json!(self.store.uid());
        metadata["creationTimestamp"] = json!(seconds(intent.now));
        remove(metadata, "generation");
        if kind.generation || kind.is_custom() {
            metadata["generation"] = json!(1);
        }
        track_cordon(intent, &Value::Null, &mut object);
        validate::check_metadata(kind, &object)?;
        let key = intent.key(&name);
        if self.store.get(&intent.resource(), &key).is_some() {
            return Err(Refusal::already_exists(kind, &name));
        }
        Ok(self.commit(intent, key, object))
    }

    /// Replaces an object, its status only or all but its status.
    pub fn update(
        &mut self,
        intent: &Intent,
        method: Method,
        name: &str,
        wanted: Value,
    ) -> Result<Arc<Value>, Refusal> {
        let kind = &intent.kind;
        let key = intent.key(name);
        let old = self
            .store
            .get(&intent.resource(), &key)
            .ok_or_else(|| Refusal::not_found(kind, name))?;
        require_kind(kind, &wanted)?;
        check_preconditions(intent, method, &old, &wanted)?;
        let mut object = merge_halves(intent, &old, wanted);
        keep_what_the_server_owns(&old, &mut object);
        let mut object = normalize(intent, method, object)?;
        admission::on_update(kind, intent.subresource, &old, &object)?;
        if (kind.generation || kind.is_custom()) && spec_differs(&old, &object) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation + 1);
        }
        track_cordon(intent, &old, &mut object);
        validate::check_metadata(kind, &object)?;
        if object == *old {
            return Ok(old);
        }
        Ok(self.commit(intent, key, object))
    }

    /// Stores the object, lets the controllers react, and returns it as the writer sees it.
    fn commit(&mut self, intent: &Intent, key: ObjectKey, object: Value) -> Arc<Value> {
        if intent.persistence == Persistence::DryRun {
            return Arc::new(object);
        }
        let resource = intent.resource();
        let stored = self.store.put(&resource, key.clone(), object);
        self.react(&intent.kind, &key, intent.now);
        stored
    }

    /// Fills in name and namespace and checks that path and body agree.
    fn name_object(&mut self, intent: &Intent, object: &mut Value) -> Result<(), Refusal> {
        if !object.is_object() {
            return Err(Refusal::bad_request("the body of the request is not an object"));
        }
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        let prefix = text(&object["metadata"]["generateName"]).to_owned();
        if text(&object["metadata"]["name"]).is_empty() {
            if prefix.is_empty() {
                let cause = Cause::new(
                    "FieldValueRequired",
                    "metadata.name",
                    "Required value: name or generateName is required",
                );
                return Err(Refusal::invalid(&intent.kind, "", &[cause]));
            }
            object["metadata"]["name"] = json!(format!("{prefix}{}", self.store.suffix()));
        }
        let namespace = text(&object["metadata"]["namespace"]);
        if !namespace.is_empty() && namespace != intent.namespace {
            return Err(Refusal::bad_request(
                "the namespace of the provided object does not match the namespace sent on the \
                 request",
            ));
        }
        if intent.kind.scope == Scope::Namespaced {
            object["metadata"]["namespace"] = json!(intent.namespace);
        }
        Ok(())
    }

    fn namespace_accepts(&self, intent: &Intent) -> Result<(), Refusal> {
        let namespaces = ResourceKey { group: String::new(), plural: "namespaces".to_owned() };
        let key = (String::new(), intent.namespace.clone());
        match (self.store.get(&namespaces, &key), self.kind("", "v1", "namespaces")) {
            (None, Some(kind)) => Err(Refusal::not_found(&kind, &intent.namespace)),
            (Some(found), _) if !found["metadata"]["deletionTimestamp"].is_null() => {
                Err(Refusal::plain(
                    403,
                    "Forbidden",
                    format!(
                        "unable to create new content in namespace {} because it is being \
                         terminated",
                        intent.namespace
                    ),
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Returns a time as the API writes it, to the second.
pub(super) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns a string, or the empty string for anything else.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Removes a field of an object.
pub(super) fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

fn check_preconditions(
    intent: &Intent,
    method: Method,
    old: &Value,
    wanted: &Value,
) -> Result<(), Refusal> {
    let kind = &intent.kind;
    let name = text(&old["metadata"]["name"]);
    let metadata = &wanted["metadata"];
    for field in ["name", "namespace"] {
        let sent = text(&metadata[field]);
        if !sent.is_empty() && metadata[field] != old["metadata"][field] {
            return Err(Refusal::bad_request(format!(
                "the {field} of the object ({sent}) does not match the {field} on the URL ({})",
                text(&old["metadata"][field])
            )));
        }
    }
    let uid = text(&metadata["uid"]);
    if !uid.is_empty() && metadata["uid"] != old["metadata"]["uid"] {
        return Err(other_uid(kind, method, name, uid, text(&old["metadata"]["uid"])));
    }
    let version = text(&metadata["resourceVersion"]);
    if version.is_empty() && method == Method::Put && !kind.unconditional_update {
        return Err(Refusal::version_required(kind, name));
    }
    if !version.is_empty() && metadata["resourceVersion"] != old["metadata"]["resourceVersion"] {
        return Err(Refusal::stale(kind, name));
    }
    Ok(())
}

/// Returns the refusal of a write meant for another object of the same name: a PUT carries the UID
/// as a precondition, a patch tries to change it.
fn other_uid(kind: &Kind, method: Method, name: &str, wanted: &str, found: &str) -> Refusal {
    match method {
        Method::Put => {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}/{name}, \
                 ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
                 precondition: {wanted}, UID in object meta: {found}",
                kind.plural
            );
            Refusal::conflict(kind, name, &why)
        }
        Method::Patch => {
            let cause = Cause::invalid("metadata.uid", &json!(wanted), "field is immutable");
            Refusal::invalid(kind, name, &[cause])
        }
    }
}

/// Refuses a custom resource that does not say what it is; built-in kinds follow from the path.
fn require_kind(kind: &Kind, object: &Value) -> Result<(), Refusal> {
    if kind.is_custom() && text(&object["kind"]).is_empty() {
        return Err(Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing \
             in '{object}'",
            kind.kind
        )));
    }
    Ok(())
}

fn cannot_be_handled(kind: &Kind) -> String {
    format!("{} in version {:?} cannot be handled as a {}", kind.kind, kind.version, kind.kind)
}

/// Takes from `wanted` what this endpoint writes, and the rest from the old object.
fn merge_halves(intent: &Intent, old: &Value, mut wanted: Value) -> Value {
    let kind = &intent.kind;
    match intent.subresource {
        Subresource::Main if kind.status => {
            copy_field(old, &mut wanted, "status");
            wanted
        }
        Subresource::Main => wanted,
        // A custom resource's status endpoint writes nothing but status. Built-in ones also take
        // metadata, which is how kubelets and controllers may set labels there.
        Subresource::Status if kind.is_custom() => {
            let mut object = old.clone();
            copy_field(&wanted, &mut object, "status");
            object
        }
        Subresource::Status => {
            for field in old.as_object().into_iter().flat_map(|fields| fields.keys()) {
                if !matches!(field.as_str(), "status" | "metadata") {
                    copy_field(old, &mut wanted, field);
                }
            }
            wanted
        }
    }
}

fn keep_what_the_server_owns(old: &Value, object: &mut Value) {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "generateName",
    ] {
        copy_field(&old["metadata"], &mut object["metadata"], field);
    }
}

fn copy_field(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => remove(to, field),
    }
}

/// Brings an object into the form that is stored: typed for built-in kinds, pruned, defaulted and
/// validated for custom ones.
fn normalize(intent: &Intent, method: Method, mut object: Value) -> Result<Value, Refusal> {
    let kind = &intent.kind;
    for (field, expected) in [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())] {
        let sent = text(&object[field]);
        // Versions of one CRD are converted by renaming; a foreign group or kind is an error.
        let group = |version: &str| version.split_once('/').map(|(group, _)| group.to_owned());
        let fits = match field {
            "kind" => sent == expected,
            _ => group(sent) == group(&expected),
        };
        if !sent.is_empty() && !fits {
            return Err(Refusal::bad_request(format!(
                "the {field} in the data ({sent}) does not match the expected {field} ({expected})"
            )));
        }
        object[field] = json!(expected);
    }
    match &kind.origin {
        Origin::BuiltIn(round_trip) => {
            drop_nulls(&mut object);
            if object["spec"]["unschedulable"] == false {
                // `omitempty` of the Go type: false is not stored.
                remove(&mut object["spec"], "unschedulable");
            }
            round_trip(object).map_err(|error| match method {
                Method::Put => {
                    Refusal::bad_request(format!("{}: {error}", cannot_be_handled(kind)))
                }
                Method::Patch => Refusal::unfit_patch(&error.to_string()),
            })
        }
        Origin::Custom(schema) => {
            drop_nulls(&mut object["metadata"]);
            let metadata: ObjectMeta = serde_json::from_value(object["metadata"].take())
                .map_err(|error| Refusal::bad_request(format!("metadata: {error}")))?;
            object["metadata"] = json!(metadata);
            let unknown = schema.prune(&mut object);
            if intent.fields == FieldValidation::Strict && !unknown.is_empty() {
                let mut list: Vec<String> =
                    unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
                list.sort();
                return Err(Refusal::bad_request(format!(
                    "{}: strict decoding error: {}",
                    cannot_be_handled(kind),
                    list.join(", ")
                )));
            }
            schema.default(&mut object);
            let causes = schema.validate(&object);
            if causes.is_empty() {
                return Ok(object);
            }
            Err(Refusal::invalid(kind, text(&object["metadata"]["name"]), &causes))
        }
    }
}

/// Removes nulls, which decode to absent fields in the real server's Go types.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, inner| !inner.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns whether anything but metadata and status differs, which is what generation counts.
fn spec_differs(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| {
        let mut rest = object.clone();
        for field in ["apiVersion", "kind", "metadata", "status"] {
            remove(&mut rest, field);
        }
        rest
    };
    rest(old) != rest(new)
}

/// Keeps one `managedFields` entry: who last changed `spec.unschedulable` of a node.
///
/// That is all of field management that anything here reads. One difference from the real server
/// is deliberate: the entry stays when the field goes, so that a test can tell who uncordoned.
fn track_cordon(intent: &Intent, old: &Value, object: &mut Value) {
    let kind = &intent.kind;
    if !kind.is("nodes") || old["spec"]["unschedulable"] == object["spec"]["unschedulable"] {
        return;
    }
    object["metadata"]["managedFields"] = json!([{
        "manager": intent.writer, "operation": "Update", "apiVersion": kind.api_version(),
        "time": seconds(intent.now), "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:unschedulable": {}}},
    }]);
}
