//! What really happened on the hosts, whatever annotations and statuses say of it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use nodewright::model::{
    ExecutorPhase, Group, InterruptKind, Package, PackageId, Phase, Record, Stage,
};
use nodewright::plan::world::World;

/// What is on one host of one package.
#[derive(Debug, Clone, PartialEq)]
pub struct Installed {
    /// The version whose apply or upgrade ran last.
    pub version: String,
    /// The config map that config ran with last; `None` before it ran for this version.
    pub config: Option<BTreeMap<String, String>>,
    /// An interrupt that what ran here asks for and that has not come since.
    pub owed: Option<InterruptKind>,
    /// A person has reset what was recorded of it since: nobody knows how it was configured.
    pub forgotten: bool,
}

/// When an interrupt began, and the boot before it.
pub type Begun = (Timestamp, Option<String>);

/// What is on each host, by UID of the node, then by name of the package.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub hosts: BTreeMap<String, BTreeMap<String, Installed>>,
    /// The version of which something ran and failed since a stage of the package ended well, by
    /// UID of the node and name of the package.
    pub tried: BTreeMap<(String, String), String>,
    /// Order numbers that were handed out, with node and visit, by UID of the resource.
    pub orders: BTreeMap<(String, u32), (String, u64)>,
    /// Those of them that a status has noted as given.
    pub noted: BTreeSet<(String, u32)>,
    /// The order number of each visit.
    pub visits: BTreeMap<(String, String, u64), u32>,
    /// When each interrupt that was ever on record began, and in which boot, by UID of the node,
    /// rollout and visit.
    pub interrupts: BTreeMap<(String, String, u64), BTreeSet<Begun>>,
    /// Visits that a person closed to have the node tried again, by UID of the node and rollout:
    /// the next visit takes the cordon over.
    pub retried: BTreeSet<(String, String, u64)>,
    /// Every package that ever was a snapshot, by its name.
    snapshots: BTreeMap<String, Package>,
    /// The machine behind each Node object, by UID.
    machines: BTreeMap<String, String>,
    /// Executors whose failure has been learnt, by UID of the node.
    failed: BTreeMap<String, BTreeSet<String>>,
    /// The records that were read last, by UID of the node and name of the rollout: most nodes
    /// have at most times the one that they had before.
    records: BTreeMap<String, BTreeMap<String, Record>>,
    read: usize,
    reboots: BTreeMap<String, u32>,
}

impl Ledger {
    /// A person says that what was recorded of a package is not to be counted on, or of all of a
    /// rollout, whose name theirs begin with: nobody knows any more how they were configured.
    pub fn forget_configuration(&mut self, node_uid: &str, prefix: &str) {
        let host = self.hosts.get_mut(node_uid).into_iter().flatten();
        for (_, installed) in host.filter(|(name, _)| name.starts_with(prefix)) {
            installed.forgotten = true;
        }
    }

    /// Takes in what happened since the last call.
    pub fn learn(&mut self, world: &World) {
        self.learn_hosts(world);
        self.learn_reboots(world);
        for (name, snapshot) in &world.input.observed.snapshots {
            if !self.snapshots.contains_key(name) {
                self.snapshots.insert(name.clone(), snapshot.package.clone());
            }
        }
        for (node, package, snapshot, stage, _) in &world.completed[self.read..] {
            let Some(node) = world.input.observed.nodes.get(node) else { continue };
            let Some(wanted) = self.snapshots.get(snapshot) else { continue };
            let host = self.hosts.entry(node.uid.clone()).or_default();
            ran(host, package, wanted, *stage);
            let name = package.split('|').next().unwrap_or_default().to_owned();
            self.tried.remove(&(node.uid.clone(), name));
        }
        self.read = world.completed.len();
        self.learn_tried(world);
        self.learn_records(world);
        self.learn_noted(world);
    }

    fn learn_tried(&mut self, world: &World) {
        for executor in world.input.observed.executors.values() {
            let failed = executor.phase == ExecutorPhase::Failed && executor.begun;
            let node = &executor.visit.node_uid;
            let name = &executor.reference.name;
            let known = self.failed.get(node).is_some_and(|known| known.contains(name));
            if executor.group == Group::Install && failed && !known {
                self.failed.entry(node.clone()).or_default().insert(name.clone());
                let PackageId { name, version } = executor.package.clone();
                self.tried.insert((node.clone(), name), version);
            }
        }
    }

