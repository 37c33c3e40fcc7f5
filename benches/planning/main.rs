//! How long the planner takes for a large fleet, and how much memory it asks for.
//!
//! `cargo bench --bench planning` plans fleets of 1,000, 10,000 and 50,000 nodes in every state a
//! rollout can be in, prints a table, and says whether time grows with the number of nodes and not
//! faster. `-- --smoke` is for machines that do other work beside it: small fleets, and it fails
//! where growth or allocations are out of bounds, whatever the time.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark reads the machine's clock and prints"
)]

mod fleet;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use allocation_counter::{AllocationInfo, measure};
use clap::Parser;
use nodewright::model::VerdictKind;
use nodewright::plan::world::World;
use nodewright::plan::{Names, audit, plan_with};

use fleet::{COMPARTMENTS, PACKAGES, STATES, State};

/// Nodes of each fleet.
const NODES: [u32; 3] = [1_000, 10_000, 50_000];

/// Nodes of each fleet of a smoke run.
const NODES_SMOKE: [u32; 3] = [200, 800, 3_200];

/// Plans that are timed of each fleet; the middle one is shown, and the fastest.
const ROUNDS: usize = 15;

/// What a plan of 10,000 nodes may take on one core.
const AIM: Duration = Duration::from_millis(50);
const AIM_NODES: u32 = 10_000;

/// How many times faster than the number of nodes allocations may grow from one size to the next:
/// they are counted, so this is for the few that grow in steps.
const ALLOCATIONS_GROWTH_MAX: f64 = 1.25;

#[derive(Parser)]
struct Arguments {
    /// Small fleets, and failures where growth or allocations are out of bounds.
    #[arg(long)]
    smoke: bool,
    /// Only states whose name has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// Fleets of this size only.
    #[arg(long)]
    nodes: Option<u32>,
    /// Cargo says so to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What plans of one fleet took.
struct Row {
    nodes: u32,
    state: State,
    median: Duration,
    fastest: Duration,
    allocations: AllocationInfo,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let sizes = if arguments.smoke { NODES_SMOKE } else { NODES };
    let sizes = arguments.nodes.map_or(sizes.to_vec(), |nodes| vec![nodes]);
    println!("{PACKAGES} packages, {COMPARTMENTS} compartments; median and fastest of {ROUNDS}");
    println!("growth is by node, from the fleet above: 1.00 is linear");
    println!();
    println!(
        "{:22} {:>7} {:>10} {:>10} {:>7} {:>11} {:>8} {:>7} {:>9}",
        "state", "nodes", "median", "fastest", "growth", "allocations", "by node", "growth", "MiB"
    );
    let mut broken = Vec::new();
    for state in STATES.into_iter().filter(|state| state.word().contains(&arguments.only)) {
        let mut before: Option<Row> = None;
        for &nodes in &sizes {
            let row = plans(nodes, state);
            row.print(before.as_ref());
            if arguments.smoke {
                broken.extend(row.excess(before.as_ref()));
            } else if nodes == AIM_NODES && row.fastest > AIM {
                println!("  slower than {AIM:?} at {nodes} nodes");
            }
            before = Some(row);
        }
    }
    for excess in &broken {
        eprintln!("{excess}");
    }
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plans a fleet several times, and once more to count.
fn plans(nodes: u32, state: State) -> Row {
    let world = state.fleet(nodes);
    check(&world, state, nodes);
    // A daemon that runs knows the digests of what is wanted; one that has just started does not.
    let mut known = Names::default();
    drop(plan_with(&world.input, &mut known));
    let names = || if state == State::Cold { Names::default() } else { known.clone() };
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let mut names = names();
            let began = Instant::now();
            let plan = plan_with(&world.input, &mut names);
            let took = began.elapsed();
            drop(plan);
            took
        })
        .collect();
    times.sort_unstable();
    let mut names = names();
    let allocations = measure(|| drop(plan_with(&world.input, &mut names)));
    Row { nodes, state, median: times[ROUNDS / 2], fastest: times[0], allocations }
}

/// A fleet that is not in the state it ought to be in would measure something else.
fn check(world: &World, state: State, nodes: u32) {
    let plan = plan_with(&world.input, &mut Names::default());
    assert_eq!(audit(&world.input, &plan), [], "the audit agrees with a plan");
    let verdicts: Vec<_> = plan.verdicts.values().flatten().collect();
    assert_eq!(verdicts.len(), nodes as usize, "every node has a verdict");
    let done = verdicts.iter().filter(|(_, verdict)| verdict.kind == VerdictKind::Done).count();
    assert_eq!(done, state.done(nodes), "nodes that are done: {}", state.word());
}

impl Row {
    fn print(&self, before: Option<&Self>) {
        let growth =
            |growth: f64| before.map_or_else(|| "-".to_owned(), |_| format!("{growth:.2}"));
        println!(
            "{:22} {:>7} {:>7.2} ms {:>7.2} ms {:>7} {:>11} {:>8.2} {:>7} {:>9.2}",
            self.state.word(),
            self.nodes,
            self.median.as_secs_f64() * 1e3,
            self.fastest.as_secs_f64() * 1e3,
            growth(self.time_growth(before)),
            self.allocations.count_total,
            self.allocations_by_node(),
            growth(self.allocations_growth(before)),
            mebibytes(self.allocations.bytes_total),
        );
    }

    fn allocations_by_node(&self) -> f64 {
        by_node(self.allocations.count_total, self.nodes)
    }

    fn time_growth(&self, before: Option<&Self>) -> f64 {
        let by_node = |row: &Self| row.fastest.as_secs_f64() / f64::from(row.nodes);
        before.map_or(1.0, |before| by_node(self) / by_node(before))
    }

    fn allocations_growth(&self, before: Option<&Self>) -> f64 {
        before.map_or(1.0, |before| self.allocations_by_node() / before.allocations_by_node())
    }

    /// Returns what is out of bounds.
    fn excess(&self, before: Option<&Self>) -> Vec<String> {
        let bounds = self.state.bounds();
        let bytes = by_node(self.allocations.bytes_total, self.nodes);
        let measured = [
            ("allocations by node", self.allocations_by_node(), bounds.allocations),
            ("bytes by node", bytes, bounds.bytes),
            (
                "growth of allocations by node",
                self.allocations_growth(before),
                ALLOCATIONS_GROWTH_MAX,
            ),
        ];
        let over = measured.into_iter().filter(|(_, measured, bound)| measured > bound);
        over.map(|(what, measured, bound)| {
            let (state, nodes) = (self.state.word(), self.nodes);
            format!("{state}, {nodes} nodes: {what} are {measured:.2}, and {bound:.2} at most")
        })
        .collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn by_node(count: u64, nodes: u32) -> f64 {
    count as f64 / f64::from(nodes)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
