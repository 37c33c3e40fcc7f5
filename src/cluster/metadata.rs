//! The ConfigMap with a node's labels and annotations, for package scripts (upstream contract
//! D.4).
//!
//! In: the node as it is, and the packages wanted. Out: the ConfigMap.
//! Must never: be kept in memory; full annotations of 10,000 nodes are what we trim away.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::executor::owner;
use super::names::node_metadata_name;
use super::settings::EdgeSettings;
use super::slim::WireMeta;
use crate::api::keys;
use crate::model::{Interrupt, NodeMetadata, Package, Version};

/// A node with all of its metadata.
#[derive(Debug, Deserialize)]
pub struct WholeNode {
    /// Labels and annotations of everyone.
    pub metadata: WireMeta,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Packages<'a> {
    agent_version: &'a str,
    packages: BTreeMap<&'a str, PackageSummary<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PackageSummary<'a> {
    name: &'a str,
    version: &'a Version,
    image: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_image_override: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<&'a Interrupt>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    config_interrupts: &'a BTreeMap<String, Interrupt>,
}

/// Builds the ConfigMap; `None` when the node has neither labels nor annotations.
pub fn build(spec: &NodeMetadata, node: &WholeNode, settings: &EdgeSettings) -> Option<ConfigMap> {
    let WireMeta { labels, annotations, .. } = &node.metadata;
    if labels.is_empty() && annotations.is_empty() {
        return None;
    }
    let packages = Packages {
        agent_version: image_tag(&settings.agent_image),
        packages: spec.packages.iter().map(|(name, it)| (name.as_str(), summary(it))).collect(),
    };
    let owned = |(key, value): (&str, String)| (key.to_owned(), value);
    let files = [
        ("annotations.json", to_json(annotations)),
        ("labels.json", to_json(labels)),
        ("packages.json", to_json(&packages)),
    ];
    Some(ConfigMap {
        metadata: ObjectMeta {
            name: Some(node_metadata_name(&spec.rollout, &spec.node)),
            namespace: Some(settings.namespace.clone()),
            labels: Some([(keys::SKYHOOK_NODE_META, spec.rollout.clone())].map(owned).into()),
            annotations: Some(
                [
                    (keys::NAME, spec.rollout.clone()),
                    (keys::NODE_META_NODE_NAME, spec.node.clone()),
                ]
                .map(owned)
                .into(),
            ),
            owner_references: Some(vec![owner(&spec.rollout, &spec.rollout_uid)]),
            ..ObjectMeta::default()
        },
        data: Some(files.map(owned).into()),
        ..ConfigMap::default()
    })
}

fn summary(package: &Package) -> PackageSummary<'_> {
    PackageSummary {
        name: &package.name,
        version: &package.version,
        image: &package.image,
        agent_image_override: package.agent_image_override.as_deref(),
        interrupt: package.interrupt.as_ref(),
        config_interrupts: &package.config_interrupts,
    }
}

fn to_json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data with string keys becomes JSON")
}

/// Returns the tag of an image reference, empty where it has none.
fn image_tag(image: &str) -> &str {
    let (bare, digest) = image.split_once('@').map_or((image, ""), |(bare, digest)| (bare, digest));
    match bare.rsplit_once(':') {
        // A colon before a slash is the port of the registry.
        Some((_, tag)) if !tag.contains('/') => tag,
        Some(_) | None => digest,
    }
}
