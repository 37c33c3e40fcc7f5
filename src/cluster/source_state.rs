//! The ConfigMap `nodewright-source`: how far Git has come into this cluster.
//!
//! In and out: [`SourceState`]. The daemon writes the data: revisions seen, accepted and applied,
//! and the list of objects that came from Git. People write annotations, which the daemon reads
//! first: the stop, the acceptance of a held commit, and approvals of selectors.
//! Must never: write over a version that was not read, or touch a person's stop or approval.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::error::ClusterError;
use super::fence::{bounded, fenced};
use super::lease::LeaderProof;
use super::person::FIELD_MANAGER_PERSON;
use crate::api::keys::{ACCEPT, FIELD_MANAGER, STOP, approve, approved_resource};
use crate::clock::Clock;

/// Name of the ConfigMap, in our namespace.
pub const SOURCE_NAME: &str = "nodewright-source";

const SEEN: &str = "seen";
const ACCEPTED: &str = "accepted";
const APPLIED: &str = "applied";
const MANAGED: &str = "managed";
const OBEYED: &str = "stopObeyed";

/// What the cluster remembers of the source; revisions are written `main@sha1:<40 hex>`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceState {
    /// The newest revision that was fetched.
    pub seen: Option<String>,
    /// The newest revision that may be applied; older than `seen` while that one is held.
    pub accepted: Option<String>,
    /// The newest revision all of whose good parts are in the cluster.
    pub applied: Option<String>,
    /// The objects that came from Git: nothing else is ever deleted.
    pub managed: BTreeSet<ManagedObject>,
    /// The commit that a person lets through; set it to `None` once that commit is accepted.
    pub acceptance: Option<String>,
    /// What people approved, by resource; a change of this field is not written.
    pub approvals: BTreeMap<String, String>,
    /// The stop, while there is one. Only people lift it: a change of this field is not written.
    pub stop: Option<Stop>,
    /// The stop that the leader obeys, as its note says: written once nothing that was decided
    /// before it is under way any more.
    pub obeyed: Option<String>,
    /// The resourceVersion that was read; `None` before there is a ConfigMap.
    pub version: Option<String>,
}

/// Somebody stopped all new disruption (design §7, the safety floor).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// What the annotation says: who, when and why, or nothing.
    pub note: String,
}

/// An object that comes from Git; written `NodeWright/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagedObject {
    /// Its kind.
    pub kind: ManagedKind,
    /// Its name.
    pub name: String,
}

/// The kinds that come from Git, in the order in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagedKind {
    /// A DeploymentPolicy.
    DeploymentPolicy,
    /// A NodeWright.
    NodeWright,
}

/// A line of the list that names no object of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{line}` is not NodeWright/<name> or DeploymentPolicy/<name>")]
pub struct NotAnObject {
    line: String,
}

/// Reads and writes the ConfigMap.
#[derive(Clone)]
pub struct SourceStates {
    config_maps: Api<ConfigMap>,
    clock: Clock,
}

impl SourceState {
    /// Returns whether a person lets this commit, given by its hex digits, through.
    pub fn accepts(&self, commit: &str) -> bool {
        self.acceptance.as_deref() == Some(commit)
    }

    pub(super) fn parse(config_map: &ConfigMap) -> Self {
        let data = |key: &str| config_map.data.as_ref().and_then(|data| data.get(key)).cloned();
        let text = |key: &str| data(key).filter(|value| !value.is_empty());
        let annotations = config_map.annotations();
        let list = data(MANAGED).unwrap_or_default();
        let managed = list.lines().filter(|line| !line.is_empty()).filter_map(|line| {
            // A line that is lost costs a deletion later; one that is guessed costs an object.
            let object = line.parse();
            if let Err(error) = &object {
                let error = error as &dyn std::error::Error;
                tracing::warn!(config_map = SOURCE_NAME, error, "line of the list is ignored");
            }
            object.ok()
        });
        Self {
            seen: text(SEEN),
            accepted: text(ACCEPTED),
            applied: text(APPLIED),
            managed: managed.collect(),
            acceptance: annotations.get(ACCEPT).map(|sha| sha.trim().to_owned()),
            approvals: annotations
                .iter()
                .filter_map(|(key, text)| {
                    Some((approved_resource(key)?.to_owned(), text.trim().to_owned()))
                })
                .collect(),
            obeyed: text(OBEYED),
            stop: annotations.get(STOP).map(|note| Stop { note: note.clone() }),
            version: config_map.resource_version(),
        }
    }

