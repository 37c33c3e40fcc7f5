//! What people do with our command line to nodes.

use nodewright::model::{
    Group, HOST_LOST_AFTER, Node, NodeRollout, Outcome, Record, Shared, approval,
};
use nodewright::plan::world::World;

use super::ledger::Ledger;
use super::story::Broken;

/// Returns whether the host is down for so long that nothing on it is waited for.
pub fn is_lost(world: &World, name: &str) -> bool {
    let Some(node) = world.input.observed.nodes.get(name) else { return false };
    let since = node.ready_since.filter(|_| !node.ready);
    let down = since.map(|since| world.input.now.duration_since(since).unsigned_abs());
    down.is_some_and(|down| down >= HOST_LOST_AFTER)
}

/// As `nodewright approve`, or takes it back: a rollout may select every node there is.
pub fn approve(world: &mut World, name: &str, approved: bool) {
    let input = &mut world.input;
    let resource = input.observed.resources.get(name);
    let Some((wanted, resource)) = input.desired.rollouts.get(name).zip(resource) else { return };
    if approved {
        input.approvals.insert(name.to_owned(), approval(&resource.uid, &wanted.nodes));
    } else {
        input.approvals.remove(name);
    }
}

/// As `nodewright package reset`: one of the packages on a node is begun anew.
pub fn reset(world: &mut World, ledger: &mut Ledger, name: &str, which: u8) {
    world.change_node(name, |node| {
        let number = usize::from(which);
        let mut with_entries: Vec<_> =
            node.rollouts.values_mut().filter(|state| !state.entries.is_empty()).collect();
        let Some(number_of) = number.checked_rem(with_entries.len()) else { return };
        let state = &mut with_entries[number_of];
        let id = state.entries.keys().nth(number % state.entries.len()).cloned();
        if let Some(id) = id {
            state.entries.remove(&id);
            state.entries_text = serde_json::to_string(&state.entries).ok();
            ledger.forget_configuration(&node.uid, &id.name);
        }
    });
}

/// As `nodewright forget`: every rollout lets the node go, where nothing stands in the way.
pub fn forget(world: &mut World, ledger: &mut Ledger, name: &str) {
    let Some(node) = world.input.observed.nodes.get(name) else { return };
    let free = node.rollouts.iter().filter(|(rollout, state)| is_free(world, node, rollout, state));
    let free: Vec<String> = free.map(|(rollout, _)| rollout.clone()).collect();
    let uid = node.uid.clone();
    for rollout in free {
        if let Some(record) = node_record(world, name, &rollout)
            && matches!(record.outcome, None | Some(Outcome::Erroring))
        {
            let node = record.node_uid.clone();
            ledger.retried.insert((node, rollout.clone(), record.visit));
        }
        ledger.forget_configuration(&uid, &rollout);
        world.forget(name, &rollout);
    }
}

fn node_record<'w>(world: &'w World, name: &str, rollout: &str) -> Option<&'w Record> {
    world.input.observed.nodes.get(name)?.rollouts.get(rollout)?.record.as_ref()
}

/// Returns whether nothing of the rollout may be at work there, nor is the daemon about to let the
/// node go by itself.
fn is_free(world: &World, node: &Node, rollout: &str, state: &Shared<NodeRollout>) -> bool {
    let observed = &world.input.observed;
    let Some(resource) = observed.resources.get(rollout) else { return false };
    let wanted = world.input.desired.rollouts.get(rollout);
    let selected = wanted.is_some_and(|wanted| wanted.selects(&node.labels));
    let marked = node.is_cordoned_by(rollout);
    let open = state.record.as_ref().is_some_and(Record::is_open);
    let own = node.record(rollout, &resource.uid).is_some();
    let idle = !open && !marked && !runs(world, node, rollout);
    state.malformed.is_none()
        && selected
        && (own || !(open || marked))
        && (idle || is_lost(world, &node.name))
}

/// A node that a person let go of has lost our mark, once the planner has come to rest: unless an
/// operator at work there lifts its cordons itself, or a pod of ours has yet to end.
pub fn forgotten_without_mark(world: &World) -> Result<(), Broken> {
    for node in world.input.observed.nodes.values().filter(|node| node.claims.is_empty()) {
        for (rollout, state) in &node.rollouts {
            let Some(resource) = world.input.observed.resources.get(rollout) else { continue };
            let wanted = world.input.desired.rollouts.get(rollout);
            let record = node.record(rollout, &resource.uid).filter(|it| it.is_forgotten());
            let kept = record.is_some() && node.is_cordoned_by(rollout);
            let is_read =
                state.malformed.is_none() && wanted.is_some_and(|it| it.selects(&node.labels));
            if kept && is_read && !runs(world, node, rollout) {
                return Err(Broken::new("forgotten without mark", node.name.clone()));
            }
        }
    }
    Ok(())
}

fn runs(world: &World, node: &Node, rollout: &str) -> bool {
    world.input.observed.executors.values().any(|executor| {
        let visit = &executor.visit;
        let here = visit.node == node.name && visit.rollout == rollout;
        here && executor.group != Group::Pull && executor.is_active()
    })
}
