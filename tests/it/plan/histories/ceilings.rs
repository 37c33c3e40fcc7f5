//! Never more nodes down than a compartment may have, and nobody picked but into its open batch.

use nodewright::model::{Node, NodePatch, Outcome, Record};
use nodewright::plan::world::World;

use super::places;
use super::story::Broken;

type Held = Result<(), Broken>;

/// Never more nodes disturbed at once than the ceiling allows. A daemon whose caches are behind
/// answers for what it has read and for what it did itself, not for a budget that was lowered, or a
/// node that others disturbed, since: no precondition of a pick can cover those.
pub fn ceilings(world: &World, patch: &NodePatch) -> Held {
    let known = world.known();
    let wanted = world.known_desired().rollouts.get(&patch.rollout);
    let picked = known.nodes.get(&patch.node);
    let (Some(wanted), Some(picked)) = (wanted, picked) else { return Ok(()) };
    let down = |node: &Node| {
        let worked_on = node.rollouts.iter().any(|(name, _)| {
            let resource = known.resources.get(name);
            let record = resource.and_then(|resource| node.record(name, &resource.uid));
            record.is_some_and(Record::is_open)
        });
        (node.unschedulable || !node.ready || worked_on) && !in_repair(world, node)
    };
    if down(picked) {
        return Ok(()); // Costs nothing: it is disturbed already.
    }
    let mut compartments = places::compartments(world, wanted).into_iter();
    let own = compartments.find(|(_, nodes)| nodes.iter().any(|node| node.name == patch.node));
    let Some((compartment, nodes)) = own else { return Ok(()) };
    // Caches that are behind learn from the answer to a write that a node has moved here in its
    // visit, and what the same tick picks was decided before.
    let came = |node: &Node| {
        let resource = known.resources.get(&patch.rollout);
        let record = resource.and_then(|resource| node.record(&patch.rollout, &resource.uid));
        let open = record.filter(|record| record.is_open());
        world.is_behind() && open.is_some_and(|record| record.compartment != compartment)
    };
    let already = nodes.iter().filter(|node| down(node) && !came(node)).count();
    let counted = nodes.iter().filter(|node| !in_repair(world, node)).count();
    let budget = places::pace(world, wanted, compartment).budget;
    let ceiling = places::ceiling(budget, places::count(counted)) as usize;
    if already + 1 > ceiling {
        let Node { name, .. } = picked;
        let detail = format!("{name} would be one more than {already} of {ceiling}, {compartment}");
        return Err(Broken::new("ceilings", detail));
    }
    Ok(())
}

/// Down for longer than `--repair-after`, and it did not break in a visit (design §7).
pub fn in_repair(world: &World, node: &Node) -> bool {
    let Some(since) = node.ready_since else { return false };
    let down = world.input.now.duration_since(since).as_secs();
    let patience = world.input.floor.repair_after.as_secs();
    let broke = node.rollouts.iter().any(|(name, state)| {
        let Some(record) = &state.record else { return false };
        let held = record.held || node.is_cordoned_by(name);
        let is_kept = held && record.outcome == Some(Outcome::Erroring);
        record.node_uid == node.uid && (record.is_open() || is_kept)
    });
    !node.ready && !broke && u64::try_from(down).is_ok_and(|down| down >= patience)
}

/// Nobody is picked but into the open batch of the node's own compartment, as the status has it,
/// and in one that is stopped nobody but to what was complete before.
pub fn picks_from_the_open_batch(world: &World, patch: &NodePatch, begun: &Record) -> Held {
    let status = world.known().resources.get(&patch.rollout);
    let status = status.and_then(|resource| resource.status.as_ref());
    let own = status.and_then(|status| status.memory.compartments.get(&begun.compartment));
    let open = own.and_then(|own| own.open_batch.as_ref());
    let right = open.is_some_and(|open| {
        let orders = open.order_from..open.order_from.saturating_add(open.size);
        let same = (&open.target, open.number) == (&begun.target, begun.batch);
        same && orders.contains(&begun.order)
    });
    let is_beside = status.is_some_and(|status| status.memory.target != begun.target);
    if !right || (!is_beside && own.is_some_and(|own| own.batch_state.should_stop)) {
        let detail = format!("{}: {} {} {own:?}", patch.node, begun.compartment, begun.order);
        return Err(Broken::new("picks from the open batch", detail));
    }
    let wanted = world.known_desired().rollouts.get(&patch.rollout);
    let here = wanted.is_none_or(|wanted| {
        let all = places::compartments(world, wanted);
        let nodes = all.get(begun.compartment.as_str()).into_iter().flatten();
        nodes.into_iter().any(|node| node.name == patch.node)
    });
    let detail = || format!("{} is not of {}", patch.node, begun.compartment);
    if here { Ok(()) } else { Err(Broken::new("picks from the open batch", detail())) }
}
