//! What can be waited for, shown, and expected.
//!
//! | fact | what is reached or printed |
//! |---|---|
//! | `until complete ROLLOUT` | every node of it is complete, at the last commit pushed |
//! | `until waits ROLLOUT WORD NODES` | so many nodes wait for this reason |
//! | `until needs WORD` | something of this kind needs a person |
//! | `until status ROLLOUT WORD` | its status is this word, at the last commit pushed |
//! | `until gone ROLLOUT` | there is no such rollout any more |
//! | `until held` | the last commit is not let through |
//! | `until published PHASE` | the status branch says so of the last state |
//! | `until cordoned NODE` | the node is cordoned |
//! | `until node LINE` | `show nodes` has this line |
//! | `show nodes` | each node: schedulable or not, reboots, and its packages |
//! | `show runs NODE` | which stages ran there, how they ended, and how often |
//! | `show conditions ROLLOUT` | the conditions of the resource |
//! | `show resources` | the resources with their packages |
//! | `show needs` | what needs a person |
//! | `show findings` | what is wrong with the manifests |
//! | `show evicted NS/NAME` | whether the pod was moved or stayed |
//! | `expect cordoned at most N` | no more were at any moment since the beginning |
//! | `expect cordoned never` | none ever was |

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use nodewright::api::{NodeWright, keys};
use nodewright::model::StatusWord;
use nodewright::report::FleetState;
use nodewright::sim::keys::REBOOTS;
use serde_json::Value;

use super::commands::{Printed, chain, cordon_marks, is_cordoned};
use super::world::{CLUSTER, World};

/// Waits for a fact and prints it.
pub async fn until(world: &World, fact: &[&str]) -> Printed {
    match fact {
        ["complete", rollout] => {
            world.until(|state| is_applied(world, state).then(|| complete(state, rollout))?).await
        }
        ["waits", rollout, word, nodes] => {
            world
                .until(|state| is_seen(world, state).then(|| waits(state, rollout, word, nodes))?)
                .await
        }
        ["needs", word] => {
            world.until(|state| is_seen(world, state).then(|| needs(state, Some(word)))?).await
        }
        ["status", rollout, word] => {
            world
                .until(|state| {
                    let found = state.rollouts.get(*rollout)?;
                    let is_it = format!("{:?}", found.status) == **word;
                    (is_applied(world, state) && is_it).then(|| {
                        format!(
                            "{rollout}: {word}, {} of {} nodes complete",
                            found.nodes_complete, found.nodes_total
                        )
                    })
                })
                .await
        }
        ["gone", rollout] => {
            let is_gone = |state: &FleetState| {
                (is_applied(world, state) && !state.rollouts.contains_key(*rollout)).then_some(())
            };
            world.until(is_gone).await.map(|()| format!("{rollout} is gone"))
        }
        ["held"] => {
            world
                .until(|state| {
                    let held = state.source.held.as_ref().filter(|_| is_seen(world, state))?;
                    Some(format!("{}\n  way out: {}", held.why, held.way_out))
                })
                .await
        }
        ["published", phase] => published(world, phase).await,
        ["cordoned", node] => {
            let nodes: Api<Node> = Api::all(world.ground.client("test"));
            let cordoned = async || nodes.get(node).await.ok().filter(is_cordoned);
            let node = world.eventually(cordoned).await?;
            Ok(line_of(&node))
        }
        ["node", name, ..] => {
            let wanted = fact[1..].join(" ");
            let nodes: Api<Node> = Api::all(world.ground.client("test"));
            let shown = async || nodes.get(name).await.ok().filter(|node| line_of(node) == wanted);
            world.eventually(shown).await.map(|_| String::new())
        }
        _ => Err("there is no such fact to wait for; see scenario/facts.rs".to_owned()),
    }
}

