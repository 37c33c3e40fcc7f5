//! A commit that edits a manifest while a node is down for its reboot: each node reboots once for
//! each interrupt it owes, whatever the moment, and whatever becomes of the daemon's requests.

use std::collections::BTreeMap;

use fastrand::Rng;
use nodewright::model::{Group, InterruptKind, Package, Phase, Rollout};
use nodewright::plan::world::{End, Fate, World};

use super::super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::cores::first_failure;
use super::draw::stream;
use super::number;

const SEEDS: u64 = 1_000;
const NODES: u32 = 4;

/// Steps until a rollout of four nodes is over, two at a time, with every request at risk.
const STEPS_MAX: usize = 2_000;

/// Seeds of an ordinary test run; `NODEWRIGHT_SEEDS` plays more, up to [`SEEDS`].
const SEEDS_QUICK: u64 = 60;

#[test]
fn edit_during_reboot_each_node_reboots_exactly_once() {
    let seeds = number("NODEWRIGHT_SEEDS").unwrap_or(SEEDS_QUICK).min(SEEDS);
    let failure = first_failure(0..seeds, |seed| play(seed).err());
    assert_eq!(failure, None);
}

/// What the commit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    /// A file that needs no interrupt.
    Config,
    /// The image of the package that reboots.
    Image,
    /// A package without an interrupt is added.
    Add,
    /// A package without an interrupt goes.
    Remove,
    /// A package whose own interrupt is weaker is upgraded: it merges, or is one of its own kind.
    Service,
    /// The package that reboots is upgraded: nodes that had begun owe a second reboot.
    Version,
}

const EDITS: [Edit; 6] =
    [Edit::Config, Edit::Image, Edit::Add, Edit::Remove, Edit::Service, Edit::Version];

fn wanted() -> Rollout {
    let kernel = package("kernel", "1.0.0")
        .interrupting(InterruptKind::Reboot)
        .on_config("grub.*", InterruptKind::Reboot)
        .with_config("grub.conf", "a")
        .with_config("motd", "x");
    let chrony = package("chrony", "1.0.0").interrupting(InterruptKind::Service);
    rollout(2, vec![kernel, chrony, package("tools", "1.0.0")])
}

fn edit(rollout: &mut Rollout, edit: Edit) {
    let mut change = |name: &str, change: &dyn Fn(&mut Package)| {
        change(rollout.packages.get_mut(name).expect("a package of the story"));
    };
    let version = |text: &str| text.parse().expect("a version");
    match edit {
        Edit::Config => change("kernel", &|kernel| {
            kernel.config_map.insert("motd".to_owned(), "y".to_owned());
        }),
        Edit::Image => {
            change("kernel", &|kernel| "mirror.example/kernel".clone_into(&mut kernel.image));
        }
        Edit::Service => change("chrony", &|chrony| chrony.version = version("1.0.1")),
        Edit::Version => change("kernel", &|kernel| kernel.version = version("1.1.0")),
        Edit::Add => {
            rollout.packages.insert("sysctl".to_owned(), package("sysctl", "1.0.0"));
        }
        Edit::Remove => {
            rollout.packages.remove("tools");
        }
    }
}

/// Plays one seed: the commit comes some steps after the first node went down.
fn play(seed: u64) -> Result<(), String> {
    let mut rng = stream(seed, 0);
    let commit = EDITS[rng.usize(0..EDITS.len())];
    let mut patience = rng.usize(0..12);
    let mut world = world(NODES, wanted());
    let mut owed: Option<BTreeMap<String, u32>> = None;
    for _ in 0..STEPS_MAX {
        if owed.is_none() && !world.lost.is_empty() {
            if patience == 0 {
                owed = Some(reboots_owed(&world, commit));
                let mut rollout = wanted();
                edit(&mut rollout, commit);
                world.set_rollout(rollout);
            }
            patience = patience.saturating_sub(1);
        }
        step(&mut world, &mut rng).map_err(|why| format!("seed {seed}, {commit:?}: {why}"))?;
        if owed.is_some()
            && world.lost.is_empty()
            && world.active().is_empty()
            && world.is_complete()
        {
            break;
        }
    }
    let owed = owed.ok_or_else(|| format!("seed {seed}: no node went down"))?;
    for (node, owed) in &owed {
        let reboots = world.reboots.get(node).copied().unwrap_or(0);
        if reboots != *owed || !world.is_complete() {
            let verdict = world.verdict(node);
            return Err(format!(
                "seed {seed}, {commit:?}: {node} rebooted {reboots} times, not {owed}; {verdict}"
            ));
        }
    }
    Ok(())
}

/// Returns how often each node must have rebooted in the end: once, and once more where the old
/// version's interrupt had begun before a version came that reboots too.
fn reboots_owed(world: &World, commit: Edit) -> BTreeMap<String, u32> {
    let nodes = world.input.observed.nodes.iter();
    nodes
        .map(|(name, node)| {
            let record = node.record("tuning", "uid-tuning");
            let begun = record.is_some_and(|record| record.phase > Phase::Picked);
            (name.clone(), if begun && commit == Edit::Version { 2 } else { 1 })
        })
        .collect()
}

fn step(world: &mut World, rng: &mut Rng) -> Result<(), String> {
    match rng.u32(0..10) {
        0..=4 => {
            let (_, breaches, _) = world.tick(|_| match rng.u32(0..16) {
                0 => Fate::Crash,
                1 => Fate::Lost,
                2 => Fate::Refused,
                _ => Fate::Done,
            });
            if let Some(breach) = breaches.first() {
                return Err(format!("{} ({})", breach.invariant, breach.detail));
            }
        }
        5..=7 => {
            let active = world.active();
            if let Some(name) = rng.choice(&active) {
                let executor = &world.input.observed.executors[name];
                let interrupt = executor.group == Group::Interrupt;
                let end = match rng.u32(0..12) {
                    _ if interrupt => End::Gone,
                    0 => End::Disruption,
                    _ => End::Success,
                };
                // A service that restarts takes no node with it.
                let kind = world.input.observed.nodes[&executor.visit.node]
                    .record("tuning", "uid-tuning")
                    .and_then(|record| record.interrupt.as_ref())
                    .map(|interrupt| interrupt.kind);
                let service = interrupt && kind != Some(InterruptKind::Reboot);
                world.end(name, if service { End::Success } else { end });
            }
        }
        8 => {
            let lost: Vec<String> = world.lost.iter().cloned().collect();
            if let Some(name) = rng.choice(&lost) {
                world.come_back(name);
            }
        }
        _ => world.pass(rng.i64(1..20)),
    }
    Ok(())
}
