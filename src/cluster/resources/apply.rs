//! Carries out the steps towards a revision, one after the other.
//!
//! In: steps and the proof of leadership. Out: what became of each.
//! Must never: retry blindly; after a conflict or a lost answer the object is read again and its
//! step made anew.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions, TypeMeta};
use kube::{Client, ResourceExt as _};

use super::live::{api_of, resource_of, spec_of};
use super::steps::{deletion_of, step_for};
use super::{Adoption, ForeignOwner, Step, WantedObject};
use crate::api::keys::{CONFIG_DIGEST, FIELD_MANAGER_SOURCE};
use crate::clock::Clock;
use crate::cluster::error::{ClusterError, Disposition};
use crate::cluster::fence::{bounded, fenced};
use crate::cluster::lease::LeaderProof;
use crate::cluster::source_state::{ManagedKind, ManagedObject};

/// How often one object's step is made anew before the next object's turn.
///
/// Whoever writes to an object more often than this within one round is asked to stop by the
/// outcome; the next round tries again.
const ATTEMPTS_MAX: usize = 3;

/// Carries out steps.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    clock: Clock,
    adoption: Adoption,
}

/// What became of one step.
#[derive(Debug)]
pub struct Applied {
    /// The object.
    pub object: ManagedObject,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a step.
#[derive(Debug)]
pub enum Outcome {
    /// The object is as Git wants it.
    Written,
    /// It was so already when it was read again.
    Unchanged,
    /// It was written, but the API server's answer means something else: the CRD in the cluster is
    /// older than this program and drops or changes fields. Writing again does not help.
    Altered,
    /// The deletion was asked for, or the object is gone.
    Deleted,
    /// It is still being deleted.
    Waiting {
        /// Since when, as the API server says.
        since: Timestamp,
    },
    /// Another tool owns it.
    Refused(ForeignOwner),
    /// A policy that is still named stays for now.
    Kept {
        /// By whom.
        named_by: ManagedObject,
    },
    /// Not written, because the policy it names is not there as Git wants it.
    Held {
        /// The policy.
        policy: ManagedObject,
    },
    /// The request failed.
    Failed(ClusterError),
}

impl Applied {
    /// Returns whether the object is as Git wants it now.
    fn is_as_wanted(&self) -> bool {
        match self.outcome {
            Outcome::Written | Outcome::Unchanged | Outcome::Deleted => true,
            Outcome::Altered
            | Outcome::Waiting { .. }
            | Outcome::Refused(_)
            | Outcome::Kept { .. }
            | Outcome::Held { .. }
            | Outcome::Failed(_) => false,
        }
    }
}

impl Applier {
    /// Wraps a client.
    pub fn new(client: Client, clock: Clock, adoption: Adoption) -> Self {
        Self { client, clock, adoption }
    }

    /// Carries out the steps in order and says what became of each.
    ///
    /// One that fails does not stop the others, except a policy those that name it: the unit is a
    /// NodeWright with its policy. Without leadership each of the rest fails by itself.
    pub async fn apply(&self, proof: &LeaderProof, steps: Vec<Step>) -> Vec<Applied> {
        let (mut applied, mut missing) = (Vec::new(), BTreeMap::new());
        for step in steps {
            let object = step.object().clone();
            let policy = step.policy().and_then(|policy| missing.get(policy)).cloned();
            let outcome = match policy {
                Some(policy) => Outcome::Held { policy },
                None => self.carry_out(proof, step).await,
            };
            let done = Applied { object, outcome };
            if done.object.kind == ManagedKind::DeploymentPolicy && !done.is_as_wanted() {
                missing.insert(done.object.name.clone(), done.object.clone());
            }
            applied.push(done);
        }
        applied
    }

