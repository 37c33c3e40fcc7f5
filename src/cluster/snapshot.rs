//! Snapshots: one immutable ConfigMap per distinct package input (design §4).
//!
//! In: a package, or a ConfigMap with our digest label. Out: the other of the two.
//! Must never: change a snapshot; its name is its content.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ObjectMeta;

use super::slim::SlimConfigMap;
use crate::api::keys;
use crate::model::{Package, Snapshot, SnapshotSpec, digest_hex};

/// Digits of the digest in the label: as many as in the name.
const DIGEST_DIGITS: usize = 16;

/// Builds the ConfigMap: `data` is the package's configMap, mounted as it is; the rest is JSON in
/// an annotation.
///
/// It has no owner, for it must outlive its resource as long as a node names it: a package that a
/// deleted resource has left on a host is compared with it when a resource of that name comes back.
/// The daemon deletes it when nothing names it any more.
pub fn build(spec: &SnapshotSpec, namespace: &str) -> ConfigMap {
    let SnapshotSpec { rollout, package } = spec;
    let mut digest = digest_hex(package);
    digest.truncate(DIGEST_DIGITS);
    let mut rest = package.clone();
    let files = std::mem::take(&mut rest.config_map);
    let rest = serde_json::to_string(&rest).expect("plain data with string keys becomes JSON");
    let owned = |(key, value): (&str, String)| (key.to_owned(), value);
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(package.snapshot_name(rollout)),
            namespace: Some(namespace.to_owned()),
            labels: Some(
                [(keys::NAME, rollout.clone()), (keys::CONFIG_DIGEST, digest)].map(owned).into(),
            ),
            annotations: Some(
                [
                    (keys::NAME, rollout.clone()),
                    (keys::CONFIG_PACKAGE_NAME, package.name.clone()),
                    (keys::CONFIG_PACKAGE_VERSION, package.version.to_string()),
                    (keys::SPEC, rest),
                ]
                .map(owned)
                .into(),
            ),
            ..ObjectMeta::default()
        },
        data: Some(files).filter(|files| !files.is_empty()),
        immutable: Some(true),
        ..ConfigMap::default()
    }
}

/// Reads a snapshot back; `None` when it is not one, or its content is not what its name says.
pub fn read(slim: &SlimConfigMap) -> Option<Snapshot> {
    let rollout = slim.labels.get(keys::NAME)?.clone();
    let mut package: Package = serde_json::from_str(slim.annotations.get(keys::SPEC)?).ok()?;
    package.config_map.clone_from(&slim.content);
    // Somebody else's ConfigMap under our labels, or one edited before it was made immutable.
    if slim.metadata.name.as_deref() != Some(package.snapshot_name(&rollout).as_str()) {
        return None;
    }
    let uid = slim.metadata.uid.clone().unwrap_or_default();
    Some(Snapshot { rollout, uid, package })
}
