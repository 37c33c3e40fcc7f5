//! The fleet a history begins with, and how its specs are edited.

use fastrand::Rng;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use nodewright::model::{Budget, InterruptKind, Package, Policy, Rollout, Sequencing};
use nodewright::plan::world::{Images, World};

use super::super::builders::noon;
use super::super::builders::{PackageExt, interrupt, package, rollout};
use super::event::Edit;

/// GPUs that a node of the pool offers when all is well.
pub const GPUS: u32 = 8;

/// Rollouts of a history: the first runs on every node, the second on one pool, the third on all.
pub const ROLLOUTS: [&str; 3] = ["base", "tuning", "extras"];

/// Packages that a rollout may have, each with its name in front.
const PACKAGES: [&str; 5] = ["kernel", "chrony", "driver", "sysctl", "tools"];

const VERSIONS: [&str; 4] = ["1.0.0", "1.1.0", "2.0.0", "2.1.0"];

/// Returns the world that a history of `seed` begins with.
pub fn fleet(rng: &mut Rng) -> World {
    let mut world = World::new(noon());
    for number in 0..rng.u32(8..12) {
        let pool = if rng.u8(..) < 170 { "gpu" } else { "cpu" };
        world.add_node(&format!("node-{number:02}"), &[("pool", pool)]);
        world.change_node(&format!("node-{number:02}"), |node| node.gpus = Some(GPUS));
        world.pass(1);
    }
    world.images = if rng.u8(..) < 64 { Images::Pulled } else { Images::AtHand };
    world.input.floor.stop_after = [Some(1), Some(2), None][rng.usize(0..3)];
    world.input.floor.first_use = [Some(1), Some(2), None][rng.usize(0..3)];
    world.input.floor.max_disturbed_percent = [10, 30][rng.usize(0..2)];
    let rollouts = if rng.u8(..) < 80 { 3 } else { 2 };
    for name in &ROLLOUTS[..rollouts] {
        world.set_rollout(fresh(name, rng));
    }
    world
}

/// Returns a rollout with some packages.
pub fn fresh(name: &str, rng: &mut Rng) -> Rollout {
    let mut all = rollout(rng.u32(1..4), Vec::new());
    name.clone_into(&mut all.name);
    all.nodes = if name == ROLLOUTS[1] { pool("gpu") } else { Selector::default() };
    all.priority = match name {
        "base" => 100,
        "tuning" => 200,
        _ => 300,
    };
    if rng.u8(..) < 48 {
        runtime(&mut all, rng.u8(..));
    }
    if rng.u8(..) < 64 {
        all.sequencing = Sequencing::All;
    }
    all.serial = rng.u8(..) < 40;
    for which in 0..2 + rng.u8(0..2) {
        edit(&mut all, Edit::Add { which: which.wrapping_add(rng.u8(0..2)) });
    }
    if rng.u8(..) < 64 {
        edit(&mut all, Edit::Depend { which: rng.u8(..), on: rng.u8(..) });
    }
    if rng.u8(..) < 64 {
        edit(&mut all, Edit::UninstallEnabled { which: rng.u8(..) });
    }
    all
}

/// Returns a selector of one pool.
fn pool(name: &str) -> Selector {
    let pool = ("pool".to_owned(), name.to_owned());
    let selector = LabelSelector { match_labels: Some([pool].into()), match_expressions: None };
    Selector::try_from(selector).expect("a valid selector")
}

/// Returns one of the packages a rollout may have, as it begins.
fn template(rollout: &str, which: u8) -> Package {
    let word = PACKAGES[usize::from(which) % PACKAGES.len()];
    let package = package(&format!("{rollout}-{word}"), "1.0.0").with_config("motd", "x");
    match word {
        "kernel" => package
            .interrupting(InterruptKind::Reboot)
            .on_config("grub.*", InterruptKind::Reboot)
            .with_config("grub.conf", "a"),
        "chrony" => package.interrupting(InterruptKind::Service),
        "driver" => package.interrupting(InterruptKind::Noop),
        "sysctl" => package
            .on_config("sysctl.conf", InterruptKind::RestartAllServices)
            .with_config("sysctl.conf", "a"),
        _ => package,
    }
}

