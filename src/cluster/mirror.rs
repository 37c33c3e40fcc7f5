//! Objects under the group's former name, mirrored one way (upstream contract A.1).
//!
//! In: Skyhook and DeploymentPolicy objects of `skyhook.nvidia.com`, where the cluster serves them.
//! Out: a NodeWright or DeploymentPolicy of that name, stamped; kept the same while it has the
//! stamp. Must never: delete one, or touch one that somebody made by hand: whoever has taken an
//! object over by removing the stamp, or by committing it, owns it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Resource;
use kube::core::ObjectMeta;
use serde_json::{Map, Value, json};

use super::act::Actor;
use super::error::ClusterError;
use super::lease::LeaderProof;
use super::legacy;
use super::requests::{Answer, Body, Mutation, Verb};
use super::shelf::Shelf;
use super::slim::Untyped;
use super::status::merge_difference;
use super::store::{Places, State, View, Watched};
use crate::api::keys::{self, MIRRORED_FROM};
use crate::api::{
    DeploymentPolicy, DeploymentPolicySpec, GROUP, NodeWright, NodeWrightSpec, VERSION,
};

/// The group's name before it was renamed.
pub const LEGACY_GROUP: &str = "skyhook.nvidia.com";

/// An object under the former name.
#[derive(Debug, Clone, PartialEq)]
pub struct Former {
    /// Annotations and labels of ours, under their present names.
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    /// Its spec as it is written.
    spec: Value,
    /// It is going away: nothing of it is mirrored any more.
    is_deleting: bool,
}

/// The objects under the former name, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FormerObjects {
    /// Skyhooks.
    pub skyhooks: BTreeMap<String, Arc<Former>>,
    /// DeploymentPolicies.
    pub policies: BTreeMap<String, Arc<Former>>,
}

/// One object to write, so that it is what its former one is.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// `nodewrights` or `deploymentpolicies`.
    pub plural: &'static str,
    /// Its name.
    pub name: String,
    /// Create or patch.
    pub verb: Verb,
    /// The request's body.
    pub content: Value,
}

/// Returns what must be written, policies first, since NodeWrights name them; and what cannot be
/// mirrored, with why.
pub fn steps(view: &View) -> (Vec<Step>, Vec<(String, String)>) {
    let (mut steps, mut unreadable) = (Vec::new(), Vec::new());
    let mut add = |name: &String, step: Result<Option<Step>, serde_json::Error>| match step {
        Ok(step) => steps.extend(step),
        Err(error) => unreadable.push((name.clone(), error.to_string())),
    };
    for (name, former) in live(&view.former.policies) {
        if !view.unreadable_policies.contains_key(name) {
            let there = view.policies.get(name);
            let there = there.map(|it| (&it.metadata, to_value(&it.spec)));
            add(name, step::<DeploymentPolicySpec>("DeploymentPolicy", name, former, there));
        }
    }
    for (name, former) in live(&view.former.skyhooks) {
        if !view.unreadable_nodewrights.contains_key(name) {
            let there = view.nodewrights.get(name);
            let there = there.map(|it| (&it.metadata, to_value(&it.spec)));
            add(name, step::<NodeWrightSpec>("NodeWright", name, former, there));
        }
    }
    (steps, unreadable)
}

fn live(of: &BTreeMap<String, Arc<Former>>) -> impl Iterator<Item = (&String, &Former)> {
    of.iter().map(|(name, former)| (name, former.as_ref())).filter(|(_, it)| !it.is_deleting)
}

fn step<S: serde::Serialize + serde::de::DeserializeOwned>(
    kind: &'static str,
    name: &str,
    former: &Former,
    there: Option<(&ObjectMeta, Value)>,
) -> Result<Option<Step>, serde_json::Error> {
    // By way of our own type, so that both sides have the same form.
    let spec: S = serde_json::from_value(without_tags(former.spec.clone()))?;
    let spec = to_value(&spec);
    let plural = if kind == "NodeWright" { "nodewrights" } else { "deploymentpolicies" };
    let mut annotations = former.annotations.clone();
    annotations.insert(MIRRORED_FROM.to_owned(), format!("{LEGACY_GROUP}/{name}"));
    let name = name.to_owned();
    let Some((metadata, now)) = there else {
        let content = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": kind,
            "metadata": {"name": name, "annotations": annotations, "labels": former.labels},
            "spec": spec,
        });
        return Ok(Some(Step { plural, name, verb: Verb::Create, content }));
    };
    let known = metadata.annotations.clone().unwrap_or_default();
    // What Git has written since is Git's, whatever stamp it still has.
    let is_copy = known.contains_key(MIRRORED_FROM) && !known.contains_key(keys::CONFIG_DIGEST);
    if !is_copy || metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let mut content = Map::new();
    if let Some(difference) = merge_difference(&now, &spec) {
        content.insert("spec".to_owned(), difference);
    }
    let mut marks = Map::new();
    for key in [keys::PAUSE, keys::DISABLE] {
        if known.get(key) != annotations.get(key) {
            marks.insert(key.to_owned(), json!(annotations.get(key)));
        }
    }
    if content.is_empty() && marks.is_empty() {
        return Ok(None);
    }
    let version = metadata.resource_version.clone();
    content
        .insert("metadata".to_owned(), json!({"resourceVersion": version, "annotations": marks}));
    Ok(Some(Step { plural, name, verb: Verb::Patch, content: Value::Object(content) }))
}

