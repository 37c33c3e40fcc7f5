//! The fleet's series, computed from a tick.

use nodewright::daemon::metrics::{Leadership, Metrics};
use nodewright::model::{
    DEFAULT_COMPARTMENT, Entry, PackageId, Plan, Stage, State, StopCause, Stopped,
};
use nodewright::plan::world::World;
use nodewright::plan::{Breach, Invariant, freeze, plan};

use super::{package, rollout, series, settle, world};

/// The text of a leader that saw the world and planned.
fn text(world: &World) -> String {
    text_of(world, &plan(&world.input))
}

fn text_of(world: &World, plan: &Plan) -> String {
    let metrics = Metrics::new();
    metrics.set_leadership(Leadership::Leader);
    metrics.observe(&world.input, plan);
    metrics.encode()
}

/// Puts what an upstream operator may have left on a node.
fn put(world: &mut World, node: &str, version: &str, stage: Stage, state: State, restarts: i32) {
    let id = PackageId { name: "kernel".to_owned(), version: version.to_owned() };
    let entry = Entry {
        name: id.name.clone(),
        version: id.version.clone(),
        image: String::new(),
        container_sha: None,
        stage,
        state,
        restarts: Some(restarts),
        untried: false,
        applied: None,
        snapshot: None,
        since: None,
        left: None,
        other: Default::default(),
    };
    let node = world.input.observed.nodes.get_mut(node).expect("a node of the test");
    node.rollouts.entry("tuning".to_owned()).or_default().entries.insert(id, entry);
}

#[test]
fn a_small_fleet_reads_as_it_stands() {
    let mut world = world(3, rollout("tuning", package("kernel", "1.2.0")));
    settle(&mut world);
    assert_eq!(text(&world), include_str!("fleet.txt"));
}

#[test]
fn a_stop_is_counted_with_its_batch_and_its_nodes() {
    let mut world = world(3, rollout("tuning", package("kernel", "1.2.0")));
    settle(&mut world);
    let mut plan = plan(&world.input);
    let outlooks = plan.outlooks.get_mut("tuning").expect("what is to come");
    let outlook = outlooks.get_mut(DEFAULT_COMPARTMENT).expect("its one compartment");
    let cause = StopCause { in_batch: 2, total: 7, ..StopCause::default() };
    outlook.failed = 7;
    outlook.stopped = Some(Stopped { batch: 5, failures: 3, cause: Some(cause) });
    let text = text_of(&world, &plan);
    for (family, value) in [("failed", 7), ("stopped_batch", 5), ("stopped_nodes", 2)] {
        let found = series(&text, &format!("nodewright_rollout_{family}"));
        assert_eq!(found.len(), 1, "{family}: {found:?}");
        assert!(found[0].ends_with(&format!(" {value}")), "{family}: {found:?}");
    }
}

#[test]
fn counts_are_sums_over_stages_and_states() {
    let mut world = world(4, rollout("tuning", package("kernel", "1.2.0")));
    put(&mut world, "gpu-00", "1.2.0", Stage::Config, State::Complete, 0);
    put(&mut world, "gpu-01", "1.2.0", Stage::Apply, State::Complete, 2);
    put(&mut world, "gpu-02", "1.2.0", Stage::Apply, State::Erroring, 3);
    put(&mut world, "gpu-03", "1.1.0", Stage::Config, State::Complete, 0);
    let text = text(&world);
    let of = |family: &str, label: &str| {
        let found = series(&text, family).into_iter().filter(|line| line.contains(label));
        found.map(|line| line.rsplit(' ').next().unwrap_or("")).collect::<Vec<_>>().join(" ")
    };
    let at = |version: &str, label: &str| format!("package_version=\"{version}\",{label}");
    let states = "nodewright_package_state_count";
    assert_eq!(of(states, &at("1.2.0", "state=\"complete\"")), "2");
    assert_eq!(of(states, &at("1.2.0", "state=\"erroring\"")), "1");
    assert_eq!(of(states, &at("1.1.0", "state=\"complete\"")), "1");
    let stages = "nodewright_package_stage_count";
    assert_eq!(of(stages, &at("1.2.0", "stage=\"apply\"")), "2");
    assert_eq!(of(stages, &at("1.2.0", "stage=\"config\"")), "1");
    assert_eq!(of(stages, &at("1.2.0", "stage=\"upgrade\"")), "0");
    assert_eq!(of("nodewright_package_restarts_count", "package_version=\"1.2.0\""), "5");
    assert_eq!(of("nodewright_node_target_count", "tuning"), "4");
}

