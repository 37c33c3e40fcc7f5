//! When a rollout began and ended, and what its batch waits for meanwhile.

use nodewright::model::{Action, Reason, Timings};
use nodewright::plan::plan;
use nodewright::plan::world::{End, Fate, World};

use super::builders::{WorldExt, noon, package, rollout, world};

fn timings(world: &World) -> Timings {
    let status = world.input.observed.resources["tuning"].status.as_ref();
    status.map(|status| status.memory.timings.clone()).unwrap_or_default()
}

#[test]
fn a_rollout_has_begun_with_its_first_batch_and_ended_when_every_node_is_complete() {
    let mut world = world(2, rollout(1, vec![package("motd", "1.0.0")]));
    world.input.now = noon();
    world.settle();
    assert_eq!(timings(&world), Timings { started: Some(noon()), completed: None });
    world.pass(60);
    world.finish_all(End::Success);
    world.settle();
    assert_eq!(timings(&world), Timings { started: Some(noon()), completed: None }, "one is left");
    world.finish_all(End::Success);
    world.settle();
    let ended = Timings { started: Some(noon()), completed: Some(world.input.now) };
    assert_eq!(timings(&world), ended);
    world.pass(600);
    world.settle();
    assert_eq!(timings(&world), ended, "it stays ended at that time");

    world.add_node("node-02", &[("pool", "gpu")]);
    world.settle();
    let started = timings(&world).started;
    assert_eq!(timings(&world).completed, None, "a node that joins is caught up");
    world.run();
    assert!(timings(&world).completed > ended.completed);
    assert_eq!(timings(&world).started, started);

    let before = world.input.now;
    world.pass(60);
    world.set_rollout(rollout(1, vec![package("motd", "1.0.1")]));
    world.settle();
    let again = timings(&world);
    assert!(again.started > Some(before), "a new target begins anew: {again:?}");
    assert_eq!(again.completed, None);
}

/// Nodes that go down after a batch was opened use its room; what this tick picks does, too.
#[test]
fn the_rest_of_a_batch_waits_for_the_nodes_that_use_the_budget() {
    let mut world = world(4, rollout(2, vec![package("motd", "1.0.0")]));
    let picks = |action: &Action| action.word() == "pick";
    while !plan(&world.input).actions.iter().any(picks) {
        assert!(world.tick(|_| Fate::Done).2 > 0);
    }
    world.set_ready("node-03", false);
    let plan = plan(&world.input);
    assert_eq!(plan.actions.iter().filter(|action| picks(action)).count(), 1);
    let nodes = vec!["node-03".to_owned(), "node-00".to_owned()].into();
    let waiting = &plan.verdicts["tuning"]["node-01"].reason;
    assert_eq!(*waiting, Reason::BudgetUsed { ceiling: 2, nodes });
}
