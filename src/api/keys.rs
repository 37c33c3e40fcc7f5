//! Every key that we read or write on nodes and objects, each with its one writer.
//!
//! In: the name of a resource. Out: keys. Must never: be repeated as text anywhere else in `src`.
//! "Upstream" says that the key and its value's shape are upstream's (upstream contract C), so
//! that a cluster can be taken over and handed back. *Daemon* is the process that leads.

/// Prefix of every key; `P/` in the documents. Writer: none. Source: upstream contract C.
pub const PREFIX: &str = "nodewright.nvidia.com/";

/// Prefix of the time before the rename; read when a cluster is taken over, never written.
///
/// Source: upstream contract A.1.
pub const LEGACY_PREFIX: &str = "skyhook.nvidia.com/";

/// Node annotation: JSON map `pkg|version` to entry; the source of truth of what is installed.
///
/// Writer: daemon, by pick, record and release. Source: upstream, plus `snapshot` and `since`.
#[must_use]
pub fn node_state(resource: &str) -> String {
    format!("{PREFIX}nodeState_{resource}")
}

/// Node annotation and label: the node's status word for this resource.
///
/// Writer: daemon, in the patch that changes the state. Source: upstream.
#[must_use]
pub fn status(resource: &str) -> String {
    format!("{PREFIX}status_{resource}")
}

/// Node annotation: version of the operator that wrote the state.
///
/// Writer: daemon, at pick. Source: upstream, whose migrations read it.
#[must_use]
pub fn version(resource: &str) -> String {
    format!("{PREFIX}version_{resource}")
}

/// Node annotation: `"true"` while this resource holds the node cordoned.
///
/// Writer: daemon, set by pick and taken off by release. Source: upstream.
#[must_use]
pub fn cordon(resource: &str) -> String {
    format!("{PREFIX}cordon_{resource}")
}

/// Node annotation: RFC 3339 time at which the drain began.
///
/// Writer: daemon, set by the first eviction's record, taken off by release. Source: upstream.
#[must_use]
pub fn drain_start(resource: &str) -> String {
    format!("{PREFIX}drainStart_{resource}")
}

/// Node annotation: JSON list of `namespace, name, reason, detail` of pods that hold the drain.
///
/// Writer: upstream; we only take it off. Differs on purpose: what holds a drain changes with every
/// eviction, and each change would be a write of the whole Node and a wake-up of all its watchers.
#[must_use]
pub fn drain_blocked(resource: &str) -> String {
    format!("{PREFIX}drainBlocked_{resource}")
}

/// Node annotation: our record of the visit in progress, at most 3 KiB.
///
/// Writer: daemon, by pick, progress and release. Source: ours (design §4).
#[must_use]
pub fn rollout(resource: &str) -> String {
    format!("{PREFIX}rollout_{resource}")
}

/// Node annotation: somebody asks that nothing new be started on the node, and says why.
///
/// Writer: people. Source: ours (neighbours 1.12).
pub const HOLD: &str = "nodewright.nvidia.com/hold";

/// Node annotation: `"true"` when we put the named taint on a new node.
///
/// Writer: daemon. Source: upstream.
#[must_use]
pub fn auto_taint(taint_key: &str) -> String {
    format!("{PREFIX}autoTaint_{taint_key}")
}

/// Node condition: `True`/`Incomplete` or `False`/`Complete`.
///
/// Writer: daemon, on `nodes/status`. Source: upstream.
#[must_use]
pub fn condition_not_ready(resource: &str) -> String {
    format!("{PREFIX}{resource}/NotReady")
}

/// Node condition: `True` when an entry is erroring or unknown, leftovers included.
///
/// Writer: daemon, on `nodes/status`. Source: upstream.
#[must_use]
pub fn condition_erroring(resource: &str) -> String {
    format!("{PREFIX}{resource}/Erroring")
}

/// Node label: `"true"` keeps every resource off the node. Writer: people. Source: upstream.
pub const IGNORE: &str = "nodewright.nvidia.com/ignore";

