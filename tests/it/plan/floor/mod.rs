//! The safety floor: what the cluster itself allows, whatever the manifests say (design §7).

mod approval;
mod disturbed;
mod first_use;
mod halt;
mod repair;
