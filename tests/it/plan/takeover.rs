//! A cluster run by upstream is taken over: nothing runs twice, no cordon is lost.

mod adoption;
mod cases;
mod conditions;
mod credit;
mod leftovers;
mod status;

use std::collections::BTreeMap;

use nodewright::model::{
    CordonMark, ExecutorPhase, Failure, PackageId, Stage, UpstreamKind, UpstreamRef,
    UpstreamStatus, UpstreamWork,
};
use nodewright::plan::world::World;

/// Puts upstream's annotation on a node, as text in upstream's shape.
fn leave(world: &mut World, node: &str, entries: &[(&str, &str, &str, &str)]) {
    let entries: BTreeMap<String, serde_json::Value> = entries
        .iter()
        .map(|(name, version, stage, state)| {
            let entry = serde_json::json!({
                "name": name, "version": version, "image": format!("registry/{name}"),
                "stage": stage, "state": state,
            });
            (format!("{name}|{version}"), entry)
        })
        .collect();
    let text = serde_json::to_string(&entries).expect("becomes JSON");
    let node = world.input.observed.nodes.get_mut(node).expect("the node");
    node.is_new = false;
    let left = node.rollouts.entry("tuning".to_owned()).or_default();
    left.entries = serde_json::from_str(&text).expect("upstream's shape");
    left.entries_text = Some(text);
}

/// Cordons a node with upstream's mark.
fn cordon(world: &mut World, node: &str) {
    let node = world.input.observed.nodes.get_mut(node).expect("the node");
    node.unschedulable = true;
    node.cordons.push(CordonMark::Rollout("tuning".to_owned()));
}

/// Puts a Job of upstream's on a node.
fn job(world: &mut World, node: &str, package: &str, stage: Stage, phase: ExecutorPhase) {
    let name = format!("tuning-{package}-{stage}-{node}");
    let work = UpstreamWork {
        reference: UpstreamRef {
            kind: UpstreamKind::Job,
            namespace: "nodewright".to_owned(),
            name: name.clone(),
            uid: format!("uid-{name}"),
        },
        rollout: "tuning".to_owned(),
        node: node.to_owned(),
        package: PackageId { name: package.to_owned(), version: "1.0.0".to_owned() },
        stage,
        created: world.input.now,
        seen: world.input.now,
        phase,
        restarts: 0,
        failure: None,
        terminating: false,
    };
    world.input.observed.upstream.insert(name, work);
}

/// Ends every Job of upstream's that is not over.
fn end_jobs(world: &mut World, phase: ExecutorPhase) {
    for work in world.input.observed.upstream.values_mut() {
        work.phase = phase;
        work.failure = (phase == ExecutorPhase::Failed).then(|| failure(false));
    }
}

fn failure(disrupted: bool) -> Failure {
    Failure {
        stage: None,
        in_check: false,
        step: None,
        exit_code: Some(1),
        message: "it failed".to_owned(),
        disrupted,
    }
}

/// Returns the stages that executors of ours ran to their end on a node, in order.
fn ran(world: &World, node: &str) -> Vec<String> {
    let of_node = world.completed.iter().filter(|(there, ..)| there == node);
    of_node.map(|(_, package, _, stage, _)| format!("{package} {stage}")).collect()
}

fn upstream(world: &mut World) -> &mut UpstreamStatus {
    let resource = world.input.observed.resources.get_mut("tuning").expect("the resource");
    resource.finalizer = true; // Upstream puts the same one on its resources.
    resource.upstream.get_or_insert_default()
}