    /// Returns the data; a key without a value is written empty, so that it is seen to be known.
    fn data(&self) -> [(&'static str, String); 5] {
        let list: Vec<String> = self.managed.iter().map(ManagedObject::to_string).collect();
        [
            (SEEN, self.seen.clone().unwrap_or_default()),
            (ACCEPTED, self.accepted.clone().unwrap_or_default()),
            (APPLIED, self.applied.clone().unwrap_or_default()),
            (MANAGED, list.join("\n")),
            (OBEYED, self.obeyed.clone().unwrap_or_default()),
        ]
    }
}

impl SourceStates {
    /// Wraps a client.
    pub fn new(client: Client, namespace: &str, clock: Clock) -> Self {
        Self { config_maps: Api::namespaced(client, namespace), clock }
    }

    /// Reads the state; an empty one before anything was written.
    ///
    /// # Errors
    /// The API server did not answer with it.
    pub async fn read(&self) -> Result<SourceState, ClusterError> {
        let request = self.config_maps.get_opt(SOURCE_NAME);
        let config_map =
            bounded(self.clock, "read the ConfigMap nodewright-source", request).await?;
        Ok(config_map.as_ref().map(SourceState::parse).unwrap_or_default())
    }

    /// Writes what differs between the state as read and as wanted; nothing, if nothing does.
    ///
    /// Returns the state as it is then, with what people wrote in the meantime.
    ///
    /// # Errors
    /// `Conflict` by disposition when somebody wrote since `read`: read again, decide again.
    pub async fn write(
        &self,
        proof: &LeaderProof,
        read: &SourceState,
        wanted: &SourceState,
    ) -> Result<SourceState, ClusterError> {
        let same_acceptance = read.acceptance == wanted.acceptance;
        if read.data() == wanted.data() && same_acceptance {
            return Ok(read.clone());
        }
        let what = "write the ConfigMap nodewright-source";
        let written = if let Some(version) = &read.version {
            let mut patch = json!({
                "metadata": {"resourceVersion": version},
                "data": wanted.data().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            });
            if !same_acceptance {
                patch["metadata"]["annotations"] = json!({ACCEPT: wanted.acceptance});
            }
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            let patch = Patch::Merge(patch);
            let request = self.config_maps.patch(SOURCE_NAME, &params, &patch);
            fenced(proof, self.clock, what, request).await?
        } else {
            let params = PostParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PostParams::default()
            };
            let config_map = new_config_map(wanted);
            let request = self.config_maps.create(&params, &config_map);
            fenced(proof, self.clock, what, request).await?
        };
        Ok(SourceState::parse(&written))
    }

