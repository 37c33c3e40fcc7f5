//! A commit that edits a manifest while a node is in the middle of its reboot: each node reboots
//! once for each interrupt it owes, whatever the moment, and whatever becomes of the daemon's
//! requests.
//!
//! Reboots are counted by the boot ID of the host: one more for each interrupt that a visit
//! records, and none without. How many interrupts each node owes in the end follows from the edit
//! and from how far the node was when it came.

use std::collections::BTreeMap;

use fastrand::Rng;
use nodewright::model::{Entry, Group, InterruptKind, Node, Package, Phase, Rollout};
use nodewright::plan::world::{End, Fate, World};

use super::super::builders::{PackageExt, WorldExt, package, rollout, world};
use super::cores::first_failure;
use super::draw::stream;
use super::number;

const SEEDS: u64 = 1_000;
const NODES: u32 = 4;

/// Steps until a rollout of four nodes is over, two at a time, with every request at risk.
const STEPS_MAX: usize = 4_000;

/// Seeds of an ordinary test run; `NODEWRIGHT_SEEDS` plays more, up to [`SEEDS`].
const SEEDS_QUICK: u64 = 60;

#[test]
fn edit_during_reboot_each_node_reboots_exactly_once() {
    let seeds = match number("NODEWRIGHT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("NODEWRIGHT_SEEDS").unwrap_or(SEEDS_QUICK).min(SEEDS),
    };
    let failure = first_failure(seeds, |seed| {
        let mut story = Story::new(seed);
        let commit = story.commit;
        story.play().err().map(|why| format!("seed {seed}, {commit:?}: {why}"))
    });
    assert_eq!(failure, None);
}

/// What the commit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    /// A file that needs no interrupt.
    Config,
    /// A file that `configInterrupts` names: nodes that had begun owe a second reboot.
    ConfigInterrupting,
    /// The same, taken back by another commit some moments later.
    ConfigReverted,
    /// The image of the package that reboots.
    Image,
    /// A package without an interrupt is added.
    Add,
    /// A package without an interrupt goes.
    Remove,
    /// The package that reboots goes, and is left on the hosts that have it.
    RemoveRebooting,
    /// The package that reboots goes, and reboots once more after its uninstall.
    RemoveWithUninstall,
    /// A package whose own interrupt is weaker is upgraded: it merges, or is one of its own kind.
    Service,
    /// The package that reboots is upgraded: nodes that had begun owe a second reboot.
    Version,
    /// The same, taken back by another commit some moments later.
    VersionReverted,
    /// No commit: a person pauses the resource, and lets it go on some moments later.
    Pause,
    /// No commit: a person disables the resource, and enables it some moments later.
    Disable,
}

const EDITS: [Edit; 13] = [
    Edit::Config,
    Edit::ConfigInterrupting,
    Edit::ConfigReverted,
    Edit::Image,
    Edit::Add,
    Edit::Remove,
    Edit::RemoveRebooting,
    Edit::RemoveWithUninstall,
    Edit::Service,
    Edit::Version,
    Edit::VersionReverted,
    Edit::Pause,
    Edit::Disable,
];

impl Edit {
    /// Returns whether a second edit takes it back.
    fn is_taken_back(self) -> bool {
        matches!(self, Self::ConfigReverted | Self::VersionReverted | Self::Pause | Self::Disable)
    }
}

fn wanted(commit: Edit) -> Rollout {
    let kernel = package("kernel", "1.0.0")
        .interrupting(InterruptKind::Reboot)
        .on_config("grub.*", InterruptKind::Reboot)
        .with_config("grub.conf", "a")
        .with_config("motd", "x");
    let uninstalls = commit == Edit::RemoveWithUninstall;
    let kernel = if uninstalls { kernel.with_uninstall() } else { kernel };
    let chrony = package("chrony", "1.0.0").interrupting(InterruptKind::Service);
    rollout(2, vec![kernel, chrony, package("tools", "1.0.0")])
}

