//! What can happen, as data: a history is a list of these, so it can be repeated and cut short.
//!
//! Numbers choose among what is there when the event happens (modulo), so that a history in which
//! earlier events are left out still means something; what cannot happen then does nothing.

use nodewright::plan::world::End;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// One tick of the daemon; `0` goes well, any other number seeds what becomes of its requests.
    Tick { faults: u32 },
    /// Ticks until nothing is left to do, and that must come soon.
    Rest,
    /// The daemon's caches stop following others.
    FallBehind,
    /// They are as the world is again.
    CatchUp,
    /// A frozen daemon goes on with what was in its hands.
    Thaw,
    /// Time passes.
    Pass { seconds: u32 },
    /// An executor ends.
    End { which: u16, end: End },
    /// An executor that is not the first fails, as the one before it did.
    FailAgain { which: u16 },
    /// A kubelet cannot start an executor.
    Stall { which: u16, reason: &'static str },
    /// A host reboots by itself.
    Reboot { node: u8 },
    /// A host goes down.
    GoDown { node: u8 },
    /// A host that was down comes back.
    ComeBack { node: u8 },
    /// The Ready condition changes.
    Ready { node: u8, ready: bool },
    /// Somebody cordons a node.
    Cordon { node: u8 },
    /// Somebody lifts a node's cordon.
    Uncordon { node: u8, by: Hand },
    /// A controller lifts a cordon of ours.
    Fight { which: u8 },
    /// Another operator starts, or ends, its work on a node.
    Claim { node: u8, claimed: bool },
    /// Somebody asks to start nothing on a node, or takes it back.
    Hold { node: u8, held: bool },
    /// Somebody resets a package on a node, so that it is begun anew.
    Reset { node: u8, which: u8 },
    /// Somebody resets a rollout on a node as a whole, or lets the node go that is down for long.
    ResetAll { node: u8, rollout: u8 },
    /// A resource is paused or resumed.
    Pause { rollout: u8, paused: bool },
    /// A resource is disabled or enabled.
    Disable { rollout: u8, disabled: bool },
    /// A resource is deleted.
    Delete { rollout: u8 },
    /// A deleted resource is created again.
    Create { rollout: u8 },
    /// A spec is edited.
    Edit { rollout: u8, edit: Edit },
    /// Nothing new may begin for a rollout, for one of several reasons, or may again.
    Open { rollout: u8, open: bool, why: u8 },
    /// Somebody approves what a rollout selects, or takes that back.
    Approve { rollout: u8, approved: bool },
    /// Somebody stops everything, or lets it go on.
    Halt { halted: bool },
    /// A node joins.
    Join { pool: bool },
    /// A node leaves.
    Leave { node: u8 },
    /// Another machine takes a node's name.
    Replace { node: u8 },
    /// A node changes pools.
    Relabel { node: u8 },
    /// A node's ignore label is set or removed.
    Ignore { node: u8, ignored: bool },
    /// A node gets a taint nobody tolerates, or loses it.
    Taint { node: u8, tainted: bool },
    /// A Node object is being deleted.
    Deleting { node: u8 },
    /// A pod starts.
    Arrive { node: u8, kind: PodKind },
    /// A pod ends, those that are terminating first.
    Finish { which: u16 },
    /// A budget lets a pod go.
    Unguard,
    /// The API server takes no pod and no ConfigMap of ours, or takes them again.
    Reject { rejecting: bool },
    /// An annotation of a node is spoilt, or mended.
    Spoil { node: u8, rollout: u8, spoilt: bool },
    /// A node offers no GPUs any more, or all of them again.
    Gpus { node: u8, offered: bool },
    /// Another machine boots as the same Node object.
    NewHost { node: u8 },
    /// A policy is edited, taken away, or made.
    Policy { which: u8, change: Change },
    /// A node changes its rack, by which compartments select; one that is visited, or any.
    Move { which: u8, to: u8, at_work: bool },
    /// A person begins the batches of a resource again; those of one that is stopped, or of any.
    ResetBatches { which: u8, stopped: bool },
    /// A person lets a node that failed be tried again, or lets it go that is down for long.
    Retry { which: u8 },
    /// A commit corrects a resource that is stopped.
    Correct { which: u8, to: u8 },
    /// Whether batches begin again is said by the resource, or left to its policy.
    ResetOption { rollout: u8, to: u8 },
    /// What an executor's visit does fails until the visit is given up; alone, or with all visits
    /// of its rollout.
    Ruin { which: u16, whole: bool },
    /// All is well for so many rounds of ticks and work.
    GoOn { rounds: u8 },
}

/// How a policy changes. Numbers choose among its compartments, seeds draw what is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is another one altogether, or is there again.
    Anew { seed: u32 },
    /// A compartment, or the default, is paced otherwise.
    Pace { which: u8, seed: u32 },
    /// A compartment is added, or selects others.
    Add { which: u8, seed: u32 },
    /// A compartment goes.
    Drop { which: u8 },
    /// Whether batches begin again after completion.
    Reset,
    /// There is no such policy any more.
    Gone,
}

/// Who lifts a cordon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hand {
    Person,
    Controller,
}

/// How a spec changes. Numbers choose among packages, versions and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// Another version, up or down.
    Version { which: u8, to: u8 },
    /// A config key gets a value.
    Config { which: u8, key: u8, value: u8 },
    /// A config key goes.
    DropConfig { which: u8, key: u8 },
    /// Only the image changes.
    Image { which: u8, to: u8 },
    /// The interrupt changes.
    Interrupt { which: u8, to: u8 },
    /// A package is added.
    Add { which: u8 },
    /// A package is removed.
    Remove { which: u8 },
    /// `uninstall.enabled` is toggled.
    UninstallEnabled { which: u8 },
    /// `uninstall.apply` is toggled.
    UninstallApply { which: u8 },
    /// One package comes to depend on another, or no longer.
    Depend { which: u8, on: u8 },
    /// What the taint of nodes that join asks for.
    Runtime { to: u8 },
    /// `serial` is toggled.
    Serial,
    /// Another budget.
    Budget { to: u8 },
    /// Another `sequencing`.
    Sequencing,
    /// Another `priority`.
    Priority { to: u8 },
    /// Another `drainConfig`.
    Drain { to: u8 },
    /// A policy is named, or no longer.
    Policy { to: u8 },
}

/// Pods by what a drain makes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodKind {
    Web,
    Training,
    Guarded,
    /// Its budget will never let it go.
    Hopeless,
    /// Two budgets cover it.
    Doubled,
    /// A budget counts it, and it is not ready.
    Unready,
    Unmanaged,
    EmptyDir,
    DaemonSet,
    Mirror,
    Tolerating,
    Completed,
    System,
}
