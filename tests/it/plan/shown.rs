//! What a rollout shows is what it reads back.

use nodewright::api::NodeWrightStatus;
use nodewright::cluster::status::{from_api, to_api};
use nodewright::plan::world::{End, World};

use super::builders::{WorldExt, package, rollout, world};

/// Takes the status through the API's shape, as a daemon reads it in its next tick.
fn read_back(world: &mut World) {
    let now = world.input.now;
    for resource in world.input.observed.resources.values_mut() {
        let Some(status) = &resource.status else { continue };
        let written = serde_json::to_string(&to_api(status, None, now)).expect("becomes JSON");
        let read: NodeWrightStatus = serde_json::from_str(&written).expect("is read back");
        resource.status = Some(from_api(&read));
    }
}

#[test]
fn a_status_that_was_written_is_not_written_again() {
    let mut world = world(5, rollout(1, vec![package("motd", "1.0.0")]));
    for round in 0..10 {
        world.settle();
        read_back(&mut world);
        let plan = nodewright::plan::plan(&world.input);
        assert_eq!(plan.actions, vec![], "round {round}");
        world.finish_all(End::Failure);
        world.settle();
        world.pass(600);
    }
    let status = world.input.observed.resources["tuning"].status.as_ref().unwrap();
    let kinds: Vec<&str> = status.conditions.iter().map(|it| it.kind.as_str()).collect();
    let (mirrored, own): (Vec<&str>, Vec<&str>) =
        kinds.into_iter().partition(|kind| kind.starts_with("nodewright.nvidia.com/"));
    let all = [
        "ApplyPackage",
        "NodesIgnored",
        "Ready",
        "RunsBesideWorkloads",
        "Stopped",
        "TaintNotTolerable",
    ];
    assert_eq!(own, all);
    let mirrors = ["ApplyPackage", "NodesIgnored", "Ready", "TaintNotTolerable", "Transition"];
    assert_eq!(mirrored, mirrors.map(|kind| format!("nodewright.nvidia.com/{kind}")));
}