/// The same under its former prefix; read, never written. Writer: people. Source: upstream.
pub const LEGACY_IGNORE: &str = "skyhook.nvidia.com/ignore";

/// Node annotation: `"true"` while the node stays cordoned after its runtime taint was removed.
///
/// Writer: daemon; counts as an owner of the cordon. Source: upstream.
pub const RUNTIME_REQUIRED_CORDON: &str = "nodewright.nvidia.com/runtimeRequiredCordon";

/// Key of the runtime-required taint, unless configured otherwise. Source: upstream.
pub const RUNTIME_REQUIRED_TAINT: &str = "nodewright.nvidia.com";

/// Value of the runtime-required taint, unless configured otherwise. Source: upstream.
pub const RUNTIME_REQUIRED_TAINT_VALUE: &str = "runtime-required";

/// Resource annotation: exactly `"true"` holds the rollout. Writer: people. Source: upstream.
pub const PAUSE: &str = "nodewright.nvidia.com/pause";

/// Resource annotation: exactly `"true"` switches the resource off, and lets others pass it.
///
/// Writer: people. Source: upstream.
pub const DISABLE: &str = "nodewright.nvidia.com/disable";

/// Resource annotation: the object is a copy of the one under the group's former name, and kept the
/// same for as long as this is there.
///
/// Writer: daemon, when it mirrors; people take it off. Source: upstream.
pub const MIRRORED_FROM: &str = "nodewright.nvidia.com/mirrored-from";

/// Resource finalizer: nodes are left in order before the object goes.
///
/// Writer: daemon. Source: upstream.
pub const FINALIZER: &str = "nodewright.nvidia.com/nodewright";

/// Pod and ConfigMap label: name of the resource. On ConfigMaps also an annotation.
///
/// Writer: daemon, at creation. Source: upstream.
pub const NAME: &str = "nodewright.nvidia.com/name";

/// Pod label: `<package>-<version>`. Writer: daemon, at creation. Source: upstream.
pub const PACKAGE: &str = "nodewright.nvidia.com/package";

/// The keys of [`NAME`] and [`PACKAGE`], label and annotation, before they were renamed; read on
/// pods of upstream's operator, never written. Source: upstream.
pub const LEGACY_NAME: &str = "skyhook.nvidia.com/name";

/// See [`LEGACY_NAME`].
pub const LEGACY_PACKAGE: &str = "skyhook.nvidia.com/package";

/// Job annotation: upstream has recorded the Job's end on its node. Writer: upstream's operator.
pub const STATE_RECORDED: &str = "nodewright.nvidia.com/state-recorded";

/// Job annotation: upstream ended an interrupt that failed too often. Writer: upstream's operator.
pub const RESTART_LIMIT_EXCEEDED: &str = "nodewright.nvidia.com/restart-limit-exceeded";

/// Pod annotation: JSON of `name, version, skyhook, stage, image, containerSHA`.
///
/// The same key as [`PACKAGE`]; upstream has one as label and one as annotation.
/// Writer: daemon, at creation. Source: upstream.
pub const PACKAGE_ANNOTATION: &str = "nodewright.nvidia.com/package";

/// Pod label: the stage. Writer: daemon, at creation. Source: upstream.
pub const STAGE: &str = "nodewright.nvidia.com/stage";

/// Pod label: the node's name, or its safe name over 63 bytes.
///
/// Writer: daemon, at creation. Source: upstream.
pub const NODE: &str = "nodewright.nvidia.com/node";

/// Pod label: generation of the resource. Writer: daemon, at creation. Source: upstream.
pub const GENERATION: &str = "nodewright.nvidia.com/generation";

/// Pod label: `"True"`, with a capital, on interrupt pods.
///
/// Writer: daemon, at creation. Source: upstream.
pub const INTERRUPT: &str = "nodewright.nvidia.com/interrupt";

/// Value of [`INTERRUPT`]. Source: upstream.
pub const INTERRUPT_VALUE: &str = "True";

