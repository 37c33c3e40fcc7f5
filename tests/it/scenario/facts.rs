//! What can be waited for, shown, and expected.
//!
//! | fact | what is reached or printed |
//! |---|---|
//! | `until complete ROLLOUT` | every node of it is complete, as it is wanted now |
//! | `until waits ROLLOUT WORD NODES` | so many nodes wait for this reason |
//! | `until needs WORD`, `until needs WORD NODES` | something of this kind needs a person |
//! | `until status ROLLOUT WORD` | its status is this word, also on the resource |
//! | `until condition ROLLOUT TYPE STATUS` | its condition has this status |
//! | `until compartment ROLLOUT NAME TEXT` | the line of the compartment has this text in it |
//! | `until left TEXT` | `show left` prints this |
//! | `until gone ROLLOUT` | there is no such rollout any more |
//! | `until held` | the last commit is not let through |
//! | `until published PHASE` | the status branch says so of the last state |
//! | `until cordoned NODE` | the node is cordoned |
//! | `until schedulable NODE` | it is not |
//! | `until node LINE` | `show nodes` has this line |
//! | `until on NODE TEXT` | the node's line has this text in it |
//! | `until ran NODE CONTAINER COUNT` | the container has ended so often there, well or not |
//! | `until starts NODE CONTAINER` | the container runs there now, or waits |
//! | `until event REASON OBJECT` | there is such an event about the object, and what it says |
//! | `until no executors` | all executor pods are gone |
//! | `show nodes` | each node: schedulable or not, reboots, taints, and its packages |
//! | `show batches ROLLOUT` | how many nodes each batch of each compartment had |
//! | `show compartments ROLLOUT` | each compartment with its ceiling and counters |
//! | `show explain ROLLOUT FLAG…` | what `nodewright explain` says; flags: the floor's |
//! | `show marks NODE` | the keys of ours on a node, annotations and labels, without values |
//! | `show runs NODE`, `show runs NODE PACKAGE` | which stages ran, how they ended, how often |
//! | `show runs NODE pull` | which images were asked for; `show runs NODE` leaves them out |
//! | `show left` | how many objects of each kind are in our namespace |
//! | `show conditions ROLLOUT` | the conditions of the resource |
//! | `show resources` | the resources with their packages |
//! | `show needs` | what needs a person |
//! | `show findings` | what is wrong with the manifests |
//! | `show evicted NS/NAME` | whether the pod was moved or stayed |
//! | `expect cordoned at most N` | no more were at any moment since the beginning |
//! | `expect cordoned never` | none ever was |
//! | `expect on NODE TEXT only with TEXT` | its line never had the one text without the other |

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use nodewright::model::StatusWord;
use nodewright::report::FleetState;

use super::commands::Printed;
use super::view::{is_cordoned, line_of};
use super::world::{CLUSTER, World};
use super::{resources, view};

/// What is asked of a node.
type Question = Box<dyn Fn(&Node) -> bool>;

/// Waits for a fact and prints it.
pub async fn until(world: &World, fact: &[&str]) -> Printed {
    match fact {
        ["complete", rollout] => {
            world.eventually(async || current(world, rollout).await).await?;
            world.until(|state| is_applied(world, state).then(|| complete(state, rollout))?).await
        }
        ["waits", rollout, word, nodes] => {
            world
                .until(|state| is_seen(world, state).then(|| waits(state, rollout, word, nodes))?)
                .await
        }
        ["needs", word] => until_needs(world, word, 1).await,
        ["needs", word, nodes] => {
            let nodes = nodes.parse().map_err(|_| format!("{nodes} is no number"))?;
            until_needs(world, word, nodes).await
        }
        ["status", rollout, word] => until_status(world, rollout, word).await,
        ["left", ..] => {
            let wanted = fact[1..].join(" ");
            let left = async || view::left(world).await.ok().filter(|left| *left == wanted);
            world.eventually(left).await.map(|_| String::new())
        }
        ["condition", rollout, kind, status] => {
            let wanted = format!("{kind}={status} ");
            let found = async || {
                let conditions = view::conditions(world, rollout).await.ok()?;
                conditions.lines().find(|line| line.starts_with(&wanted)).map(str::to_owned)
            };
            world.eventually(found).await
        }
        ["compartment", rollout, name, text @ ..] => {
            let (name, text) = (format!("{name}: "), text.join(" "));
            let found = async || {
                let lines = view::compartments(world, rollout).await.ok()?;
                let mut lines = lines.lines();
                let line = lines.find(|line| line.starts_with(&name) && line.contains(&text))?;
                Some(line.to_owned())
            };
            world.eventually(found).await
        }
        ["gone", rollout] => until_gone(world, rollout).await,
        ["held"] => {
            let held = |state: &FleetState| {
                let held = state.source.held.as_ref().filter(|_| is_seen(world, state))?;
                Some(format!("{}\n  way out: {}", held.why, held.way_out))
            };
            world.until(held).await
        }
        ["published", phase] => published(world, phase).await,
        ["ran", node, container, count] => {
            let count = count.parse().map_err(|_| format!("{count} is no number"))?;
            let ran = async || (view::times_run(world, node, container) >= count).then_some(());
            world.eventually(ran).await.map(|()| String::new())
        }
        ["starts", node, container] => {
            let starts = async || view::is_begun(world, node, container).await.then_some(());
            world.eventually(starts).await.map(|()| String::new())
        }
        ["event", reason, object] => {
            world.eventually(async || view::event(world, reason, object).await).await
        }
        ["no", "executors"] => {
            let none = async || (view::executors(world, None).await.ok()?.is_empty()).then_some(());
            world.eventually(none).await.map(|()| String::new())
        }
        _ => until_node(world, fact).await,
    }
}

