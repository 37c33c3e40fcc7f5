//! Which compartment a node is in, and how it is paced, by upstream contract B.10, once more.

use std::collections::BTreeMap;

use nodewright::model::{
    Budget, Compartment, DEFAULT_COMPARTMENT, Desired, Growth, Node, Pace, Policy, Rollout,
};
use nodewright::plan::world::World;

/// One node at a time.
pub const NO_PACE: Pace = Pace { budget: Budget::Count(1), strategy: None };

/// Returns the compartment of a node, by rollout that selects it.
pub fn places(world: &World, node: &str) -> BTreeMap<String, String> {
    let rollouts = world.input.desired.rollouts.values();
    let places = rollouts.filter_map(|rollout| {
        let mut all = compartments(world, rollout).into_iter();
        let (place, _) = all.find(|(_, nodes)| nodes.iter().any(|it| it.name == node))?;
        Some((rollout.name.clone(), place.to_owned()))
    });
    places.collect()
}

/// Returns the nodes of each compartment of a rollout, by what the daemon knows.
pub fn compartments<'w>(world: &'w World, rollout: &Rollout) -> BTreeMap<&'w str, Vec<&'w Node>> {
    let policy = policy_of(world.known_desired(), rollout);
    let nodes = world.known().nodes.values().filter(|node| rollout.selects(&node.labels));
    let nodes: Vec<&Node> = nodes.collect();
    let mut order: Vec<&Compartment> =
        policy.iter().flat_map(|policy| &policy.compartments).collect();
    order.sort_by_cached_key(|it| {
        let matching = nodes.iter().filter(|node| it.selects(&node.labels)).count();
        let rank = it.pace.strategy.map_or(3, |strategy| match strategy.growth {
            Growth::Fixed => 0,
            Growth::Linear(_) => 1,
            Growth::Exponential(_) => 2,
        });
        (rank, ceiling(it.pace.budget, count(matching).max(1)), it.name.clone())
    });
    let mut all: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    all.insert(DEFAULT_COMPARTMENT, Vec::new());
    all.extend(order.iter().map(|it| (it.name.as_str(), Vec::new())));
    for node in nodes {
        let own = order.iter().find(|it| it.selects(&node.labels));
        let name = own.map_or(DEFAULT_COMPARTMENT, |it| it.name.as_str());
        all.entry(name).or_default().push(node);
    }
    all
}

/// Returns the pace of a compartment by what the daemon knows.
pub fn pace(world: &World, rollout: &Rollout, name: &str) -> Pace {
    match policy_of(world.known_desired(), rollout) {
        Some(policy) => {
            let own = policy.compartments.iter().find(|it| it.name == name);
            own.map_or(policy.fallback, |own| own.pace)
        }
        // Nobody is left to make the policy again (design §7).
        None if rollout.policy.is_some() => NO_PACE,
        None => {
            let floor = Budget::Percent(world.input.floor.max_disturbed_percent);
            Pace { budget: rollout.budget.unwrap_or(floor), strategy: None }
        }
    }
}

/// The budget's arithmetic.
pub fn ceiling(budget: Budget, nodes: u32) -> u32 {
    match budget {
        Budget::Count(count) => nodes.min(count),
        Budget::Percent(0) => 0,
        Budget::Percent(percent) => (nodes * percent / 100).max(1).min(nodes),
    }
}

/// Returns the policy that paces a rollout, if it is there.
pub fn policy_of<'d>(desired: &'d Desired, rollout: &Rollout) -> Option<&'d Policy> {
    desired.policies.get(rollout.policy.as_ref()?)
}

/// Returns whether some node is selected by two compartments.
pub fn overlaps(world: &World, policy: &Policy) -> bool {
    let mut nodes = world.known().nodes.values();
    nodes.any(|node| {
        policy.compartments.iter().filter(|it| it.selects(&node.labels)).nth(1).is_some()
    })
}

/// Returns how many there are.
pub fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a fleet of a history is small")
}
