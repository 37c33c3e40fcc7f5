//! Scenario files: what NodeWright does, told by text files, on any cluster.
//!
//! In go `tests/scenarios/*.txt`; each is a paragraph of purpose (lines that start with `#`), then
//! commands (`> `) with their input (`| `) below and, below that, what they print. Adding a test
//! means adding a file. The same files run on the embedded cluster (here) and on a real control
//! plane (`control_plane::scenarios`): a transcript says what was reached, never when, so that
//! both print the same. Times and commits are replaced by `<time>` and `<commit>`.
//!
//! **Nodes**
//!
//! | command | what it does |
//! |---|---|
//! | `nodes PREFIX COUNT KEY=VALUE…` | makes nodes `PREFIX-001` and so on, ready, with 8 GPUs |
//! | `drop node NODE`, `replace node NODE` | deletes the Node; `replace`: another machine joins |
//! | `annotate NODE KEY` | sets an annotation of a node to the input; without input removes it |
//! | `label NODE KEY=VALUE`, `label NODE KEY-` | sets a label, removes it |
//! | `taint NODE KEY=VALUE:EFFECT`, `taint NODE KEY-` | adds a taint, removes it |
//! | `cordon NODE`, `uncordon NODE` | as a person does; `as NAME` is another field manager |
//! | `reboot NODE`, `power off NODE`, `power on NODE` | what befalls the machine |
//! | `entry NODE ROLLOUT PACKAGE VERSION STAGE STATE` | rewrites `nodeState`, as `update-state` |
//! | `drop entry NODE ROLLOUT PACKAGE VERSION` | takes it out, as `package rerun` and `reset` |
//! | `retry NODE ROLLOUT` | asks for another try after a failure, as `nodewright retry` |
//! | `reset NODE ROLLOUT` | as `nodewright reset ROLLOUT --node NODE` |
//! | `reset all ROLLOUT` | as `nodewright reset ROLLOUT` |
//! | `reset batches ROLLOUT` | as `nodewright deployment-policy reset ROLLOUT` |
//! | `forget NODE` | as `nodewright forget node/NODE --confirm`, and says what, or why not |
//! | `down NODE HOURS` | a node that is off has been so for hours |
//!
//! **Resources**, with a daemon that was started with `start --source cluster`
//!
//! | command | what it does |
//! |---|---|
//! | `apply` | creates or replaces the resource in the input, as `kubectl apply` |
//! | `patch RESOURCE` | the input, in YAML, as `kubectl patch --type merge` |
//! | `refused` | the API server does not take the resource in the input |
//! | `pause`, `resume`, `disable`, `enable RESOURCE` | sets or removes the annotation |
//! | `delete RESOURCE` | and does not wait for its end |
//!
//! **Workloads and executors**
//!
//! | command | what it does |
//! |---|---|
//! | `workload NS/NAME on NODE KEY=VALUE…` | runs a pod; `replicas=N` gives it a ReplicaSet |
//! | `finish NS/NAME` | the pod ends by itself, with success |
//! | `pdb NS/NAME KEY=VALUE min=N`, `drop pdb NS/NAME` | makes a disruption budget, removes it |
//! | `rule RULE`, `no rules` | how containers end, as `nodewright sim kubelet --rule` has it |
//! | `image PART missing`, `image PART found` | whether images whose name has PART can be pulled |
//! | `deaf NODE`, `hears NODE` | whether its kubelet takes up new pods |
//! | `kill executors NODE` | a person deletes them |
//! | `hold executors NODE`, `free executors NODE` | sets a finalizer on them, removes it |
//! | `lost NODE` | it will not come back from a reboot until it is powered on |
//!
//! **Git and the daemon**
//!
//! | command | what it does |
//! |---|---|
//! | `write FILE`, `replace FILE OLD => NEW`, `remove FILE` | edits the repository |
//! | `push`, `push rewritten` | commits, on top of the branch or instead of its history |
//! | `accept` | lets the held commit through, as `nodewright accept` does |
//! | `start FLAG…`, `stop` | the daemon; each start is another process; flags: see `world.rs` |
//! | `stop all`, `go` | as `nodewright stop --all` and `nodewright go` do |
//! | `approve ROLLOUT` | as `nodewright approve` does, and says what |
//! | `pass SECONDS` | so much time goes by; for what must not happen |
//! | `until …`, `show …`, `expect …` | see `facts.rs` |
//!
//! `NODEWRIGHT_BLESS=1` writes the transcripts anew; `NODEWRIGHT_SCENARIO=uninstall-*` plays only
//! the files with such a name; several are separated by commas.

