//! The safety floor: what is new to the cluster begins on few nodes, and a stop stops.

use nodewright::model::{Action, Entry, Node, NodePatch, Package, Record, Stage, State, approval};
use nodewright::plan::world::World;

use super::invariants::picks;
use super::story::Broken;

/// Looks at a pick: what it begins must have ended well somewhere, or be among the first.
///
/// A daemon whose caches are behind answers for what it has read.
pub fn first_ones_first(world: &World, patch: &NodePatch) -> Result<(), Broken> {
    let known = world.known();
    let Some(limit) = world.input.floor.first_use else { return Ok(()) };
    if known.resources.get(&patch.rollout).is_none_or(|resource| resource.deleting) {
        return Ok(());
    }
    let entries = patch.entries.iter().flat_map(|entries| entries.values());
    for entry in entries.filter(|entry| entry.state != State::Complete) {
        let installs = !matches!(entry.stage, Stage::Uninstall | Stage::UninstallInterrupt);
        let Some(name) = entry.snapshot.as_ref().filter(|_| installs) else { continue };
        let Some(snapshot) = known.snapshots.get(name) else { continue };
        let package = &snapshot.package;
        // A node that had it may be picked anew in the same tick.
        let ended = |stage: &Stage| matches!(stage, Stage::Config | Stage::PostInterrupt);
        let mut done = world.completed.iter();
        if done.any(|(_, _, of, stage, _)| of == name && ended(stage)) {
            continue;
        }
        if known.nodes.values().any(|node| has_had(world, package, node)) {
            continue;
        }
        let others = known.nodes.values().filter(|node| node.name != patch.node);
        let at_work = others.filter(|node| is_getting(world, name, node)).count() + 1;
        if at_work > limit as usize && !is_left(world, patch, entry) {
            let detail = format!("{} begins on {} as number {at_work}", package.id(), patch.node);
            return Err(Broken::new("first ones first", detail));
        }
    }
    Ok(())
}

/// Returns whether the pick only carries on what stands on the node of a version that the manifest
/// has no more, as a failed visit left it: no visit begins that again.
fn is_left(world: &World, patch: &NodePatch, entry: &Entry) -> bool {
    let wanted = world.input.desired.rollouts.get(&patch.rollout);
    let package = wanted.and_then(|rollout| rollout.packages.get(&entry.name));
    let is_wanted = package.is_some_and(|package| package.version.as_str() == entry.version);
    let before = world.known().nodes.get(&patch.node).map(|node| node.entries(&patch.rollout));
    !is_wanted && before.is_some_and(|before| before.get(&entry.id()) == Some(entry))
}

fn is_visited(world: &World, rollout: &str, node: &Node) -> bool {
    let resource = world.known().resources.get(rollout);
    let record = resource.and_then(|resource| node.record(rollout, &resource.uid));
    record.is_some_and(Record::is_open)
}

fn has_had(world: &World, package: &Package, node: &Node) -> bool {
    node.rollouts.iter().filter(|(name, _)| !is_visited(world, name, node)).any(|(_, state)| {
        state.entries.values().any(|entry| {
            let snapshot = entry.snapshot.as_ref().map(|it| world.known().snapshots.get(it));
            // The clean-up takes what nothing wants any more, and upstream leaves none.
            let same = snapshot.is_none_or(|it| it.is_none_or(|it| it.package == *package));
            entry.id() == package.id() && same && entry.state == State::Complete
        })
    })
}

fn is_getting(world: &World, snapshot: &String, node: &Node) -> bool {
    node.rollouts.iter().filter(|(name, _)| is_visited(world, name, node)).any(|(_, state)| {
        state.entries.values().any(|entry| {
            entry.snapshot.as_ref() == Some(snapshot) && entry.state != State::Complete
        })
    })
}

/// Whoever selects every node there is waits for a person. What a frozen daemon has in its hands
/// may be older than the moment in which approval was taken back.
pub fn unapproved_pick_nobody(world: &World, patch: &NodePatch) -> Result<(), Broken> {
    let known = world.known_desired().rollouts.get(&patch.rollout);
    let resource = world.known().resources.get(&patch.rollout);
    let Some((wanted, resource)) = known.zip(resource) else { return Ok(()) };
    if !wanted.nodes.selects_all() || resource.deleting || world.is_behind() {
        return Ok(());
    }
    let approved = world.input.approvals.get(&patch.rollout);
    if approved != Some(&approval(&resource.uid, &wanted.nodes)) {
        let detail = format!("{} on {}", patch.rollout, patch.node);
        return Err(Broken::new("unapproved pick nobody", detail));
    }
    Ok(())
}

/// While somebody has stopped everything, nothing new is disturbed. What a frozen daemon has in its
/// hands is older than a stop that counts: whoever stops waits until it is obeyed.
pub fn stopped_disturbs_nobody(world: &World, action: &Action) -> Result<(), Broken> {
    let disturbs = match action {
        Action::PatchNode(patch) => {
            patch.unschedulable == Some(true) || picks(world, patch).is_some()
        }
        other => matches!(other, Action::Evict(_) | Action::CreateExecutor(_)),
    };
    if disturbs && world.input.halt.is_some() && !world.is_behind() {
        return Err(Broken::new("stopped disturbs nobody", format!("{action:?}")));
    }
    Ok(())
}