    async fn carry_out(&self, proof: &LeaderProof, step: Step) -> Outcome {
        let (mut step, mut attempt) = (step, 1);
        loop {
            let (outcome, again) = match step {
                Step::Create(wanted) => (self.create(proof, &wanted).await, Again::Write(wanted)),
                Step::Replace { wanted, live } => {
                    (self.replace(proof, &wanted, *live).await, Again::Write(wanted))
                }
                Step::Delete { object, uid, version } => {
                    (self.delete(proof, &object, &uid, &version).await, Again::Delete(object))
                }
                Step::Wait { since, .. } => return Outcome::Waiting { since },
                Step::Refuse { owner, .. } => return Outcome::Refused(owner),
                Step::Keep { named_by, .. } => return Outcome::Kept { named_by },
            };
            let error = match outcome {
                Ok(outcome) => return outcome,
                Err(error) => error,
            };
            let look_again = match error.disposition() {
                Disposition::Conflict | Disposition::ReadBack => true,
                Disposition::Retry | Disposition::Wait | Disposition::GiveUp => {
                    error.is_not_found() && matches!(again, Again::Write(_))
                }
            };
            if !look_again || attempt == ATTEMPTS_MAX {
                return Outcome::Failed(error);
            }
            attempt += 1;
            step = match self.look_again(again).await {
                Ok(Ok(step)) => step,
                Ok(Err(done)) => return done,
                Err(error) => return Outcome::Failed(error),
            };
        }
    }

    /// Reads an object and makes its step anew; `Err` in the answer says that none is needed.
    async fn look_again(&self, again: Again) -> Result<Result<Step, Outcome>, ClusterError> {
        let object = again.object();
        let api = api_of(&self.client, object.kind);
        let request = api.get_opt(&object.name);
        let live = bounded(self.clock, &format!("read {object} again"), request).await?;
        Ok(match again {
            Again::Write(wanted) => {
                step_for(&wanted, live.as_ref(), self.adoption).ok_or(Outcome::Unchanged)
            }
            Again::Delete(object) => {
                deletion_of(&object, live.as_ref(), self.adoption).ok_or(Outcome::Deleted)
            }
        })
    }

    async fn create(
        &self,
        proof: &LeaderProof,
        wanted: &WantedObject,
    ) -> Result<Outcome, ClusterError> {
        let WantedObject { object, .. } = wanted;
        let mut new = DynamicObject::new(&object.name, &resource_of(object.kind));
        shape(&mut new, wanted);
        let api = api_of(&self.client, object.kind);
        let params = post_params();
        let request = api.create(&params, &new);
        let answer = fenced(proof, self.clock, &format!("create {object}"), request).await?;
        Ok(judge(wanted, &answer))
    }

    /// Puts the object back as it was read, with another spec: the version makes it a conflict if
    /// anybody wrote since, so nothing of theirs is lost.
    async fn replace(
        &self,
        proof: &LeaderProof,
        wanted: &WantedObject,
        mut live: DynamicObject,
    ) -> Result<Outcome, ClusterError> {
        let WantedObject { object, .. } = wanted;
        shape(&mut live, wanted);
        let api = api_of(&self.client, object.kind);
        let params = post_params();
        let request = api.replace(&object.name, &params, &live);
        let answer = fenced(proof, self.clock, &format!("write {object}"), request).await?;
        Ok(judge(wanted, &answer))
    }

    async fn delete(
        &self,
        proof: &LeaderProof,
        object: &ManagedObject,
        uid: &str,
        version: &str,
    ) -> Result<Outcome, ClusterError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: Some(version.to_owned()),
            }),
            ..DeleteParams::default()
        };
        let api = api_of(&self.client, object.kind);
        let request = api.delete(&object.name, &params);
        match fenced(proof, self.clock, &format!("delete {object}"), request).await {
            Ok(_answer) => Ok(Outcome::Deleted),
            Err(error) if error.is_not_found() => Ok(Outcome::Deleted),
            Err(error) => Err(error),
        }
    }
}

/// What to make a step for again.
enum Again {
    Write(WantedObject),
    Delete(ManagedObject),
}

impl Again {
    fn object(&self) -> &ManagedObject {
        match self {
            Self::Write(wanted) => &wanted.object,
            Self::Delete(object) => object,
        }
    }
}

/// Gives an object the spec and the digest of Git, and leaves everything else.
///
/// An object out of a list need not say its own kind; one that is written must.
fn shape(object: &mut DynamicObject, wanted: &WantedObject) {
    let resource = resource_of(wanted.object.kind);
    object.types = Some(TypeMeta { api_version: resource.api_version, kind: resource.kind });
    object.data["spec"] = wanted.spec.clone();
    object.annotations_mut().insert(CONFIG_DIGEST.to_owned(), wanted.digest.clone());
}

/// Compares what came back with what was sent (design §4 rule 9).
fn judge(wanted: &WantedObject, answer: &DynamicObject) -> Outcome {
    if wanted.means_the_same(spec_of(answer)) { Outcome::Written } else { Outcome::Altered }
}

fn post_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER_SOURCE.to_owned()), ..PostParams::default() }
}
