//! Everything the agent needs from outside, so that it never asks the process for it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::stop::Stop;

/// One call of the agent.
pub struct Invocation {
    /// Arguments after `nodewright agent`, as in upstream contract E.3.
    pub args: Vec<String>,
    /// The container's environment: package `env`, the operator's five names, the image's own.
    pub env: BTreeMap<String, String>,
    /// Path of the running `nodewright` program, started again as `agent exec-step` for each step.
    pub executable: PathBuf,
    /// Where the [`Summary`](super::Summary) goes; written only if the file is already there, as
    /// the kubelet provides it in every container.
    pub termination_log: PathBuf,
    /// Tells the time.
    pub now: Box<dyn Fn() -> Timestamp>,
    /// Tells that the pod is going away.
    pub stop: Stop,
    /// How long an accepted reboot may take to stop this process before it counts as not happening.
    pub reboot_wait: Duration,
}

impl Invocation {
    /// The kubelet's default path of a container's termination message.
    pub const TERMINATION_LOG: &'static str = "/dev/termination-log";

    /// Upstream's wait after a reboot command that was accepted (contract E.6).
    pub const REBOOT_WAIT: Duration = Duration::from_secs(10);
}