fn edited(commit: Edit) -> Rollout {
    let mut rollout = wanted(commit);
    let mut change = |name: &str, change: &dyn Fn(&mut Package)| {
        change(rollout.packages.get_mut(name).expect("a package of the story"));
    };
    let key = |key: &'static str| {
        move |kernel: &mut Package| {
            kernel.config_map.insert(key.to_owned(), "other".to_owned());
        }
    };
    let version = |text: &'static str| {
        move |package: &mut Package| package.version = text.parse().expect("a version")
    };
    match commit {
        Edit::Config => change("kernel", &key("motd")),
        Edit::ConfigInterrupting | Edit::ConfigReverted => change("kernel", &key("grub.conf")),
        Edit::Image => {
            change("kernel", &|kernel| "mirror.example/kernel".clone_into(&mut kernel.image));
        }
        Edit::Service => change("chrony", &version("1.0.1")),
        Edit::Version | Edit::VersionReverted => change("kernel", &version("1.1.0")),
        Edit::Add => {
            rollout.packages.insert("sysctl".to_owned(), package("sysctl", "1.0.0"));
        }
        Edit::Remove => {
            rollout.packages.remove("tools");
        }
        Edit::RemoveRebooting | Edit::RemoveWithUninstall => {
            rollout.packages.remove("kernel");
        }
        Edit::Pause | Edit::Disable => {}
    }
    rollout
}

/// One reboot interrupt, as a visit recorded it.
#[derive(Debug)]
struct Interrupt {
    /// The host's boot ID when it was recorded as begun.
    before: String,
    /// The boot ID that proved it.
    after: Option<String>,
}