/// Takes tags off images: upstream cut them off when it read an object under the former name, and
/// the version is the tag. Differs from upstream: a registry's port is none.
fn without_tags(mut spec: Value) -> Value {
    let packages = spec.get_mut("packages").and_then(Value::as_object_mut);
    for package in packages.into_iter().flat_map(Map::values_mut) {
        let Some(image) = package.get("image").and_then(Value::as_str) else { continue };
        let folder = image.rfind('/').map_or(0, |slash| slash + 1);
        if let Some(colon) = image[folder..].find(':') {
            package["image"] = json!(&image[..folder + colon]);
        }
    }
    spec
}

impl Actor {
    /// Mirrors what is there under the former name. Returns whether all of it is as it should be.
    pub async fn mirror(&self, proof: &LeaderProof, view: &View) -> bool {
        let (steps, unreadable) = steps(view);
        let mut is_whole = true;
        for (name, error) in unreadable {
            tracing::debug!(name, error, "an object under the former name is not mirrored");
        }
        for step in steps {
            let (name, plural) = (step.name.clone(), step.plural);
            match self.mirror_one(proof, step).await {
                Ok(()) => tracing::info!(name, plural, "mirrored from its former name"),
                Err(error) => {
                    is_whole = false;
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(name, plural, error, "not mirrored from its former name");
                }
            }
        }
        is_whole
    }

    async fn mirror_one(&self, proof: &LeaderProof, step: Step) -> Result<(), ClusterError> {
        let Step { plural, name, verb, content } = step;
        let folder = format!("/apis/{GROUP}/{VERSION}/{plural}");
        let (path, body) = match verb {
            Verb::Create => (folder, Body::Json),
            Verb::Patch | Verb::Delete => (format!("{folder}/{name}"), Body::MergePatch),
        };
        let what = format!("mirroring {name} of {LEGACY_GROUP} to {plural}");
        let mutation = Mutation { what, verb, path, body, content };
        if plural == "nodewrights" {
            let answer = self.requests.mutate::<Untyped<NodeWright>>(proof, mutation).await?;
            if let Answer::Object(object) = answer {
                self.store.put(object);
            }
        } else {
            let answer = self.requests.mutate::<Untyped<DeploymentPolicy>>(proof, mutation).await?;
            if let Answer::Object(object) = answer {
                self.store.put(object);
            }
        }
        Ok(())
    }
}

fn to_value<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("plain types with string keys become JSON")
}

/// Makes a kind of the former group watchable; its objects are kept as JSON.
macro_rules! former_kind {
    ($name:ident, $kind:literal, $plural:literal, $shelf:ident) => {
        #[doc = concat!("The kind ", $kind, " of the former group.")]
        #[derive(Debug)]
        pub struct $name {
            metadata: ObjectMeta,
        }

        impl Resource for $name {
            type DynamicType = ();
            type Scope = kube::core::ClusterResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                LEGACY_GROUP.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                VERSION.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        impl Watched for Untyped<$name> {
            type Kept = Arc<Former>;
            const KIND: &'static str = concat!($plural, ".skyhook.nvidia.com");
            const MAY_BE_ABSENT: bool = true;

            fn shelf(state: &mut State) -> &mut Shelf<Arc<Former>> {
                &mut state.$shelf
            }

            fn keep(self, _places: &Places) -> Arc<Former> {
                Arc::new(Former::read(&self.metadata, &self.value))
            }

            fn is_same(one: &Arc<Former>, other: &Arc<Former>) -> bool {
                one == other
            }
        }
    };
}

former_kind!(Skyhook, "Skyhook", "skyhooks", skyhooks);
former_kind!(FormerPolicy, "DeploymentPolicy", "deploymentpolicies", former_policies);

impl Former {
    fn read(metadata: &ObjectMeta, value: &Value) -> Self {
        // Keys of ours alone: those of Helm or Argo CD would make the copy theirs.
        let ours = |map: &Option<BTreeMap<String, String>>| {
            let all = map.iter().flatten();
            all.filter_map(|(key, value)| {
                let key =
                    legacy::present(key).or_else(|| legacy::is_ours(key).then(|| key.clone()))?;
                Some((key, value.clone()))
            })
            .collect()
        };
        Self {
            annotations: ours(&metadata.annotations),
            labels: ours(&metadata.labels),
            spec: value.get("spec").cloned().unwrap_or_else(|| json!({})),
            is_deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}