/// Prints a fact.
pub async fn show(world: &World, fact: &[&str]) -> Printed {
    let state = world.state();
    let state = || state.as_deref().ok_or("the daemon has not looked yet");
    match fact {
        ["nodes"] => {
            let nodes: Api<Node> = Api::all(world.ground.client("test"));
            let nodes = nodes.list(&ListParams::default()).await.map_err(|error| chain(&error))?;
            Ok(nodes.items.iter().map(line_of).collect::<Vec<_>>().join("\n"))
        }
        ["runs", node] => Ok(runs(world, node)),
        ["conditions", rollout] => conditions(world, rollout).await,
        ["resources"] => resources(world).await,
        ["needs"] => Ok(needs(state()?, None).unwrap_or_else(|| "nothing".to_owned())),
        ["findings"] => {
            let findings = state()?.source.findings.iter();
            let lines = findings.map(|it| {
                format!(
                    "{}: {} {}: {}\n  way out: {}",
                    it.place(),
                    it.severity,
                    it.code,
                    it.message,
                    it.way_out
                )
            });
            Ok(lines.collect::<Vec<_>>().join("\n"))
        }
        ["evicted", pod] => {
            let (namespace, name) = pod.split_once('/').ok_or("write NAMESPACE/NAME")?;
            let pods: Api<Pod> = Api::namespaced(world.ground.client("test"), namespace);
            let pod = pods.get_opt(name).await.map_err(|error| chain(&error))?;
            Ok(if pod.is_some() { "it stayed" } else { "it was moved" }.to_owned())
        }
        _ => Err("there is no such fact to show; see scenario/facts.rs".to_owned()),
    }
}

/// Fails where a fact does not hold.
pub fn expect(world: &World, fact: &[&str]) -> Printed {
    match fact {
        ["cordoned", "at", "most", most] => {
            let most: usize = most.parse().map_err(|_| format!("{most} is no number"))?;
            match world.watcher.peak() {
                0 => Err("no node was ever cordoned".to_owned()),
                peak if peak <= most => Ok(String::new()),
                peak => Err(format!("{peak} nodes were cordoned at once")),
            }
        }
        ["cordoned", "never"] => match world.watcher.ever_cordoned() {
            none if none.is_empty() => Ok(String::new()),
            nodes => Err(format!("{nodes:?} were cordoned")),
        },
        _ => Err("there is no such fact to expect; see scenario/facts.rs".to_owned()),
    }
}

/// The daemon has looked at the last commit pushed.
fn is_seen(world: &World, state: &FleetState) -> bool {
    is_pushed(world, state.source.revision_seen.as_deref())
}

/// What the last commit pushed says is in the cluster.
fn is_applied(world: &World, state: &FleetState) -> bool {
    is_pushed(world, state.source.revision_applied.as_deref())
}

fn is_pushed(world: &World, revision: Option<&str>) -> bool {
    let pushed = world.pushed.as_ref().map(ToString::to_string);
    pushed.is_none_or(|pushed| revision.is_some_and(|revision| revision.ends_with(&pushed)))
}

fn complete(state: &FleetState, rollout: &str) -> Option<String> {
    let found = state.rollouts.get(rollout)?;
    let is_complete = found.status == StatusWord::Complete
        && found.nodes_total > 0
        && found.nodes_complete == found.nodes_total;
    is_complete.then(|| match found.nodes_total {
        1 => format!("{rollout}: complete on 1 node"),
        nodes => format!("{rollout}: complete on {nodes} nodes"),
    })
}

fn waits(state: &FleetState, rollout: &str, word: &str, nodes: &str) -> Option<String> {
    let groups = state.waits.iter().chain(&state.on_purpose);
    let mut groups = groups.filter(|group| group.rollout == rollout && group.word == word);
    let group = groups.find(|group| group.nodes.to_string() == nodes)?;
    Some(format!("{}: {}", group.example_node, group.example))
}

