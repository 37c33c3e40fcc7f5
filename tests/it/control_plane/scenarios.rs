//! The scenario files of `tests/scenarios`, unchanged, on a real control plane.

use std::sync::Arc;

use super::{ControlPlane, Controllers};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn every_scenario_on_a_real_control_plane() {
    let plane = ControlPlane::start(Controllers::Standard).await;
    crate::scenario::check_all_on(Arc::new(plane)).await;
}
