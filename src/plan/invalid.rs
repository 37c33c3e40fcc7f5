//! A resource in the cluster that cannot be read: nothing is planned for it, and it says so itself.
//!
//! In: what cannot be read and why. Out: one status write, with the condition `Ready` false, what
//! is wrong and the way out. Upstream's webhook refuses such an object when it is written; ours may
//! be in the cluster because it was there before, or because a thing that it names is unreadable.
//! Must never: touch the memory of its rollout. Nodes stay as they are until it can be read again.

use super::conditions::condition;
use crate::model::{
    Action, Input, Memory, Plan, Reason, Resource, Status, StatusWord, StatusWrite, UpstreamMaps,
    Urgency,
};

/// The condition, under both of its names.
const READY: [&str; 2] = ["Ready", "nodewright.nvidia.com/Ready"];

/// What a person can do.
const WAY_OUT: &str = "correct it where it comes from; nodes stay as they are until then";

/// Writes what is wrong into the status of each resource that cannot be read.
pub(crate) fn tell(input: &Input, plan: &mut Plan) {
    for (name, why) in &input.desired.invalid {
        let Some(resource) = input.observed.resources.get(name) else { continue };
        let status = status(resource, why);
        if !resource.deleting && resource.status.as_ref() != Some(&status) {
            plan.actions.push(Action::WriteStatus(StatusWrite {
                rollout: name.clone(),
                resource_version: resource.resource_version.clone(),
                status,
                urgency: Urgency::Urgent,
                upstream: UpstreamMaps::Keep,
            }));
        }
    }
}

fn status(resource: &Resource, why: &str) -> Status {
    let reason = Reason::InvalidResource { why: why.to_owned() };
    let mut status = resource.status.clone().unwrap_or_else(nothing_known);
    status.word = StatusWord::Blocked;
    status.conditions.retain(|condition| !READY.contains(&condition.kind.as_str()));
    let message = format!("{reason}; way out: {WAY_OUT}");
    status.conditions.extend(READY.map(|kind| condition(kind, false, reason.word(), &message)));
    status.conditions.sort_by(|one, other| one.kind.cmp(&other.kind));
    status
}

/// The status of a resource that could not be read since it was made.
fn nothing_known() -> Status {
    Status {
        observed_generation: None,
        word: StatusWord::Blocked,
        nodes_in_progress: 0,
        nodes_complete: 0,
        nodes_total: 0,
        packages: Vec::new(),
        conditions: Vec::new(),
        memory: Memory::default(),
    }
}