async fn until_status(world: &World, rollout: &str, word: &str) -> Printed {
    let is_it = |state: &FleetState| {
        let found = state.rollouts.get(rollout)?;
        let (complete, total) = (found.nodes_complete, found.nodes_total);
        (is_applied(world, state) && format!("{:?}", found.status) == word)
            .then(|| format!("{rollout}: {word}, {complete} of {total} nodes complete"))
    };
    let reached = world.until(is_it).await?;
    // What a person reads on the resource is written a moment after it was decided.
    let shown = async || resources::word(world, rollout).await.filter(|it| it == word);
    world.eventually(shown).await.map(|_| reached)
}

async fn until_gone(world: &World, rollout: &str) -> Printed {
    world.eventually(async || resources::is_gone(world, rollout).await.then_some(())).await?;
    let is_gone = |state: &FleetState| {
        (is_applied(world, state) && !state.rollouts.contains_key(rollout)).then_some(())
    };
    world.until(is_gone).await.map(|()| format!("{rollout} is gone"))
}

/// Waits until so many nodes, or more, need a person for this reason.
async fn until_needs(world: &World, word: &str, nodes: u32) -> Printed {
    let found = |state: &FleetState| {
        let of_this_kind = state.needs_person.iter().filter(|need| need.word == word);
        let found: u32 = of_this_kind.map(|need| need.nodes.total.max(1)).sum();
        (is_seen(world, state) && found >= nodes).then(|| needs(state, Some(word)))?
    };
    world.until(found).await
}

/// Waits for a fact that one Node object shows.
async fn until_node(world: &World, fact: &[&str]) -> Printed {
    let api: Api<Node> = Api::all(world.ground.client("test"));
    let (name, is_it): (&str, Question) = match fact {
        ["cordoned", node] => (node, Box::new(is_cordoned)),
        ["schedulable", node] => (node, Box::new(|node| !is_cordoned(node))),
        ["node", node, ..] => {
            let wanted = fact[1..].join(" ");
            let node = node.trim_end_matches([',', ';']);
            (node, Box::new(move |node| line_of(node) == wanted))
        }
        ["on", node, text @ ..] => {
            let wanted = text.join(" ");
            (node, Box::new(move |node| line_of(node).contains(&wanted)))
        }
        _ => return Err("there is no such fact to wait for; see scenario/facts.rs".to_owned()),
    };
    let line = async || api.get(name).await.ok().filter(|node| is_it(node));
    let node = world.eventually(line).await.map_err(|why| match fact {
        ["node" | "on", ..] => format!("{why}\nthe nodes are not as wanted"),
        _ => why,
    })?;
    // What was waited for as a whole line needs no repetition.
    Ok(if fact[0] == "node" { String::new() } else { line_of(&node) })
}

/// Fails where a fact does not hold, and where that cannot be known.
pub async fn expect(world: &World, fact: &[&str]) -> Printed {
    match fact {
        ["cordoned", "at", "most", most] => {
            let most: usize = most.parse().map_err(|_| format!("{most} is no number"))?;
            match world.watcher.view(world.patience).await?.peak {
                0 => Err("no node was ever cordoned".to_owned()),
                peak if peak <= most => Ok(String::new()),
                peak => Err(format!("{peak} nodes were cordoned at once")),
            }
        }
        ["cordoned", "never"] => match world.watcher.view(world.patience).await?.ever_cordoned {
            none if none.is_empty() => Ok(String::new()),
            nodes => Err(format!("{nodes:?} were cordoned")),
        },
        ["on", node, text @ ..] => {
            let text = text.join(" ");
            let (what, with) = text.split_once(" only with ").ok_or("write TEXT only with TEXT")?;
            let lines = world.watcher.view(world.patience).await?.lines;
            let lines = lines.get(*node).ok_or_else(|| format!("{node} was never there"))?;
            let mut found = lines.iter().filter(|line| line.contains(what)).peekable();
            if found.peek().is_none() {
                return Err(format!("{node} was never like that: {lines:#?}"));
            }
            let without = found.find(|line| !line.contains(with));
            without.map_or(Ok(String::new()), |line| Err(format!("it was once: {line}")))
        }
        _ => Err("there is no such fact to expect; see scenario/facts.rs".to_owned()),
    }
}

/// The daemon has completed the resource as it is now, not as it was a moment ago.
async fn current(world: &World, rollout: &str) -> Option<()> {
    resources::is_complete(world, rollout).await.then_some(())
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

pub fn needs(state: &FleetState, word: Option<&str>) -> Option<String> {
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
