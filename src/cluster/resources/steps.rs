//! From what is wanted and what there is to steps, in order. Pure.
//!
//! In: [`Wanted`], [`Live`], the list of managed objects. Out: steps: policies by name, NodeWrights
//! by priority and name, then deletions, NodeWrights before policies.
//! Must never: make a step for an object that is as it should be.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::foreign::ForeignOwner;
use super::live::{Live, spec_of};
use super::{Adoption, Applied, Outcome, Pruning, Step, Wanted, WantedObject};
use crate::api::keys::CONFIG_DIGEST;
use crate::cluster::source_state::{ManagedKind, ManagedObject};

/// Returns the steps that bring the cluster to what is wanted; none when it is there.
#[must_use]
pub fn steps(wanted: &Wanted, live: &Live, managed: &BTreeSet<ManagedObject>) -> Vec<Step> {
    let mut objects: Vec<&WantedObject> = kept(wanted).collect();
    objects.sort_by_key(|it| (it.object.kind, it.priority, it.object.name.clone()));
    let writes = objects
        .into_iter()
        .filter_map(|it| step_for(it, live.get(&it.object), wanted.adoption))
        .collect();
    match wanted.pruning {
        Pruning::Held => writes,
        Pruning::Allowed => [writes, deletions(wanted, live, managed)].concat(),
    }
}

/// Returns the list to write before the first step: what is there and what will be.
///
/// An object is listed before it is made, so that a crash in between leaves none that nobody
/// would ever delete.
#[must_use]
pub fn listed_before(
    wanted: &Wanted,
    managed: &BTreeSet<ManagedObject>,
    steps: &[Step],
) -> BTreeSet<ManagedObject> {
    let mut listed: BTreeSet<_> = kept(wanted).map(|it| it.object.clone()).collect();
    listed.extend(managed.iter().cloned());
    for step in steps {
        if let Step::Refuse { object, .. } = step {
            listed.remove(object);
        }
    }
    listed
}

/// Returns the list to write after the steps: without what was deleted or belongs to others.
#[must_use]
pub fn listed_after(
    listed_before: &BTreeSet<ManagedObject>,
    applied: &[Applied],
) -> BTreeSet<ManagedObject> {
    let mut listed = listed_before.clone();
    for Applied { object, outcome } in applied {
        match outcome {
            Outcome::Deleted | Outcome::Refused(_) => {
                listed.remove(object);
            }
            Outcome::Written
            | Outcome::Unchanged
            | Outcome::Altered
            | Outcome::Waiting { .. }
            | Outcome::Kept { .. }
            | Outcome::Held { .. }
            | Outcome::Failed(_) => {}
        }
    }
    listed
}

/// Returns the step for one wanted object, `None` when it is as it should be.
pub(super) fn step_for(
    wanted: &WantedObject,
    live: Option<&DynamicObject>,
    adoption: Adoption,
) -> Option<Step> {
    let Some(live) = live else { return Some(Step::Create(wanted.clone())) };
    if let Some(owner) = owner(live, adoption) {
        return Some(Step::Refuse { object: wanted.object.clone(), owner });
    }
    if let Some(since) = deletion(live) {
        return Some(Step::Wait { wanted: wanted.clone(), since });
    }
    let digest = live.annotations().get(CONFIG_DIGEST);
    if wanted.means_the_same(spec_of(live)) && digest == Some(&wanted.digest) {
        return None;
    }
    Some(Step::Replace { wanted: wanted.clone(), live: Box::new(live.clone()) })
}

/// Returns the step for one object that is not wanted, `None` when it is gone or going.
pub(super) fn deletion_of(
    object: &ManagedObject,
    live: Option<&DynamicObject>,
    adoption: Adoption,
) -> Option<Step> {
    let live = live.filter(|live| deletion(live).is_none())?;
    if let Some(owner) = owner(live, adoption) {
        return Some(Step::Refuse { object: object.clone(), owner });
    }
    Some(Step::Delete {
        object: object.clone(),
        uid: live.uid().unwrap_or_default(),
        version: live.resource_version().unwrap_or_default(),
    })
}

fn deletions(wanted: &Wanted, live: &Live, managed: &BTreeSet<ManagedObject>) -> Vec<Step> {
    let in_git: BTreeSet<_> = wanted.objects.iter().map(|it| &it.object).collect();
    let gone =
        |object: &&ManagedObject| !in_git.contains(object) && !wanted.refused.contains(object);
    // Reversed: a policy goes after what it paced.
    managed
        .iter()
        .rev()
        .filter(gone)
        .filter_map(|object| {
            let step = deletion_of(object, live.get(object), wanted.adoption)?;
            let Step::Delete { .. } = &step else { return Some(step) };
            match named_by(object, wanted, live) {
                Some(named_by) => Some(Step::Keep { object: object.clone(), named_by }),
                None => Some(step),
            }
        })
        .collect()
}

/// Returns an object that will still name a policy when all steps are done.
///
/// One that is being deleted counts too: its nodes are left under that policy's pace.
fn named_by(policy: &ManagedObject, wanted: &Wanted, live: &Live) -> Option<ManagedObject> {
    if policy.kind != ManagedKind::DeploymentPolicy {
        return None;
    }
    let names = |object: &ManagedObject, live: &DynamicObject| match kept(wanted)
        .find(|it| it.object == *object)
    {
        Some(wanted) => wanted.policy.as_deref() == Some(policy.name.as_str()),
        None => spec_of(live)["deploymentPolicy"].as_str() == Some(policy.name.as_str()),
    };
    let resources = live.iter().filter(|(object, _)| object.kind == ManagedKind::NodeWright);
    resources
        .into_iter()
        .find(|(object, live)| names(object, live))
        .map(|(object, _)| object.clone())
}

/// Returns what is wanted and was not refused.
fn kept(wanted: &Wanted) -> impl Iterator<Item = &WantedObject> {
    wanted.objects.iter().filter(|it| !wanted.refused.contains(&it.object))
}

fn owner(live: &DynamicObject, adoption: Adoption) -> Option<ForeignOwner> {
    match adoption {
        Adoption::Allowed => None,
        Adoption::Refused => ForeignOwner::of(live),
    }
}

fn deletion(live: &DynamicObject) -> Option<Timestamp> {
    live.metadata.deletion_timestamp.as_ref().map(|time| time.0)
}