fn needs(state: &FleetState, word: Option<&str>) -> Option<String> {
    let needs = state.needs_person.iter();
    let needs = needs.filter(|need| word.is_none_or(|word| need.word == word));
    let lines: Vec<String> = needs
        .map(|need| {
            let about = need.rollout.as_deref().or(need.place.as_deref()).unwrap_or("fleet");
            let nodes = match need.nodes.total {
                0 => String::new(),
                _ => format!(" on {}", need.nodes.first.join(", ")),
            };
            format!("{} {about}{nodes}: {}\n  way out: {}", need.word, need.message, need.way_out)
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns the subject of the newest status commit, once that tells of the last push and `phase`.
async fn published(world: &World, phase: &str) -> Printed {
    let branch = format!("nodewright-status/{CLUSTER}");
    let pushed = world.pushed.as_ref().map(ToString::to_string).unwrap_or_default();
    world
        .eventually(async || {
            world.origin.tip(&branch)?;
            let message = world.origin.git(&["log", "-1", "--format=%B", &branch]);
            let trailer = format!("Nodewright-Phase: {phase}\n");
            let is_it = message.contains(&trailer) && message.contains(&pushed);
            is_it.then(|| message.lines().next().unwrap_or_default().to_owned())
        })
        .await
}

/// Returns a node as one line: who cordoned it, how often it was rebooted, its packages.
fn line_of(node: &Node) -> String {
    let mut text = node.name_any();
    let marks = cordon_marks(node);
    match (is_cordoned(node), marks.is_empty()) {
        (false, true) => {}
        (true, true) => text += " cordoned by others",
        (true, false) => text += &format!(" cordoned by {}", marks.join(", ")),
        (false, false) => text += &format!(" schedulable with marks of {}", marks.join(", ")),
    }
    match node.annotations().get(REBOOTS).map(String::as_str) {
        None => {}
        Some("1") => text += ", rebooted once",
        Some(times) => text += &format!(", rebooted {times} times"),
    }
    for (key, value) in node.annotations() {
        let Some(rollout) = key.strip_prefix(&keys::node_state("")) else { continue };
        let entries: BTreeMap<String, Value> = serde_json::from_str(value).unwrap_or_default();
        for (package, entry) in entries {
            let word = |key: &str| entry[key].as_str().unwrap_or("?").to_owned();
            text += &format!("; {rollout}: {package} {} {}", word("stage"), word("state"));
        }
    }
    text
}

fn runs(world: &World, node: &str) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let runs = world.kubelet.runs();
    for run in
        runs.iter().filter(|run| run.node == node && run.namespace == super::ground::NAMESPACE)
    {
        let end =
            if run.exit_code == 0 { String::new() } else { format!(" exit {}", run.exit_code) };
        let what = format!("{}{end}", run.container);
        match counts.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count += 1,
            None => counts.push((what, 1)),
        }
    }
    let lines = counts.into_iter().map(|(what, count)| match count {
        1 => what,
        count => format!("{what} ×{count}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

async fn conditions(world: &World, rollout: &str) -> Printed {
    let resources: Api<NodeWright> = Api::all(world.ground.client("test"));
    let resource = resources.get(rollout).await.map_err(|error| chain(&error))?;
    let conditions = resource.status.map(|status| status.conditions).unwrap_or_default();
    let mut lines: Vec<String> = conditions
        .iter()
        .map(|it| format!("{}={} {}: {}", it.type_, it.status, it.reason, it.message))
        .collect();
    lines.sort();
    Ok(lines.join("\n"))
}

async fn resources(world: &World) -> Printed {
    let resources: Api<NodeWright> = Api::all(world.ground.client("test"));
    let list = resources.list(&ListParams::default()).await.map_err(|error| chain(&error))?;
    let lines = list.items.iter().map(|resource| {
        let packages = resource.spec.packages.iter();
        let packages = packages.map(|(name, package)| format!("{name}|{}", package.version));
        format!("{}: {}", resource.name_any(), packages.collect::<Vec<_>>().join(", "))
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