/// One seed: when the edit comes, and what has been seen so far.
struct Story {
    rng: Rng,
    commit: Edit,
    world: World,
    /// Steps in the middle of a reboot until the edit, then steps until it is taken back.
    patience: [usize; 2],
    edits: usize,
    /// Reboot interrupts, by node and visit.
    interrupts: BTreeMap<(String, u64), Interrupt>,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut rng = stream(seed, 0);
        let commit = EDITS[rng.usize(0..EDITS.len())];
        let patience = [rng.usize(0..12), rng.usize(0..60)];
        let world = world(NODES, wanted(commit));
        Self { rng, commit, world, patience, edits: 0, interrupts: BTreeMap::new() }
    }

    /// Plays until the rollout is over, and counts.
    fn play(&mut self) -> Result<(), String> {
        let mut owed = None;
        for _ in 0..STEPS_MAX {
            if self.edit() {
                owed = Some(self.owed());
            }
            self.step()?;
            self.watch()?;
            if owed.is_some() && self.is_over() {
                break;
            }
        }
        let owed = owed.ok_or_else(|| format!("the edit never came: {}", self.verdicts()))?;
        if !self.is_over() {
            return Err(format!("the rollout does not end: {}", self.verdicts()));
        }
        for (node, owed) in owed {
            let boot_id = &self.world.input.observed.nodes[&node].boot_id;
            if *boot_id != format!("boot-{node}-{owed}") {
                return Err(format!("{owed} reboots are owed, and {node} ends with {boot_id}"));
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.world.lost.is_empty() && self.world.active().is_empty() && self.world.is_complete()
    }

    fn verdicts(&mut self) -> String {
        let names: Vec<String> = self.world.input.observed.nodes.keys().cloned().collect();
        let told = names.iter().map(|name| format!("{name} {}", self.world.verdict(name)));
        told.collect::<Vec<_>>().join("; ")
    }

    /// Edits if it is time to; returns whether that was the last of the story's edits.
    fn edit(&mut self) -> bool {
        let due = match self.edits {
            0 => self.world.input.observed.nodes.values().any(is_rebooting),
            1 => self.commit.is_taken_back(),
            _ => false,
        };
        if !due {
            return false;
        }
        if self.patience[self.edits] > 0 {
            self.patience[self.edits] -= 1;
            return false;
        }
        let first = self.edits == 0;
        match self.commit {
            Edit::Pause | Edit::Disable => {
                let resources = &mut self.world.input.observed.resources;
                let resource = resources.get_mut("tuning").expect("our resource");
                resource.paused = first && self.commit == Edit::Pause;
                resource.disabled = first && self.commit == Edit::Disable;
            }
            commit if first => self.world.set_rollout(edited(commit)),
            commit => self.world.set_rollout(wanted(commit)),
        }
        self.edits += 1;
        !(first && self.commit.is_taken_back())
    }

    /// Returns how often each node must have rebooted in the end, right after the last edit: for
    /// each interrupt that has begun, and for the one that is still to come.
    fn owed(&self) -> BTreeMap<String, usize> {
        let original = wanted(self.commit).packages["kernel"].snapshot_name("tuning");
        let nodes = self.world.input.observed.nodes.iter();
        nodes
            .map(|(name, node)| {
                let begun = self.interrupts.keys().filter(|(node, _)| node == name).count();
                let mut entries = node.entries("tuning").values().filter(|it| it.name == "kernel");
                // What is on record only, and has no pod, is left without a trace.
                let runs = |entry: &Entry| {
                    let mut executors = self.world.input.observed.executors.values();
                    executors.any(|it| {
                        it.group != Group::Pull
                            && it.visit.node == *name
                            && it.package == entry.id()
                    })
                };
                let is_other = |entry: &Entry| {
                    let tried = !entry.untried || runs(entry);
                    tried && entry.snapshot.as_ref() != Some(&original)
                };
                let to_come = match self.commit {
                    Edit::Config
                    | Edit::Image
                    | Edit::Add
                    | Edit::Remove
                    | Edit::Service
                    | Edit::Pause
                    | Edit::Disable => begun == 0,
                    Edit::ConfigInterrupting | Edit::Version => true,
                    // Where the edit has been begun, the way back is one more.
                    Edit::ConfigReverted | Edit::VersionReverted => {
                        begun == 0 || entries.any(is_other)
                    }
                    Edit::RemoveRebooting => false,
                    Edit::RemoveWithUninstall => entries.next().is_some(),
                };
                (name.clone(), begun + usize::from(to_come))
            })
            .collect()
    }

    /// Takes note of interrupts that begin, and checks that each is proven by the next boot of its
    /// host.
    fn watch(&mut self) -> Result<(), String> {
        for (name, node) in &self.world.input.observed.nodes {
            let Some(record) = node.record("tuning", "uid-tuning") else { continue };
            let reboots = |kind| kind == Some(InterruptKind::Reboot);
            if !reboots(record.interrupt.as_ref().map(|interrupt| interrupt.kind)) {
                continue;
            }
            let before = record.boot_before.clone().unwrap_or_default();
            let key = (name.clone(), record.visit);
            let known = self.interrupts.entry(key);
            let interrupt = known.or_insert(Interrupt { before: before.clone(), after: None });
            if interrupt.before != before {
                return Err(format!("{name}: {interrupt:?} begins again at {before}"));
            }
            if record.phase > Phase::Interrupting && interrupt.after.is_none() {
                let after = record.boot_last.clone().unwrap_or_default();
                if boots(&after) != boots(&before) + 1 {
                    return Err(format!("{name}: between {before} and {after} is not one boot"));
                }
                interrupt.after = Some(after);
            }
        }
        for (name, node) in &self.world.input.observed.nodes {
            let begun = self.interrupts.keys().filter(|(node, _)| node == name).count();
            if boots(&node.boot_id) > begun {
                return Err(format!("{name}: {} after {begun} interrupts", node.boot_id));
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        let Self { rng, world, .. } = self;
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
                    let end = end(world, name, rng);
                    world.end(name, end);
                }
            }
            8 => {
                let lost: Vec<String> = world.lost.iter().cloned().collect();
                if let Some(name) = rng.choice(&lost) {
                    world.come_back(name);
                }
            }
            _ => world.pass(rng.i64(1..40)),
        }
        Ok(())
    }
}

/// Returns whether the node's reboot is recorded as begun and not proven.
fn is_rebooting(node: &Node) -> bool {
    node.record("tuning", "uid-tuning").is_some_and(|record| {
        let interrupt = record.interrupt.as_ref();
        record.phase == Phase::Interrupting
            && interrupt.is_some_and(|interrupt| interrupt.kind == InterruptKind::Reboot)
    })
}

/// Returns how often a host of this boot ID has booted since the world began.
fn boots(boot_id: &str) -> usize {
    let count = boot_id.rsplit('-').next().and_then(|count| count.parse().ok());
    count.unwrap_or_else(|| panic!("{boot_id:?} is no boot ID of this world"))
}

fn end(world: &World, name: &str, rng: &mut Rng) -> End {
    let executor = &world.input.observed.executors[name];
    let node = &world.input.observed.nodes[&executor.visit.node];
    if executor.group != Group::Interrupt {
        return if rng.u32(0..12) == 0 { End::Disruption } else { End::Success };
    }
    // A service that restarts takes no node with it.
    if is_rebooting(node) { End::Gone } else { End::Success }
}
