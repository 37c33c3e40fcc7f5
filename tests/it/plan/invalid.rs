//! A resource that cannot be read says so itself, once, and loses nothing that it remembers.

use nodewright::model::{Action, Condition, StatusWord, StatusWrite, UpstreamMaps, Urgency};
use nodewright::plan::plan;
use nodewright::plan::world::World;

use super::builders::{WorldExt, package, rollout, world};
use super::deletion::resource;

const TOLD: &str = "the resource cannot be read: spec.packages: unknown field; way out: correct it \
                    where it comes from; nodes stay as they are until then";

/// A world whose only resource cannot be read any more.
fn unreadable(mut world: World) -> World {
    world.input.desired.rollouts.clear();
    let why = "spec.packages: unknown field".to_owned();
    world.input.desired.invalid.insert("tuning".to_owned(), why);
    world
}

fn writes(world: &World) -> Vec<StatusWrite> {
    let actions = plan(&world.input).actions.into_iter();
    let writes = actions.filter_map(|action| match action {
        Action::WriteStatus(write) => Some(write),
        _ => None,
    });
    writes.collect()
}

fn the_write(world: &World) -> StatusWrite {
    let mut writes = writes(world);
    assert_eq!(writes.len(), 1, "{writes:?}");
    writes.remove(0)
}

fn complete() -> World {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    world.run();
    world
}

#[test]
fn what_cannot_be_read_is_told_in_the_status_and_the_rest_of_it_stays() {
    let mut world = unreadable(complete());
    let before = resource(&mut world).status.clone().expect("a status");
    let write = the_write(&world);
    assert_eq!((write.urgency, write.upstream), (Urgency::Urgent, UpstreamMaps::Keep));
    let status = &write.status;
    assert_eq!((before.word, status.word), (StatusWord::Complete, StatusWord::Blocked));
    assert_eq!((&status.memory, &status.packages), (&before.memory, &before.packages));
    let is_ready = |condition: &&Condition| condition.kind.ends_with("Ready");
    let ready: Vec<&Condition> = status.conditions.iter().filter(is_ready).collect();
    assert_eq!(ready.len(), 2, "once under each of its names: {ready:?}");
    for condition in ready {
        let Condition { is_true, reason, message, .. } = condition;
        let told = (*is_true, reason.as_str(), message.as_str());
        assert_eq!(told, (false, "InvalidResource", TOLD));
    }
    let others = |conditions: &[Condition]| {
        let others = conditions.iter().filter(|it| !is_ready(it)).cloned();
        others.collect::<Vec<_>>()
    };
    assert_eq!(others(&status.conditions), others(&before.conditions));
    assert!(status.conditions.is_sorted_by(|one, other| one.kind <= other.kind));
    world.settle();
    assert_eq!(writes(&world), [], "it is written once");
}

#[test]
fn one_that_was_never_read_is_blocked_with_nothing_known() {
    let mut world = world(1, rollout(1, vec![package("motd", "1.0.0")]));
    resource(&mut world).status = None;
    let write = the_write(&unreadable(world));
    assert_eq!(write.status.word, StatusWord::Blocked);
    assert_eq!((write.status.nodes_total, write.status.conditions.len()), (0, 2));
}

#[test]
fn one_that_is_being_deleted_or_gone_is_told_nothing() {
    let mut going = unreadable(complete());
    resource(&mut going).deleting = true;
    let mut gone = unreadable(complete());
    gone.input.observed.resources.clear();
    for world in [going, gone] {
        assert_eq!(writes(&world), []);
    }
}
