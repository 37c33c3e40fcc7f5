//! The objects of a cluster, whoever wrote them, to what is wanted.
//!
//! In: live objects. Out: [`model::Desired`]. Must never: drop an object that it cannot read;
//! such a one is named in `invalid`, and what runs on nodes for it stays as it is.

use kube::ResourceExt;
use serde::Serialize;

use super::breach::RuleBreach;
use super::{policy, rollout};
use crate::api::{DeploymentPolicy, NodeWright};
use crate::model::{self, digest_hex};

/// Longest text about one invalid resource, in bytes; it goes into a condition.
const INVALID_TEXT_MAX_BYTES: usize = 1024;

/// Reads the live objects.
///
/// A policy that breaks a rule is left out, and the resources that name it are invalid.
pub fn desired(nodewrights: &[NodeWright], policies: &[DeploymentPolicy]) -> model::Desired {
    let mut desired = model::Desired::default();
    let mut bad_policies = std::collections::BTreeMap::new();
    for object in policies {
        match policy::policy(object) {
            Ok(policy) => {
                desired.policies.insert(policy.name.clone(), policy);
            }
            Err(breaches) => {
                bad_policies.insert(object.name_any(), text(&breaches));
            }
        }
    }
    for object in nodewrights {
        let name = object.name_any();
        match rollout::rollout(object) {
            Ok(rollout) => {
                let flaw = rollout.policy.as_ref().and_then(|policy| bad_policies.get(policy));
                if let Some(flaw) = flaw {
                    let policy = rollout.policy.as_deref().unwrap_or_default();
                    let message = format!("its DeploymentPolicy {policy} is not valid: {flaw}");
                    desired.invalid.insert(name, bounded(message));
                } else {
                    desired.rollouts.insert(name, rollout);
                }
            }
            Err(breaches) => {
                desired.invalid.insert(name, text(&breaches));
            }
        }
    }
    desired
}

/// Returns the digest of an object's specification, as it is written to `P/config-digest`.
///
/// Defaults are part of it, so an object from a file and the same one from the cluster agree.
pub fn config_digest<S: Serialize>(spec: &S) -> String {
    digest_hex(spec)
}

fn text(breaches: &[RuleBreach]) -> String {
    let lines: Vec<String> = breaches.iter().map(ToString::to_string).collect();
    bounded(lines.join(". "))
}

fn bounded(mut text: String) -> String {
    if text.len() > INVALID_TEXT_MAX_BYTES {
        text.truncate(text.floor_char_boundary(INVALID_TEXT_MAX_BYTES - "…".len()));
        text.push('…');
    }
    text
}
