//! Annotations that steer or record the simulation; nothing outside `sim/` and tests reads them.

/// Pod: a workload that ends by itself, with success, so many seconds after it started. Set on a
/// pod that runs, it ends then.
pub const FINISHES_AFTER_SECONDS: &str = "sim.nodewright.dev/finishes-after-seconds";
/// Pod: how long it takes to end once asked to, if its grace period allows.
pub const TERMINATES_AFTER_SECONDS: &str = "sim.nodewright.dev/terminates-after-seconds";
/// Node: how often the kubelet rebooted it; written by the kubelet before the node is ready again.
pub const REBOOTS: &str = "sim.nodewright.dev/reboots";
