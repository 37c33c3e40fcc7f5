//! What the resources in the cluster want.
//!
//! In: one look at the cluster. Out: [`Desired`], with every resource that cannot be read named in
//! it. Must never: drop one, since what is not wanted any more is left or taken off.

use crate::cluster::View;
use crate::manifest;
use crate::model::Desired;

/// Returns what the resources in the cluster want.
pub fn desired(view: &View) -> Desired {
    let nodewrights: Vec<_> =
        view.nodewrights.values().map(|object| object.as_ref().clone()).collect();
    let policies: Vec<_> = view.policies.values().map(|object| object.as_ref().clone()).collect();
    let mut desired = manifest::desired(&nodewrights, &policies);
    for (name, why) in &view.unreadable_nodewrights {
        desired.invalid.insert(name.clone(), why.clone());
    }
    desired
}
