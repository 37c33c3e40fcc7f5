//! What watches read: only the fields that something depends on, whatever else an object holds.
//!
//! In: JSON of whole objects, as it comes off the wire. Out: types that kube can watch, each with
//! just enough metadata for that, and the rest converted at once into what we keep.
//! Must never: fail on one strange object; a list that fails hides all the others.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::shelf::Revision;

/// The metadata that we read. Annotations of others are dropped where nothing asks for them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WireMeta {
    /// metadata.name.
    pub name: String,
    /// metadata.namespace, empty for what has none.
    pub namespace: String,
    /// metadata.uid.
    pub uid: String,
    /// metadata.resourceVersion.
    pub resource_version: String,
    /// metadata.creationTimestamp.
    pub creation_timestamp: Timestamp,
    /// metadata.deletionTimestamp.
    pub deletion_timestamp: Option<Timestamp>,
    /// metadata.deletionGracePeriodSeconds.
    pub deletion_grace_period_seconds: Option<i64>,
    /// metadata.labels.
    #[serde(deserialize_with = "null_as_empty")]
    pub labels: BTreeMap<String, String>,
    /// metadata.annotations.
    #[serde(deserialize_with = "null_as_empty")]
    pub annotations: BTreeMap<String, String>,
    /// metadata.ownerReferences.
    #[serde(deserialize_with = "null_as_empty")]
    pub owner_references: Vec<WireOwner>,
    /// metadata.managedFields, as far as they tell who wrote `spec.unschedulable`.
    #[serde(deserialize_with = "null_as_empty")]
    pub managed_fields: Vec<WireManager>,
}

/// An owner.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WireOwner {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// It is the controller.
    pub controller: Option<bool>,
}

/// A field manager, as far as `spec.unschedulable` is concerned.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WireManager {
    /// Who.
    pub manager: String,
    /// When it last wrote.
    pub time: Option<Timestamp>,
    /// What it owns.
    pub fields_v1: WireFields,
}

/// The fields a manager owns.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct WireFields {
    /// Those of the spec.
    #[serde(rename = "f:spec")]
    pub spec: Option<WireSpecFields>,
}

/// The fields of the spec that a manager owns.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct WireSpecFields {
    /// `spec.unschedulable`.
    #[serde(rename = "f:unschedulable")]
    pub unschedulable: Option<IgnoredAny>,
}

impl WireMeta {
    /// Returns the metadata that kube's watcher asks for, and no more.
    pub fn shell(&self) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name.clone()),
            namespace: (!self.namespace.is_empty()).then(|| self.namespace.clone()),
            uid: Some(self.uid.clone()),
            resource_version: Some(self.resource_version.clone()),
            ..ObjectMeta::default()
        }
    }
}

/// Reads `null` as nothing.
pub fn null_as_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Returns the version of an object.
pub fn revision(meta: &ObjectMeta) -> Revision {
    Revision::parse(meta.resource_version.as_deref().unwrap_or_default())
}

/// An object of a custom resource, kept as JSON: one that cannot be read must not hide others.
pub struct Untyped<K> {
    /// Its metadata, without managed fields.
    pub metadata: ObjectMeta,
    /// The whole object, without managed fields.
    pub value: Value,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Untyped<K> {
    fn clone(&self) -> Self {
        Self { metadata: self.metadata.clone(), value: self.value.clone(), kind: PhantomData }
    }
}

impl<K> std::fmt::Debug for Untyped<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Untyped").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

impl<'de, K> Deserialize<'de> for Untyped<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let metadata = value.get("metadata").unwrap_or(&Value::Null);
        let metadata = ObjectMeta::deserialize(metadata).map_err(D::Error::custom)?;
        Ok(Self { metadata, value, kind: PhantomData })
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Untyped<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Makes a type with a `metadata` watchable as the kind it is a part of.
macro_rules! watchable_as {
    ($slim:ty, $whole:ty) => {
        impl kube::Resource for $slim {
            type DynamicType = ();
            type Scope = <$whole as kube::Resource>::Scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                <$whole as kube::Resource>::kind(&())
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                <$whole as kube::Resource>::group(&())
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                <$whole as kube::Resource>::version(&())
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                <$whole as kube::Resource>::plural(&())
            }

            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(crate) use watchable_as;

/// A ConfigMap of ours.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "WireConfigMap")]
pub struct SlimConfigMap {
    /// What kube's watcher asks for.
    pub metadata: ObjectMeta,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its data.
    pub content: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
#[derive(Default)]
struct WireConfigMap {
    metadata: WireMeta,
    #[serde(deserialize_with = "null_as_empty")]
    data: BTreeMap<String, String>,
}

impl From<WireConfigMap> for SlimConfigMap {
    fn from(wire: WireConfigMap) -> Self {
        let WireConfigMap { metadata, data } = wire;
        Self {
            metadata: metadata.shell(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            content: data,
        }
    }
}

watchable_as!(SlimConfigMap, ConfigMap);
