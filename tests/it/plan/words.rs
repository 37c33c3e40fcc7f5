//! The word of a rollout, what its status counts, and how soon a change of it is written.

use nodewright::model::{Status, StatusWord, Urgency};
use nodewright::plan::plan;
use nodewright::plan::world::{End, World};

use super::builders::{WorldExt, noon, package, rollout, world};

fn fleet(nodes: u32) -> World {
    world(nodes, rollout(1, vec![package("motd", "1.0.0")]))
}

fn status(world: &World) -> Status {
    plan(&world.input).statuses["tuning"].clone()
}

/// The reason and the message of the condition `Ready`.
fn ready(world: &World) -> (String, String) {
    let conditions = status(world).conditions;
    let ready = conditions.into_iter().find(|condition| condition.kind == "Ready");
    ready.map(|ready| (ready.reason, ready.message)).expect("always there")
}

#[test]
fn a_rollout_says_in_one_word_where_it_stands() {
    type Change = fn(&mut World);
    let cases: [(u32, Change, StatusWord, &str); 7] = [
        (0, |_| {}, StatusWord::Waiting, "NoNodesMatched"),
        (1, |world| assert!(world.run() > 0), StatusWord::Complete, "NodesConverged"),
        (2, |world| world.settle(), StatusWord::InProgress, "Progressing"),
        (
            1,
            |world| {
                world.settle();
                for _ in 1..=4 {
                    world.finish_all(End::Failure);
                    world.settle();
                    world.pass(600);
                    world.settle();
                }
            },
            StatusWord::Erroring,
            "Erroring",
        ),
        (
            1,
            |world| {
                world.input.observed.nodes.get_mut("node-00").expect("there").ignored = true;
            },
            StatusWord::Blocked,
            "Blocked",
        ),
        (
            1,
            |world| {
                world.input.observed.resources.get_mut("tuning").expect("ours").paused = true;
            },
            StatusWord::Paused,
            "Paused",
        ),
        (
            1,
            |world| {
                world.input.observed.resources.get_mut("tuning").expect("ours").disabled = true;
            },
            StatusWord::Disabled,
            "Disabled",
        ),
    ];
    for (nodes, change, word, reason) in cases {
        let mut world = fleet(nodes);
        change(&mut world);
        assert_eq!((status(&world).word, ready(&world).0.as_str()), (word, reason));
        let generation = world.input.observed.resources["tuning"].generation;
        let observed = (word == StatusWord::Complete).then_some(generation);
        assert_eq!(status(&world).observed_generation, observed, "{reason}");
    }
    assert_eq!(ready(&fleet(0)).1, "no node matches spec.nodeSelectors");
}

/// A batch between two of its nodes has nobody at work, and is in progress all the same.
#[test]
fn a_rollout_with_an_open_batch_is_in_progress_unless_nobody_waits_for_it() {
    let mut world = world(3, rollout(2, vec![package("motd", "1.0.0")]));
    world.settle();
    world.finish_all(End::Success);
    world.settle();
    assert_eq!(status(&world).word, StatusWord::InProgress);
    let mut alone = fleet(1);
    alone.settle();
    alone.input.observed.nodes.get_mut("node-00").expect("there").rollouts.clear();
    alone.input.observed.nodes.get_mut("node-00").expect("there").ignored = true;
    assert_eq!(status(&alone).word, StatusWord::Blocked);
}

#[test]
fn nodes_that_fail_count_as_in_progress_beside_those_at_work() {
    let mut world = world(3, rollout(3, vec![package("motd", "1.0.0")]));
    world.settle();
    let bad = world.active().remove(0);
    let node = world.input.observed.executors[&bad].visit.node.clone();
    for _ in 1..=4 {
        let active = world.active();
        let here = active.iter().find(|it| world.input.observed.executors[*it].visit.node == node);
        let here = here.expect("an attempt").clone();
        world.end(&here, End::Failure);
        world.settle();
        world.pass(100);
        world.settle();
    }
    let status = status(&world);
    assert_eq!((status.nodes_in_progress, status.nodes_complete), (3, 0));
    assert!(ready(&world).1.contains("1 erroring"), "{}", ready(&world).1);
}

/// What a restarted daemon must find again is written at once; the rest may wait.
#[test]
fn a_status_is_urgent_when_the_word_or_what_must_be_found_again_changes() {
    type Change = fn(&mut Status);
    let cases: [(&str, Change, Urgency); 3] = [
        ("a count", |status| status.nodes_total = 99, Urgency::Routine),
        ("the word", |status| status.word = StatusWord::Unknown, Urgency::Urgent),
        ("a time", |status| status.memory.timings.completed = Some(noon()), Urgency::Urgent),
    ];
    for (case, change, urgency) in cases {
        let mut world = fleet(2);
        world.settle();
        let resource = world.input.observed.resources.get_mut("tuning").expect("ours");
        change(resource.status.as_mut().expect("written"));
        let write = plan(&world.input).actions.into_iter().find_map(|action| match action {
            nodewright::model::Action::WriteStatus(write) => Some(write.urgency),
            _ => None,
        });
        assert_eq!(write, Some(urgency), "{case}");
    }
}