mod commands;
mod explain;
mod facts;
mod file;
mod ground;
mod look;
mod nodes;
mod resources;
mod view;
mod watcher;
mod watching;
mod workloads;
mod world;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use nodewright::clock::Clock;

use crate::control_plane::ControlPlane;

pub use ground::{Ground, NAMESPACE};
pub use watcher::Watcher;
pub use world::World;

/// Longest time, on the scenario's own clock, that one `until` may take on the embedded cluster.
const PATIENCE_EMBEDDED: Duration = Duration::from_mins(30);

/// How many times as fast as the machine's clock a scenario runs where time cannot be paused:
/// back-offs and reboots get shorter, and the API server still answers well within time-outs.
const SPEED_ON_REAL: u32 = 4;

/// The same limit on a real control plane: three minutes of the machine's time, since it is met
/// only by what would never come, and a machine may be busy with other tests.
const PATIENCE_REAL: Duration = Duration::from_secs(180 * SPEED_ON_REAL as u64);

/// How many scenarios are played side by side on embedded clusters of their own: enough for two
/// cores.
const THREADS: usize = 3;

/// Compares what the scenarios printed with their transcripts, or writes these.
fn check(scenarios: &[file::Scenario], played: &[Result<file::Scenario, String>]) {
    assert!(!scenarios.is_empty(), "tests/scenarios holds no such *.txt: the glob matches nothing");
    let mut wrong = Vec::new();
    for (scenario, played) in scenarios.iter().zip(played) {
        match played {
            Err(why) => wrong.push(format!("{}: {why}", scenario.name())),
            Ok(played) if played == scenario => {}
            Ok(played) if file::is_blessing() => played.save(),
            Ok(played) => wrong.push(scenario.difference(played)),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} scenarios differ; NODEWRIGHT_BLESS=1 cargo test --test it scenario:: writes the \
         transcripts anew\n\n{}",
        wrong.len(),
        scenarios.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_scenario_on_the_embedded_cluster() {
    let scenarios = file::all();
    // Side by side: much of the time goes into waiting, and into child processes.
    let queue = Mutex::new(scenarios.iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> Vec<_> {
        std::iter::from_fn(|| next().map(|(at, it)| (at, play_embedded(it)))).collect()
    };
    let played: BTreeMap<usize, _> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    let played: Vec<_> = played.into_values().collect();
    check(&scenarios, &played);
}

fn play_embedded(scenario: &file::Scenario) -> Result<file::Scenario, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let start = "2026-03-01T08:00:00Z".parse().expect("a valid time");
        let clock = Clock::starting_at(start, 1);
        let ground = Ground::embedded(clock).await;
        play(scenario, ground, clock, PATIENCE_EMBEDDED).await
    })
}

/// Runs every scenario on the control planes, on each one after the other, and cleans up between
/// them.
pub async fn check_all_on(planes: Vec<ControlPlane>) {
    let scenarios = file::all();
    let queue = Mutex::new(scenarios.iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = planes.into_iter().map(async |plane| {
        let ground = Ground::real(Arc::new(plane)).await;
        let mut played = Vec::new();
        while let Some((at, scenario)) = next() {
            let clock = Clock::starting_at(Clock::real().now(), SPEED_ON_REAL);
            played.push((at, play(scenario, ground.clone(), clock, PATIENCE_REAL).await));
            ground.clear().await;
        }
        played
    });
    let played: BTreeMap<usize, _> = join_all(work).await.into_iter().flatten().collect();
    let played: Vec<_> = played.into_values().collect();
    check(&scenarios, &played);
}

/// Runs one scenario and returns it with what its commands printed.
async fn play(
    scenario: &file::Scenario,
    ground: Ground,
    clock: Clock,
    patience: Duration,
) -> Result<file::Scenario, String> {
    let mut world = World::new(ground, clock, patience).await;
    let mut played = scenario.clone();
    let mut outcome = Ok(());
    for step in &mut played.steps {
        match commands::run(&mut world, step).await {
            Ok(text) => step.output = look::redacted(&text),
            Err(why) => {
                outcome = Err(format!("line {}: {}: {why}", step.line, step.command));
                break;
            }
        }
    }
    world.end().await;
    outcome.map(|()| played)
}
