//! The commands that do something; what they print says what was done.

use std::time::Duration;

use nodewright::cluster::approve::{approve as approve_seen, selection};
use nodewright::cluster::source_state::SourceStates;
use nodewright::cluster::stop::{InForce, go, stop_all as stop_all_and_wait};

use super::file::Step;
use super::ground::NAMESPACE;
use super::world::World;
use super::{facts, nodes, resources, view, workloads};
pub use crate::control_plane::plane::with_causes;

/// What a command prints, or why it failed.
pub type Printed = Result<String, String>;

/// Runs one command.
pub async fn run(world: &mut World, step: &Step) -> Printed {
    let words: Vec<&str> = step.command.split_whitespace().collect();
    let input = step.input.as_str();
    match &words[..] {
        ["write", file] => {
            world.tree.insert((*file).to_owned(), input.to_owned());
            done()
        }
        ["replace", "node", ..] => nodes::run(world, &words, input).await.unwrap_or_else(unknown),
        ["replace", file, ..] => replace(world, file, &step.command),
        ["remove", file] => {
            world.tree.remove(*file).ok_or_else(|| format!("there is no {file}"))?;
            done()
        }
        ["push"] => {
            world.push(true);
            done()
        }
        ["push", "rewritten"] => {
            world.push(false);
            done()
        }
        ["accept"] => accept(world).await,
        ["approve", rollout] => approve(world, rollout).await,
        ["stop", "all"] => stop_all(world).await,
        ["go"] => {
            let client = world.ground.client("person");
            let lifted = go(&client, NAMESPACE, world.clock).await;
            lifted.map(|_| String::new()).map_err(|error| with_causes(&error))
        }
        ["start", flags @ ..] => world.start(flags).and_then(|()| done()),
        ["stop"] => {
            let daemon = world.daemon.take().ok_or("the daemon is not started")?;
            daemon.stop().await.map_err(|error| error.to_string())?;
            done()
        }
        ["pass", seconds] => {
            let seconds = seconds.parse().map_err(|_| format!("{seconds} is no number"))?;
            world.clock.sleep(Duration::from_secs(seconds)).await;
            done()
        }
        ["until", fact @ ..] => facts::until(world, fact).await,
        ["show", fact @ ..] => view::show(world, fact).await,
        ["expect", fact @ ..] => facts::expect(world, fact).await,
        _ => {
            if let Some(printed) = nodes::run(world, &words, input).await {
                return printed;
            }
            if let Some(printed) = workloads::run(world, &words).await {
                return printed;
            }
            resources::run(world, &words, input).await.unwrap_or_else(unknown)
        }
    }
}

fn done() -> Printed {
    Ok(String::new())
}

fn unknown() -> Printed {
    Err("there is no such command; see scenario/mod.rs".to_owned())
}

fn replace(world: &mut World, file: &str, command: &str) -> Printed {
    let change = command.split_once(file).map_or("", |(_, change)| change).trim();
    let (old, new) = change.split_once(" => ").ok_or("write: replace FILE OLD => NEW")?;
    let text = world.tree.get_mut(file).ok_or_else(|| format!("there is no {file}"))?;
    if !text.contains(old) {
        return Err(format!("{file} does not hold {old:?}"));
    }
    *text = text.replace(old, new);
    done()
}

/// Returns when the daemon obeys; until `go`, the clock says who stopped it.
async fn stop_all(world: &World) -> Printed {
    let note = format!("a drill at {}", world.clock.now());
    let (client, patience) = (world.ground.client("person"), Duration::from_secs(60));
    match stop_all_and_wait(&client, NAMESPACE, world.clock, &note, patience).await {
        Ok(InForce::Obeyed) => done(),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(with_causes(&error)),
    }
}

/// Lets through what the daemon has seen, as the command line does.
async fn accept(world: &World) -> Printed {
    let states = SourceStates::new(world.ground.client("person"), NAMESPACE, world.clock);
    let pushed = world.pushed.as_ref().ok_or("nothing was pushed")?.to_string();
    world
        .eventually(async || {
            let state = states.read().await.ok()?;
            let is_seen = state.seen.as_ref().is_some_and(|seen| seen.ends_with(&pushed));
            if is_seen { states.accept(&state, &pushed).await.ok() } else { None }
        })
        .await?;
    done()
}

/// Approves what a rollout selects, and says what that is.
async fn approve(world: &World, rollout: &str) -> Printed {
    let client = world.ground.client("person");
    let seen = selection(&client, NAMESPACE, rollout, world.clock).await;
    let seen = seen.map_err(|error| with_causes(&error))?.ok_or("there is no such rollout")?;
    let breadth = seen.breadth.as_ref().ok_or("there is nothing to approve")?;
    let said = if seen.approved { "it was approved before" } else { "approved" };
    let said = format!("{said}: {breadth}");
    let approved = approve_seen(&client, NAMESPACE, rollout, &seen, world.clock).await;
    approved.map(|()| said).map_err(|error| with_causes(&error))
}

/// Splits `NAMESPACE/NAME`.
pub fn in_namespace(name: &str) -> Result<(&str, &str), String> {
    name.split_once('/').ok_or_else(|| format!("{name} names no namespace: write NAMESPACE/NAME"))
}
