//! Packages: what is put on a host, and what must be restarted for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::EnvVar;
use serde::{Deserialize, Serialize};

use super::{Pattern, Version, digest_hex};

/// One package version, written `name|version` in every key and state (upstream contract A.3).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PackageId {
    /// The key in `spec.packages`.
    pub name: String,
    /// The version as written. Entries that others wrote may hold any text here.
    pub version: String,
}

impl fmt::Display for PackageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}", self.name, self.version)
    }
}

impl TryFrom<String> for PackageId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.split_once('|') {
            Some((name, version)) if !name.is_empty() && !version.is_empty() => {
                Ok(Self { name: name.to_owned(), version: version.to_owned() })
            }
            _ => Err(format!("{text:?} is not of the form name|version")),
        }
    }
}

impl From<PackageId> for String {
    fn from(id: PackageId) -> Self {
        id.to_string()
    }
}

/// What must be restarted after a package was configured (upstream contract B.5).
///
/// The order is upstream's rank: an earlier kind includes the later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InterruptKind {
    /// The node reboots.
    Reboot,
    /// Upstream's `restartAllServices`, which reloads procps.
    RestartAllServices,
    /// The named services restart.
    Service,
    /// Nothing restarts, but the node is cordoned and drained as if.
    Noop,
}

impl InterruptKind {
    /// Returns the word used in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reboot => "reboot",
            Self::RestartAllServices => "restartAllServices",
            Self::Service => "service",
            Self::Noop => "noop",
        }
    }

    /// Returns the word the agent knows (upstream contract B.5, payload `type`).
    pub fn agent_word(self) -> &'static str {
        match self {
            Self::Reboot => "node_restart",
            Self::RestartAllServices => "restart_all_services",
            Self::Service => "service_restart",
            Self::Noop => "no_op",
        }
    }
}

impl fmt::Display for InterruptKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An interrupt with the services it restarts, which only [`InterruptKind::Service`] has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// What restarts.
    #[serde(rename = "type")]
    pub kind: InterruptKind,
    /// Names of services, sorted and without repeats once merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
}

/// Compute limits of the executor's containers: all four or none (upstream contract A.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Kubernetes quantity.
    pub cpu_request: String,
    /// Kubernetes quantity, at least the request.
    pub cpu_limit: String,
    /// Kubernetes quantity.
    pub memory_request: String,
    /// Kubernetes quantity, at least the request.
    pub memory_limit: String,
}

/// Whether and when the package is taken off the host (upstream contract B.15).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uninstall {
    /// The package has an uninstall that must run before it may be removed.
    pub enabled: bool,
    /// Uninstall it now.
    pub apply: bool,
}

/// A package as wanted, or as it was when it was put on a node (a snapshot).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Package {
    /// The key in `spec.packages`.
    pub name: String,
    /// The version, which is also the image's tag.
    pub version: Version,
    /// Bare repository of the image, without tag or digest.
    pub image: String,
    /// `sha256:` digest that replaces the tag.
    #[serde(default, rename = "containerSHA", skip_serializing_if = "Option::is_none")]
    pub container_sha: Option<String>,
    /// Full reference of another agent image for this package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_image_override: Option<String>,
    /// Interrupt after every install and upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<Interrupt>,
    /// Interrupts by config key, literal or with `*`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_interrupts: BTreeMap<String, Interrupt>,
    /// Packages (name to exact version) that must be complete first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub depends_on: BTreeMap<String, String>,
    /// Files by name, mounted for the package's scripts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_map: BTreeMap<String, String>,
    /// Environment of the package's scripts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Keyed digest of what `env[].valueFrom` refers to: a rotated Secret is a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_digest: Option<String>,
    /// Compute limits of its executors; `None` leaves them to the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Grace period of its executors; `None` is Kubernetes' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graceful_shutdown: Option<Duration>,
    /// Longest time for one stage and its check; zero is no limit, `None` the daemon's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_timeout: Option<Duration>,
    /// Whether and when it is uninstalled.
    #[serde(default)]
    pub uninstall: Uninstall,
}

impl Interrupt {
    /// Merges interrupts into the one that does for all: the strongest kind, and where that is
    /// `service`, the services of all of them (upstream contract B.5).
    pub fn merge<'a>(interrupts: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut strongest: Option<InterruptKind> = None;
        let mut services = Vec::new();
        for interrupt in interrupts {
            strongest = Some(strongest.map_or(interrupt.kind, |kind| kind.min(interrupt.kind)));
            if interrupt.kind == InterruptKind::Service {
                services.extend(interrupt.services.iter().cloned());
            }
        }
        let kind = strongest?;
        if kind != InterruptKind::Service {
            services.clear();
        }
        services.sort();
        services.dedup();
        Some(Self { kind, services })
    }
}

impl Package {
    /// Returns `name|version`.
    pub fn id(&self) -> PackageId {
        PackageId { name: self.name.clone(), version: self.version.as_str().to_owned() }
    }

    /// Returns the name of the snapshot that holds exactly this package of `rollout`:
    /// `nw-` and 16 hex digits of the digest of everything in it.
    pub fn snapshot_name(&self, rollout: &str) -> String {
        let digest = digest_hex(&(rollout, self));
        format!("nw-{}", &digest[..16])
    }

    /// Returns the keys of the config map that differ between `before` and this package:
    /// added, changed and deleted ones.
    pub fn changed_keys(&self, before: &Self) -> BTreeSet<String> {
        let keys = self.config_map.keys().chain(before.config_map.keys());
        keys.filter(|key| self.config_map.get(*key) != before.config_map.get(*key))
            .cloned()
            .collect()
    }

    /// Returns whether the scripts see another environment than `before`, also where only what
    /// `valueFrom` refers to has changed. A digest that is not known is no difference.
    pub fn has_other_env(&self, before: &Self) -> bool {
        let rotated = self.env_digest.as_ref().zip(before.env_digest.as_ref());
        self.env != before.env || rotated.is_some_and(|(now, before)| now != before)
    }

    /// Returns whether the same version comes from another image than `before`.
    pub fn has_other_image(&self, before: &Self) -> bool {
        self.image_reference() != before.image_reference()
    }

    /// Returns the interrupt that a change of these config keys needs, merged over every
    /// `configInterrupts` pattern that matches one of them (upstream contract B.3).
    pub fn interrupt_for(&self, changed: &BTreeSet<String>) -> Option<Interrupt> {
        let matching = self.config_interrupts.iter().filter(|(pattern, _)| {
            changed.iter().any(|key| {
                *pattern == key
                    || Pattern::parse(pattern).is_some_and(|pattern| pattern.matches(key))
            })
        });
        Interrupt::merge(matching.map(|(_, interrupt)| interrupt))
    }

    /// Returns the image reference that the executor pulls (upstream contract A.3).
    pub fn image_reference(&self) -> String {
        match &self.container_sha {
            Some(digest) => format!("{}@{digest}", self.image),
            None => format!("{}:{}", self.image, self.version),
        }
    }
}
