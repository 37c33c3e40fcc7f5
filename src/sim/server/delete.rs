//! Deletion: preconditions, grace periods, finalizers, and what goes with the object.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::State;
use super::admission::GRACE_PERIOD_DEFAULT_SECONDS;
use super::refusal::Refusal;
use super::resources::{Kind, Scope};
use super::store::{ObjectKey, ResourceKey};
use super::write::{Persistence, seconds, text};

/// `DeleteOptions` as far as they matter; the propagation policy is ignored: dependants go at
/// once, as with background deletion and an immediate garbage collector.
#[derive(Debug, Clone)]
pub(super) struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub persistence: Persistence,
}

/// What became of an object.
#[derive(Debug)]
pub(super) enum Deleted {
    /// It is still there, with a deletion timestamp.
    Terminating(Arc<Value>),
    /// It is gone; this is its last form.
    Gone(Arc<Value>),
}

impl DeleteOptions {
    /// Reads the body of a DELETE, or the `deleteOptions` of an eviction.
    pub fn parse(body: &Value) -> Self {
        let preconditions = &body["preconditions"];
        let dry_run = body["dryRun"].as_array().is_some_and(|list| !list.is_empty());
        Self {
            grace_period_seconds: body["gracePeriodSeconds"].as_i64(),
            uid: preconditions["uid"].as_str().map(str::to_owned),
            resource_version: preconditions["resourceVersion"].as_str().map(str::to_owned),
            persistence: if dry_run { Persistence::DryRun } else { Persistence::Stored },
        }
    }

    /// Checks the preconditions against the object as it is now.
    pub fn check(&self, kind: &Kind, object: &Value) -> Result<(), Refusal> {
        let metadata = &object["metadata"];
        let name = text(&metadata["name"]);
        if let Some(uid) = self.uid.as_deref().filter(|uid| *uid != text(&metadata["uid"])) {
            let found = text(&metadata["uid"]);
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({found}). \
                 The object might have been deleted and then recreated"
            );
            return Err(Refusal::failed_precondition(kind, name, &why));
        }
        let found = text(&metadata["resourceVersion"]);
        if let Some(version) = self.resource_version.as_deref().filter(|wanted| *wanted != found) {
            let why = format!(
                "the ResourceVersion in the precondition ({version}) does not match the \
                 ResourceVersion in record ({found}). The object might have been modified"
            );
            return Err(Refusal::failed_precondition(kind, name, &why));
        }
        Ok(())
    }
}