    /// Every status says which numbers are given: those of earlier batches, and the first of each
    /// open one but those whose picks count as refused. A node that went before any status could
    /// be written is such a one.
    fn learn_noted(&mut self, world: &World) {
        for resource in world.input.observed.resources.values() {
            let Some(memory) = resource.status.as_ref().map(|status| &status.memory) else {
                continue;
            };
            let compartments = memory.compartments.values();
            let open: Vec<_> = compartments.filter_map(|all| all.open_batch.as_ref()).collect();
            let is_unsure = |order: u32| {
                open.iter().any(|open| {
                    let next = open.order_from.saturating_add(open.given);
                    let left = next..open.order_from.saturating_add(open.size);
                    left.contains(&order) || open.refused.contains(&order)
                })
            };
            let all = (resource.uid.clone(), 0)..(resource.uid.clone(), memory.order_next);
            let noted = self.orders.range(all).map(|(order, _)| order);
            let new = noted.filter(|it| !is_unsure(it.1) && !self.noted.contains(*it));
            let new: Vec<_> = new.cloned().collect();
            self.noted.extend(new);
        }
    }

    fn learn_records(&mut self, world: &World) {
        for node in world.input.observed.nodes.values() {
            for (name, state) in &node.rollouts {
                let Some(record) = &state.record else { continue };
                let known = self.records.get(&node.uid).and_then(|known| known.get(name));
                if known == Some(record) {
                    continue;
                }
                let known = self.records.entry(node.uid.clone()).or_default();
                known.insert(name.clone(), record.clone());
                if record.node_uid == node.uid {
                    let visit = (record.cr_uid.clone(), node.uid.clone(), record.visit);
                    self.visits.entry(visit).or_insert(record.order);
                    let order = (record.cr_uid.clone(), record.order);
                    self.orders.entry(order).or_insert((node.uid.clone(), record.visit));
                }
                let interrupt = record.interrupt.as_ref();
                if let Some(interrupt) = interrupt.filter(|_| record.phase == Phase::Interrupting) {
                    let visit = (node.uid.clone(), name.clone(), record.visit);
                    self.interrupts
                        .entry(visit)
                        .or_default()
                        .insert((interrupt.since, record.boot_before.clone()));
                }
            }
        }
    }

    /// Nothing that ran is on another machine.
    fn learn_hosts(&mut self, world: &World) {
        for node in world.input.observed.nodes.values() {
            if self.machines.get(&node.uid) != Some(&node.machine_id) {
                self.hosts.remove(&node.uid);
                self.tried.retain(|(host, _), _| *host != node.uid);
                self.machines.insert(node.uid.clone(), node.machine_id.clone());
            }
        }
    }

    /// A reboot does for every package on the host, whoever asked for it.
    fn learn_reboots(&mut self, world: &World) {
        for (name, count) in &world.reboots {
            if self.reboots.get(name) == Some(count) {
                continue;
            }
            self.reboots.insert(name.clone(), *count);
            let Some(node) = world.input.observed.nodes.get(name) else { continue };
            for installed in self.hosts.entry(node.uid.clone()).or_default().values_mut() {
                installed.owed = None;
            }
        }
    }
}

fn ran(host: &mut BTreeMap<String, Installed>, package: &str, wanted: &Package, stage: Stage) {
    let (name, version) = package.split_once('|').unwrap_or((package, ""));
    match stage {
        Stage::Apply | Stage::Upgrade => {
            let owed = wanted.interrupt.as_ref().map(|interrupt| interrupt.kind);
            let version = version.to_owned();
            host.insert(
                name.to_owned(),
                Installed { version, config: None, owed, forgotten: false },
            );
        }
        Stage::Config => {
            let Some(installed) = host.get_mut(name) else { return };
            if let Some(before) = &installed.config {
                let before = Package { config_map: before.clone(), ..wanted.clone() };
                let interrupt = wanted.interrupt_for(&wanted.changed_keys(&before));
                let kinds = interrupt.map(|interrupt| interrupt.kind).into_iter();
                installed.owed = kinds.chain(installed.owed).min();
            }
            installed.config = Some(wanted.config_map.clone());
            installed.forgotten = false;
        }
        // What runs services anew does for every package of the rollout that waited for it.
        Stage::Interrupt => {
            let rollout = name.split('-').next().unwrap_or_default();
            for (other, installed) in host.iter_mut() {
                let same = other.starts_with(rollout);
                if same && installed.owed != Some(InterruptKind::Reboot) {
                    installed.owed = None;
                }
            }
        }
        Stage::Uninstall => {
            host.remove(name);
        }
        Stage::PostInterrupt | Stage::UninstallInterrupt => {}
    }
}