/// Pod annotation: the resource id by which the agent keeps flags and interrupt marks.
///
/// Writer: daemon, at creation. Source: upstream.
pub const RESOURCE_ID: &str = "nodewright.nvidia.com/resource-id";

/// Pod label: id of the visit it belongs to; a pod of another visit is never believed.
///
/// Writer: daemon, at creation. Source: ours (design §4).
pub const VISIT: &str = "nodewright.nvidia.com/visit";

/// Pod label: which of the visit's groups of stages it runs.
///
/// Writer: daemon, at creation. Source: ours (design §4).
pub const GROUP: &str = "nodewright.nvidia.com/group";

/// Pod label: number of the attempt, from 1.
///
/// Writer: daemon, at creation. Source: ours (design §4).
pub const ATTEMPT: &str = "nodewright.nvidia.com/attempt";

/// Pod label: UID of the Node object; completion is credited to that node only.
///
/// Writer: daemon, at creation. Source: ours (design §4).
pub const NODE_UID: &str = "nodewright.nvidia.com/node-uid";

/// Snapshot ConfigMap annotation: JSON of everything of the package but its configMap.
///
/// Writer: daemon, at creation; the object is immutable. Source: ours (design §4).
pub const SPEC: &str = "nodewright.nvidia.com/spec";

/// Snapshot ConfigMap label: digest of the package's whole input.
///
/// Writer: daemon, at creation. Source: ours (design §4).
pub const CONFIG_DIGEST: &str = "nodewright.nvidia.com/config-digest";

/// Package ConfigMap annotation: the package's name.
///
/// Writer: daemon, at creation. Source: upstream.
pub const CONFIG_PACKAGE_NAME: &str = "nodewright.nvidia.com/Package.Name";

/// Package ConfigMap annotation: the package's version.
///
/// Writer: daemon, at creation. Source: upstream.
pub const CONFIG_PACKAGE_VERSION: &str = "nodewright.nvidia.com/Package.Version";

/// Node metadata ConfigMap label: name of the resource.
///
/// Writer: daemon, at creation. Source: upstream.
pub const SKYHOOK_NODE_META: &str = "nodewright.nvidia.com/skyhook-node-meta";

/// Node metadata ConfigMap annotation: name of the node.
///
/// Writer: daemon, at creation. Source: upstream.
pub const NODE_META_NODE_NAME: &str = "nodewright.nvidia.com/Node.name";

/// Source ConfigMap annotation: stops all new disruption while it is there.
///
/// Writer: people, with kubectl. Source: ours (design §7).
pub const STOP: &str = "nodewright.nvidia.com/stop";

/// Source ConfigMap annotation: the 40 hex digits of a held commit that a person lets through.
///
/// Writer: people, through `nodewright accept`; taken off by the daemon once that commit is
/// accepted. Source: ours (design §8).
pub const ACCEPT: &str = "nodewright.nvidia.com/accept";

/// Prefix of [`approve`].
const APPROVE: &str = "nodewright.nvidia.com/approve_";

/// Source ConfigMap annotation: a person approves that the resource selects every node, or nodes of
/// the control plane. Its value names the object and its selector.
///
/// Not on the resource: whoever writes that, Git among them, may only tighten the cluster's floor.
/// Writer: people, through `nodewright approve`. Source: ours (design §7).
#[must_use]
pub fn approve(resource: &str) -> String {
    format!("{APPROVE}{resource}")
}

/// Returns the resource whose approval this annotation is.
#[must_use]
pub fn approved_resource(key: &str) -> Option<&str> {
    key.strip_prefix(APPROVE)
}

/// Field manager of everything the daemon does to nodes, pods, ConfigMaps and status.
pub const FIELD_MANAGER: &str = "nodewright";

/// Field manager of the specs that come from Git, so that other owners are seen as such.
pub const FIELD_MANAGER_SOURCE: &str = "nodewright-source";

/// Longest name of a resource, in bytes.
///
/// The name part of a key has at most 63 bytes, and the longest prefix to a resource's name is
/// `drainBlocked_` with 13 (upstream contract C).
pub const RESOURCE_NAME_MAX_BYTES: usize = 50;