impl State {
    /// Deletes an object, or marks it as terminating.
    pub fn delete(
        &mut self,
        kind: &Arc<Kind>,
        key: &ObjectKey,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<Deleted, Refusal> {
        let old =
            self.store.get(&kind.key(), key).ok_or_else(|| Refusal::not_found(kind, &key.1))?;
        options.check(kind, &old)?;
        if options.persistence == Persistence::DryRun {
            return Ok(Deleted::Gone(old));
        }
        let grace = grace_period_seconds(kind, &old, options);
        let has_finalizers = holds_finalizers(&old);
        if grace == 0 && !has_finalizers {
            return Ok(Deleted::Gone(self.remove(kind, key, now).unwrap_or(old)));
        }
        let metadata = &old["metadata"];
        let is_terminating = !metadata["deletionTimestamp"].is_null();
        let remaining = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        if is_terminating && grace >= remaining {
            return Ok(Deleted::Terminating(old));
        }
        let mut marked = Value::clone(&old);
        let metadata = &mut marked["metadata"];
        let end = now.saturating_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        metadata["deletionTimestamp"] = json!(seconds(end));
        metadata["deletionGracePeriodSeconds"] = json!(grace);
        if let Some(generation) = metadata["generation"].as_i64().filter(|_| !is_terminating) {
            metadata["generation"] = json!(generation + 1);
        }
        Ok(Deleted::Terminating(self.store.put(&kind.key(), key.clone(), marked)))
    }

    /// Removes an object now, and everything that only it owned.
    pub fn remove(
        &mut self,
        kind: &Arc<Kind>,
        key: &ObjectKey,
        now: Timestamp,
    ) -> Option<Arc<Value>> {
        let removed = self.store.remove(&kind.key(), key)?;
        if kind.is("customresourcedefinitions") {
            self.unregister(&removed);
        }
        if kind.is("namespaces") {
            self.empty_namespace(&key.1, now);
        }
        self.collect_garbage(text(&removed["metadata"]["uid"]), now);
        Some(removed)
    }

    /// Deletes what an owner that is gone was the last owner of.
    fn collect_garbage(&mut self, owner: &str, now: Timestamp) {
        let owned: Vec<(ResourceKey, ObjectKey, Arc<Value>)> = self
            .store
            .everything()
            .filter(|(_, _, object)| {
                owners(object).iter().any(|reference| reference["uid"] == owner)
            })
            .map(|(resource, key, object)| (resource.clone(), key.clone(), object.clone()))
            .collect();
        for (resource, key, object) in owned {
            let left: Vec<Value> = owners(&object)
                .iter()
                .filter(|reference| reference["uid"] != owner)
                .cloned()
                .collect();
            if !left.is_empty() {
                let mut kept = Value::clone(&object);
                kept["metadata"]["ownerReferences"] = Value::Array(left);
                self.store.put(&resource, key, kept);
            } else if let Some(kind) = self.kind_of(&resource) {
                let options = DeleteOptions::parse(&Value::Null);
                // Deleting fails only where it is gone already, through a chain of owners.
                drop(self.delete(&kind, &key, &options, now));
            }
        }
    }

    /// Removes everything in a namespace at once; the real namespace controller takes seconds.
    fn empty_namespace(&mut self, namespace: &str, now: Timestamp) {
        let inside: Vec<(ResourceKey, ObjectKey)> = self
            .store
            .everything()
            .filter(|(_, key, _)| key.0 == namespace)
            .map(|(resource, key, _)| (resource.clone(), key.clone()))
            .collect();
        for (resource, key) in inside {
            if let Some(kind) = self.kind_of(&resource).filter(|kind| kind.scope != Scope::Cluster)
            {
                self.remove(&kind, &key, now);
            }
        }
    }

    /// Removes a terminating object whose last finalizer just went.
    pub fn finish_deletion(&mut self, kind: &Arc<Kind>, key: &ObjectKey, now: Timestamp) {
        let Some(object) = self.store.get(&kind.key(), key) else { return };
        let metadata = &object["metadata"];
        let waits_for_kubelet = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
        if !metadata["deletionTimestamp"].is_null()
            && !waits_for_kubelet
            && !holds_finalizers(&object)
        {
            self.remove(kind, key, now);
        }
    }
}

/// Returns how long a pod gets: none if no kubelet has it or it has ended. Only pods get any.
fn grace_period_seconds(kind: &Kind, object: &Value, options: &DeleteOptions) -> i64 {
    let is_bound = !text(&object["spec"]["nodeName"]).is_empty();
    let has_ended = matches!(text(&object["status"]["phase"]), "Succeeded" | "Failed");
    if !kind.is("pods") || !is_bound || has_ended {
        return 0;
    }
    let of_pod = object["spec"]["terminationGracePeriodSeconds"].as_i64();
    options.grace_period_seconds.or(of_pod).unwrap_or(GRACE_PERIOD_DEFAULT_SECONDS).max(0)
}

fn holds_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

fn owners(object: &Value) -> &[Value] {
    object["metadata"]["ownerReferences"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the answer to a successful DELETE: pods come back as they were, others as a `Status`.
pub(super) fn answer(kind: &Kind, deleted: &Deleted) -> Value {
    match deleted {
        Deleted::Terminating(object) => Value::clone(object),
        Deleted::Gone(object) if kind.is("pods") || kind.is("serviceaccounts") => {
            Value::clone(object)
        }
        Deleted::Gone(object) => {
            let metadata = &object["metadata"];
            let mut details =
                json!({"name": metadata["name"], "kind": kind.plural, "uid": metadata["uid"]});
            if !kind.group.is_empty() {
                details["group"] = json!(kind.group);
            }
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": details,
            })
        }
    }
}