/// Applies one edit; one that would make a spec that validation refuses does nothing.
pub fn edit(rollout: &mut Rollout, edit: Edit) {
    match edit {
        Edit::Add { which } => {
            let package = template(&rollout.name, which);
            rollout.packages.entry(package.name.clone()).or_insert(package);
        }
        Edit::Remove { which } => {
            if let Some(name) = nth_package(rollout, which)
                && rollout.packages.len() > 1
            {
                rollout.packages.remove(&name);
                for package in rollout.packages.values_mut() {
                    package.depends_on.remove(&name);
                }
            }
        }
        Edit::Runtime { to } => runtime(rollout, to),
        Edit::Serial => rollout.serial = !rollout.serial,
        Edit::Budget { to } => {
            rollout.budget = match to % 8 {
                0 => None,
                1 => Some(Budget::Percent(25)),
                2 => Some(Budget::Count(0)),
                count => Some(Budget::Count(u32::from(count) - 2)),
            };
        }
        Edit::Sequencing => {
            rollout.sequencing = match rollout.sequencing {
                Sequencing::Node => Sequencing::All,
                Sequencing::All => Sequencing::Node,
            };
        }
        Edit::Priority { to } => rollout.priority = [100, 200, 300][usize::from(to % 3)],
        Edit::Drain { to } => {
            let drain = &mut rollout.drain;
            match to % 5 {
                0 => drain.disable_eviction = !drain.disable_eviction,
                1 => drain.delete_empty_dir = !drain.delete_empty_dir,
                2 => drain.force = !drain.force,
                3 => drain.ignore_daemon_sets = !drain.ignore_daemon_sets,
                _ => {
                    let timeout = std::time::Duration::from_mins(5);
                    drain.timeout = drain.timeout.is_none().then_some(timeout);
                }
            }
        }
        Edit::Policy { to } => {
            rollout.policy = (to < 100).then(|| "paced".to_owned());
        }
        Edit::Version { which, .. }
        | Edit::Config { which, .. }
        | Edit::DropConfig { which, .. }
        | Edit::Image { which, .. }
        | Edit::Interrupt { which, .. }
        | Edit::UninstallEnabled { which }
        | Edit::UninstallApply { which }
        | Edit::Depend { which, .. } => edit_package(rollout, which, edit),
    }
}

fn edit_package(rollout: &mut Rollout, which: u8, edit: Edit) {
    let Some(name) = nth_package(rollout, which) else { return };
    if let Edit::Depend { on, .. } = edit {
        return depend(rollout, &name, on);
    }
    let Some(package) = rollout.packages.get_mut(&name) else { return };
    match edit {
        Edit::Version { to, .. } => {
            let version = VERSIONS[usize::from(to) % VERSIONS.len()];
            package.version = version.parse().expect("a version");
            for child in rollout.packages.values_mut() {
                if let Some(on) = child.depends_on.get_mut(&name) {
                    version.clone_into(on);
                }
            }
        }
        Edit::Config { key, value, .. } => {
            let keys = ["motd", "grub.conf", "sysctl.conf", "other"];
            let value = ["a", "b", "c"][usize::from(value % 3)];
            let key = keys[usize::from(key) % keys.len()];
            package.config_map.insert(key.to_owned(), value.to_owned());
        }
        Edit::DropConfig { key, .. } => {
            let key = package.config_map.keys().nth(usize::from(key % 4)).cloned();
            if let Some(key) = key {
                package.config_map.remove(&key);
            }
        }
        Edit::Image { to, .. } => {
            package.image = format!("registry.example/{name}/{}", to % 3);
        }
        Edit::Interrupt { to, .. } => {
            package.interrupt = match to % 5 {
                0 => None,
                1 => Some(interrupt(InterruptKind::Reboot)),
                2 => Some(interrupt(InterruptKind::Service)),
                3 => Some(interrupt(InterruptKind::RestartAllServices)),
                _ => Some(interrupt(InterruptKind::Noop)),
            };
        }
        Edit::UninstallEnabled { .. } => {
            package.uninstall.enabled = !package.uninstall.enabled;
            package.uninstall.apply &= package.uninstall.enabled;
        }
        Edit::UninstallApply { .. } => {
            package.uninstall.apply = !package.uninstall.apply && package.uninstall.enabled;
        }
        Edit::Add { .. }
        | Edit::Remove { .. }
        | Edit::Depend { .. }
        | Edit::Serial
        | Edit::Runtime { .. }
        | Edit::Budget { .. }
        | Edit::Sequencing
        | Edit::Priority { .. }
        | Edit::Drain { .. }
        | Edit::Policy { .. } => {}
    }
}

/// What the rollout asks of the taint of nodes that join.
fn runtime(rollout: &mut Rollout, to: u8) {
    rollout.runtime_required = !to.is_multiple_of(4);
    rollout.auto_taint_new_nodes = rollout.runtime_required && to % 4 > 1;
    rollout.runtime_required_cordon_after = to % 4 == 3;
}

/// A package depends on an earlier one by name, so that there is no cycle.
fn depend(rollout: &mut Rollout, name: &str, on: u8) {
    let parent = nth_package(rollout, on).filter(|parent| parent.as_str() < name);
    let Some(parent) = parent else { return };
    let version = rollout.packages[&parent].version.as_str().to_owned();
    let Some(package) = rollout.packages.get_mut(name) else { return };
    if package.depends_on.remove(&parent).is_none() {
        package.depends_on.insert(parent, version);
    }
}

fn nth_package(rollout: &Rollout, which: u8) -> Option<String> {
    let number = usize::from(which).checked_rem(rollout.packages.len())?;
    rollout.packages.keys().nth(number).cloned()
}

/// A new version of everything: it clears failures and stops, and interrupts go away with it.
pub fn renew(world: &mut World) {
    let rollouts: Vec<Rollout> = world.input.desired.rollouts.values().cloned().collect();
    for mut rollout in rollouts {
        for package in rollout.packages.values_mut() {
            package.version = "3.0.0".parse().expect("a version");
            for version in package.depends_on.values_mut() {
                "3.0.0".clone_into(version);
            }
        }
        world.set_rollout(rollout);
    }
}

/// The policy that some rollouts name.
pub fn policy() -> Policy {
    super::super::builders::policy("paced", 2)
}