#[test]
fn nodes_outside_the_selector_are_not_counted() {
    let mut world = world(1, rollout("tuning", package("kernel", "1.2.0")));
    world.add_node("cpu-00", &[]);
    put(&mut world, "cpu-00", "1.2.0", Stage::Config, State::Complete, 7);
    let mut plan = plan(&world.input);
    plan.verdicts.get_mut("tuning").expect("its verdicts").remove("cpu-00");
    let text = text_of(&world, &plan);
    let restarts = series(&text, "nodewright_package_restarts_count");
    assert_eq!(restarts.len(), 1);
    assert!(restarts[0].ends_with(" 0"), "{restarts:?}");
}

#[test]
fn a_rollout_that_is_gone_leaves_no_series() {
    let mut world = world(2, rollout("tuning", package("kernel", "1.2.0")));
    world.set_rollout(rollout("storage", package("nvme", "2.0.0")));
    settle(&mut world);
    let metrics = Metrics::new();
    metrics.set_leadership(Leadership::Leader);
    metrics.observe(&world.input, &plan(&world.input));
    assert!(metrics.encode().contains("nodewright_name=\"storage\""));

    world.input.desired.rollouts.remove("storage");
    world.input.observed.resources.remove("storage");
    metrics.observe(&world.input, &plan(&world.input));
    let text = metrics.encode();
    assert!(!text.contains("storage") && !text.contains("nvme"), "{text}");
    assert!(text.contains("nodewright_name=\"tuning\""));
}

#[test]
fn a_resource_that_cannot_be_read_is_blocked_and_claims_nothing_else() {
    let mut world = world(2, rollout("tuning", package("kernel", "1.2.0")));
    settle(&mut world);
    world.input.desired.rollouts.clear();
    world.input.desired.invalid.insert("tuning".to_owned(), "no packages".to_owned());
    let text = text(&world);
    let current =
        series(&text, "nodewright_status").into_iter().filter(|line| line.ends_with(" 1"));
    assert_eq!(
        current.collect::<Vec<_>>(),
        vec!["nodewright_status{nodewright_name=\"tuning\",status=\"blocked\"} 1"]
    );
    let named = text.lines().filter(|line| line.contains("tuning"));
    assert_eq!(named.count(), 8, "one series for each word of a status, and no more");
}

#[test]
fn a_frozen_rollout_says_so() {
    let mut world = world(2, rollout("tuning", package("kernel", "1.2.0")));
    settle(&mut world);
    let mut plan = plan(&world.input);
    let breach = Breach {
        rollout: "tuning".to_owned(),
        invariant: Invariant::Held,
        detail: "gpu-00".to_owned(),
    };
    freeze(&mut plan, &[breach]);
    assert_eq!(
        series(&text_of(&world, &plan), "nodewright_verdict_nodes"),
        vec![
            "nodewright_verdict_nodes{nodewright_name=\"tuning\",kind=\"blocked\",\
             reason=\"Frozen\"} 2"
        ]
    );
}

#[test]
fn names_of_nodes_are_no_labels_and_foreign_text_cannot_break_a_line() {
    let mut world = world(3, rollout("tuning", package("kernel", "1.2.0")));
    settle(&mut world);
    put(&mut world, "gpu-01", "1\"} 9\nnodewright_leader", Stage::Apply, State::Unknown, -4);
    let text = text(&world);
    assert!(!text.contains("gpu-0"), "{text}");
    assert_eq!(series(&text, "nodewright_leader"), vec!["nodewright_leader 1"]);
    assert!(text.contains("package_version=\"1\\\"} 9\\nnodewright_leader\""), "{text}");
}
