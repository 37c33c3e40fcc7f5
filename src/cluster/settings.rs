//! What the edge must be told: where we live, which images, which folders on hosts.
//!
//! In: the command line, through the daemon. Out: plain values with upstream's defaults.
//! Must never: read the environment.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::keys;
use crate::model::{STAGE_TIMEOUT_DEFAULT, Taint, TaintEffect};

/// Settings of the edge (upstream contract H.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeSettings {
    /// Namespace of the daemon, of executors and of our ConfigMaps.
    pub namespace: String,
    /// Namespaces beside ours in which upstream's operator may have left Jobs, pods and its Lease.
    pub upstream_namespaces: Vec<String>,
    /// Image of the agent, with its tag.
    pub agent_image: String,
    /// Folder on hosts under which packages are copied.
    pub copy_dir_root: String,
    /// Folder on hosts under which the agent logs.
    pub agent_log_root: String,
    /// Secret to pull images with; `None` leaves it to the service account and the node.
    pub image_pull_secret: Option<String>,
    /// How long a stage may take where its package does not say; zero is no limit.
    pub default_stage_timeout: Duration,
    /// Taint of nodes that must not run workloads before they are done.
    pub runtime_required_taint: Taint,
    /// How long a mutating request may take; see [`REQUEST_TIMEOUT_DEFAULT`].
    pub request_timeout: Duration,
}

/// A mutating request ends long before the lease (10 s) does (design §4 rule 10).
pub const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);

/// Namespaces of upstream's chart, now and before the rename.
pub const UPSTREAM_NAMESPACES: [&str; 2] = ["nodewright", "skyhook"];

impl EdgeSettings {
    /// Returns our namespace and upstream's, each once.
    pub fn all_namespaces(&self) -> BTreeSet<String> {
        self.upstream_namespaces.iter().chain([&self.namespace]).cloned().collect()
    }

    /// Returns upstream's defaults for a namespace and an agent image.
    pub fn new(namespace: &str, agent_image: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            upstream_namespaces: UPSTREAM_NAMESPACES.map(str::to_owned).to_vec(),
            agent_image: agent_image.to_owned(),
            copy_dir_root: "/var/lib/skyhook".to_owned(),
            agent_log_root: "/var/log/skyhook".to_owned(),
            image_pull_secret: None,
            default_stage_timeout: STAGE_TIMEOUT_DEFAULT,
            runtime_required_taint: Taint {
                key: keys::RUNTIME_REQUIRED_TAINT.to_owned(),
                value: keys::RUNTIME_REQUIRED_TAINT_VALUE.to_owned(),
                effect: TaintEffect::NoSchedule,
            },
            request_timeout: REQUEST_TIMEOUT_DEFAULT,
        }
    }
}
