//! What `nodewright explain NAME` says: the same watches, the same planner, the same words.

use std::collections::BTreeMap;

use nodewright::cluster::source_state::SourceStates;
use nodewright::cluster::{EdgeSettings, Observer};
use nodewright::manifest;
use nodewright::model::{Input, NodeRules};
use nodewright::report::explain;
use tokio_util::sync::CancellationToken;

use super::commands::{Printed, with_causes};
use super::ground::NAMESPACE;
use super::world::{World, floor};

/// Explains a resource, with the floor that these flags amount to.
pub async fn resource(world: &World, name: &str, flags: &[&str]) -> Printed {
    let shutdown = CancellationToken::new();
    let settings = EdgeSettings::new(NAMESPACE, "");
    let client = world.ground.client("explain");
    let (observer, mut tasks) = Observer::start(client, &settings, world.clock, shutdown.clone());
    let listed = tokio::time::timeout(world.clock.real_duration(world.patience), observer.ready());
    listed.await.map_err(|_elapsed| "the API server has not listed everything".to_owned())?;
    let view = observer.observe();
    let states = SourceStates::new(world.ground.client("explain"), NAMESPACE, world.clock);
    let source = states.read().await.map_err(|error| with_causes(&error))?;
    shutdown.cancel();
    tasks.shutdown().await;
    let resources: Vec<_> = view.nodewrights.values().map(|it| it.as_ref().clone()).collect();
    let policies: Vec<_> = view.policies.values().map(|it| it.as_ref().clone()).collect();
    let input = Input {
        now: world.clock.now(),
        desired: manifest::desired(&resources, &policies),
        observed: view.observed.clone(),
        halt: None,
        approvals: source.approvals,
        opening: BTreeMap::new(),
        floor: floor(flags)?,
        rules: NodeRules::default(),
        own_node: None,
        own_pod: None,
    };
    let plan = nodewright::plan::plan(&input);
    let story = explain::resource(&input, &plan, None, name);
    let text = story.ok_or_else(|| format!("there is no {name}"))?.to_string();
    // Which start was the last depends on timing.
    let told = text.lines().filter(|line| !line.starts_with("  ApplyPackage"));
    Ok(told.collect::<Vec<_>>().join("\n"))
}
