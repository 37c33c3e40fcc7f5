//! What executor pods mount and tolerate (upstream contract D.2).
//!
//! In: an [`ExecutorSpec`] and the settings. Out: volumes, mounts, tolerations.
//! Must never: mount a Secret of ours, or anything of the host but its root.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, HostPathVolumeSource, Toleration, Volume, VolumeMount,
};

use super::names::{LABEL_MAX_BYTES, node_metadata_name, safe_name};
use super::settings::EdgeSettings;
use super::slim_pod::UNSCHEDULABLE_TAINT;
use crate::api::keys;
use crate::model::{ExecutorSpec, Package, Taint, TaintEffect, Work};

/// Where executor containers see the root of the host.
pub const ROOT_PATH: &str = "/root";

const ROOT_VOLUME: &str = "root-mount";
const CONFIG_PATH: &str = "/skyhook-package/configmaps";
const METADATA_PATH: &str = "/skyhook-package/node-metadata";

/// Returns the volumes of a pod.
pub fn volumes(spec: &ExecutorSpec) -> Vec<Volume> {
    let root = Volume {
        name: ROOT_VOLUME.to_owned(),
        host_path: Some(HostPathVolumeSource { path: "/".to_owned(), type_: None }),
        ..Volume::default()
    };
    // Optional: a node without labels and annotations has none (upstream contract D.4).
    let metadata = Volume {
        name: metadata_volume(spec),
        config_map: Some(ConfigMapVolumeSource {
            name: node_metadata_name(&spec.visit.rollout, &spec.visit.node),
            optional: Some(true),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let mut volumes = vec![root, metadata];
    if let Some(package) = configured(spec) {
        volumes.push(Volume {
            name: config_volume(package),
            config_map: Some(ConfigMapVolumeSource {
                name: spec.snapshot.clone(),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        });
    }
    volumes
}

/// Returns what every container of stages mounts.
///
/// Each config file alone, so that files the image brings in the same folder stay visible.
pub fn mounts(spec: &ExecutorSpec) -> Vec<VolumeMount> {
    let metadata = VolumeMount {
        name: metadata_volume(spec),
        mount_path: METADATA_PATH.to_owned(),
        ..VolumeMount::default()
    };
    let mut mounts = vec![root_mount(), metadata];
    if let Some(package) = configured(spec) {
        mounts.extend(package.config_map.keys().map(|key| VolumeMount {
            name: config_volume(package),
            mount_path: format!("{CONFIG_PATH}/{key}"),
            sub_path: Some(key.clone()),
            read_only: Some(true),
            ..VolumeMount::default()
        }));
    }
    mounts
}

/// Returns the mount of the host's root.
pub fn root_mount() -> VolumeMount {
    VolumeMount {
        name: ROOT_VOLUME.to_owned(),
        mount_path: ROOT_PATH.to_owned(),
        mount_propagation: Some("HostToContainer".to_owned()),
        ..VolumeMount::default()
    }
}

/// Returns what a pod tolerates: the cordon, the runtime-required taints, a node that is not ready
/// or not reachable, and what its rollout adds.
pub fn tolerations(spec: &ExecutorSpec, settings: &EdgeSettings) -> Vec<Toleration> {
    let exists = |key: &str, effect: &str| Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    };
    let equal = |taint: &Taint| Toleration {
        key: Some(taint.key.clone()),
        operator: Some("Equal".to_owned()),
        value: Some(taint.value.clone()),
        effect: Some(effect(taint.effect).to_owned()),
        ..Toleration::default()
    };
    let legacy = Taint {
        key: keys::LEGACY_PREFIX.trim_end_matches('/').to_owned(),
        ..settings.runtime_required_taint.clone()
    };
    let mut tolerations = vec![
        exists(UNSCHEDULABLE_TAINT, "NoSchedule"),
        equal(&settings.runtime_required_taint),
        equal(&legacy),
        exists("node.kubernetes.io/not-ready", "NoExecute"),
        exists("node.kubernetes.io/unreachable", "NoExecute"),
    ];
    tolerations.extend(spec.tolerations.iter().cloned());
    tolerations
}

fn effect(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    }
}

/// Returns the package whose config files the pod mounts, if it mounts any.
fn configured(spec: &ExecutorSpec) -> Option<&Package> {
    match &spec.work {
        Work::Uninstall { package } | Work::Install { package, .. } | Work::Verify { package } => {
            Some(package).filter(|package| !package.config_map.is_empty())
        }
        // Neither runs a script of the package.
        Work::Pull { .. } | Work::Interrupt { .. } => None,
    }
}

fn metadata_volume(spec: &ExecutorSpec) -> String {
    match &spec.work {
        Work::Pull { .. } | Work::Uninstall { .. } | Work::Install { .. } | Work::Verify { .. } => {
            safe_name(LABEL_MAX_BYTES, &["metadata", &spec.visit.node])
        }
        Work::Interrupt { .. } => {
            safe_name(LABEL_MAX_BYTES, &[&spec.visit.rollout, &spec.visit.node, "metadata"])
        }
    }
}

/// The volume is called as the package, unless that name is taken.
fn config_volume(package: &Package) -> String {
    if package.name == ROOT_VOLUME { format!("{ROOT_VOLUME}-config") } else { package.name.clone() }
}
