//! The scenario files of `tests/scenarios`, unchanged, on a real control plane.

use futures::future::join_all;

use super::{ControlPlane, Controllers};

/// How many control planes play them side by side. A scenario mostly waits, for back-offs and
/// reboots that time does not skip here; a plane takes 350 MiB.
const PLANES: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(control_plane),
    ignore = "needs a real control plane: run tests/control-plane/build (Go 1.26, about 8 minutes \
              once), then cargo test"
)]
async fn every_scenario_on_a_real_control_plane() {
    let planes = (0..PLANES).map(|_| ControlPlane::start(Controllers::Standard));
    crate::scenario::check_all_on(join_all(planes).await).await;
}
