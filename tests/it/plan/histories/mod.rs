//! Random histories: safety after every event, then faults stop and everything must converge.
//!
//! `NODEWRIGHT_SEED=<n> cargo test plan::histories` repeats one; `NODEWRIGHT_SEEDS=<n>` plays so
//! many, for example a million by hand, from `NODEWRIGHT_SEED_FROM` on. For each rule that breaks,
//! the line that repeats it is printed, and the shortest history that breaks the same rule.
#![expect(clippy::disallowed_methods, reason = "which seeds to play comes from the environment")]

mod ceilings;
mod converge;
mod cores;
mod coverage;
mod draw;
mod edit_during_reboot;
mod event;
mod fleet;
mod floor;
mod happen;
mod invariants;
mod kills;
mod ledger;
mod paces;
mod people;
mod places;
mod policies;
mod shrink;
mod story;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Mutex;

use cores::on_all_cores;
use coverage::Coverage;
use draw::history;
use story::{Broken, play};

/// Histories are many small allocations on several threads: with this they take a fifth less time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Seeds of an ordinary test run.
const SEEDS: u64 = 30;

/// With so many seeds everything that can occur must have occurred.
const COVERING_SEEDS: u64 = 10_000;

/// Rules whose histories are shortened in one report: it takes many plays each.
const SHRUNK_MAX: usize = 3;

/// Seeds that a report names for each rule.
const SEEDS_SHOWN_MAX: usize = 8;

/// Events of a history, before faults stop.
const EVENTS: usize = 200;

#[test]
fn random_histories_are_safe_and_converge() {
    let seeds = match number("NODEWRIGHT_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("NODEWRIGHT_SEED_FROM").unwrap_or(0);
            first..first + number("NODEWRIGHT_SEEDS").unwrap_or(SEEDS)
        }
    };
    let enough = seeds.end - seeds.start >= COVERING_SEEDS;
    let count = seeds.end - seeds.start;
    let Played { failed, occurred } = all(seeds);
    let mut gaps = if enough { occurred.gaps() } else { Vec::new() };
    let plans = occurred.plans;
    writeln!(std::io::stdout(), "{count} histories of {EVENTS} events, {plans} plans")
        .expect("the output is open");
    if !failed.is_empty() {
        gaps.insert(0, report(&failed));
    }
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}

/// What many histories came to.
#[derive(Default)]
struct Played {
    occurred: Coverage,
    /// The seeds that broke each rule, and how.
    failed: BTreeMap<String, BTreeMap<u64, Broken>>,
}

/// Plays seeds on all cores.
fn all(seeds: Range<u64>) -> Played {
    let played = Mutex::new(Played::default());
    on_all_cores(seeds, |seed| {
        let (result, coverage) = play(seed, &history(seed, EVENTS));
        let mut played = played.lock().expect("no thread panics while it holds this");
        played.occurred.merge(coverage);
        if let Err(broken) = result {
            let rule = broken.rule.clone();
            played.failed.entry(rule).or_default().insert(seed, broken);
        }
    });
    played.into_inner().expect("no thread panics while it holds this")
}

/// Says what broke, how to repeat it, and the shortest way there.
fn report(failed: &BTreeMap<String, BTreeMap<u64, Broken>>) -> String {
    let mut text = String::from("histories broke what must hold\n");
    for (number, seeds) in failed.values().enumerate() {
        let Some((seed, broken)) = seeds.first_key_value() else { continue };
        let _ = writeln!(text, "NODEWRIGHT_SEED={seed} cargo test plan::histories  # {broken}");
        let shown: Vec<u64> = seeds.keys().copied().take(SEEDS_SHOWN_MAX).collect();
        let _ = writeln!(text, "  {} such seeds: {shown:?}", seeds.len());
        if number >= SHRUNK_MAX {
            continue;
        }
        let (shortest, last) = shrink::shrink(*seed, &history(*seed, EVENTS), broken);
        let _ = writeln!(text, "  {} of {EVENTS} events do it:", shortest.len());
        for event in &shortest {
            let _ = writeln!(text, "    {event:?}");
        }
        let _ = writeln!(text, "  {last}");
    }
    text
}