    /// Stops all new disruption, on behalf of a person; `None` lets it go on.
    ///
    /// It needs no leadership and asks for no version: the last word of a person counts.
    ///
    /// # Errors
    /// The API server did not take it.
    pub async fn stop(&self, note: Option<&str>) -> Result<SourceState, ClusterError> {
        let metadata = json!({"annotations": {STOP: note}});
        let what = "write the stop into the ConfigMap nodewright-source";
        loop {
            match self.write_for_person(&metadata, what).await {
                Ok(config_map) => return Ok(SourceState::parse(&config_map)),
                Err(error) if error.code() == Some(404) => {}
                Err(error) => return Err(error),
            }
            let Some(note) = note else { return Ok(SourceState::default()) };
            // No daemon has been here yet: the one that comes finds the stop.
            let mut config_map = new_config_map(&SourceState::default());
            config_map.metadata.annotations = Some([(STOP.to_owned(), note.to_owned())].into());
            let params = PostParams {
                field_manager: Some(FIELD_MANAGER_PERSON.to_owned()),
                ..PostParams::default()
            };
            let request = self.config_maps.create(&params, &config_map);
            match bounded(self.clock, what, request).await {
                Ok(config_map) => return Ok(SourceState::parse(&config_map)),
                // A daemon was faster.
                Err(error) if error.code() == Some(409) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Approves what a resource selects, on behalf of a person, and takes back what was approved
    /// for `gone`: resources that are not there any more.
    ///
    /// It needs no leadership and asks for no version: it writes only what is people's to write.
    ///
    /// # Errors
    /// The API server did not take it, or no daemon has been here yet.
    pub async fn approve(
        &self,
        resource: &str,
        approval: &str,
        gone: &BTreeSet<String>,
    ) -> Result<(), ClusterError> {
        let mut annotations: BTreeMap<String, Option<&str>> =
            gone.iter().map(|name| (approve(name), None)).collect();
        annotations.insert(approve(resource), Some(approval));
        let metadata = json!({"annotations": annotations});
        self.write_for_person(&metadata, "write the approval into the ConfigMap nodewright-source")
            .await
            .map(drop)
    }

    /// Lets a commit through, given by its hex digits, on behalf of a person.
    ///
    /// It needs no leadership: it writes only the annotation that is people's to write.
    ///
    /// # Errors
    /// `Conflict` by disposition when somebody wrote since `read`: read again, decide again.
    pub async fn accept(&self, read: &SourceState, commit: &str) -> Result<(), ClusterError> {
        let metadata = json!({
            "resourceVersion": read.version,
            "annotations": {ACCEPT: commit},
        });
        self.write_for_person(&metadata, "accept the commit in the ConfigMap nodewright-source")
            .await
            .map(drop)
    }

    /// Writes what is people's to write.
    async fn write_for_person(
        &self,
        metadata: &Value,
        what: &'static str,
    ) -> Result<ConfigMap, ClusterError> {
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER_PERSON.to_owned()),
            ..PatchParams::default()
        };
        let request = self.config_maps.patch(SOURCE_NAME, &params, &patch);
        bounded(self.clock, what, request).await
    }
}

impl ManagedKind {
    /// Returns the kind as the API has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeploymentPolicy => "DeploymentPolicy",
            Self::NodeWright => "NodeWright",
        }
    }
}

impl ManagedObject {
    /// Names a NodeWright.
    pub fn nodewright(name: &str) -> Self {
        Self { kind: ManagedKind::NodeWright, name: name.to_owned() }
    }

    /// Names a DeploymentPolicy.
    pub fn policy(name: &str) -> Self {
        Self { kind: ManagedKind::DeploymentPolicy, name: name.to_owned() }
    }
}

impl fmt::Display for ManagedObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.kind.as_str(), self.name)
    }
}

impl FromStr for ManagedObject {
    type Err = NotAnObject;

    fn from_str(line: &str) -> Result<Self, NotAnObject> {
        match line.split_once('/') {
            Some(("NodeWright", name)) if !name.is_empty() => Ok(Self::nodewright(name)),
            Some(("DeploymentPolicy", name)) if !name.is_empty() => Ok(Self::policy(name)),
            Some(_) | None => Err(NotAnObject { line: line.to_owned() }),
        }
    }
}

fn new_config_map(state: &SourceState) -> ConfigMap {
    let data = state.data().into_iter().map(|(key, value)| (key.to_owned(), value));
    ConfigMap {
        metadata: ObjectMeta { name: Some(SOURCE_NAME.to_owned()), ..ObjectMeta::default() },
        data: Some(data.collect()),
        ..ConfigMap::default()
    }
}
